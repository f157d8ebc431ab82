"""What a change of a table becomes in a stream: a row with its kind, or all that is known about it."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from firesteel.common._override import override
from firesteel.common._promises import promise_only_for
from firesteel.common._values import private_all
from firesteel.common.errors import JobExecutionError
from firesteel.common.types import Row, RowKind

__all__ = ["ChangeDeserializer", "PostgresChange", "Unavailable", "records_of"]


class Unavailable(enum.Enum):
    """Stands for a large value that has not changed, and that PostgreSQL therefore has not sent.

    With ``REPLICA IDENTITY FULL`` it is never needed.
    """

    VALUE = "unavailable"


@dataclass(frozen=True, slots=True)
class PostgresChange:
    """One change of one table. ``before`` and ``after`` are rows with the names of the columns, or None.

    ``operation`` is ``snapshot``, ``insert``, ``update``, ``delete`` or ``truncate``. Without ``REPLICA IDENTITY FULL`` only the key
    is known of the row before a deletion, or before an update of its key (``key_only``; the other columns are None), and
    nothing of the row before other updates.
    ``sequence`` counts the changes of a transaction from 1; with ``commit_lsn`` it orders changes. Both are 0 in a snapshot.
    """

    operation: str
    schema: str
    table: str
    before: Row | None
    after: Row | None
    commit_lsn: int = 0
    sequence: int = 0
    timestamp_ms: int = 0
    transaction_id: int = 0
    key_only: bool = False


class ChangeDeserializer(ABC):
    """Turns a change into the records of the stream; travels to the tasks by pickle.

    Records are what they were when `deserialize` returned them: those that can change are copied. ``gives_away = True`` is a
    promise that makes this unnecessary: no record is kept, changed or given twice, or none can change.
    """

    gives_away: bool = False

    @override
    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        promise_only_for(cls, "deserialize")

    @abstractmethod
    def deserialize(self, change: PostgresChange, /) -> Sequence[Any]:
        """Any number of records; the same ones whenever it is asked for the same change."""

    @staticmethod
    def rows() -> ChangeDeserializer:
        """Rows with their kinds: +I, -U with +U, -D."""
        return _Rows()

    @staticmethod
    def changes() -> ChangeDeserializer:
        """Every `PostgresChange` as it is."""
        return _Changes()


def records_of(deserializer: ChangeDeserializer, change: PostgresChange) -> Sequence[Any]:
    """The records of a change, as values."""
    records = deserializer.deserialize(change)
    return records if deserializer.gives_away else private_all(records)


class _Rows(ChangeDeserializer):
    gives_away = True

    @override
    def deserialize(self, change: PostgresChange) -> Sequence[Any]:
        before, after = change.before, change.after
        match change.operation:
            case "snapshot" | "insert":
                return [_of_kind(after, RowKind.INSERT)]
            case "delete":
                return [_of_kind(before, RowKind.DELETE)]
            case "truncate":
                raise JobExecutionError(
                    f"the table {change.schema}.{change.table} was truncated, which rows cannot say; use "
                    "ChangeDeserializer.changes(), which has a record for it, or ignore_truncate()"
                )
        if before is None:
            return [_of_kind(after, RowKind.UPDATE_AFTER)]
        if change.key_only:
            return [_of_kind(before, RowKind.DELETE), _of_kind(after, RowKind.INSERT)]
        return [_of_kind(before, RowKind.UPDATE_BEFORE), _of_kind(after, RowKind.UPDATE_AFTER)]


class _Changes(ChangeDeserializer):
    gives_away = True

    @override
    def deserialize(self, change: PostgresChange) -> Sequence[Any]:
        return [change]


def _of_kind(row: Row | None, kind: RowKind) -> Row:
    assert row is not None
    return Row._make(row._values, row._fields, kind)
