import pytest
from hypothesis import given
from hypothesis import strategies as st

from firesteel.plan.exchange import Auto, Broadcast, Forward, Global, Rebalance, Rescale, Shuffle, resolved

counts = st.integers(1, 20)


@pytest.mark.parametrize("distribution", [Rebalance(), Rescale(), Shuffle(), Broadcast(), Global()])
@given(senders=counts, receivers=counts)
def test_sources_are_the_inverse_of_targets(distribution, senders, receivers):
    forth = {(s, r) for s in range(senders) for r in distribution.targets(s, senders, receivers)}
    back = {(s, r) for r in range(receivers) for s in distribution.sources(r, senders, receivers)}
    assert forth == back
    assert {s for s, _ in forth} == set(range(senders)), "every sender has a receiver"


@given(senders=counts, receivers=counts)
def test_rescale_reaches_every_receiver_in_groups_that_do_not_overlap(senders, receivers):
    groups = [set(Rescale().targets(s, senders, receivers)) for s in range(senders)]
    assert set().union(*groups) == set(range(receivers))
    if receivers >= senders:
        assert sum(map(len, groups)) == receivers
    else:
        assert all(len(group) == 1 for group in groups)


def test_forward_connects_equal_indexes():
    assert [list(Forward().targets(s, 3, 3)) for s in range(3)] == [[0], [1], [2]]


def test_auto_becomes_forward_between_equals_and_rebalance_otherwise():
    assert resolved(Auto(), 2, 2) == Forward()
    assert resolved(Auto(), 2, 3) == Rebalance()
    assert resolved(Shuffle(), 2, 2) == Shuffle()
