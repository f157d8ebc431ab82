"""Strangers at a port: silent ones, noisy ones, crowds, and a machine without descriptors."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import socket
import threading
from collections.abc import Iterator

import pytest

from firesteel.common.errors import SetupError
from firesteel.control.acceptor import Acceptor, listen
from firesteel.control.channel import Channel, connect_channel
from firesteel.control.server import ControlServer
from firesteel.plan.executor import Listening
from firesteel_support.threads import join

TIMEOUT = 300.0


def echo(channel: Channel, first: bytes) -> None:
    channel.send(first)


class Opened:
    """An acceptor that echoes the first frame, and those who connect to it."""

    def __init__(self, **limits: float) -> None:
        listener = listen("127.0.0.1")
        self.address = listener.getsockname()
        self.acceptor = Acceptor(listener, echo, "test-connection", **limits)  # type: ignore[arg-type]
        self._cleanup = contextlib.ExitStack()

    def stranger(self) -> socket.socket:
        return self._cleanup.enter_context(socket.create_connection(self.address, timeout=TIMEOUT))

    def is_served(self) -> bool:
        with socket.create_connection(self.address, timeout=TIMEOUT) as sock:
            channel = connect_channel(sock, self.acceptor.secret)
            channel.send(b"hello")
            return channel.receive() == b"hello"

    def close(self) -> None:
        self.acceptor.close()
        self._cleanup.close()


@pytest.fixture
def opened() -> Iterator[Opened]:
    made = Opened()
    yield made
    made.close()


def hung_up(sock: socket.socket) -> bool:
    """Wait until the other side has ended the connection; what it said before does not matter."""
    try:
        while sock.recv(4096):
            pass
    except ConnectionError:
        pass
    return True


def test_who_knows_the_secret_is_served(opened: Opened) -> None:
    assert opened.is_served()


def test_every_acceptor_has_a_secret_of_its_own(opened: Opened) -> None:
    other = Opened()
    assert len(opened.acceptor.secret) == 32
    assert opened.acceptor.secret != other.acceptor.secret
    assert opened.acceptor.port == opened.address[1]
    other.close()


def test_silent_crowd_makes_nobody_deaf(opened: Opened) -> None:
    crowd = [opened.stranger() for _ in range(600)]
    assert opened.is_served()
    assert hung_up(crowd[0])
    serving = [thread for thread in threading.enumerate() if thread.name == "test-connection"]
    assert len(serving) <= 65, "as many threads as strangers"


def test_silent_stranger_is_dropped_in_time() -> None:
    opened = Opened(handshake_seconds=0.2)
    assert hung_up(opened.stranger())
    opened.close()


def test_who_proves_the_secret_and_says_nothing_is_dropped_in_time() -> None:
    opened = Opened(handshake_seconds=0.5)
    sock = opened.stranger()
    assert connect_channel(sock, opened.acceptor.secret).receive() is None
    opened.close()


@pytest.mark.parametrize("noise", [b"\0" * 4096, b"GET / HTTP/1.1\r\n\r\n" * 20, bytes(range(256)) * 64])
def test_noise_is_turned_away(opened: Opened, noise: bytes) -> None:
    stranger = opened.stranger()
    with contextlib.suppress(ConnectionError):
        stranger.sendall(noise)
    assert hung_up(stranger)
    assert opened.is_served()


def test_stranger_who_resets_at_once_changes_nothing(opened: Opened) -> None:
    for _ in range(50):
        sock = socket.create_connection(opened.address)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        sock.close()
    assert opened.is_served()


class Tired(socket.socket):
    """A listener whose machine lacks descriptors, then memory; and a peer that goes away before it is accepted."""

    troubles = (errno.EMFILE, errno.ENFILE, errno.ECONNABORTED, errno.ENOBUFS, errno.EPERM)

    def accept(self) -> tuple[socket.socket, object]:
        left = list(self.troubles)
        if left:
            self.troubles = tuple(left[1:])
            raise OSError(left[0], os.strerror(left[0]))
        return super().accept()


def test_acceptor_outlives_whatever_accept_says() -> None:
    plain = listen("127.0.0.1")
    tired = Tired(fileno=plain.detach())
    acceptor = Acceptor(tired, echo, "test-connection")
    with socket.create_connection(tired.getsockname(), timeout=TIMEOUT) as sock:
        channel = connect_channel(sock, acceptor.secret)
        channel.send(b"hello")
        assert channel.receive() == b"hello"
    assert not tired.troubles
    acceptor.close()


def test_acceptor_without_descriptors_drops_strangers_and_continues(opened: Opened) -> None:
    """The crowd's sockets are of this process too: it has no descriptor left for the next one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    taken: list[socket.socket] = []
    try:
        with contextlib.suppress(OSError):
            while True:
                taken.append(socket.create_connection(opened.address, timeout=TIMEOUT))
    finally:
        for sock in taken:
            sock.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert opened.is_served()


def test_close_ends_strangers_and_threads() -> None:
    before = set(threading.enumerate())
    opened = Opened()
    strangers = [opened.stranger() for _ in range(10)]
    opened.acceptor.close()
    assert all(hung_up(stranger) for stranger in strangers)
    opened.close()
    left = set(threading.enumerate()) - before
    for thread in left:
        join(thread, TIMEOUT)  # one that hangs up last is still on its way out
    assert not any(thread.is_alive() for thread in left)


# Ports ------------------------------------------------------------------------------------------------


class Nobody:
    """A handler for servers that nobody connects to."""

    def __getattr__(self, name: str) -> None:
        raise AssertionError(name)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def server(listening: Listening) -> ControlServer:
    return ControlServer(listening, Nobody())  # type: ignore[arg-type]


def test_first_free_port_of_a_range_is_used() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = free_port()
        made = server(Listening(ports=(taken.getsockname()[1], port)))
        assert made.endpoint.port == port
        made.close()


def test_no_free_port_is_said_with_the_range_and_the_remedy() -> None:
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
        ports = (one.getsockname()[1], two.getsockname()[1])
        with pytest.raises(SetupError, match=r"none of the 2 ports.*'jobmanager.rpc.port' a wider range"):
            server(Listening(ports=ports))
        with pytest.raises(SetupError, match=f"port {ports[0]} is not free"):
            server(Listening(ports=ports[:1]))


def test_bind_host_is_where_it_listens_and_host_is_what_tasks_are_told() -> None:
    made = server(Listening("driver.example", "127.0.0.1"))
    assert made.endpoint.host == "driver.example"
    with socket.create_connection(("127.0.0.1", made.endpoint.port)):
        pass
    made.close()


def test_address_of_another_machine_is_said() -> None:
    with pytest.raises(SetupError, match=r"'jobmanager.bind-host' to an address of this machine"):
        server(Listening("driver.example", "192.0.2.7"))
