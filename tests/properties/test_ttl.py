"""State that expires against a model that keeps every element with its time in a list and looks at all of them."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
from firesteel.testing.manual_clock import ManualClock
from firesteel_support.effort import cases

TTL = 20
CASES = cases(500, 3_000)  # per kind of state and test
KEYS = SUBKEYS = 2


class Digits(AggregateFunction):
    """An accumulator of another type than its values and its results."""

    def create_accumulator(self) -> Any:
        return ""

    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator + str(value)

    def get_result(self, accumulator: Any) -> Any:
        return int(accumulator)

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a + acc_b


@dataclass
class Cell:
    subkey: Any
    value: Any
    time: int


class Model:
    """All cells of all keys. An expired cell goes when it is read, and is shown by that read or not."""

    def __init__(self, on_read: bool, shows_expired: bool) -> None:
        self.on_read, self.shows_expired = on_read, shows_expired
        self.now = 0
        self.cells: dict[int, list[Cell]] = {key: [] for key in range(KEYS)}

    def expired(self, cell: Cell) -> bool:
        return cell.time + TTL <= self.now

    def read(self, key: int, subkey: Any = None) -> list[Cell]:
        shown = []
        for cell in list(self.cells[key]):
            if subkey is not None and cell.subkey != subkey:
                continue
            if self.expired(cell):
                self.cells[key].remove(cell)
                if not self.shows_expired:
                    continue
            elif self.on_read:
                cell.time = self.now
            shown.append(Cell(cell.subkey, cell.value, 0))
        return shown

    def usable(self, key: int) -> list[Any]:
        return [c.value for c in self.cells[key] if self.shows_expired or not self.expired(c)]

    def write(self, key: int, subkey: Any, value: Any) -> None:
        self.cells[key] = [c for c in self.cells[key] if c.subkey != subkey]
        self.cells[key].append(Cell(subkey, value, self.now))


class Pair:
    """The state and the model side by side; each operation is done to both, and what they say must be equal."""

    def __init__(self, descriptor: Any, config: StateTtlConfig) -> None:
        descriptor.enable_time_to_live(config)
        self.clock = ManualClock(1000.0)
        self.backend = HashMapBackend(self.clock.now)
        self.state = self.backend.get_keyed_state(descriptor)
        self.model = Model(
            config.get_update_type() is StateTtlConfig.UpdateType.OnReadAndWrite,
            config.get_state_visibility() is StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp,
        )

    def wait(self, milliseconds: int) -> None:
        self.clock.advance(milliseconds / 1000)
        self.model.now += milliseconds

    def value(self, action: int, key: int, subkey: int, value: int) -> None:
        if action % 2:
            self.state.update(value)
            self.model.write(key, None, value)
        else:
            shown = self.model.read(key)
            assert self.state.value() == (shown[0].value if shown else None)

    def list(self, action: int, key: int, subkey: int, value: int) -> None:
        cells, now = self.model.cells, self.model.now
        if action == 1:
            self.state.add(value)
            cells[key].append(Cell(None, value, now))
        elif action == 2:
            self.state.add_all([value] * subkey)
            cells[key] += [Cell(None, value, now) for _ in range(subkey)]
        elif action == 3:
            self.state.update([value] * subkey)
            cells[key] = [Cell(None, value, now) for _ in range(subkey)]
        else:
            assert list(self.state.get()) == [cell.value for cell in self.model.read(key)]

    def map(self, action: int, key: int, subkey: int, value: int) -> None:
        if action == 1:
            self.state.put(subkey, value)
            self.model.write(key, subkey, value)
        elif action == 2:
            self.state.remove(subkey)
            self.model.cells[key] = [c for c in self.model.cells[key] if c.subkey != subkey]
        elif action == 3:
            assert dict(self.state.items()) == {c.subkey: c.value for c in self.model.read(key)}
        elif action == 4:
            assert self.state.contains(subkey) == bool(self.model.read(key, subkey))
        elif action == 5:
            assert self.state.is_empty() == (not self.model.usable(key))
        else:
            shown = self.model.read(key, subkey)
            assert self.state.get(subkey) == (shown[0].value if shown else None)

    def reducing(self, action: int, key: int, subkey: int, value: int) -> None:
        if action % 2:
            self.state.add(value)
            self.model.write(key, None, sum([*self.model.usable(key), value]))
        else:
            shown = self.model.read(key)
            assert self.state.get() == (shown[0].value if shown else None)

    def aggregating(self, action: int, key: int, subkey: int, value: int) -> None:
        if action % 2:
            self.state.add(value)
            self.model.write(key, None, "".join([*self.model.usable(key), str(value)]))
        else:
            shown = self.model.read(key)
            assert self.state.get() == (int(shown[0].value) if shown else None)


DESCRIPTORS = {
    "value": lambda: ValueStateDescriptor("s", Types.INT()),
    "list": lambda: ListStateDescriptor("s", Types.INT()),
    "map": lambda: MapStateDescriptor("s", Types.INT(), Types.INT()),
    "reducing": lambda: ReducingStateDescriptor("s", lambda a, b: a + b, Types.INT()),
    "aggregating": lambda: AggregatingStateDescriptor("s", Digits(), Types.STRING()),
}

# An operation: what, for which key, with which subkey and value, and how long to wait before.
OPERATIONS = st.lists(
    st.tuples(
        st.integers(0, 7),
        st.integers(0, KEYS - 1),
        st.integers(0, SUBKEYS - 1),
        st.integers(1, 9),
        st.sampled_from([0, 0, 1, TTL // 2, TTL // 2, TTL - 1, TTL]),
    ),
    min_size=10,
    max_size=30,
)


def run(kind: str, pair: Pair, operations: list[tuple[int, int, int, int, int]]) -> None:
    for action, key, subkey, value, wait in operations:
        pair.wait(wait)
        pair.backend.current_key = key
        if action == 7:
            pair.state.clear()
            pair.model.cells[key] = []
        else:
            getattr(pair, kind)(action, key, subkey, value)


@pytest.mark.parametrize("kind", DESCRIPTORS)
@given(on_read=st.booleans(), shows_expired=st.booleans(), operations=OPERATIONS)
@settings(max_examples=CASES)
def test_every_kind_expires_as_the_model_says(
    kind: str, on_read: bool, shows_expired: bool, operations: Any
) -> None:
    builder = StateTtlConfig.new_builder(Time.milliseconds(TTL)).disable_cleanup_in_background()
    if on_read:
        builder.update_ttl_on_read_and_write()
    if shows_expired:
        builder.return_expired_if_not_cleaned_up()
    run(kind, Pair(DESCRIPTORS[kind](), builder.build()), operations)


@pytest.mark.parametrize("kind", DESCRIPTORS)
@given(on_read=st.booleans(), size=st.integers(1, 4), per_record=st.booleans(), operations=OPERATIONS)
@settings(max_examples=CASES)
def test_the_sweep_changes_nothing_that_can_be_seen_and_leaves_nothing_expired(
    kind: str, on_read: bool, size: int, per_record: bool, operations: Any
) -> None:
    builder = StateTtlConfig.new_builder(Time.milliseconds(TTL)).cleanup_incrementally(size, per_record)
    if on_read:
        builder.update_ttl_on_read_and_write()
    pair = Pair(DESCRIPTORS[kind](), builder.build())
    rest = random.Random(len(operations)).randrange(len(operations) + 1)
    run(kind, pair, operations[:rest])
    pair.backend.records_passed(1)
    run(kind, pair, operations[rest:])
    for _ in range(2 * KEYS + 2):  # two rounds at one entry each
        pair.state.sweep_after(1)
    alive = {key for key, cells in pair.model.cells.items() if any(not pair.model.expired(c) for c in cells)}
    assert set(pair.backend.table("s")) == alive
