"""Change data capture: the rows of PostgreSQL's tables, and then every change of them, exactly once.

One subtask reads: the order of transactions is the order of the stream. Its position, an LSN and a place in a
transaction, is part of every checkpoint; the server may forget changes only when the checkpoint is complete.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from firesteel.common._override import override
from firesteel.common.errors import InvalidArgumentError, ProgramError
from firesteel.connectors.jdbc.options import JdbcConnectionOptions
from firesteel.connectors.jdbc.urls import database_of
from firesteel.connectors.postgres.batches import Batch
from firesteel.connectors.postgres.changes import ChangeDeserializer
from firesteel.connectors.postgres.position import CdcPosition
from firesteel.contracts.source import Boundedness, Polled, Source, SourceReader, SourceReaderContext

__all__ = ["PostgresCdcSource", "PostgresCdcSourceBuilder"]


class PostgresCdcSource(Source[Any]):
    """The changes of tables, made by `builder`: a snapshot first, then what is committed, in the order of commits."""

    def __init__(self, settings: Any) -> None:
        self._settings = settings

    @staticmethod
    def builder() -> PostgresCdcSourceBuilder:
        """Collects what to read."""
        return PostgresCdcSourceBuilder()

    @property
    @override
    def boundedness(self) -> Boundedness:
        only = self._settings.snapshot == "only"
        return Boundedness.BOUNDED if only else Boundedness.CONTINUOUS_UNBOUNDED

    @property
    @override
    def max_subtasks(self) -> int:
        """Transactions have one order."""
        return 1

    @override
    def splits_of(self, subtask: int, parallelism: int) -> list[CdcPosition]:
        return [CdcPosition()] if subtask == 0 else []

    @override
    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        return _CdcReader(self._settings, context)


class PostgresCdcSourceBuilder:
    """What is needed: `set_connection_options` and `set_tables`, and for every job a slot of its own."""

    def __init__(self) -> None:
        self._connection: JdbcConnectionOptions | None = None
        self._tables: tuple[tuple[str, str], ...] = ()
        self._slot = "firesteel"
        self._publication: str | None = None
        self._snapshot = "initial"
        self._deserializer: ChangeDeserializer | None = None
        self._ignores_truncate = False
        self._patience = 60.0

    def set_connection_options(self, options: JdbcConnectionOptions) -> PostgresCdcSourceBuilder:
        """Where the database is. The user needs the right to replicate (``ALTER ROLE ... REPLICATION``)."""
        self._connection = options
        return self

    def set_tables(self, *tables: str) -> PostgresCdcSourceBuilder:
        """The tables, as ``schema.table``, or ``table`` of the schema ``public``."""
        self._tables = tuple(_table_name(table) for table in tables)
        return self

    def set_slot_name(self, name: str) -> PostgresCdcSourceBuilder:
        """The replication slot: made when it is missing, and kept. Drop it when the job is over for good.

        It keeps what the job has not read, and the disk of the server fills up if nobody ever reads.
        """
        if not name or not all(letter.isdigit() or letter in _SLOT_LETTERS for letter in name):
            raise InvalidArgumentError(
                f"the name of a slot has lower case letters, digits and underscores, got {name!r}"
            )
        self._slot = name
        return self

    def set_publication_name(self, name: str) -> PostgresCdcSourceBuilder:
        """The publication: made when it is missing; the name of the slot unless told."""
        self._publication = name
        return self

    def set_snapshot_mode(self, mode: str) -> PostgresCdcSourceBuilder:
        """``initial``: all rows, then changes. ``never``: changes from now, or from where the slot stands. ``only``: all rows."""
        if mode not in ("initial", "never", "only"):
            raise InvalidArgumentError(f"the snapshot mode is 'initial', 'never' or 'only', got {mode!r}")
        self._snapshot = mode
        return self

    def set_deserializer(self, deserializer: ChangeDeserializer) -> PostgresCdcSourceBuilder:
        """What a change becomes: ``ChangeDeserializer.rows()``, ``.changes()``, or one's own."""
        self._deserializer = deserializer
        return self

    def ignore_truncate(self) -> PostgresCdcSourceBuilder:
        """TRUNCATE is passed over; otherwise rows have no way to say it, and the job fails."""
        self._ignores_truncate = True
        return self

    def set_patience_seconds(self, seconds: float) -> PostgresCdcSourceBuilder:
        """How long a database that is down, or a slot that another task still holds, is waited for."""
        self._patience = seconds
        return self

    def build(self) -> PostgresCdcSource:
        """The source; refused without a database and tables, and for databases other than PostgreSQL."""
        if self._connection is None or not self._tables:
            raise ProgramError(
                "change data capture needs set_connection_options(...) and set_tables('schema.table', ...)"
            )
        if len(self._tables) > 1 and self._deserializer is None:
            raise ProgramError(
                "rows of several tables cannot be told apart: set_deserializer(ChangeDeserializer.changes()) has the name of "
                "the table with each change; ChangeDeserializer.rows() says that rows are enough"
            )
        database = database_of(self._connection)
        from firesteel.connectors.jdbc.postgresql import PostgresDatabase  # psycopg may be missing
        from firesteel.connectors.postgres.worker import CdcSettings

        if not isinstance(database, PostgresDatabase):
            raise ProgramError(f"change data capture is for PostgreSQL, got {database.name}")
        return PostgresCdcSource(
            CdcSettings(
                database,
                self._tables,
                self._slot,
                self._publication or self._slot,
                self._snapshot,
                self._deserializer or ChangeDeserializer.rows(),
                self._ignores_truncate,
                self._patience,
            )
        )


_SLOT_LETTERS = "abcdefghijklmnopqrstuvwxyz_"


def _table_name(text: str) -> tuple[str, str]:
    schema, point, table = text.rpartition(".")
    return (schema, table) if point else ("public", text)


class _CdcReader(SourceReader):
    gives_away = True

    def __init__(self, settings: Any, context: SourceReaderContext) -> None:
        self._settings = settings
        self._wake = context.wake
        self._worker: Any = None
        self._batch: Batch | None = None
        self._start = 0
        self._position: CdcPosition | None = None
        self._saved: dict[int, int] = {}
        self._stopped = False

    @override
    def add_splits(self, splits: Sequence[CdcPosition]) -> None:
        from firesteel.connectors.postgres.worker import CdcWorker

        [self._position] = splits
        self._worker = CdcWorker(self._settings, self._position, self._wake)

    @override
    def poll(self, limit: int) -> Polled:
        if self._worker is None or self._stopped:
            return Polled([], ended=True)
        if self._batch is None:
            self._batch, self._start = self._worker.next(), 0
        if self._batch is None:
            return Polled([], retry_at=math.inf)
        return self._hand_out(self._batch, limit)

    def _hand_out(self, batch: Batch, limit: int) -> Polled:
        start, end = self._start, self._start + limit
        if end >= len(batch.values):
            self._batch, self._position = None, batch.after
        else:
            assert batch.within is not None
            end, self._position = batch.within(end)
            self._start = end
        return Polled(batch.values[start:end], batch.timestamps[start:end], ended=batch.ended)

    @override
    def snapshot_state(self, checkpoint_id: int) -> list[CdcPosition]:
        if self._position is None:
            return []
        self._saved[checkpoint_id] = self._position.end_lsn
        return [self._position]

    @override
    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """The server may forget what is before it."""
        if checkpoint_id in self._saved:
            self._worker.confirm(self._saved[checkpoint_id])
        self._saved = {other: lsn for other, lsn in self._saved.items() if other > checkpoint_id}

    @override
    def stop(self) -> None:
        self._stopped = True

    @override
    def close(self) -> None:
        if self._worker is not None:
            self._worker.close()
