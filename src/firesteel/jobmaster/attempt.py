"""One attempt of a job as the master holds it: the engine's attempt, its tasks' connections, their voices.

`AttemptMaster` is what executors see as `plan.executor.Master`. What a task prints is written, and what it
reports noted, in the thread that brings it, before the next message of that task is looked at: when a task
says that it has finished, everything it said before has been dealt with. The rest is posted to the job master.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

from firesteel.jobmaster.collect_buffer import CollectBuffer
from firesteel.jobmaster.console import CONSOLE
from firesteel.jobmaster.control_server import CollectorLostError, ControlServer
from firesteel.jobmaster.events import (
    AttemptEnded,
    Event,
    MasterFailed,
    Origin,
    TaskConnected,
    TaskDisconnected,
    TaskSaid,
)
from firesteel.jobmaster.statistics import ReportBook
from firesteel.jobmaster.watermark_alignment import WatermarkGroups
from firesteel.plan.control_protocol import CollectHello, Hello, TaskHello
from firesteel.plan.executor import Attempt, ControlEndpoint, Deployment, Executor
from firesteel.plan.messages import (
    CollectedRecords,
    LogOutput,
    MasterMessage,
    TaskId,
    TaskMessage,
    TaskReport,
    TextOutput,
    WatermarkReport,
)
from firesteel.plan.operator_specs import RuntimeMode


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
        self._closed = False
        self._groups = WatermarkGroups()
        self._groups_lock = threading.Lock()

    # What executors see.

    def endpoint(self, host: str = "127.0.0.1") -> ControlEndpoint:
        """Address for tasks in other processes; opens the control server on first use."""
        with self._lock:
            if self._closed:
                raise RuntimeError("the job is over")
            if self._server is None:
                self._server = ControlServer(host, self)
            return self._server.endpoint

    def connected(self, task: TaskId, send: Callable[[MasterMessage], None]) -> None:
        """A task in this process is reachable through ``send``."""
        self._senders[task] = send
        self._post(TaskConnected(self._origin(task)))

    def deliver(self, task: TaskId, message: TaskMessage) -> None:
        """A message of a task in this process."""
        self._take(self._origin(task), message)

    def collected(self, collect_id: str, blob: bytes) -> None:
        """Records from a task in this process; blocks while nobody takes them."""
        self._collect_buffer(collect_id).put(blob)

    # What the control server calls.

    def accepts(self, hello: Hello) -> bool:
        """Whether the connection is of this attempt: an earlier one may not be dead yet."""
        return (hello.job_id, hello.attempt) == (self._deployment.job_id, self._deployment.attempt)

    def task_connected(
        self, hello: TaskHello, connection: int, send: Callable[[MasterMessage], None]
    ) -> None:
        """A remote task is there."""
        self._senders[hello.task] = send
        self._post(TaskConnected(self._origin(hello.task, connection), hello.host, hello.pid, remote=True))

    def task_said(self, hello: TaskHello, connection: int, message: TaskMessage) -> None:
        """A remote task has sent a message."""
        self._take(self._origin(hello.task, connection), message)

    def task_disconnected(self, hello: TaskHello, connection: int) -> None:
        """A remote task's connection is over."""
        self._post(TaskDisconnected(self._origin(hello.task, connection)))

    def take_collection(self, hello: CollectHello, blobs: Iterator[bytes]) -> None:
        """Everything that one remote collector sends."""
        buffer = self._collect_buffer(hello.collect_id)
        try:
            if self._deployment.plan.mode is RuntimeMode.BATCH:
                # Spark may run a batch task again: what a broken one sent will come once more.
                blobs = iter(list(blobs))
            for blob in blobs:
                buffer.put(blob)
        except CollectorLostError:
            return  # its task's control connection tells the rest

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

    def close(self, linger_seconds: float) -> None:
        """End all connections."""
        with self._lock:
            self._closed = True
            server = self._server
        if server is not None:
            server.close(linger_seconds)

    def _origin(self, task: TaskId, connection: int = 0) -> Origin:
        return Origin(self._deployment.attempt, task, connection)

    def _take(self, origin: Origin, message: TaskMessage) -> None:
        match message:
            case TextOutput(text, stream):
                self._write(text, stream)
            case LogOutput(attributes):
                CONSOLE.log(attributes)
            case TaskReport():
                self._reports.record(origin.task, message)
            case WatermarkReport():
                self._align(origin.task, message)
            case CollectedRecords():
                raise ValueError("collected records come on a connection of their own")
            case _:
                self._post(TaskSaid(origin, message))

    def _align(self, task: TaskId, report: WatermarkReport) -> None:
        with self._groups_lock:  # also while sending: a later answer must not overtake an earlier one
            for instruction in self._groups.report(task, report):
                self.send(instruction.tasks, instruction.message)

    def _write(self, text: str, stream: str) -> None:
        try:
            CONSOLE.write(text, stream)
        except (OSError, ValueError) as error:  # the reader of a pipe has gone, or the stream was closed
            self._post(MasterFailed(error))


class AttemptRunner:
    """Starts the engine's attempt in a thread of its own, waits for its end there, kills it on demand."""

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
        name = f"firesteel-attempt-{deployment.job_id[:8]}-{deployment.attempt}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin; the end is posted as `AttemptEnded`."""
        self._thread.start()

    def kill(self) -> None:
        """End the engine's attempt as soon as it exists."""
        with self._lock:
            self._killed = True
            attempt = self._attempt
        if attempt is not None:
            attempt.kill()

    def join(self, seconds: float) -> None:
        """Wait for the thread to end."""
        self._thread.join(seconds)

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            error = self._start_and_await()
        except BaseException as raised:  # noqa: BLE001 - it is the job's error, not this thread's
            error = raised
        self._post(AttemptEnded(self._deployment.attempt, error))

    def _start_and_await(self) -> BaseException | None:
        attempt = self._executor.start(self._deployment, self._master)
        with self._lock:
            self._attempt = attempt
            killed = self._killed
        if killed:
            attempt.kill()
        self._on_started()
        attempt.join()
        return attempt.error()
