import pytest

from firesteel.checkpoint.manifest import Manifest, OperatorState
from firesteel.checkpoint.matching import ProgramOperator, match
from firesteel.checkpoint.stored_checkpoint import StoredCheckpoint
from firesteel.common.errors import IncompatibleStateError
from firesteel.plan.state_handles import OperatorHandle, OperatorRestore, Segment, StateMeta, StateMode

SEGMENT = Segment("f", 12, 10, 1, 0)
EMPTY = Segment("f", 12, 0, 0, 0)


def keyed(id="a", segment=SEGMENT, **options):
    states = (StateMeta("count", StateMode.KEYED, "value"), StateMeta("seen", StateMode.KEYED, "map"))
    return saved(id, OperatorHandle(id, 0, keyed=(segment,), states=states), **options)


def listed(id="a", **options):
    return saved(
        id, OperatorHandle(id, 0, lists=SEGMENT, states=(StateMeta("l", StateMode.SPLIT, "list"),)), **options
    )


def saved(
    id, handle, name="Count", parallelism=2, max_parallelism=128, uid=None, enumerator=None, types=None
):
    return OperatorState(id, name, parallelism, max_parallelism, uid, (handle,), enumerator, types or {})


def operator(id="a", parallelism=2, max_parallelism=128, **options):
    return ProgramOperator(id, options.pop("name", "Count"), parallelism, max_parallelism, **options)


def point(*operators):
    return StoredCheckpoint(Manifest("j", "n", 7, 0, operators=operators), "/base", "/base/chk-7")


def test_same_program_gets_its_state():
    state = keyed()
    result = match(point(state), [operator()])
    assert (result.restore.checkpoint_id, result.restore.root) == (7, "/base")
    assert result.restore.operators == {"a": OperatorRestore(2, 128, state.subtasks)}
    assert (result.max_parallelism, result.dropped) == ({}, ())


def test_new_operator_starts_empty():
    assert set(match(point(keyed()), [operator(), operator("b")]).restore.operators) == {"a"}


def test_parallelism_may_change_up_to_the_maximum():
    for parallelism in (1, 3, 128):
        match(point(keyed()), [operator(parallelism=parallelism)])
    with pytest.raises(
        IncompatibleStateError, match=r"parallelism 129, but .* max parallelism 128.*at most 128"
    ):
        match(point(keyed()), [operator(parallelism=129, max_parallelism=256)])


def test_enumerators_are_handed_over():
    state = saved("s", OperatorHandle("s", 0), enumerator=b"e")
    assert match(point(state), [operator("s")]).enumerators == {"s": b"e"}


def test_unmatched_state_is_refused_with_names_and_remedy():
    with pytest.raises(IncompatibleStateError) as caught:
        match(
            point(keyed(uid="counter"), listed("b", name="Buffer")),
            [operator("c", name="Other", uid="other")],
        )
    text = str(caught.value)
    assert "/base/chk-7 has state that no operator of the program can take" in text
    assert "operator 'Count' (uid 'counter'): 'count' (value), 'seen' (map)" in text
    assert "operator 'Buffer' (no uid, id b): 'l' (list)" in text
    assert "-n (--allowNonRestoredState)" in text
    assert "set_uid_hash() with the id above" in text
    assert "uid() on every operator" in text
    assert "would start without state: operator 'Other' (uid 'other')" in text


def test_unmatched_state_can_be_dropped():
    gone = keyed()
    result = match(point(gone, keyed("b")), [operator("b")], allow_non_restored=True)
    assert set(result.restore.operators) == {"b"}
    assert result.dropped == (gone,)


def test_operator_that_is_stateless_now_cannot_restore_state():
    with pytest.raises(IncompatibleStateError, match="no operator of the program can take"):
        match(point(keyed()), [operator(stateful=False)])


@pytest.mark.parametrize("enumerator", [None, b"e"])
def test_positions_of_a_source_are_state(enumerator):
    handle = OperatorHandle("s", 0, lists=SEGMENT, states=(StateMeta("\0splits", StateMode.SPLIT, "list"),))
    with pytest.raises(IncompatibleStateError, match=r"'Read'.*: positions of its source\n"):
        match(point(saved("s", handle, name="Read", enumerator=enumerator)), [])


def test_operators_without_state_may_go():
    gone = (saved("x", OperatorHandle("x", 0)), keyed("y", EMPTY))
    assert match(point(*gone), []).dropped == ()


def test_changed_max_parallelism_is_refused_with_both_numbers():
    with pytest.raises(
        IncompatibleStateError,
        match=r"'Count' \(uid 'c'\) has max parallelism 64.*128.*set_max_paral.*\(128\)",
    ):
        match(point(keyed()), [operator(max_parallelism=64, uid="c")])


def test_max_parallelism_that_the_program_leaves_open_is_adopted():
    result = match(
        point(keyed()), [operator(parallelism=100, max_parallelism=256, max_parallelism_is_given=False)]
    )
    assert result.max_parallelism == {"a": 128}


def test_max_parallelism_is_about_keyed_state_only():
    for state in (listed(), keyed(segment=EMPTY)):
        result = match(point(state), [operator(parallelism=200, max_parallelism=512)])
        assert result.max_parallelism == {}


def test_another_type_of_what_an_operator_keeps_is_refused_with_both_types():
    state = keyed(types={"keys": "String", "records": "Integer"})
    for what, wanted in (("keys", "Integer"), ("records", "Double")):
        with pytest.raises(
            IncompatibleStateError,
            match=rf"'Count' \(uid 'c'\) .*expected {what} of type {wanted}, found {what} of type {state.types[what]}; "
            r"go back to the old type.*another uid",
        ):
            match(point(state), [operator(uid="c", state_types={**state.types, what: wanted})])
    with pytest.raises(IncompatibleStateError):  # nor does -n help
        match(point(state), [operator(state_types={"keys": "Integer"})], allow_non_restored=True)


def test_types_that_were_or_are_left_open_are_not_compared_and_not_forgotten():
    result = match(point(keyed(types={"keys": "String"})), [operator(state_types={"records": "Integer"})])
    assert result.state_types == {"a": {"keys": "String", "records": "Integer"}}


def test_types_matter_only_where_there_is_state():
    types = {"keys": "String"}
    for state in (listed(types=types), keyed(segment=EMPTY, types=types)):
        match(point(state), [operator(state_types={"keys": "Integer"})])
