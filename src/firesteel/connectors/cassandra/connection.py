"""Sessions with Cassandra, and what is said when there is none."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from firesteel.common.errors import JobExecutionError
from firesteel.connectors.extras import missing_client

try:
    import cassandra
    from cassandra.auth import PlainTextAuthProvider
    from cassandra.cluster import Cluster, NoHostAvailable
    from cassandra.concurrent import execute_concurrent_with_args
    from cassandra.connection import ConnectionException
    from cassandra.query import UNSET_VALUE
except ImportError as error:  # pragma: no cover - the tests have it
    raise missing_client("Cassandra", "cassandra-driver", "cassandra") from error

__all__ = ["LEFT_OUT", "Session", "place_of"]

#: A value that leaves what a column has as it is.
LEFT_OUT: Any = UNSET_VALUE
#: After these the same statement may work, if it is one that can be repeated.
_LATER: tuple[type[Exception], ...] = (
    NoHostAvailable,
    ConnectionException,
    cassandra.OperationTimedOut,
    cassandra.Unavailable,
    cassandra.WriteTimeout,
    cassandra.ReadTimeout,
    cassandra.WriteFailure,
    OSError,
)


def place_of(hosts: Sequence[str], port: int) -> str:
    """Where a cluster is.

    >>> place_of(["db1", "db2"], 9042)
    'db1, db2 (port 9042)'
    """
    return f"{', '.join(hosts)} (port {port})"


class Session:
    """A session with a cluster that has been tried."""

    def __init__(
        self,
        hosts: Sequence[str],
        port: int,
        user: str | None,
        password: str,
        options: Mapping[str, Any],
    ) -> None:
        self._place = place_of(hosts, port)
        login = None if user is None else PlainTextAuthProvider(user, password)
        self._cluster: Any = Cluster(list(hosts), port=port, auth_provider=login, **options)
        try:
            with self.told("connecting"):
                self.driver: Any = self._cluster.connect()
        except BaseException:
            self.close()
            raise

    @contextmanager
    def told(self, action: str) -> Iterator[None]:
        """What Cassandra refuses becomes a sentence, and what may work later a ConnectionError."""
        try:
            yield
        except (cassandra.AuthenticationFailed, cassandra.Unauthorized) as error:
            raise self._refused(action, error, "; check user and password, and the user's rights") from error
        except _LATER as error:
            login = _login_failure(error)
            if login is not None:
                raise self._refused(action, login, "; check user and password") from error
            raise ConnectionError(f"{self._place}: {type(error).__name__}: {error}") from error
        except cassandra.DriverException as error:
            raise self._refused(action, error, "") from error

    def _refused(self, action: str, error: Exception, remedy: str) -> JobExecutionError:
        return JobExecutionError(f"{action}: Cassandra at {self._place} answers: {error}{remedy}")

    def execute(self, statement: Any, values: Sequence[Any] = ()) -> Any:
        """One statement; gives its rows."""
        return self.driver.execute(statement, values)

    def execute_all(self, statement: Any, rows: list[Sequence[Any]], at_once: int) -> None:
        """A prepared statement for many rows, that many at once; raises the first error when all are done."""
        results = execute_concurrent_with_args(
            self.driver, statement, rows, concurrency=at_once, raise_on_first_error=False
        )
        for result in results:
            if not result.success:
                raise result.result_or_exc

    def write_as_of(self, microseconds: int) -> None:
        """Have the statements from now on written with timestamps from this one on, in their order."""
        ticks = itertools.count(microseconds)
        self._cluster.timestamp_generator = lambda: next(ticks)  # the session asks its cluster

    def close(self) -> None:
        """End all connections."""
        self._cluster.shutdown()


def _login_failure(error: Exception) -> Exception | None:
    """The driver hides a wrong password among the errors of hosts that it has tried."""
    tried = getattr(error, "errors", None)
    if isinstance(tried, Mapping):
        return next(
            (each for each in tried.values() if isinstance(each, cassandra.AuthenticationFailed)), None
        )
    return None
