"""The accept loop of every port that a job opens: connections of those who know its secret, whatever strangers do to it.

A port is open to everybody who can reach it. Who connects and says nothing, or nonsense, holds a descriptor and a
thread of this process; so there is a limit on those who have not introduced themselves, and one deadline for all of
that. When the limit is reached the oldest of them is dropped, not the newest: a task of ours introduces itself within
milliseconds, however many strangers have come before it.
"""

from __future__ import annotations

import errno
import logging
import secrets
import socket
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from firesteel.control.channel import (
    HANDSHAKE_SECONDS,
    AuthenticationError,
    Channel,
    Deadline,
    accept_channel,
)

if TYPE_CHECKING:
    import ssl

__all__ = ["NOT_FREE", "STRANGERS", "Acceptor", "listen"]

_LOG = logging.getLogger(__name__)

#: Connections that may be there at once without having introduced themselves.
STRANGERS = 64
_BACKLOG = 128
_SECRET_BYTES = 32
_JOIN_SECONDS = 2.0
#: How long to leave a machine alone that has no descriptors or no memory left.
_PAUSE_SECONDS = 0.1
_EXHAUSTED = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}

#: What an error of `listen` means: somebody else has the port, or may have it.
NOT_FREE = {errno.EADDRINUSE, errno.EACCES}

#: What is done with a connection: the channel and the first frame that came on it. It is closed afterwards.
Serve = Callable[[Channel, bytes], None]


class Acceptor:
    """One listening socket with a secret of its own. Each connection is served in a thread of its own, called ``name``.

    Who connects has to know ``secret``, which is new for every acceptor; ``port`` is where.
    """

    def __init__(
        self,
        listener: socket.socket,
        serve: Serve,
        name: str,
        *,
        strangers: int = STRANGERS,
        handshake_seconds: float = HANDSHAKE_SECONDS,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._listener = listener
        self.port: int = listener.getsockname()[1]
        self.secret = secrets.token_bytes(_SECRET_BYTES)
        self._serve = serve
        self._name = name
        self._most_strangers = strangers
        self._handshake_seconds = handshake_seconds
        self._tls = tls
        self._lock = threading.Lock()
        self._strangers: dict[socket.socket, threading.Thread] = {}  # in the order in which they came
        self._channels: set[Channel] = set()
        self._threads: set[threading.Thread] = set()
        self._closing = threading.Event()
        self._acceptor = threading.Thread(target=self._accept, name=f"{name}-acceptor", daemon=True)
        self._acceptor.start()

    def close(self, linger_seconds: float = 0.0) -> None:
        """Refuse new connections, let those that are there end for ``linger_seconds``, cut the rest. May be called twice."""
        with self._lock:
            if self._closing.is_set():
                return
            self._closing.set()
        _wake(self._listener)
        self._acceptor.join(_JOIN_SECONDS)
        self._listener.close()
        self._drop_strangers()
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

    # Accepting.

    def _accept(self) -> None:
        while not self._closing.is_set():
            try:
                sock, _ = self._listener.accept()
            except OSError as error:
                self._recover(error)
                continue
            if self._closing.is_set():
                sock.close()
                return
            self._welcome(sock)

    def _recover(self, error: OSError) -> None:
        """Nothing that happens to one connection, or to this machine, ends the acceptor; only `close` does."""
        if self._closing.is_set() or error.errno == errno.ECONNABORTED:
            return
        if error.errno in _EXHAUSTED:
            self._drop_oldest_stranger()
        else:
            _LOG.warning("accepting connections (%s) failed, trying again: %s", self._name, error)
        self._closing.wait(_PAUSE_SECONDS)

    def _welcome(self, sock: socket.socket) -> None:
        thread = threading.Thread(target=partial(self._run, sock), name=self._name, daemon=True)
        with self._lock:
            is_crowded = len(self._strangers) >= self._most_strangers
            self._strangers[sock] = thread
            self._threads.add(thread)
        if is_crowded:
            self._drop_oldest_stranger()
        try:
            thread.start()
        except RuntimeError as error:  # the machine gives no more threads
            _LOG.warning("no thread for a connection (%s): %s", self._name, error)
            self._forget(sock, thread)
            sock.close()

    def _drop_oldest_stranger(self) -> None:
        with self._lock:
            oldest = next(iter(self._strangers), None)
            if oldest is None:
                return
            thread = self._strangers.pop(oldest)
            _hang_up(oldest)
        thread.join(_JOIN_SECONDS)  # so that threads cannot become many, however fast strangers come

    def _drop_strangers(self) -> None:
        with self._lock:
            for sock in self._strangers:
                _hang_up(sock)
            self._strangers.clear()

    # One connection.

    def _run(self, sock: socket.socket) -> None:
        try:
            self._meet(sock)
        finally:
            self._forget(sock, threading.current_thread())
            sock.close()

    def _meet(self, sock: socket.socket) -> None:
        deadline = Deadline(self._handshake_seconds)
        try:
            channel = accept_channel(sock, self.secret, deadline, self._tls)
        except AuthenticationError as error:
            _LOG.warning("%s: %s", self._name, error)
            return
        except OSError:
            return  # it hung up, said nothing for too long, or had to make room for others
        first = channel.receive(deadline)
        if first is not None and self._admit(sock, channel):
            try:
                self._serve(channel, first)
            finally:
                with self._lock:
                    self._channels.discard(channel)
                channel.close()

    def _admit(self, sock: socket.socket, channel: Channel) -> bool:
        with self._lock:
            if self._closing.is_set() or sock not in self._strangers:
                return False
            del self._strangers[sock]
            self._channels.add(channel)
        channel.settle()
        return True

    def _forget(self, sock: socket.socket, thread: threading.Thread) -> None:
        with self._lock:
            self._strangers.pop(sock, None)
            self._threads.discard(thread)


def listen(host: str, ports: tuple[int, ...] = (0,)) -> socket.socket:
    """A listening socket at the first of the ports that is free; 0 means any."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for port in ports[:-1]:
        try:
            return socket.create_server((host, port), family=family, backlog=_BACKLOG)
        except OSError as error:
            if error.errno not in NOT_FREE:
                raise
    return socket.create_server((host, ports[-1]), family=family, backlog=_BACKLOG)


def _wake(listener: socket.socket) -> None:
    # Closing a socket does not wake a thread that waits in accept() on it; shutting it down does, on Linux. Elsewhere a
    # connection does. It may fail, with a full backlog, say: then the thread is awake, or ends with the next stranger.
    _hang_up(listener)
    address = listener.getsockname()[:2]
    try:
        with socket.create_connection(address, timeout=1.0):
            pass
    except OSError:
        return


def _hang_up(sock: socket.socket) -> None:
    """Wake whoever is blocked in a call of this socket."""
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        return
