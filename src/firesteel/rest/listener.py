"""The socket that the service listens with: connections of other users of this machine end before they cost anything.

Who connects holds a descriptor of this process, which needs them for its job. So there is a limit, and where nobody has to prove
who he is, strangers are turned away when they are accepted, not when they have sent a request. When the limit is reached, the one
that has waited longest without having asked anything makes room: a client asks within milliseconds, however many others have
come before it and say nothing.
"""

from __future__ import annotations

import contextlib
import json
import socket
import weakref
from http import HTTPStatus
from typing import Any

from firesteel.common._override import override
from firesteel.rest.peers import foreign_user

__all__ = ["Listener", "raw_answer"]

#: Connections that may be there at once.
MOST_CONNECTIONS = 256


class Listener(socket.socket):
    """Accepts connections of the user of this process and of root, and from other machines if they can reach it.

    ``knows_clients``: they prove who they are later, so every user of this machine may connect.
    """

    def __init__(self, family: int, most: int = MOST_CONNECTIONS, knows_clients: bool = False) -> None:
        # With the protocol named, asyncio switches off Nagle's algorithm: it looks there, and answers would wait 40 ms.
        super().__init__(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self._most = most
        self._knows_clients = knows_clients
        #: In the order in which they came; whether a request came on them.
        self._accepted: weakref.WeakKeyDictionary[socket.socket, bool] = weakref.WeakKeyDictionary()

    @override
    def accept(self) -> tuple[socket.socket, Any]:
        """The next connection; ConnectionAbortedError, which event loops pass over, when it was turned away."""
        connection, client = super().accept()
        reason = None if self._knows_clients else foreign_user(client, connection.getsockname())
        status = HTTPStatus.FORBIDDEN
        if reason is None and not self._has_room():
            reason = f"there are {self._most} connections to the REST interface already; close some"
            status = HTTPStatus.SERVICE_UNAVAILABLE
        if reason is None:
            self._accepted[connection] = False
            return connection, client
        with connection, contextlib.suppress(OSError):
            connection.setblocking(False)
            connection.send(raw_answer(status, reason))
        raise ConnectionAbortedError(reason)

    def has_asked(self, descriptor: int) -> None:
        """A whole request came on this connection: it need not make room for others."""
        for connection in self._accepted:
            if connection.fileno() == descriptor:
                self._accepted[connection] = True
                return

    def _has_room(self) -> bool:
        """Whether one more may come, at the cost of one that has asked nothing if need be."""
        open_ones = [each for each in self._accepted if each.fileno() >= 0]
        if len(open_ones) < self._most:
            return True
        for connection in open_ones:
            if not self._accepted[connection]:
                del self._accepted[connection]
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)  # the event loop sees its end, and closes it
                return True
        return False


def raw_answer(status: HTTPStatus, reason: str) -> bytes:
    """A whole answer for somebody whose request was not read; the connection is closed after it."""
    body = json.dumps({"errors": [reason]}).encode()
    head = f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"Connection: close\r\n\r\n" + body
