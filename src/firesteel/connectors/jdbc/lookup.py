"""Look-ups: a query for every record, many at a time, with a cache of what was found."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from firesteel.common._override import override
from firesteel.common.errors import InvalidArgumentError, ProgramError
from firesteel.common.types import Row
from firesteel.connectors.jdbc.database import Connection, Database, Parameters, Session
from firesteel.connectors.jdbc.options import JdbcConnectionOptions
from firesteel.connectors.jdbc.records import parameters_of
from firesteel.connectors.jdbc.statement import Statement
from firesteel.connectors.jdbc.urls import database_of
from firesteel.contracts.functions import AsyncFunction
from firesteel.contracts.runtime_context import RuntimeContext

__all__ = ["JdbcLookupFunction"]


class JdbcLookupFunction(AsyncFunction[Any, Any]):
    """For `AsyncDataStream`: executes a query for every record, and joins what it finds.

    ``parameters`` makes the query's parameters of a record: one value, or a tuple of several; without it they are the record's
    fields. ``join`` makes a list of results of a record and the rows that were found; without it that is a pair of the record and
    each row, or of the record and None when there is none. Rows are kept for ``cache_ttl_seconds`` (None: for ever), and those of at
    most ``cache_size`` different parameters; 0 is no cache. ``cache_missing``: that there was no row is kept, too. Up to
    ``max_connections`` queries are on their way at the same time, in each subtask.
    """

    def __init__(
        self,
        sql: str,
        connection_options: JdbcConnectionOptions,
        parameters: Callable[[Any], Any] | None = None,
        join: Callable[[Any, list[Row]], Sequence[Any]] | None = None,
        *,
        cache_size: int = 10_000,
        cache_ttl_seconds: float | None = None,
        cache_missing: bool = True,
        max_connections: int = 8,
        max_retries: int = 3,
    ) -> None:
        if max_connections < 1 or cache_size < 0:
            raise InvalidArgumentError(
                f"look-ups need at least one connection and a cache of 0 or more, got {max_connections} and {cache_size}"
            )
        self._statement = Statement.parse(sql)
        if not self._statement.count:
            raise ProgramError(f"a look-up needs a query with parameters, got {sql!r}")
        self._database: Database = database_of(connection_options)
        self._parameters = parameters
        self._join = join or _pairs
        self._limits = (cache_size, cache_ttl_seconds, cache_missing)
        self._max_connections = max_connections
        self._max_retries = max_retries

    @override
    def open(self, runtime_context: RuntimeContext) -> None:
        self._cache = LookupCache(*self._limits)
        self._under_way: dict[Parameters, asyncio.Future[list[Row]]] = {}
        self._take = parameters_of(self._statement, None)
        self._local = threading.local()
        self._sessions: list[Session] = []
        first = Session(self._database, self._max_retries)
        first.begin("looking at the query", lambda connection: connection.check(self._statement))
        first.close()
        self._threads = ThreadPoolExecutor(self._max_connections, "jdbc-lookup")

    @override
    async def async_invoke(self, value: Any) -> Sequence[Any]:
        wanted = self._take(value) if self._parameters is None else _as_tuple(self._parameters(value))
        return self._join(value, await self._rows(wanted))

    async def _rows(self, parameters: Parameters) -> list[Row]:
        """From the cache, or with those who already ask for the same, or by asking."""
        loop = asyncio.get_running_loop()
        rows = self._cache.get(parameters, loop.time())
        if rows is not None:
            return rows
        asked = self._under_way.get(parameters)
        if asked is None:
            asked = self._under_way[parameters] = loop.run_in_executor(self._threads, self._ask, parameters)
            asked.add_done_callback(lambda _: self._under_way.pop(parameters, None))
        rows = await asyncio.shield(asked)  # a record that times out does not take the answer from others
        self._cache.put(parameters, rows, loop.time())
        return rows

    def _ask(self, parameters: Parameters) -> list[Row]:
        if not hasattr(self._local, "session"):
            self._local.session = Session(self._database, self._max_retries)
            self._sessions.append(self._local.session)

        def look(connection: Connection) -> list[Row]:
            rows = connection.query(self._statement, parameters)
            return Row._make_all(rows, connection.columns())

        matches: list[Row] = self._local.session.run(f"looking up {parameters}", look)
        return matches

    @override
    def close(self) -> None:
        if hasattr(self, "_threads"):
            self._threads.shutdown(wait=True, cancel_futures=True)
            for session in self._sessions:
                session.close()


def _as_tuple(value: Any) -> Parameters:
    return value if isinstance(value, tuple) else (value,)


def _pairs(value: Any, rows: list[Row]) -> list[Any]:
    return [(value, row) for row in rows] or [(value, None)]


class LookupCache:
    """Rows by parameters: the oldest use goes first, and nothing stays longer than it may.

    >>> cache = LookupCache(2, 10.0, True)
    >>> cache.put((1,), [Row(1)], now=0.0)
    >>> cache.get((1,), now=9.0) == [Row(1)], cache.get((1,), now=10.0)
    (True, None)
    """

    def __init__(self, size: int, ttl_seconds: float | None, keeps_missing: bool) -> None:
        self._size = size
        self._ttl = ttl_seconds
        self._keeps_missing = keeps_missing
        self._rows: OrderedDict[Parameters, tuple[float, list[Row]]] = OrderedDict()

    def get(self, key: Parameters, now: float) -> list[Row] | None:
        """The rows of some parameters; None when they are not known, or too old."""
        entry = self._rows.get(key)
        if entry is None:
            return None
        if self._ttl is not None and now - entry[0] >= self._ttl:
            del self._rows[key]
            return None
        self._rows.move_to_end(key)
        return entry[1]

    def put(self, key: Parameters, rows: list[Row], now: float) -> None:
        """Keep the rows of some parameters, for which those used longest ago make room."""
        if not self._size or (not rows and not self._keeps_missing):
            return
        self._rows[key] = (now, rows)
        self._rows.move_to_end(key)
        if len(self._rows) > self._size:
            self._rows.popitem(last=False)
