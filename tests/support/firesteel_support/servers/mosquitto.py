"""A Mosquitto broker with one user, which keeps sessions and messages on its disk."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from firesteel_support.servers import Server, free_port, program, running

__all__ = ["Mosquitto", "mosquitto"]


class Mosquitto:
    """The running broker; ``url`` has its only user."""

    def __init__(self, server: Server, port: int) -> None:
        self.server = server
        self.port = port
        self.url = f"mqtt://me:secret@127.0.0.1:{port}"


def _listens(port: int) -> bool:
    socket.create_connection(("127.0.0.1", port), 5).close()
    return True


def _configure(folder: Path, port: int) -> Path:
    passwords = folder / "passwords"
    maker = program("Mosquitto", "mosquitto_passwd", "mosquitto")
    subprocess.run([maker, "-b", "-c", str(passwords), "me", "secret"], check=True, capture_output=True)
    passwords.chmod(0o600)
    (folder / "access").write_text("user me\ntopic readwrite #\ntopic deny forbidden/#\n")
    configuration = folder / "mosquitto.conf"
    configuration.write_text(
        f"listener {port} 127.0.0.1\nallow_anonymous false\npassword_file {passwords}\nacl_file {folder / 'access'}\n"
        f"persistence true\npersistence_location {folder}/\nmax_inflight_messages 0\nmax_queued_messages 0\nuser root\n"
    )
    return configuration


@pytest.fixture(scope="session")
def mosquitto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mosquitto]:
    """One broker for all tests; each uses topics of its own."""
    executable = program("Mosquitto", "mosquitto", "mosquitto")
    folder, port = tmp_path_factory.mktemp("mosquitto"), free_port()
    command = [executable, "-c", str(_configure(folder, port))]
    with running("mosquitto", command, folder, lambda: _listens(port)) as server:
        yield Mosquitto(server, port)
