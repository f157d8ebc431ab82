"""Rows into a database: at least once in batches, or exactly once with checkpoints.

`JdbcSink.sink` writes a batch when it is full, when its time has come, and before every checkpoint. After a failure the
rows since the last checkpoint come again: upserts make that harmless. `JdbcSink.exactly_once_sink` keeps the rows in the
checkpoint and writes them when it is complete: `firesteel.connectors.jdbc.exactly_once`.
"""

from __future__ import annotations

import math
from typing import Any

from firesteel.common._override import override
from firesteel.common.errors import ProgramError
from firesteel.common.typeinfo import TypeInformation
from firesteel.connectors.jdbc.database import Connection, Database, Parameters, Session, write_rows
from firesteel.connectors.jdbc.exactly_once import ExactlyOnceWriter, LedgerCommitter
from firesteel.connectors.jdbc.options import (
    JdbcConnectionOptions,
    JdbcExactlyOnceOptions,
    JdbcExecutionOptions,
)
from firesteel.connectors.jdbc.records import parameters_of
from firesteel.connectors.jdbc.statement import Statement, upsert_statement
from firesteel.connectors.jdbc.urls import database_of
from firesteel.contracts.sink import Committer, Sink, SinkContext, SinkFunction, SinkWriter

__all__ = ["JdbcSink"]


class JdbcSink(Sink[Any]):
    """Executes a statement for every record. For ``sink_to`` and ``add_sink``; made by `sink` or `exactly_once_sink`."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        raise ProgramError("a JdbcSink is made by JdbcSink.sink(...) or JdbcSink.exactly_once_sink(...)")

    @classmethod
    def _of(
        cls,
        statement: Statement,
        type_info: TypeInformation | None,
        database: Database,
        execution: JdbcExecutionOptions,
        exactly_once: JdbcExactlyOnceOptions | None = None,
    ) -> JdbcSink:
        parameters_of(statement, type_info)  # whether fields and parameters fit
        sink = cls.__new__(cls)
        sink.statement, sink.type_info, sink.database = statement, type_info, database
        sink.execution, sink.exactly_once = execution, exactly_once
        return sink

    statement: Statement
    type_info: TypeInformation | None
    database: Database
    execution: JdbcExecutionOptions
    exactly_once: JdbcExactlyOnceOptions | None

    @staticmethod
    def sink(
        sql: str,
        type_info: TypeInformation | None,
        jdbc_connection_options: JdbcConnectionOptions,
        jdbc_execution_options: JdbcExecutionOptions | None = None,
    ) -> JdbcSink:
        """Execute ``sql`` for every record, at least once. Its parameters are the fields of ``type_info``, in order."""
        execution = jdbc_execution_options or JdbcExecutionOptions.defaults()
        return JdbcSink._of(Statement.parse(sql), type_info, database_of(jdbc_connection_options), execution)

    @staticmethod
    def exactly_once_sink(
        sql: str,
        type_info: TypeInformation | None,
        jdbc_connection_options: JdbcConnectionOptions,
        jdbc_execution_options: JdbcExecutionOptions | None = None,
        jdbc_exactly_once_options: JdbcExactlyOnceOptions | None = None,
    ) -> JdbcSink:
        """Execute ``sql`` for every record, exactly once: rows are seen when their checkpoint is complete.

        They are kept in the checkpoint until then, and no transaction is open meanwhile.
        """
        execution = jdbc_execution_options or JdbcExecutionOptions.defaults()
        once = jdbc_exactly_once_options or JdbcExactlyOnceOptions.defaults()
        database = database_of(jdbc_connection_options)
        return JdbcSink._of(Statement.parse(sql), type_info, database, execution, once)

    @staticmethod
    def upsert_sql(table: str, columns: list[str], keys: list[str]) -> str:
        """A statement for `sink`: INSERT that replaces the row with the same keys, on PostgreSQL and SQLite."""
        return upsert_statement(table, columns, keys)

    @override
    def create_writer(self, context: SinkContext) -> SinkWriter[Any]:
        take = parameters_of(self.statement, self.type_info or context.input_type)
        if self.exactly_once is not None:
            return ExactlyOnceWriter(self.statement, take, context)
        return BatchWriter(self, context)

    @override
    def create_committer(self, context: SinkContext) -> Committer | None:
        if self.exactly_once is None:
            return None
        session = Session(self.database, self.execution.max_retries)
        return LedgerCommitter(session, self.statement, self.exactly_once.commit_table, context.job_id)


class BatchWriter(SinkWriter[Any]):
    """Writes batches of rows, each in one transaction."""

    def __init__(self, sink: JdbcSink, context: SinkContext) -> None:
        self._statement = sink.statement
        self._take = parameters_of(sink.statement, sink.type_info or context.input_type)
        self._size = sink.execution.batch_size
        self._interval = sink.execution.batch_interval_ms / 1000
        self._now = context.now
        self._rows: list[Parameters] = []
        self._due = math.inf
        self._session = Session(sink.database, sink.execution.max_retries)
        self._session.begin("looking at the statement", lambda connection: connection.check(sink.statement))

    @override
    def write(self, value: Any, context: SinkFunction.Context) -> None:
        self._rows.append(self._take(value))
        if len(self._rows) >= self._size:
            self.flush(end_of_input=False)
        elif self._interval and self._due == math.inf:
            self._due = self._now() + self._interval

    @override
    def flush(self, end_of_input: bool) -> None:
        self._due = math.inf
        if self._rows:
            self._session.run(f"writing {len(self._rows)} rows", self._write)
            self._rows = []

    def _write(self, connection: Connection) -> None:
        write_rows(connection, self._statement, self._rows)
        connection.commit()

    @override
    def next_deadline(self) -> float:
        return self._due

    @override
    def on_time(self, now: float) -> None:
        self.flush(end_of_input=False)

    @override
    def close(self) -> None:
        self._session.close()
