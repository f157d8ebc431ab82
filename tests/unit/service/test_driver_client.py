"""Connections to drivers are kept while there is a driver at their other end, and no longer."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from firesteel.service.driver_client import DriverClient, DriverGoneError

_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"


class Driver:
    """Answers whatever it is asked, until it ends."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.connections: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections.append(connection)
            answering = threading.Thread(target=self._answer, args=(connection,), daemon=True)
            self._threads.append(answering)
            answering.start()

    @staticmethod
    def _answer(connection: socket.socket) -> None:
        while connection.recv(1 << 16):
            connection.sendall(_ANSWER)

    def end(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self.connections:
            connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for connection in self.connections:
            connection.close()


@contextmanager
def driver() -> Iterator[Driver]:
    running = Driver()
    try:
        yield running
    finally:
        running.end()


@pytest.fixture
def client() -> Iterator[DriverClient]:
    client = DriverClient()
    yield client
    client.close()


def kept_sockets(client: DriverClient) -> list[socket.socket]:
    return [each.sock for connections in client._idle.values() for each in connections]


def test_a_connection_is_used_again(client: DriverClient) -> None:
    with driver() as one:
        for _ in range(3):
            assert client.ask(one.url, "GET", "/").status == 200
        assert len(one.connections) == 1


def test_what_is_left_of_drivers_that_have_ended_is_closed_when_another_one_is_asked(
    client: DriverClient,
) -> None:
    for _ in range(3):
        with driver() as gone:
            client.ask(gone.url, "GET", "/")
        ended = select.poll()
        for each in kept_sockets(client):
            ended.register(each, select.POLLIN)
        assert ended.poll(60_000), "its end has arrived"
    with driver() as other:
        client.ask(other.url, "GET", "/")
        assert list(client._idle) == [other.url]
        assert len(kept_sockets(client)) == 1
        with pytest.raises(DriverGoneError):
            client.ask(gone.url, "GET", "/")
