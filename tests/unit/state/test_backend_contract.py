"""What every keyed backend does, whatever it keeps its state in."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from firesteel.common.errors import IncompatibleStateError, StateNotSerializableError
from firesteel.common.serializer import TypeSerializer
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
from firesteel.contracts.state_backend import StateStore, StateStoreContext
from firesteel.plan.state_handles import StateMode
from firesteel.state.cached.backend import CachedBackend
from firesteel.state.cached.custom_backend import CustomBackend, OpenedStore
from firesteel.state.cached.disk_backend import DiskBackend
from firesteel.state.hashmap_backend import HashMapBackend
from firesteel.state.snapshot.keyed_snapshot import KeyedSnapshot
from firesteel.testing.manual_clock import ManualClock
from firesteel.testing.state_stores import DictStore, check_state_store

VALUE = ValueStateDescriptor("value", Types.INT())
LIST = ListStateDescriptor("list", Types.INT())

Make = Callable[..., HashMapBackend]


def small_disk(*args: Any, **options: Any) -> HashMapBackend:
    """Hardly anything fits into memory, so that everything comes and goes."""
    return DiskBackend(*args, cache_entries=2, map_size=1 << 20, **options)


class SqliteStore(StateStore):
    """A store as users write them."""

    def __init__(self, context: StateStoreContext) -> None:
        self._db = sqlite3.connect(f"{context.directory()}/state.db", isolation_level=None)
        self._db.execute("PRAGMA synchronous = OFF")
        self._db.execute("CREATE TABLE records (key BLOB PRIMARY KEY, record BLOB NOT NULL) WITHOUT ROWID")

    def get_all(self, record_keys: Sequence[bytes]) -> list[bytes | None]:
        query = "SELECT record FROM records WHERE key = ?"
        rows = [self._db.execute(query, (record_key,)).fetchone() for record_key in record_keys]
        return [None if row is None else row[0] for row in rows]

    def put_all(self, records: Sequence[tuple[bytes, bytes]], gone: Sequence[bytes]) -> None:
        self._db.execute("BEGIN")
        self._db.executemany("REPLACE INTO records VALUES (?, ?)", records)
        self._db.executemany("DELETE FROM records WHERE key = ?", [(record_key,) for record_key in gone])
        self._db.execute("COMMIT")

    def scan(self, after: bytes, count: int) -> list[tuple[bytes, bytes]]:
        query = "SELECT key, record FROM records WHERE key > ? ORDER BY key LIMIT ?"
        return self._db.execute(query, (after, count)).fetchall()

    def close(self) -> None:
        self._db.close()


def in_dictionary(*args: Any, **options: Any) -> HashMapBackend:
    return CustomBackend(OpenedStore(DictStore, "DictStore"), *args, cache_entries=2, **options)


def in_sqlite(*args: Any, **options: Any) -> HashMapBackend:
    return CustomBackend(OpenedStore(SqliteStore, "SqliteStore"), *args, cache_entries=2, **options)


MAKERS: dict[str, Make] = {
    "hashmap": HashMapBackend,
    "disk": DiskBackend,
    "small disk": small_disk,
    "dictionary": in_dictionary,
    "sqlite": in_sqlite,
}


@pytest.fixture(params=MAKERS)
def make(request: pytest.FixtureRequest) -> Iterator[Make]:
    made: list[HashMapBackend] = []

    def maker(*args: Any, **options: Any) -> HashMapBackend:
        made.append(MAKERS[request.param](*args, **options))
        return made[-1]

    yield maker
    for backend in made:
        backend.close()


def turn_to(backend: HashMapBackend, key: Any, *namespaces: Any) -> None:
    """What an operator does before it calls a function."""
    if backend.tracks:
        backend.touch((key,))
        backend.touch_pairs([(key, namespace) for namespace in namespaces])
    backend.current_key = key


def written(snapshot: KeyedSnapshot) -> list[bytes]:
    blocks: list[bytes] = []
    while not snapshot.done:
        blocks += snapshot.step()
    return blocks


def put(backend: HashMapBackend, values: dict[Any, Any]) -> None:
    state = backend.get_state(VALUE)
    for key, value in values.items():
        turn_to(backend, key)
        state.update(value)


def got(backend: HashMapBackend, keys: Any) -> dict[Any, Any]:
    state = backend.get_state(VALUE)
    found = {}
    for key in keys:
        turn_to(backend, key)
        found[key] = state.value()
    return found


def restored(make: Make, *blocks: list[bytes], **options: Any) -> HashMapBackend:
    backend = make(**options)
    for each in blocks:
        for block in each:
            backend.restore_block(block)
    return backend


class Total(AggregateFunction):
    def create_accumulator(self) -> Any:
        return [0]

    def add(self, value: Any, accumulator: Any) -> Any:
        accumulator[0] += value
        return accumulator

    def get_result(self, accumulator: Any) -> Any:
        return accumulator[0]

    def merge(self, a: Any, b: Any) -> Any:
        return [a[0] + b[0]]


# States -----------------------------------------------------------------------------------------------


def test_every_kind_of_state_is_per_key(make: Make) -> None:
    backend = make()
    value, elements = backend.get_state(VALUE), backend.get_list_state(LIST)
    entries = backend.get_map_state(MapStateDescriptor("map", Types.STRING(), Types.INT()))
    total = backend.get_reducing_state(ReducingStateDescriptor("sum", lambda a, b: a + b, Types.INT()))
    average = backend.get_aggregating_state(AggregatingStateDescriptor("total", Total(), Types.INT()))
    for key in range(20):
        turn_to(backend, key)
        value.update(key)
        elements.add_all([key, key + 1])
        entries.put("x", key)
        total.add(key)
        total.add(1)
        average.add(key)
    for key in range(20):
        turn_to(backend, key)
        assert value.value() == key
        assert list(elements) == [key, key + 1]
        assert dict(entries.items()) == {"x": key}
        assert total.get() == key + 1
        assert average.get() == key
        value.clear()
        entries.remove("x")
    for key in range(20):
        turn_to(backend, key)
        assert value.value() is None
        assert entries.is_empty()
        assert list(elements) == [key, key + 1]


def test_state_per_namespace_and_its_merging(make: Make) -> None:
    backend = make()
    state = backend.namespaced(LIST)
    for key in "abc":
        for window in (1, 2, 3):
            turn_to(backend, key, window)
            state.set_namespace(window)
            state.add(window)
    for key in "abc":
        turn_to(backend, key, 1, 2, 3)
        state.merge_namespaces(key, 1, [2, 3])
    for key in "abc":
        turn_to(backend, key, 1, 2)
        state.set_namespace(1)
        assert list(state) == [1, 2, 3]
        state.set_namespace(2)
        assert list(state) == []
        backend.clear_namespace(key, 1, ["list"])
        state.set_namespace(1)
        assert list(state) == []


def test_values_expire(make: Make) -> None:
    clock = ManualClock()
    backend = make(clock.now)
    descriptor = ValueStateDescriptor("value", Types.INT())
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.milliseconds(100)).build())
    state = backend.get_state(descriptor)
    for key in range(5):
        turn_to(backend, key)
        state.update(key)
    clock.advance(0.05)
    turn_to(backend, 3)
    state.update(33)
    clock.advance(0.06)
    alive = {}
    for key in range(5):
        turn_to(backend, key)
        alive[key] = state.value()
    assert alive == {0: None, 1: None, 2: None, 3: 33, 4: None}


def test_all_keys_of_a_state_are_visited_and_may_be_changed_on_the_way(make: Make) -> None:
    backend = make()
    put(backend, dict.fromkeys(range(50), 1))
    turn_to(backend, 7)
    backend.get_state(VALUE).clear()
    other = backend.get_list_state(LIST)
    turn_to(backend, "only a list")
    other.add(1)
    seen = []
    state = backend.get_state(VALUE)
    for key in backend.keys_of("value"):
        backend.current_key = key
        seen.append(key)
        state.update(2)
    assert sorted(seen) == [key for key in range(50) if key != 7]
    assert got(backend, range(50)) == {key: None if key == 7 else 2 for key in range(50)}
    assert sum(map(len, backend.values_of("value"))) == 49


def test_keys_that_share_a_hash_or_are_equal(make: Make) -> None:
    assert hash(-1) == hash(-2)
    backend = make()
    put(backend, {-1: "one", -2: "two", 5: "five"})
    put(backend, dict.fromkeys("abcdefgh", 0))  # let them leave the memory
    assert got(backend, [-1, -2, 5.0]) == {-1: "one", -2: "two", 5.0: "five"}
    put(backend, {-1: None})
    put(backend, dict.fromkeys("abcdefgh", 0))
    assert got(backend, [-1, -2]) == {-1: None, -2: "two"}


# Snapshots --------------------------------------------------------------------------------------------


def test_a_snapshot_is_of_the_moment_it_began(make: Make) -> None:
    backend = make()
    elements = backend.get_list_state(LIST)
    for key in range(30):
        turn_to(backend, key)
        elements.add(key)
    snapshot = backend.begin_snapshot(1)
    assert snapshot.is_full
    blocks: list[bytes] = []
    for key in range(40):
        turn_to(backend, key)
        elements.add(100)
        blocks += snapshot.step(2)
    blocks += written(snapshot)
    new = restored(make, blocks)
    again = new.get_list_state(LIST)
    for key in range(40):
        turn_to(new, key)
        assert list(again) == ([key] if key < 30 else [])


def test_a_delta_holds_what_was_touched_since_the_completed_one(make: Make) -> None:
    backend = make(incremental=True)
    put(backend, dict.fromkeys(range(100), 1))
    full = written(backend.begin_snapshot(1))
    backend.checkpoint_completed(1)
    put(backend, {5: 2, 6: None, 200: 3})
    snapshot = backend.begin_snapshot(2)
    assert snapshot.base == 1
    delta = written(snapshot)
    assert sum(map(len, delta)) < sum(map(len, full)) / 2
    expected = dict.fromkeys(range(100), 1) | {5: 2, 6: None, 200: 3}
    assert got(restored(make, full, delta), expected) == expected


def test_what_was_touched_before_an_aborted_checkpoint_is_in_the_next_delta(make: Make) -> None:
    backend = make(incremental=True)
    put(backend, dict.fromkeys(range(30), 1))
    full = written(backend.begin_snapshot(1))
    backend.checkpoint_completed(1)
    put(backend, {1: 2})
    backend.begin_snapshot(2).step(1)
    backend.discard(2)
    put(backend, {2: 2})
    written(backend.begin_snapshot(3))  # neither completed nor discarded yet
    put(backend, {3: 2})
    snapshot = backend.begin_snapshot(4)
    assert snapshot.base == 1
    assert got(restored(make, full, written(snapshot)), [1, 2, 3, 4]) == {1: 2, 2: 2, 3: 2, 4: 1}


def test_after_so_many_deltas_comes_a_full_one(make: Make) -> None:
    backend = make(incremental=True, max_deltas=2)
    put(backend, dict.fromkeys(range(300), 1))
    kinds = []
    for number in range(1, 7):
        put(backend, {number: 2})
        snapshot = backend.begin_snapshot(number)
        kinds.append(snapshot.is_full)
        written(snapshot)
        backend.checkpoint_completed(number)
    assert kinds == [True, False, False, True, False, False]


def test_a_delta_larger_than_the_full_one_is_followed_by_a_full_one(make: Make) -> None:
    backend = make(incremental=True)
    put(backend, {0: 1})
    kinds = []
    for number in range(1, 4):
        snapshot = backend.begin_snapshot(number)
        kinds.append(snapshot.is_full)
        written(snapshot)
        backend.checkpoint_completed(number)
        put(backend, dict.fromkeys(range(100), number))
    assert kinds == [True, False, True]


def test_without_increments_every_snapshot_is_full_and_nothing_is_noted_in_between(make: Make) -> None:
    backend = make()
    put(backend, dict.fromkeys(range(10), 1))
    for number in (1, 2):
        snapshot = backend.begin_snapshot(number)
        assert snapshot.is_full
        written(snapshot)
        backend.checkpoint_completed(number)
        assert backend.tracks == isinstance(backend, CachedBackend)
        put(backend, dict.fromkeys(range(10), 2))
        assert not backend._keys.changes.count()


def test_a_value_that_cannot_be_written_fails_the_snapshot_and_not_the_processing(make: Make) -> None:
    if make().tracks:
        pytest.skip("on disk such a value is refused when it leaves the memory")
    backend = make()
    put(backend, {"a": 1})
    state = backend.get_state(VALUE)
    turn_to(backend, "b")
    state.update(x for x in "abc")
    snapshot = backend.begin_snapshot(1)
    turn_to(backend, "b")
    state.update(2)
    with pytest.raises(StateNotSerializableError) as caught:
        written(snapshot)
    assert "in state 'value'" in caught.value.__notes__
    backend.discard(1)
    assert got(restored(make, written(backend.begin_snapshot(2))), "ab") == {"a": 1, "b": 2}


def test_expired_values_are_left_out_of_full_snapshots_when_asked(make: Make) -> None:
    clock = ManualClock()
    backend = make(clock.now)
    descriptor = ValueStateDescriptor("value", Types.INT())
    config = StateTtlConfig.new_builder(Time.milliseconds(100)).cleanup_full_snapshot().build()
    descriptor.enable_time_to_live(config)
    state = backend.get_state(descriptor)
    for key in range(10):
        turn_to(backend, key)
        state.update(key)
        clock.advance(0.015)
    blocks = written(backend.begin_snapshot(1))
    new = restored(make, blocks)
    assert sorted(new.keys_of("value")) == [4, 5, 6, 7, 8, 9]


def test_a_discarded_snapshot_ends_at_once(make: Make) -> None:
    backend = make()
    put(backend, dict.fromkeys(range(10), 1))
    snapshot = backend.begin_snapshot(1)
    backend.discard(1)
    assert snapshot.done
    assert snapshot.step() == []
    assert backend.tracks == isinstance(backend, CachedBackend)


# Timers -----------------------------------------------------------------------------------------------


def test_timers_are_of_the_moment_the_snapshot_began(make: Make) -> None:
    backend = make(incremental=True)
    queue = backend.timer_queue("timers")
    for number in range(10):
        queue.add(number // 3, f"k{number}")
    snapshot = backend.begin_snapshot(1)
    blocks = snapshot.step(2)
    expected = set(queue.entries())
    assert len(list(queue.due(1))) == 6
    queue.add(2, "new")
    queue.remove(3, "k9")
    full = blocks + written(snapshot)
    backend.checkpoint_completed(1)
    delta = written(backend.begin_snapshot(2))
    for blocks, wanted in ((full, expected), (full + delta, set(queue.entries()))):
        new = restored(make, blocks)
        assert new.unregistered() == (["timers"])
        assert set(new.timer_queue("timers").entries()) == wanted
        assert new.unregistered() == []


def test_timers_that_come_and_go_do_not_pile_up_when_checkpoints_fail(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("firesteel.state.tracked_state._MANY_CHANGES", 1_000)
    backend = make(incremental=True)
    queue = backend.timer_queue("timers")
    queue.add(10_000, "stays")
    written(backend.begin_snapshot(1))
    backend.checkpoint_completed(1)
    most = 0
    for number in range(2, 12):
        for time in range(300):
            queue.add(number * 300 + time, "a")
        assert len(list(queue.due(9_999))) == 300
        snapshot = backend.begin_snapshot(number)
        blocks = written(snapshot)
        backend.discard(number)
        assert queue.log is None or queue.log.count() <= 1_300
        most = max(most, 0 if queue.log is None else queue.log.count())
    assert most >= 900  # otherwise this test shows nothing
    assert snapshot.is_full
    restored = make()
    for block in blocks:
        restored.restore_block(block)
    assert list(restored.timer_queue("timers").entries()) == [(10_000, "stays")]


def test_timers_are_restored_into_a_queue_that_is_there_already(make: Make) -> None:
    backend = make()
    queue = backend.timer_queue("timers", namespaced=True)
    queue.add(3, ("a", "window"))
    queue.add(4, ("b", "window"))
    new = make()
    other = new.timer_queue("timers", namespaced=True)
    for block in written(backend.begin_snapshot(1)):
        new.restore_block(block, lambda key: key == "b")
    assert list(other.entries()) == [(4, ("b", "window"))]


def test_restored_timers_that_nobody_asks_for_can_be_dropped_or_popped(make: Make) -> None:
    backend = make()
    for name in ("dropped", "taken"):
        queue = backend.timer_queue(name)
        for number in range(5):
            queue.add(number, number)
    new = restored(make, written(backend.begin_snapshot(1)))
    assert set(new.unregistered()) == {"dropped", "taken"}
    assert sorted(new.pop_restored_timers("taken", False)) == [(number, number) for number in range(5)]
    assert new.pop_restored_timers("taken", False) == []
    new.drop_unregistered()
    assert new.unregistered() == []
    assert list(new.timer_queue("dropped").entries()) == []


# What was restored and what is asked for --------------------------------------------------------------


def saved(make: Make, descriptor: StateDescriptor, fill: Callable[[Any], None]) -> tuple[list[bytes], Any]:
    backend = make()
    state = backend.get_keyed_state(descriptor)
    for key in "abc":
        turn_to(backend, key)
        fill(state)
    return written(backend.begin_snapshot(1)), backend.metas()


def test_states_are_described(make: Make) -> None:
    backend = make()
    backend.get_state(VALUE)
    expiring = ListStateDescriptor("expiring", Types.STRING())
    expiring.enable_time_to_live(StateTtlConfig.new_builder(Time.seconds(1)).build())
    expiring.set_version(3)
    backend.namespaced(expiring, backend.scope())
    backend.table("\0own")
    described = {m.name: (m.mode, m.kind, m.type, m.version) for m in backend.metas()}
    assert described == {
        "value": (StateMode.KEYED, "value", "Integer", 0),
        "expiring": (StateMode.KEYED, "window list with ttl", "ListTypeInfo<String>", 3),
        "\0own": (StateMode.KEYED, "internal", "", 0),
    }


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (ListStateDescriptor("value", Types.INT()), "a list state of ListTypeInfo<Integer>, version 0"),
        (ValueStateDescriptor("value", Types.STRING()), "a value state of String, version 0"),
    ],
)
def test_e32_another_kind_or_type_than_was_saved_is_refused(make: Make, wanted: Any, found: str) -> None:
    blocks, metas = saved(make, VALUE, lambda state: state.update(1))
    new = restored(make, blocks, operator="Count words")
    new.expect(metas)
    with pytest.raises(IncompatibleStateError) as caught:
        new.get_keyed_state(wanted)
    text = str(caught.value)
    assert "state 'value' of operator 'Count words'" in text
    assert f"expected {found}" in text
    assert "found a value state of Integer, version 0" in text


def test_a_new_version_without_migration_is_refused(make: Make) -> None:
    blocks, metas = saved(make, VALUE, lambda state: state.update(1))
    new = restored(make, blocks)
    new.expect(metas)
    newer = ValueStateDescriptor("value", Types.INT())
    newer.set_version(1)
    with pytest.raises(IncompatibleStateError, match=r"descriptor\.set_version\(version, migrate\)"):
        new.get_state(newer)


def _value(migrate: Any) -> StateDescriptor:
    descriptor = ValueStateDescriptor("new", Types.STRING())
    descriptor.set_version(2, migrate)
    return descriptor


def _list(migrate: Any) -> StateDescriptor:
    descriptor = ListStateDescriptor("new", Types.STRING())
    descriptor.set_version(2, migrate)
    return descriptor


def _map(migrate: Any) -> StateDescriptor:
    descriptor = MapStateDescriptor("new", Types.STRING(), Types.STRING())
    descriptor.set_version(2, migrate)
    return descriptor


@dataclass(frozen=True)
class Evolution:
    old: StateDescriptor
    new: Callable[[Any], StateDescriptor]
    fill: Callable[[Any], None]
    read: Callable[[Any], Any]
    expected: Any


EVOLUTIONS = {
    "value": Evolution(
        ValueStateDescriptor("old", Types.INT()), _value, lambda s: s.update(1), lambda s: s.value(), "1 of 0"
    ),
    "list": Evolution(ListStateDescriptor("old", Types.INT()), _list, lambda s: s.add(2), list, ["2 of 0"]),
    "map": Evolution(
        MapStateDescriptor("old", Types.STRING(), Types.INT()),
        _map,
        lambda s: s.put("x", 3),
        lambda s: dict(s.items()),
        {"x": "3 of 0"},
    ),
}


@pytest.mark.parametrize("kind", EVOLUTIONS)
@pytest.mark.parametrize("ttl", [False, True])
def test_old_values_are_migrated_and_found_under_a_new_name(make: Make, kind: str, ttl: bool) -> None:
    evolution = EVOLUTIONS[kind]
    blocks, metas = saved(make, evolution.old, evolution.fill)
    new = restored(make, blocks)
    new.expect(metas)
    descriptor = evolution.new(lambda value, version: f"{value} of {version}")
    descriptor.renamed_from("other", "old")
    if ttl:
        descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())
    state = new.get_keyed_state(descriptor)
    assert new.unregistered() == []
    for key in "abc":
        turn_to(new, key)
        assert evolution.read(state) == evolution.expected
    again = restored(make, written(new.begin_snapshot(1)))
    again.expect(new.metas())
    state = again.get_keyed_state(descriptor)
    for key in "abc":
        turn_to(again, key)
        assert evolution.read(state) == evolution.expected


def test_a_value_that_cannot_be_migrated_is_shown(make: Make) -> None:
    blocks, metas = saved(make, VALUE, lambda state: state.update(17))
    new = restored(make, blocks, operator="Count words")
    new.expect(metas)
    changed = ValueStateDescriptor("value", Types.STRING())
    changed.set_version(3, lambda value, version: value["text"])
    with pytest.raises(IncompatibleStateError) as caught:
        new.get_state(changed)
    text = str(caught.value)
    assert "state 'value' of operator 'Count words' cannot be converted to version 3" in text
    assert "the saved value 17 of version 0 and raised TypeError: 'int' object is not subscriptable" in text


def test_state_that_nobody_asks_for_is_listed_and_can_be_dropped(make: Make) -> None:
    blocks, metas = saved(make, VALUE, lambda state: state.update(1))
    new = restored(make, blocks)
    new.expect(metas)
    new.get_list_state(LIST)
    assert new.unregistered() == ["value"]
    assert {meta.name for meta in new.metas()} == {"value", "list"}
    new.drop_unregistered()
    assert new.unregistered() == []
    assert {meta.name for meta in new.metas()} == {"list"}
    assert got(new, "abc") == dict.fromkeys("abc")


def test_window_functions_may_ask_late(make: Make) -> None:
    blocks, metas = saved(make, VALUE, lambda state: state.update(1))
    new = restored(make, blocks)
    new.expect(metas)
    new.registers_late = True
    assert new.unregistered() == []
    assert got(new, "abc") == dict.fromkeys("abc", 1)


# Between backends -------------------------------------------------------------------------------------


@pytest.mark.parametrize("other", MAKERS)
def test_backends_read_each_others_snapshots(make: Make, other: str) -> None:
    backend = make(incremental=True)
    put(backend, {key: key for key in range(50)})
    full = written(backend.begin_snapshot(1))
    backend.checkpoint_completed(1)
    put(backend, dict.fromkeys(range(10)))
    delta = written(backend.begin_snapshot(2))
    new = restored(MAKERS[other], full, delta)
    assert got(new, range(50)) == {key: None if key < 10 else key for key in range(50)}
    new.close()


def test_the_file_of_the_disk_backend_grows_also_during_a_snapshot() -> None:
    backend = small_disk()
    elements = backend.get_list_state(ListStateDescriptor("list", Types.STRING()))
    for key in range(200):
        turn_to(backend, key)
        elements.add(f"{key}" * 500)
    snapshot = backend.begin_snapshot(1)
    blocks = snapshot.step(2)
    for key in range(200, 1500):
        turn_to(backend, key)
        elements.add(f"{key}" * 500)
    blocks += written(snapshot)
    new = restored(HashMapBackend, blocks)
    assert new.table("list") == {key: [f"{key}" * 500] for key in range(200)}
    backend.close()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("store", [DictStore, SqliteStore])
def test_stores_do_what_is_asked_of_them(store: type[StateStore], seed: int) -> None:
    check_state_store(store, seed=seed)


def test_the_disk_backend_keeps_few_keys_in_memory() -> None:
    backend = DiskBackend(cache_entries=100)
    put(backend, {key: key for key in range(5000)})
    assert len(backend.table("value")) <= 100 + 100 // 8 + 1
    assert got(backend, range(0, 5000, 7)) == {key: key for key in range(0, 5000, 7)}
    backend.close()


def test_a_late_migration_is_part_of_the_next_delta(make: Make) -> None:
    """A window function may ask for a restored state, and so rename and migrate it, long after the first checkpoint."""
    old = make()
    put(old, {"a": 1, "b": 2})
    first, metas = written(old.begin_snapshot(1)), old.metas()
    backend = make(incremental=True)
    backend.registers_late = True
    backend.expect(metas)
    for block in first:
        backend.restore_block(block)
    full = written(backend.begin_snapshot(1))
    backend.checkpoint_completed(1)
    descriptor = ValueStateDescriptor("renamed", Types.INT())
    descriptor.set_version(2, lambda value, version: value * 10)
    descriptor.renamed_from("value")
    backend.get_state(descriptor)
    snapshot = backend.begin_snapshot(2)
    assert not snapshot.is_full
    again = restored(make, full, written(snapshot))
    turn_to(again, "a")
    assert again.get_state(ValueStateDescriptor("renamed", Types.INT())).value() == 10
    assert again.get_state(VALUE).value() is None


# Serializers of users -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Socket:
    """What would be written in another form without its serializer."""

    port: int


class Ports(TypeSerializer[Socket]):
    """Writes the port alone, marked."""

    def __init__(self, mark: bytes = b"port:") -> None:
        self.mark = mark

    def serialize(self, element: Socket, stream: Any) -> None:
        stream.write(self.mark + str(element.port).encode())

    def deserialize(self, stream: Any) -> Socket:
        assert stream.read(len(self.mark)) == self.mark
        return Socket(int(stream.read()))


def larger(a: Socket, b: Socket) -> Socket:
    return max(a, b, key=lambda socket: socket.port)


class Last(AggregateFunction):
    def create_accumulator(self) -> Any:
        return Socket(0)

    def add(self, value: Any, accumulator: Any) -> Any:
        return value

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_b


SERIALIZED: dict[str, Callable[[Any], StateDescriptor]] = {
    "value": lambda kind: ValueStateDescriptor("value", kind),
    "list": lambda kind: ListStateDescriptor("list", kind),
    "map": lambda kind: MapStateDescriptor("map", kind, kind),
    "reducing": lambda kind: ReducingStateDescriptor("reducing", larger, kind),
    "aggregating": lambda kind: AggregatingStateDescriptor("aggregating", Last(), kind),
}


def put_socket(state: Any, port: int) -> None:
    if hasattr(state, "put"):
        state.put(Socket(-port), Socket(port))
    elif hasattr(state, "add"):
        state.add(Socket(port))
    else:
        state.update(Socket(port))


def socket_in(state: Any) -> Any:
    if hasattr(state, "put"):
        return list(state.items())
    found = state.value() if hasattr(state, "value") else state.get()
    return found if isinstance(found, Socket) else list(found)


@pytest.mark.parametrize("ttl", [False, True], ids=["for ever", "with ttl"])
@pytest.mark.parametrize("kind", SERIALIZED)
def test_values_are_written_and_read_by_the_users_serializer(make: Make, kind: str, ttl: bool) -> None:
    def described() -> StateDescriptor:
        descriptor = SERIALIZED[kind](Ports())
        if ttl:
            descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())
        return descriptor

    clock = ManualClock()
    backend = make(clock.now)
    state = backend.get_keyed_state(described())
    ports = range(1, 8)  # more than a small disk backend has in memory
    for port in ports:
        turn_to(backend, f"key {port}")
        put_socket(state, port)
    blocks = written(backend.begin_snapshot(1, full=True))
    assert all(b"port:%d" % port in b"".join(blocks) for port in ports)
    other = make(clock.now)
    other.expect(backend.metas())
    for block in blocks:
        other.restore_block(block)
    restored = other.get_keyed_state(described())
    for port in ports:
        turn_to(other, f"key {port}")
        expected = {"list": [Socket(port)], "map": [(Socket(-port), Socket(port))]}
        assert socket_in(restored) == expected.get(kind, Socket(port))


def test_a_serializer_in_place_of_a_type_is_another_type(make: Make) -> None:
    backend = make()
    state = backend.get_state(ValueStateDescriptor("value", Ports()))
    turn_to(backend, "a")
    state.update(Socket(1))
    other = make()
    other.expect(backend.metas())
    for block in written(backend.begin_snapshot(1, full=True)):
        other.restore_block(block)
    with pytest.raises(IncompatibleStateError, match=r"found a value state of SerializedTypeInfo<Ports\(\)>"):
        other.get_state(ValueStateDescriptor("value", Types.PICKLED_BYTE_ARRAY()))
