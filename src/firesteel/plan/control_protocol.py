"""The wire side of the control plane: authenticated, framed connections between tasks and job master.

Framing and the two-sided HMAC challenge are those of `multiprocessing.connection`; nothing is unpickled
from a peer before both sides have proved that they know the job's secret. A connection starts with a
hello that says what it is for:

- `TaskHello`: control messages both ways, one such connection for each running task (`connect`);
- `CollectHello`: records for ``execute_and_collect``, one way, with back pressure (`open_collector`).

Both kinds end with a handshake: the task says that it has sent everything, the master that it has *handled*
everything. A task that returned from ``close()`` cannot lose its last words, whatever happens next.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing import connection as mp_connection
from typing import Any

import cloudpickle

from firesteel.plan.executor import ControlEndpoint
from firesteel.plan.messages import MasterMessage, TaskId, TaskMessage

#: How long a peer may take to connect and to answer the challenge.
HANDSHAKE_SECONDS = 20.0
#: How long a task waits for the master to have handled its last message.
CLOSE_SECONDS = 30.0
#: Messages of a task that may wait to be written; a task that prints faster than they leave blocks.
WAITING_MESSAGES = 256


@dataclass(frozen=True, slots=True)
class TaskHello:
    """First frame of a task's control connection."""

    job_id: str
    attempt: int
    task: TaskId
    host: str = field(default_factory=socket.gethostname)
    pid: int = field(default_factory=os.getpid)


@dataclass(frozen=True, slots=True)
class CollectHello:
    """First frame of a connection that carries collected records."""

    job_id: str
    attempt: int
    collect_id: str


Hello = TaskHello | CollectHello


class Channel:
    """One authenticated socket: whole frames of bytes, sent from any thread, received by one.

    The socket is kept beside the `Connection` because only ``shutdown`` wakes a thread that is blocked
    in a read; closing a file descriptor under it does not.
    """

    def __init__(self, sock: socket.socket, secret: bytes, *, challenge_first: bool) -> None:
        self._socket = sock
        self._sending = threading.Lock()
        sock.setblocking(True)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connection = mp_connection.Connection(os.dup(sock.fileno()))
        try:
            with _read_timeout(sock, HANDSHAKE_SECONDS):
                self._authenticate(secret, challenge_first)
        except BaseException:
            self.close()
            raise

    def _authenticate(self, secret: bytes, challenge_first: bool) -> None:
        steps = [mp_connection.deliver_challenge, mp_connection.answer_challenge]
        for step in steps if challenge_first else reversed(steps):
            step(self._connection, secret)

    def send(self, frame: bytes) -> None:
        """Send one frame; blocks while the peer does not read. Raises OSError when it is gone."""
        with self._sending:
            self._connection.send_bytes(frame)

    def receive(self) -> bytes | None:
        """The next frame, None when the peer has ended or is gone."""
        try:
            return self._connection.recv_bytes()
        except (EOFError, OSError):
            return None

    def end(self) -> None:
        """Say that nothing more will be sent; the peer's `receive` then returns None."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def abort(self) -> None:
        """End both directions now; wakes threads that are blocked in `send` or `receive`."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Release the socket; for the thread that receives. Threads that send are woken and fail first."""
        self.abort()
        with self._sending, contextlib.suppress(OSError):
            self._connection.close()
        self._socket.close()


@contextlib.contextmanager
def _read_timeout(sock: socket.socket, seconds: float) -> Iterator[None]:
    # `Connection` reads the bare descriptor, which Python's own socket time-outs do not reach.
    def limit(value: float) -> None:
        whole = int(value)
        spec = struct.pack("ll", whole, int((value - whole) * 1e6))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, spec)

    limit(seconds)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            limit(0)


def accept_channel(sock: socket.socket, secret: bytes) -> Channel:
    """The master's side of a new connection; raises AuthenticationError, EOFError or OSError."""
    return Channel(sock, secret, challenge_first=True)


def open_channel(endpoint: ControlEndpoint, hello: Hello) -> Channel:
    """The task's side of a new connection, with the hello sent."""
    sock = socket.create_connection((endpoint.host, endpoint.port), timeout=HANDSHAKE_SECONDS)
    channel = Channel(sock, endpoint.secret, challenge_first=False)
    channel.send(encode(hello))
    return channel


def encode(message: object) -> bytes:
    """Pickle a message. Values whose class exists only in the user's program travel by value."""
    try:
        return pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    except Exception:  # noqa: BLE001 - plain pickle is faster, but classes of __main__ need the other
        return bytes(cloudpickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL))


def decode(frame: bytes) -> Any:
    """What `encode` was given."""
    return pickle.loads(frame)


# The task's side --------------------------------------------------------------------------------------


class TaskConnection:
    """A task's connection to the job master. `send` and `close` may be called from any thread.

    Messages are pickled when they are sent, so that what a message refers to may change afterwards, and
    written by a thread of their own, so that the task waits for the network only when much is waiting.
    """

    def __init__(
        self,
        channel: Channel,
        on_message: Callable[[MasterMessage], None],
        on_lost: Callable[[], None],
    ) -> None:
        self._channel = channel
        self._on_message = on_message
        self._on_lost = on_lost
        self._waiting: queue.Queue[bytes | None] = queue.Queue(WAITING_MESSAGES)
        self._closing = False
        self._lost = threading.Event()
        self._lock = threading.Lock()
        self._reader = threading.Thread(target=self._read, name="firesteel-control-reader", daemon=True)
        self._writer = threading.Thread(target=self._write, name="firesteel-control-writer", daemon=True)
        self._reader.start()
        self._writer.start()

    def send(self, message: TaskMessage) -> None:
        """Queue a message; blocks while too many wait. Without a master, messages go nowhere."""
        self._put(encode(message))

    def close(self) -> None:
        """Send what waits, wait until the master has handled it, and disconnect. May be called twice."""
        with self._lock:
            if self._closing:
                return
            self._closing = True
        self._put(None)
        self._writer.join(CLOSE_SECONDS)
        self._reader.join(CLOSE_SECONDS)  # ends when the master, having read all, ends its side
        self._channel.close()

    def _put(self, frame: bytes | None) -> None:
        while not self._lost.is_set():
            try:
                self._waiting.put(frame, timeout=0.5)  # looks up now and then: the master may go meanwhile
                return
            except queue.Full:
                continue

    def _write(self) -> None:
        try:
            while (frame := self._waiting.get()) is not None:
                self._channel.send(frame)
        except OSError:
            self._master_is_gone()
        else:
            self._channel.end()

    def _read(self) -> None:
        try:
            while (frame := self._channel.receive()) is not None:
                self._on_message(decode(frame))
        finally:
            self._master_is_gone()

    def _master_is_gone(self) -> None:
        with self._lock:
            expected = self._closing or self._lost.is_set()
            self._lost.set()
        with contextlib.suppress(queue.Full):  # when it is full the writer is not asleep
            self._waiting.put_nowait(None)
        if not expected:
            self._on_lost()


def connect(
    endpoint: ControlEndpoint,
    hello: TaskHello,
    on_message: Callable[[MasterMessage], None],
    on_lost: Callable[[], None],
) -> TaskConnection:
    """Connect a task to the job master.

    ``on_message`` is called from a reader thread, ``on_lost`` once, from any thread, when the master
    went away before `TaskConnection.close`.
    """
    return TaskConnection(open_channel(endpoint, hello), on_message, on_lost)


class Collector:
    """Sends blobs of collected records; blocks while the consumer in the driver does not take them.

    `close` must be called when all is sent: it waits until the master holds everything, and in batch mode,
    where Spark may run a task again, only the blobs of a closed collector count.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def __call__(self, blob: bytes) -> None:
        """Send one blob."""
        self._channel.send(blob)

    def close(self) -> None:
        """Wait until the master has everything and disconnect."""
        with contextlib.suppress(OSError):
            self._channel.send(END_OF_COLLECTION)
        self._channel.end()
        self._channel.receive()  # None: the master ended its side, having handed everything on, or is gone
        self._channel.close()


#: Last frame of a collector; no blob is empty, because a pickle never is.
END_OF_COLLECTION = b""


def open_collector(endpoint: ControlEndpoint, hello: CollectHello) -> Collector:
    """Open a connection for the records of one collecting sink."""
    return Collector(open_channel(endpoint, hello))


def outward_address() -> str:
    """The address by which other hosts most likely reach this one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # a documentation address: routes are looked up, nothing is sent
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"
