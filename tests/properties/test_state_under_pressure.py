"""A disk backend whose file has to grow all the time, against a naive model.

The cache is tiny and so is the file at first, while keys, values and timers are large. So whatever writes - keys and timers
that leave the memory, snapshots that begin - may find the file full while snapshots in progress look at it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from firesteel.common.typeinfo import Types
from firesteel.contracts.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from firesteel.state.cached.disk_backend import DiskBackend
from firesteel.state.hashmap_backend import HashMapBackend
from firesteel.state.snapshot.keyed_snapshot import KeyedSnapshot
from firesteel_support.effort import cases

CASES = cases(25, 1_000)
KEYS: list[Any] = [*(str(number) + "k" * 1500 for number in range(150)), *range(-3, 50), None, ("t", 1)]
WINDOWS = [0, 10, 20]
QUEUES = {"event-time": False, "processing-time": False, "window-event-time": True}


@dataclass
class Model:
    values: dict[Any, str] = field(default_factory=dict)
    windows: dict[tuple[Any, int], list[str]] = field(default_factory=dict)
    maps: dict[Any, dict[int, str]] = field(default_factory=dict)
    timers: dict[str, set[tuple[int, Any]]] = field(default_factory=lambda: {name: set() for name in QUEUES})

    def copy(self) -> Model:
        """What changes later does not change in it."""
        windows = {pair: list(found) for pair, found in self.windows.items()}
        maps = {key: dict(found) for key, found in self.maps.items()}
        timers = {name: set(found) for name, found in self.timers.items()}
        return Model(dict(self.values), windows, maps, timers)


class Subject:
    """A backend with a state per key, one per window, and timers."""

    def __init__(self, backend: HashMapBackend) -> None:
        self.backend = backend
        self.value = backend.get_state(ValueStateDescriptor("value", Types.STRING()))
        self.window = backend.namespaced(ListStateDescriptor("window", Types.STRING()))
        self.map = backend.get_map_state(MapStateDescriptor("map", Types.INT(), Types.STRING()))
        self.queues = {name: backend.timer_queue(name, namespaced) for name, namespaced in QUEUES.items()}

    def turn_to(self, key: Any) -> None:
        if self.backend.tracks:
            self.backend.touch((key,))
            self.backend.touch_pairs([(key, window) for window in WINDOWS])
        self.backend.current_key = key

    def content(self) -> Model:
        model = Model()
        for key in KEYS:
            self.turn_to(key)
            value = self.value.value()
            if value is not None:
                model.values[key] = value
            if entries := dict(self.map.items()):
                model.maps[key] = entries
            for window in WINDOWS:
                self.window.set_namespace(window)
                if found := list(self.window):
                    model.windows[key, window] = found
        model.timers = {name: set(queue.entries()) for name, queue in self.queues.items()}
        return model


class Run:
    def __init__(self, rng: random.Random, backend: HashMapBackend) -> None:
        self.rng = rng
        self.backend = backend
        self.subject = Subject(backend)
        self.model = Model()
        self.now = 0
        self.snapshots: list[KeyedSnapshot] = []
        self.copies: dict[int, Model] = {}
        self.blocks: dict[int, list[bytes]] = {}

    def change(self) -> None:
        for key in self.rng.sample(KEYS, self.rng.randint(1, 40)):
            self.subject.turn_to(key)
            self.rng.choice((self.one_value, self.one_window, self.one_map, self.timers))(key)

    def one_value(self, key: Any) -> None:
        if self.rng.random() < 0.2:
            self.subject.value.clear()
            self.model.values.pop(key, None)
        else:
            text = str(self.rng.random()) * self.rng.choice((1, 50, 400))
            self.subject.value.update(text)
            self.model.values[key] = text

    def one_window(self, key: Any) -> None:
        window = self.rng.choice(WINDOWS)
        self.subject.window.set_namespace(window)
        if self.rng.random() < 0.3:
            self.subject.window.clear()
            self.model.windows.pop((key, window), None)
        else:
            text = str(self.rng.random()) * self.rng.choice((1, 50))
            self.subject.window.add(text)
            self.model.windows.setdefault((key, window), []).append(text)

    def one_map(self, key: Any) -> None:
        if self.rng.random() < 0.1:
            self.subject.map.clear()
            self.model.maps.pop(key, None)
            return
        entries = self.model.maps.setdefault(key, {})
        for _ in range(self.rng.randint(1, 12)):
            field_, text = self.rng.randint(0, 20), str(self.rng.random()) * self.rng.choice((1, 50, 400))
            if self.rng.random() < 0.3:
                self.subject.map.remove(field_)
                entries.pop(field_, None)
            else:
                self.subject.map.put(field_, text)
                entries[field_] = text
        if not entries:
            del self.model.maps[key]

    def timers(self, key: Any) -> None:
        for name, namespaced in QUEUES.items():
            queue, model = self.subject.queues[name], self.model.timers[name]
            entry = (key, self.rng.choice(WINDOWS)) if namespaced else key
            time = self.now + self.rng.choice((1, 2, 5, 50, 51, self.rng.randint(0, 500)))
            if self.rng.random() < 0.8:
                queue.add(time, entry)
                model.add((time, entry))
            else:
                time, entry = self.rng.choice([*model, (time, entry)]) if len(model) < 50 else (time, entry)
                queue.remove(time, entry)
                model.discard((time, entry))

    def fire(self) -> None:
        self.now += self.rng.choice((0, 1, 10, 60))
        for name, queue in self.subject.queues.items():
            due = {timer for timer in self.model.timers[name] if timer[0] <= self.now}
            fired = list(queue.due(self.now))
            assert [time for time, _ in fired] == sorted(time for time, _ in fired)
            assert len(fired) == len(due)
            assert set(fired) == due
            self.model.timers[name] -= due
            assert queue.next_time() == min((time for time, _ in self.model.timers[name]), default=2**63 - 1)

    def begin(self) -> None:
        number = len(self.snapshots) + 1
        self.copies[number], self.blocks[number] = self.model.copy(), []
        self.snapshots.append(self.backend.begin_snapshot(number, self.rng.random() < 0.2))

    def step(self) -> None:
        for snapshot in self.snapshots:
            if not snapshot.done and self.rng.random() < 0.7:
                self.blocks[snapshot.checkpoint_id] += snapshot.step(self.rng.randint(1, 60))

    def end_one(self) -> None:
        for snapshot in self.snapshots[-3:]:
            if snapshot.done and not snapshot.cancelled and self.rng.random() < 0.7:
                self.backend.checkpoint_completed(snapshot.checkpoint_id)
            elif self.rng.random() < 0.1:
                self.backend.discard(snapshot.checkpoint_id)

    def check_snapshots(self) -> None:
        whole: dict[int | None, list[bytes]] = {None: []}
        for snapshot in self.snapshots:
            number = snapshot.checkpoint_id
            while not snapshot.done:
                self.blocks[number] += snapshot.step(self.rng.randint(1, 500))
            if snapshot.cancelled or snapshot.base not in whole:
                continue
            whole[number] = [*whole[snapshot.base], *self.blocks[number]]
            backend = self.rng.choice((HashMapBackend, tiny))()
            for block in whole[number]:
                backend.restore_block(block)
            assert Subject(backend).content() == self.copies[number]
            backend.close()


def tiny(rng: random.Random | None = None) -> DiskBackend:
    rng = rng or random.Random(1)
    return DiskBackend(
        incremental=True,
        max_deltas=rng.choice((1, 3, 16)),
        cache_entries=rng.choice((4, 30, 100)),
        large_from=rng.choice((2, 8, 1024)),
        map_size=1 << 20,
    )


@settings(max_examples=CASES, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_file_that_grows_all_the_time_loses_nothing(seed: int) -> None:
    rng = random.Random(seed)
    run = Run(rng, tiny(rng))
    for _ in range(rng.randint(10, 80)):
        rng.choice((run.change, run.change, run.fire, run.begin, run.step, run.end_one))()
    run.check_snapshots()
    assert run.subject.content() == run.model
    run.backend.close()
