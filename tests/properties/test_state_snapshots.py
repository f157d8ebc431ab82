"""Keyed backends against a naive model: a deep copy of everything at the moment a snapshot begins.

A random program changes state and timers while snapshots, full and incremental, are taken bit by bit, completed and
aborted. Whatever was written must restore to the copy, on either backend, into any number of subtasks.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firesteel.common.typeinfo import Types
from firesteel.contracts.functions import AggregateFunction
from firesteel.contracts.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from firesteel.plan.key_groups import key_group_of, subtask_of_group
from firesteel.state.cached.custom_backend import CustomBackend, OpenedStore
from firesteel.state.cached.disk_backend import DiskBackend
from firesteel.state.hashmap_backend import HashMapBackend
from firesteel.state.snapshot.keyed_snapshot import KeyedSnapshot
from firesteel.testing.state_stores import DictStore
from firesteel_support.effort import cases

CASES = cases(300, 5_000)
# -1 and -2 have the same hash; 3 and 3.0 are the same key.
KEYS: list[Any] = ["a", "b", "c", "d", "e", -1, -2, 3, 3.0, ("t", 1), None]
WINDOWS = [0, 10, 20]
GROUPS = 16


class Sum(AggregateFunction):
    def create_accumulator(self) -> Any:
        return [0]

    def add(self, value: Any, accumulator: Any) -> Any:
        accumulator[0] += value  # in place, as user code does
        return accumulator

    def get_result(self, accumulator: Any) -> Any:
        return accumulator[0]

    def merge(self, a: Any, b: Any) -> Any:
        return [a[0] + b[0]]


@dataclass
class Model:
    """What there should be: plain dictionaries, and sets of timers."""

    values: dict[Any, int] = field(default_factory=dict)
    lists: dict[Any, list[int]] = field(default_factory=dict)
    maps: dict[Any, dict[int, int]] = field(default_factory=dict)
    sums: dict[Any, int] = field(default_factory=dict)
    totals: dict[Any, int] = field(default_factory=dict)
    windows: dict[tuple[Any, int], list[int]] = field(default_factory=dict)
    timers: set[tuple[int, Any]] = field(default_factory=set)
    window_timers: set[tuple[int, Any]] = field(default_factory=set)

    def share(self, accepts: Callable[[Any], bool]) -> Model:
        """Only what belongs to some keys."""
        plain = [{k: v for k, v in table.items() if accepts(k)} for table in self._plain()]
        return Model(
            *plain,
            windows={k: v for k, v in self.windows.items() if accepts(k[0])},
            timers={t for t in self.timers if accepts(t[1])},
            window_timers={t for t in self.window_timers if accepts(t[1][0])},
        )

    def _plain(self) -> list[dict[Any, Any]]:
        return [self.values, self.lists, self.maps, self.sums, self.totals]


class Subject:
    """A backend with one state of each kind and two timer queues."""

    def __init__(self, backend: HashMapBackend) -> None:
        self.backend = backend
        self.value = backend.get_state(ValueStateDescriptor("value", Types.INT()))
        self.list = backend.get_list_state(ListStateDescriptor("list", Types.INT()))
        self.map = backend.get_map_state(MapStateDescriptor("map", Types.INT(), Types.INT()))
        self.sum = backend.get_reducing_state(ReducingStateDescriptor("sum", lambda a, b: a + b, Types.INT()))
        self.total = backend.get_aggregating_state(AggregatingStateDescriptor("total", Sum(), Types.INT()))
        self.window = backend.namespaced(ListStateDescriptor("window", Types.INT()))
        self.timers = backend.timer_queue("event-time")
        self.window_timers = backend.timer_queue("window-event-time", namespaced=True)

    def content(self) -> Model:
        """What it holds, through its states."""
        model = Model()
        backend = self.backend
        for key in KEYS:
            if backend.tracks:
                backend.touch((key,))
                backend.touch_pairs([(key, window) for window in WINDOWS])
            backend.current_key = key
            for table, found in (
                (model.values, self.value.value()),
                (model.lists, list(self.list)),
                (model.maps, dict(self.map.items())),
                (model.sums, self.sum.get()),
                (model.totals, self.total.get()),
            ):
                if found is not None and found != [] and found != {}:
                    table[key] = found
            for window in WINDOWS:
                self.window.set_namespace(window)
                if list(self.window):
                    model.windows[key, window] = list(self.window)
        model.timers = set(self.timers.entries())
        model.window_timers = set(self.window_timers.entries())
        return model


class Run:
    """A backend and its model, changed together."""

    def __init__(self, rng: random.Random, backend: HashMapBackend) -> None:
        self.rng = rng
        self.subject = Subject(backend)
        self.backend = backend
        self.model = Model()
        self.snapshots: dict[int, KeyedSnapshot] = {}
        self.copies: dict[int, Model] = {}
        self.blocks: dict[int, list[bytes]] = {}
        self.last_id = 0

    def change(self) -> None:
        action = self.rng.choice((self.batch, self.batch, self.windows, self.timer, self.fire))
        action()

    def batch(self) -> None:
        keys = self.rng.choices(KEYS, k=self.rng.randint(1, 4))
        if self.backend.tracks:
            self.backend.touch(keys)
        for key in keys:
            self.backend.current_key = key
            self.rng.choice((self.one_value, self.one_list, self.one_map, self.one_sum))(key)

    def one_value(self, key: Any) -> None:
        if self.rng.random() < 0.3:
            self.subject.value.clear()
            self.model.values.pop(key, None)
        else:
            number = self.rng.randint(0, 9)
            self.subject.value.update(number)
            self.model.values[key] = number

    def one_list(self, key: Any) -> None:
        if self.rng.random() < 0.2:
            self.subject.list.clear()
            self.model.lists.pop(key, None)
        else:
            number = self.rng.randint(0, 9)
            self.subject.list.add(number)
            self.model.lists.setdefault(key, []).append(number)

    def one_map(self, key: Any) -> None:
        field, number = self.rng.randint(0, 2), self.rng.randint(0, 9)
        if self.rng.random() < 0.4:
            self.subject.map.remove(field)
            self.model.maps.get(key, {}).pop(field, None)
            if not self.model.maps.get(key):
                self.model.maps.pop(key, None)
        else:
            self.subject.map.put(field, number)
            self.model.maps.setdefault(key, {})[field] = number

    def one_sum(self, key: Any) -> None:
        number = self.rng.randint(0, 9)
        self.subject.sum.add(number)
        self.subject.total.add(number)
        self.model.sums[key] = self.model.sums.get(key, 0) + number
        self.model.totals[key] = self.model.totals.get(key, 0) + number

    def windows(self) -> None:
        key, window = self.rng.choice(KEYS), self.rng.choice(WINDOWS)
        other = self.rng.choice(WINDOWS)
        if self.backend.tracks:
            self.backend.touch((key,))
            self.backend.touch_pairs([(key, window), (key, other)])
        self.backend.current_key = key
        self.subject.window.set_namespace(window)
        match self.rng.randint(0, 3):
            case 0:
                self.subject.window.clear()
                self.model.windows.pop((key, window), None)
            case 1 if other != window:
                self.subject.window.merge_namespaces(key, window, [other])
                merged = [
                    *self.model.windows.get((key, window), []),
                    *self.model.windows.pop((key, other), []),
                ]
                if merged:
                    self.model.windows[key, window] = merged
            case _:
                number = self.rng.randint(0, 9)
                self.subject.window.add(number)
                self.model.windows.setdefault((key, window), []).append(number)

    def timer(self) -> None:
        key, time = self.rng.choice(KEYS), self.rng.randint(0, 5)
        entry = (key, self.rng.choice(WINDOWS))
        if self.rng.random() < 0.7:
            self.subject.timers.add(time, key)
            self.model.timers.add((time, key))
            self.subject.window_timers.add(time, entry)
            self.model.window_timers.add((time, entry))
        else:
            self.subject.timers.remove(time, key)
            self.model.timers.discard((time, key))
            self.subject.window_timers.remove(time, entry)
            self.model.window_timers.discard((time, entry))

    def fire(self) -> None:
        time = self.rng.randint(0, 3)
        due = {timer for timer in self.model.timers if timer[0] <= time}
        assert set(self.subject.timers.due(time)) == due
        self.model.timers -= due

    # Snapshots ----------------------------------------------------------------------------------------

    def begin(self) -> None:
        self.last_id += 1
        self.copies[self.last_id] = copy.deepcopy(self.model)
        self.blocks[self.last_id] = []
        self.snapshots[self.last_id] = self.backend.begin_snapshot(self.last_id, self.rng.random() < 0.2)

    def step(self) -> None:
        for number, snapshot in self.snapshots.items():
            if not snapshot.done and self.rng.random() < 0.7:
                self.blocks[number] += snapshot.step(self.rng.randint(1, 6))
                return

    def end_one(self) -> None:
        if not self.snapshots:
            return
        number = self.rng.choice(list(self.snapshots))
        if self.snapshots[number].done and self.rng.random() < 0.7:
            self.backend.checkpoint_completed(number)
        elif self.rng.random() < 0.3:
            self.backend.discard(number)

    def finish(self) -> None:
        for number, snapshot in self.snapshots.items():
            while not snapshot.done:
                self.blocks[number] += snapshot.step(self.rng.randint(1, 50))

    def chain(self, number: int) -> list[bytes]:
        base = self.snapshots[number].base
        before = [] if base is None else self.chain(base)
        return before + self.blocks[number]


def hashmap(rng: random.Random, incremental: bool = True) -> HashMapBackend:
    return HashMapBackend(incremental=incremental, max_deltas=rng.choice((1, 3, 16)))


def disk(rng: random.Random, incremental: bool = True) -> HashMapBackend:
    return DiskBackend(
        incremental=incremental,
        max_deltas=rng.choice((1, 3, 16)),
        cache_entries=rng.choice((1, 2, 4, 100)),
        large_from=rng.choice((1, 2, 1024)),
        map_size=1 << 20,
    )


def custom(rng: random.Random, incremental: bool = True) -> HashMapBackend:
    return CustomBackend(
        OpenedStore(DictStore, "DictStore"),
        incremental=incremental,
        max_deltas=rng.choice((1, 3, 16)),
        cache_entries=rng.choice((1, 2, 4, 100)),
        large_from=rng.choice((1, 2, 1024)),
    )


BACKENDS = {"hashmap": hashmap, "disk": disk, "custom": custom}


@pytest.mark.parametrize("kind", BACKENDS)
@settings(max_examples=CASES, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_every_snapshot_restores_to_the_moment_it_began(kind: str, seed: int) -> None:
    rng = random.Random(seed)
    run = Run(rng, BACKENDS[kind](rng, rng.random() < 0.8))
    cancelled: set[int] = set()
    for _ in range(rng.randint(5, 60)):
        rng.choice((run.change, run.change, run.change, run.begin, run.step, run.end_one))()
        cancelled |= {n for n, s in run.snapshots.items() if s.cancelled}
    run.finish()
    assert run.subject.content() == run.model
    for number, expected in run.copies.items():
        if number in cancelled or not _reachable(run, number, cancelled):
            continue
        _check_restored(rng, run.chain(number), expected)
    run.backend.close()


def _reachable(run: Run, number: int, cancelled: set[int]) -> bool:
    base = run.snapshots[number].base
    return base is None or (base not in cancelled and _reachable(run, base, cancelled))


def _check_restored(rng: random.Random, blocks: list[bytes], expected: Model) -> None:
    parallelism = rng.choice((1, 1, 2, 3))
    for subtask in range(parallelism):

        def accepts(key: Any, subtask: int = subtask) -> bool:
            return subtask_of_group(key_group_of(key, GROUPS), GROUPS, parallelism) == subtask

        backend = BACKENDS[rng.choice(list(BACKENDS))](rng)
        before = rng.random() < 0.5
        subject = Subject(backend) if before else None
        for block in blocks:
            backend.restore_block(block, None if parallelism == 1 else accepts)
        assert (subject or Subject(backend)).content() == expected.share(accepts)
        backend.close()
