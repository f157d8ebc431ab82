"""Keyed state larger than memory: a cache of live objects over a store of records.

What is used is in memory as live objects, in the tables of the hashmap backend, with the same states and operators on
top; see `space` for how keys come and go. So state that fits into the cache costs little more than without a
store. Of timers the next ones are in memory; see `spilling_timer_queue`. What operators keep beside the tables stays
there.

Where the other keys are is a matter of the subclass: `disk_backend` has them in a file of its own, `custom_backend` in
whatever the user brings along.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from firesteel.common._override import override
from firesteel.contracts.state import StateDescriptor
from firesteel.state.cached.large_collections import Entries, LargeList, LargeMap
from firesteel.state.cached.large_collections_section import LargeCollectionsSection
from firesteel.state.cached.record_store import RecordStore
from firesteel.state.cached.space import CachedSpace, Residents, ResidentSection, StoredSection
from firesteel.state.cached.spilling_states import SPILLING_KINDS, SPILLING_TTL_KINDS, Spills
from firesteel.state.cached.spilling_timer_queue import SpillingTimerQueue
from firesteel.state.collection_changes import CollectionChanges
from firesteel.state.key_context import KeyContext
from firesteel.state.keyed_backend import KeyedBackend
from firesteel.state.keyed_state import HeapState
from firesteel.state.snapshot.keyed_snapshot import Keep, KeyedSnapshot, SnapshotSection, TimersSection
from firesteel.state.state_ttl import TtlState
from firesteel.state.timer_queue import TimerQueue
from firesteel.state.tracked_state import MAX_DELTAS, Changes, KeySpace, Table, TableId

__all__ = ["DEFAULT_CACHE_BYTES", "LARGE_FROM", "CachedBackend"]

DEFAULT_CACHE_BYTES = 256 << 20
LARGE_FROM = 1024  # entries; reading and writing that many together costs as much as some twenty single ones
# What a key costs in memory: the objects and slots of a small entry, and what each byte of its record becomes.
_BYTES_PER_KEY, _BYTES_PER_BYTE = 250, 2.5
_BYTES_PER_TIMER = 250
_SHARE_OF_ENTRIES = 1 / 8  # of the cache, for entries of large maps besides it
_SHARE_OF_TIMERS = 1 / 8  # of the cache, for each queue besides it
_FIRST_CHECK = 1024
_MOST_AT_ONCE = 8192  # keys that leave the memory together: the loop of the task stands still as long
_MOST_IN_BULK = 65536


class CachedBackend(KeyedBackend):
    """All keyed state of one operator's subtask, some of it cached in memory.

    That is as many keys as ``cache_bytes`` seem to hold, judging by the size of their records; or ``cache_entries``
    keys, whatever they have. Lists and maps of more than ``large_from`` entries are not there as a whole: see
    `large_collections`.
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
        large_from: int = LARGE_FROM,
    ) -> None:
        self._cache_bytes = cache_bytes
        self._cache_entries = cache_entries
        self._large_from = large_from
        self._entries = Entries(
            self._open_records("entries"), int(cache_bytes * _SHARE_OF_ENTRIES), cache_entries
        )
        self._check_at = _FIRST_CHECK if cache_entries is None else cache_entries  # keys in memory
        self._queues_made = 0
        super().__init__(clock, incremental=incremental, max_deltas=max_deltas, operator=operator)

    @override
    def _make_space(self, namespaced: bool) -> KeySpace:
        return CachedSpace(namespaced, self._open_records("pairs" if namespaced else "keys"), self._entries)

    @abstractmethod
    def _open_records(self, space: str) -> RecordStore:
        """Where what is not in memory is: the ``keys``, the ``pairs`` of key and namespace, or some ``timers``.

        ``entries`` are those of large maps and lists.
        """

    @abstractmethod
    def _close_records(self) -> None:
        """Release all record stores that were opened."""

    @property
    def _cached_spaces(self) -> tuple[CachedSpace, CachedSpace]:
        keys, pairs = self._spaces
        assert isinstance(keys, CachedSpace)
        assert isinstance(pairs, CachedSpace)
        return keys, pairs

    @override
    def _make_queue(self) -> TimerQueue:
        limit = self._cache_entries
        if limit is None:
            limit = max(_FIRST_CHECK, int(self._cache_bytes * _SHARE_OF_TIMERS / _BYTES_PER_TIMER))
        self._queues_made += 1
        return SpillingTimerQueue(self._open_records(f"timers {self._queues_made}"), limit)

    # What is used next --------------------------------------------------------------------------------

    @override
    def touch(self, keys: Any) -> None:
        """These keys come next: have them in memory. What was announced before may leave it."""
        space, pairs = self._cached_spaces
        if space.resident + pairs.resident > self._check_at:
            self._make_room()
        if self._entries.has_trash and not self._in_progress:  # which might want to see it still
            self._entries.empty_trash()
        space.load(keys)
        if self._notes_changes:
            space.announce(keys)

    @override
    def touch_pairs(self, pairs: Any) -> None:
        """These pairs of key and namespace come next, besides what was announced before."""
        space = self._cached_spaces[1]
        space.load(pairs)
        if self._notes_changes:
            space.announce(pairs)

    def _make_room(self, in_bulk: bool = False) -> None:
        """Let keys leave the memory when there are too many; ``in_bulk``: many at once, because no record waits."""
        spaces = sorted(self._cached_spaces, key=lambda space: -space.resident)
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
        self._check_at = min(limit + slack, max(_FIRST_CHECK, 2 * resident))

    def _limit(self, spaces: list[CachedSpace]) -> int:
        """How many keys may be in memory."""
        if self._cache_entries is not None:
            return max(1, self._cache_entries)
        size = max(space.measure() for space in spaces)
        return max(1, int(self._cache_bytes / (_BYTES_PER_KEY + _BYTES_PER_BYTE * size)))

    @override
    def keys_of(self, name: str) -> Iterator[Any]:
        """The keys that have something in a table; each one may be read and changed while it is at hand."""
        space, table = self._cached_spaces[0], self._keys.table(name)
        for keys in space.all_keys():
            for key in keys:
                self.touch((key,))
                if key in table:
                    yield key

    @override
    def values_of(self, name: str) -> Iterator[list[Any]]:
        """All values of a table, some at a time."""
        space, table = self._cached_spaces[0], self._keys.table(name)
        for keys in space.all_keys():
            self.touch(keys)
            yield [table[key] for key in keys if key in table]

    @override
    def peek(self, name: str, key: Any) -> Any:
        """What a state holds for a key, None for nothing; for tests and queries, between batches."""
        self.touch((key,))
        return super().peek(name, key)

    # Snapshots ----------------------------------------------------------------------------------------

    @override
    def begin_snapshot(self, checkpoint_id: int, full: bool = False) -> KeyedSnapshot:
        """The state of this moment, to be serialised while processing continues."""
        self._entries.flush()  # before anybody asks what has changed so far
        return super().begin_snapshot(checkpoint_id, full)

    @override
    def _cut_more(self, checkpoint_id: int) -> None:
        self._entries.changes.cut(checkpoint_id)

    @override
    def _changes(self) -> Iterator[Changes | CollectionChanges]:
        yield from super()._changes()
        yield self._entries.changes

    @override
    def _watch(self) -> None:
        super()._watch()
        self._entries.notes_changes = self._notes_changes

    @override
    def _sections(self, full: bool) -> list[SnapshotSection]:
        for _, queue in self.timers():
            assert isinstance(queue, SpillingTimerQueue)
            queue.flush()  # all writing first: a file that grows ends the views that this snapshot has
        return super()._sections(full)

    @override
    def _space_sections(self, space: KeySpace, full: bool) -> list[SnapshotSection]:
        assert isinstance(space, CachedSpace)
        if not space.tables:
            return []
        space.epoch += 1
        changed = None if full else space.changes.before_last_cut()
        residents = Residents(space)
        options = {name: self._section_options(space, name, full) for name in space.tables}
        sections = [
            ResidentSection(residents, space, table, changed, **options[name])
            for name, table in space.tables.items()
        ]
        space.sections += sections
        keep = {name: option["keep"] for name, option in options.items() if option["keep"] is not None}
        if not self._entries.is_used:
            return [*sections, StoredSection(space, residents, changed, keep)]
        large = self._large_section(space, changed, keep)
        return [*sections, StoredSection(space, residents, changed, keep, large), large]

    def _large_section(
        self, space: CachedSpace, changed: Any, keep: dict[str, Keep]
    ) -> LargeCollectionsSection:
        marks = None if changed is None else self._entries.changes.before_last_cut()
        section = LargeCollectionsSection(
            self._entries,
            space.namespaced,
            space.names(),
            marks,
            space.encoders,
            space.key_encoders,
            keep,
        )
        for collection in self._entries.resident.values():
            owner, table, key = collection.location
            if owner is space and (changed is None or key in changed):
                section.add(table, key, collection.description())
        return section

    def _drain(self) -> None:
        """Close all views of the records: snapshots in progress read the rest of them now."""
        for snapshot in self._in_progress:
            for section in snapshot.sections:
                if isinstance(section, StoredSection | LargeCollectionsSection | TimersSection):
                    section.drain()

    # Restoring ----------------------------------------------------------------------------------------

    @override
    def _restore_entries(self, table_id: TableId, keys: list[Any], values: list[Any]) -> None:
        self._make_room_in_bulk()
        space = self._cached_spaces[table_id.namespaced]
        # A large map or list that is overwritten has records that are to be found.
        space.load(keys, overwritten=None if self._entries.is_used else table_id.name)
        self._delete_collections(table_id, keys)
        super()._restore_entries(table_id, keys, values)

    @override
    def _remove_entries(self, table_id: TableId, keys: list[Any]) -> None:
        self._announce(table_id, keys)
        self._delete_collections(table_id, keys)
        super()._remove_entries(table_id, keys)

    @override
    def _restore_pieces(self, table_id: TableId, kind: str, keys: list[Any], pieces: list[Any]) -> None:
        self._announce(table_id, keys)
        super()._restore_pieces(table_id, kind, keys, pieces)
        spills, table = self._spills(table_id), self._space(table_id).table(table_id.name)
        for key in keys:
            stored = table.get(key)
            if isinstance(stored, LargeMap | LargeList):
                stored.oldest = 0  # nobody knows
            elif stored is not None and len(stored) > self._large_from:
                large = spills.large_map if isinstance(stored, dict) else spills.large_list
                table[key] = large(key, stored)

    @override
    def _has_pieces(self, table_id: TableId) -> bool:
        # Of a table that nobody has asked for yet it may not be known what it holds.
        return self._entries.is_used or super()._has_pieces(table_id)

    def _delete_collections(self, table_id: TableId, keys: list[Any]) -> None:
        space = self._cached_spaces[table_id.namespaced]
        space.delete_collections(map(space.table(table_id.name).get, keys))

    @override
    def clear_namespace(self, key: Any, namespace: Any, names: Iterable[str]) -> None:
        """Forget what the named states hold for a key in a namespace."""
        names, space = list(names), self._cached_spaces[1]
        space.delete_collections(
            space.tables[name].get((key, namespace)) for name in names if name in space.tables
        )
        super().clear_namespace(key, namespace, names)

    def _spills(self, table_id: TableId) -> Spills:
        space = self._cached_spaces[table_id.namespaced]
        return Spills(self._entries, space, table_id.name, self._large_from)

    @override
    def _plain_state(
        self, descriptor: StateDescriptor, keys: KeyContext, table: Table, table_id: TableId
    ) -> HeapState:
        kind = SPILLING_KINDS.get(type(descriptor))
        if kind is None:
            return super()._plain_state(descriptor, keys, table, table_id)
        state = kind(keys, table, descriptor)
        state.spills = self._spills(table_id)
        return state

    @override
    def _ttl_state(
        self, descriptor: StateDescriptor, keys: KeyContext, table: Table, table_id: TableId
    ) -> TtlState:
        kind = SPILLING_TTL_KINDS.get(type(descriptor))
        if kind is None:
            return super()._ttl_state(descriptor, keys, table, table_id)
        state = kind(keys, table, descriptor, self._clock)
        state.spills = self._spills(table_id)
        return state

    @override
    def _announce_all(self, table_id: TableId) -> None:
        space = self._cached_spaces[table_id.namespaced]
        # Renamed or converted: the next delta has to have all of its large maps and lists.
        self._entries.changes.mark((table_id.namespaced, space.number(table_id.name)), 0, writes_all=True)
        for keys in space.all_keys():
            space.announce(keys)

    @override
    def _convert(self, table_id: TableId, convert: Callable[[Any], Any]) -> None:
        self._cached_spaces[table_id.namespaced].convert(table_id.name, convert)

    @override
    def pop_restored_table(self, name: str, namespaced: bool) -> Iterator[tuple[Any, Any]]:
        """The entries of a restored table that this operator keeps in another way; the table has them no more."""
        table_id = TableId(name, namespaced)
        space = self._cached_spaces[namespaced]
        table = space.table(name)
        for keys in space.all_keys():
            self._announce(table_id, keys)
            yield from [(key, table[key]) for key in keys if key in table]
        self._drop(table_id)

    def _announce(self, table_id: TableId, keys: list[Any]) -> None:
        self._make_room_in_bulk()
        self._cached_spaces[table_id.namespaced].load(keys)

    def _make_room_in_bulk(self) -> None:
        keys, pairs = self._cached_spaces
        if keys.resident + pairs.resident > self._check_at:
            self._make_room(in_bulk=True)

    @override
    def close(self) -> None:
        """Cancel the snapshots in progress, and close the records."""
        for snapshot in list(self._in_progress):
            snapshot.cancel()
        self._close_records()
