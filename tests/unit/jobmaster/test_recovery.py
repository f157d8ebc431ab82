"""Checkpoints, savepoints and restarts through the job master, on tasks that keep to the protocol and do nothing else.

The tasks are threads of this process; time is real, but nothing waits for it except through what the tasks hear.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from firesteel.checkpoint.matching import ProgramOperator
from firesteel.checkpoint.stored_checkpoint import load
from firesteel.common.configuration import Configuration
from firesteel.common.errors import CheckpointError, JobExecutionError, JobTakenOverError
from firesteel.common.job_status import JobStatus
from firesteel.control.protocol import TaskConnection, TaskHello, connect
from firesteel.jobmaster.checkpoints.statistics import CheckpointStatus
from firesteel.jobmaster.job_client import MasterJobClient, ProcessTerminated
from firesteel.jobmaster.job_master import JobMaster
from firesteel.jobmaster.preparation import prepare
from firesteel.plan.executor import Deployment, Executor, Master
from firesteel.plan.job_plan import JobPlan
from firesteel.plan.messages import (
    CancelTask,
    CheckpointAborted,
    CheckpointCompleted,
    MasterMessage,
    SnapshotAcknowledged,
    SnapshotDeclined,
    StopSources,
    SubtaskEnded,
    TaskCancelled,
    TaskFinished,
    TaskId,
    TaskStarted,
    TriggerCheckpoint,
)
from firesteel.plan.state_handles import CheckpointKind, OperatorHandle, Segment
from firesteel.plan.task_failure import to_message

TIMEOUT = 300.0  # for what will never happen: machines may be slow
Plans = Callable[..., JobPlan]
Executors = Callable[..., Any]


@dataclass
class Tasks:
    """How the tasks of a job behave, and what they have heard; of all attempts."""

    #: Called with the task and the message before anything else; True when that was all.
    special: Callable[[Any, MasterMessage], bool] = lambda task, message: False
    ended: bool = False
    completed: queue.Queue[int] = field(default_factory=queue.Queue)
    aborted: queue.Queue[int] = field(default_factory=queue.Queue)

    def __call__(self, task: Any) -> None:
        vertex, subtask = task.id.stage, task.id.index
        if self.ended:
            task.say(SubtaskEnded(vertex, subtask))
        while True:
            message = task.next_message()
            if self.special(task, message):
                continue
            match message:
                case TriggerCheckpoint(order):
                    state = Segment("", 0, 4, 1, 0, f"{vertex}.{subtask}".encode())
                    handle = OperatorHandle(f"id{vertex}", subtask, keyed=(state,))
                    task.say(SnapshotAcknowledged(order.id, vertex, subtask, (handle,), bytes_written=4))
                case CheckpointCompleted(checkpoint_id, final):
                    self.completed.put(checkpoint_id)
                    if final:
                        task.say(TaskFinished())
                        return
                case CheckpointAborted(checkpoint_id):
                    self.aborted.put(checkpoint_id)
                case StopSources():
                    task.say(SubtaskEnded(vertex, subtask))
                case CancelTask():
                    task.say(TaskCancelled())
                    return
                case _:
                    pass


class Statuses:
    """A listener that remembers, and can be waited for."""

    def __init__(self) -> None:
        self.seen: list[JobStatus] = []
        self.running = threading.Event()

    def status_changed(self, job: Any, status: JobStatus) -> None:
        self.seen.append(status)
        if status is JobStatus.RUNNING:
            self.running.set()


def start(plan: JobPlan, executor: Executor, **options: str) -> tuple[MasterJobClient, Statuses]:
    defaults = {
        "execution.checkpointing.interval": "10 ms",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "100",
        "restart-strategy.fixed-delay.delay": "0 ms",
        "firesteel.cancel.grace": "10 s",
    }
    named = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    program = [
        ProgramOperator(operator.id, operator.name, vertex.parallelism, vertex.max_parallelism)
        for vertex in plan.vertices
        for operator in vertex.operators
    ]
    prepared = prepare(plan, program, Configuration.from_dict(defaults | named))
    statuses = Statuses()
    master = JobMaster(
        prepared.plan,
        executor,
        prepared.settings,
        start=prepared.start,
        store=prepared.store,
        listeners=[statuses],
    )
    master.start()
    client = MasterJobClient(master)
    _STARTED.append(client)
    return client, statuses


_STARTED: list[MasterJobClient] = []


@pytest.fixture(autouse=True)
def jobs_are_over(no_thread_is_left_behind: None) -> Iterator[None]:
    """A test that fails leaves no job running, which would disturb others."""
    yield
    while _STARTED:
        client = _STARTED.pop()
        if not client.is_over():
            client.cancel().result(TIMEOUT)


def cancel(client: MasterJobClient) -> None:
    client.cancel().result(TIMEOUT)
    assert client.get_job_status().result() is JobStatus.CANCELED


# Checkpoints.


@pytest.mark.parametrize("storage", ["memory", "directory"])
def test_checkpoints_are_taken_while_the_job_runs(
    make_plan: Plans, thread_executor: Executors, tmp_path: Path, storage: str
) -> None:
    tasks = Tasks()
    place = {} if storage == "memory" else {"execution__checkpointing__dir": str(tmp_path)}
    client, _ = start(make_plan(1, 2), thread_executor(tasks), **place)
    numbers = [tasks.completed.get(timeout=TIMEOUT) for _ in range(9)]
    assert numbers == sorted(numbers)
    statistics = client.statistics().checkpoints
    assert statistics.completed >= 3
    assert statistics.newest is not None
    assert statistics.newest.bytes_written == 12
    if storage == "directory":
        (job,) = tmp_path.iterdir()
        assert job.name == str(client.get_job_id())
        assert statistics.newest.path.startswith(str(job))
    cancel(client)


@pytest.mark.parametrize(("retention", "stays"), [("DELETE", False), ("RETAIN", True)])
def test_checkpoints_of_a_cancelled_job_stay_or_go(
    make_plan: Plans, thread_executor: Executors, tmp_path: Path, retention: str, stays: bool
) -> None:
    tasks = Tasks()
    client, _ = start(
        make_plan(1),
        thread_executor(tasks),
        execution__checkpointing__dir=str(tmp_path),
        execution__checkpointing__externalized_checkpoint_retention=f"{retention}_ON_CANCELLATION",
    )
    tasks.completed.get(timeout=TIMEOUT)
    cancel(client)
    client.wait_until_deployed()
    assert (len(list(tmp_path.iterdir())) == 1) == stays


def test_bounded_job_finishes_with_its_last_checkpoint_and_leaves_nothing(
    make_plan: Plans, thread_executor: Executors, tmp_path: Path
) -> None:
    tasks = Tasks(ended=True)
    client, statuses = start(
        make_plan(2, 1),
        thread_executor(tasks),
        execution__checkpointing__dir=str(tmp_path),
        execution__checkpointing__interval="1 h",
    )
    client.wait()
    assert statuses.seen == [JobStatus.RUNNING, JobStatus.FINISHED]
    assert list(tmp_path.iterdir()) == []


def test_declined_checkpoint_is_aborted_everywhere_and_the_next_one_succeeds(
    make_plan: Plans, thread_executor: Executors
) -> None:
    def decline_the_first(task: Any, message: MasterMessage) -> bool:
        if task.id != TaskId(1, 0) or not isinstance(message, TriggerCheckpoint) or message.order.id != 1:
            return False
        task.say(SnapshotDeclined(1, 1, 0, "not now"))
        return True

    tasks = Tasks(decline_the_first)
    client, _ = start(
        make_plan(1, 1),
        thread_executor(tasks),
        execution__checkpointing__tolerable_failed_checkpoints="1",
    )
    assert [tasks.aborted.get(timeout=TIMEOUT) for _ in range(2)] == [1, 1]
    assert tasks.completed.get(timeout=TIMEOUT) == 2
    checkpoints = client.statistics().checkpoints
    assert checkpoints.last_failure == "v1 (1/1) declined: not now"
    assert [each.status for each in checkpoints.history[:2]] == [
        CheckpointStatus.FAILED,
        CheckpointStatus.COMPLETED,
    ]
    cancel(client)


# Restarts.


def fail_after_a_checkpoint(times: int) -> Callable[[Any, MasterMessage], bool]:
    """The first task fails so many times, always when it hears of a complete checkpoint."""
    left = iter(range(times))

    def special(task: Any, message: MasterMessage) -> bool:
        if (
            task.id == TaskId(0, 0)
            and isinstance(message, CheckpointCompleted)
            and next(left, None) is not None
        ):
            task.say(to_message(JobExecutionError(f"failure after {message.checkpoint_id}")))
        return False

    return special


def test_failed_job_resumes_from_its_newest_checkpoint(
    make_plan: Plans, thread_executor: Executors, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tasks = Tasks(fail_after_a_checkpoint(1))
    executor = thread_executor(tasks)
    client, statuses = start(make_plan(1, 2), executor, execution__checkpointing__dir=str(tmp_path))
    first = tasks.completed.get(timeout=TIMEOUT)
    while len(executor.deployments) < 2:
        tasks.completed.get(timeout=TIMEOUT)
    before, after = executor.deployments
    assert (before.attempt, before.checkpointing, before.restore) == (1, True, None)
    assert after.attempt == 2
    assert after.restore.checkpoint_id >= first
    assert sorted(after.restore.operators) == ["id0", "id1"]
    assert [handle.keyed[0].inline for handle in after.restore.operators["id1"].subtasks] == [b"1.0", b"1.1"]
    assert statuses.seen[:4] == [
        JobStatus.RUNNING,
        JobStatus.FAILING,
        JobStatus.RESTARTING,
        JobStatus.CREATED,
    ]
    assert "attempt 1 of job 'test job' failed, the next one starts now: failure after" in caplog.text
    cancel(client)


def test_restart_strategy_gives_up(make_plan: Plans, thread_executor: Executors, tmp_path: Path) -> None:
    tasks = Tasks(fail_after_a_checkpoint(10))
    executor = thread_executor(tasks)
    client, _ = start(
        make_plan(1),
        executor,
        execution__checkpointing__dir=str(tmp_path),
        restart_strategy__fixed_delay__attempts="2",
    )
    with pytest.raises(JobExecutionError, match="failure after"):
        client.wait()
    assert [deployment.attempt for deployment in executor.deployments] == [1, 2, 3]
    (job,) = tmp_path.iterdir()
    assert [name for name in os.listdir(job) if name.startswith("chk-")] != [], (
        "checkpoints of a failed job stay"
    )


def test_cancel_during_the_delay_ends_the_job(make_plan: Plans, thread_executor: Executors) -> None:
    tasks = Tasks(fail_after_a_checkpoint(1))
    restarting = threading.Event()
    client, statuses = start(make_plan(1), thread_executor(tasks), restart_strategy__fixed_delay__delay="1 h")
    original = statuses.status_changed

    def status_changed(job: Any, status: JobStatus) -> None:
        original(job, status)
        if status is JobStatus.RESTARTING:
            restarting.set()

    statuses.status_changed = status_changed  # type: ignore[method-assign]
    assert restarting.wait(TIMEOUT)
    cancel(client)


class SocketAttempt:
    """Tasks that are threads, but speak to the master over real connections."""

    def __init__(self, deployment: Deployment, master: Master) -> None:
        endpoint = master.endpoint()
        self.ends = [threading.Event() for _ in range(deployment.plan.stages[0].tasks)]
        self.controls: list[TaskConnection] = []
        for index, end in enumerate(self.ends):
            hello = TaskHello(deployment.job_id, deployment.attempt, TaskId(0, index))
            self.controls.append(connect(endpoint, hello, lambda message, end=end: end.set(), end.set))
        for control in self.controls:
            control.send(TaskStarted("here", 1))
        self.fails = deployment.attempt <= 10
        if self.fails:
            self.controls[0].send(to_message(JobExecutionError(f"failure {deployment.attempt}")))
            self.ends[0].set()
        else:
            for control in self.controls:
                control.send(TaskFinished())
            for end in self.ends:
                end.set()

    def join(self, timeout: float | None = None) -> bool:
        for control, end in zip(self.controls, self.ends, strict=True):
            end.wait(TIMEOUT)
            if self.fails:
                control.send(TaskCancelled())
            control.close()
        return True

    def error(self) -> BaseException | None:
        return None

    def kill(self) -> None:
        for end in self.ends:
            end.set()


class SocketExecutor:
    def __init__(self) -> None:
        self.attempts = 0

    def start(self, deployment: Deployment, master: Master) -> SocketAttempt:
        self.attempts += 1
        return SocketAttempt(deployment, master)


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_ten_restarts_leave_no_threads_and_no_sockets(make_plan: Plans) -> None:
    files, threads = open_files(), threading.active_count()
    executor = SocketExecutor()
    client, _ = start(make_plan(3), executor)
    client.wait()
    assert executor.attempts == 11
    assert open_files() <= files
    assert threading.active_count() <= threads


def test_task_of_an_earlier_attempt_is_not_let_in(make_plan: Plans, thread_executor: Executors) -> None:
    """A zombie can neither acknowledge nor be told to commit: the master of each attempt knows only its own tasks."""
    tasks = Tasks()
    old: list[Any] = []

    class Remembering:
        def start(self, deployment: Deployment, master: Master) -> Any:
            if not old:
                endpoint = master.endpoint()
                hello = TaskHello(deployment.job_id, deployment.attempt - 1, TaskId(0, 0))
                refused = threading.Event()
                control = connect(endpoint, hello, lambda message: old.append(message), refused.set)
                control.send(SnapshotAcknowledged(1, 0, 0, ()))
                assert refused.wait(TIMEOUT)
                control.close()
                old.append("refused")
            return thread_executor(tasks).start(deployment, master)

    client, _ = start(make_plan(1), Remembering())
    tasks.completed.get(timeout=TIMEOUT)
    assert old == ["refused"]
    cancel(client)


# Savepoints.


def test_savepoint_of_a_running_job(make_plan: Plans, thread_executor: Executors, tmp_path: Path) -> None:
    tasks = Tasks()
    client, statuses = start(make_plan(1, 1), thread_executor(tasks))
    assert statuses.running.wait(TIMEOUT)
    path = client.trigger_savepoint(str(tmp_path)).result(TIMEOUT)
    manifest = load(path).manifest
    assert manifest.kind is CheckpointKind.SAVEPOINT
    assert manifest.job_name == "test job"
    assert client.get_job_status().result() is JobStatus.RUNNING
    cancel(client)
    assert os.path.exists(path), "savepoints belong to the user"


@pytest.mark.parametrize("drain", [False, True])
def test_stop_with_savepoint_finishes_the_job(
    make_plan: Plans, thread_executor: Executors, tmp_path: Path, drain: bool
) -> None:
    client, statuses = start(
        make_plan(1, 1), thread_executor(Tasks()), execution__checkpointing__savepoint_dir=str(tmp_path)
    )
    assert statuses.running.wait(TIMEOUT)
    path = client.stop_with_savepoint(drain).result(TIMEOUT)
    kind = CheckpointKind.FINAL_SAVEPOINT if drain else CheckpointKind.STOP
    assert load(path).manifest.kind is kind
    client.wait()
    assert client.get_job_status().result() is JobStatus.FINISHED


def test_failed_savepoint_leaves_the_job_running(
    make_plan: Plans, thread_executor: Executors, tmp_path: Path
) -> None:
    def decline_savepoints(task: Any, message: MasterMessage) -> bool:
        if not isinstance(message, TriggerCheckpoint) or not message.order.kind.is_savepoint:
            return False
        task.say(SnapshotDeclined(message.order.id, 0, 0, "no"))
        return True

    tasks = Tasks(decline_savepoints)
    client, statuses = start(make_plan(1), thread_executor(tasks))
    assert statuses.running.wait(TIMEOUT)
    for wish in (client.trigger_savepoint(str(tmp_path)), client.stop_with_savepoint(False, str(tmp_path))):
        with pytest.raises(CheckpointError, match="declined: no"):
            wish.result(TIMEOUT)
    tasks.completed.get(timeout=TIMEOUT)
    assert client.get_job_status().result() is JobStatus.RUNNING
    cancel(client)


def test_directory_that_cannot_be_written_is_named_before_anything_happens(
    make_plan: Plans, thread_executor: Executors, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.write_text("no directory")
    asked = threading.Event()

    def notice(task: Any, message: MasterMessage) -> bool:
        if isinstance(message, StopSources) or (
            isinstance(message, TriggerCheckpoint) and message.order.kind.is_savepoint
        ):
            asked.set()
        return False

    tasks = Tasks(notice)
    client, statuses = start(
        make_plan(1), thread_executor(tasks), execution__checkpointing__savepoint_dir=str(file)
    )
    assert statuses.running.wait(TIMEOUT)
    for wish in (
        client.trigger_savepoint(str(file)),
        client.trigger_savepoint(),
        client.stop_with_savepoint(False, str(file)),
        client.stop_with_savepoint(True),
    ):
        with pytest.raises(
            CheckpointError, match=rf"no savepoint of job .* savepoint directory {file} cannot"
        ):
            wish.result(TIMEOUT)
    assert client.get_job_status().result() is JobStatus.RUNNING
    assert not asked.is_set()
    cancel(client)


def test_job_starts_from_a_savepoint(make_plan: Plans, thread_executor: Executors, tmp_path: Path) -> None:
    client, statuses = start(make_plan(2), thread_executor(Tasks()))
    assert statuses.running.wait(TIMEOUT)
    path = client.stop_with_savepoint(False, str(tmp_path)).result(TIMEOUT)
    tasks = Tasks(ended=True)
    executor = thread_executor(tasks)
    second, _ = start(make_plan(3), executor, execution__state_recovery__path=path)
    second.wait()
    restore = executor.deployments[0].restore
    assert restore.root == path
    assert restore.operators["id0"].parallelism == 2
    assert tasks.completed.get_nowait() > restore.checkpoint_id


# Drivers.


def test_new_driver_takes_the_job_over_from_a_living_one(
    make_plan: Plans, thread_executor: Executors, tmp_path: Path
) -> None:
    place = {"execution__checkpointing__dir": str(tmp_path)}
    tasks = Tasks()
    first, _ = start(make_plan(1), thread_executor(tasks), **place)
    seen = tasks.completed.get(timeout=TIMEOUT)
    executor = thread_executor(Tasks())
    second, statuses = start(make_plan(1), executor, **place, execution__checkpointing__resume="true")
    with pytest.raises(JobTakenOverError, match="another driver runs job"):
        first.wait()
    assert second.get_job_id() == first.get_job_id()
    assert statuses.running.wait(TIMEOUT)
    deployment = executor.deployments[0]
    assert deployment.restore.checkpoint_id >= seen
    assert deployment.attempt == 1001
    cancel(second)


# Storage that is away for a while, and signals.


@pytest.mark.parametrize("how", ["gone", "empty", "out of reach"])
def test_checkpoint_directory_that_is_away_for_a_while_does_not_end_the_job(
    make_plan: Plans, thread_executor: Executors, tmp_path: Path, how: str
) -> None:
    tasks, volume, away = Tasks(), tmp_path / "volume", tmp_path / "away"
    executor = thread_executor(tasks)
    client, statuses = start(
        make_plan(1),
        executor,
        execution__checkpointing__dir=str(volume),
        restart_strategy__fixed_delay__delay="20 ms",
        restart_strategy__fixed_delay__attempts="1000000",
    )
    tasks.completed.get(timeout=TIMEOUT)
    volume.rename(away)
    if how == "empty":
        volume.mkdir()
    elif how == "out of reach":
        volume.symlink_to(volume)
    while statuses.seen.count(JobStatus.RESTARTING) < 2:  # one checkpoint failed, and nothing could be found
        assert not client.is_over()
    if how == "empty":
        volume.rename(tmp_path / "underneath")
    elif how == "out of reach":
        volume.unlink()
    away.rename(volume)
    while not tasks.completed.empty():
        tasks.completed.get()
    tasks.completed.get(timeout=TIMEOUT)
    assert executor.deployments[-1].restore is not None, "it resumes where it was"
    cancel(client)


@pytest.mark.parametrize("reason", [ProcessTerminated(), KeyboardInterrupt()], ids=["kill", "Ctrl-C"])
def test_signal_keeps_what_the_job_has_saved(
    make_plan: Plans, thread_executor: Executors, tmp_path: Path, reason: KeyboardInterrupt
) -> None:
    tasks = Tasks()
    place = {"execution__checkpointing__dir": str(tmp_path), "execution__checkpointing__resume": "true"}
    client, _ = start(make_plan(1), thread_executor(tasks), **place)
    first = tasks.completed.get(timeout=TIMEOUT)
    client.interrupt(reason).result(TIMEOUT)
    assert client.keeps_checkpoints
    executor = thread_executor(tasks)
    again, _ = start(make_plan(1), executor, **place)
    assert again.get_job_id() == client.get_job_id()
    tasks.completed.get(timeout=TIMEOUT)
    assert executor.deployments[0].restore.checkpoint_id >= first
    cancel(again)
    again.wait_until_deployed()
    assert list(tmp_path.iterdir()) == [], "somebody has said that the job is needed no more"
