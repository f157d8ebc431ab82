"""Maps and lists of one key that are too large to be in memory: entries come and go one by one."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from firesteel.common.serializer import TypeSerializer
from firesteel.common.time import Time
from firesteel.common.typeinfo import Types
from firesteel.contracts.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from firesteel.contracts.state_backend import StateStoreContext
from firesteel.state.cached.custom_backend import CustomBackend, OpenedStore
from firesteel.state.cached.disk_backend import DiskBackend
from firesteel.state.cached.large_collections import CHUNK, LargeList, LargeMap
from firesteel.state.hashmap_backend import HashMapBackend
from firesteel.state.snapshot.keyed_snapshot import KeyedSnapshot
from firesteel.testing.manual_clock import ManualClock
from firesteel.testing.state_stores import DictStore

MAP = MapStateDescriptor("map", Types.STRING(), Types.INT())
LIST = ListStateDescriptor("list", Types.INT())
OTHER = ValueStateDescriptor("other", Types.INT())

Make = Callable[..., HashMapBackend]


class CountingStore(DictStore):
    """Knows what was written to it."""

    def __init__(self, context: StateStoreContext) -> None:
        super().__init__(context)
        self.bytes_written = self.bytes_read = 0

    def get_all(self, record_keys: Any) -> Any:
        found = super().get_all(record_keys)
        self.bytes_read += sum(len(record) for record in found if record is not None)
        return found

    def put_all(self, records: Any, gone: Any) -> None:
        self.bytes_written += sum(len(record) for _, record in records)
        super().put_all(records, gone)


def counting(*args: Any, **options: Any) -> tuple[CustomBackend, CountingStore]:
    stores: list[CountingStore] = []

    def open_store(context: StateStoreContext) -> CountingStore:
        stores.append(CountingStore(context))
        return stores[0]

    return CustomBackend(OpenedStore(open_store, "CountingStore"), *args, **options), stores[0]


def on_disk(*args: Any, **options: Any) -> HashMapBackend:
    return DiskBackend(*args, **{"cache_entries": 2, "large_from": 4, "map_size": 1 << 20} | options)


def in_store(*args: Any, **options: Any) -> HashMapBackend:
    return counting(*args, **{"cache_entries": 2, "large_from": 4} | options)[0]


MAKERS: dict[str, Make] = {"hashmap": HashMapBackend, "disk": on_disk, "custom": in_store}


@pytest.fixture(params=MAKERS)
def make(request: pytest.FixtureRequest) -> Iterator[Make]:
    made: list[HashMapBackend] = []

    def maker(*args: Any, **options: Any) -> HashMapBackend:
        made.append(MAKERS[request.param](*args, **options))
        return made[-1]

    yield maker
    for backend in made:
        backend.close()


@pytest.fixture
def disk() -> Iterator[DiskBackend]:
    made = DiskBackend(incremental=True, cache_bytes=4 << 20)
    yield made
    made.close()


def turn_to(backend: HashMapBackend, key: Any) -> None:
    if backend.tracks:
        backend.touch((key,))
    backend.current_key = key


def leave(backend: HashMapBackend) -> None:
    """Let all other keys leave the memory."""
    for key in range(100, 110):
        turn_to(backend, key)


def written(snapshot: KeyedSnapshot) -> list[bytes]:
    blocks: list[bytes] = []
    while not snapshot.done:
        blocks += snapshot.step()
    return blocks


def restored(make: Make, backend: HashMapBackend, *blocks: list[bytes]) -> HashMapBackend:
    new = make()
    new.expect(backend.metas())
    for each in blocks:
        for block in each:
            new.restore_block(block)
    return new


# What it costs ----------------------------------------------------------------------------------------


def test_a_map_far_larger_than_the_cache_takes_little_memory(disk: DiskBackend) -> None:
    """The entries would take 25 MB, and all of them are used within one batch."""
    count = 60_000
    state = disk.get_map_state(MAP)
    turn_to(disk, "key")
    tracemalloc.start()
    for n in range(count):
        state.put(f"entry {n} {'x' * 200}", n)
    assert state.get(f"entry 17 {'x' * 200}") == 17
    assert sum(state.values()) == count * (count - 1) // 2
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 << 20


def test_a_list_far_larger_than_the_cache_takes_little_memory(disk: DiskBackend) -> None:
    count = 300_000
    state = disk.get_list_state(LIST)
    turn_to(disk, "key")
    tracemalloc.start()
    for n in range(count):
        state.add(n)
    assert sum(state.get()) == count * (count - 1) // 2
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 << 20  # of 12 MB


def test_a_snapshot_and_a_restore_of_it_take_little_memory(disk: DiskBackend) -> None:
    count = 60_000
    state = disk.get_map_state(MAP)
    turn_to(disk, "key")
    for n in range(count):
        state.put(f"entry {n}", n)
    target = DiskBackend(cache_bytes=4 << 20)
    snapshot = disk.begin_snapshot(1)
    tracemalloc.start()
    while not snapshot.done:
        for block in snapshot.step():
            target.restore_block(block)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 << 20
    turn_to(target, "key")
    assert sum(target.get_map_state(MAP).values()) == count * (count - 1) // 2
    target.close()


@pytest.mark.parametrize("cache", [1, 1_000])
def test_one_entry_more_or_less_writes_one_entry(cache: int) -> None:
    backend, store = counting(cache_entries=cache)
    state = backend.get_map_state(MAP)
    turn_to(backend, "key")
    state.put_all({f"entry {n}": n for n in range(20_000)})
    backend.begin_snapshot(1).cancel()  # all that has changed is in the store now
    for change in (
        lambda: state.put("entry 7", 70),
        lambda: state.put("new", 1),
        lambda: state.remove("entry 9"),
        lambda: state.get("entry 12"),
        lambda: state.contains("no"),
    ):
        turn_to(backend, "key")
        store.bytes_written = store.bytes_read = 0
        change()
        leave(backend)
        backend.begin_snapshot(1).cancel()
        assert store.bytes_written < 500
        assert store.bytes_read < 500
    backend.close()


def test_an_element_more_reads_and_writes_no_more_than_a_chunk() -> None:
    backend, store = counting(cache_entries=1)
    state = backend.get_list_state(LIST)
    turn_to(backend, "key")
    state.add_all(list(range(50_000)))
    for n in range(3 * CHUNK):
        leave(backend)
        turn_to(backend, "key")
        store.bytes_written = store.bytes_read = 0
        state.add(n)
        leave(backend)
        assert store.bytes_written < 20 * CHUNK
        assert store.bytes_read < 20 * CHUNK
    backend.close()


def test_a_delta_has_only_the_entries_that_changed(make: Make) -> None:
    backend = make(incremental=True)
    entries, elements = backend.get_map_state(MAP), backend.get_list_state(LIST)
    turn_to(backend, "key")
    entries.put_all({f"entry {n}": n for n in range(3_000)})
    elements.add_all(list(range(3_000)))
    full = written(backend.begin_snapshot(1))
    backend.checkpoint_completed(1)
    turn_to(backend, "key")
    entries.put("entry 5", -5)
    entries.remove("entry 7")
    entries.remove("entry 9")
    entries.put("entry 9", 9)  # behind all others now
    entries.put("new", 1)
    elements.add(-1)
    snapshot = backend.begin_snapshot(2)
    assert snapshot.base == 1
    delta = written(snapshot)
    if not backend.is_in_memory:
        assert sum(map(len, delta)) < 2_000
    expected = {f"entry {n}": n for n in range(3_000) if n not in (7, 9)} | {
        "entry 5": -5,
        "entry 9": 9,
        "new": 1,
    }
    for maker in MAKERS.values():
        new = restored(maker, backend, full, delta)
        turn_to(new, "key")
        assert list(new.get_map_state(MAP).items()) == list(expected.items())
        assert list(new.get_list_state(LIST)) == [*range(3_000), -1]
        new.close()


def test_what_a_large_collection_had_goes_from_the_store() -> None:
    backend, store = counting(cache_entries=1, large_from=4)
    entries, elements = backend.get_map_state(MAP), backend.get_list_state(LIST)
    turn_to(backend, "key")
    entries.put_all({str(n): n for n in range(5_000)})
    elements.add_all(list(range(5_000)))
    leave(backend)
    assert len(store.records) > 10_000
    turn_to(backend, "key")
    entries.clear()
    elements.update([1])
    leave(backend)
    assert len(store.records) < 5
    backend.close()


# What it does -----------------------------------------------------------------------------------------


def test_small_ones_stay_what_they_are_and_large_ones_do_not(disk: DiskBackend) -> None:
    entries, elements = disk.get_map_state(MAP), disk.get_list_state(LIST)
    turn_to(disk, "small")
    entries.put_all({str(n): n for n in range(1024)})
    elements.add_all(list(range(1024)))
    assert type(disk.table("map")["small"]) is dict
    assert type(disk.table("list")["small"]) is list
    entries.put("one more", 1)
    elements.add(1)
    assert type(disk.table("map")["small"]) is LargeMap
    assert type(disk.table("list")["small"]) is LargeList


def test_adding_while_going_through_a_list_ends(make: Make) -> None:
    backend = make()
    state = backend.get_list_state(LIST)
    turn_to(backend, "key")
    for size in (3, 6, 12):
        seen = []
        state.update(list(range(size)))
        for each in state.get():
            seen.append(each)
            state.add(each)
        assert seen == list(range(size))
        assert list(state.get()) == seen * 2


def test_adding_while_going_through_a_list_that_expires_ends(make: Make) -> None:
    backend = make()
    descriptor = ListStateDescriptor("list", Types.INT())
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())
    state = backend.get_list_state(descriptor)
    turn_to(backend, "key")
    state.update(list(range(9)))
    for each in state.get():
        state.add(each)
    assert list(state.get()) == [*range(9), *range(9)]


def test_a_map_may_be_emptied_while_going_through_it(make: Make) -> None:
    backend = make()
    state = backend.get_map_state(MAP)
    turn_to(backend, "key")
    state.put_all({str(n): n for n in range(2_000)})
    seen = []
    for key in state.keys():  # noqa: SIM118 - as users write it
        seen.append(key)
        state.remove(key)
    assert seen == [str(n) for n in range(2_000)]
    assert state.is_empty()
    state.put_all({str(n): n for n in range(50)})
    found = []
    for pair in state.items():
        found.append(pair)
        state.clear()
        state.put("other", 1)
    assert found == [(str(n), n) for n in range(50)]
    assert list(state.items()) == [("other", 1)]


def test_one_that_is_read_when_its_key_has_left_memory_is_what_it_was(make: Make) -> None:
    backend = make()
    entries, elements = backend.get_map_state(MAP), backend.get_list_state(LIST)
    turn_to(backend, "key")
    entries.put_all({str(n): n for n in range(1_500)})
    elements.add_all(list(range(1_500)))
    read, view = iter(entries.items()), elements.get()
    next(read)
    leave(backend)
    turn_to(backend, "key")
    entries.put_all({str(n): -n for n in range(0, 1_500, 3)})
    for n in range(1, 1_500, 3):
        entries.remove(str(n))
    elements.clear()
    leave(backend)
    leave(backend)
    assert list(read) == [(str(n), n) for n in range(1, 1_500)]
    assert list(view) == list(range(1_500))
    assert list(view) == list(range(1_500))


def test_values_are_nobody_elses(make: Make) -> None:
    backend = make()
    state = backend.get_map_state(MapStateDescriptor("map", Types.INT(), Types.PICKLED_BYTE_ARRAY()))
    one = [1]
    for key in ("a", "b"):
        turn_to(backend, key)
        for n in range(10):
            state.put(n, one)
    one.append(2)
    found = state.get(3)
    found.append(3)
    state.put(3, found)
    assert list(state.values()) == [[1]] * 3 + [[1, 3]] + [[1]] * 6
    turn_to(backend, "a")
    assert list(state.values()) == [[1]] * 10


class Text(TypeSerializer[Any]):
    """Numbers as digits."""

    def serialize(self, element: Any, stream: Any) -> None:
        stream.write(str(element).encode())

    def deserialize(self, stream: Any) -> Any:
        return int(stream.read())


def test_serializers_of_the_user_write_entries_and_what_is_gone(make: Make) -> None:
    entries = MapStateDescriptor("map", Text(), Text())
    elements = ListStateDescriptor("list", Text())
    backend = make(incremental=True)
    state, numbers = backend.get_map_state(entries), backend.get_list_state(elements)
    turn_to(backend, "key")
    state.put_all({n: n for n in range(40)})
    numbers.add_all(list(range(40)))
    full = written(backend.begin_snapshot(1))
    backend.checkpoint_completed(1)
    turn_to(backend, "key")
    state.remove(3)
    state.put(4, 44)
    numbers.add(1)
    delta = written(backend.begin_snapshot(2))
    assert all(b"Text" in block for block in delta if b"map" in block)
    new = restored(make, backend, full, delta)
    turn_to(new, "key")
    assert dict(new.get_map_state(entries).items()) == {n: n for n in range(40) if n != 3} | {4: 44}
    assert list(new.get_list_state(elements)) == [*range(40), 1]


@pytest.mark.parametrize("late", [True, False])
def test_large_ones_are_renamed_and_migrated(make: Make, late: bool) -> None:
    old = make()
    entries, elements = old.get_map_state(MAP), old.get_list_state(LIST)
    for key in range(4):
        turn_to(old, key)
        entries.put_all({str(n): n for n in range(key * 20)})
        elements.add_all(list(range(key * 100)))
    blocks = written(old.begin_snapshot(1))
    backend = make(incremental=True)
    backend.expect(old.metas())
    for block in blocks:
        backend.restore_block(block)
    other = backend.get_state(OTHER)
    first: list[bytes] = []
    if late:
        backend.opened()
        first = written(backend.begin_snapshot(1))
        backend.checkpoint_completed(1)
        turn_to(backend, 2)
        other.update(1)
    new_map = MapStateDescriptor("entries", Types.STRING(), Types.STRING())
    new_map.renamed_from("map")
    new_map.set_version(1, lambda value, version: f"was {value}")
    new_list = ListStateDescriptor("list", Types.STRING())
    new_list.set_version(1, lambda value, version: f"was {value}")
    new_list.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())

    def check(subject: HashMapBackend) -> None:
        entries, elements = subject.get_map_state(new_map), subject.get_list_state(new_list)
        for key in range(4):
            turn_to(subject, key)
            assert list(entries.items()) == [(str(n), f"was {n}") for n in range(key * 20)]
            assert list(elements) == [f"was {n}" for n in range(key * 100)]

    check(backend)
    snapshot = backend.begin_snapshot(2)
    assert (snapshot.base == 1) == late
    check(restored(make, backend, first, written(snapshot)))


def test_entries_expire_and_are_swept() -> None:
    clock = ManualClock()
    backend, store = counting(clock.now, cache_entries=50, large_from=4)
    map_descriptor, list_descriptor = (
        MapStateDescriptor("map", Types.STRING(), Types.INT()),
        ListStateDescriptor("list", Types.INT()),
    )
    for descriptor in (map_descriptor, list_descriptor):
        config = StateTtlConfig.new_builder(Time.milliseconds(100)).cleanup_incrementally(5, False)
        descriptor.enable_time_to_live(config.build())
    entries, elements = backend.get_map_state(map_descriptor), backend.get_list_state(list_descriptor)
    turn_to(backend, "key")
    for n in range(20_000):  # 50 are alive at a time
        entries.put(str(n), n)
        elements.add(n)
        clock.advance(0.002)
        if n % 1_000 == 0:
            turn_to(backend, "key")
    assert len(store.records) < 3_000
    assert list(entries.values()) == list(elements) == list(range(19_951, 20_000))
    backend.close()


@pytest.mark.parametrize("renews", [True, False])
def test_expired_values_are_shown_once_when_that_is_wanted(make: Make, renews: bool) -> None:
    clock = ManualClock()
    backend = make(clock.now)
    map_descriptor, list_descriptor = (
        MapStateDescriptor("map", Types.STRING(), Types.INT()),
        ListStateDescriptor("list", Types.INT()),
    )
    for descriptor in (map_descriptor, list_descriptor):
        config = StateTtlConfig.new_builder(Time.milliseconds(100)).return_expired_if_not_cleaned_up()
        config = config.update_ttl_on_read_and_write() if renews else config
        descriptor.enable_time_to_live(config.disable_cleanup_in_background().build())
    entries, elements = backend.get_map_state(map_descriptor), backend.get_list_state(list_descriptor)
    turn_to(backend, "key")
    entries.put_all({str(n): n for n in range(8)})
    elements.add_all(list(range(8)))
    clock.advance(0.06)
    entries.put_all({str(n): n for n in range(8, 16)})
    elements.add_all(list(range(8, 16)))
    clock.advance(0.06)
    assert list(entries.values()) == list(elements) == list(range(16))
    assert list(entries.values()) == list(elements) == list(range(8, 16))
    clock.advance(0.06)
    shown = list(range(8, 16))
    assert list(entries.values()) == list(elements) == shown
    assert list(entries.values()) == list(elements) == (shown if renews else [])
