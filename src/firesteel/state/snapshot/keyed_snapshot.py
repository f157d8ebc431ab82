"""Keyed state as it was at one moment, serialised bit by bit while processing continues, and the blocks it becomes.

A snapshot begins with a list of keys, which is quick. Their values are serialised later, some thousand per `step`.
In between the live tables change, but every change is announced (``KeyedBackend.touch``): an entry that is about
to change for the first time since the snapshot began is serialised right then (`TableSection.save`). So whatever
`step` still finds in a table is as it was when the snapshot began.

Blocks, in which operator state is written, too, are small tuples, pickled:

====================================================  ==========================================================
``("put", table, namespaced, keys, values)``          entries of a table; a key is ``(key, namespace)`` if namespaced
``("remove", table, namespaced, keys)``               entries that are gone (in deltas only)
``("extend", table, namespaced, keys, pieces)``       more of the maps (dicts) and lists of these keys
``("remove_entries", table, namespaced, keys, gone)`` for each key a list of what is gone from its map (in deltas only)
``("truncate", table, namespaced, keys, lengths)``    what the lists of these keys keep (in deltas only)
``("timers", queue, namespaced, times, entries)``     timers; an entry is a key or ``(key, namespace)``
``("timers_removed", queue, namespaced, ...)``        timers that are gone (in deltas only)
``("entries", store, keys, values, extra)``           what an operator keeps in a store of its own, such as panes
``("list", name, mode, items)``                       a list state; of a broadcast state the pairs of key and value
====================================================  ==========================================================

A large map or list is written in pieces: a "put" with the first one and an "extend" for each of the others; of one that
has changed a little, a delta has only that.

Blocks are applied in the order in which they were written; a later one wins. Stores are whole in every segment, also
in deltas: only those of the newest segment count, and a delta says with an empty block that a store may have become
empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import compress, islice
from typing import Any, Protocol

from firesteel.checkpoint.state_pickle import dumps, loads
from firesteel.common.errors import StateNotSerializableError
from firesteel.state.cached.large_collections import LargeList, LargeMap
from firesteel.state.ttl_sweep import GONE

__all__ = [
    "Accepts",
    "Among",
    "Block",
    "Encode",
    "FrozenTimers",
    "Keep",
    "KeyedSnapshot",
    "SnapshotSection",
    "StoreBegins",
    "TableSection",
    "Timers",
    "TimersSection",
    "accepted",
    "apply_pieces",
    "extend_with",
    "read_block",
    "remove_from",
    "truncate_to",
    "write_block",
]

STEP_ENTRIES = 4096
_BLOCK_ENTRIES = 1024
PIECE = 8192  # entries of a map or list that are written together
_STEP_BYTES = 256 * 1024  # a step ends when its blocks have that many, whatever the number of entries

Block = tuple[Any, ...]
#: Whether a key belongs to the subtask that is being restored.
Accepts = Callable[[Any], bool]
#: What is left of a stored value, `GONE` for nothing: expired values are not written.
Keep = Callable[[Any], Any]
Encode = Callable[[Any], Any]
#: Times and entries.
Timers = tuple[list[int], list[Any]]
MakeBlock = Callable[[list[Any], list[Any]], Block]


# Snapshots --------------------------------------------------------------------------------------------


class Among(Protocol):
    """Some of the keys of a table."""

    def __iter__(self) -> Iterator[Any]:
        """The keys that are written, as of the beginning of the snapshot."""
        ...

    def __contains__(self, key: Any, /) -> bool:
        """Whether a key is among those that are written."""
        ...


class SnapshotSection(Protocol):
    """One section of a snapshot: a table, the timers of a queue, or what a store holds."""

    @property
    def done(self) -> bool:
        """Whether `step` has nothing left to do."""
        ...

    def step(self, entries: int) -> list[bytes]:
        """Serialise up to ``entries`` entries."""
        ...

    def close(self) -> None:
        """The snapshot is serialised, or was cancelled: release what the section looks at."""
        ...


class FrozenTimers(Protocol):
    """The timers of a queue as they were at one moment."""

    def pop(self, count: int) -> tuple[Timers, Timers]:
        """Some more timers: those that were there, and, in a delta, those that were gone."""
        ...

    @property
    def done(self) -> bool:
        """Whether all have been popped."""
        ...

    def drain(self) -> None:
        """Bring into memory whatever is read from outside: its view is about to be closed."""
        ...

    def close(self) -> None:
        """Release the queue and the view: nobody will pop any more."""
        ...


class TableSection:
    """The entries of one table: all, or those under the keys that are in ``among``.

    ``touched`` holds what was announced since the snapshot began; `save` has to be called before it is added to.
    """

    def __init__(
        self,
        table: dict[Any, Any],
        among: Among | None,
        touched: set[Any],
        put: MakeBlock,
        remove: Callable[[list[Any]], Block] | None = None,
        keep: Keep | None = None,
        encode: Encode | None = None,
        extend: MakeBlock | None = None,
    ) -> None:
        self.table = table
        self._among = among
        self.touched = [touched]
        self._put = put
        self._remove = remove
        self._keep = keep
        self._encode = encode
        self._extend = extend  # when values are maps and lists that may be written in pieces
        keys = list(table if among is None else among)
        self._keys = iter(keys)
        self._listed = bool(keys)  # whether there are keys that `step` has not come to
        self._saved: list[bytes] = []
        self._failure: Exception | None = None

    @property
    def done(self) -> bool:
        """Whether all entries have been handed out."""
        return not self._listed and not self._saved

    def save(self, keys: Iterable[Any]) -> None:
        """These entries are about to change: serialise those that have not changed since the snapshot began.

        An entry that `step` has passed already is written once more, with the same value.
        """
        if self._listed:
            fresh = self._untouched(keys)
            if self._among is not None:
                fresh = [key for key in fresh if key in self._among]
            if fresh:
                try:
                    self._saved += self._write(list(dict.fromkeys(fresh)))
                except Exception as error:  # noqa: BLE001 - the checkpoint is aborted, processing continues
                    self._failure = error

    def step(self, entries: int) -> list[bytes]:
        """Serialise up to ``entries`` more entries."""
        if self._failure is not None:
            raise self._failure
        payloads, self._saved = self._saved, []
        if self._listed:
            keys = list(islice(self._keys, entries))
            self._listed = len(keys) == entries
            payloads += self._write(self._untouched(keys))
        return payloads

    def close(self) -> None:
        """Release the table."""
        self._listed = False
        self._saved = []
        self._keys = iter(())

    def _untouched(self, keys: Iterable[Any]) -> Any:
        for touched in self.touched:
            if touched:
                keys = [key for key in keys if key not in touched]
        return keys

    def _write(self, keys: list[Any]) -> list[bytes]:
        keep, encode = self._keep, self._encode
        present, values = self._present(keys)
        if keep is not None:
            values = [keep(value) for value in values]
            present = [key for key, value in zip(present, values, strict=True) if value is not GONE]
            values = [value for value in values if value is not GONE]
        gone = [] if self._remove is None else self._missing(keys, present)
        if self._extend is not None and (large := [is_large(value) for value in values]) and any(large):
            payloads = self._write_large(present, values)
            small = [not is_large_value for is_large_value in large]
            present, values = list(compress(present, small)), list(compress(values, small))
        else:
            payloads = []
        if encode is not None:
            values = [encode(value) for value in values]
        if present:
            payloads.append(self._dumped(self._put(present, values)))
        if gone and self._remove is not None:
            payloads.append(self._dumped(self._remove(gone)))
        return payloads

    def _missing(self, keys: list[Any], present: list[Any]) -> list[Any]:
        if len(present) == len(keys):
            return []
        left = set(present)
        return [key for key in keys if key not in left]

    def _write_large(self, keys: list[Any], values: list[Any]) -> list[bytes]:
        """Maps and lists that whoever restores them should not need to have in memory as a whole."""
        assert self._extend is not None
        payloads = []
        for key, value in zip(keys, values, strict=True):
            make = self._put
            for piece in pieces_of(value) if is_large(value) else ():
                written = piece if self._encode is None else self._encode(piece)
                payloads.append(self._dumped(make([key], [written])))
                make = self._extend
        return payloads

    def _present(self, keys: list[Any]) -> tuple[list[Any], list[Any]]:
        """Which of the keys have an entry, and the values of these."""
        table = self.table
        try:  # mostly all of them have one, so do not ask and then look: one search per key is enough
            return keys, list(map(table.__getitem__, keys))
        except KeyError:
            present = [key for key in keys if key in table]
            return present, [table[key] for key in present]

    def _dumped(self, block: Block) -> bytes:
        try:
            return write_block(block)
        except StateNotSerializableError as error:
            error.add_note(f"in state {block[1]!r}")
            raise


def is_large(value: Any) -> bool:
    """Whether a map or list is to be written in pieces; one that is not in memory as a whole is another's business."""
    if type(value) is dict or type(value) is list:
        return len(value) > PIECE
    return isinstance(value, LargeMap | LargeList)


def pieces_of(value: Any) -> Iterator[Any]:
    """A map or list, some entries at a time."""
    if type(value) is dict:
        entries = iter(value.items())
        while piece := dict(islice(entries, PIECE)):
            yield piece
    elif type(value) is list:
        for start in range(0, len(value), PIECE):
            yield value[start : start + PIECE]


class TimersSection:
    """The timers of one queue."""

    def __init__(self, name: str, namespaced: bool, frozen: FrozenTimers) -> None:
        self._name = name
        self._namespaced = namespaced
        self._frozen = frozen

    @property
    def done(self) -> bool:
        """Whether all timers have been handed out."""
        return self._frozen.done

    def step(self, entries: int) -> list[bytes]:
        """Serialise up to ``entries`` more timers."""
        present, gone = self._frozen.pop(entries)
        payloads = []
        for kind, (times, entries_at) in (("timers", present), ("timers_removed", gone)):
            if times:
                payloads.append(write_block((kind, self._name, self._namespaced, times, entries_at)))
        return payloads

    def drain(self) -> None:
        """Bring the rest of the timers into memory."""
        self._frozen.drain()

    def close(self) -> None:
        """Release the queue."""
        self._frozen.close()


class StoreBegins:
    """Says in a delta that what follows is all that a store has; without this an empty store would say nothing."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.done = False

    def step(self, entries: int) -> list[bytes]:
        """An empty block."""
        self.done = True
        return [write_block(("entries", self._name, [], [], None))]

    def close(self) -> None:
        """Nothing to release."""


class KeyedSnapshot:
    """The keyed state of one operator's subtask at the barrier of a checkpoint.

    ``base`` is the checkpoint that a delta builds on, None when it is full.
    """

    def __init__(
        self,
        checkpoint_id: int,
        base: int | None,
        sections: list[SnapshotSection],
        on_done: Callable[[KeyedSnapshot], None],
    ) -> None:
        self.checkpoint_id = checkpoint_id
        self.base = base
        self.bytes = 0
        self.cancelled = False
        self.sections = sections
        self._on_done = on_done
        self._open = [section for section in sections if not section.done]
        self._end_if_done()

    @property
    def is_full(self) -> bool:
        """Whether it builds on no other snapshot."""
        return self.base is None

    @property
    def done(self) -> bool:
        """Whether everything has been serialised."""
        return not self._open

    def step(self, entries: int = STEP_ENTRIES) -> list[bytes]:
        """Serialise up to ``entries`` more entries, and return the payloads of their blocks."""
        payloads: list[bytes] = []
        size = 0
        while self._open and entries > 0 and size < _STEP_BYTES:
            blocks = self._open[0].step(min(entries, _BLOCK_ENTRIES))
            payloads += blocks
            size += sum(map(len, blocks))
            entries -= _BLOCK_ENTRIES
            while self._open and self._open[0].done:
                self._open.pop(0)
        self.bytes += size
        self._end_if_done()
        return payloads

    def cancel(self) -> None:
        """Stop serialising: the checkpoint was aborted, or its task ends."""
        self.cancelled = not self.done
        self._open = []
        self._end_if_done()

    def _end_if_done(self) -> None:
        if not self._open and self.sections:
            for section in self.sections:
                section.close()
            self.sections = []
            self._on_done(self)


# Blocks -----------------------------------------------------------------------------------------------


def write_block(block: Block) -> bytes:
    """The bytes of a block."""
    return dumps(block)


def read_block(payload: bytes) -> Block:
    """A block from its bytes."""
    block: Block = loads(payload)
    return block


def accepted(block: Block, accepts: Accepts | None) -> Block:
    """The block without what belongs to other subtasks."""
    if accepts is None:
        return block
    match block:
        case (
            "put" | "extend" | "remove_entries" | "truncate" | "timers" | "timers_removed" as kind,
            name,
            namespaced,
            first,
            second,
        ):
            keys = second if kind.startswith("timers") else first
            mine = [accepts(key[0] if namespaced else key) for key in keys]
            return kind, name, namespaced, list(compress(first, mine)), list(compress(second, mine))
        case ("remove", name, namespaced, keys):
            return "remove", name, namespaced, [key for key in keys if accepts(key[0] if namespaced else key)]
        case ("entries", name, keys, values, extra):
            mine = [accepts(key) for key in keys]
            return "entries", name, list(compress(keys, mine)), list(compress(values, mine)), extra
    return block


def apply_pieces(table: dict[Any, Any], kind: str, keys: list[Any], pieces: list[Any]) -> None:
    """Change maps and lists in a table as a block ``extend``, ``remove_entries`` or ``truncate`` says."""
    changes: dict[str, Callable[[Any, Any], Any]] = {
        "extend": extend_with,
        "remove_entries": remove_from,
        "truncate": truncate_to,
    }
    change = changes[kind]
    for key, piece in zip(keys, pieces, strict=True):
        left = change(table.get(key), piece)
        if left is None:
            table.pop(key, None)
        else:
            table[key] = left


def extend_with(collection: Any, piece: Any) -> Any:
    """A map or list, None for none, with a piece more; the same object, changed."""
    if collection is None:
        return piece
    if isinstance(piece, dict):
        collection.update(piece)
    else:
        collection.extend(piece)
    return collection


def remove_from(entries: Any, gone: list[Any]) -> Any:
    """A map without some entries, None when nothing is left."""
    for key in gone if entries is not None else ():
        entries.pop(key, None)
    return entries if entries else None


def truncate_to(elements: Any, length: int) -> Any:
    """The first elements of a list, None when there are none."""
    if isinstance(elements, list):
        del elements[length:]
    elif elements is not None:
        elements.cut(length)
    return elements if elements else None
