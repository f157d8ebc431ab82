"""Readings to a socket and into a table of a database (J29): two sinks, and what they promise when a job fails.

    firesteel run examples/socket_and_table.py                        # starts a listener by itself
    firesteel run examples/socket_and_table.py --port 9191            # after "nc -l -k localhost 9191" elsewhere

The job fails twice on purpose and resumes from its last checkpoint, which sends the readings since then again.

- `SocketSink` writes lines. A socket cannot take anything back, so the listener may see these readings twice: at least
  once. One task, because all tasks would write through connections of their own; somebody must listen before the job
  starts.
- `UpsertSink` keeps one row for each sensor. Writing a reading again changes nothing, and newer ones follow: **idempotent**.
  When the job has caught up, the table is as if nothing had failed, without a transaction that spans a checkpoint.
  Until then readers may see an older reading again; who cannot have that uses sqlite_transactions.py.

What makes the second one right: the sensor is the key of the rows and of the stream, so the readings of a row all come
through one task, in order.
"""

from __future__ import annotations

import argparse
import socket
import sqlite3
import tempfile
import threading
from collections import Counter
from collections.abc import Sequence
from contextlib import closing

from failing_mapper import FailingMapper
from firesteel.common import WatermarkStrategy
from firesteel.datastream import RuntimeContext, StreamExecutionEnvironment
from firesteel.datastream.connectors import Source
from firesteel.datastream.functions import SinkFunction
from sensor_readings import SensorReading
from transactional_output import readings_per_second


class SocketSink(SinkFunction):
    """Writes each reading as a line."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port

    def open(self, runtime_context: RuntimeContext) -> None:
        """Connect; without a listener the job fails here."""
        self.connection = socket.create_connection((self.host, self.port))

    def invoke(self, value: SensorReading, context: SinkFunction.Context) -> None:
        """One line, at once."""
        self.connection.sendall(f"{value.id} {value.timestamp} {value.temperature}\n".encode())

    def close(self) -> None:
        """Hang up; there is no connection if nobody listened."""
        if hasattr(self, "connection"):
            self.connection.close()


TABLE = (
    "CREATE TABLE IF NOT EXISTS temperatures (sensor TEXT PRIMARY KEY, timestamp INTEGER, temperature REAL)"
)
UPSERT = """
INSERT INTO temperatures VALUES (?, ?, ?)
ON CONFLICT (sensor) DO UPDATE SET timestamp = excluded.timestamp, temperature = excluded.temperature
"""


class UpsertSink(SinkFunction):
    """A row for each sensor with its newest reading: inserted once, updated from then on."""

    def __init__(self, path: str) -> None:
        self.path = path

    def open(self, runtime_context: RuntimeContext) -> None:
        """Connect; several tasks write to one file, so each may have to wait for the others."""
        # Every statement is a transaction of its own.
        self.database = sqlite3.connect(self.path, timeout=60, isolation_level=None)
        self.database.execute(TABLE)

    def invoke(self, value: SensorReading, context: SinkFunction.Context) -> None:
        """Insert or update a row."""
        self.database.execute(UPSERT, value)

    def close(self) -> None:
        """Disconnect."""
        self.database.close()


def build(env: StreamExecutionEnvironment, source: Source, failures: int, port: int, path: str) -> None:
    readings = env.from_source(source, WatermarkStrategy.no_watermarks(), "readings").set_parallelism(1)
    checked = readings.map(FailingMapper(30, failures)).set_parallelism(1)
    checked.add_sink(SocketSink("localhost", port)).name("Socket").set_parallelism(1)
    checked.key_by(lambda reading: reading.id).add_sink(UpsertSink(path)).name("Table")


def rows(path: str) -> list[tuple[str, int, float]]:
    """What the table has."""
    with closing(sqlite3.connect(path)) as database:
        return database.execute("SELECT * FROM temperatures ORDER BY sensor").fetchall()


class Listener:
    """Somebody at the other end: keeps the lines of all who connect, one after the other."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._server = socket.create_server(("localhost", 0))
        self.port: int = self._server.getsockname()[1]
        self._thread = threading.Thread(target=self._listen, daemon=True)

    def __enter__(self) -> Listener:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        with socket.create_connection(("localhost", self.port)) as last:
            last.sendall(b"bye\n")
        self._thread.join()
        self._server.close()

    def _listen(self) -> None:
        while True:
            connection, _ = self._server.accept()
            with connection, connection.makefile(encoding="utf-8") as lines:
                for line in lines:
                    if line == "bye\n":
                        return
                    self.lines.append(line.strip())


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--port", type=int, help="where somebody listens already")
    options = parser.parse_args(arguments)
    path = f"{tempfile.mkdtemp(prefix='socket-and-table-')}/temperatures.db"
    if options.port:
        run(options.port, path)
    else:
        with Listener() as listener:
            run(listener.port, path)
        again = sum(count - 1 for count in Counter(listener.lines).values())
        print(f"{len(listener.lines)} lines came through the socket, {again} of them a second time")
    for sensor, timestamp, temperature in rows(path):
        print(f"{sensor}: {temperature} at {timestamp}")
    print(f"the table is in {path}")


def run(port: int, path: str) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(500)
    build(env, readings_per_second(100, 20.0), 2, port, path)
    env.execute("Socket and table")


if __name__ == "__main__":
    main()
