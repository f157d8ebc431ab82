"""A NATS server with JetStream and one user, which keeps streams on its disk."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import nats
import pytest

from firesteel_support.servers import Server, free_port, program, running

__all__ = ["NatsServer", "nats_server"]


class NatsServer:
    """The running server; ``url`` has its only user."""

    def __init__(self, server: Server, port: int) -> None:
        self.server = server
        self.port = port
        self.url = f"nats://me:secret@127.0.0.1:{port}"

    def do(self, action: Callable[[Any], Awaitable[Any]]) -> Any:
        """Do something with JetStream, by a client of the test's own."""

        async def main() -> Any:
            connection = await nats.connect(self.url)
            try:
                return await action(connection.jetstream(timeout=60))
            finally:
                await connection.close()

        return asyncio.run(main())


def _listens(port: int) -> bool:
    with socket.create_connection(("127.0.0.1", port), 5) as connection:
        return connection.recv(100).startswith(b"INFO")


@pytest.fixture(scope="session")
def nats_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    """One server for all tests; each uses streams of its own."""
    executable, port = program("NATS", "nats-server", "nats-server"), free_port()
    folder = tmp_path_factory.mktemp("nats")
    (folder / "nats.conf").write_text(
        f'host: 127.0.0.1\nport: {port}\njetstream {{ store_dir: "{folder}/streams" }}\n'
        "authorization { user: me, password: secret }\n"
    )
    command = [executable, "-c", str(folder / "nats.conf")]
    with running("nats", command, folder, lambda: _listens(port)) as server:
        yield NatsServer(server, port)
