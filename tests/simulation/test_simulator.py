"""The simulator itself: orders, time, control messages, failures, and that it notices what it should."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from firesteel.common.configuration import Configuration
from firesteel.common.errors import JobCancelledError, UserCodeError
from firesteel.contracts.functions import MapFunction, ProcessFunction, RuntimeContext
from firesteel.contracts.source import Boundedness, SourceFunction
from firesteel.plan.exchange import Rebalance
from firesteel.plan.executor import Deployment
from firesteel.plan.messages import (
    CancelTask,
    MasterMessage,
    StopSources,
    TaskCancelled,
    TaskFailed,
    TaskFinished,
    TaskId,
    TaskReport,
    TaskStarted,
    TextOutput,
)
from firesteel.plan.task_failure import to_exception
from firesteel.runtime.router import Outbox
from firesteel.testing import (
    CollectSink,
    Emit,
    Fail,
    ManualClock,
    Pause,
    ScriptedSource,
    SimulatorExecutor,
    WaitForever,
)
from firesteel.testing.manual_clock import START
from firesteel.testing.scripted_source import Step
from firesteel.testing.simulator import SEED, SimulatedAttempt, SimulationDeadlockError
from firesteel_support.flow import Flow
from firesteel_support.local_master import LocalMaster, run_plan

ENDLESS = Boundedness.CONTINUOUS_UNBOUNDED


def start(flow: Flow, seed: int = 0) -> tuple[SimulatedAttempt, LocalMaster]:
    master = LocalMaster()
    plan = flow.plan(**{"execution.runtime-mode": "STREAMING"})
    return SimulatorExecutor(seed=seed).start(Deployment("f" * 32, 2, plan), master), master


def wait_for(condition: Any) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def diamond() -> Flow:
    flow = Flow(2)
    numbers = flow.source(list(range(40)))
    left = flow.map(numbers, lambda v: (v, "left"), by=Rebalance(), parallelism=3)
    right = flow.map(numbers, lambda v: (v, "right"))
    flow.collect(flow.map([left, right], lambda v: v), "out")
    return flow


# Orders ------------------------------------------------------------------------------------------------


def test_seeds_differ_in_order_and_agree_in_content() -> None:
    plan = diamond().plan(**{"firesteel.chunk.records": 1})
    runs = [run_plan(plan, seed).collected["out"] for seed in range(10)]
    assert len({tuple(run) for run in runs}) > 5
    assert {tuple(sorted(run)) for run in runs} == {tuple(sorted(runs[0]))}
    assert len(runs[0]) == 80


def test_a_seed_repeats_its_run() -> None:
    plan = diamond().plan()
    assert run_plan(plan, 7) == run_plan(plan, 7)


def test_the_seed_may_come_from_an_option() -> None:
    plan = diamond().plan(**{SEED: 5, "firesteel.chunk.records": 1})
    assert run_plan(plan).collected == run_plan(plan, 5).collected
    executor = SimulatorExecutor(Configuration.from_dict({SEED: "5"}))
    master = LocalMaster()
    attempt = executor.start(Deployment("0" * 32, 0, plan), master)
    assert attempt.join(10)
    assert master.records["out"] == run_plan(plan, 5).collected["out"]


@pytest.mark.parametrize("seed", range(5))
def test_jobs_take_their_time_from_the_clock_they_are_given(seed: int) -> None:
    class Now(ProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
            yield ctx.timer_service().current_processing_time()

    flow, script = Flow(1), [Pause(5.0), Emit(["a"]), Pause(3.0)]
    flow.collect(flow.process(flow.source(ScriptedSource(script)), Now()), "out")
    clock, master = ManualClock(100.0), LocalMaster()
    plan = flow.plan(**{"execution.runtime-mode": "STREAMING"})
    attempt = SimulatorExecutor(seed=seed, clock=clock).start(Deployment("0" * 32, 0, plan), master)
    assert attempt.join(10)
    assert master.records["out"] == [105_000]
    assert clock.now() == 108.0


class Stage(MapFunction):
    log: list[tuple[str, str]] = []

    def __init__(self, name: str) -> None:
        self.name = name

    def map(self, value: Any) -> Any:
        Stage.log.append((self.name, "map"))
        return value

    def close(self) -> None:
        Stage.log.append((self.name, "close"))


@pytest.fixture
def stages() -> Iterator[list[tuple[str, str]]]:
    Stage.log.clear()
    yield Stage.log
    Stage.log.clear()


@pytest.mark.parametrize("seed", range(5))
def test_in_batch_a_stage_starts_when_the_one_before_has_ended(
    seed: int, stages: list[tuple[str, str]]
) -> None:
    flow = Flow(2)
    stream = flow.map(flow.source(list(range(10))), Stage("first"))
    flow.collect(flow.map(stream, Stage("second"), by=Rebalance()), "out")
    flow.run(seed, **{"execution.runtime-mode": "BATCH"})
    last_of_first = max(i for i, (name, _) in enumerate(stages) if name == "first")
    assert stages[last_of_first][1] == "close"
    assert all(name == "second" for name, _ in stages[last_of_first + 1 :])
    assert min(i for i, (name, _) in enumerate(stages) if name == "second") > last_of_first


# Time --------------------------------------------------------------------------------------------------


class Clock(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:
        yield value, ctx.timer_service().current_processing_time() - int(START * 1000)


def test_time_stands_still_until_everything_is_idle_then_jumps() -> None:
    flow = Flow()
    script: list[Step] = [Emit([1]), Pause(3600.0), Emit([2]), Pause(0.25), Emit([3])]
    flow.collect(flow.process(flow.source(ScriptedSource(script)), Clock(), by=Rebalance()), "out")
    started = time.monotonic()
    assert flow.run(1).collected["out"] == [(1, 0), (2, 3_600_000), (3, 3_600_250)]
    assert time.monotonic() - started < 5


# What a job says ---------------------------------------------------------------------------------------


def test_messages_of_a_job_that_finishes() -> None:
    flow = Flow()
    flow.print(flow.map(flow.source([1, 2]), lambda v: v, by=Rebalance()), "out")
    attempt, master = start(flow)
    assert attempt.join(10)
    assert attempt.error() is None
    for task in master.senders:
        kinds = [type(message) for sender, message in master.messages if sender == task]
        # Reports come every so often, too, when a run takes long.
        said = [kind for kind in kinds if kind is not TextOutput]
        assert list(dict.fromkeys(said)) == [TaskStarted, TaskReport, TaskFinished]
        assert (said[0], said[-2:]) == (TaskStarted, [TaskReport, TaskFinished])
    assert master.of_kind(TaskStarted)[0].attempt == 2
    assert "".join(text.text for text in master.of_kind(TextOutput)) == "out> 1\nout> 2\n"


def test_printed_text_statistics_and_accumulators_are_in_the_result(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def shout(value: int) -> int:
        print("user print", value)
        return value

    flow = Flow(2)
    stream = flow.map(flow.source([1, 2, 3]), shout)
    flow.print(stream, to_stderr=True)
    result = flow.run()
    assert result.statistics["Map"].records_in == 3
    assert sorted(line[3:] for line in result.stderr.splitlines()) == ["1", "2", "3"]
    assert sorted(capsys.readouterr().out.splitlines()) == ["user print 1", "user print 2", "user print 3"]


def test_collect_sink_keeps_records_by_subtask() -> None:
    flow = Flow(2)
    sink = CollectSink()
    flow.sink(flow.source([1, 2, 3, 4], timestamps=[10, 20, 30, 40]), sink, by=Rebalance())
    flow.run()
    assert sorted(zip(sink.values, sink.timestamps, strict=True)) == [(1, 10), (2, 20), (3, 30), (4, 40)]
    assert sink.values_of(0) == [1, 3]
    assert sink.values_of(1) == [2, 4]


# Control -----------------------------------------------------------------------------------------------


class Endless(SourceFunction):
    def __init__(self) -> None:
        self.running = True

    def run(self, ctx: SourceFunction.SourceContext) -> None:
        number = 0
        while self.running:
            ctx.collect(number)
            number += 1

    def cancel(self) -> None:
        self.running = False


class OpenAndClosed(MapFunction):
    count = 0

    def open(self, runtime_context: RuntimeContext) -> None:
        OpenAndClosed.count += 1

    def map(self, value: Any) -> Any:
        return value

    def close(self) -> None:
        OpenAndClosed.count -= 1


def endless(parallelism: int = 2) -> Flow:
    flow = Flow(parallelism)
    flow.collect(flow.map(flow.function_source(Endless()), OpenAndClosed()), "out")
    return flow


def test_cancel_closes_every_task() -> None:
    OpenAndClosed.count = 0
    attempt, master = start(endless())
    wait_for(lambda: master.records.get("out"))
    master.broadcast(CancelTask())
    assert attempt.join(10)
    assert isinstance(attempt.error(), JobCancelledError)
    assert len(master.of_kind(TaskCancelled)) == len(master.senders)
    assert OpenAndClosed.count == 0


def test_stop_processes_everything_in_flight() -> None:
    attempt, master = start(endless())
    wait_for(lambda: master.records.get("out"))
    master.broadcast(StopSources())
    assert attempt.join(10)
    assert attempt.error() is None
    numbers = sorted(master.records["out"])
    assert numbers == list(range(len(numbers)))


def test_stop_ends_a_source_that_waits() -> None:
    flow = Flow()
    flow.collect(flow.source(ScriptedSource([Emit([1]), WaitForever()], boundedness=ENDLESS)), "out")
    attempt, master = start(flow)
    wait_for(lambda: master.records.get("out"))
    master.broadcast(StopSources())
    assert attempt.join(10)
    assert attempt.error() is None


def test_stop_before_the_tasks_are_open_is_not_lost() -> None:
    flow = Flow()
    flow.collect(flow.source(ScriptedSource([Emit([1]), WaitForever()], boundedness=ENDLESS)), "out")
    master = LocalMaster()
    attempt = SimulatedAttempt(Deployment("0" * 32, 0, flow.plan()), StopAtOnce(master), 0, patience=300)
    attempt.run()
    assert attempt.error() is None
    assert len(master.of_kind(TaskFinished)) == 1


class StopAtOnce:
    """A master that asks every task to stop as soon as it can be reached, long before it is open."""

    def __init__(self, master: LocalMaster) -> None:
        self._master = master

    def __getattr__(self, name: str) -> Any:
        return getattr(self._master, name)

    def connected(self, task: TaskId, send: Callable[[MasterMessage], None]) -> None:
        self._master.connected(task, send)
        send(StopSources())


def test_kill_ends_the_attempt_at_once() -> None:
    attempt, master = start(endless())
    wait_for(lambda: master.records.get("out"))
    attempt.kill()
    assert attempt.join(10)
    assert isinstance(attempt.error(), JobCancelledError)


def test_a_source_function_that_blocks_is_awaited() -> None:
    class Slow(SourceFunction):
        def run(self, ctx: SourceFunction.SourceContext) -> None:
            for number in range(3):
                threading.Event().wait(0.02)
                ctx.collect(number)

    flow = Flow()
    flow.collect(flow.map(flow.function_source(Slow()), lambda v: v, by=Rebalance()), "out")
    assert flow.run(0, **{"execution.runtime-mode": "STREAMING"}).collected["out"] == [0, 1, 2]


# Failures ----------------------------------------------------------------------------------------------


def test_a_failing_task_reports_and_the_others_are_closed() -> None:
    OpenAndClosed.count = 0
    flow = Flow(2)
    stream = flow.map(flow.source(list(range(100))), OpenAndClosed())
    flow.collect(flow.map(stream, lambda v: 1 // (v - 50), by=Rebalance()), "out")
    attempt, master = start(flow, seed=11)
    assert attempt.join(10)
    (failure,) = master.of_kind(TaskFailed)
    assert "simulator seed: 11" in failure.summary
    error = to_exception(failure)
    assert isinstance(error, UserCodeError)
    assert error.record == "50"
    assert "simulator seed: 11" in "".join(error.__notes__)
    assert isinstance(attempt.error(), UserCodeError)
    assert OpenAndClosed.count == 0


def test_an_error_in_close_fails_a_task_that_had_finished() -> None:
    class Bad(MapFunction):
        def map(self, value: Any) -> Any:
            return value

        def close(self) -> None:
            raise OSError("disk full")

    flow = Flow()
    flow.collect(flow.map(flow.source([1]), Bad()), "out")
    attempt, master = start(flow)
    assert attempt.join(10)
    assert "disk full" in master.of_kind(TaskFailed)[0].summary
    assert master.of_kind(TaskFinished) == []


def test_a_failing_source_names_itself() -> None:
    flow = Flow()
    flow.collect(flow.source(ScriptedSource([Emit([1]), Fail(OSError("broker gone"))])), "out")
    with pytest.raises(UserCodeError, match="broker gone") as caught:
        flow.run()
    assert caught.value.operator == "Source: numbers"


def test_exit_in_user_code_is_a_failure() -> None:
    def leave(value: Any) -> Any:
        raise SystemExit(3)

    flow = Flow()
    flow.collect(flow.map(flow.source([1]), leave), "out")
    attempt, master = start(flow)
    assert attempt.join(10)
    (failure,) = master.of_kind(TaskFailed)
    error = to_exception(failure)
    assert isinstance(error, UserCodeError)
    assert "SystemExit: 3" in str(error)
    assert (error.operator, error.record) == ("Map", "1")
    assert "leave at test_simulator.py" in error.function


# What it must notice -----------------------------------------------------------------------------------


@pytest.mark.parametrize("then", [WaitForever(), Pause(1.0)])
def test_a_missing_flush_row_is_noticed(then: Step, monkeypatch: pytest.MonkeyPatch) -> None:
    take = Outbox.take
    monkeypatch.setattr(Outbox, "take", lambda self, flush: take(self, False))
    flow = Flow()
    source = flow.source(ScriptedSource([Emit([1]), then]))
    flow.collect(flow.map(source, lambda v: v, by=Rebalance()), "out")
    with pytest.raises(SimulationDeadlockError, match=r"1 payload\(s\) on the way") as caught:
        run_plan(flow.plan(), 4, patience=0.05)
    assert "simulator seed: 4" in "".join(caught.value.__notes__)
