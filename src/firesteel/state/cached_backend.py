"""Keyed state larger than memory: a cache of live objects over a store of records.

What is used is in memory as live objects, in the tables of the hashmap backend, with the same states and operators on
top; see `disk_space` for how keys come and go. So state that fits into the cache costs little more than without a
store. Of timers the next ones are in memory; see `spilling_timer_queue`. What operators keep beside the tables stays
there.

Where the other keys are is a matter of the subclass: `disk_backend` has them in a file of its own, `custom_backend` in
whatever the user brings along.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

from firesteel.state.disk_space import DiskSpace, ResidentPart, Residents, StoredPart
from firesteel.state.hashmap_backend import HashMapBackend
from firesteel.state.key_space import KeySpace, TableId
from firesteel.state.keyed_snapshot import SnapshotPart, TimersPart
from firesteel.state.record_store import RecordStore
from firesteel.state.snapshot_chain import MAX_DELTAS
from firesteel.state.spilling_timer_queue import SpillingTimerQueue
from firesteel.state.timer_queue import TimerQueue

__all__ = ["DEFAULT_CACHE_BYTES", "CachedBackend"]

DEFAULT_CACHE_BYTES = 256 << 20
# What a key costs in memory: the objects and slots of a small entry, and what each byte of its record becomes.
_BYTES_PER_KEY, _BYTES_PER_BYTE = 250, 2.5
_BYTES_PER_TIMER = 250
_SHARE_OF_TIMERS = 1 / 8  # of the cache, for each queue besides it
_FIRST_LOOK = 1024
_MOST_AT_ONCE = 8192  # keys that leave the memory together: the loop of the task stands still as long
_MOST_IN_BULK = 65536


class CachedBackend(HashMapBackend):
    """All keyed state of one operator's subtask, of which a part is kept in memory.

    That is as many keys as ``cache_bytes`` seem to hold, judging by the size of their records; or ``cache_entries``
    keys, whatever they have.
    """

    _always_tracks = True
    is_in_memory = False

    def __init__(
        self,
        clock: Callable[[], float] = time.time,
        *,
        incremental: bool = False,
        max_deltas: int = MAX_DELTAS,
        operator: str = "",
        cache_bytes: int = DEFAULT_CACHE_BYTES,
        cache_entries: int | None = None,
    ) -> None:
        self._cache_bytes = cache_bytes
        self._cache_entries = cache_entries
        self._look_at = _FIRST_LOOK if cache_entries is None else cache_entries  # so many keys
        self._queues_made = 0
        super().__init__(clock, incremental=incremental, max_deltas=max_deltas, operator=operator)

    def _make_space(self, namespaced: bool) -> KeySpace:
        return DiskSpace(namespaced, self._open_records("pairs" if namespaced else "keys"))

    @abstractmethod
    def _open_records(self, space: str) -> RecordStore:
        """Where what is not in memory is: the ``keys``, the ``pairs`` of key and namespace, or some ``timers``."""

    @abstractmethod
    def _close_records(self) -> None:
        """Nobody needs them any more."""

    @property
    def _disk_spaces(self) -> tuple[DiskSpace, DiskSpace]:
        keys, pairs = self._spaces
        assert isinstance(keys, DiskSpace)
        assert isinstance(pairs, DiskSpace)
        return keys, pairs

    def _make_queue(self) -> TimerQueue:
        limit = self._cache_entries
        if limit is None:
            limit = max(_FIRST_LOOK, int(self._cache_bytes * _SHARE_OF_TIMERS / _BYTES_PER_TIMER))
        self._queues_made += 1
        return SpillingTimerQueue(self._open_records(f"timers {self._queues_made}"), limit)

    # What is used next --------------------------------------------------------------------------------

    def touch(self, keys: Any) -> None:
        """These keys come next: have them in memory. What was announced before may leave it."""
        space, pairs = self._disk_spaces
        if space.resident + pairs.resident > self._look_at:
            self._make_room()
        space.load(keys)
        if self._takes_note:
            space.announce(keys)

    def touch_pairs(self, pairs: Any) -> None:
        """These pairs of key and namespace come next, besides what was announced before."""
        space = self._disk_spaces[1]
        space.load(pairs)
        if self._takes_note:
            space.announce(pairs)

    def _make_room(self, in_bulk: bool = False) -> None:
        """Let keys leave the memory when there are too many; ``in_bulk``: many at once, because no record waits."""
        spaces = sorted(self._disk_spaces, key=lambda each: -each.resident)
        resident = sum(space.resident for space in spaces)
        limit = self._limit(spaces)
        # Keys leave in groups: a transaction costs, and records on the same page are written with one write.
        slack = max(1, min(_MOST_AT_ONCE, limit // 4))
        excess = resident - limit
        if excess > slack:
            if in_bulk:
                excess += min(_MOST_IN_BULK, limit // 2)
            for space in spaces:
                count = min(excess, space.resident)
                space.evict(count)
                excess -= count
        self._look_at = min(limit + slack, max(_FIRST_LOOK, 2 * resident))

    def _limit(self, spaces: list[DiskSpace]) -> int:
        """How many keys may be in memory."""
        if self._cache_entries is not None:
            return max(1, self._cache_entries)
        size = max(space.measure() for space in spaces)
        return max(1, int(self._cache_bytes / (_BYTES_PER_KEY + _BYTES_PER_BYTE * size)))

    def keys_of(self, name: str) -> Iterator[Any]:
        """The keys that have something in a table; each one may be read and changed while it is at hand."""
        space, table = self._disk_spaces[0], self._keys.table(name)
        for keys in space.all_keys():
            for key in keys:
                self.touch((key,))
                if key in table:
                    yield key

    def values_of(self, name: str) -> Iterator[list[Any]]:
        """All values of a table, some at a time."""
        space, table = self._disk_spaces[0], self._keys.table(name)
        for keys in space.all_keys():
            self.touch(keys)
            yield [table[key] for key in keys if key in table]

    def peek(self, name: str, key: Any) -> Any:
        """What a state holds for a key, None for nothing; for tests and queries, between batches."""
        self.touch((key,))
        return super().peek(name, key)

    # Snapshots ----------------------------------------------------------------------------------------

    def _parts(self, full: bool) -> list[SnapshotPart]:
        for _, queue in self.timers():
            assert isinstance(queue, SpillingTimerQueue)
            queue.settle()  # all writing first: a file that grows ends the views that this snapshot has
        return super()._parts(full)

    def _space_parts(self, space: KeySpace, full: bool) -> list[SnapshotPart]:
        assert isinstance(space, DiskSpace)
        if not space.tables:
            return []
        space.epoch += 1
        changed = None if full else space.changes.before_last_cut()
        residents = Residents(space)
        options = {name: self._part_options(space, name, full) for name in space.tables}
        found = [
            ResidentPart(residents, space, table, changed, **options[name])
            for name, table in space.tables.items()
        ]
        space.parts += found
        keep = {name: option["keep"] for name, option in options.items() if option["keep"] is not None}
        return [*found, StoredPart(space, residents, changed, keep)]

    def _drain(self) -> None:
        """Let go of all views of the records."""
        for snapshot in self._in_progress:
            for part in snapshot.parts:
                if isinstance(part, StoredPart | TimersPart):
                    part.drain()

    # Restoring ----------------------------------------------------------------------------------------

    def _restore_entries(self, table_id: TableId, keys: list[Any], values: list[Any]) -> None:
        self._make_room_in_bulk()
        self._disk_spaces[table_id.namespaced].load(keys, overwritten=table_id.name)
        super()._restore_entries(table_id, keys, values)

    def _remove_entries(self, table_id: TableId, keys: list[Any]) -> None:
        self._announce(table_id, keys)
        super()._remove_entries(table_id, keys)

    def _announce_all(self, table_id: TableId) -> None:
        space = self._disk_spaces[table_id.namespaced]
        for keys in space.all_keys():
            space.announce(keys)

    def _convert(self, table_id: TableId, convert: Callable[[Any], Any]) -> None:
        self._disk_spaces[table_id.namespaced].convert(table_id.name, convert)

    def take_restored_table(self, name: str, namespaced: bool) -> Iterator[tuple[Any, Any]]:
        """The entries of a restored table that this operator keeps in another way; the table has them no more."""
        table_id = TableId(name, namespaced)
        space = self._disk_spaces[namespaced]
        table = space.table(name)
        for keys in space.all_keys():
            self._announce(table_id, keys)
            yield from [(key, table[key]) for key in keys if key in table]
        self._drop(table_id)

    def _announce(self, table_id: TableId, keys: list[Any]) -> None:
        self._make_room_in_bulk()
        self._disk_spaces[table_id.namespaced].load(keys)

    def _make_room_in_bulk(self) -> None:
        keys, pairs = self._disk_spaces
        if keys.resident + pairs.resident > self._look_at:
            self._make_room(in_bulk=True)

    def close(self) -> None:
        """Give up the snapshots in progress, and the records."""
        for snapshot in list(self._in_progress):
            snapshot.cancel()
        self._close_records()
