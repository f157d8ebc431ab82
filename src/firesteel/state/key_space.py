"""Tables by name, and which of their keys were touched: one space for states per key, one for those per namespace."""

from __future__ import annotations

from typing import Any, NamedTuple

from firesteel.state.changes import Changes
from firesteel.state.snapshot.keyed_snapshot import Encode, TableSection

__all__ = ["KeySpace", "Table", "TableId"]

Table = dict[Any, Any]


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
        """Forget a table."""
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
