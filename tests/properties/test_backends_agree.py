"""All kinds of state on all backends, against a model that copies everything whenever it comes in or goes out.

Values of every shape are changed in place and then updated, put into several states, and read while they change. Clocks
move on, keys and entries leave memory at random, and every now and then a snapshot is restored, on another backend.
Maps and lists count as large from a few entries on, so that most of them are.
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
from firesteel.plan.key_groups import key_group_of
from firesteel.state.cached.custom_backend import CustomBackend, OpenedStore
from firesteel.state.cached.disk_backend import DiskBackend
from firesteel.state.hashmap_backend import HashMapBackend
from firesteel.testing.manual_clock import ManualClock
from firesteel.testing.state_stores import DictStore
from firesteel_support.effort import cases

CASES = cases(150, 4_000)
TTL = 20


@dataclass(frozen=True)
class Clash:
    """Keys with one hash."""

    name: str

    def __hash__(self) -> int:
        return 7


@dataclass
class Account:
    owner: str
    entries: list[Any] = field(default_factory=list)


KEYS: list[Any] = ["a", 3]
WINDOWS = [0, 10]
SUBKEYS: list[Any] = [*range(9), "x", ("t", 1), Clash("p"), Clash("q"), 7, -1, -2, None]


class Collected(AggregateFunction):
    """An accumulator that is changed in place."""

    def create_accumulator(self) -> Any:
        return []

    def add(self, value: Any, accumulator: Any) -> Any:
        accumulator.append(repr(value))
        del accumulator[:-3]
        return accumulator

    def get_result(self, accumulator: Any) -> Any:
        return list(accumulator)

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a + acc_b


def grown(first: Any, second: Any) -> Any:
    """A reduce function that changes its first argument, or gives back its second one."""
    if isinstance(second, list) and isinstance(first, list) and len(first) < 4:
        first.append(repr(second))
        return first
    return second


def change(value: Any) -> bool:
    """Change a value in place, if that can be done."""
    match value:
        case list():
            value.append(len(value))
        case dict():
            value[len(value)] = [1]
        case Account():
            value.entries.append({})
        case _:
            return False
    return True


class Model:
    """What there is, by name of the state; entries of states that expire are pairs of value and time."""

    def __init__(self) -> None:
        self.single: dict[str, dict[Any, Any]] = {name: {} for name in ("value", "reduced", "collected")}
        self.lists: dict[str, dict[Any, list[Any]]] = {name: {} for name in ("list", "window", "ttl list")}
        self.maps: dict[str, dict[Any, dict[Any, Any]]] = {name: {} for name in ("map", "ttl map")}


class Subject:
    """A backend with states of all kinds, in a program with other settings each time."""

    def __init__(self, backend: HashMapBackend, renews: bool) -> None:
        self.backend = backend
        any_type = Types.PICKLED_BYTE_ARRAY()
        self.value = backend.get_state(ValueStateDescriptor("value", any_type))
        self.reduced = backend.get_reducing_state(ReducingStateDescriptor("reduced", grown, any_type))
        self.collected = backend.get_aggregating_state(
            AggregatingStateDescriptor("collected", Collected(), any_type)
        )
        self.lists: dict[str, Any] = {
            "list": backend.get_list_state(ListStateDescriptor("list", any_type)),
            "window": backend.namespaced(ListStateDescriptor("window", any_type)),
            "ttl list": backend.get_list_state(expiring(ListStateDescriptor("ttl list", any_type), renews)),
        }
        self.maps: dict[str, Any] = {
            "map": backend.get_map_state(MapStateDescriptor("map", any_type, any_type)),
            "ttl map": backend.get_map_state(
                expiring(MapStateDescriptor("ttl map", any_type, any_type), renews)
            ),
        }

    def turn_to(self, key: Any) -> None:
        if self.backend.tracks:
            self.backend.touch((key,))
            self.backend.touch_pairs([(key, window) for window in WINDOWS])
        self.backend.current_key = key


def expiring(descriptor: StateDescriptor, renews: bool) -> Any:
    config = StateTtlConfig.new_builder(Time.milliseconds(TTL)).cleanup_incrementally(3, False)
    if renews:
        config = config.update_ttl_on_read_and_write()
    descriptor.enable_time_to_live(config.build())
    return descriptor


def hashmap(rng: random.Random, clock: ManualClock) -> HashMapBackend:
    return HashMapBackend(clock.now, incremental=True)


def disk(rng: random.Random, clock: ManualClock) -> HashMapBackend:
    return DiskBackend(clock.now, incremental=True, map_size=1 << 20, **sizes(rng))


def custom(rng: random.Random, clock: ManualClock) -> HashMapBackend:
    return CustomBackend(OpenedStore(DictStore, "DictStore"), clock.now, incremental=True, **sizes(rng))


def sizes(rng: random.Random) -> dict[str, Any]:
    return {"cache_entries": rng.choice((1, 2, 5, 100)), "large_from": rng.choice((1, 3, 6, 1000))}


BACKENDS: dict[str, Callable[[random.Random, ManualClock], HashMapBackend]] = {
    "hashmap": hashmap,
    "disk": disk,
    "custom": custom,
}


class Run:
    def __init__(self, rng: random.Random, kind: str) -> None:
        self.rng = rng
        self.clock = ManualClock()
        self.renews = rng.random() < 0.5
        self.model = Model()
        self.backend = BACKENDS[kind](rng, self.clock)
        self.subject = Subject(self.backend, self.renews)
        self.key: Any = KEYS[0]
        self.window = 0
        self.chain: list[list[bytes]] = []  # of the newest completed checkpoint
        self.last_id = 0

    def now(self) -> int:
        return round(self.clock.now() * 1000)

    # What can be done ---------------------------------------------------------------------------------

    def some_value(self) -> Any:
        made: list[Callable[[], Any]] = [
            lambda: self.rng.randint(0, 9),
            lambda: "text" * self.rng.randint(1, 3),
            lambda: (1, "x"),
            lambda: [1, [2]],
            lambda: {"a": [1]},
            lambda: Account("me"),
            lambda: list(range(self.rng.randint(0, 3))),
        ]
        return self.rng.choice(made)()

    def turn(self) -> None:
        self.key = self.rng.choice(KEYS)
        self.subject.turn_to(self.key)
        self.turn_window()

    def turn_window(self) -> None:
        self.window = self.rng.choice(WINDOWS)
        self.subject.lists["window"].set_namespace(self.window)

    def wait(self) -> None:
        self.clock.advance(self.rng.choice((1, 5, 15, 30)) / 1000)

    def change_value(self) -> None:
        state, model = self.subject.value, self.model.single["value"]
        match self.rng.randint(0, 3):
            case 0:
                state.clear()
                model.pop(self.key, None)
            case 1:
                found = state.value()
                assert found == model.get(self.key)
                if change(found):
                    state.update(found)
                    change(model[self.key])
            case _:
                value = self.some_value()
                state.update(value)
                model[self.key] = copy.deepcopy(value)
                change(value)  # nobody else's business

    def share(self) -> None:
        """One object in several states; a change of one is no change of the others."""
        value = self.some_value()
        expected = copy.deepcopy(value)
        self.subject.value.update(value)
        self.subject.lists["list"].add(value)
        self.subject.maps["map"].put("shared", value)
        self.subject.reduced.clear()
        self.subject.reduced.add(value)
        self.model.single["value"][self.key] = copy.deepcopy(expected)
        self.model.single["reduced"][self.key] = copy.deepcopy(expected)
        self.model.lists["list"].setdefault(self.key, []).append(copy.deepcopy(expected))
        self.model.maps["map"].setdefault(self.key, {})["shared"] = copy.deepcopy(expected)
        found = self.subject.value.value()
        if change(found):
            self.subject.value.update(found)
            change(self.model.single["value"][self.key])
        assert self.subject.maps["map"].get("shared") == expected
        assert self.subject.reduced.get() == expected

    def reduce(self) -> None:
        state, model, value = self.subject.reduced, self.model.single["reduced"], self.some_value()
        state.add(value)
        given = copy.deepcopy(value)
        model[self.key] = copy.deepcopy(grown(model[self.key], given) if self.key in model else given)
        assert state.get() == model[self.key]
        change(value)

    def collect(self) -> None:
        state, model, value = self.subject.collected, self.model.single["collected"], self.some_value()
        state.add(value)
        Collected().add(value, model.setdefault(self.key, []))
        assert state.get() == model[self.key]

    # Lists --------------------------------------------------------------------------------------------

    def one_list(self) -> None:
        name = self.rng.choice(list(self.subject.lists))
        state = self.subject.lists[name]
        key = (self.key, self.window) if name == "window" else self.key
        model = self.model.lists[name]
        ttl, now = name == "ttl list", self.now()
        stored = (lambda value: (copy.deepcopy(value), now)) if ttl else copy.deepcopy
        match self.rng.randint(0, 6):
            case 0:
                state.clear()
                model.pop(key, None)
            case 1:
                values = [self.some_value() for _ in range(self.rng.randint(0, 6))]
                state.update(values)
                model[key] = [stored(value) for value in values]
            case 2:
                values = [self.some_value() for _ in range(self.rng.randint(0, 6))]
                state.add_all(values)
                model.setdefault(key, []).extend(map(stored, values))
            case 3:  # changed in place, and updated
                found = list(state.get())
                assert found == self.read_list(name, key)
                for value in found:
                    change(value)
                state.update(found)
                model[key] = [stored(value) for value in found]
            case 4:  # more for each one that there is
                expected, seen = self.read_list(name, key), []
                view = state.get()
                for value in view:
                    seen.append(copy.deepcopy(value))
                    state.add(1)
                    model.setdefault(key, []).append(stored(1))
                    if self.rng.random() < 0.1:
                        state.clear()
                        model.pop(key, None)
                assert seen == expected
                assert len(view) == len(expected)
            case _:
                value = self.some_value()
                state.add(value)
                model.setdefault(key, []).append(stored(value))
                change(value)
        assert list(state.get()) == self.read_list(name, key)

    def read_list(self, name: str, key: Any) -> list[Any]:
        found = self.model.lists[name].get(key, [])
        if name != "ttl list":
            return copy.deepcopy(found)
        now = self.now()
        alive = [(value, now if self.renews else time) for value, time in found if time + TTL > now]
        self.model.lists[name][key] = alive
        return copy.deepcopy([value for value, _ in alive])

    def merge_windows(self) -> None:
        model, (target, source) = self.model.lists["window"], self.rng.sample(WINDOWS, 2)
        self.subject.lists["window"].merge_namespaces(self.key, target, [source])
        merged = model.pop((self.key, target), []) + model.pop((self.key, source), [])
        model[self.key, target] = merged
        for window in WINDOWS:
            self.subject.lists["window"].set_namespace(window)
            assert list(self.subject.lists["window"]) == model.get((self.key, window), [])
        self.turn_window()

    def clear_window(self) -> None:
        self.backend.clear_namespace(self.key, self.window, ["window"])
        self.model.lists["window"].pop((self.key, self.window), None)

    # Maps ---------------------------------------------------------------------------------------------

    def one_map(self) -> None:
        name = self.rng.choice(list(self.subject.maps))
        state = self.subject.maps[name]
        entries = self.model.maps[name].setdefault(self.key, {})
        ttl, now = name == "ttl map", self.now()
        stored = (lambda value: (copy.deepcopy(value), now)) if ttl else copy.deepcopy
        subkey = self.rng.choice(SUBKEYS)
        match self.rng.randint(0, 8):
            case 0:
                state.clear()
                entries.clear()
            case 1:
                some = {self.rng.choice(SUBKEYS): self.some_value() for _ in range(self.rng.randint(0, 9))}
                state.put_all(some)
                self.expire(name, some)
                entries.update({key: stored(value) for key, value in some.items()})
            case 2 | 3:
                state.remove(subkey)
                entries.pop(subkey, None)
            case 4:  # changed in place, and put again
                found = state.get(subkey)
                assert found == self.read_entry(name, subkey)
                if change(found):
                    state.put(subkey, found)
                    entries[subkey] = stored(found)
            case 5:
                self.go_through(name, state, entries, stored)
            case 6:
                assert state.contains(subkey) == (self.read_entry(name, subkey, renew=True) is not None)
                assert state.is_empty() == (not [k for k in entries if self.is_alive(name, entries[k])])
            case _:
                value = self.some_value()
                state.put(subkey, value)
                self.expire(name, (subkey,))
                entries[subkey] = stored(value)
                change(value)
        if self.rng.random() < 0.5:
            assert list(state.items()) == list(self.read_map(name).items())

    def go_through(self, name: str, state: Any, entries: dict[Any, Any], stored: Any) -> None:
        expected = self.read_map(name)
        seen = []
        what = self.rng.choice(("keys", "values", "items"))
        view = getattr(state, what)()
        for each in view:
            seen.append(copy.deepcopy(each))
            subkey = self.rng.choice(SUBKEYS)
            match self.rng.randint(0, 5):
                case 0:
                    if what == "keys":
                        subkey = each
                    state.remove(subkey)
                    entries.pop(subkey, None)
                case 1 | 2:
                    state.put(subkey, 5)
                    entries[subkey] = stored(5)
                case 3 if self.rng.random() < 0.2:
                    state.clear()
                    entries.clear()
        assert seen == list(getattr(expected, what)())
        assert len(view) == len(seen)
        if what == "keys":
            assert list(view) == seen  # once more

    def expire(self, name: str, subkeys: Any) -> None:
        """What has expired goes, and what is put there comes behind all others."""
        found = self.model.maps[name][self.key]
        for subkey in subkeys:
            if subkey in found and not self.is_alive(name, found[subkey]):
                del found[subkey]

    def is_alive(self, name: str, stored: Any) -> bool:
        return name != "ttl map" or stored[1] + TTL > self.now()

    def read_map(self, name: str) -> dict[Any, Any]:
        found = self.model.maps[name].get(self.key, {})
        if name != "ttl map":
            return copy.deepcopy(found)
        for key in list(found):
            if not self.is_alive(name, found[key]):
                del found[key]
            elif self.renews:
                found[key] = (found[key][0], self.now())
        return copy.deepcopy({key: value for key, (value, _) in found.items()})

    def read_entry(self, name: str, subkey: Any, renew: bool = True) -> Any:
        found = self.model.maps[name].get(self.key, {})
        if subkey not in found:
            return None
        if name != "ttl map":
            return copy.deepcopy(found[subkey])
        if not self.is_alive(name, found[subkey]):
            del found[subkey]
            return None
        if self.renews:
            found[subkey] = (found[subkey][0], self.now())
        return copy.deepcopy(found[subkey][0])

    # Snapshots ----------------------------------------------------------------------------------------

    def checkpoint(self) -> None:
        """A snapshot, while processing continues; perhaps the job resumes from there."""
        self.last_id += 1
        snapshot = self.backend.begin_snapshot(self.last_id, self.rng.random() < 0.2)
        at_begin, now = copy.deepcopy(self.model), self.clock.now()
        blocks: list[bytes] = []
        while not snapshot.done:
            if self.rng.random() < 0.5:
                self.act()
            blocks += snapshot.step(self.rng.choice((1, 2, 5, 50)))
        chain = [*(self.chain if snapshot.base is not None else []), blocks]
        match self.rng.randint(0, 7):
            case 0:
                self.backend.discard(self.last_id)
            case 1 | 2 | 3:
                self.restore(chain, at_begin)
            case _:
                self.backend.checkpoint_completed(self.last_id)
                self.chain = chain
        assert self.clock.now() >= now

    def restore(self, chain: list[list[bytes]], model: Model) -> None:
        """Another attempt, on a backend of any kind: several subtasks, of which one is looked at."""
        metas = self.backend.metas()
        self.backend.close()
        self.backend = BACKENDS[self.rng.choice(list(BACKENDS))](self.rng, self.clock)
        self.backend.expect(metas)
        accepts = (lambda key: key_group_of(key, 8) < 4) if self.rng.random() < 0.2 else None
        for blocks in chain:
            for block in blocks:
                self.backend.restore_block(block, accepts)
        if accepts is not None:
            for tables in (model.single, model.maps, model.lists):
                for name, table in tables.items():
                    tables[name] = {
                        key: found
                        for key, found in table.items()
                        if accepts(key[0] if name == "window" else key)
                    }
        self.model, self.chain = model, []
        self.subject = Subject(self.backend, self.renews)
        self.subject.turn_to(self.key)
        self.subject.lists["window"].set_namespace(self.window)

    def act(self) -> None:
        self.turn()
        self.rng.choice(
            (
                *[self.one_list, self.one_map, self.one_map] * 5,
                self.wait,
                self.change_value,
                self.share,
                self.reduce,
                self.collect,
                self.merge_windows,
                self.clear_window,
                self.wait,
            )
        )()

    def check(self) -> None:
        for self.key in KEYS:
            self.subject.turn_to(self.key)
            assert self.subject.value.value() == self.model.single["value"].get(self.key)
            assert self.subject.reduced.get() == self.model.single["reduced"].get(self.key)
            assert self.subject.collected.get() == self.model.single["collected"].get(self.key)
            for name, state in self.subject.maps.items():
                assert list(state.items()) == list(self.read_map(name).items())
            for name, state in self.subject.lists.items():
                for window in WINDOWS if name == "window" else [None]:
                    if window is not None:
                        state.set_namespace(window)
                    key = self.key if window is None else (self.key, window)
                    assert list(state.get()) == self.read_list(name, key)


@pytest.mark.parametrize("kind", BACKENDS)
@settings(max_examples=CASES, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_program_cannot_tell_its_backend(kind: str, seed: int) -> None:
    rng = random.Random(seed)
    run = Run(rng, kind)
    for _ in range(rng.randint(5, 80)):
        if rng.random() < 0.25:
            run.checkpoint()
        else:
            run.act()
    run.check()
    run.backend.close()
