"""Stopped processes, tasks that do not read, engines that do not answer: the job master notices, and a cancel comes through."""

from __future__ import annotations

import os
import queue
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from numbered_source import SOURCE_ID, Numbers, enumerated_plan

from firesteel.common.errors import HeartbeatError, JobCancelledError
from firesteel.common.job_status import JobStatus
from firesteel.control.protocol import ALIVE, TaskHello, connect, open_channel
from firesteel.control.server import ControlServer
from firesteel.control.task_sender import MAX_WAITING
from firesteel.jobmaster.failure_history import FailureLabel
from firesteel.jobmaster.job_client import MasterJobClient
from firesteel.jobmaster.job_master import JobMaster
from firesteel.jobmaster.master_core import MasterSettings
from firesteel.plan.executor import Deployment, Executor, Listening, Master
from firesteel.plan.heartbeat import HeartbeatSettings
from firesteel.plan.job_plan import JobPlan
from firesteel.plan.messages import EnumeratorEvent, ReaderRegistered, TaskId
from firesteel_support import threads

TIMEOUT = 300.0  # for what will never happen: machines may be slow
#: Long enough that a slow machine is not taken for a stopped one.
HEARTBEAT = HeartbeatSettings(interval=0.5, timeout=6.0)
TASK = TaskHello("job", 1, TaskId(0, 0))
Plans = Callable[..., JobPlan]
Executors = Callable[..., Any]

REMOTE_TASK = """
import os, sys, threading
from firesteel.control.protocol import TaskHello, connect
from firesteel.plan.executor import ControlEndpoint
from firesteel.plan.heartbeat import HeartbeatSettings
from firesteel.plan.messages import *

host, port, secret, job_id, attempt, index, interval, timeout = sys.argv[1:]
endpoint = ControlEndpoint(host, int(port), bytes.fromhex(secret))
cancelled = threading.Event()
hello = TaskHello(job_id, int(attempt), TaskId(0, int(index)))
heartbeat = HeartbeatSettings(float(interval), float(timeout))
control = connect(endpoint, hello, lambda message: cancelled.set(), lambda: os._exit(75), heartbeat)
control.send(TaskStarted(hello.host, hello.pid))
cancelled.wait(600)
control.send(TaskCancelled())
control.close()
"""


class ProcessAttempt:
    """One process for each task. ``is_lame``: as an engine that has lost its hold on them, it cannot end them."""

    def __init__(self, deployment: Deployment, master: Master, is_lame: bool) -> None:
        self._is_lame = is_lame
        where = master.endpoint()
        arguments = [
            where.host,
            str(where.port),
            where.secret.hex(),
            deployment.job_id,
            str(deployment.attempt),
        ]
        times = [str(HEARTBEAT.interval), str(HEARTBEAT.timeout)]
        self.processes = [
            subprocess.Popen([sys.executable, "-c", REMOTE_TASK, *arguments, str(index), *times])
            for index in range(deployment.plan.stages[0].tasks)
        ]

    def join(self, timeout: float | None = None) -> bool:
        for process in self.processes:
            process.wait(timeout)
        return True

    def error(self) -> BaseException | None:
        return RuntimeError("over")

    def kill(self) -> None:
        if not self._is_lame:
            self.kill_by_force([process.pid for process in self.processes])

    def ping(self) -> None:
        """The engine is well."""

    def kill_by_force(self, processes: Any) -> None:
        for process in processes:
            os.kill(process, signal.SIGKILL)


class ProcessExecutor:
    def __init__(self) -> None:
        self.attempts: list[ProcessAttempt] = []
        self.is_lame = False

    def start(self, deployment: Deployment, master: Master) -> ProcessAttempt:
        self.attempts.append(ProcessAttempt(deployment, master, self.is_lame))
        return self.attempts[-1]


@pytest.fixture
def processes() -> Iterator[ProcessExecutor]:
    executor = ProcessExecutor()
    yield executor
    for attempt in executor.attempts:
        for process in attempt.processes:
            process.kill()
            process.wait()


class Running:
    """A listener to wait for."""

    def __init__(self) -> None:
        self.event = threading.Event()

    def status_changed(self, job: Any, status: JobStatus) -> None:
        if status is JobStatus.RUNNING:
            self.event.set()


def start(
    plan: JobPlan, executor: Executor, heartbeat: HeartbeatSettings | None = HEARTBEAT, grace: float = 0.1
) -> MasterJobClient:
    running = Running()
    master = JobMaster(plan, executor, MasterSettings(grace, heartbeat=heartbeat), listeners=[running])
    master.start()
    client = MasterJobClient(master)
    assert running.event.wait(TIMEOUT) or client.is_over()
    return client


# Stopped tasks.


def test_stopped_process_is_noticed_named_and_ended(
    make_plan: Plans, processes: ProcessExecutor, caplog: pytest.LogCaptureFixture
) -> None:
    client = start(make_plan(2), processes)
    stopped = processes.attempts[0].processes[1]
    os.kill(stopped.pid, signal.SIGSTOP)
    with pytest.raises(
        HeartbeatError, match=rf"lost task v0 \(2/2\) on .*, process {stopped.pid}: no sign of life"
    ):
        client.wait()
    assert f"process {stopped.pid}: no sign of life" in caplog.text
    (failure,) = client.get_failures()
    assert failure.label is FailureLabel.LOST_MACHINE
    assert (failure.attempt, failure.location.operator, failure.location.subtask) == (1, "v0", 1)
    assert (failure.location.host, failure.location.pid) == (socket.gethostname(), stopped.pid)
    assert stopped.wait(TIMEOUT) == -signal.SIGKILL


def test_cancel_with_a_stopped_process_comes_through_and_leaves_none(
    make_plan: Plans, processes: ProcessExecutor
) -> None:
    processes.is_lame = True
    client = start(make_plan(2), processes, HeartbeatSettings(100.0, 1000.0))
    stopped = processes.attempts[0].processes[0]
    os.kill(stopped.pid, signal.SIGSTOP)
    client.cancel().result(TIMEOUT)
    assert client.get_job_status().result() is JobStatus.CANCELED
    assert stopped.wait(TIMEOUT) == -signal.SIGKILL
    assert processes.attempts[0].join(TIMEOUT)


def test_task_whose_master_says_nothing_ends_itself() -> None:
    heard: queue.Queue[Any] = queue.Queue()
    lost = threading.Event()
    server = ControlServer(Listening(), _Ignoring())  # gives no signs of life
    connection = connect(server.endpoint, TASK, heard.put, lost.set, HeartbeatSettings(0.1, 1.0))
    assert lost.wait(TIMEOUT)
    server.close()
    connection.close()


def test_signs_of_life_go_both_ways_and_count_as_messages_of_nobody() -> None:
    handler = _Ignoring()
    server = ControlServer(Listening(), handler, HeartbeatSettings(0.05, TIMEOUT))
    channel = open_channel(server.endpoint, TASK)
    assert channel.receive() is not None, "the master speaks without being asked"
    channel.close()
    heard: queue.Queue[Any] = queue.Queue()
    connection = connect(server.endpoint, TASK, heard.put, lambda: None, HeartbeatSettings(0.05, TIMEOUT))
    first, second = handler.said.get(timeout=TIMEOUT), handler.said.get(timeout=TIMEOUT)
    assert (first.question, second.question) == (1, 2)
    connection.close()
    server.close()
    assert heard.empty()


class _Ignoring:
    """A handler that writes down what tasks say, and answers nothing."""

    def __init__(self) -> None:
        self.said: queue.Queue[Any] = queue.Queue()
        self.gone = threading.Event()
        self.send: Callable[[Any], None]

    def accepts(self, hello: Any) -> bool:
        return True

    def task_connected(self, hello: TaskHello, connection: int, send: Callable[[Any], None]) -> None:
        self.send = send

    def task_said(self, hello: TaskHello, connection: int, message: Any) -> None:
        self.said.put(message)

    def task_disconnected(self, hello: TaskHello, connection: int) -> None:
        self.gone.set()

    def receive_collection(self, hello: Any, blobs: Any) -> None:
        raise NotImplementedError

    def connection_failed(self, hello: Any, error: Exception) -> None:
        raise error


# Tasks that do not read.


def test_sender_never_waits_for_a_task_that_does_not_read(caplog: pytest.LogCaptureFixture) -> None:
    handler = _Ignoring()
    server = ControlServer(Listening(), handler)
    channel = open_channel(server.endpoint, TASK)
    channel.send(ALIVE)
    handler.said.get(timeout=TIMEOUT)
    large = EnumeratorEvent("id", 0, b"x" * 1_000_000)
    for _ in range(100):  # more than all buffers on the way hold: a sender that waits would wait for ever
        handler.send(large)
    small = EnumeratorEvent("id", 0, b"")
    for _ in range(MAX_WAITING):
        handler.send(small)
    assert handler.gone.wait(TIMEOUT), "its connection is cut"
    assert "messages wait for it" in caplog.text
    assert TASK.host in caplog.text
    server.close()
    channel.close()


def test_task_that_takes_nothing_for_too_long_has_its_connection_cut(
    caplog: pytest.LogCaptureFixture,
) -> None:
    handler = _Ignoring()
    server = ControlServer(Listening(), handler, HeartbeatSettings(0.1, 0.5))
    channel = open_channel(server.endpoint, TASK)
    channel.send(ALIVE)
    handler.said.get(timeout=TIMEOUT)
    for _ in range(50):
        handler.send(EnumeratorEvent("id", 0, b"x" * 1_000_000))
    assert handler.gone.wait(TIMEOUT)
    assert "it reads nothing that is sent to it" in caplog.text
    server.close()
    channel.close()


# Engines and threads that do not answer.


class StuckAttempt:
    """An engine that answers nothing any more, until somebody uses force."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.forced = threading.Event()

    def join(self, timeout: float | None = None) -> bool:
        return self.forced.wait(TIMEOUT)

    def error(self) -> BaseException | None:
        return RuntimeError("ended by force")

    def kill(self) -> None:
        self.forced.wait(TIMEOUT)

    def ping(self) -> None:
        self.forced.wait(TIMEOUT)

    def kill_by_force(self, processes: Any) -> None:
        self._inner.kill()
        self.forced.set()


class StuckExecutor:
    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.attempts: list[StuckAttempt] = []

    def start(self, deployment: Deployment, master: Master) -> StuckAttempt:
        self.attempts.append(StuckAttempt(self._inner.start(deployment, master)))
        return self.attempts[-1]


def deaf(task: Any) -> None:
    while True:
        task.next_message()


def test_engine_that_does_not_answer_fails_the_job(make_plan: Plans, thread_executor: Executors) -> None:
    executor = StuckExecutor(thread_executor(deaf))
    client = start(make_plan(1), executor, HeartbeatSettings(0.2, 1.0))
    with pytest.raises(HeartbeatError, match="Spark's driver process has not answered"):
        client.wait()
    assert executor.attempts[0].forced.is_set()


def test_cancel_ends_by_force_what_an_engine_that_does_not_answer_would_keep(
    make_plan: Plans, thread_executor: Executors
) -> None:
    executor = StuckExecutor(thread_executor(deaf))
    client = start(make_plan(1), executor, None)
    client.cancel().result(TIMEOUT)
    assert client.get_job_status().result() is JobStatus.CANCELED
    assert executor.attempts[0].forced.is_set()


def test_cancel_comes_through_although_an_enumerator_holds_up_the_masters_thread(
    thread_executor: Executors, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered, may_continue = threading.Event(), threading.Event()

    def hang(self: Numbers, subtask: int) -> None:
        entered.set()
        may_continue.wait(TIMEOUT)

    monkeypatch.setattr(Numbers, "add_reader", hang)

    def body(task: Any) -> None:
        if task.id.stage == 0:
            task.say(ReaderRegistered(SOURCE_ID, task.id.index))
        deaf(task)

    master = JobMaster(enumerated_plan(), thread_executor(body), MasterSettings(0.1))
    master.start()
    client = MasterJobClient(master)
    assert entered.wait(TIMEOUT)
    client.cancel().result(TIMEOUT)
    assert client.get_job_status().result() is JobStatus.CANCELED
    with pytest.raises(JobCancelledError):
        client.get_job_execution_result().result()
    may_continue.set()
    for thread in threading.enumerate():
        if thread.name.endswith("-watch"):
            threads.join(thread, TIMEOUT)
    assert "was ended without its master's thread" in caplog.text


def test_failures_are_none_for_a_job_that_was_well(make_plan: Plans, thread_executor: Executors) -> None:
    client = start(make_plan(1), thread_executor(lambda task: task.run_until_cancelled()))
    client.cancel().result(TIMEOUT)
    assert client.get_failures() == []
