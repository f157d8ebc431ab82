"""How far change data capture has come: what checkpoints hold.

While a table is read for the first time, it has *segments*: up to which key it was read, and at which LSN. Whoever resumes
after a failure reads the rest at a later LSN, because the snapshot of before is gone. A change counts if it was committed at
or after the LSN at which its key's segment was read; before that, the segment has it already.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

__all__ = ["CdcPosition", "Key", "Segment", "TableProgress"]

Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Segment:
    """Keys up to ``last``, or all that are left when that is None, were read at an LSN."""

    last: Key | None
    lsn: int


@dataclass(frozen=True, slots=True)
class TableProgress:
    """The segments of a table, in the order of keys. ``broken``: some rows were read, and nobody can say which."""

    segments: tuple[Segment, ...] = ()
    broken: bool = False

    @property
    def is_done(self) -> bool:
        """Whether the table was read to its end."""
        return bool(self.segments) and self.segments[-1].last is None

    @property
    def last_key(self) -> Key | None:
        """The last key that was read."""
        return self.segments[-1].last if self.segments else None

    def read(self, last: Key | None, lsn: int) -> TableProgress:
        """Rows were read up to a key; None: to the end."""
        before = self.segments
        if before and before[-1].lsn == lsn and before[-1].last is not None:
            before = before[:-1]
        return TableProgress((*before, Segment(last, lsn)))

    def lsn_of(self, key: Key | None) -> int:
        """The LSN at which a key was read, or would have been."""
        for segment in self.segments:
            if segment.last is None or (key is not None and key <= segment.last):
                return segment.lsn
        return 0


@dataclass(frozen=True, slots=True)
class CdcPosition:
    """``end_lsn``: all transactions before it are done. Of the one committed at ``commit_lsn``, ``count`` records are.

    ``snapshot`` is what was read of each table; empty once no change can be before it any more.
    """

    end_lsn: int = 0
    commit_lsn: int = 0
    count: int = 0
    snapshot_done: bool = False
    tables: tuple[tuple[str, TableProgress], ...] = ()

    @property
    def is_new(self) -> bool:
        """Whether nothing was read yet."""
        return self.end_lsn == 0

    def progress(self, table: str) -> TableProgress:
        """What was read of a table."""
        return dict(self.tables).get(table, TableProgress())

    def with_table(self, table: str, progress: TableProgress) -> CdcPosition:
        """More of a table was read."""
        return replace(self, tables=tuple({**dict(self.tables), table: progress}.items()))

    def done_until(self, end_lsn: int) -> CdcPosition:
        """All transactions before an LSN are done; segments that no change can be before are forgotten."""
        newest = max((s.lsn for _, progress in self.tables for s in progress.segments), default=0)
        tables = () if self.snapshot_done and end_lsn >= newest else self.tables
        return replace(self, end_lsn=max(end_lsn, self.end_lsn), tables=tables)
