"""The socket that the service listens with: connections of other users of this machine end before they cost anything.

Who connects holds a descriptor of this process, which needs them for its job. So strangers are turned away when they are
accepted, not when they have sent a request, and there is a limit on all others.
"""

from __future__ import annotations

import contextlib
import json
import socket
import weakref
from typing import Any

from firesteel.common._override import override
from firesteel.rest.peers import foreign_user

__all__ = ["Listener"]

#: Connections that may be there at once.
MOST_CONNECTIONS = 256


class Listener(socket.socket):
    """Accepts connections of the user of this process and of root, and from other machines if they can reach it."""

    def __init__(self, family: int, most: int = MOST_CONNECTIONS) -> None:
        # With the protocol named, asyncio switches off Nagle's algorithm: it looks there, and answers would wait 40 ms.
        super().__init__(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self._most = most
        self._accepted: weakref.WeakSet[socket.socket] = weakref.WeakSet()

    @override
    def accept(self) -> tuple[socket.socket, Any]:
        """The next connection; ConnectionAbortedError, which event loops pass over, when it was turned away."""
        connection, client = super().accept()
        reason = foreign_user(client, connection.getsockname())
        if reason is None and sum(each.fileno() >= 0 for each in self._accepted) >= self._most:
            reason = f"there are {self._most} connections to the REST interface already; close some"
        if reason is None:
            self._accepted.add(connection)
            return connection, client
        with connection, contextlib.suppress(OSError):
            connection.setblocking(False)
            connection.send(_refusal(reason))
        raise ConnectionAbortedError(reason)


def _refusal(reason: str) -> bytes:
    body = json.dumps({"errors": [reason]}).encode()
    head = f"HTTP/1.1 403 Forbidden\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"Connection: close\r\n\r\n" + body
