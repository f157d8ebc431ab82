"""The job master's end of the control connections: accepts, authenticates, and hands on what tasks say.

One thread for each connection: a task whose output cannot be written down fast enough is read slower,
and only that task.
"""

from __future__ import annotations

import contextlib
import itertools
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing import AuthenticationError
from typing import Protocol

from firesteel.plan.control_protocol import (
    END_OF_COLLECTION,
    Channel,
    CollectHello,
    Hello,
    TaskHello,
    accept_channel,
    decode,
    encode,
)
from firesteel.plan.executor import ControlEndpoint
from firesteel.plan.messages import MasterMessage, TaskMessage

_JOIN_SECONDS = 2.0


class ConnectionHandler(Protocol):
    """What the server does with connections. Called from the connections' threads."""

    def accepts(self, hello: Hello) -> bool:
        """Whether the connection belongs to what is running now."""
        ...

    def task_connected(
        self, hello: TaskHello, connection: int, send: Callable[[MasterMessage], None]
    ) -> None:
        """A task is there."""
        ...

    def task_said(self, hello: TaskHello, connection: int, message: TaskMessage) -> None:
        """A task has sent a message; the next one is read when this returns."""
        ...

    def task_disconnected(self, hello: TaskHello, connection: int) -> None:
        """A task's connection is over."""
        ...

    def take_collection(self, hello: CollectHello, blobs: Iterator[bytes]) -> None:
        """Take the blobs of one collector; raises `CollectorLostError` from the iterator if it breaks off."""
        ...

    def connection_failed(self, hello: Hello, error: Exception) -> None:
        """A connection cannot be served."""
        ...


class CollectorLostError(ConnectionError):
    """A collector's connection ended before its end mark."""


class ControlServer:
    """Listens for tasks of one job; one secret for each server."""

    def __init__(self, host: str, handler: ConnectionHandler) -> None:
        self._handler = handler
        self._listener = _listen(host)
        self.endpoint = ControlEndpoint(host, self._listener.getsockname()[1], secrets.token_bytes(32))
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._channels: set[Channel] = set()
        self._threads: set[threading.Thread] = set()
        self._closed = False
        self._acceptor = self._spawn(self._accept, "firesteel-control-server")

    def close(self, linger_seconds: float = 0.0) -> None:
        """Refuse new connections, let those that are there end for so long, cut the rest."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self._wake_acceptor()
        self._acceptor.join(_JOIN_SECONDS)
        self._listener.close()
        self._join(linger_seconds)
        with self._lock:
            for channel in self._channels:
                channel.abort()
        self._join(_JOIN_SECONDS)

    def _join(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        with self._lock:
            threads = list(self._threads - {threading.current_thread()})
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _wake_acceptor(self) -> None:
        # Closing a socket does not wake a thread that waits in accept() on it; a connection does.
        address = self._listener.getsockname()[:2]
        with contextlib.suppress(OSError), socket.create_connection(address, timeout=1.0):
            pass

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            if self._closed:
                sock.close()
                return
            self._spawn(partial(self._serve, sock), "firesteel-control-connection")

    def _spawn(self, work: Callable[[], None], name: str) -> threading.Thread:
        def run() -> None:
            try:
                work()
            finally:
                with self._lock:
                    self._threads.discard(threading.current_thread())

        thread = threading.Thread(target=run, name=name, daemon=True)
        with self._lock:
            self._threads.add(thread)
        thread.start()
        return thread

    def _serve(self, sock: socket.socket) -> None:
        try:
            channel = accept_channel(sock, self.endpoint.secret)
        except (AuthenticationError, EOFError, OSError):
            sock.close()
            return
        with self._registered(channel):
            frame = channel.receive()
            if frame is not None:
                self._welcome(channel, decode(frame))

    @contextlib.contextmanager
    def _registered(self, channel: Channel) -> Iterator[None]:
        with self._lock:
            self._channels.add(channel)
            if self._closed:
                channel.abort()
        try:
            yield
        finally:
            with self._lock:
                self._channels.discard(channel)
            channel.close()

    def _welcome(self, channel: Channel, hello: Hello) -> None:
        if not self._handler.accepts(hello):
            return
        try:
            if isinstance(hello, TaskHello):
                self._serve_task(channel, hello)
            else:
                self._handler.take_collection(hello, _blobs(channel))
        except Exception as error:  # noqa: BLE001 - whatever it is, it ends the job, not just this thread
            self._handler.connection_failed(hello, error)

    def _serve_task(self, channel: Channel, hello: TaskHello) -> None:
        number = next(self._numbers)
        self._handler.task_connected(hello, number, lambda message: channel.send(encode(message)))
        try:
            while (frame := channel.receive()) is not None:
                self._handler.task_said(hello, number, decode(frame))
        finally:
            self._handler.task_disconnected(hello, number)


def _listen(host: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, 0), family=family, backlog=128)
    except OSError:  # a name by which others know this machine, but not an address of it
        return socket.create_server(("", 0), backlog=128)


def _blobs(channel: Channel) -> Iterator[bytes]:
    while (frame := channel.receive()) is not None:
        if frame == END_OF_COLLECTION:
            return
        yield frame
    raise CollectorLostError("a collecting task went away")
