"""A Redis server that writes every command to its disk before it answers: it may be killed and forgets nothing."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from firesteel_support.servers import Server, free_port, program, running

__all__ = ["PASSWORD", "RedisServer", "redis_server"]

PASSWORD = "a secret"


class RedisServer:
    """The running server; ``url`` has the password of the user that everybody is."""

    def __init__(self, server: Server, port: int) -> None:
        self.server = server
        self.port = port
        self.url = self.url_with(PASSWORD.replace(" ", "%20"))

    def url_with(self, password: str) -> str:
        """The URL for a password."""
        return f"redis://:{password}@127.0.0.1:{self.port}/0"


def _answers(port: int) -> bool:
    with socket.create_connection(("127.0.0.1", port), 5) as connection:
        connection.sendall(b"PING\r\n")
        return connection.recv(100).startswith((b"-NOAUTH", b"+PONG"))


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """One server for all tests; each uses keys of its own."""
    executable, port = program("Redis", "redis-server", "redis-server"), free_port()
    settings = {
        "port": str(port),
        "bind": "127.0.0.1",
        "requirepass": PASSWORD,
        "appendonly": "yes",
        "appendfsync": "always",
        "save": "",
    }
    command = [executable, *(part for name, value in settings.items() for part in (f"--{name}", value))]
    with running("redis", command, tmp_path_factory.mktemp("redis"), lambda: _answers(port)) as server:
        yield RedisServer(server, port)
