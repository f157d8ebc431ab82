"""What every keyed backend shares: tables, timers and stores of which snapshots can be taken while they change.

See `keyed_backend` for how changes are announced, `keyed_snapshot` for what a snapshot does with that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Protocol

from firesteel.state.changes import Changes
from firesteel.state.collection_changes import CollectionChanges
from firesteel.state.key_space import KeySpace, Table, TableId
from firesteel.state.size_in_memory import TIMER_BYTES, approximate_bytes
from firesteel.state.snapshot.chain import SnapshotChain
from firesteel.state.snapshot.keyed_snapshot import (
    Keep,
    KeyedSnapshot,
    SnapshotSection,
    StoreBegins,
    TableSection,
    TimersSection,
)
from firesteel.state.snapshot.state_blocks import Block
from firesteel.state.timer_queue import TimerQueue
from firesteel.state.waiting_entries import WaitingEntries

__all__ = ["EntryStore", "TrackedState"]

_MANY_CHANGES = 1_000_000  # beyond which, and beyond twice the entries there are, it is cheaper to write all


class EntryStore(Protocol):
    """What an operator keeps beside the tables; always written whole."""

    def freeze(self, name: str) -> list[SnapshotSection]:
        """What there is now, as blocks ``("entries", name, keys, values, extra)``."""
        ...

    def restore(self, keys: list[Any], values: list[Any], extra: Any) -> None:
        """Restore the entries of one block."""
        ...


class TrackedState:
    """Tables, timer queues and stores of one operator's subtask."""

    #: Whether keys have to be announced even when nobody takes a snapshot.
    _always_tracks = False
    #: Whether all state is in memory anyway, so that operators may keep theirs where they like.
    is_in_memory = True

    def __init__(self, incremental: bool, max_deltas: int) -> None:
        #: Whether changes have to be announced; operators look at it once per batch.
        self.tracks = self._always_tracks
        self._notes_changes = False  # whether what is announced matters to a snapshot
        self._keys, self._pairs = self._spaces = (self._make_space(False), self._make_space(True))
        self._timers: dict[TableId, TimerQueue] = {}
        self._unregistered_timers: set[TableId] = set()  # restored queues that no operator has asked for
        self._stores: dict[str, EntryStore] = {}
        self._waiting = WaitingEntries()
        self._chain = SnapshotChain(incremental, max_deltas)
        self._in_progress: list[KeyedSnapshot] = []

    def _make_space(self, namespaced: bool) -> KeySpace:
        return KeySpace(namespaced)

    def tables(self) -> Iterator[tuple[TableId, Table]]:
        """All tables."""
        for space in self._spaces:
            for name, table in space.tables.items():
                yield TableId(name, space.namespaced), table

    def in_memory(self) -> tuple[int, int]:
        """How many entries of states and timers are in memory, and about how many bytes they take; always quick."""
        tables = [table for _, table in self.tables()]
        timers = sum(len(queue) for _, queue in self.timers())
        return sum(map(len, tables)) + timers, sum(map(approximate_bytes, tables)) + timers * TIMER_BYTES

    def encode_with(self, name: str, encode: Callable[[Any], Any]) -> None:
        """Write the values of a table (by key) as what ``encode`` makes of them; they are restored as that."""
        self._keys.encoders[name] = encode

    # What is about to change --------------------------------------------------------------------------

    def touch(self, keys: Any) -> None:
        """These keys come next: what is under them may change. ``keys`` is a collection."""
        self._keys.announce(keys)

    def touch_pairs(self, pairs: Any) -> None:
        """What is under these pairs of key and namespace may change; ``pairs`` is a collection."""
        self._pairs.announce(pairs)

    def _sweeper(self, space: KeySpace) -> Callable[[Any], None]:
        """Announces what goes because it has expired, whoever has the word at the moment."""

        def announce(key: Any) -> None:
            if self._notes_changes:
                space.announce((key,))

        return announce

    # Timers and stores --------------------------------------------------------------------------------

    def timer_queue(self, name: str, namespaced: bool = False) -> TimerQueue:
        """The queue of that name, with what was restored for it; its entries are keys, or ``(key, namespace)``."""
        timers_id = TableId(name, namespaced)
        self._unregistered_timers.discard(timers_id)
        return self._queue(timers_id)

    def _queue(self, timers_id: TableId) -> TimerQueue:
        queue = self._timers.get(timers_id)
        if queue is None:
            queue = self._timers[timers_id] = self._make_queue()
            self._watch()
        return queue

    def _make_queue(self) -> TimerQueue:
        return TimerQueue()

    def timers(self) -> Iterator[tuple[TableId, TimerQueue]]:
        """All timer queues."""
        return iter(self._timers.items())

    def add_store(self, name: str, store: EntryStore) -> None:
        """Add a store to this state; what was restored under this name before is handed over now."""
        self._stores[name] = store
        for keys, values, extra in self._waiting.pop(name):
            store.restore(keys, values, extra)

    # Snapshots ----------------------------------------------------------------------------------------

    def begin_snapshot(self, checkpoint_id: int, full: bool = False) -> KeyedSnapshot:
        """The state of this moment, to be serialised by `KeyedSnapshot.step` while processing continues.

        A delta to the last completed checkpoint when that is possible and ``full`` is false.
        """
        self._limit_changes()
        base = None if full else self._chain.base
        for space in self._spaces:
            space.cut(checkpoint_id)
        self._cut_more(checkpoint_id)
        for timers in self._timers.values():
            if timers.log is not None:
                timers.log.cut(checkpoint_id)
        snapshot = KeyedSnapshot(checkpoint_id, base, self._sections(base is None), self._written)
        self._chain.began(snapshot)
        if not snapshot.done:
            self._in_progress.append(snapshot)
        self._watch()
        return snapshot

    def _cut_more(self, checkpoint_id: int) -> None:
        """Begin a generation of the changes that a subclass remembers besides."""

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        """The checkpoint is durable: from now on deltas build on it. Never for savepoints: they may be deleted."""
        if self._chain.checkpoint_completed(checkpoint_id):
            for changes in self._changes():
                changes.checkpoint_completed(checkpoint_id)
        self._watch()

    def discard(self, checkpoint_id: int) -> None:
        """Nothing will build on the checkpoint: it was aborted, or it is a savepoint."""
        for snapshot in list(self._in_progress):
            if snapshot.checkpoint_id == checkpoint_id:
                snapshot.cancel()
        self._chain.discard(checkpoint_id)
        for changes in self._changes():
            changes.discard(checkpoint_id)
        self._watch()

    def _sections(self, full: bool) -> list[SnapshotSection]:
        sections: list[SnapshotSection] = []
        for space in self._spaces:
            sections += self._space_sections(space, full)
        for (name, namespaced), timers in self._timers.items():
            changed = None if full else timers.log.before_last_cut() if timers.log is not None else ()
            sections.append(TimersSection(name, namespaced, timers.freeze(changed)))
        for name, store in self._stores.items():
            if not full:
                sections.append(StoreBegins(name))
            sections += store.freeze(name)
        return sections

    def _space_sections(self, space: KeySpace, full: bool) -> list[SnapshotSection]:
        changed = None if full else space.changes.before_last_cut()
        sections = [
            TableSection(table, changed, space.changes.current, **self._section_options(space, name, full))
            for name, table in space.tables.items()
        ]
        space.sections += sections
        return [*sections]

    def _section_options(self, space: KeySpace, name: str, full: bool) -> dict[str, Any]:
        """How a table is written."""
        return {
            "put": partial(_put, name, space.namespaced),
            "remove": None if full else partial(_remove, name, space.namespaced),
            "keep": self._expiry_filter(TableId(name, space.namespaced)) if full else None,
            "encode": space.encoders.get(name),
            "extend": partial(_extend, name, space.namespaced)
            if self._has_pieces(TableId(name, space.namespaced))
            else None,
        }

    def _has_pieces(self, table_id: TableId) -> bool:
        """Whether the values of a table are maps or lists that may be written in pieces."""
        return False

    def _expiry_filter(self, table_id: TableId) -> Keep | None:
        """Tells what of a value of a table to write into a full snapshot; None for all of it."""
        return None

    def _written(self, snapshot: KeyedSnapshot) -> None:
        """A snapshot has been serialised, or cancelled."""
        self._in_progress = [other for other in self._in_progress if other is not snapshot]
        in_use = {id(section) for other in self._in_progress for section in other.sections}
        for space in self._spaces:
            space.sections = [section for section in space.sections if id(section) in in_use]
        self._watch()

    def _changes(self) -> Iterator[Changes | CollectionChanges]:
        yield self._keys.changes
        yield self._pairs.changes
        for timers in self._timers.values():
            if timers.log is not None:
                yield timers.log

    def _watch(self) -> None:
        """Decide whether changes have to be announced from now on."""
        needs_changes = self._chain.needs_changes
        self._notes_changes = needs_changes or bool(self._in_progress)
        self.tracks = self._notes_changes or self._always_tracks
        if not self._notes_changes:
            for changes in self._changes():
                changes.forget()
        for timers in self._timers.values():
            if not needs_changes:
                timers.log = None
            elif timers.log is None:
                timers.log = Changes(dict)

    def _limit_changes(self) -> None:
        """When checkpoints fail all the time, keys and timers that come and go must not pile up for a delta for ever."""
        sizes = [
            *((space.changes, space.__len__) for space in self._spaces),
            *(
                (timers.log, timers.approximate_length)
                for timers in self._timers.values()
                if timers.log is not None
            ),
        ]
        for changed, size in sizes:
            count = changed.count()
            if count > _MANY_CHANGES and count > 2 * size():
                self._chain.reset()
                for changes in self._changes():
                    changes.forget()


def _put(name: str, namespaced: bool, keys: list[Any], values: list[Any]) -> Block:
    return "put", name, namespaced, keys, values


def _remove(name: str, namespaced: bool, keys: list[Any]) -> Block:
    return "remove", name, namespaced, keys


def _extend(name: str, namespaced: bool, keys: list[Any], pieces: list[Any]) -> Block:
    return "extend", name, namespaced, keys, pieces
