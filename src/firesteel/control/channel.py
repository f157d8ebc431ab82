"""One authenticated socket between two processes of a job: whole frames of bytes, each under a seal.

Both sides know a secret. They greet each other with random numbers and prove the secret by an HMAC over both::

    server -> client   magic, server's nonce
    client -> server   client's nonce, HMAC(secret, "client" + both nonces)
    server -> client   HMAC(secret, "server" + both nonces)

Nothing a peer sends is looked at further before that, and all of it has to happen before one deadline. From secret and
nonces follow two keys, one for each direction. A frame travels as one or more records::

    kind (1 byte), length (4 bytes), content (at most `RECORD_BYTES`), HMAC(key, number of the record + all before)

The number is counted, not sent. So who sits between can neither change nor invent, repeat, leave out, swap nor send
back a record; he can only cut, and a cut is told from an end, which has a record of its own.

The content is encrypted only where both sides are given a context of TLS (``security.ssl.internal.enabled``): then they
agree on it first, and all of this travels inside. docs/security.md says what it means to do without.
"""

from __future__ import annotations

import contextlib
import hmac
import logging
import secrets
import socket
import struct
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl  # late: most jobs do without

    from firesteel.control.tls_socket import TlsSocket

__all__ = [
    "HANDSHAKE_SECONDS",
    "AuthenticationError",
    "Channel",
    "Deadline",
    "accept_channel",
    "connect_channel",
]

_LOG = logging.getLogger(__name__)

#: How long a whole handshake may take, the peer's first frame included.
HANDSHAKE_SECONDS = 20.0
#: Most content of one record; it bounds what is held in memory before its seal has been checked.
RECORD_BYTES = 1 << 20

#: Up to here a copy is cheaper than a further call.
_SMALL_BYTES = 1 << 13

_MAGIC = b"FST1"
_NONCE_BYTES = 32
_SEAL_BYTES = 32
_HEADER = struct.Struct("!BI")
_NUMBER = struct.Struct("!Q")
_MORE, _LAST, _END = 0, 1, 2


class AuthenticationError(ConnectionError):
    """The peer does not know the secret, or speaks another protocol."""


class TamperedError(ConnectionError):
    """What came is not what the peer sent."""


class Deadline:
    """A moment on the monotonic clock, for a socket's time-outs."""

    def __init__(self, seconds: float) -> None:
        self._at = time.monotonic() + seconds

    def limit(self, sock: socket.socket | TlsSocket) -> None:
        """Let the next call of the socket take no longer than is left; raises TimeoutError when nothing is."""
        left = self._at - time.monotonic()
        if left <= 0:
            raise TimeoutError("the peer takes too long to introduce itself")
        sock.settimeout(left)


class Channel:
    """Frames of bytes over one socket, sent from any thread, received by one. Made by the functions below."""

    def __init__(self, sock: socket.socket | TlsSocket, sending_key: bytes, receiving_key: bytes) -> None:
        self._socket = sock
        self._sender = _Sealer(sending_key)
        self._receiver = _Sealer(receiving_key)
        self._sending = threading.Lock()
        #: Whether the peer has said that it sends nothing more; False when the connection was cut.
        self.peer_ended = False

    def send(self, frame: bytes) -> None:
        """Send one frame; blocks while the peer does not read. Raises OSError when it is gone."""
        with self._sending:
            view = memoryview(frame)
            for start in range(0, max(1, len(frame)), RECORD_BYTES):
                content = view[start : start + RECORD_BYTES]
                self._send_record(_LAST if start + RECORD_BYTES >= len(frame) else _MORE, content)

    def _send_record(self, kind: int, content: memoryview | bytes) -> None:
        header = _HEADER.pack(kind, len(content))
        seal = self._sender.seal(header, content)
        if len(content) <= _SMALL_BYTES:
            self._socket.sendall(b"".join((header, content, seal)))
        else:  # without copying what is large
            self._send_all([memoryview(header), memoryview(content), memoryview(seal)])

    def _send_all(self, buffers: list[memoryview]) -> None:
        while buffers:
            sent = self._socket.sendmsg(buffers)
            while buffers and sent >= len(buffers[0]):
                sent -= len(buffers.pop(0))
            if buffers:
                buffers[0] = buffers[0][sent:]

    def receive(self, deadline: Deadline | None = None) -> bytes | None:
        """The next frame, None when the peer has ended, is gone, or somebody has meddled with what it sent.

        With a deadline, None also when the frame is not there by then.
        """
        try:
            return self._receive(deadline)
        except TamperedError as error:
            _LOG.warning("a connection is cut, somebody meddles with it: %s", error)
        except OSError:
            pass  # it is gone
        self.abort()
        return None

    def _receive(self, deadline: Deadline | None) -> bytes | None:
        parts: list[memoryview] = []
        while True:
            header = _read_fully(self._socket, _HEADER.size, deadline)
            kind, length = _HEADER.unpack(header)
            if length > RECORD_BYTES:
                raise TamperedError(f"a record of {length} bytes: nobody sends those")
            rest = memoryview(_read_fully(self._socket, length + _SEAL_BYTES, deadline))
            content = rest[:length]
            if not hmac.compare_digest(rest[length:], self._receiver.seal(header, content)):
                raise TamperedError("the seal of a record is wrong")
            if kind == _END:
                self.peer_ended = True
                return None
            if kind == _LAST:
                return b"".join((*parts, content)) if parts else bytes(content)
            parts.append(content)

    def end(self) -> None:
        """Say that nothing more will be sent; the peer's `receive` then returns None."""
        with contextlib.suppress(OSError), self._sending:
            self._send_record(_END, b"")
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def abort(self) -> None:
        """End both directions now; wakes threads that are blocked in `send` or `receive`."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Release the socket; for the thread that receives. Threads that send are woken and fail first."""
        self.abort()
        with self._sending:
            self._socket.close()

    def settle(self) -> None:
        """The peer has introduced itself: from now on it may be silent for as long as it likes."""
        self._socket.settimeout(None)

    def expect_life(self, seconds: float) -> None:
        """From now on a peer that takes nothing for so long is gone: `send` raises, and `receive` gives None.

        For `receive` that is a peer that says nothing; both ends send something now and then.
        """
        self.limit_sending(seconds)
        _limit(self._socket, socket.SO_RCVTIMEO, seconds)

    def limit_sending(self, seconds: float) -> None:
        """From now on `send` raises when the peer takes nothing for so long."""
        _limit(self._socket, socket.SO_SNDTIMEO, seconds)


def _limit(sock: socket.socket | TlsSocket, option: int, seconds: float) -> None:
    # Not ``settimeout``, which is one for both directions, and for a whole ``sendall`` however much of it gets through.
    whole = int(seconds)
    sock.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", whole, int((seconds - whole) * 1e6)))


class _Sealer:
    """Computes the seals of one direction's records, in their order."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._number = 0

    def seal(self, header: bytes | bytearray, content: bytes | memoryview) -> bytes:
        start = _NUMBER.pack(self._number) + header
        self._number += 1
        if len(content) <= _SMALL_BYTES:
            return hmac.digest(self._key, b"".join((start, content)), "sha256")
        sealing = hmac.new(self._key, start, "sha256")
        sealing.update(content)
        return sealing.digest()


# The handshake ----------------------------------------------------------------------------------------


def accept_channel(
    raw: socket.socket, secret: bytes, deadline: Deadline | None = None, tls: ssl.SSLContext | None = None
) -> Channel:
    """The server's side of a new connection; raises AuthenticationError or another OSError.

    A ``deadline`` of the caller's goes on: it gives it to the first `Channel.receive`, too, and then calls
    `Channel.settle`.
    """
    limit = deadline or Deadline(HANDSHAKE_SECONDS)
    sock = _prepared(raw, tls, limit, is_server=True)
    ours = secrets.token_bytes(_NONCE_BYTES)
    limit.limit(sock)
    sock.sendall(_MAGIC + ours)
    answer = bytes(_read_fully(sock, _NONCE_BYTES + _SEAL_BYTES, limit))
    theirs, proof = answer[:_NONCE_BYTES], answer[_NONCE_BYTES:]
    nonces = ours + theirs
    is_known = hmac.compare_digest(proof, _proof(secret, b"client", nonces))
    limit.limit(sock)
    sock.sendall(_proof(secret, b"server", nonces) if is_known else bytes(_SEAL_BYTES))
    if not is_known:
        raise AuthenticationError("a peer without the secret of this job was turned away")
    channel = Channel(sock, _proof(secret, b"to client", nonces), _proof(secret, b"to server", nonces))
    if deadline is None:
        channel.settle()
    return channel


def connect_channel(raw: socket.socket, secret: bytes, tls: ssl.SSLContext | None = None) -> Channel:
    """The client's side of a new connection; raises AuthenticationError or another OSError."""
    limit = Deadline(HANDSHAKE_SECONDS)
    sock = _prepared(raw, tls, limit, is_server=False)
    greeting = bytes(_read_fully(sock, len(_MAGIC) + _NONCE_BYTES, limit))
    if not greeting.startswith(_MAGIC):
        raise AuthenticationError("whoever listens there is not a job of this version of Firesteel")
    ours = secrets.token_bytes(_NONCE_BYTES)
    nonces = greeting[len(_MAGIC) :] + ours
    limit.limit(sock)
    sock.sendall(ours + _proof(secret, b"client", nonces))
    proof = bytes(_read_fully(sock, _SEAL_BYTES, limit))
    if not hmac.compare_digest(proof, _proof(secret, b"server", nonces)):
        raise AuthenticationError("the two sides do not know the same secret")
    channel = Channel(sock, _proof(secret, b"to server", nonces), _proof(secret, b"to client", nonces))
    channel.settle()
    return channel


def _prepared(
    sock: socket.socket, tls: ssl.SSLContext | None, deadline: Deadline, *, is_server: bool
) -> socket.socket | TlsSocket:
    """The socket, without delays, and encrypted if it shall be."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if tls is None:
        return sock
    from firesteel.control.tls_socket import TlsSocket

    encrypted = TlsSocket(sock, tls, is_server=is_server)
    encrypted.shake_hands(deadline)
    return encrypted


def _proof(secret: bytes, purpose: bytes, nonces: bytes) -> bytes:
    """HMAC for one purpose; no two purposes have the same, so nothing can be sent back to where it came from."""
    return hmac.digest(secret, b"firesteel " + purpose + b"\0" + nonces, "sha256")


def _read_fully(sock: socket.socket | TlsSocket, size: int, deadline: Deadline | None) -> bytearray:
    data = bytearray(size)
    view = memoryview(data)
    filled = 0
    while filled < size:
        if deadline is not None:
            deadline.limit(sock)
        count = sock.recv_into(view[filled:])
        if count == 0:
            raise ConnectionError("the peer has hung up")
        filled += count
    return data
