"""Keyed state in dictionaries: each kind per key, names checked, errors with a remedy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from firesteel.common.errors import ProgramError, UnsupportedOperationError
from firesteel.common.typeinfo import Types
from firesteel.contracts.functions import AggregateFunction
from firesteel.contracts.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from firesteel.state.hashmap_backend import HashMapBackend
from firesteel.state.snapshot.operator_snapshot import OperatorSnapshot


@pytest.fixture
def backend() -> HashMapBackend:
    backend = HashMapBackend()
    backend.current_key = "a"
    return backend


def test_value_state_per_key(backend: HashMapBackend) -> None:
    state = backend.get_state(ValueStateDescriptor("v", Types.INT()))
    assert state.value() is None
    state.update(1)
    backend.current_key = "b"
    assert state.value() is None
    state.update(0)
    assert state.value() == 0
    backend.current_key = "a"
    assert state.value() == 1
    state.clear()
    assert state.value() is None
    state.clear()


def test_none_clears_a_value(backend: HashMapBackend) -> None:
    state = backend.get_state(ValueStateDescriptor("v", Types.INT()))
    state.update(1)
    state.update(None)
    assert state.value() is None
    assert backend.table("v") == {}


def test_list_state(backend: HashMapBackend) -> None:
    state = backend.get_list_state(ListStateDescriptor("l", Types.INT()))
    assert list(state.get()) == []
    state.add(1)
    state.add_all([2, 3])
    assert list(state.get()) == [1, 2, 3]
    assert list(state) == [1, 2, 3]
    backend.current_key = "b"
    assert list(state) == []
    backend.current_key = "a"
    state.update([9])
    assert list(state) == [9]
    state.update([])
    assert backend.table("l") == {}


def test_map_state(backend: HashMapBackend) -> None:
    state = backend.get_map_state(MapStateDescriptor("m", Types.STRING(), Types.INT()))
    assert state.is_empty()
    assert state.get("x") is None
    state.put("x", 1)
    state.put_all({"y": 2, "z": 3})
    state["w"] = 4
    assert (state["x"], state.contains("y"), "q" in state) == (1, True, False)
    assert dict(state.items()) == {"x": 1, "y": 2, "z": 3, "w": 4}
    assert sorted(state.keys()) == sorted(state) == ["w", "x", "y", "z"]
    assert sorted(state.values()) == [1, 2, 3, 4]
    for key in state:
        state.remove(key)
    assert state.is_empty()
    assert backend.table("m") == {}
    state.remove("never there")


def test_map_state_per_key(backend: HashMapBackend) -> None:
    state = backend.get_map_state(MapStateDescriptor("m", Types.STRING(), Types.INT()))
    state.put("x", 1)
    backend.current_key = "b"
    assert state.is_empty()
    del state["x"]
    backend.current_key = "a"
    assert state["x"] == 1


def test_a_map_may_hold_none(backend: HashMapBackend) -> None:
    state = backend.get_map_state(MapStateDescriptor("m", Types.STRING(), Types.INT()))
    state.put("x", None)
    assert state.contains("x")
    assert not state.is_empty()


def test_reducing_state(backend: HashMapBackend) -> None:
    state = backend.get_reducing_state(ReducingStateDescriptor("r", lambda a, b: a * b, Types.INT()))
    assert state.get() is None
    for number in (2, 3, 4):
        state.add(number)
    assert state.get() == 24
    state.clear()
    state.add(0)
    assert state.get() == 0


class Average(AggregateFunction):
    def create_accumulator(self) -> Any:
        return (0, 0)

    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator: Any) -> Any:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


def test_aggregating_state(backend: HashMapBackend) -> None:
    state = backend.get_aggregating_state(
        AggregatingStateDescriptor("g", Average(), Types.PICKLED_BYTE_ARRAY())
    )
    assert state.get() is None
    state.add(1)
    state.add(2)
    assert state.get() == 1.5
    backend.current_key = "b"
    assert state.get() is None


def test_the_same_descriptor_gives_the_same_state(backend: HashMapBackend) -> None:
    first = backend.get_state(ValueStateDescriptor("v", Types.INT()))
    assert backend.get_state(ValueStateDescriptor("v", Types.INT())) is first


def test_one_name_for_two_kinds_is_refused(backend: HashMapBackend) -> None:
    backend.get_state(ValueStateDescriptor("v", Types.INT()))
    with pytest.raises(ProgramError, match=r"declared twice.*give each state a name of its own"):
        backend.get_list_state(ListStateDescriptor("v", Types.INT()))


def test_there_is_no_key_before_the_first_record() -> None:
    backend = HashMapBackend()
    value = backend.get_state(ValueStateDescriptor("v", Types.INT()))
    elements = backend.get_list_state(ListStateDescriptor("l", Types.INT()))
    entries = backend.get_map_state(MapStateDescriptor("m", Types.INT(), Types.INT()))
    touches: list[Callable[[], Any]] = [
        value.value,
        value.clear,
        lambda: value.update(1),
        lambda: elements.add(1),
        elements.get,
        lambda: entries.get(1),
        entries.is_empty,
    ]
    for touch in touches:
        with pytest.raises(UnsupportedOperationError, match="no key before the first record"):
            touch()


def test_adding_nothing_stores_nothing(backend: HashMapBackend) -> None:
    backend.get_list_state(ListStateDescriptor("l", Types.INT())).add_all([])
    backend.get_map_state(MapStateDescriptor("m", Types.INT(), Types.INT())).put_all({})
    assert backend.table("l") == backend.table("m") == {}


# Namespaces -----------------------------------------------------------------------------------------


SUM = ReducingStateDescriptor("sum", lambda a, b: a + b, Types.INT())


def test_namespaced_state_is_per_key_and_namespace(backend: HashMapBackend) -> None:
    state = backend.namespaced(SUM)
    for key, window, value in [("a", 1, 10), ("a", 2, 20), ("b", 1, 30), ("a", 1, 5)]:
        backend.current_key = key
        state.set_namespace(window)
        state.add(value)
    assert backend.namespaced_table("sum") == {("a", 1): 15, ("a", 2): 20, ("b", 1): 30}


def test_a_name_may_be_used_with_and_without_namespaces(backend: HashMapBackend) -> None:
    plain, namespaced = backend.get_reducing_state(SUM), backend.namespaced(SUM)
    namespaced.set_namespace("w")
    plain.add(1)
    namespaced.add(2)
    assert dict(backend.tables()) == {("sum", False): {"a": 1}, ("sum", True): {("a", "w"): 2}}


def test_states_of_one_scope_turn_together(backend: HashMapBackend) -> None:
    scope = backend.scope()
    total, last = (
        backend.namespaced(SUM, scope),
        backend.namespaced(ValueStateDescriptor("last", Types.INT()), scope),
    )
    assert backend.namespaced(SUM, scope) is total
    scope.set_namespace(7)
    total.add(1)
    last.update(1)
    assert backend.namespaced_table("sum") == backend.namespaced_table("last") == {("a", 7): 1}


def test_one_namespaced_name_for_two_kinds_is_refused(backend: HashMapBackend) -> None:
    scope = backend.scope()
    backend.namespaced(SUM, scope)
    with pytest.raises(ProgramError, match="declared twice"):
        backend.namespaced(ValueStateDescriptor("sum", Types.INT()), scope)


def test_clear_namespace(backend: HashMapBackend) -> None:
    backend.namespaced_table("x").update({("a", 1): 1, ("a", 2): 2, ("b", 1): 3})
    backend.clear_namespace("a", 1, ["x", "never declared"])
    assert backend.namespaced_table("x") == {("a", 2): 2, ("b", 1): 3}


@pytest.mark.parametrize(
    ("descriptor", "before", "merged"),
    [
        (ListStateDescriptor("s", Types.INT()), {1: [1], 2: [2], 3: [3]}, [3, 1, 2]),
        (
            ReducingStateDescriptor("s", lambda a, b: f"{a}{b}", Types.STRING()),
            {1: "a", 2: "b", 3: "c"},
            "cab",
        ),
        (
            AggregatingStateDescriptor("s", Average(), Types.PICKLED_BYTE_ARRAY()),
            {1: (1, 1), 2: (5, 2)},
            (6, 3),
        ),
        (ListStateDescriptor("s", Types.INT()), {3: [3]}, [3]),
        (ListStateDescriptor("s", Types.INT()), {}, None),
    ],
)
def test_merge_namespaces(backend: HashMapBackend, descriptor: Any, before: Any, merged: Any) -> None:
    table = backend.namespaced_table("s")
    table.update({("a", window): value for window, value in before.items()})
    table["b", 1] = "another key's"
    backend.merge_namespaces(descriptor, 3, [1, 2])
    assert table == {("b", 1): "another key's"} | ({} if merged is None else {("a", 3): merged})


def test_value_state_cannot_merge(backend: HashMapBackend) -> None:
    backend.namespaced_table("v").update({("a", 1): 1, ("a", 2): 2})
    with pytest.raises(UnsupportedOperationError, match="only list, reducing and aggregating state"):
        backend.merge_namespaces(ValueStateDescriptor("v", Types.INT()), 1, [2])


# Snapshots ------------------------------------------------------------------------------------------


def test_a_snapshot_is_a_copy_that_can_be_restored_twice(backend: HashMapBackend) -> None:
    state = backend.get_list_state(ListStateDescriptor("l", Types.INT()))
    state.add(1)
    backend.namespaced_table("w")["a", 5] = "x"
    queue = backend.timer_queue("t")
    queue.add(7, "a")
    snapshot = OperatorSnapshot.of(backend)
    state.add(2)
    for _ in range(2):
        other = HashMapBackend()
        other.current_key = "a"
        snapshot.restore(other)  # before the queue is there
        assert list(other.timer_queue("t").due(10)) == [(7, "a")]
        restored = other.get_list_state(ListStateDescriptor("l", Types.INT()))
        assert list(restored) == [1]
        restored.add(3)
        assert other.namespaced_table("w") == {("a", 5): "x"}
        early = HashMapBackend()
        queue2 = early.timer_queue("t")
        snapshot.restore(early)
        assert list(queue2.entries()) == [(7, "a")]
