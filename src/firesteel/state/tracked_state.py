"""What every keyed backend shares, and how it is frozen: hop 7 of a checkpoint's life.

There are tables, timers and stores, of which snapshots can be taken while they change.
A snapshot is full, or a delta: what was touched since the last *completed* checkpoint, its base. Whether a checkpoint is
completed is known long after its snapshot was taken. So time is cut into generations by the snapshots (`Changes`): the
keys of a generation are kept until a later checkpoint is completed, and pass to the next generation when theirs is
aborted. Restoring reads the full snapshot and every delta since, so after a number of deltas, or when they have outgrown
the full one, the next one is full again (`SnapshotChain`).

See `keyed_backend` for how changes are announced, `keyed_snapshot` for what a snapshot does with that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol

from firesteel.state.collection_changes import CollectionChanges
from firesteel.state.size_in_memory import TIMER_BYTES, approximate_bytes
from firesteel.state.snapshot.keyed_snapshot import (
    Block,
    Encode,
    Keep,
    KeyedSnapshot,
    SnapshotSection,
    StoreBegins,
    TableSection,
    TimersSection,
)
from firesteel.state.timer_queue import TimerQueue
from firesteel.state.waiting_entries import WaitingEntries

__all__ = [
    "MAX_DELTAS",
    "Changes",
    "EntryStore",
    "KeySpace",
    "SnapshotChain",
    "Table",
    "TableId",
    "TrackedState",
]

MAX_DELTAS = 16
_MANY_CHANGES = 1_000_000  # beyond which, and beyond twice the entries there are, it is cheaper to write all

Table = dict[Any, Any]


# Which keys were touched since when -------------------------------------------------------------------


class Changes:
    """The touched keys of tables (in sets) or of timers (in dicts, because their order is kept).

    ``current`` collects those of now. It is another object after every snapshot: do not keep it.
    """

    __slots__ = ("_earlier", "_new", "current")

    def __init__(self, new: Callable[[], Any] = set) -> None:
        self._new = new
        self._earlier: list[tuple[int, Any]] = []  # what was touched before the snapshot of that number
        self.current: Any = new()

    def cut(self, checkpoint_id: int) -> None:
        """A snapshot begins: from now on touched is touched after it."""
        self._earlier.append((checkpoint_id, self.current))
        self.current = self._new()

    def before_last_cut(self) -> Any:
        """All that was touched between the base and the last snapshot."""
        if len(self._earlier) == 1:
            return self._earlier[0][1]
        all_touched = self._new()
        for _, touched in self._earlier:
            all_touched.update(touched)
        return all_touched

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        """That snapshot is the base from now on."""
        self._earlier = [generation for generation in self._earlier if generation[0] > checkpoint_id]

    def discard(self, checkpoint_id: int) -> None:
        """That snapshot will never be the base: what was touched before it belongs to the next one."""
        for index, (number, touched) in enumerate(self._earlier):
            if number == checkpoint_id:
                del self._earlier[index]
                # In place: a snapshot in progress looks at the same object. To it these keys are nothing new.
                self._later(index).update(touched)
                return

    def _later(self, index: int) -> Any:
        return self._earlier[index][1] if index < len(self._earlier) else self.current

    def count(self) -> int:
        """How many keys are remembered, some of them perhaps more than once."""
        return len(self.current) + sum(len(touched) for _, touched in self._earlier)

    def forget(self) -> None:
        """There is no base any more."""
        self._earlier.clear()
        self.current = self._new()


# Tables by name ---------------------------------------------------------------------------------------


class TableId(NamedTuple):
    """Which table: the state's name and whether its entries are under ``(key, namespace)``."""

    name: str
    namespaced: bool


class KeySpace:
    """All tables whose entries are found under the same kind of key: a key, or ``(key, namespace)``."""

    __slots__ = ("changes", "encoders", "key_encoders", "namespaced", "sections", "tables")

    def __init__(self, namespaced: bool) -> None:
        self.namespaced = namespaced
        self.tables: dict[str, Table] = {}
        self.encoders: dict[
            str, Encode
        ] = {}  # what a value becomes in a snapshot, where it is not written as it is
        self.key_encoders: dict[str, Encode] = {}  # and what a key of a map state becomes
        self.changes = Changes()
        self.sections: list[TableSection] = []  # of snapshots in progress

    def table(self, name: str) -> Table:
        """The table of that name, which is made when it does not exist."""
        table = self.tables.get(name)
        if table is None:
            table = self.tables[name] = {}
        return table

    def rename(self, old: str, new: str) -> None:
        """Give a table another name."""
        if old in self.tables:
            self.tables[new] = self.tables.pop(old)

    def drop(self, name: str) -> None:
        """Forget a table; one that is not there is no error."""
        self.tables.pop(name, None)

    def has_entries(self, name: str) -> bool:
        """Whether a table has anything."""
        return bool(self.tables.get(name))

    def announce(self, keys: Any) -> None:
        """These keys are about to change: snapshots in progress save what they have, the next delta notes the keys."""
        for section in self.sections:
            section.save(keys)
        self.changes.current.update(keys)

    def cut(self, checkpoint_id: int) -> None:
        """A snapshot begins."""
        self.changes.cut(checkpoint_id)
        for section in self.sections:
            section.touched.append(self.changes.current)

    def __len__(self) -> int:
        return sum(map(len, self.tables.values()))


# Full snapshot or delta -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Base:
    checkpoint_id: int
    deltas: int
    full_bytes: int
    delta_bytes: int


class SnapshotChain:
    """The snapshots that may become the base, and the one that is."""

    def __init__(self, incremental: bool, max_deltas: int = MAX_DELTAS) -> None:
        self._incremental = incremental
        self._max_deltas = max_deltas
        self._base: _Base | None = None
        self._pending: dict[int, tuple[KeyedSnapshot, _Base | None]] = {}

    @property
    def base(self) -> int | None:
        """The checkpoint that the next delta builds on, None when it has to be a full one."""
        base = self._base
        if base is None or base.deltas >= self._max_deltas or base.delta_bytes > base.full_bytes:
            return None
        return base.checkpoint_id

    @property
    def needs_changes(self) -> bool:
        """Whether some later delta may want to know what is touched now."""
        return self._incremental and (self._base is not None or bool(self._pending))

    def began(self, snapshot: KeyedSnapshot) -> None:
        """A snapshot begins whose checkpoint may be completed one day."""
        if self._incremental:
            self._pending[snapshot.checkpoint_id] = (snapshot, self._base)

    def checkpoint_completed(self, checkpoint_id: int) -> bool:
        """The checkpoint is the base from now on; False when it cannot be one."""
        pending = self._pending.pop(checkpoint_id, None)
        if pending is None:
            return False
        self._pending = {number: later for number, later in self._pending.items() if number > checkpoint_id}
        snapshot, base = pending
        if snapshot.is_full:
            self._base = _Base(checkpoint_id, 0, snapshot.bytes, 0)
        else:
            assert base is not None
            self._base = _Base(
                checkpoint_id, base.deltas + 1, base.full_bytes, base.delta_bytes + snapshot.bytes
            )
        return True

    def discard(self, checkpoint_id: int) -> None:
        """The checkpoint was aborted, or is a savepoint, on which nothing may build."""
        self._pending.pop(checkpoint_id, None)

    def reset(self) -> None:
        """No snapshot so far can be a base: the next one has to be full."""
        self._base = None
        self._pending.clear()


# All state of a subtask -------------------------------------------------------------------------------


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
        #: Whether changes have to be announced; looked at once per batch.
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
        """All tables, those with namespaces after the others."""
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
        """All timer queues, also restored ones that no operator has asked for."""
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
