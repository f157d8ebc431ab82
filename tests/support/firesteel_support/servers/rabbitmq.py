"""A RabbitMQ server in a directory of its own, with an Erlang port mapper of its own, so that nothing stays behind."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest

from firesteel_support.servers import Server, free_port, program, running

__all__ = ["RabbitServer", "rabbitmq_server"]

#: Debian's program on the PATH changes the user; this is the one that it calls.
_PLACE = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")


class RabbitServer:
    """The running server, for the user guest."""

    def __init__(self, server: Server, port: int) -> None:
        self.server = server
        self.port = port

    def connect(self) -> pika.BlockingConnection:
        """A connection for the test itself."""
        return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", self.port))


def _answers(port: int) -> bool:
    pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port)).close()
    return True


def _listens(port: int) -> bool:
    socket.create_connection(("127.0.0.1", port), 5).close()
    return True


@pytest.fixture(scope="session")
def rabbitmq_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitServer]:
    """One server for all tests; each uses queues of its own."""
    executable = program("RabbitMQ", "rabbitmq-server", "rabbitmq-server")
    executable = str(_PLACE) if _PLACE.exists() else executable
    folder, port, mapper = tmp_path_factory.mktemp("rabbitmq"), free_port(), free_port()
    (folder / "enabled_plugins").write_text("[].")
    env = {
        "HOME": str(folder),
        # With these the script becomes the server, instead of starting it: a kill hits the server.
        "RABBITMQ_ALLOW_INPUT": "true",
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-noinput",
        "ERL_EPMD_PORT": str(mapper),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "RABBITMQ_CONF_ENV_FILE": str(folder / "none.conf"),
        "RABBITMQ_CONFIG_FILE": str(folder / "none"),
        "RABBITMQ_DIST_PORT": str(free_port()),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
        "RABBITMQ_LOG_BASE": str(folder),
        "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
        "RABBITMQ_NODENAME": f"firesteel{port}@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_PID_FILE": str(folder / "pid"),
    }
    port_mapper = [program("RabbitMQ", "epmd", "erlang-base"), "-port", str(mapper), "-address", "127.0.0.1"]
    with (
        running("epmd", port_mapper, folder, lambda: _listens(mapper)),
        running("rabbitmq", [executable], folder, lambda: _answers(port), env) as server,
    ):
        yield RabbitServer(server, port)
