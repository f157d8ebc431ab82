"""What states of every kind hold for a key, as those who ask for it see it, on backends that keep little in memory, too."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from firesteel.common.time import Time
from firesteel.common.typeinfo import Types
from firesteel.contracts.functions import AggregateFunction
from firesteel.contracts.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from firesteel.plan.messages import QueryState
from firesteel.runtime.queryable_states import TaskQueryableStates
from firesteel.state.cached.custom_backend import CustomBackend, OpenedStore
from firesteel.state.cached.disk_backend import DiskBackend
from firesteel.state.hashmap_backend import HashMapBackend
from firesteel.state.keyed_backend import KeyedBackend
from firesteel.testing.manual_clock import ManualClock
from firesteel.testing.state_stores import DictStore

MANY = 300  # more than a collection may have to be in memory as a whole, below
Make = Callable[[Callable[[], float]], KeyedBackend]

MAKERS: dict[str, Make] = {
    "hashmap": HashMapBackend,
    "disk": lambda clock: DiskBackend(clock, cache_entries=2, map_size=1 << 20, large_from=100),
    "store": lambda clock: CustomBackend(
        OpenedStore(DictStore, "DictStore"), clock, cache_entries=2, large_from=100
    ),
}


class Asked:
    """A backend whose states are asked for."""

    def __init__(self, make: Make) -> None:
        self.clock = ManualClock(1000.0)
        self.backend = make(self.clock.now)
        self.states = TaskQueryableStates()
        self.states.watch(self.backend, 0, 0, "a" * 32)

    def state(self, descriptor: StateDescriptor) -> Any:
        descriptor.set_queryable("asked")
        return self.backend.get_keyed_state(descriptor)

    def fill(self, state: Any, key: Any, change: Callable[[Any], None]) -> None:
        self.backend.turn_to(key)
        change(state)

    def ask(self, key: Any) -> Any:
        answer = self.states.answer(QueryState(1, "asked", key))
        assert not answer.problem
        return None if answer.value is None else json.loads(answer.value)


@pytest.fixture(params=MAKERS)
def asked(request: pytest.FixtureRequest) -> Iterator[Asked]:
    made = Asked(MAKERS[request.param])
    yield made
    made.backend.close()


class Largest(AggregateFunction):
    def create_accumulator(self) -> set[int]:
        return set()

    def add(self, value: int, accumulator: set[int]) -> set[int]:
        return accumulator | {value}

    def get_result(self, accumulator: set[int]) -> tuple[int, int]:
        return max(accumulator), len(accumulator)

    def merge(self, left: set[int], right: set[int]) -> set[int]:
        return left | right


def test_every_kind_shows_what_its_function_would_see(asked: Asked) -> None:
    cases: list[tuple[StateDescriptor, Callable[[Any, int], None], Callable[[int], Any]]] = [
        (ValueStateDescriptor("v", Types.LONG()), lambda s, n: s.update(n), lambda n: n),
        (ListStateDescriptor("l", Types.LONG()), lambda s, n: s.add_all([n, n]), lambda n: [n, n]),
        (
            MapStateDescriptor("m", Types.LONG(), Types.LONG()),
            lambda s, n: s.put(n, 2 * n),
            lambda n: [[n, 2 * n]],
        ),
        (ReducingStateDescriptor("r", lambda a, b: a + b, Types.LONG()), lambda s, n: s.add(n), lambda n: n),
        (
            AggregatingStateDescriptor("a", Largest(), Types.PICKLED_BYTE_ARRAY()),
            lambda s, n: s.add(n),
            lambda n: [n, 1],
        ),
    ]
    for descriptor, change, expected in cases:
        asked.states = TaskQueryableStates()
        asked.states.watch(asked.backend, 0, 0, "a" * 32)
        state = asked.state(descriptor)
        for key in range(1, 21):
            asked.backend.turn_to(key)
            change(state, key)
        assert [asked.ask(key) for key in range(1, 21)] == [expected(key) for key in range(1, 21)], descriptor
        assert asked.ask(99) is None


def test_large_collections_are_shown_whole(asked: Asked) -> None:
    state = asked.state(ListStateDescriptor("l", Types.LONG()))
    entries = MapStateDescriptor("m", Types.STRING(), Types.LONG())
    entries.set_queryable("entries")
    mapped = asked.backend.get_map_state(entries)
    asked.backend.turn_to("ada")
    state.add_all(list(range(MANY)))
    mapped.put_all({str(n): n for n in range(MANY)})
    for other in range(20):
        asked.fill(state, other, lambda each: each.add(1))
    assert asked.ask("ada") == list(range(MANY))
    answer = asked.states.answer(QueryState(1, "entries", "ada"))
    assert answer.value is not None
    assert json.loads(answer.value) == {str(n): n for n in range(MANY)}


def test_what_has_expired_is_not_shown_and_nothing_is_renewed(asked: Asked) -> None:
    descriptor = ValueStateDescriptor("v", Types.LONG())
    descriptor.enable_time_to_live(
        StateTtlConfig.new_builder(Time.seconds(10))
        .set_update_type(StateTtlConfig.UpdateType.OnReadAndWrite)
        .build()
    )
    state = asked.state(descriptor)
    asked.fill(state, "ada", lambda each: each.update(3))
    asked.clock.advance(6)
    assert asked.ask("ada") == 3
    asked.clock.advance(6)
    assert asked.ask("ada") is None


def test_a_look_up_between_two_slices_of_a_snapshot_changes_nothing_of_it(asked: Asked) -> None:
    state = asked.state(ValueStateDescriptor("v", Types.LONG()))
    for key in range(50):
        asked.backend.turn_to(key)
        state.update(key)
    snapshot = asked.backend.begin_snapshot(1)
    pieces: list[bytes] = []
    while not snapshot.done:
        pieces += snapshot.step(5)
        assert [asked.ask(key) for key in (0, 25, 49)] == [0, 25, 49]
    other = HashMapBackend()
    for piece in pieces:
        other.restore_block(piece)
    assert dict(other.table("v")) == {key: key for key in range(50)}
