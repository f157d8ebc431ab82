"""A real PostgreSQL with logical replication and a password, and a fresh database for every test."""

from __future__ import annotations

import contextlib
import itertools
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest

from firesteel.datastream.connectors.jdbc import JdbcConnectionOptions
from firesteel_support.servers import Server, free_port, missing, program, running

__all__ = ["PASSWORD", "USER", "PostgresServer", "TestDatabase", "database", "postgres_server"]

USER, PASSWORD = "tester", "s3cret:/@%"
_SETTINGS = {
    "wal_level": "logical",
    "max_replication_slots": "20",
    "max_wal_senders": "20",
    "max_connections": "60",
    "fsync": "off",  # processes are killed here, machines are not
    "shared_buffers": "32MB",
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "log_min_messages": "warning",
    "wal_sender_timeout": "10s",
}


class PostgresServer:
    """The server; `server` can be killed and started again."""

    def __init__(self, server: Server, port: int) -> None:
        self.server = server
        self.port = port
        self._numbers = itertools.count(1)

    def connect(self, database: str = "postgres") -> psycopg.Connection[Any]:
        """A connection, each of whose statements counts at once."""
        return psycopg.connect(
            host="127.0.0.1", port=self.port, user=USER, password=PASSWORD, dbname=database, autocommit=True
        )

    def answers(self) -> bool:
        """Whether it can be talked to; raises when it cannot."""
        self.connect().close()
        return True

    def create_database(self) -> TestDatabase:
        """A database of its own."""
        name = f"test_{next(self._numbers)}"
        with self.connect() as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return TestDatabase(self, name)


class TestDatabase:
    """One database of the server."""

    __test__ = False

    def __init__(self, server: PostgresServer, name: str) -> None:
        self.server = server
        self.name = name

    @property
    def url(self) -> str:
        return f"jdbc:postgresql://127.0.0.1:{self.server.port}/{self.name}"

    def options(self, **changes: Any) -> JdbcConnectionOptions:
        """How to reach it."""
        known = {"url": self.url, "user_name": USER, "password": PASSWORD, **changes}
        return JdbcConnectionOptions(**known)

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Execute at once; the rows, if there are any."""
        with self.server.connect(self.name) as connection:
            cursor = connection.execute(sql, parameters)
            return cursor.fetchall() if cursor.description else []

    def drop(self) -> None:
        """Drop it with its replication slots and everybody's connections."""
        with self.server.connect() as connection:
            connection.execute(
                # With a time to wait: whoever is only told to go still holds the slot, and a database with a slot stays.
                "SELECT pg_terminate_backend(active_pid, 60000) FROM pg_replication_slots "
                "WHERE database = %s AND active",
                (self.name,),
            )
            slots = connection.execute(
                "SELECT slot_name FROM pg_replication_slots WHERE database = %s", (self.name,)
            ).fetchall()
            for (slot,) in slots:
                with contextlib.suppress(psycopg.Error):
                    connection.execute("SELECT pg_drop_replication_slot(%s)", (slot,))
            connection.execute(f"DROP DATABASE IF EXISTS {self.name} WITH (FORCE)")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """The server for all tests; whoever kills it starts it again."""
    with _server() as server:
        yield server


@pytest.fixture
def database(postgres_server: PostgresServer) -> Iterator[TestDatabase]:
    """A fresh database."""
    created = postgres_server.create_database()
    yield created
    created.drop()


@contextlib.contextmanager
def _server() -> Iterator[PostgresServer]:
    binaries = _binaries()
    user = _user()
    directory = Path(tempfile.mkdtemp(prefix="firesteel-postgres-"))
    try:
        if user is not None:
            shutil.chown(directory, user)
        port = free_port()
        _initialise(binaries, directory, user)
        options = [f"--{key.replace('_', '-')}={value}" for key, value in _SETTINGS.items()]
        command = [str(binaries / "postgres"), "-D", str(directory / "data"), "-p", str(port), *options]
        made = PostgresServer(None, port)  # type: ignore[arg-type]  # it is started below, and asked by itself
        with running("postgres", command, directory, made.answers, user=user) as process:
            made.server = process
            yield made
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _binaries() -> Path:
    """Debian keeps the server's programs away from the PATH, one folder per version."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    if not found:
        program("PostgreSQL", "pg_ctlcluster", "postgresql")
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    if not found:
        missing("PostgreSQL", "there is no server below /usr/lib/postgresql")
    return found[-1].parent


def _user() -> str | None:
    """PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name).pw_name
    return missing("PostgreSQL", "it does not run as root, and there is nobody else")  # type: ignore[func-returns-value]


def _initialise(binaries: Path, directory: Path, user: str | None) -> None:
    secret = directory / "password"
    secret.write_text(PASSWORD)
    if user is not None:
        shutil.chown(secret, user)
    done = subprocess.run(
        [
            str(binaries / "initdb"), "-D", str(directory / "data"), "-U", USER, "--pwfile", str(secret),
            "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync",
        ],
        cwd=directory, user=user, capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"initdb failed:\n{done.stdout}{done.stderr}")
