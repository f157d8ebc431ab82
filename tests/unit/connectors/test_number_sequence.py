import pytest
from hypothesis import given
from hypothesis import strategies as st

from firesteel.common.errors import ProgramError
from firesteel.connectors.number_sequence import NumberSequenceSource
from firesteel.contracts.source import Boundedness


def test_both_ends_are_included(drive):
    assert drive(NumberSequenceSource(1, 5)).values(limit=2) == [1, 2, 3, 4, 5]


@given(st.integers(-50, 50), st.integers(0, 200), st.integers(1, 9))
def test_subtasks_share_evenly_in_order_without_gaps(start, length, parallelism):
    source = NumberSequenceSource(start, start + length)
    shares = [source.numbers_of(subtask, parallelism) for subtask in range(parallelism)]
    assert [n for share in shares for n in share] == list(range(start, start + length + 1))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_more_subtasks_than_numbers_leave_some_without_work(drive):
    assert [drive(NumberSequenceSource(7, 7), subtask, 3).values() for subtask in range(3)] == [[], [], [7]]


def test_numbers_may_be_huge(drive):
    driven = drive(NumberSequenceSource(0, 2**63 - 1))
    assert driven.poll(3).values == [0, 1, 2]


def test_a_stopped_source_leaves_out_the_rest(drive):
    driven = drive(NumberSequenceSource(0, 99))
    driven.poll(10)
    driven.reader.stop()
    assert driven.poll(10).values == []
    assert driven.poll(10).ended


def test_it_is_bounded_and_parallel():
    source = NumberSequenceSource(1, 2)
    assert source.boundedness is Boundedness.BOUNDED
    assert source.max_subtasks is None


def test_an_end_before_the_start_is_refused():
    with pytest.raises(ProgramError, match="start <= end, got start 5 and end 1"):
        NumberSequenceSource(5, 1)
