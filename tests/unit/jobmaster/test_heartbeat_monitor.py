"""Signs of life in the master's core, with a clock moved by hand: who is lost, and when nobody may be."""

from __future__ import annotations

import pytest

from firesteel.common.configuration import Configuration
from firesteel.common.errors import HeartbeatError, InvalidOptionError
from firesteel.common.job_status import JobStatus
from firesteel.jobmaster.events import (
    AttemptEnded,
    Event,
    SilenceMeasured,
    Submitted,
    TaskConnected,
    TaskOrigin,
    TaskSaid,
    Timer,
    TimerElapsed,
)
from firesteel.jobmaster.heartbeat_settings import read_heartbeat
from firesteel.jobmaster.instructions import Instruction, MeasureSilence, SendToTasks, SetTimer
from firesteel.jobmaster.master_core import MasterCore, MasterSettings
from firesteel.jobmaster.restart_policy import FixedDelay
from firesteel.plan.heartbeat import HeartbeatSettings, Trust
from firesteel.plan.job_plan import JobPlan, StagePlan, VertexPlan
from firesteel.plan.messages import Alive, TaskCancelled, TaskId, TaskStarted
from firesteel.plan.operator_specs import RuntimeMode

A, B = TaskId(0, 0), TaskId(0, 1)
SETTINGS = HeartbeatSettings(interval=10.0, timeout=50.0)


class Driver:
    """A core with two tasks, of which each was last heard at a known time, and a clock."""

    def __init__(self) -> None:
        vertex = VertexPlan(0, "Map", 0, 0, 2, 128, ())
        plan = JobPlan("job", RuntimeMode.STREAMING, (StagePlan(0, 2, (0,)),), (vertex,), ())
        self.core = MasterCore(plan, MasterSettings(policy=FixedDelay(5, 0.0), heartbeat=SETTINGS))
        self.now = 1000.0
        self.due: dict[Timer, float] = {}
        self.heard = {A: self.now, B: self.now}
        self.engine: float | None = None
        self.busy: set[TaskId] = set()
        self.on(Submitted())
        for task in (A, B):
            self.on(TaskConnected(TaskOrigin(1, task), "host", 40 + task.index, remote=True))
            self.on(TaskSaid(TaskOrigin(1, task), TaskStarted("host", 40 + task.index)))

    def on(self, event: Event) -> list[Instruction]:
        out = self.core.handle(event, self.now)
        for instruction in out:
            match instruction:
                case SetTimer(_, timer, seconds):
                    self.due[timer] = self.now + seconds
                case MeasureSilence(attempt):
                    self.on(self.measured(attempt))
        return out

    def measured(self, attempt: int) -> SilenceMeasured:
        listened = tuple(
            (TaskOrigin(attempt, task), self.now - at)
            for task, at in self.heard.items()
            if task not in self.busy
        )
        return SilenceMeasured(attempt, listened, None if self.engine is None else self.now - self.engine)

    def pass_time(self, seconds: float, *speaking: TaskId) -> None:
        """Let time pass, with the timers that fall due, while some tasks go on giving signs of life."""
        end = self.now + seconds
        while (moment := self.due.get(Timer.HEARTBEAT, end)) < end:
            self.now = moment
            self.heard.update(dict.fromkeys(speaking, self.now))
            del self.due[Timer.HEARTBEAT]
            self.on(TimerElapsed(self.core.attempt, Timer.HEARTBEAT))
        self.now = end
        self.heard.update(dict.fromkeys(speaking, self.now))


def test_tasks_that_are_heard_are_left_alone() -> None:
    driver = Driver()
    driver.pass_time(10_000.0, A, B)
    assert driver.core.status is JobStatus.RUNNING


def test_task_that_falls_silent_is_noticed_when_its_time_is_over() -> None:
    driver = Driver()
    driver.pass_time(100.0, A, B)
    driver.pass_time(49.0, A)
    assert driver.core.status is JobStatus.RUNNING
    driver.pass_time(3.0, A)  # looks fall where the most silent one's time is over
    assert driver.core.status is JobStatus.FAILING
    (news,) = driver.core.drain_news()
    assert "Map (2/2) on host, process 41" in news
    assert driver.core.failures[0].error == HeartbeatError.__name__


def test_task_to_which_nobody_listens_is_not_silent() -> None:
    driver = Driver()
    driver.busy.add(B)  # the thread that reads it writes to a terminal that does not move
    driver.pass_time(500.0, A)
    assert driver.core.status is JobStatus.RUNNING
    driver.busy.clear()
    driver.pass_time(60.0, A)
    assert driver.core.status is JobStatus.FAILING


def test_engine_that_does_not_answer_is_noticed() -> None:
    driver = Driver()
    driver.engine = driver.now
    driver.pass_time(60.0, A, B)
    assert driver.core.status is JobStatus.FAILING
    assert "Spark's driver process has not answered" in driver.core.drain_news()[0]


def test_master_that_was_stopped_itself_judges_nobody_before_it_has_listened() -> None:
    driver = Driver()
    driver.pass_time(20.0, A, B)
    driver.now += 3600.0  # the driver's process was stopped; what tasks said waits in the sockets
    driver.due.clear()
    driver.on(TimerElapsed(1, Timer.HEARTBEAT))
    assert driver.core.status is JobStatus.RUNNING
    driver.pass_time(30.0, A)
    assert driver.core.status is JobStatus.RUNNING
    driver.pass_time(40.0, A)
    assert driver.core.status is JobStatus.FAILING, "one that stays silent is lost all the same"


def test_next_attempt_is_watched_too_and_earlier_ones_are_not() -> None:
    driver = Driver()
    driver.pass_time(60.0, A)
    assert driver.core.status is JobStatus.FAILING
    driver.on(TaskSaid(TaskOrigin(1, A), TaskCancelled()))
    driver.on(AttemptEnded(1, RuntimeError("killed")))
    driver.on(TimerElapsed(1, Timer.RESTART))
    assert driver.core.attempt == 2
    assert driver.on(TimerElapsed(1, Timer.HEARTBEAT)) == []
    assert driver.on(driver.measured(1)) == []
    for task in (A, B):
        driver.heard[task] = driver.now
        driver.on(TaskConnected(TaskOrigin(2, task), "host", 50, remote=True))
        driver.on(TaskSaid(TaskOrigin(2, task), TaskStarted("host", 50)))
    driver.pass_time(60.0, B)
    assert driver.core.status is JobStatus.FAILING
    assert [failure.attempt for failure in driver.core.failures] == [2, 1]


def test_only_a_task_that_counts_gets_an_answer() -> None:
    driver = Driver()
    assert driver.on(TaskSaid(TaskOrigin(1, A), Alive(7))) == [SendToTasks((A,), Alive(7))]
    driver.pass_time(60.0, A)  # B is given up, and with it the attempt
    for task in (A, B):
        assert driver.on(TaskSaid(TaskOrigin(1, task), Alive(8))) == []


def test_task_that_wakes_up_has_no_trust_until_its_master_answers() -> None:
    trust = Trust(SETTINGS, now=0.0)
    answered = trust.ask(10.0)
    trust.answered(answered)
    old = trust.ask(20.0)
    # Stopped from 21 to 200. What its master had answered before it gave the task up waits in the socket.
    trust.answered(old)
    assert trust.until == 70.0
    fresh = trust.ask(200.0)
    assert trust.until < 200.0
    trust.answered(fresh)
    assert trust.until == 250.0


def test_trust_ends_before_the_master_can_give_the_task_up() -> None:
    """Asked at a, heard by the master at a or later: it waits until a + timeout at least."""
    driver, trust = Driver(), Trust(SETTINGS, 1000.0)
    driver.pass_time(5.0, A, B)
    question = trust.ask(driver.now)
    driver.pass_time(1.0, A, B)  # on its way
    driver.on(TaskSaid(TaskOrigin(1, B), Alive(question)))
    trust.answered(question)
    driver.pass_time(trust.until - driver.now, A)
    assert driver.core.status is JobStatus.RUNNING


def test_options_are_checked() -> None:
    assert read_heartbeat(Configuration()) == HeartbeatSettings(10.0, 50.0)
    given = Configuration.from_dict({"heartbeat.interval": "200 ms", "heartbeat.timeout": "2 s"})
    assert read_heartbeat(given) == HeartbeatSettings(0.2, 2.0)
    for wrong in ({"heartbeat.interval": "0 s"}, {"heartbeat.timeout": "15 s"}):
        with pytest.raises(InvalidOptionError, match=r"option 'heartbeat\."):
            read_heartbeat(Configuration.from_dict(wrong))
