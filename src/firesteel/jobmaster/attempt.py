"""One attempt of a job as the master holds it: hop 9 of a checkpoint's life.

It has the engine's attempt, its tasks' connections, and their voices.
`AttemptMaster` is what executors see as `plan.executor.Master`. What a task prints is written, and what it
reports noted, in the thread that brings it, before the next message of that task is looked at: when a task
says that it has finished, everything it said before has been dealt with. The rest is posted to the job master.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from firesteel.common._executor_name import executor_name
from firesteel.control.protocol import CollectHello, Hello, TaskHello
from firesteel.control.server import CollectorLostError, ControlServer
from firesteel.jobmaster.collect_buffer import CollectBuffer, CollectSession, RepeatedResultsError
from firesteel.jobmaster.events import (
    AttemptEnded,
    Event,
    MasterFailed,
    TaskConnected,
    TaskDisconnected,
    TaskOrigin,
    TaskSaid,
)
from firesteel.jobmaster.inquiries import Inquiries
from firesteel.jobmaster.statistics import ReportBook
from firesteel.jobmaster.terminal.console import CONSOLE
from firesteel.jobmaster.watermark_alignment import WatermarkGroups
from firesteel.logs.log_book import LOGS, ExecutorId
from firesteel.plan.executor import (
    ON_LOOPBACK,
    Attempt,
    ControlEndpoint,
    Deployment,
    Executor,
    ForcedAttempt,
    ForcedExecutor,
    Listening,
    SlotWait,
)
from firesteel.plan.messages import (
    LogOutput,
    MasterMessage,
    StacksSampled,
    TaskAnswer,
    TaskId,
    TaskInquiry,
    TaskMessage,
    TaskReport,
    TextOutput,
    ThreadsDumped,
    WatermarkReport,
)
from firesteel.plan.results import Covered, Results, decode_frame, encode_received

_LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class _Line:
    """The connection of a task in another process: when it was last heard, and whether somebody listens now."""

    hello: TaskHello
    heard: float
    executor: ExecutorId
    is_busy: bool = False


@dataclass(frozen=True, slots=True)
class TaskProcess:
    """What a task runs in: machine, process of the engine, own process. ``silence``: seconds since it was last heard."""

    task: TaskId
    host: str
    executor: str
    pid: int
    silence: float

    @property
    def executor_name(self) -> str:
        """What the process of the engine is called."""
        return executor_name(self.host, self.executor)


class AttemptMaster:
    """Connects one attempt's tasks, in this process or elsewhere, to the job master's mailbox."""

    def __init__(
        self,
        deployment: Deployment,
        post: Callable[[Event], None],
        reports: ReportBook,
        collect_buffer: Callable[[str], CollectBuffer],
    ) -> None:
        self._deployment = deployment
        self._post = post
        self._reports = reports
        self._collect_buffer = collect_buffer
        self._lock = threading.Lock()
        self._server: ControlServer | None = None
        self._senders: dict[TaskId, Callable[[MasterMessage], None]] = {}
        self._lines: dict[int, _Line] = {}  # connections of tasks in other processes, by number
        self._closed = False
        self._wanted = True
        self._slot_wait: SlotWait | None = None
        self._groups = WatermarkGroups()
        self._groups_lock = threading.Lock()
        self._inquiries = Inquiries()
        self._told: list[TaskInquiry] = []  # to all tasks, also to those that come later
        self._here = ExecutorId(socket.gethostname())

    # What executors see.

    def endpoint(self, listening: Listening = ON_LOOPBACK) -> ControlEndpoint:
        """Address for tasks in other processes; opens the control server on first use."""
        with self._lock:
            if self._closed:
                raise RuntimeError("the job is over")
            if self._server is None:
                self._server = ControlServer(
                    listening, self, self._deployment.heartbeat, self._deployment.plan.slots
                )
            return self._server.endpoint

    def connected(self, task: TaskId, send: Callable[[MasterMessage], None]) -> None:
        """A task in this process is reachable through ``send``."""
        self._senders[task] = send
        self._post(TaskConnected(self._origin(task)))

    def deliver(self, task: TaskId, message: TaskMessage) -> None:
        """A message of a task in this process."""
        self._dispatch(self._origin(task), message)

    def open_collection(self, collect_id: str, subtask: int, start: int, origin: int) -> LocalCollection:
        """The way for results of a task in this process."""
        return LocalCollection(self._open_session(collect_id, subtask, start, origin))

    def is_wanted(self) -> bool:
        """Whether nobody has told the attempt to end."""
        return self._wanted

    def awaits_slots(self, wait: SlotWait | None) -> None:
        """The attempt waits for slots, or does not any more (None)."""
        self._slot_wait = wait

    # What the control server calls.

    def accepts(self, hello: Hello) -> bool:
        """Whether the connection is of this attempt: an earlier one may not be dead yet."""
        return (hello.job_id, hello.attempt) == (self._deployment.job_id, self._deployment.attempt)

    def task_connected(
        self, hello: TaskHello, connection: int, send: Callable[[MasterMessage], None]
    ) -> None:
        """A remote task is there."""
        self._senders[hello.task] = send
        for inquiry in list(self._told):
            send(inquiry)
        executor = ExecutorId(hello.host, hello.executor)
        self._lines[connection] = _Line(hello, time.monotonic(), executor)
        origin = self._origin(hello.task, connection)
        self._post(TaskConnected(origin, hello.host, hello.pid, remote=True, executor=hello.executor))

    def task_said(self, hello: TaskHello, connection: int, message: TaskMessage) -> None:
        """A remote task has sent a message."""
        line = self._lines[connection]
        line.is_busy = True
        try:
            self._dispatch(self._origin(hello.task, connection), message)
        finally:
            line.heard = time.monotonic()
            line.is_busy = False

    def task_disconnected(self, hello: TaskHello, connection: int) -> None:
        """A remote task's connection is over."""
        self._lines.pop(connection, None)
        self._inquiries.lost(hello.task)
        self._post(TaskDisconnected(self._origin(hello.task, connection)))

    def receive_collection(
        self, hello: CollectHello, frames: Iterator[bytes], answer: Callable[[bytes], None]
    ) -> None:
        """Everything that one remote collector sends."""
        session = self._open_session(hello.collect_id, hello.subtask, hello.start, hello.origin)
        try:
            for frame in frames:
                session.receive(decode_frame(frame))
                answer(encode_received(session.received))
        except (CollectorLostError, OSError):
            return  # its task's control connection tells the rest
        session.end()

    def _open_session(self, collect_id: str, subtask: int, start: int, origin: int) -> CollectSession:
        buffer = self._collect_buffer(collect_id)
        attempt = self._deployment.attempt
        try:
            return buffer.open(subtask, start, attempt, origin)
        except RepeatedResultsError as error:  # no restart would help
            self._post(MasterFailed(error))
            buffer.discard()
            return buffer.open(subtask, start, attempt, origin)

    def connection_failed(self, hello: Hello, error: Exception) -> None:
        """A remote task said something that cannot be dealt with."""
        self._post(MasterFailed(error))

    # What the job master calls.

    def send(self, tasks: tuple[TaskId, ...], message: MasterMessage) -> None:
        """Send to those tasks that can be reached."""
        for task in tasks:
            if (send := self._senders.get(task)) is not None:
                try:
                    send(message)
                except OSError:
                    continue  # it is gone, and its disconnection on the way

    def inquire(
        self, tasks: Iterable[TaskId], make: Callable[[int], TaskInquiry], seconds: float
    ) -> Mapping[TaskId, TaskAnswer]:
        """Ask those of the tasks that can be reached, and wait for their answers; not called from the master's thread."""
        reached = tuple(task for task in tasks if task in self._senders)
        return self._inquiries.ask(reached, make, lambda message: self.send(reached, message), seconds)

    def tell_all(self, inquiry: TaskInquiry) -> None:
        """Tell all tasks something that none answers, also those that are not connected yet."""
        self._told.append(inquiry)
        self.send(tuple(self._senders), inquiry)

    def processes(self) -> list[TaskProcess]:
        """Those of the tasks that are not in this one, and for how many seconds each was not heard."""
        now = time.monotonic()
        lines = list(self._lines.values())
        return [
            TaskProcess(
                line.hello.task, line.hello.host, line.hello.executor, line.hello.pid, now - line.heard
            )
            for line in lines
        ]

    def dismiss(self) -> None:
        """The attempt is to end; who has not begun it yet need not."""
        self._wanted = False

    def silences(self) -> tuple[tuple[TaskOrigin, float], ...]:
        """For how many seconds each connected remote task was not heard, of those that are listened to."""
        now = time.monotonic()
        lines = list(self._lines.items())
        return tuple(
            (self._origin(line.hello.task, number), now - line.heard)
            for number, line in lines
            if not line.is_busy
        )

    @property
    def slot_wait(self) -> SlotWait | None:
        """What the attempt waits for before it can start, if it does."""
        return self._slot_wait

    def local_processes(self) -> list[int]:
        """The processes of connected tasks on this machine: their connections prove that the numbers are theirs."""
        here = socket.gethostname()
        return [line.hello.pid for line in list(self._lines.values()) if line.hello.host == here]

    def close(self, linger_seconds: float) -> None:
        """Nobody waits for answers now; connections have ``linger_seconds`` to end, then they are cut."""
        self._inquiries.close()
        with self._lock:
            self._closed = True
            server = self._server
        if server is not None:
            server.close(linger_seconds)

    def _origin(self, task: TaskId, connection: int = 0) -> TaskOrigin:
        return TaskOrigin(self._deployment.attempt, task, connection)

    def _dispatch(self, origin: TaskOrigin, message: TaskMessage) -> None:
        match message:
            case TextOutput(text, stream):
                self._write(text, stream, origin)
            case LogOutput(attributes):
                LOGS.task_logged(self._executor(origin), CONSOLE.log(attributes))
            case StacksSampled() | ThreadsDumped():
                self._inquiries.answered(origin.task, message)
            case TaskReport():
                self._reports.record(origin.task, message)
            case WatermarkReport():
                self._align_watermarks(origin.task, message)
            case _:
                self._post(TaskSaid(origin, message))

    def _executor(self, origin: TaskOrigin) -> ExecutorId:
        line = self._lines.get(origin.connection)
        return self._here if line is None else line.executor

    def _align_watermarks(self, task: TaskId, report: WatermarkReport) -> None:
        with self._groups_lock:  # also while sending: a later answer must not overtake an earlier one
            for instruction in self._groups.report(task, report):
                self.send(instruction.tasks, instruction.message)

    def _write(self, text: str, stream: str, origin: TaskOrigin) -> None:
        LOGS.task_printed(self._executor(origin), text)
        try:
            CONSOLE.write(text, stream, (self._deployment.job_id, origin))
        except (OSError, ValueError) as error:  # the reader of a pipe has gone, or the stream was closed
            self._post(MasterFailed(error))


class LocalCollection:
    """A `ResultOutput` without a wire: what is sent has arrived."""

    def __init__(self, session: CollectSession) -> None:
        self._session = session

    def send(self, results: Results) -> None:
        """Hand results over; waits while nobody reads them."""
        self._session.receive(results)

    def covered(self, offset: int) -> None:
        """A completed checkpoint holds all results before this offset."""
        self._session.receive(Covered(offset))

    def unconfirmed(self) -> tuple[int, list[Results]]:
        """Nothing waits; the offset is behind all results that were sent."""
        return self._session.received, []

    def close(self) -> None:
        """The subtask has sent everything, and all of it has arrived."""
        self._session.end()


class AttemptRunner:
    """Starts the engine's attempt in a thread of its own, waits for its end there, kills it on demand.

    Whatever asks the engine for something does so in a thread that nobody waits for: an engine that is stopped does
    not answer. `engine_silence` tells for how long it has not.
    """

    def __init__(
        self,
        executor: Executor,
        deployment: Deployment,
        master: AttemptMaster,
        post: Callable[[Event], None],
        on_started: Callable[[], None],
    ) -> None:
        self._executor = executor
        self._deployment = deployment
        self._master = master
        self._post = post
        self._lock = threading.Lock()
        self._attempt: Attempt | None = None
        self._killed = False
        self._on_started = on_started
        self._over = threading.Event()
        self._answered: float | None = None
        self._name = f"{deployment.job_id[:8]}-{deployment.attempt}"
        self._thread = threading.Thread(target=self._run, name=f"firesteel-attempt-{self._name}", daemon=True)

    def start(self) -> None:
        """Begin; the end is posted as `AttemptEnded`."""
        self._thread.start()

    def kill(self, by_force: bool = False) -> None:
        """End the engine's attempt as soon as it exists; returns at once."""
        self._master.dismiss()
        with self._lock:
            self._killed = True
            attempt = self._attempt
        if attempt is not None:
            self._in_thread(lambda: attempt.kill(), "kill")
            if by_force and isinstance(attempt, ForcedAttempt):
                processes = self._master.local_processes()
                self._in_thread(lambda: attempt.kill_by_force(processes), "force")
        elif by_force and isinstance(self._executor, ForcedExecutor):
            self._in_thread(self._executor.kill_by_force, "force")

    def end_remaining_tasks(self, seconds: float) -> None:
        """The attempt is over, and tasks that are still connected do not know it: end them, within ``seconds``.

        Some engines only hang up on their workers, which a process that is stopped does not notice.
        """
        attempt, processes = self._attempt, self._master.local_processes()
        if processes and isinstance(attempt, ForcedAttempt):
            self._in_thread(lambda: attempt.kill_by_force(processes), "force").join(seconds)

    def engine_silence(self) -> float | None:
        """For how many seconds the engine has not answered; None when it is not asked."""
        return None if self._answered is None or self._over.is_set() else time.monotonic() - self._answered

    @property
    def is_over(self) -> bool:
        """Whether the engine has ended the attempt, or could not start it."""
        return self._over.is_set()

    def join(self, seconds: float) -> None:
        """Wait for the thread to end."""
        self._thread.join(seconds)

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            error = self._start_and_await()
        except BaseException as raised:  # noqa: BLE001 - it is the job's error, not this thread's
            error = raised
        self._over.set()
        self._post(AttemptEnded(self._deployment.attempt, error))

    def _start_and_await(self) -> BaseException | None:
        attempt = self._executor.start(self._deployment, self._master)
        with self._lock:
            self._attempt = attempt
            killed = self._killed
        if killed:
            attempt.kill()
        self._on_started()
        if isinstance(attempt, ForcedAttempt) and self._deployment.heartbeat is not None:
            self._answered = time.monotonic()
            interval = self._deployment.heartbeat.interval
            self._in_thread(lambda: self._ping(attempt, interval), "ping")
        attempt.join()
        return attempt.error()

    def _ping(self, attempt: ForcedAttempt, interval: float) -> None:
        with contextlib.suppress(Exception):  # it is gone: the attempt's own thread finds out
            while not self._over.wait(interval):
                attempt.ping()
                self._answered = time.monotonic()

    def _in_thread(self, action: Callable[[], object], name: str) -> threading.Thread:
        def run() -> None:
            try:
                action()
            except Exception:  # noqa: BLE001 - the job ends without the engine's help
                _LOG.warning("could not %s the attempt %s", name, self._name, exc_info=True)

        thread = threading.Thread(target=run, name=f"firesteel-{name}-{self._name}", daemon=True)
        thread.start()
        return thread
