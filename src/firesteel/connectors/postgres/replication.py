"""The replication protocol over psycopg's libpq: temporary slots with an exported snapshot, and the stream of a slot.

psycopg itself has no replication, but gives everything that libpq has, which is enough: CREATE_REPLICATION_SLOT and
START_REPLICATION are simple queries, and the stream is COPY in both directions.
"""

from __future__ import annotations

import contextlib
import select
import struct
import time
import uuid
from collections.abc import Iterator
from typing import Any

import psycopg
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGresult

from firesteel.connectors.jdbc.database import ConnectionLost, StatementFailed
from firesteel.connectors.jdbc.postgresql import PostgresDatabase, failure
from firesteel.connectors.postgres.pgoutput import EPOCH_2000, lsn_of, lsn_text

__all__ = ["SETTINGS", "ReplicationStream", "exported_snapshot"]

#: What values look like must not depend on how server and database are configured.
SETTINGS = (
    "-c timezone=UTC -c datestyle=ISO -c intervalstyle=postgres -c bytea_output=hex -c extra_float_digits=1"
)

#: The server is told so often how far things are, also when nothing happens; it hangs up after wal_sender_timeout.
STATUS_SECONDS = 5.0


def connect_for_replication(database: PostgresDatabase) -> psycopg.Connection[Any]:
    """A connection that speaks the replication protocol."""
    options = f"{database.parameters.get('options', '')} {SETTINGS}".strip()
    return database.open(autocommit=True, replication="database", options=options)


@contextlib.contextmanager
def exported_snapshot(database: PostgresDatabase) -> Iterator[tuple[str, int]]:
    """The name of a snapshot, and the LSN where it stands.

    Of what was committed before that LSN the snapshot has everything, and of what comes after it nothing. The name is good while the
    context lasts; a transaction that has taken it by then keeps it.
    """
    name = f"firesteel_snapshot_{uuid.uuid4().hex[:16]}"
    with contextlib.closing(connect_for_replication(database)) as connection:
        command = f"CREATE_REPLICATION_SLOT {name} TEMPORARY LOGICAL pgoutput EXPORT_SNAPSHOT"
        result = _simple(connection, command, ExecStatus.TUPLES_OK)
        point, snapshot = result.get_value(0, 1), result.get_value(0, 2)
        assert point is not None
        assert snapshot is not None
        yield snapshot.decode(), lsn_of(point.decode())


def _simple(connection: psycopg.Connection[Any], command: str, expected: ExecStatus) -> PGresult:
    try:
        result = connection.pgconn.exec_(command.encode())
        if result.status != expected:
            raise psycopg.errors.error_from_result(result)
    except psycopg.Error as error:
        raise failure(error) from error
    return result


class ReplicationStream:
    """The changes of a slot from an LSN on, message by message."""

    def __init__(self, database: PostgresDatabase, slot: str, publication: str, start: int) -> None:
        self._connection = connect_for_replication(database)
        self._pgconn = self._connection.pgconn
        self._poll = select.poll()
        self._told = (-1, 0.0)
        self.confirmed = 0
        names = publication.replace('"', '""').replace("'", "''")
        command = (
            f'START_REPLICATION SLOT "{slot}" LOGICAL {lsn_text(start)} '
            f"(proto_version '1', publication_names '\"{names}\"')"
        )
        try:
            _simple(self._connection, command, ExecStatus.COPY_BOTH)
        except BaseException:
            self.close()
            raise
        self._poll.register(self._pgconn.socket, select.POLLIN)

    @property
    def for_loading(self) -> psycopg.Connection[Any]:
        """The connection whose settings say how texts are to be read."""
        return self._connection

    def receive(self) -> bytes | None:
        """The next message; None when none is there yet."""
        try:
            length, data = self._pgconn.get_copy_data(1)
            if length > 0:
                return bytes(data)
            if length < 0:
                raise self._ended()
        except psycopg.Error as error:
            raise ConnectionLost(f"the stream of changes has ended: {error}") from error
        return None

    def _ended(self) -> Exception:
        result = self._pgconn.get_result()
        if result is None or result.status != ExecStatus.FATAL_ERROR:
            return ConnectionLost("the server has ended the stream of changes")
        error = failure(psycopg.errors.error_from_result(result))
        return error if isinstance(error, StatementFailed) else ConnectionLost(str(error))

    def wait(self, seconds: float) -> None:
        """Until something arrives, or for so long; tells the server how far things are, when it is time."""
        self.tell()
        self._poll.poll(seconds * 1000)
        try:
            self._pgconn.consume_input()
        except psycopg.Error as error:
            raise ConnectionLost(f"the stream of changes has ended: {error}") from error

    def tell(self, at_once: bool = False) -> None:
        """Tell the server what is confirmed, if that is news or a while ago."""
        confirmed, now = self.confirmed, time.monotonic()
        if not at_once and confirmed == self._told[0] and now - self._told[1] < STATUS_SECONDS:
            return
        clock = time.time_ns() // 1000 - EPOCH_2000
        message = b"r" + struct.pack("!QQQqB", confirmed, confirmed, confirmed, clock, 0)
        try:
            self._pgconn.put_copy_data(message)
            self._pgconn.flush()
        except psycopg.Error as error:
            raise ConnectionLost(f"the stream of changes has ended: {error}") from error
        self._told = (confirmed, now)

    def close(self) -> None:
        """Close the connection, which makes the slot free."""
        with contextlib.suppress(psycopg.Error):
            self._connection.close()
