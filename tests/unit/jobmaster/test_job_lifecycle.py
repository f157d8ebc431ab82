"""The life of a job, driven by hand: every rule of the machine, no threads, no time."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from firesteel.common.errors import JobCancelledError, JobExecutionError, TaskLostError, UserCodeError
from firesteel.common.job_status import JobStatus
from firesteel.jobmaster.job_lifecycle import (
    AttemptEnded,
    CancelRequested,
    ChangeStatus,
    CompleteJob,
    Event,
    Instruction,
    JobLifecycle,
    KillAttempt,
    MasterFailed,
    Origin,
    SendToTasks,
    SetTimer,
    StartAttempt,
    StopRequested,
    Submitted,
    TaskConnected,
    TaskDisconnected,
    TaskSaid,
    Timer,
    TimerElapsed,
)
from firesteel.plan.job_plan import JobPlan, StagePlan, VertexPlan
from firesteel.plan.messages import (
    CancelTask,
    StopSources,
    TaskCancelled,
    TaskFinished,
    TaskId,
    TaskMessage,
    TaskStarted,
)
from firesteel.plan.operator_specs import RuntimeMode
from firesteel.plan.task_failure import to_message

GRACE = 2.0
A, B, C = TaskId(0, 0), TaskId(1, 0), TaskId(1, 1)
TASKS = (A, B, C)


def two_stages(mode: RuntimeMode = RuntimeMode.STREAMING) -> JobPlan:
    source = VertexPlan(0, "Source: words", 0, 0, 1, 128, ())
    count = VertexPlan(1, "Count", 1, 0, 2, 128, ())
    stages = (StagePlan(0, 1, (0,)), StagePlan(1, 2, (1,)))
    return JobPlan("job", mode, stages, (source, count), ())


class Driver:
    """A lifecycle together with everything it has instructed."""

    def __init__(self, mode: RuntimeMode = RuntimeMode.STREAMING, remote: bool = True) -> None:
        self.machine = JobLifecycle(two_stages(mode), GRACE)
        self.remote = remote
        self.instructions: list[Instruction] = []

    def on(self, event: Event) -> list[Instruction]:
        out = self.machine.handle(event)
        self.instructions += out
        return out

    def connect(self, *tasks: TaskId, connection: int = 0) -> list[Instruction]:
        return [
            i
            for task in tasks
            for i in self.on(TaskConnected(Origin(1, task, connection), f"host{task.index}", 42, self.remote))
        ]

    def say(self, task: TaskId, message: TaskMessage, connection: int = 0) -> list[Instruction]:
        return self.on(TaskSaid(Origin(1, task, connection), message))

    def run(self) -> Driver:
        self.on(Submitted())
        self.connect(*TASKS)
        for task in TASKS:
            self.say(task, TaskStarted("h", 1))
        return self

    def end(self, error: BaseException | None = None) -> list[Instruction]:
        return self.on(AttemptEnded(1, error))

    @property
    def completion(self) -> CompleteJob:
        (found,) = [i for i in self.instructions if isinstance(i, CompleteJob)]
        return found

    @property
    def statuses(self) -> list[JobStatus]:
        return [i.status for i in self.instructions if isinstance(i, ChangeStatus)]


def boom() -> UserCodeError:
    return UserCodeError("ValueError: boom", operator="Count", subtask=0, parallelism=2)


def test_submission_starts_the_first_attempt() -> None:
    assert Driver().on(Submitted()) == [StartAttempt(1)]


def test_streaming_job_runs_when_every_task_has_started() -> None:
    driver = Driver()
    driver.on(Submitted())
    driver.connect(*TASKS)
    driver.say(A, TaskStarted("h", 1))
    driver.say(B, TaskStarted("h", 1))
    assert driver.machine.status is JobStatus.CREATED
    assert driver.say(C, TaskStarted("h", 1)) == [ChangeStatus(JobStatus.RUNNING)]


def test_batch_job_runs_when_the_first_task_has_started() -> None:
    driver = Driver(RuntimeMode.BATCH)
    driver.on(Submitted())
    driver.connect(A)
    assert driver.say(A, TaskStarted("h", 1)) == [ChangeStatus(JobStatus.RUNNING)]


def test_job_finishes_when_engine_and_all_tasks_have_ended() -> None:
    driver = Driver().run()
    for task in TASKS:
        driver.say(task, TaskFinished())
        driver.on(TaskDisconnected(Origin(1, task)))
    assert driver.end() == [ChangeStatus(JobStatus.FINISHED), CompleteJob(JobStatus.FINISHED, None)]


def test_job_waits_for_last_words_that_are_on_their_way() -> None:
    driver = Driver().run()
    driver.say(A, TaskFinished())
    driver.say(B, TaskFinished())
    assert driver.end() == [SetTimer(1, Timer.DRAIN, pytest.approx(3.0))]
    driver.say(C, TaskFinished())
    assert driver.completion == CompleteJob(JobStatus.FINISHED, None)


def test_task_that_never_finished_fails_the_job() -> None:
    driver = Driver(remote=False).run()
    driver.say(A, TaskFinished())
    driver.say(B, TaskFinished())
    driver.end()
    assert driver.completion.status is JobStatus.FAILED
    assert "Count (2/2) on h, process 1 never said that it had finished" in str(driver.completion.error)


def test_failed_task_cancels_the_others_then_the_attempt_is_killed() -> None:
    driver = Driver().run()
    out = driver.say(B, to_message(boom()))
    assert out == [
        ChangeStatus(JobStatus.FAILING),
        SendToTasks((A, C), CancelTask()),
        SetTimer(1, Timer.GRACE, GRACE),
    ]
    assert driver.say(A, TaskCancelled()) == []
    assert driver.say(C, TaskCancelled()) == [KillAttempt(1), SetTimer(1, Timer.KILL, pytest.approx(15.0))]
    driver.end(RuntimeError("cancelled"))
    assert driver.completion.status is JobStatus.FAILED
    assert str(driver.completion.error) == str(boom())


def test_first_failure_wins() -> None:
    driver = Driver().run()
    driver.say(A, to_message(JobExecutionError("first")))
    driver.say(B, to_message(JobExecutionError("second")))
    driver.on(TaskDisconnected(Origin(1, C)))
    driver.end(RuntimeError("Job aborted due to stage failure"))
    assert str(driver.completion.error) == "first"


def test_failure_message_beats_an_engine_error_that_came_before_it() -> None:
    driver = Driver().run()
    driver.end(RuntimeError("Job aborted due to stage failure"))
    driver.say(B, to_message(boom()))
    for task in (A, C):
        driver.on(TaskDisconnected(Origin(1, task)))
    assert isinstance(driver.completion.error, UserCodeError)


def test_engine_error_counts_when_no_task_said_anything() -> None:
    driver = Driver().run()
    reason = JobExecutionError("the executor was lost")
    driver.end(reason)
    for task in TASKS:
        driver.on(TaskDisconnected(Origin(1, task)))
    assert driver.completion == CompleteJob(JobStatus.FAILED, reason)


def test_engine_error_counts_after_the_drain_time() -> None:
    driver = Driver().run()
    reason = JobExecutionError("gone")
    driver.end(reason)
    driver.on(TimerElapsed(1, Timer.DRAIN))
    assert driver.completion.error is reason


def test_engine_that_cannot_start_fails_the_job() -> None:
    driver = Driver()
    driver.on(Submitted())
    reason = JobExecutionError("not enough slots")
    driver.end(reason)
    assert driver.completion == CompleteJob(JobStatus.FAILED, reason)
    assert driver.statuses == [JobStatus.FAILING, JobStatus.FAILED]


def test_lost_connection_fails_a_streaming_job_with_the_engines_reason_as_note() -> None:
    driver = Driver().run()
    driver.on(TaskDisconnected(Origin(1, C)))
    for task in (A, B):
        driver.say(task, TaskCancelled())
    assert not any(isinstance(i, KillAttempt) for i in driver.instructions), "the engine notices by itself"
    driver.end(RuntimeError("worker exited"))
    error = driver.completion.error
    assert isinstance(error, TaskLostError)
    assert str(error).startswith(
        "lost task Count (2/2) on h, process 1: its Python worker process was killed"
    )
    assert error.__notes__ == ["the engine reported: worker exited"]


def test_task_lost_before_it_started_is_described_by_its_hello() -> None:
    driver = Driver()
    driver.on(Submitted())
    driver.connect(C)
    driver.on(TaskDisconnected(Origin(1, C)))
    driver.end(RuntimeError("x"))
    assert "Count (2/2) on host1, process 42" in str(driver.completion.error)


def test_lost_task_kills_the_attempt_if_the_engine_does_not_notice() -> None:
    driver = Driver().run()
    driver.on(TaskDisconnected(Origin(1, C)))
    assert KillAttempt(1) in driver.on(TimerElapsed(1, Timer.GRACE))


def test_batch_job_survives_a_lost_task_that_the_engine_repeats() -> None:
    driver = Driver(RuntimeMode.BATCH).run()
    driver.connect(C, connection=2)  # the repetition may come before the loss is noticed
    driver.on(TaskDisconnected(Origin(1, C, 0)))
    for task, connection in ((A, 0), (B, 0), (C, 2)):
        driver.say(task, TaskFinished(), connection)
    driver.end()
    assert driver.completion.status is JobStatus.FINISHED


def test_batch_job_fails_with_the_loss_when_the_engine_gives_up() -> None:
    driver = Driver(RuntimeMode.BATCH).run()
    driver.on(TaskDisconnected(Origin(1, C)))
    assert driver.machine.status is JobStatus.RUNNING
    driver.end(RuntimeError("task failed 4 times"))
    driver.on(TimerElapsed(1, Timer.DRAIN))
    assert isinstance(driver.completion.error, TaskLostError)


def test_cancel_asks_tasks_and_kills_when_all_have_answered() -> None:
    driver = Driver().run()
    assert driver.on(CancelRequested()) == [
        ChangeStatus(JobStatus.CANCELLING),
        SendToTasks(TASKS, CancelTask()),
        SetTimer(1, Timer.GRACE, GRACE),
    ]
    for task in TASKS:
        driver.say(task, TaskCancelled())
    assert KillAttempt(1) in driver.instructions
    driver.end(RuntimeError("Job was cancelled"))
    assert driver.completion.status is JobStatus.CANCELED
    assert isinstance(driver.completion.error, JobCancelledError)


def test_cancel_kills_when_the_grace_is_over() -> None:
    driver = Driver().run()
    driver.on(CancelRequested())
    assert KillAttempt(1) in driver.on(TimerElapsed(1, Timer.GRACE))


def test_job_is_over_even_if_the_engine_never_ends_the_attempt() -> None:
    driver = Driver().run()
    driver.on(CancelRequested())
    driver.on(TimerElapsed(1, Timer.GRACE))
    driver.on(TimerElapsed(1, Timer.KILL))
    assert driver.completion.status is JobStatus.CANCELED


def test_cancel_before_any_task_is_there_kills_at_once() -> None:
    driver = Driver()
    driver.on(Submitted())
    assert KillAttempt(1) in driver.on(CancelRequested())
    assert driver.connect(A) == [SendToTasks((A,), CancelTask())], "late tasks are told on arrival"


def test_failure_while_cancelling_is_not_the_jobs_error() -> None:
    driver = Driver().run()
    driver.on(CancelRequested())
    driver.say(A, to_message(boom()))
    for task in (B, C):
        driver.say(task, TaskCancelled())
    driver.end()
    assert driver.completion.status is JobStatus.CANCELED


def test_stop_ends_sources_and_the_job_finishes() -> None:
    driver = Driver().run()
    assert driver.on(StopRequested()) == [SendToTasks(TASKS, StopSources())]
    assert driver.on(StopRequested()) == []
    for task in TASKS:
        driver.say(task, TaskFinished())
    driver.end()
    assert driver.completion.status is JobStatus.FINISHED


def test_stop_reaches_tasks_that_connect_later() -> None:
    driver = Driver()
    driver.on(Submitted())
    driver.on(StopRequested())
    assert driver.connect(A) == [SendToTasks((A,), StopSources())]


def test_trouble_in_the_master_fails_the_job() -> None:
    driver = Driver().run()
    reason = BrokenPipeError("stdout")
    driver.on(MasterFailed(reason))
    for task in TASKS:
        driver.say(task, TaskCancelled())
    driver.end()
    assert driver.completion == CompleteJob(JobStatus.FAILED, reason)


@pytest.mark.parametrize(
    "event",
    [
        TaskSaid(Origin(7, A), to_message(boom())),
        TaskDisconnected(Origin(7, A)),
        TaskConnected(Origin(7, A)),
        AttemptEnded(7, RuntimeError("old")),
        TimerElapsed(7, Timer.GRACE),
        TaskSaid(Origin(1, TaskId(9, 9)), TaskFinished()),
    ],
)
def test_events_of_other_attempts_are_ignored(event: Event) -> None:
    assert Driver().run().on(event) == []


class AnyOrder(RuleBasedStateMachine):
    """Events in any order, sensible or not: the job ends once, in legal steps, and then is silent."""

    def __init__(self) -> None:
        super().__init__()
        self.driver = Driver()
        self.submitted = False
        self.status = JobStatus.CREATED
        self.over = False

    def send(self, event: Event) -> None:
        out = self.driver.on(event)
        assert not (self.over and out), "nothing may follow the end"
        for instruction in out:
            assert not self.over, "the end is the last instruction"
            if isinstance(instruction, ChangeStatus):
                assert self.status.can_become(instruction.status)
                self.status = instruction.status
            if isinstance(instruction, CompleteJob):
                self.over = True
                assert instruction.status is self.status
                assert (instruction.error is None) == (instruction.status is JobStatus.FINISHED)

    origins = st.builds(
        Origin, st.sampled_from([1, 1, 1, 2]), st.sampled_from(TASKS), st.sampled_from([0, 0, 1])
    )
    messages = st.sampled_from(
        [TaskStarted("h", 1), TaskFinished(), TaskCancelled(), to_message(JobExecutionError("x"))]
    )

    @rule()
    def submit(self) -> None:
        self.send(Submitted())
        self.submitted = True

    @rule(origin=origins, remote=st.booleans())
    def connect(self, origin: Origin, remote: bool) -> None:
        self.send(TaskConnected(origin, "h", 1, remote))

    @rule(origin=origins, message=messages)
    def say(self, origin: Origin, message: TaskMessage) -> None:
        self.send(TaskSaid(origin, message))

    @rule(origin=origins)
    def disconnect(self, origin: Origin) -> None:
        self.send(TaskDisconnected(origin))

    @rule(error=st.sampled_from([None, JobExecutionError("engine")]))
    def end(self, error: BaseException | None) -> None:
        self.send(AttemptEnded(1, error))

    @rule(timer=st.sampled_from(Timer))
    def elapse(self, timer: Timer) -> None:
        asked = {i.timer for i in self.driver.instructions if isinstance(i, SetTimer)}
        if timer in asked:
            self.send(TimerElapsed(1, timer))

    @rule(event=st.sampled_from([CancelRequested(), StopRequested(), MasterFailed(OSError("x"))]))
    def ask(self, event: Event) -> None:
        self.send(event)

    @precondition(lambda self: self.submitted and not self.over)
    @rule(cancel=st.booleans())
    def bring_to_an_end(self, cancel: bool) -> None:
        if cancel:
            self.send(CancelRequested())
        self.send(AttemptEnded(1, None))
        self.send(TimerElapsed(1, Timer.DRAIN))
        assert self.over, "an attempt that has ended and time enough always end the job"

    @invariant()
    def status_is_what_was_announced(self) -> None:
        assert self.driver.machine.status is self.status


AnyOrder.TestCase.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
TestAnyOrder: Callable[..., object] = AnyOrder.TestCase
