"""What every keyed backend shares: tables, timers and stores of which snapshots can be taken while they change.

See `hashmap_backend` for how changes are announced, `keyed_snapshot` for what a snapshot does with that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Protocol

from firesteel.state.changes import Changes
from firesteel.state.key_space import KeySpace, Table, TableId
from firesteel.state.keyed_snapshot import (
    Keep,
    KeyedSnapshot,
    SnapshotPart,
    StoreBegins,
    TablePart,
    TimersPart,
)
from firesteel.state.snapshot_chain import SnapshotChain
from firesteel.state.state_blocks import Block
from firesteel.state.timer_queue import TimerQueue
from firesteel.state.waiting_entries import WaitingEntries

__all__ = ["EntryStore", "TrackedState"]

_MANY_CHANGES = 1_000_000  # beyond which, and beyond twice the entries there are, it is cheaper to write all


class EntryStore(Protocol):
    """What an operator keeps beside the tables; always written whole."""

    def freeze(self, name: str) -> list[SnapshotPart]:
        """What there is now, as blocks ``("entries", name, keys, values, extra)``."""
        ...

    def restore(self, keys: list[Any], values: list[Any], extra: Any) -> None:
        """Take the entries of one block back."""
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
        self._takes_note = False  # whether what is announced matters to a snapshot
        self._keys, self._pairs = self._spaces = (self._make_space(False), self._make_space(True))
        self._timers: dict[TableId, TimerQueue] = {}
        self._unclaimed_timers: set[TableId] = set()  # queues that were restored, and nobody has asked for
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
            if self._takes_note:
                space.announce((key,))

        return announce

    # Timers and stores --------------------------------------------------------------------------------

    def timer_queue(self, name: str, namespaced: bool = False) -> TimerQueue:
        """The queue of that name, with what was restored for it; its entries are keys, or ``(key, namespace)``."""
        timers_id = TableId(name, namespaced)
        self._unclaimed_timers.discard(timers_id)
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
        """Make a store part of this state; what was restored under this name before is handed over now."""
        self._stores[name] = store
        for keys, values, extra in self._waiting.take(name):
            store.restore(keys, values, extra)

    # Snapshots ----------------------------------------------------------------------------------------

    def begin_snapshot(self, checkpoint_id: int, full: bool = False) -> KeyedSnapshot:
        """The state of this moment, to be serialised by `KeyedSnapshot.step` while processing goes on.

        A delta to the last confirmed checkpoint when that is possible and ``full`` is false.
        """
        self._limit_changes()
        base = None if full else self._chain.base
        for space in self._spaces:
            space.cut(checkpoint_id)
        for timers in self._timers.values():
            if timers.log is not None:
                timers.log.cut(checkpoint_id)
        snapshot = KeyedSnapshot(checkpoint_id, base, self._parts(base is None), self._written)
        self._chain.began(snapshot)
        if not snapshot.done:
            self._in_progress.append(snapshot)
        self._watch()
        return snapshot

    def confirm(self, checkpoint_id: int) -> None:
        """The checkpoint is durable: from now on deltas build on it. Never for savepoints: they may be deleted."""
        if self._chain.confirm(checkpoint_id):
            for changes in self._changes():
                changes.confirm(checkpoint_id)
        self._watch()

    def discard(self, checkpoint_id: int) -> None:
        """Nothing will build on the checkpoint: it was given up, or it is a savepoint."""
        for snapshot in [each for each in self._in_progress if each.checkpoint_id == checkpoint_id]:
            snapshot.cancel()
        self._chain.discard(checkpoint_id)
        for changes in self._changes():
            changes.discard(checkpoint_id)
        self._watch()

    def _parts(self, full: bool) -> list[SnapshotPart]:
        parts: list[SnapshotPart] = []
        for space in self._spaces:
            parts += self._space_parts(space, full)
        for (name, namespaced), timers in self._timers.items():
            changed = None if full else timers.log.before_last_cut() if timers.log is not None else ()
            parts.append(TimersPart(name, namespaced, timers.freeze(changed)))
        for name, store in self._stores.items():
            if not full:
                parts.append(StoreBegins(name))
            parts += store.freeze(name)
        return parts

    def _space_parts(self, space: KeySpace, full: bool) -> list[SnapshotPart]:
        changed = None if full else space.changes.before_last_cut()
        found = [
            TablePart(table, changed, space.changes.current, **self._part_options(space, name, full))
            for name, table in space.tables.items()
        ]
        space.parts += found
        return [*found]

    def _part_options(self, space: KeySpace, name: str, full: bool) -> dict[str, Any]:
        """How a table is written."""
        return {
            "put": partial(_put, name, space.namespaced),
            "remove": None if full else partial(_remove, name, space.namespaced),
            "keep": self._keeper(TableId(name, space.namespaced)) if full else None,
            "encode": space.encoders.get(name),
        }

    def _keeper(self, table_id: TableId) -> Keep | None:
        """What to leave out of a full snapshot of a table; None for nothing."""
        return None

    def _written(self, snapshot: KeyedSnapshot) -> None:
        """A snapshot has been serialised, or cancelled."""
        self._in_progress = [each for each in self._in_progress if each is not snapshot]
        in_use = {id(part) for each in self._in_progress for part in each.parts}
        for space in self._spaces:
            space.parts = [part for part in space.parts if id(part) in in_use]
        self._watch()

    def _changes(self) -> Iterator[Changes]:
        yield self._keys.changes
        yield self._pairs.changes
        for timers in self._timers.values():
            if timers.log is not None:
                yield timers.log

    def _watch(self) -> None:
        """Have changes announced from now on, or no more."""
        needs_changes = self._chain.needs_changes
        self._takes_note = needs_changes or bool(self._in_progress)
        self.tracks = self._takes_note or self._always_tracks
        if not self._takes_note:
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
            *((timers.log, timers.about) for timers in self._timers.values() if timers.log is not None),
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
