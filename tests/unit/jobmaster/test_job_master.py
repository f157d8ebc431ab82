"""Whole jobs through the job master, on tasks that are threads of this process or processes of their own."""

from __future__ import annotations

import logging
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from firesteel.common.accumulators import IntCounter, LongCounter
from firesteel.common.errors import (
    CheckpointError,
    JobCancelledError,
    JobExecutionError,
    NotEnoughSlotsError,
    TaskLostError,
    UserCodeError,
)
from firesteel.common.job_status import JobStatus
from firesteel.jobmaster.job_client import MasterJobClient
from firesteel.jobmaster.job_master import JobMaster
from firesteel.jobmaster.master_core import MasterSettings
from firesteel.plan.executor import Deployment, Executor, Master
from firesteel.plan.job_plan import JobPlan
from firesteel.plan.messages import (
    LogOutput,
    OperatorStatistics,
    StopSources,
    TaskFinished,
    TaskReport,
    TextOutput,
)
from firesteel.plan.operator_specs import RuntimeMode
from firesteel.plan.results import Results
from firesteel.plan.task_failure import to_message

TIMEOUT = 300.0  # for what will never happen: machines may be slow
Plans = Callable[..., JobPlan]
Executors = Callable[..., Any]


class Statuses:
    """A listener that remembers, and can be waited for."""

    def __init__(self) -> None:
        self.seen: list[JobStatus] = []
        self.running = threading.Event()

    def status_changed(self, job: Any, status: JobStatus) -> None:
        self.seen.append(status)
        if status is JobStatus.RUNNING:
            self.running.set()


def start(plan: JobPlan, executor: Executor, grace: float = TIMEOUT) -> tuple[MasterJobClient, Statuses]:
    statuses = Statuses()
    master = JobMaster(plan, executor, MasterSettings(grace), listeners=[statuses])
    master.start()
    return MasterJobClient(master), statuses


def finish(task: Any) -> None:
    task.say(TaskFinished())


def test_job_of_no_records_finishes(make_plan: Plans, thread_executor: Executors) -> None:
    client, statuses = start(make_plan(1, 2), thread_executor(finish))
    result = client.wait()
    assert result.get_job_id() == client.get_job_id()
    assert result.get_net_runtime() >= 0
    assert statuses.seen == [JobStatus.RUNNING, JobStatus.FINISHED]
    assert client.get_job_status().result() is JobStatus.FINISHED


def test_deployment_names_job_attempt_and_plan(make_plan: Plans, thread_executor: Executors) -> None:
    executor, plan = thread_executor(finish), make_plan(1)
    client, _ = start(plan, executor)
    client.wait()
    assert executor.deployments == [Deployment(str(client.get_job_id()), 1, plan)]


def test_printed_text_goes_to_the_streams_of_the_moment(
    make_plan: Plans, thread_executor: Executors, capsys: pytest.CaptureFixture[str]
) -> None:
    def body(task: Any) -> None:
        for number in range(100):
            task.say(TextOutput(f"{task.id.index}> {number}\n"))
        task.say(TextOutput("trouble\n", "stderr"), TaskFinished())

    client, _ = start(make_plan(3), thread_executor(body))
    client.wait()
    printed = capsys.readouterr()
    lines = printed.out.splitlines()
    for index in range(3):
        assert [line for line in lines if line.startswith(f"{index}>")] == [
            f"{index}> {n}" for n in range(100)
        ]
    assert printed.err == "trouble\n" * 3


def test_log_records_are_handled_by_the_drivers_logging(
    make_plan: Plans, thread_executor: Executors, caplog: pytest.LogCaptureFixture
) -> None:
    def body(task: Any) -> None:
        for level in (logging.DEBUG, logging.WARNING):
            attributes = {
                "name": "user.code",
                "levelno": level,
                "levelname": "x",
                "msg": "seen %d",
                "args": (level,),
            }
            task.say(LogOutput(attributes))
        finish(task)

    client, _ = start(make_plan(1), thread_executor(body))
    client.wait()
    assert caplog.record_tuples == [("user.code", logging.WARNING, "seen 30")]


def test_closed_standard_output_fails_the_job(
    make_plan: Plans, thread_executor: Executors, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Closed:
        encoding = "utf-8"

        def write(self, text: str) -> None:
            raise BrokenPipeError("reader is gone")

    def body(task: Any) -> None:
        task.say(TextOutput("x\n"))
        task.run_until_cancelled()

    monkeypatch.setattr(sys, "stdout", Closed())
    client, _ = start(make_plan(1), thread_executor(body))
    with pytest.raises(BrokenPipeError):
        client.wait()


def test_counters_and_accumulators_are_added_up(make_plan: Plans, thread_executor: Executors) -> None:
    def body(task: Any) -> None:
        for so_far in (1, 10):
            counts = OperatorStatistics(f"id{task.id.stage}", task.id.index, so_far, 2 * so_far)
            task.say(TaskReport((counts,), {"seen": IntCounter(so_far)}))
        finish(task)

    client, _ = start(make_plan(1, 2), thread_executor(body))
    result = client.wait()
    assert result.get_accumulator_result("seen") == 30
    assert client.get_accumulators().result() == {"seen": 30}
    statistics = client.statistics()
    assert [(o.name, o.parallelism, o.records_in, o.records_out) for o in statistics.operators] == [
        ("op0", 1, 10, 20),
        ("op1", 2, 20, 40),
    ]
    assert statistics["op1"].records_in == 20


def test_accumulators_of_different_kinds_under_one_name_are_refused(
    make_plan: Plans, thread_executor: Executors
) -> None:
    def body(task: Any) -> None:
        kind = IntCounter if task.id.index else LongCounter
        task.say(TaskReport((), {"n": kind(1)}), TaskFinished())

    client, _ = start(make_plan(2), thread_executor(body))
    with pytest.raises(JobExecutionError, match="accumulator 'n' is a LongCounter in one task"):
        client.wait()


def test_error_of_user_code_is_raised_with_its_cause(make_plan: Plans, thread_executor: Executors) -> None:
    def body(task: Any) -> None:
        if task.id.stage == 0:
            task.run_until_cancelled()
            return
        error = UserCodeError("ValueError: boom", operator="Map", function="lambda at job.py:3", record="7")
        error.__cause__ = ValueError("boom")
        task.say(to_message(error))
        raise RuntimeError("the engine's own story")

    client, statuses = start(make_plan(1, 1), thread_executor(body))
    with pytest.raises(UserCodeError, match=r"(?s)boom.*operator: Map.*job\.py:3.*record:   7") as caught:
        client.wait()
    assert repr(caught.value.__cause__) == "ValueError('boom')"
    assert statuses.seen == [JobStatus.RUNNING, JobStatus.FAILING, JobStatus.FAILED]
    with pytest.raises(UserCodeError):
        client.wait()


def test_refusal_of_the_engine_is_the_jobs_error(make_plan: Plans) -> None:
    class Full:
        def start(self, deployment: Deployment, master: Master) -> Any:
            raise NotEnoughSlotsError(needed=3, available=2)

    client, statuses = start(make_plan(3), Full())
    with pytest.raises(NotEnoughSlotsError, match="needs 3"):
        client.wait()
    assert statuses.seen == [JobStatus.FAILING, JobStatus.FAILED]


def test_refusal_of_the_engine_is_known_when_the_job_is_deployed(make_plan: Plans) -> None:
    class Full:
        def start(self, deployment: Deployment, master: Master) -> Any:
            raise NotEnoughSlotsError(needed=3, available=2)

    client, _ = start(make_plan(3), Full())
    with pytest.raises(NotEnoughSlotsError):
        client.wait_until_deployed()


def test_cancel_ends_the_job(make_plan: Plans, thread_executor: Executors) -> None:
    client, statuses = start(make_plan(1, 2), thread_executor(lambda task: task.run_until_cancelled()))
    assert statuses.running.wait(TIMEOUT)
    client.cancel().result(TIMEOUT)
    with pytest.raises(JobCancelledError, match="'test job' was cancelled"):
        client.wait()
    assert statuses.seen[-2:] == [JobStatus.CANCELLING, JobStatus.CANCELED]


def test_cancel_kills_tasks_that_do_not_listen(make_plan: Plans, thread_executor: Executors) -> None:
    def deaf(task: Any) -> None:
        while True:
            task.next_message()

    client, statuses = start(make_plan(1), thread_executor(deaf), grace=0.01)
    assert statuses.running.wait(TIMEOUT)
    client.cancel().result(TIMEOUT)
    assert client.get_job_status().result() is JobStatus.CANCELED


def test_cancel_while_the_engine_still_starts_ends_the_job(
    make_plan: Plans, thread_executor: Executors
) -> None:
    executor = thread_executor(lambda task: task.run_until_cancelled())
    starting, may_start = threading.Event(), threading.Event()

    class Slow:
        def start(self, deployment: Deployment, master: Master) -> Any:
            starting.set()
            may_start.wait(TIMEOUT)
            return executor.start(deployment, master)

    client, _ = start(make_plan(1), Slow())
    assert starting.wait(TIMEOUT)
    over = client.cancel()
    may_start.set()
    over.result(TIMEOUT)
    assert client.get_job_status().result() is JobStatus.CANCELED


def test_stop_lets_the_job_finish(make_plan: Plans, thread_executor: Executors) -> None:
    def body(task: Any) -> None:
        assert task.next_message() == StopSources()
        finish(task)

    client, statuses = start(make_plan(1), thread_executor(body))
    assert statuses.running.wait(TIMEOUT)
    client.stop()
    client.wait()


def test_interrupt_while_waiting_cancels_the_job(
    make_plan: Plans, thread_executor: Executors, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, statuses = start(make_plan(1), thread_executor(lambda task: task.run_until_cancelled()))

    def interrupted() -> Any:
        assert statuses.running.wait(TIMEOUT)
        raise KeyboardInterrupt

    monkeypatch.setattr(client, "_outcome", interrupted)
    with pytest.raises(KeyboardInterrupt):
        client.wait()
    assert client.get_job_status().result() is JobStatus.CANCELED


def test_giving_up_on_a_result_leaves_it_to_others(make_plan: Plans, thread_executor: Executors) -> None:
    client, _ = start(make_plan(1), thread_executor(finish))
    assert not client.get_job_execution_result().cancel()
    client.wait()


def test_savepoint_of_a_job_that_takes_no_part_is_refused(
    make_plan: Plans, thread_executor: Executors
) -> None:
    client, statuses = start(make_plan(1), thread_executor(lambda task: task.run_until_cancelled()))
    assert statuses.running.wait(TIMEOUT)
    for wish in (client.trigger_savepoint(), client.stop_with_savepoint(False)):
        with pytest.raises(CheckpointError, match="its tasks take no part in checkpoints"):
            wish.result(TIMEOUT)
    client.cancel().result(TIMEOUT)
    with pytest.raises(CheckpointError, match="the job is over: CANCELED"):
        client.trigger_savepoint().result(TIMEOUT)


def test_states_of_tasks_are_logged_and_reported(
    make_plan: Plans, thread_executor: Executors, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="firesteel.jobmaster"):
        client, _ = start(make_plan(1, 1), thread_executor(finish))
        client.wait()
    for name in ("v0 (1/1)", "v1 (1/1)"):
        said = [record.getMessage() for record in caplog.records if record.getMessage().startswith(name)]
        assert said[0] == f"{name}, attempt 1, switched from CREATED to SCHEDULED"
        assert said[-1] == f"{name}, attempt 1, switched from RUNNING to FINISHED on localhost, process 1"
    assert [(task.name, task.state.name) for task in client.task_statuses()] == [
        ("v0 (1/1)", "FINISHED"),
        ("v1 (1/1)", "FINISHED"),
    ]


def test_fault_in_a_listener_does_not_harm_the_job(
    make_plan: Plans, thread_executor: Executors, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        def status_changed(self, job: Any, status: JobStatus) -> None:
            raise RuntimeError("oops")

    master = JobMaster(make_plan(1), thread_executor(finish), listeners=[Broken()])
    master.start()
    MasterJobClient(master).wait()
    assert "listener" in caplog.text


# Collected records.


def results(*values: int) -> Results:
    return Results(len(values), pickle.dumps(list(values)))


def test_collected_records_stream_back(make_plan: Plans, thread_executor: Executors) -> None:
    def body(task: Any) -> None:
        way = task.master.open_collection("c", 0, 0, 0)
        for number in range(200):  # far more than the buffer holds: the task waits for the consumer
            way.send(results(number, -number))
        finish(task)

    client, _ = start(make_plan(1), thread_executor(body))
    assert list(client.collect_results("c")) == [n for number in range(200) for n in (number, -number)]
    client.wait()
    assert list(client.collect_results("other")) == []


def test_consumer_gets_the_jobs_error_after_the_records(make_plan: Plans, thread_executor: Executors) -> None:
    def body(task: Any) -> None:
        task.master.open_collection("c", 0, 0, 0).send(results(1))
        task.say(to_message(JobExecutionError("no more")))

    client, _ = start(make_plan(1), thread_executor(body))
    found = client.collect_results("c")
    assert next(found) == 1
    with pytest.raises(JobExecutionError, match="no more"):
        next(found)


def test_closed_consumer_does_not_hold_up_the_job(make_plan: Plans, thread_executor: Executors) -> None:
    def body(task: Any) -> None:
        way = task.master.open_collection("c", 0, 0, 0)
        for number in range(200):
            way.send(results(number))
        finish(task)

    client, _ = start(make_plan(1), thread_executor(body))
    found: Any = client.collect_results("c")
    assert next(found) == 0
    found.close()
    client.wait()


# Tasks in other processes.

REMOTE_TASK = """
import pickle, signal, sys, threading
from firesteel.control.collect_protocol import open_collector
from firesteel.control.protocol import CollectHello, TaskHello, connect
from firesteel.plan.executor import ControlEndpoint
from firesteel.plan.messages import *
from firesteel.plan.results import Results

host, port, secret, job_id, index, kind = sys.argv[1:]
endpoint = ControlEndpoint(host, int(port), bytes.fromhex(secret))
cancelled = threading.Event()
hello = TaskHello(job_id, 1, TaskId(0, int(index)))
control = connect(endpoint, hello, lambda message: cancelled.set(), lambda: sys.exit(3))
control.send(TaskStarted(hello.host, hello.pid))
if kind == "work":
    collect = open_collector(endpoint, CollectHello(job_id, 1, "c", int(index)))
    collect.send(Results(1, pickle.dumps([int(index)])))
    collect.close()
    control.send(TextOutput(f"hello from {index}\\n"))
    control.send(TaskReport((), {}))
    control.send(TaskFinished())
elif kind == "wait" or index != "0":
    cancelled.wait(300)
    control.send(TaskCancelled())
else:
    signal.raise_signal(signal.SIGKILL)
control.close()
"""


class ProcessAttempt:
    """One process for each task, as on Spark: connections are real, and so are deaths."""

    def __init__(self, deployment: Deployment, master: Master, kind: str) -> None:
        where = master.endpoint()
        arguments = [where.host, str(where.port), where.secret.hex(), deployment.job_id]
        self.processes = [
            subprocess.Popen([sys.executable, "-c", REMOTE_TASK, *arguments, str(index), kind])
            for index in range(deployment.plan.stages[0].tasks)
        ]

    def join(self, timeout: float | None = None) -> bool:
        for process in self.processes:
            process.wait(timeout)
        return True

    def error(self) -> BaseException | None:
        codes = [process.returncode for process in self.processes]
        return RuntimeError(f"exit codes {codes}") if any(codes) else None

    def kill(self) -> None:
        for process in self.processes:
            process.kill()


class ProcessExecutor:
    def __init__(self, kind: str) -> None:
        self.kind = kind

    def start(self, deployment: Deployment, master: Master) -> ProcessAttempt:
        return ProcessAttempt(deployment, master, self.kind)


@pytest.mark.parametrize("mode", RuntimeMode)
def test_tasks_in_other_processes_are_heard(
    make_plan: Plans, capsys: pytest.CaptureFixture[str], mode: RuntimeMode
) -> None:
    client, _ = start(make_plan(2, mode=mode), ProcessExecutor("work"))
    assert sorted(client.collect_results("c")) == [0, 1]
    client.wait()
    assert sorted(capsys.readouterr().out.splitlines()) == ["hello from 0", "hello from 1"]


def test_killed_process_ends_the_job_with_its_name(make_plan: Plans) -> None:
    client, _ = start(make_plan(2), ProcessExecutor("die"))
    with pytest.raises(
        TaskLostError, match=r"lost task v0 \(1/2\) on .*, process \d+: its Python worker"
    ) as caught:
        client.wait()
    assert any(str(-signal.SIGKILL) in note for note in caught.value.__notes__)


def test_process_is_cancelled(make_plan: Plans) -> None:
    client, statuses = start(make_plan(1), ProcessExecutor("wait"))
    assert statuses.running.wait(TIMEOUT)
    client.cancel().result(TIMEOUT)
    assert client.get_job_status().result() is JobStatus.CANCELED


def test_no_descriptor_is_left_open(make_plan: Plans, thread_executor: Executors) -> None:
    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("needs /proc")

    class WithServer:
        def start(self, deployment: Deployment, master: Master) -> Any:
            master.endpoint()
            return thread_executor(finish).start(deployment, master)

    before = len(os.listdir("/proc/self/fd"))
    client, _ = start(make_plan(1), WithServer())
    client.wait()
    assert len(os.listdir("/proc/self/fd")) == before
