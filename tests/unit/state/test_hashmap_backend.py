"""Keyed state in dictionaries: each kind per key, names checked, errors with a remedy."""

from __future__ import annotations

from typing import Any

import pytest

from firesteel.common.errors import ProgramError
from firesteel.common.time import Time
from firesteel.common.typeinfo import Types
from firesteel.contracts.functions import AggregateFunction
from firesteel.contracts.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from firesteel.state.hashmap_backend import HashMapBackend


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


def test_time_to_live_is_refused_until_it_exists(backend: HashMapBackend) -> None:
    descriptor = ValueStateDescriptor("v", Types.INT())
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.seconds(1)).build())
    with pytest.raises(NotImplementedError, match="'v' asks for a time to live"):
        backend.get_state(descriptor)
