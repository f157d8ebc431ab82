"""Large maps and lists as they were when a snapshot began, entry by entry.

All their changes are written before a snapshot begins, so its view of the store has every entry, and what is to be
known besides is in short descriptions. Those of keys that are in memory are gathered at once; the others come from the
records of the keys, while the snapshot goes through them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any

from firesteel.state.cached.large_collections import (
    Description,
    Entries,
    LargeList,
    LargeMap,
    effective,
    find,
    pages,
)
from firesteel.state.collection_changes import Mark
from firesteel.state.snapshot.keyed_snapshot import Encode, Keep, write_block
from firesteel.state.ttl_sweep import GONE

__all__ = ["LargeCollectionsSection"]

_KEYS = 256  # of entries that have changed, looked up together
_COST = 3  # see space


class LargeCollectionsSection:
    """The large maps and lists of a space: all, or what has changed of those that `add` names.

    ``names`` are the tables by their numbers. ``marks`` say what has changed; None in a full snapshot.
    """

    def __init__(
        self,
        entries: Entries,
        namespaced: bool,
        names: list[str | None],
        marks: Mapping[Hashable, Mark] | None,
        encoders: Mapping[str, Encode],
        key_encoders: Mapping[str, Encode],
        keep: Mapping[str, Keep],
    ) -> None:
        self._view = entries.records.view()
        self._namespaced = namespaced
        self._names = names
        self._marks = marks
        self._encoders, self._key_encoders = dict(encoders), dict(key_encoders)
        self._keep = keep
        self._waiting: list[tuple[int, Any, Description]] = []
        self._blocks: Iterator[tuple[int, bytes]] | None = None
        self._drained: list[bytes] | None = None
        self.done = False

    def add(self, table: int, key: Any, description: Description) -> None:
        """A key has a large map or list in the table of that number."""
        self._waiting.append((table, key, description))

    def step(self, entries: int) -> list[bytes]:
        """Serialise ``entries`` more entries, or a few more than that."""
        if self._drained is not None:
            payloads, self._drained = self._drained, None
            self.close()
            return payloads
        return self._next(-(-entries // _COST))

    def drain(self) -> None:
        """The view cannot stay: serialise all that is left now."""
        if self.done or self._drained is not None:
            return
        payloads: list[bytes] = []
        while not self.done:
            payloads += self._next(1024)
        self.done, self._drained = False, payloads

    def close(self) -> None:
        """Release the view of the store."""
        self.done = True
        self._drained = None
        self._blocks = None
        self._view.close()

    def _next(self, entries: int) -> list[bytes]:
        if self._blocks is None:
            self._blocks = self._written()
        payloads: list[bytes] = []
        for count, payload in self._blocks:
            payloads.append(payload)
            entries -= count
            if entries <= 0:
                return payloads
        self.close()
        return payloads

    def _written(self) -> Iterator[tuple[int, bytes]]:
        """Payloads, and how many entries each one has."""
        while self._waiting:
            number, key, description = self._waiting.pop()
            name = self._names[number]
            if name is None:
                continue
            mark = None if self._marks is None else self._marks.get(description[1])
            writes_all = (
                self._marks is None
                or (mark is not None and mark.writes_all)
                or (self._namespaced, number) in self._marks
            )
            if writes_all:
                yield from self._all(name, key, description)
            elif description[0] == LargeMap.kind:
                if mark is not None:
                    yield from self._changes_of_map(name, key, description, mark)
            else:
                yield from self._changes_of_list(name, key, description, mark)

    def _block(self, kind: str, name: str, key: Any, piece: Any) -> bytes:
        return write_block((kind, name, self._namespaced, [key], [piece]))

    def _all(self, name: str, key: Any, description: Description) -> Iterator[tuple[int, bytes]]:
        kind, keep, encode = "put", self._keep.get(name), self._encoders.get(name)
        for piece in self._pieces(description, None):
            left = piece if keep is None else keep(piece)
            if left is not GONE:
                yield len(piece), self._block(kind, name, key, left if encode is None else encode(left))
                kind = "extend"

    def _pieces(self, description: Description, first: int | None) -> Iterator[Any]:
        """The entries or elements from a position on, None for all."""
        is_map, number = description[0] == LargeMap.kind, description[1]
        floor = LargeMap.floor_of(description) if is_map else LargeList.floor_of(description)
        after = None if not first else first - 1
        for page, _ in pages(self._view, number, after):
            if page:
                rows = [row for _, row in page]
                piece = dict(rows) if is_map else [element for row in rows for element in row]
                yield effective(piece, floor)
        if not is_map and (tail := LargeList.tail_of(description)):
            yield effective(tail, floor)

    def _changes_of_map(
        self, name: str, key: Any, description: Description, mark: Mark
    ) -> Iterator[tuple[int, bytes]]:
        encode, encode_key = self._encoders.get(name), self._key_encoders.get(name)
        floor = LargeMap.floor_of(description)
        changed = list(mark.keys)
        for start in range(0, len(changed), _KEYS):
            looked_up = changed[start : start + _KEYS]
            entries = find(self._view, description[1], looked_up)
            piece = {k: value for position, k, value in entries.values() if position < mark.first_new}
            gone = [k for k in looked_up if k not in piece]  # or come again, behind all others
            if gone:
                gone = gone if encode_key is None else [encode_key(k) for k in gone]
                yield len(gone), self._block("remove_entries", name, key, gone)
            if piece:
                piece = effective(piece, floor)
                yield (
                    len(piece),
                    self._block("extend", name, key, piece if encode is None else encode(piece)),
                )
        for piece in self._pieces(description, mark.first_new):
            yield len(piece), self._block("extend", name, key, piece if encode is None else encode(piece))

    def _changes_of_list(
        self, name: str, key: Any, description: Description, mark: Mark | None
    ) -> Iterator[tuple[int, bytes]]:
        encode = self._encoders.get(name)
        first = LargeList.in_chunks_of(description) if mark is None else mark.first_new
        yield 1, self._block("truncate", name, key, first)
        for piece in self._pieces(description, first):
            yield len(piece), self._block("extend", name, key, piece if encode is None else encode(piece))
