"""What somebody between two processes, or a stranger, can do to a connection: cut it, and nothing else."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from firesteel.control.channel import (
    RECORD_BYTES,
    AuthenticationError,
    Channel,
    Deadline,
    accept_channel,
    connect_channel,
)

SECRET = b"s" * 32
SEAL_BYTES = 32


def pair(
    server_end: socket.socket, client_end: socket.socket, secret: bytes = SECRET
) -> tuple[Channel, Channel]:
    """Both ends of a connection, the server's first."""
    made: list[Channel] = []
    thread = threading.Thread(target=lambda: made.append(accept_channel(server_end, secret)))
    thread.start()
    client = connect_channel(client_end, secret)
    thread.join()
    return made[0], client


def tcp_pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        one = socket.create_connection(listener.getsockname())
        other, _ = listener.accept()
    return other, one


@contextmanager
def channels() -> Iterator[tuple[Channel, Channel]]:
    server, client = pair(*tcp_pair())
    try:
        yield server, client
    finally:
        server.close()
        client.close()


Change = Callable[[list[bytes]], list[bytes]]


class Between:
    """Somebody who holds both halves of a connection: the handshake passes, then the client's bytes are his."""

    def __init__(self) -> None:
        self.server_end, self.to_server = tcp_pair()
        self.to_client, self.client_end = tcp_pair()
        pumps = [
            threading.Thread(target=self._pass, args=(self.to_server, self.to_client, (36, 32))),
            threading.Thread(target=self._pass, args=(self.to_client, self.to_server, (64,))),
        ]
        for pump in pumps:
            pump.start()
        self.server, self.client = pair(self.server_end, self.client_end)
        for pump in pumps:
            pump.join()

    @staticmethod
    def _pass(source: socket.socket, target: socket.socket, sizes: tuple[int, ...]) -> None:
        for size in sizes:
            target.sendall(_exactly(source, size))

    def records(self, count: int) -> list[bytes]:
        """What the client has sent."""
        return [self._record(self.to_client) for _ in range(count)]

    @staticmethod
    def _record(source: socket.socket) -> bytes:
        header = _exactly(source, 5)
        return header + _exactly(source, struct.unpack("!BI", header)[1] + SEAL_BYTES)

    def close(self) -> None:
        self.server.close()
        self.client.close()
        self.to_server.close()
        self.to_client.close()


def _exactly(source: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = source.recv(size - len(data))
        assert more
        data += more
    return data


@pytest.fixture
def between() -> Iterator[Between]:
    made = Between()
    yield made
    made.close()


def received(channel: Channel) -> list[bytes]:
    frames = []
    while (frame := channel.receive()) is not None:
        frames.append(frame)
    return frames


@pytest.mark.parametrize(
    "size", [0, 1, RECORD_BYTES - 1, RECORD_BYTES, RECORD_BYTES + 1, 5 * RECORD_BYTES + 3]
)
def test_frames_of_every_size_arrive(size: int) -> None:
    frame = (b"0123456789" * (size // 10 + 1))[:size]
    with channels() as (server, client):
        threading.Thread(target=lambda: (client.send(frame), client.send(b"next"))).start()
        assert server.receive() == frame
        assert server.receive() == b"next"


def test_both_directions_carry_frames() -> None:
    with channels() as (server, client):
        client.send(b"question")
        assert server.receive() == b"question"
        server.send(b"answer")
        assert client.receive() == b"answer"


def test_untouched_records_pass(between: Between) -> None:
    for frame in (b"one", b"two", b"three"):
        between.client.send(frame)
    between.client.end()
    between.to_server.sendall(b"".join(between.records(4)))
    assert received(between.server) == [b"one", b"two", b"three"]
    assert between.server.peer_ended


def flipped(records: list[bytes]) -> list[bytes]:
    changed = bytearray(records[1])
    changed[6] ^= 1
    return [records[0], bytes(changed), *records[2:]]


def marked_as_last(records: list[bytes]) -> list[bytes]:
    return [records[0], b"\x00" + records[1][1:], *records[2:]]


def shortened(records: list[bytes]) -> list[bytes]:
    kind, length = struct.unpack("!BI", records[1][:5])
    return [
        records[0],
        struct.pack("!BI", kind, length - 1) + records[1][5 : -SEAL_BYTES - 1] + records[1][-32:],
    ]


CHANGES: dict[str, Change] = {
    "a bit is flipped": flipped,
    "a record is repeated": lambda records: [records[0], records[0], *records[1:]],
    "a record is left out": lambda records: [records[0], *records[2:]],
    "records are swapped": lambda records: [records[0], records[2], records[1], records[3]],
    "the kind is changed": marked_as_last,
    "a record is shortened": shortened,
    "a record is invented": lambda records: [records[0], struct.pack("!BI", 1, 3) + b"bad" + bytes(32)],
    "an end is invented": lambda records: [records[0], struct.pack("!BI", 2, 0) + bytes(32)],
    "a length is absurd": lambda records: [records[0], struct.pack("!BI", 1, 2**32 - 1)],
    "the rest is cut": lambda records: [records[0], records[1][:4]],
}


@pytest.mark.parametrize("what", CHANGES)
def test_nothing_gets_through_after(what: str, between: Between) -> None:
    for frame in (b"one", b"two", b"three"):
        between.client.send(frame)
    between.client.end()
    between.to_server.sendall(b"".join(CHANGES[what](between.records(4))))
    between.to_server.shutdown(socket.SHUT_WR)
    assert received(between.server) == [b"one"]
    assert not between.server.peer_ended, "a cut looks like an end"


def test_records_cannot_be_sent_back_to_their_sender(between: Between) -> None:
    between.client.send(b"one")
    between.to_client.sendall(between.records(1)[0])
    assert between.client.receive() is None


def test_records_of_another_connection_do_not_pass() -> None:
    first, second = Between(), Between()
    try:
        first.client.send(b"one")
        second.to_server.sendall(first.records(1)[0])
        second.to_server.shutdown(socket.SHUT_WR)
        assert received(second.server) == []
    finally:
        first.close()
        second.close()


def test_peer_that_gives_no_sign_of_life_is_given_up() -> None:
    with channels() as (server, _):
        server.expect_life(0.2)
        with pytest.raises(OSError, match="temporarily unavailable"):
            server.send(bytes(64 * RECORD_BYTES))
        assert server.receive() is None
        assert not server.peer_ended


def test_who_is_silent_is_not_given_up_for_that_where_only_sending_is_limited() -> None:
    with channels() as (server, client):
        server.limit_sending(0.05)
        speaking = threading.Timer(0.3, client.send, [b"at last"])
        speaking.start()
        assert server.receive() == b"at last"
        speaking.join()


# The handshake ----------------------------------------------------------------------------------------


def test_client_without_the_secret_is_turned_away() -> None:
    server_end, client_end = tcp_pair()
    errors: list[Exception] = []

    def accept() -> None:
        try:
            accept_channel(server_end, SECRET)
        except AuthenticationError as error:
            errors.append(error)

    thread = threading.Thread(target=accept)
    thread.start()
    with server_end, client_end:
        with pytest.raises(AuthenticationError, match="same secret"):
            connect_channel(client_end, b"guess" * 6)
        thread.join()
    assert len(errors) == 1


def test_server_without_the_secret_is_found_out() -> None:
    server_end, client_end = tcp_pair()

    def pretend() -> None:
        server_end.sendall(b"FST1" + bytes(32))
        _exactly(server_end, 64)
        server_end.sendall(bytes(32))

    thread = threading.Thread(target=pretend)
    thread.start()
    with server_end, client_end, pytest.raises(AuthenticationError):
        connect_channel(client_end, SECRET)
    thread.join()


def test_clients_proof_sent_back_to_it_proves_nothing() -> None:
    server_end, client_end = tcp_pair()

    def reflect() -> None:
        server_end.sendall(b"FST1" + bytes(32))
        server_end.sendall(_exactly(server_end, 64)[32:])

    thread = threading.Thread(target=reflect)
    thread.start()
    with server_end, client_end, pytest.raises(AuthenticationError):
        connect_channel(client_end, SECRET)
    thread.join()


def test_somebody_else_on_the_port_is_not_taken_for_a_job() -> None:
    server_end, client_end = tcp_pair()
    server_end.sendall(b"SSH-2.0-OpenSSH_9.6 and what else a server says first\r\n")
    with server_end, client_end, pytest.raises(AuthenticationError, match="not a job"):
        connect_channel(client_end, SECRET)


def test_handshake_has_one_deadline_for_all_of_it() -> None:
    """A peer that sends a byte now and then gets no longer than one that is silent."""
    server_end, client_end = tcp_pair()
    over = threading.Event()

    def drip() -> None:
        while not over.wait(0.05):
            try:
                client_end.sendall(b"x")
            except OSError:
                return

    thread = threading.Thread(target=drip)
    thread.start()
    with server_end, client_end:
        with pytest.raises(TimeoutError):
            accept_channel(server_end, SECRET, Deadline(0.3))
        over.set()
        thread.join()
