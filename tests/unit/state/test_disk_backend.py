"""State on disk: what is special about it. What it shares with other backends is in `test_backend_contract`."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from typing import Any

import pytest

from firesteel.common.typeinfo import Types
from firesteel.contracts.state import ValueStateDescriptor
from firesteel.state.cached.disk_backend import DiskBackend
from firesteel.state.hashmap_backend import HashMapBackend
from firesteel.state.tracked_state import TableId

VALUE = ValueStateDescriptor("value", Types.INT())


@pytest.fixture
def backend() -> Iterator[DiskBackend]:
    made = DiskBackend(cache_entries=4, map_size=1 << 20)
    yield made
    made.close()


def blocks_of(backend: HashMapBackend, number: int = 1) -> list[bytes]:
    snapshot, blocks = backend.begin_snapshot(number), []
    while not snapshot.done:
        blocks += snapshot.step()
    return blocks


def everything_in(backend: DiskBackend, names: list[str]) -> dict[str, dict[Any, Any]]:
    found: dict[str, dict[Any, Any]] = {name: {} for name in names}
    tables = {name: backend.table(name) for name in names}
    for keys in backend._cached_spaces[0].all_keys():
        for key in keys:
            backend.touch((key,))
            for name, table in tables.items():
                if key in table:
                    found[name][key] = table[key]
    return found


def test_a_key_whose_record_went_may_meet_another_key_with_its_hash(backend: DiskBackend) -> None:
    assert hash(-1) == hash(-2)
    space = backend._cached_spaces[0]
    table = space.table("value")
    space.load([-1])
    table[-1] = 1
    space.evict(1)
    space.load(["other"])
    space.load([-1])
    del table[-1]
    space.flush()  # nothing is left of -1 on disk
    space.load([-2])
    table[-2] = "two"
    space.evict(1)  # "other"
    space.load([-1])
    space.evict(1)  # -2
    assert -2 not in table
    table[-1] = "one"
    space.evict(1)
    assert not table
    space.load([-1, -2])
    assert table == {-1: "one", -2: "two"}


@pytest.mark.parametrize("cache", [1, 100, 3_000, 10_000])
def test_state_larger_than_the_cache_is_restored_with_deltas(cache: int) -> None:
    source = HashMapBackend(incremental=True)
    tables = {name: source.table(name) for name in ("first", "second")}
    tables["first"].update((f"user-{n}", n) for n in range(5_000))
    tables["second"].update((f"user-{n}", [n]) for n in range(0, 5_000, 3))
    blocks = blocks_of(source)
    source.checkpoint_completed(1)
    changed = [f"user-{n}" for n in range(0, 6_000, 100)]
    source.touch(changed)
    for number, key in enumerate(changed):
        if number % 3:
            tables["first"][key] = -number
        else:
            tables["first"].pop(key, None)
            tables["second"].pop(key, None)
    snapshot = source.begin_snapshot(2)
    assert snapshot.base == 1
    while not snapshot.done:
        blocks += snapshot.step()
    restored = DiskBackend(cache_entries=cache)
    for block in blocks:
        restored.restore_block(block)
    assert everything_in(restored, ["first", "second"]) == tables
    restored.close()


def test_a_migration_leaves_in_memory_what_a_batch_is_about_to_use(backend: DiskBackend) -> None:
    """A window function may ask for a state, and so migrate it, in the middle of a batch."""
    old = HashMapBackend()
    old.get_state(VALUE)
    old.table("value").update(dict.fromkeys(range(3_000), 1))
    for block in blocks_of(old):
        backend.restore_block(block)
    backend.expect(old.metas())
    others = backend.table("other")
    batch = list(range(20))
    backend.touch(batch)
    for key in batch:
        others[key] = key
    newer = ValueStateDescriptor("value", Types.STRING())
    newer.set_version(1, lambda value, version: f"was {value}")
    state = backend.get_state(newer)
    for key in batch:
        backend.current_key = key
        assert state.value() == "was 1"
        assert others[key] == key
    assert set(everything_in(backend, ["value"])["value"].values()) == {"was 1"}


def test_a_file_that_grows_when_a_snapshot_begins_leaves_it_what_it_sees() -> None:
    made = DiskBackend(cache_entries=1_000, map_size=1 << 20)
    table, timers = made.table("value"), made.timer_queue("timers")
    for n in range(3_000):
        made.touch((n,))
        table[n] = "x" * 100
    for n in range(1_300):
        timers.add(n, n)
    waiting = [(n, f"{n}" + "y" * 3_000) for n in range(5_000, 5_990)]
    for timer in waiting:  # these are written together, when somebody needs them
        timers.add(*timer)
    restored = HashMapBackend()
    for block in blocks_of(made):
        restored.restore_block(block)
    assert restored.table("value") == dict.fromkeys(range(3_000), "x" * 100)
    assert set(restored.timer_queue("timers").entries()) == {*waiting, *((n, n) for n in range(1_300))}
    made.close()


def test_many_snapshots_may_be_in_progress() -> None:
    made = DiskBackend(cache_entries=1)
    timers = [made.timer_queue(name) for name in ("event-time", "processing-time")]
    for n in range(10):
        made.touch((n,))
        made.table("value")[n] = n
        for queue in timers:
            queue.add(n, n)
    snapshots = [made.begin_snapshot(number) for number in range(1, 101)]
    assert not any(snapshot.done for snapshot in snapshots)
    made.close()


def test_the_file_gives_its_space_back() -> None:
    made = DiskBackend(cache_entries=1)
    for n in range(100):
        made.touch((n,))
        made.table("value")[n] = "x" * 1000
    made.close()
    made.close()  # nothing is left to do


@pytest.mark.skipif(sys.platform != "linux", reason="limits files in Linux's way")
@pytest.mark.parametrize("limit", [3 << 20, 40 << 20])
def test_a_file_that_cannot_grow_is_an_error_with_a_sentence(limit: int) -> None:
    program = f"""
        import resource
        resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
        from firesteel.common.errors import StorageError
        from firesteel.state.cached.disk_backend import DiskBackend
        backend = DiskBackend(cache_entries=100)
        table = backend.table("value")
        try:
            for n in range(100_000):
                backend.touch((n,))
                table[n] = "x" * 1000
        except StorageError as error:
            print(error)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    assert "state on disk cannot be written to a file in" in done.stdout
    assert "state.backend.disk.dirs" in done.stdout


@pytest.mark.parametrize("in_restore", [True, False])
def test_what_is_removed_after_it_was_restored_twice_does_not_come_back(
    backend: DiskBackend, in_restore: bool
) -> None:
    value, space = TableId("value", False), backend._cached_spaces[0]
    backend._restore_entries(value, ["a", "b"], [1, 1])
    space.evict(2)
    backend._restore_entries(value, ["a"], [2])  # of a delta; nobody looks what there is on disk
    if in_restore:
        backend._remove_entries(value, ["a"])
    else:
        backend.current_key = "a"
        backend.touch(("a",))
        backend.get_state(VALUE).clear()
    space.evict(1)
    assert everything_in(backend, ["value"]) == {"value": {"b": 1}}
