"""Control connections with TLS: nobody between reads them, both ends show a certificate, and many threads use one at once."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from firesteel.control.certificates import make_certificates
from firesteel.control.channel import (
    RECORD_BYTES,
    Channel,
    Deadline,
    accept_channel,
    connect_channel,
)
from firesteel.control.tls_socket import context_of
from firesteel.plan.tls_identity import TlsIdentity

SECRET = b"s" * 32
PATIENCE = 60.0


def identity() -> TlsIdentity:
    made = make_certificates([], 2, "a password")
    return TlsIdentity(made.authority, made.certificate, made.key)


OURS = identity()


class Tap(threading.Thread):
    """Passes bytes on from one socket to another, and keeps them."""

    def __init__(self, source: socket.socket, target: socket.socket) -> None:
        super().__init__(daemon=True)
        self._source, self._target = source, target
        self.seen = b""
        self.start()

    def run(self) -> None:
        with contextlib.suppress(OSError):
            while part := self._source.recv(1 << 16):
                self.seen += part
                self._target.sendall(part)
            self._target.shutdown(socket.SHUT_WR)


def tcp_pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        one = socket.create_connection(listener.getsockname())
        other, _ = listener.accept()
    return other, one


@contextmanager
def tapped(
    theirs: TlsIdentity | None = OURS, ours: TlsIdentity | None = OURS, seconds: float = PATIENCE
) -> Iterator[tuple[Channel, Channel, Tap, Tap]]:
    """Both ends of a connection, the server's first, and what crosses between: from the client, and from the server."""
    server_end, to_server = tcp_pair()
    to_client, client_end = tcp_pair()
    taps = Tap(to_client, to_server), Tap(to_server, to_client)
    made: list[Channel] = []

    def accept() -> None:
        context = None if ours is None else context_of(ours, is_server=True)
        try:
            made.append(accept_channel(server_end, SECRET, Deadline(seconds), context))
        except OSError:  # hangs up, as the acceptor does
            server_end.shutdown(socket.SHUT_RDWR)

    accepting = threading.Thread(target=accept)
    accepting.start()
    try:
        client = connect_channel(
            client_end, SECRET, None if theirs is None else context_of(theirs, is_server=False)
        )
        accepting.join()
        made[0].settle()
        yield made[0], client, *taps
    finally:
        accepting.join()
        for sock in (server_end, client_end, to_server, to_client):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()


def test_what_crosses_cannot_be_read() -> None:
    word = b"a record that nobody else may read"
    with tapped() as (server, client, up, down):
        client.send(word)
        assert server.receive() == word
        server.send(word)
        assert client.receive() == word
        assert len(up.seen) > len(word) < len(down.seen)
        assert word not in up.seen + down.seen
        assert b"FST1" not in down.seen, "not even the greeting"
    with tapped(None, None) as (server, client, up, _):
        client.send(word)
        assert server.receive() == word
        assert word in up.seen, "the tap sees what is not encrypted"


@pytest.mark.parametrize("size", [0, 1, RECORD_BYTES - 1, RECORD_BYTES, 5 * RECORD_BYTES + 3])
def test_frames_of_all_sizes_arrive_whole(size: int) -> None:
    frame = bytes(range(256)) * (size // 256) + bytes(size % 256)
    with tapped() as (server, client, *_):
        sending = threading.Thread(target=client.send, args=(frame,))
        sending.start()
        assert server.receive() == frame
        sending.join()


def test_both_directions_carry_much_at_once_from_many_threads() -> None:
    count, size, senders = 40, 1 << 16, 3
    with tapped() as (server, client, *_):
        ends = {"server": server, "client": client}
        got: dict[str, list[bytes]] = {}

        def send(end: Channel, mark: int) -> None:
            for number in range(count):
                end.send(bytes([mark, number]) * size)

        def receive(name: str) -> None:
            got[name] = [ends[name].receive() or b"" for _ in range(count * senders)]

        threads = [threading.Thread(target=receive, args=(name,)) for name in ends]
        threads += [
            threading.Thread(target=send, args=(end, mark))
            for end in ends.values()
            for mark in range(senders)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        wanted = sorted(bytes([mark, number]) for mark in range(senders) for number in range(count))
        for frames in got.values():
            assert {len(frame) for frame in frames} == {2 * size}
            assert sorted(frame[:2] for frame in frames) == wanted


def test_an_end_is_told_from_a_cut() -> None:
    with tapped() as (server, client, *_):
        client.send(b"last")
        client.end()
        assert server.receive() == b"last"
        assert server.receive() is None
        assert server.peer_ended
    with tapped() as (server, client, *_):
        client.abort()
        assert server.receive() is None
        assert not server.peer_ended


STRANGER = identity()


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (STRANGER, OURS),
        (None, OURS),
        (OURS, None),
        (TlsIdentity(OURS.authority, STRANGER.certificate, STRANGER.key), OURS),
        (OURS, TlsIdentity(OURS.authority, STRANGER.certificate, STRANGER.key)),
    ],
    ids=["another authority", "client without TLS", "server without TLS", "forged client", "forged server"],
)
def test_who_has_another_authority_or_none_is_not_let_in(
    theirs: TlsIdentity | None, ours: TlsIdentity | None
) -> None:
    with pytest.raises((ConnectionError, ssl.SSLError)), tapped(theirs, ours, seconds=0.5):
        pytest.fail("they have met")
