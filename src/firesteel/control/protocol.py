"""The wire side of the control plane: connections between tasks and job master, over `channel`.

Nothing is unpickled from a peer before both sides have proved that they know the secret of the attempt, and nothing
that does not carry the other side's seal. A connection starts with a hello that says what it is for:

- `TaskHello`: control messages both ways, one such connection for each running task (`connect`);
- `CollectHello`: results for ``execute_and_collect`` (`plan.results`, `control.collect_protocol`).

Both kinds end with a handshake: the task says that it has sent everything, the master that it has *handled*
everything. A task that returned from ``close()`` cannot lose its last words, whatever happens next.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import cloudpickle

from firesteel.control.channel import HANDSHAKE_SECONDS, Channel, connect_channel
from firesteel.plan.executor import ControlEndpoint
from firesteel.plan.heartbeat import HeartbeatSettings, Trust
from firesteel.plan.messages import Alive, MasterMessage, TaskId, TaskMessage

if TYPE_CHECKING:
    import ssl

#: How long a task waits for the master to have handled its last message.
CLOSE_SECONDS = 30.0
#: Messages of a task that may wait to be written; a task that prints faster than they leave blocks.
WAITING_MESSAGES = 256


@dataclass(frozen=True, slots=True)
class TaskHello:
    """First frame of a task's control connection. ``executor``: the engine's process that it belongs to, if that has a name."""

    job_id: str
    attempt: int
    task: TaskId
    host: str = field(default_factory=socket.gethostname)
    pid: int = field(default_factory=os.getpid)
    executor: str = ""


@dataclass(frozen=True, slots=True)
class CollectHello:
    """First frame of a connection that carries the results of one subtask of a collecting sink.

    ``start``: the offset of the first result that it will send; those before it were confirmed in attempt ``origin``.
    """

    job_id: str
    attempt: int
    collect_id: str
    subtask: int = 0
    start: int = 0
    origin: int = 0


Hello = TaskHello | CollectHello


def open_channel(endpoint: ControlEndpoint, hello: Hello) -> Channel:
    """The task's side of a new connection, with the hello sent."""
    sock = socket.create_connection((endpoint.host, endpoint.port), timeout=HANDSHAKE_SECONDS)
    try:
        channel = connect_channel(sock, endpoint.secret, _client_context(endpoint))
        channel.send(encode(hello))
    except BaseException:
        sock.close()
        raise
    return channel


def _client_context(endpoint: ControlEndpoint) -> ssl.SSLContext | None:
    if endpoint.tls is None:
        return None
    from firesteel.control.tls_socket import context_of  # late: most jobs do without

    return context_of(endpoint.tls, is_server=False)


def encode(message: object) -> bytes:
    """Pickle a message. Values whose class exists only in the user's program travel by value."""
    try:
        return pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    except Exception:  # noqa: BLE001 - plain pickle is faster, but classes of __main__ need the other
        return bytes(cloudpickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL))


def decode(frame: bytes) -> Any:
    """What `encode` was given."""
    return pickle.loads(frame)


#: A sign of life as both sides send it, once encoded for all.
ALIVE = encode(Alive())


# The task's side --------------------------------------------------------------------------------------


class TaskConnection:
    """A task's connection to the job master. `send` and `close` may be called from any thread.

    Messages are pickled when they are sent, so that what a message refers to may change afterwards, and
    written by a thread of their own, so that the task waits for the network only when much is waiting. That thread also
    says that the task is alive when it has said nothing else for a while, whatever user code does meanwhile.
    """

    def __init__(
        self,
        channel: Channel,
        on_message: Callable[[MasterMessage], None],
        on_lost: Callable[[], None],
        heartbeat: HeartbeatSettings | None = None,
    ) -> None:
        self._channel = channel
        self._on_message = on_message
        self._on_lost = on_lost
        self._interval = None if heartbeat is None else heartbeat.interval
        if heartbeat is not None:
            channel.expect_life(heartbeat.timeout)
        self.trust = Trust(heartbeat, time.monotonic())
        self._next_question = time.monotonic()
        self._answered = threading.Event()
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
            while (frame := self._next_frame()) is not None:
                self._channel.send(frame)
        except OSError:
            self._master_is_gone()
        else:
            self._channel.end()

    def _next_frame(self) -> bytes | None:
        """What waits, or a sign of life when one is due, however much waits."""
        interval = self._interval
        if interval is None:
            return self._waiting.get()
        while (pause := self._next_question - time.monotonic()) > 0:
            with contextlib.suppress(queue.Empty):
                return self._waiting.get(timeout=pause)
        now = time.monotonic()
        self._next_question = now + interval
        return encode(Alive(self.trust.ask(now)))

    def _read(self) -> None:
        try:
            while (frame := self._channel.receive()) is not None:
                self._hear(None if frame == ALIVE else decode(frame))
        finally:
            self._master_is_gone()

    def _hear(self, message: MasterMessage | None) -> None:
        if isinstance(message, Alive):
            self.trust.answered(message.question)
            self._answered.set()
        elif message is not None:
            self._on_message(message)

    def ask_for_trust(self, seconds: float) -> None:
        """Ask the master whether it still counts on this task, and wait so long for an answer: see `Trust`."""
        self._answered.clear()
        self._next_question = 0.0
        with contextlib.suppress(queue.Full):  # when it is full the writer is not asleep
            self._waiting.put_nowait(ALIVE)
        self._answered.wait(seconds)

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
    heartbeat: HeartbeatSettings | None = None,
) -> TaskConnection:
    """Connect a task to the job master.

    ``on_message`` is called from a reader thread, ``on_lost`` once, from any thread, when the master
    went away before `TaskConnection.close`, or gave no sign of life for as long as ``heartbeat`` says.
    """
    return TaskConnection(open_channel(endpoint, hello), on_message, on_lost, heartbeat)


def outward_address() -> str:
    """The address by which other hosts most likely reach this one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # a documentation address: routes are looked up, nothing is sent
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"
