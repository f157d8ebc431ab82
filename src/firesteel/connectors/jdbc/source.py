"""Rows of a database as a stream: a query once, in parts; or again and again, for rows with a higher number."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from firesteel.common._override import override
from firesteel.common._values import private_all
from firesteel.common.errors import InvalidArgumentError, ProgramError
from firesteel.common.typeinfo import RowTypeInfo, TypeInformation
from firesteel.common.types import Row
from firesteel.connectors.jdbc.database import Connection, Database, Parameters, Session
from firesteel.connectors.jdbc.options import JdbcConnectionOptions
from firesteel.connectors.jdbc.parameters import JdbcParameterValuesProvider
from firesteel.connectors.jdbc.prefetch import Prefetch
from firesteel.connectors.jdbc.statement import Statement
from firesteel.connectors.jdbc.urls import database_of
from firesteel.contracts.source import Boundedness, Polled, Source, SourceReader, SourceReaderContext

__all__ = ["JdbcSource", "JdbcSourceBuilder"]


@dataclass(frozen=True, slots=True)
class QuerySplit:
    """A query's parameters, and how many rows of its result have been given."""

    parameters: Parameters
    done: int = 0


@dataclass(frozen=True, slots=True)
class IncrementSplit:
    """The highest value of the increasing column that has been given; None: nothing yet."""

    last: Any = None


@dataclass(frozen=True)
class Increments:
    """How new rows are found."""

    column: str
    start: Any
    interval_seconds: float
    lag: Any


@dataclass(frozen=True)
class JdbcSource(Source[Any]):
    """The rows of a query, made by `builder`. Records are `Row` with the names of the columns, or what a function makes of them."""

    statement: Statement
    database: Database
    parameters: tuple[Parameters, ...]
    extract: Callable[[Row], Any] | None
    names: tuple[str, ...] | None
    fetch_size: int
    max_retries: int
    increments: Increments | None

    @staticmethod
    def builder() -> JdbcSourceBuilder:
        """Collects what to read."""
        return JdbcSourceBuilder()

    @property
    @override
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED if self.increments is None else Boundedness.CONTINUOUS_UNBOUNDED

    @property
    @override
    def max_subtasks(self) -> int | None:
        """Rows that come one after the other are read by one."""
        return None if self.increments is None else 1

    @override
    def splits_of(self, subtask: int, parallelism: int) -> list[Any]:
        if self.increments is not None:
            return [IncrementSplit()] if subtask == 0 else []
        return [QuerySplit(values) for values in self.parameters[subtask::parallelism]]

    @override
    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        return _JdbcReader(self, context)


class JdbcSourceBuilder:
    """What is needed: `set_connection_options` and `set_sql`."""

    def __init__(self) -> None:
        self._sql: str | None = None
        self._connection: JdbcConnectionOptions | None = None
        self._provider: JdbcParameterValuesProvider | None = None
        self._extract: Callable[[Row], Any] | None = None
        self._names: tuple[str, ...] | None = None
        self._fetch_size = 1000
        self._max_retries = 3
        self._increments: Increments | None = None

    def set_sql(self, sql: str) -> JdbcSourceBuilder:
        """The query. With ORDER BY it can resume in the middle of a part after a failure."""
        self._sql = sql
        return self

    def set_connection_options(self, options: JdbcConnectionOptions) -> JdbcSourceBuilder:
        """Where the database is."""
        self._connection = options
        return self

    def set_jdbc_parameter_values_provider(self, provider: JdbcParameterValuesProvider) -> JdbcSourceBuilder:
        """The parameters of the query, one set for each part."""
        self._provider = provider
        return self

    def set_result_extractor(self, extract: Callable[[Row], Any]) -> JdbcSourceBuilder:
        """A function that makes records of rows."""
        self._extract = extract
        return self

    def set_type_information(self, type_info: TypeInformation) -> JdbcSourceBuilder:
        """A row type: its names instead of those of the columns."""
        if isinstance(type_info, RowTypeInfo):
            self._names = tuple(type_info.get_field_names())
        return self

    def set_result_set_fetch_size(self, fetch_size: int) -> JdbcSourceBuilder:
        """How many rows are fetched together."""
        if fetch_size < 1:
            raise InvalidArgumentError(f"the fetch size must be at least 1, got {fetch_size}")
        self._fetch_size = fetch_size
        return self

    def set_max_retries(self, max_retries: int) -> JdbcSourceBuilder:
        """How often connecting is tried again."""
        self._max_retries = max_retries
        return self

    def set_incremental(
        self, column: str, start: Any, poll_interval_seconds: float = 1.0, safety_lag: Any = None
    ) -> JdbcSourceBuilder:
        """Go on for ever with rows whose ``column`` is above the highest one so far, beginning above ``start``.

        The column must only grow, and no two rows may share a value. A transaction that commits after one with higher values
        is missed, unless ``safety_lag`` is at least as large as such values can be apart: then rows within so much of the highest value
        wait until there are higher ones.
        """
        self._increments = Increments(column, start, poll_interval_seconds, safety_lag)
        return self

    def build(self) -> JdbcSource:
        """The source; refused without a query and a database, or when parameters do not fit the query."""
        if self._sql is None or self._connection is None:
            raise ProgramError("a JdbcSource needs set_sql(...) and set_connection_options(...)")
        statement = Statement.parse(self._sql)
        parameters: tuple[Parameters, ...] = ((),)
        if self._provider is not None:
            parameters = tuple(tuple(values) for values in self._provider.get_parameter_values())
        wrong = [values for values in parameters if len(values) != statement.count]
        if wrong:
            raise ProgramError(
                f"the query has {statement.count} parameters, but there are {len(wrong[0])} values for a part: {wrong[0]}"
            )
        if self._increments is not None:
            if statement.count:
                raise ProgramError("a query that is read incrementally has no parameters")
            statement = _incremental(self._sql, self._increments)
        return JdbcSource(
            statement,
            database_of(self._connection),
            parameters,
            self._extract,
            self._names,
            self._fetch_size,
            self._max_retries,
            self._increments,
        )


def _incremental(sql: str, increments: Increments) -> Statement:
    column = '"' + increments.column.replace('"', '""') + '"'
    query = sql.strip().rstrip(";")
    limit = ""
    if increments.lag is not None:
        limit = (
            f" AND firesteel_rows.{column} <= (SELECT max({column}) FROM ({query}) AS firesteel_newest) - ?"
        )
    return Statement.parse(
        f"SELECT * FROM ({query}) AS firesteel_rows WHERE firesteel_rows.{column} > ?{limit} "
        f"ORDER BY firesteel_rows.{column}"
    )


class _JdbcReader(SourceReader):
    """Splits are read one after the other, by a thread."""

    gives_away = True

    def __init__(self, source: JdbcSource, context: SourceReaderContext) -> None:
        self._source = source
        self._wake = context.wake
        self._splits: deque[Any] = deque()
        self._prefetch: Prefetch | None = None
        self._rows: list[Row] = []
        self._start = 0
        self._stopped = False

    @override
    def add_splits(self, splits: Sequence[Any]) -> None:
        self._splits.extend(splits)

    @override
    def poll(self, limit: int) -> Polled:
        if self._stopped or not self._splits:
            return Polled([], ended=True)
        if self._start >= len(self._rows) and not self._fetched():
            return Polled([], retry_at=math.inf)
        rows = self._rows[self._start : self._start + limit]
        self._start += len(rows)
        if rows:
            self._splits[0] = self._advanced(self._splits[0], rows)
        extract = self._source.extract
        # An extractor may give one object for all of them.
        return Polled(private_all(extract(row) for row in rows) if extract else rows)

    def _fetched(self) -> bool:
        """Whether there is something to hand out, or a split has ended."""
        if self._prefetch is None:
            split = self._splits[0]
            self._prefetch = Prefetch(lambda thread: self._read(split, thread), self._wake)
        rows = self._prefetch.next()
        if rows is not None:
            self._rows, self._start = rows, 0
            return True
        if self._prefetch.is_over:
            self._end_split()
            return True
        return False

    def _end_split(self) -> None:
        assert self._prefetch is not None
        self._prefetch.close()
        self._prefetch, self._rows, self._start = None, [], 0
        self._splits.popleft()

    def _advanced(self, split: Any, rows: list[Row]) -> Any:
        if isinstance(split, QuerySplit):
            return replace(split, done=split.done + len(rows))
        assert self._source.increments is not None
        return IncrementSplit(rows[-1][self._position])

    def _read(self, split: Any, thread: Prefetch) -> Iterator[list[Row]]:
        session = Session(self._source.database, self._source.max_retries)
        try:
            session.run("looking at the query", lambda connection: connection.check(self._source.statement))
            if isinstance(split, QuerySplit):
                yield from self._read_query(session, split)
            else:
                yield from self._read_increments(session, split, thread)
        finally:
            session.close()

    def _read_query(self, session: Session, split: QuerySplit) -> Iterator[list[Row]]:
        connection = session.run("connecting", lambda connection: connection)
        skip = split.done
        for rows in connection.stream(self._source.statement, split.parameters, self._source.fetch_size):
            rest = rows[skip:]
            skip = max(0, skip - len(rows))
            if rest:
                yield Row._make_all(rest, self._names(connection))

    def _read_increments(
        self, session: Session, split: IncrementSplit, thread: Prefetch
    ) -> Iterator[list[Row]]:
        increments = self._source.increments
        assert increments is not None
        last = increments.start if split.last is None else split.last
        while not thread.is_stopped:
            parameters = (last,) if increments.lag is None else (last, increments.lag)

            def look(connection: Connection, values: Parameters = parameters) -> list[Row]:
                rows: list[Row] = []
                for tuples in connection.stream(self._source.statement, values, self._source.fetch_size):
                    rows = Row._make_all(tuples, self._names(connection))
                    break
                self._position = self._find(connection.columns(), increments.column)
                connection.rollback()
                return rows

            rows = session.run("looking for new rows", look)
            if rows:
                last = rows[-1][self._position]
                yield rows
            else:
                thread.wait(increments.interval_seconds)

    def _find(self, columns: tuple[str, ...], column: str) -> int:
        if column not in columns:
            raise ProgramError(f"the query has no column {column!r}, but {list(columns)}")
        return columns.index(column)

    def _names(self, connection: Connection) -> tuple[str, ...]:
        return self._source.names or connection.columns()

    @override
    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        return list(self._splits)

    @override
    def stop(self) -> None:
        self._stopped = True

    @override
    def close(self) -> None:
        if self._prefetch is not None:
            self._prefetch.close()
