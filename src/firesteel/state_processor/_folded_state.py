"""The state of one operator's subtask as dictionaries: a full segment with its deltas applied, and back to blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

from firesteel.common.errors import CorruptStateError, short_repr
from firesteel.plan.state_handles import StateMeta, StateMode
from firesteel.state.snapshot.keyed_snapshot import Block, apply_pieces, read_block
from firesteel.state.state_registry import StateKind
from firesteel.state.tracked_state import TableId

__all__ = ["FoldedState", "StateId"]

_BLOCK_ENTRIES = 1024


class StateId(NamedTuple):
    """Which state of an operator: keyed ones may exist twice under a name, per key and per key and window."""

    name: str
    mode: StateMode
    namespaced: bool = False

    @classmethod
    def of(cls, meta: StateMeta) -> StateId:
        """The one that a manifest speaks of."""
        return cls(meta.name, meta.mode, StateKind.parse(meta.kind).namespaced)


class FoldedState:
    """All state of one operator's subtask, or what has the name ``only``."""

    def __init__(self, only: str | None = None) -> None:
        self._only = only
        self.tables: dict[TableId, dict[Any, Any]] = {}
        #: Pairs of time and entry, by queue.
        self.timers: dict[TableId, dict[tuple[int, Any], None]] = {}
        #: What operators keep in stores of their own: keys, values and something more, by store.
        self.stores: dict[str, list[tuple[list[Any], list[Any], Any]]] = {}
        self.lists: dict[str, tuple[StateMode, list[Any]]] = {}

    # Reading ------------------------------------------------------------------------------------------

    def apply(self, segment: Iterable[bytes]) -> None:
        """Apply the blocks of a segment of keyed state: the full one first, then each delta."""
        written_anew: set[str] = set()
        for payload in segment:
            block = read_block(payload)
            if self._only is None or block[1] == self._only:
                self._apply(block, written_anew)

    def apply_lists(self, segment: Iterable[bytes]) -> None:
        """Take operator state: lists, and the entries of broadcast states. A block has one state whole."""
        for payload in segment:
            match read_block(payload):
                case ("list", str(name), str(mode), list(items)):
                    if self._only is None or name == self._only:
                        self.lists[name] = (StateMode(mode), items)
                case unknown:
                    raise CorruptStateError(
                        f"a block of operator state begins with {short_repr(unknown[:1])}"
                    )

    def _apply(self, block: Block, written_anew: set[str]) -> None:
        match block:
            case ("put", name, namespaced, keys, values):
                self.table(TableId(name, namespaced)).update(zip(keys, values, strict=True))
            case ("remove", name, namespaced, keys):
                table = self.table(TableId(name, namespaced))
                for key in keys:
                    table.pop(key, None)
            case ("extend" | "remove_entries" | "truncate" as kind, name, namespaced, keys, pieces):
                apply_pieces(self.table(TableId(name, namespaced)), kind, keys, pieces)
            case ("timers", name, namespaced, times, entries):
                timers = self.timers.setdefault(TableId(name, namespaced), {})
                timers.update(dict.fromkeys(zip(times, entries, strict=True)))
            case ("timers_removed", name, namespaced, times, entries):
                timers = self.timers.setdefault(TableId(name, namespaced), {})
                for timer in zip(times, entries, strict=True):
                    timers.pop(timer, None)
            case ("entries", name, keys, values, extra):
                # Stores are whole in every segment.
                blocks = self.stores.setdefault(name, [])
                if name not in written_anew:
                    written_anew.add(name)
                    blocks.clear()
                if keys:
                    blocks.append((keys, values, extra))
            case unknown:
                raise CorruptStateError(f"a block of keyed state begins with {short_repr(unknown[:1])}")

    # Changing -----------------------------------------------------------------------------------------

    def table(self, table_id: TableId) -> dict[Any, Any]:
        """The table of that name, which is made when it does not exist."""
        return self.tables.setdefault(table_id, {})

    def remove(self, name: str) -> None:
        """Forget everything of that name: states, timers and stores."""
        self.tables = {table: entries for table, entries in self.tables.items() if table.name != name}
        self.timers = {queue: timers for queue, timers in self.timers.items() if queue.name != name}
        self.stores.pop(name, None)
        self.lists.pop(name, None)

    def rename(self, name: str, new_name: str) -> None:
        """Give everything of that name another one."""
        self.tables = {
            TableId(new_name, table.namespaced) if table.name == name else table: entries
            for table, entries in self.tables.items()
        }
        self.stores = {new_name if store == name else store: blocks for store, blocks in self.stores.items()}
        self.lists = {new_name if each == name else each: pair for each, pair in self.lists.items()}

    def remove_key(self, key: Any) -> None:
        """Forget what is stored for a key, in all keyed states, and its timers."""
        for table_id, table in self.tables.items():
            for table_key in [
                table_key
                for table_key in table
                if (table_key[0] if table_id.namespaced else table_key) == key
            ]:
                del table[table_key]
        for queue, timers in self.timers.items():
            for timer in [
                timer for timer in timers if (timer[1][0] if queue.namespaced else timer[1]) == key
            ]:
                del timers[timer]
        for name, blocks in self.stores.items():
            self.stores[name] = [_without(block, key) for block in blocks]

    # Writing ------------------------------------------------------------------------------------------

    def keyed_blocks(self) -> Iterator[Block]:
        """Keyed state as the blocks of a full segment."""
        for (name, namespaced), table in self.tables.items():
            for part in _batches(table.items(), _BLOCK_ENTRIES):
                keys, values = zip(*part, strict=True)
                yield "put", name, namespaced, list(keys), list(values)
        for (name, namespaced), timers in self.timers.items():
            for some in _batches(timers, _BLOCK_ENTRIES):
                times, entries = zip(*some, strict=True)
                yield "timers", name, namespaced, list(times), list(entries)
        for name, blocks in self.stores.items():
            for keys_, values_, extra in blocks:
                yield "entries", name, keys_, values_, extra

    def list_blocks(self) -> Iterator[Block]:
        """Operator state as blocks, one for each state that has something."""
        for name, (mode, items) in self.lists.items():
            if items:
                yield "list", name, mode.value, items


def _batches(entries: Iterable[Any], size: int) -> Iterator[list[Any]]:
    rest = iter(entries)
    while part := list(islice(rest, size)):
        yield part


def _without(block: tuple[list[Any], list[Any], Any], unwanted: Any) -> tuple[list[Any], list[Any], Any]:
    keys, values, extra = block
    kept = [(key, value) for key, value in zip(keys, values, strict=True) if key != unwanted]
    return [key for key, _ in kept], [value for _, value in kept], extra
