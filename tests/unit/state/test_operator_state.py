"""List, union list and broadcast states of a subtask, and how they are dealt out."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firesteel.common.errors import CorruptStateError, IncompatibleStateError, ProgramError
from firesteel.common.serializer import TypeSerializer
from firesteel.common.typeinfo import Types
from firesteel.contracts.state import ListStateDescriptor, MapStateDescriptor
from firesteel.plan.state_handles import StateMeta, StateMode
from firesteel.state.operator_state import OperatorStateBackend
from firesteel.state.snapshot.keyed_snapshot import write_block

LIST = ListStateDescriptor("list", Types.INT())
MAP = MapStateDescriptor("map", Types.STRING(), Types.INT())


def saved(*lists: list[int], union: bool = False) -> list[list[bytes]]:
    """The blocks of subtasks with these lists."""
    found = []
    for items in lists:
        backend = OperatorStateBackend()
        get = backend.get_union_list_state if union else backend.get_list_state
        get(LIST).update(items)
        found.append(backend.snapshot())
    return found


def shares(blocks: list[list[bytes]], parallelism: int, union: bool = False) -> list[list[int]]:
    """What each of the new subtasks gets."""
    found = []
    for subtask in range(parallelism):
        backend = OperatorStateBackend()
        backend.restore(blocks, subtask, parallelism)
        get = backend.get_union_list_state if union else backend.get_list_state
        found.append(list(get(LIST)))
    return found


def test_a_list_is_added_to_replaced_and_cleared() -> None:
    state = OperatorStateBackend().get_list_state(LIST)
    assert list(state) == []
    state.add(1)
    state.add_all([2, 3])
    assert list(state.get()) == [1, 2, 3]
    state.update([4])
    assert list(state) == [4]
    state.clear()
    assert list(state) == []


def test_the_same_name_is_the_same_state() -> None:
    backend = OperatorStateBackend()
    backend.get_list_state(LIST).add(1)
    assert list(backend.get_list_state(LIST)) == [1]


def test_one_name_in_two_ways_is_refused() -> None:
    backend = OperatorStateBackend()
    backend.get_list_state(LIST)
    with pytest.raises(
        ProgramError, match="declared twice in one function: as split state and as union state"
    ):
        backend.get_union_list_state(LIST)


def test_d15_lists_are_dealt_out_evenly() -> None:
    blocks = saved([1, 2, 3], [4, 5])
    assert shares(blocks, 1) == [[1, 2, 3, 4, 5]]
    assert shares(blocks, 3) == [[1], [2, 3], [4, 5]]
    assert shares(blocks, 7) == [[], [1], [2], [], [3], [4], [5]]


def test_lists_stay_where_they_are_when_the_parallelism_does() -> None:
    assert shares(saved([1, 2, 3], [4]), 2) == [[1, 2, 3], [4]]


def test_d16_every_subtask_gets_all_of_a_union_list() -> None:
    assert shares(saved([1, 2], [3], union=True), 3, union=True) == [[1, 2, 3]] * 3


@given(st.lists(st.lists(st.integers(), max_size=5), min_size=1, max_size=4), st.integers(1, 6))
def test_nothing_is_lost_and_nothing_doubled(lists: list[list[int]], parallelism: int) -> None:
    dealt = shares(saved(*lists), parallelism)
    assert [item for share in dealt for item in share] == [item for items in lists for item in items]
    if len(lists) != parallelism:
        assert max(map(len, dealt)) - min(map(len, dealt)) <= 1


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_d17_broadcast_state_is_the_same_for_all(parallelism: int) -> None:
    blocks = []
    for _ in range(2):
        backend = OperatorStateBackend()
        backend.get_broadcast_state(MAP).put_all({"a": 1, "b": 2})
        blocks.append(backend.snapshot())
    for subtask in range(parallelism):
        new = OperatorStateBackend([MAP])
        new.restore(blocks, subtask, parallelism)
        assert dict(new.get_declared_state(MAP).items()) == {"a": 1, "b": 2}
        assert new.get_read_only_state(MAP).get("a") == 1


def test_a_function_gets_only_the_broadcast_states_that_were_declared() -> None:
    backend = OperatorStateBackend([MAP])
    with pytest.raises(ProgramError, match="there is no broadcast state 'other', only 'map'"):
        backend.get_declared_state(MapStateDescriptor("other", Types.INT(), Types.INT()))


def test_states_are_described_and_checked() -> None:
    backend = OperatorStateBackend()
    backend.get_list_state(LIST).add(1)
    backend.get_broadcast_state(MAP)
    assert {(meta.name, meta.mode, meta.kind) for meta in backend.metas()} == {
        ("list", StateMode.SPLIT, "list"),
        ("map", StateMode.BROADCAST, "map"),
    }
    new = OperatorStateBackend(operator="Sink")
    new.restore([backend.snapshot()], 0, 1)
    new.expect(backend.metas())
    with pytest.raises(IncompatibleStateError, match="state 'list' of operator 'Sink'"):
        new.get_list_state(ListStateDescriptor("list", Types.STRING()))


def test_old_items_are_migrated_and_found_under_a_new_name() -> None:
    backend = OperatorStateBackend()
    backend.get_list_state(LIST).add(1)
    backend.get_broadcast_state(MAP).put("a", 1)
    new = OperatorStateBackend()
    new.restore([backend.snapshot()], 0, 1)
    new.expect(backend.metas())
    renamed = ListStateDescriptor("new", Types.STRING())
    renamed.renamed_from("list")
    renamed.set_version(1, lambda value, version: f"{value}@{version}")
    changed = MapStateDescriptor("map", Types.STRING(), Types.STRING())
    changed.set_version(2, lambda value, version: str(value))
    assert list(new.get_list_state(renamed)) == ["1@0"]
    assert dict(new.get_broadcast_state(changed).items()) == {"a": "1"}
    assert new.unregistered() == []


@pytest.mark.parametrize("was_union", [False, True])
def test_a_list_that_is_dealt_out_in_another_way_than_it_was_saved_is_refused(was_union: bool) -> None:
    backend = OperatorStateBackend()
    (backend.get_union_list_state if was_union else backend.get_list_state)(LIST).add(1)
    new = OperatorStateBackend(operator="Sink")
    new.restore([backend.snapshot()], 0, 1)
    new.expect(backend.metas())
    was, wanted = ("union list", "list") if was_union else ("list", "union list")
    with pytest.raises(
        IncompatibleStateError,
        match=rf"'list' of operator 'Sink'.*expected a {wanted} state .*found a {was} state",
    ):
        (new.get_list_state if was_union else new.get_union_list_state)(LIST)


def test_an_item_that_cannot_be_migrated_is_shown() -> None:
    backend = OperatorStateBackend()
    backend.get_list_state(LIST).add(17)
    new = OperatorStateBackend(operator="Sink")
    new.restore([backend.snapshot()], 0, 1)
    new.expect(backend.metas())
    changed = ListStateDescriptor("list", Types.STRING())
    changed.set_version(1, lambda value, version: value["text"])
    with pytest.raises(
        IncompatibleStateError, match=r"state 'list' of operator 'Sink'.* value 17 of version 0"
    ):
        new.get_list_state(changed)


def test_state_that_nobody_asks_for_is_listed_and_can_be_dropped() -> None:
    new = OperatorStateBackend()
    new.restore(saved([1]), 0, 1)
    assert new.unregistered() == ["list"]
    new.drop_unregistered()
    assert new.unregistered() == []
    assert list(new.get_list_state(LIST)) == []


@pytest.mark.parametrize("union", [False, True])
@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_what_nobody_has_asked_for_yet_is_in_the_next_snapshot(union: bool, parallelism: int) -> None:
    """A function may keep the store and ask with a record; until then checkpoints must not lose the state."""
    blocks = saved([1, 2], [3], union=union)
    again = []
    for subtask in range(parallelism):
        backend = OperatorStateBackend()
        backend.restore(blocks, subtask, parallelism)
        backend.expect([StateMeta("list", StateMode.UNION if union else StateMode.SPLIT, "list")])
        again.append(backend.snapshot())
        assert [meta.name for meta in backend.metas()] == ["list"]
    assert shares(again, 1, union) == [[1, 2, 3]]


def test_a_block_of_another_kind_is_refused() -> None:
    backend: Any = OperatorStateBackend()
    with pytest.raises(CorruptStateError, match="a block of operator state begins with"):
        backend.restore([[write_block(("put", "t", False, [], []))]], 0, 1)


class Roman(TypeSerializer[int]):
    """Writes small numbers as letters."""

    def serialize(self, element: int, stream: Any) -> None:
        stream.write(b"roman:" + b"I" * element)

    def deserialize(self, stream: Any) -> int:
        found: bytes = stream.read()
        return found.count(b"I")


def test_items_are_written_and_read_by_the_users_serializer() -> None:
    numbers = ListStateDescriptor("numbers", Roman())
    rules = MapStateDescriptor("rules", Types.STRING(), Roman())
    backend = OperatorStateBackend([rules])
    backend.get_list_state(numbers).update([3, 1])
    backend.get_broadcast_state(rules).put("limit", 4)
    blocks = backend.snapshot()
    assert all(text in b"".join(blocks) for text in (b"roman:III", b"roman:I", b"roman:IIII"))
    other = OperatorStateBackend([rules])
    other.restore([blocks], 0, 1)
    other.expect(backend.metas())
    assert list(other.get_list_state(numbers)) == [3, 1]
    assert list(other.get_broadcast_state(rules).items()) == [("limit", 4)]
