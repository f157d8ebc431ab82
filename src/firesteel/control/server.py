"""The job master's end of the control connections: accepts, authenticates, and hands on what tasks say.

One thread for each connection: a task whose output cannot be written down fast enough is read slower,
and only that task.
"""

from __future__ import annotations

import itertools
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from firesteel.common.errors import SetupError
from firesteel.common.options import JOBMANAGER_BIND_HOST, JOBMANAGER_PORT
from firesteel.control.acceptor import NOT_FREE, STRANGERS, Acceptor, listen
from firesteel.control.channel import Channel
from firesteel.control.collect_protocol import END_OF_COLLECTION
from firesteel.control.protocol import (
    CollectHello,
    Hello,
    TaskHello,
    decode,
)
from firesteel.control.task_sender import TaskSender
from firesteel.plan.executor import LOOPBACK, ControlEndpoint, Listening
from firesteel.plan.heartbeat import HeartbeatSettings
from firesteel.plan.messages import MasterMessage, TaskMessage
from firesteel.plan.tls_identity import TlsIdentity

if TYPE_CHECKING:
    import ssl


class ConnectionHandler(Protocol):
    """What the server does with connections. Called from the connections' threads."""

    def accepts(self, hello: Hello) -> bool:
        """Whether the connection belongs to what is running now."""
        ...

    def task_connected(
        self, hello: TaskHello, connection: int, send: Callable[[MasterMessage], None]
    ) -> None:
        """A task has connected: ``send`` sends to it, ``connection`` numbers the connections of a server."""
        ...

    def task_said(self, hello: TaskHello, connection: int, message: TaskMessage) -> None:
        """A task has sent a message; the next one is read when this returns."""
        ...

    def task_disconnected(self, hello: TaskHello, connection: int) -> None:
        """A task's connection is over."""
        ...

    def receive_collection(
        self, hello: CollectHello, frames: Iterator[bytes], answer: Callable[[bytes], None]
    ) -> None:
        """Take the frames of one collector; raises `CollectorLostError` from the iterator if it breaks off."""
        ...

    def connection_failed(self, hello: Hello, error: Exception) -> None:
        """A connection cannot be served."""
        ...


class CollectorLostError(ConnectionError):
    """A collector's connection ended before its end mark."""


class ControlServer:
    """Listens for tasks of one attempt; one secret for each server. ``tasks``: how many may come at the same moment."""

    def __init__(
        self,
        listening: Listening,
        handler: ConnectionHandler,
        heartbeat: HeartbeatSettings | None = None,
        tasks: int = 0,
    ) -> None:
        self._handler = handler
        self._heartbeat = heartbeat
        self._numbers = itertools.count(1)
        self._acceptor = Acceptor(
            _listen(listening),
            self._serve,
            "firesteel-control-connection",
            strangers=STRANGERS + 2 * tasks,  # with a connection for collected records each
            tls=_server_context(listening.tls),
        )
        self.endpoint = ControlEndpoint(
            listening.host, self._acceptor.port, self._acceptor.secret, listening.tls
        )

    def close(self, linger_seconds: float = 0.0) -> None:
        """Refuse new connections, let those that are there end for ``linger_seconds``, cut the rest."""
        self._acceptor.close(linger_seconds)

    def _serve(self, channel: Channel, first: bytes) -> None:
        self._welcome(channel, decode(first))
        if channel.peer_ended:
            channel.end()  # so that the other side can tell that all is handled from a connection that was cut

    def _welcome(self, channel: Channel, hello: Hello) -> None:
        if not self._handler.accepts(hello):
            return
        try:
            if isinstance(hello, TaskHello):
                self._serve_task(channel, hello)
            else:
                self._handler.receive_collection(hello, _frames(channel), channel.send)
        except Exception as error:  # noqa: BLE001 - whatever it is, it ends the job, not just this thread
            self._handler.connection_failed(hello, error)

    def _serve_task(self, channel: Channel, hello: TaskHello) -> None:
        number = next(self._numbers)
        sender = TaskSender(channel, hello, self._heartbeat)
        self._handler.task_connected(hello, number, sender.send)
        try:
            while (frame := channel.receive()) is not None:
                self._handler.task_said(hello, number, decode(frame))
        finally:
            self._handler.task_disconnected(hello, number)
            sender.close()


def _server_context(identity: TlsIdentity | None) -> ssl.SSLContext | None:
    if identity is None:
        return None
    from firesteel.control.tls_socket import context_of  # late: most jobs do without

    return context_of(identity, is_server=True)


def _listen(listening: Listening) -> socket.socket:
    address = listening.bind or listening.host
    try:
        return listen(address, listening.ports)
    except OSError as error:
        if error.errno in NOT_FREE:
            raise SetupError(
                f"the job master cannot listen at {address}: {_none_is_free(listening.ports)} ({error.strerror}); every "
                f"running job needs a port of its own: give '{JOBMANAGER_PORT.key}' a wider range, such as 50100-50200"
            ) from error
        if listening.bind is None and listening.host != LOOPBACK:
            # A name by which others know this machine, but not an address of it: it is behind NAT, say.
            return _listen(replace(listening, bind="0.0.0.0"))
        raise SetupError(
            f"the job master cannot listen at {address}: {error}; set '{JOBMANAGER_BIND_HOST.key}' to an address of "
            "this machine, or to 0.0.0.0 for all that it has"
        ) from error


def _none_is_free(ports: tuple[int, ...]) -> str:
    if len(ports) == 1:
        return f"port {ports[0]} is not free"
    return f"none of the {len(ports)} ports from {ports[0]} to {ports[-1]} is free"


def _frames(channel: Channel) -> Iterator[bytes]:
    while (frame := channel.receive()) is not None:
        if frame == END_OF_COLLECTION:
            # Nothing must be left unread: closing would then throw away the answers that are on their way.
            channel.receive()
            return
        yield frame
    raise CollectorLostError("a collecting task went away")
