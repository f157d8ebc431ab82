"""A socket with TLS on it, for `channel`: read by one thread while others send.

OpenSSL's connections are not for two threads at once, and Python's encrypted sockets let two threads in (until 3.13). Here the
encryption is apart from the socket: every step of it is taken under a lock, and nobody holds that lock while he waits for the
network.
"""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import tempfile
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from firesteel.common._private_files import create_secret
from firesteel.plan.tls_identity import TlsIdentity

if TYPE_CHECKING:
    from firesteel.control.channel import Deadline

__all__ = ["TlsSocket", "context_of"]

_PART = 1 << 16


def context_of(identity: TlsIdentity, *, is_server: bool) -> ssl.SSLContext:
    """Both ends show a certificate of the same authority; names do not matter, for machines of a cluster come and go."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if is_server else ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=identity.authority.decode("ascii"))
    if is_server:
        context.num_tickets = 0  # nobody comes back, and nothing is sent that nobody waits for
    with tempfile.TemporaryDirectory(prefix="firesteel-") as directory:  # Python reads keys from files only
        certificate, key = os.path.join(directory, "certificate"), os.path.join(directory, "key")
        for path, content in ((certificate, identity.certificate), (key, identity.key)):
            with create_secret(path) as file:
                file.write(content)
        # No password is needed; without one that is given, OpenSSL would ask the terminal for it.
        context.load_cert_chain(certificate, key, "")
    return context


class TlsSocket:
    """What a channel needs of a socket, encrypted. One thread receives; one at a time sends."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext, *, is_server: bool) -> None:
        self._socket = sock
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=is_server)
        self._lock = threading.Lock()

    def shake_hands(self, deadline: Deadline) -> None:
        """Agree with the other end on keys; raises OSError when its certificate is not of the same authority."""
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self._send_waiting(deadline)
                deadline.limit(self._socket)
                data = self._socket.recv(_PART)
                if not data:
                    raise ConnectionError("the peer has hung up") from None
                self._incoming.write(data)
            except ssl.SSLError:
                with contextlib.suppress(OSError):  # tell it why
                    self._send_waiting(deadline)
                raise
            else:
                self._send_waiting(deadline)
                return

    def _send_waiting(self, deadline: Deadline) -> None:
        if self._outgoing.pending:
            deadline.limit(self._socket)
            self._socket.sendall(self._outgoing.read())

    # What `socket.socket` has.

    def recv_into(self, buffer: memoryview) -> int:
        """Fill a part of the buffer; 0 when the peer has ended."""
        while True:
            with self._lock:
                try:
                    return self._tls.read(len(buffer), buffer)  # type: ignore[return-value]
                except ssl.SSLWantReadError:
                    pass
                except ssl.SSLZeroReturnError:
                    return 0
            data = self._socket.recv(_PART)
            if not data:
                return 0
            with self._lock:
                self._incoming.write(data)

    def sendall(self, data: bytes | memoryview) -> None:
        """Send all of it; other threads may receive while this waits for the network."""
        with self._lock:
            self._tls.write(data)
            encrypted = self._outgoing.read()
        self._socket.sendall(encrypted)

    def sendmsg(self, buffers: Sequence[memoryview]) -> int:
        """Send all of them, as one."""
        whole = b"".join(buffers)
        self.sendall(whole)
        return len(whole)

    def settimeout(self, seconds: float | None) -> None:
        """As of the socket."""
        self._socket.settimeout(seconds)

    def setsockopt(self, level: int, option: int, value: bytes | int) -> None:
        """As of the socket."""
        self._socket.setsockopt(level, option, value)

    def shutdown(self, how: int) -> None:
        """As of the socket: channels say in their own way that they end."""
        self._socket.shutdown(how)

    def close(self) -> None:
        """As of the socket."""
        self._socket.close()
