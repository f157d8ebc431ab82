"""The life of a job, driven by hand: every rule of the machine, no threads, no time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from firesteel.common.errors import (
    CorruptStateError,
    HeartbeatError,
    IncompatibleStateError,
    InvalidKeyError,
    JobCancelledError,
    JobExecutionError,
    JobTakenOverError,
    NotEnoughSlotsError,
    StorageError,
    TaskLostError,
    UpstreamLostError,
    UserCodeError,
)
from firesteel.common.job_status import JobStatus
from firesteel.jobmaster.events import (
    AttemptAccepted,
    AttemptEnded,
    AttemptFailed,
    CancelRequested,
    EngineSilent,
    LifecycleEvent,
    MasterFailed,
    RestoreFound,
    RestoreNotFound,
    StopRequested,
    Submitted,
    TaskConnected,
    TaskDisconnected,
    TaskOrigin,
    TaskSaid,
    TasksEndForRescale,
    TaskSilent,
    Timer,
    TimerElapsed,
)
from firesteel.jobmaster.failure_history import FailureLabel, FailureLocation
from firesteel.jobmaster.instructions import (
    AnnounceRestart,
    AnswerRescale,
    ChangePlan,
    ChangeStatus,
    CompleteJob,
    FindRestore,
    Instruction,
    KillAttempt,
    SendToTasks,
    SetTimer,
    StartAttempt,
)
from firesteel.jobmaster.job_lifecycle import CANCEL_KILL_SECONDS, JobLifecycle
from firesteel.jobmaster.job_restore import JobRestore
from firesteel.jobmaster.restart_policy import FixedDelay, RestartPolicy
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
from firesteel.plan.state_handles import TaskRestore
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

    def __init__(
        self,
        mode: RuntimeMode = RuntimeMode.STREAMING,
        remote: bool = True,
        policy: RestartPolicy | None = None,
        first_attempt: int = 1,
        **settings: Any,
    ) -> None:
        self.machine = JobLifecycle(
            two_stages(mode), GRACE, policy, checkpointing=True, first_attempt=first_attempt, **settings
        )
        self.remote = remote
        self.instructions: list[Instruction] = []

    def on(self, event: LifecycleEvent) -> list[Instruction]:
        out = self.machine.handle(event)
        self.instructions += out
        return out

    def connect(self, *tasks: TaskId, connection: int = 0, executor: str = "") -> list[Instruction]:
        return [
            i
            for task in tasks
            for i in self.on(
                TaskConnected(
                    TaskOrigin(self.machine.attempt, task, connection),
                    f"host{task.index}",
                    42,
                    self.remote,
                    executor,
                )
            )
        ]

    def say(self, task: TaskId, message: TaskMessage, connection: int = 0) -> list[Instruction]:
        return self.on(TaskSaid(TaskOrigin(self.machine.attempt, task, connection), message))

    def run(self) -> Driver:
        self.on(Submitted())
        return self.all_start()

    def all_start(self) -> Driver:
        self.connect(*TASKS)
        for task in TASKS:
            self.say(task, TaskStarted("h", 1))
        return self

    def end(self, error: BaseException | None = None) -> list[Instruction]:
        return self.on(AttemptEnded(self.machine.attempt, error))

    def fail(self, error: BaseException | None = None) -> list[Instruction]:
        """A task fails; returns what follows when the attempt is over."""
        self.say(B, to_message(error or boom()))
        for task in (A, C):
            self.say(task, TaskCancelled())
        return self.end(RuntimeError("killed"))

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
    assert Driver().on(Submitted()) == [StartAttempt(1, checkpointing=True)]


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
        driver.on(TaskDisconnected(TaskOrigin(1, task)))
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
    driver.on(TaskDisconnected(TaskOrigin(1, C)))
    driver.end(RuntimeError("Job aborted due to stage failure"))
    assert str(driver.completion.error) == "first"


def test_failure_message_beats_an_engine_error_that_came_before_it() -> None:
    driver = Driver().run()
    driver.end(RuntimeError("Job aborted due to stage failure"))
    driver.say(B, to_message(boom()))
    for task in (A, C):
        driver.on(TaskDisconnected(TaskOrigin(1, task)))
    assert isinstance(driver.completion.error, UserCodeError)


def test_engine_error_counts_when_no_task_said_anything() -> None:
    driver = Driver().run()
    reason = JobExecutionError("the executor was lost")
    driver.end(reason)
    for task in TASKS:
        driver.on(TaskDisconnected(TaskOrigin(1, task)))
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
    driver.on(TaskDisconnected(TaskOrigin(1, C)))
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
    driver.on(TaskDisconnected(TaskOrigin(1, C)))
    driver.end(RuntimeError("x"))
    assert "Count (2/2) on host1, process 42" in str(driver.completion.error)


def test_lost_task_kills_the_attempt_if_the_engine_does_not_notice() -> None:
    driver = Driver().run()
    driver.on(TaskDisconnected(TaskOrigin(1, C)))
    assert KillAttempt(1) in driver.on(TimerElapsed(1, Timer.GRACE))


def test_batch_job_survives_a_lost_task_that_the_engine_repeats() -> None:
    driver = Driver(RuntimeMode.BATCH).run()
    driver.connect(C, connection=2)  # the repetition may come before the loss is noticed
    driver.on(TaskDisconnected(TaskOrigin(1, C, 0)))
    for task, connection in ((A, 0), (B, 0), (C, 2)):
        driver.say(task, TaskFinished(), connection)
    driver.end()
    assert driver.completion.status is JobStatus.FINISHED


def test_batch_job_fails_with_the_loss_when_the_engine_gives_up() -> None:
    driver = Driver(RuntimeMode.BATCH).run()
    driver.on(TaskDisconnected(TaskOrigin(1, C)))
    assert driver.machine.status is JobStatus.RUNNING
    driver.end(RuntimeError("task failed 4 times"))
    driver.on(TimerElapsed(1, Timer.DRAIN))
    assert isinstance(driver.completion.error, TaskLostError)


def test_cancel_asks_tasks_and_kills_when_all_have_answered() -> None:
    driver = Driver().run()
    assert driver.on(CancelRequested()) == [
        ChangeStatus(JobStatus.CANCELLING),
        SendToTasks(TASKS, CancelTask(for_good=True)),
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
    assert KillAttempt(1, by_force=True) in driver.on(TimerElapsed(1, Timer.KILL))
    driver.on(TimerElapsed(1, Timer.KILL))
    assert driver.completion.status is JobStatus.CANCELED
    assert "does not end; the job continues without it" in driver.machine.drain_news()[0]


def test_cancel_comes_through_within_ten_seconds_whatever_does_not_answer() -> None:
    driver = Driver().run()
    driver.on(CancelRequested())
    driver.on(TimerElapsed(1, Timer.GRACE))
    driver.on(TimerElapsed(1, Timer.KILL))
    driver.on(TimerElapsed(1, Timer.KILL))
    waits = [i.seconds for i in driver.instructions if isinstance(i, SetTimer)]
    assert driver.completion.status is JobStatus.CANCELED
    assert sum(waits) < 10.0


def test_cancel_of_a_job_whose_failed_attempt_does_not_end_hurries() -> None:
    driver = Driver(policy=FixedDelay(3, 1.0)).run()
    driver.say(B, to_message(boom()))
    driver.on(TimerElapsed(1, Timer.GRACE))
    (patience,) = [i for i in driver.on(CancelRequested()) if isinstance(i, SetTimer)]
    assert patience == SetTimer(1, Timer.KILL, CANCEL_KILL_SECONDS)
    driver.on(TimerElapsed(1, Timer.KILL))
    driver.on(TimerElapsed(1, Timer.KILL))
    assert driver.completion.status is JobStatus.CANCELED


# Signs of life.


def test_silent_task_fails_the_attempt_like_a_lost_one() -> None:
    driver = Driver(policy=FixedDelay(3, 1.0)).run()
    told = driver.on(TaskSilent(TaskOrigin(1, B), 51.2, 50.0))
    assert SendToTasks((A, C), CancelTask()) in told, "the silent one is not waited for"
    (news,) = driver.machine.drain_news()
    assert "Count (1/2) on h, process 1" in news
    assert "no sign of life for 51.2 s" in news
    for task in (A, C):
        driver.say(task, TaskCancelled())
    assert KillAttempt(1) in driver.instructions, "the engine does not know that it is lost"
    restart = driver.end(RuntimeError("killed"))
    (announcement,) = [i for i in restart if isinstance(i, AnnounceRestart)]
    assert isinstance(announcement.error, HeartbeatError)
    (failure,) = driver.machine.failures
    assert (failure.label, failure.location) == (
        FailureLabel.LOST_MACHINE,
        FailureLocation("Count", 0, "h", 1),
    )


def test_tasks_that_are_lost_together_are_told_together_and_none_is_waited_for() -> None:
    driver = Driver(policy=FixedDelay(3, 1.0)).run()
    for task in (B, C):
        driver.on(TaskSilent(TaskOrigin(1, task), 51.2, 50.0))
    driver.say(A, TaskCancelled())
    assert KillAttempt(1) in driver.instructions, "nobody else is there to say goodbye"
    driver.end(RuntimeError("killed"))
    (failure,) = driver.machine.failures
    (other,) = failure.concurrent
    assert (failure.location.operator, failure.location.subtask) == ("Count", 0)
    assert (other.location.operator, other.location.subtask) == ("Count", 1)
    assert other.label is FailureLabel.LOST_MACHINE
    assert len(driver.machine.drain_news()) == 1, "one line of the log for one thing that happened"


def test_host_that_was_lost_is_remembered_and_its_return_is_news() -> None:
    driver = Driver(policy=FixedDelay(3, 1.0)).run()
    (host,) = driver.machine.hosts
    assert (host.host, host.losses, host.is_lost) == ("h", 0, False)
    driver.on(TaskSilent(TaskOrigin(1, B), 51.2, 50.0))
    (host,) = driver.machine.hosts
    assert (host.losses, host.is_lost) == (1, True)
    assert "no sign of life" in host.reason
    driver.machine.drain_news()
    for task in (A, C):
        driver.say(task, TaskCancelled())
    driver.end(RuntimeError("killed"))
    driver.on(TimerElapsed(1, Timer.RESTART))
    driver.on(RestoreFound(2, None))
    driver.connect(A)
    driver.say(A, TaskStarted("h", 2))
    (news,) = driver.machine.drain_news()
    assert news.startswith("host 'h', which was lost ")
    (host,) = driver.machine.hosts
    assert (host.losses, host.is_lost, host.returned is not None) == (1, False, True)


def test_executor_that_the_engine_has_lost_is_a_lost_machine_with_its_host() -> None:
    driver = Driver(policy=FixedDelay(3, 1.0))
    driver.on(Submitted())
    driver.connect(A, B, executor="4")
    driver.connect(C, executor="5")
    driver.end(TaskLostError("Spark has lost executor 5: heartbeat timed out", executor="5"))
    driver.on(TimerElapsed(1, Timer.DRAIN))
    (failure,) = driver.machine.failures
    assert failure.label is FailureLabel.LOST_MACHINE
    assert (failure.location.host, failure.location.subtask) == ("host1", 1)
    assert [(host.host, host.losses) for host in driver.machine.hosts] == [("host1", 1)]


def test_host_is_not_lost_when_user_code_fails_there() -> None:
    driver = Driver(policy=FixedDelay(3, 1.0)).run()
    driver.say(B, to_message(boom()))
    (host,) = driver.machine.hosts
    assert (host.losses, host.is_lost) == (0, False)


def test_silence_of_an_earlier_connection_or_attempt_means_nothing() -> None:
    driver = Driver(policy=FixedDelay(3, 1.0)).run()
    assert driver.on(TaskSilent(TaskOrigin(1, B, connection=7), 51.0, 50.0)) == []
    assert driver.on(TaskSilent(TaskOrigin(9, B), 51.0, 50.0)) == []
    assert driver.on(EngineSilent(9, 51.0, 50.0)) == []
    assert driver.machine.status is JobStatus.RUNNING


def test_silent_task_fails_a_batch_job_too_because_spark_does_not_repeat_what_does_not_end() -> None:
    driver = Driver(RuntimeMode.BATCH).run()
    driver.on(TaskSilent(TaskOrigin(1, C), 51.0, 50.0))
    assert driver.machine.status is JobStatus.FAILING


def test_silent_engine_is_ended_by_force() -> None:
    driver = Driver(policy=FixedDelay(3, 1.0)).run()
    driver.on(EngineSilent(1, 60.0, 50.0))
    assert KillAttempt(1, by_force=True) in driver.on(TimerElapsed(1, Timer.GRACE))
    restart = driver.end(RuntimeError("the process is gone"))
    driver.on(TimerElapsed(1, Timer.DRAIN))
    announced = [i for i in driver.instructions if isinstance(i, AnnounceRestart)]
    assert restart or announced
    assert isinstance(announced[0].error, HeartbeatError)
    assert driver.machine.failures[0].label is FailureLabel.LOST_MACHINE


def test_tasks_that_never_report_fail_the_attempt() -> None:
    driver = Driver(deployment_seconds=300.0)
    driver.on(Submitted())
    assert SetTimer(1, Timer.DEPLOYMENT, 300.0) in driver.on(AttemptAccepted(1))
    driver.connect(A, C)
    driver.on(TimerElapsed(1, Timer.DEPLOYMENT))
    driver.end(RuntimeError("killed"))
    driver.on(TimerElapsed(1, Timer.DRAIN))
    assert "1 of 3 tasks have not reported" in str(driver.completion.error)
    assert "Count (1/2)" in str(driver.completion.error)


def test_tasks_that_have_reported_in_time_are_left_alone() -> None:
    driver = Driver(deployment_seconds=300.0)
    driver.on(Submitted())
    driver.on(AttemptAccepted(1))
    driver.connect(*TASKS)
    assert driver.on(TimerElapsed(1, Timer.DEPLOYMENT)) == []


# What is remembered.


def test_failures_are_remembered_with_attempt_place_and_label() -> None:
    driver = Driver(policy=FixedDelay(30, 0.0), remembered_failures=2).run()
    for attempt in (1, 2, 3):
        driver.fail(UserCodeError(f"ValueError: {attempt}", operator="Map", subtask=1, parallelism=2))
        driver.on(TimerElapsed(attempt, Timer.RESTART))
        driver.on(RestoreFound(attempt + 1, None))
        driver.all_start()
    newest, older = driver.machine.failures
    assert (newest.attempt, older.attempt) == (3, 2), "the size is bounded"
    assert newest.label is FailureLabel.USER_ERROR
    assert newest.error == "UserCodeError"
    assert newest.message.startswith("ValueError: 3")
    assert newest.location == FailureLocation("Map", 1, "h", 1)


@pytest.mark.parametrize(
    ("error", "label"),
    [
        (StorageError("no space"), FailureLabel.STORAGE),
        (CorruptStateError("cut off"), FailureLabel.STATE),
        (NotEnoughSlotsError(needed=4, available=2), FailureLabel.SLOTS),
        (TaskLostError("gone"), FailureLabel.LOST_MACHINE),
        (UpstreamLostError("ended early"), FailureLabel.LOST_MACHINE),
        (RuntimeError("Spark"), FailureLabel.ENGINE),
    ],
    ids=lambda value: value.name if isinstance(value, FailureLabel) else type(value).__name__,
)
def test_errors_of_the_engine_have_labels(error: BaseException, label: FailureLabel) -> None:
    driver = Driver().run()
    driver.end(error)
    driver.on(TimerElapsed(1, Timer.DRAIN))
    assert [failure.label for failure in driver.machine.failures] == [label]


def test_cancel_before_any_task_is_there_kills_at_once() -> None:
    driver = Driver()
    driver.on(Submitted())
    assert KillAttempt(1) in driver.on(CancelRequested())
    assert driver.connect(A) == [SendToTasks((A,), CancelTask(for_good=True))], (
        "late tasks are told on arrival"
    )


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
        TaskSaid(TaskOrigin(7, A), to_message(boom())),
        TaskDisconnected(TaskOrigin(7, A)),
        TaskConnected(TaskOrigin(7, A)),
        AttemptEnded(7, RuntimeError("old")),
        TimerElapsed(7, Timer.GRACE),
        TaskSaid(TaskOrigin(1, TaskId(9, 9)), TaskFinished()),
    ],
)
def test_events_of_other_attempts_are_ignored(event: LifecycleEvent) -> None:
    assert Driver().run().on(event) == []


# Restarts.


def restarting(attempts: int = 3) -> Driver:
    return Driver(policy=FixedDelay(attempts, 5.0)).run()


def test_failed_attempt_is_followed_by_another_after_the_delay() -> None:
    driver = restarting()
    out = driver.fail()
    assert [type(i) for i in out] == [AnnounceRestart, ChangeStatus, SetTimer]
    assert out[1:] == [ChangeStatus(JobStatus.RESTARTING), SetTimer(1, Timer.RESTART, 5.0)]
    assert driver.on(TimerElapsed(1, Timer.RESTART)) == [FindRestore(2)]
    point = JobRestore(TaskRestore(7, "/root"))
    assert driver.on(RestoreFound(2, point)) == [
        ChangeStatus(JobStatus.CREATED),
        StartAttempt(2, checkpointing=True, restore=point),
    ]
    driver.all_start()
    assert driver.machine.status is JobStatus.RUNNING
    for task in TASKS:
        driver.say(task, TaskFinished())
    driver.end()
    assert driver.completion == CompleteJob(JobStatus.FINISHED, None)


def restart(driver: Driver, point: JobRestore | None = None) -> list[Instruction]:
    attempt = driver.machine.attempt
    driver.on(TimerElapsed(attempt, Timer.RESTART))
    out = driver.on(RestoreFound(attempt + 1, point))
    driver.all_start()
    return out


def test_job_fails_with_the_last_error_when_the_policy_gives_up() -> None:
    driver = restarting(attempts=2)
    for _ in range(2):
        driver.fail()
        restart(driver)
    driver.fail(JobExecutionError("the third"))
    assert driver.completion.status is JobStatus.FAILED
    assert str(driver.completion.error) == "the third"


def test_restarts_are_announced_with_the_reason() -> None:
    (announced,) = [i for i in restarting().fail() if isinstance(i, AnnounceRestart)]
    assert (announced.attempt, announced.seconds, str(announced.error)) == (1, 5.0, str(boom()))


@pytest.mark.parametrize(
    "error",
    [
        InvalidKeyError("wrong as written"),
        IncompatibleStateError("state does not fit"),
        JobTakenOverError("another driver"),
    ],
)
def test_errors_that_no_restart_cures_end_the_job_at_once(error: BaseException) -> None:
    driver = restarting()
    driver.fail(error)
    assert driver.completion.status is JobStatus.FAILED


def test_trouble_in_the_master_ends_the_job_at_once() -> None:
    driver = restarting()
    driver.on(MasterFailed(BrokenPipeError("stdout")))
    for task in TASKS:
        driver.say(task, TaskCancelled())
    driver.end()
    assert driver.completion.status is JobStatus.FAILED


def test_trouble_in_the_master_is_the_reason_although_an_attempt_failed_just_before() -> None:
    """A driver that was stopped and replaced finds its tasks gone before it hears of its successor."""
    driver = restarting()
    driver.on(TaskDisconnected(TaskOrigin(1, A)))
    reason = JobTakenOverError("another driver leads")
    driver.on(MasterFailed(reason))
    driver.on(MasterFailed(OSError("and whatever follows")))
    for task in TASKS:
        driver.say(task, TaskCancelled())
    driver.end(RuntimeError("the engine gave up"))
    assert driver.completion == CompleteJob(JobStatus.FAILED, reason)
    assert [failure.error for failure in driver.machine.failures] == ["JobTakenOverError", "TaskLostError"]


def test_engine_that_is_not_ready_ends_a_job_that_has_never_run() -> None:
    driver = Driver(policy=FixedDelay(3, 5.0))
    driver.on(Submitted())
    driver.end(NotEnoughSlotsError(needed=3, available=1))
    assert isinstance(driver.completion.error, NotEnoughSlotsError)


def test_missing_slots_of_a_job_that_has_run_may_come_back() -> None:
    driver = restarting()
    driver.fail()
    driver.on(TimerElapsed(1, Timer.RESTART))
    driver.on(RestoreFound(2, None))
    driver.end(NotEnoughSlotsError(needed=3, available=1))
    assert driver.machine.status is JobStatus.RESTARTING


def test_failure_in_the_master_that_a_restart_may_cure_restarts() -> None:
    driver = restarting()
    driver.on(AttemptFailed(1, JobExecutionError("too many failed checkpoints")))
    for task in TASKS:
        driver.say(task, TaskCancelled())
    driver.end()
    assert driver.machine.status is JobStatus.RESTARTING


def test_going_back_to_a_checkpoint_costs_no_restart() -> None:
    driver = restarting(attempts=0)
    driver.on(AttemptFailed(1, JobExecutionError("savepoint failed"), rewind=True))
    for task in TASKS:
        driver.say(task, TaskCancelled())
    assert driver.end()[-1] == SetTimer(1, Timer.RESTART, 0.0)
    restart(driver)
    driver.fail()
    assert driver.completion.status is JobStatus.FAILED, "only that one failure was free"


def test_storage_that_cannot_be_read_is_one_more_failure() -> None:
    driver = restarting(attempts=2)
    driver.fail()
    driver.on(TimerElapsed(1, Timer.RESTART))
    out = driver.on(RestoreNotFound(2, StorageError("unreachable")))
    assert out[0] == ChangeStatus(JobStatus.FAILING)
    assert driver.machine.status is JobStatus.RESTARTING
    driver.on(TimerElapsed(1, Timer.RESTART))
    driver.on(RestoreNotFound(2, StorageError("unreachable")))
    assert driver.completion.status is JobStatus.FAILED


def test_checkpoint_that_tasks_cannot_read_is_not_used_again() -> None:
    driver = restarting()
    driver.fail()
    restart(driver, JobRestore(TaskRestore(7, "/root")))
    driver.fail(CorruptStateError("checksum"))
    assert driver.on(TimerElapsed(2, Timer.RESTART)) == [FindRestore(3, frozenset({7}))]


def test_cancel_during_the_delay_ends_the_job() -> None:
    driver = restarting()
    driver.fail()
    driver.on(CancelRequested())
    assert driver.completion.status is JobStatus.CANCELED
    assert driver.on(TimerElapsed(1, Timer.RESTART)) == []


def test_cancel_while_a_checkpoint_is_looked_for_ends_the_job() -> None:
    driver = restarting()
    driver.fail()
    driver.on(TimerElapsed(1, Timer.RESTART))
    driver.on(CancelRequested())
    assert driver.completion.status is JobStatus.CANCELED
    assert driver.on(RestoreFound(2, None)) == []


def test_cancel_of_a_failing_job_keeps_it_from_starting_again() -> None:
    driver = restarting()
    driver.say(B, to_message(boom()))
    driver.on(CancelRequested())
    for task in (A, C):
        driver.say(task, TaskCancelled())
    driver.end()
    assert driver.completion.status is JobStatus.CANCELED


def test_cancel_of_a_failing_job_that_would_not_start_again_leaves_its_error() -> None:
    driver = Driver().run()
    driver.say(B, to_message(boom()))
    driver.on(CancelRequested())
    for task in (A, C):
        driver.say(task, TaskCancelled())
    driver.end()
    assert isinstance(driver.completion.error, UserCodeError)


def test_stop_survives_a_restart() -> None:
    driver = restarting()
    driver.on(StopRequested())
    driver.fail()
    driver.on(TimerElapsed(1, Timer.RESTART))
    driver.on(RestoreFound(2, None))
    assert driver.connect(A) == [SendToTasks((A,), StopSources())]


def test_engine_that_ends_a_killed_attempt_too_late_changes_nothing() -> None:
    driver = restarting()
    driver.say(B, to_message(boom()))
    driver.on(TimerElapsed(1, Timer.GRACE))
    driver.on(TimerElapsed(1, Timer.KILL))
    driver.on(TimerElapsed(1, Timer.KILL))
    assert driver.machine.status is JobStatus.RESTARTING
    assert driver.end(RuntimeError("late")) == []
    restart(driver)
    assert driver.on(AttemptEnded(1, RuntimeError("later"))) == []
    assert driver.machine.status is JobStatus.RUNNING


def test_tasks_of_an_earlier_attempt_are_not_current() -> None:
    driver = restarting()
    old = TaskOrigin(1, A)
    assert driver.machine.is_current(old)
    driver.fail()
    assert not driver.machine.is_current(old)
    restart(driver)
    assert not driver.machine.is_current(old)
    assert driver.machine.is_current(TaskOrigin(2, A))
    assert not driver.machine.is_current(TaskOrigin(2, A, connection=9))


def test_attempts_are_numbered_on_from_driver_to_driver() -> None:
    driver = Driver(policy=FixedDelay(1, 0.0), first_attempt=1001).run()
    assert driver.machine.attempt == 1001
    driver.fail()
    restart(driver)
    assert driver.machine.attempt == 1002


# Another plan while the job runs.


def wider() -> JobPlan:
    """The plan with three subtasks of the second vertex."""
    plan = two_stages()
    count = replace(plan.vertices[1], parallelism=3)
    return replace(plan, stages=(plan.stages[0], StagePlan(1, 3, (1,))), vertices=(plan.vertices[0], count))


def ending_for_rescale(**settings: Any) -> Driver:
    """A job whose tasks end with the checkpoint of a rescale."""
    driver = Driver(remote=False, **settings).run()
    assert driver.on(TasksEndForRescale(1, 7, wider(), None, 5)) == []
    return driver


def rescaled(**settings: Any) -> Driver:
    """A job whose tasks have ended for a rescale; the next attempt starts."""
    driver = ending_for_rescale(**settings)
    for task in TASKS:
        driver.say(task, TaskFinished())
    assert driver.end() == [
        ChangeStatus(JobStatus.RESTARTING),
        ChangePlan(wider(), in_order=True),
        SetTimer(1, Timer.RESTART, 0.0),
    ]
    assert driver.on(TimerElapsed(1, Timer.RESTART)) == [FindRestore(2)]
    driver.on(RestoreFound(2, JobRestore(TaskRestore(5, "root"))))
    return driver


def test_when_all_tasks_have_ended_for_a_rescale_others_take_their_place() -> None:
    driver = rescaled()
    started = driver.instructions[-1]
    assert isinstance(started, StartAttempt)
    assert started.restore is not None
    assert started.restore.tasks.ended_in_order
    assert [status.task for status in driver.machine.task_statuses()] == [*TASKS, TaskId(1, 2)]
    driver.connect(*TASKS, TaskId(1, 2))
    for task in TASKS:
        driver.say(task, TaskStarted("h", 1))
    assert driver.say(TaskId(1, 2), TaskStarted("h", 1)) == [
        ChangeStatus(JobStatus.RUNNING),
        AnswerRescale(7),
    ]
    assert driver.machine.failures == ()


def test_a_task_that_fails_while_tasks_end_for_a_rescale_leaves_the_plan_as_it_was() -> None:
    driver = ending_for_rescale(policy=FixedDelay(5, 0.0))
    driver.fail()
    assert driver.machine.status is JobStatus.RESTARTING
    assert not any(isinstance(each, ChangePlan) for each in driver.instructions)


def test_a_rescale_that_was_aborted_does_not_happen_when_the_job_ends_later() -> None:
    """The engine ends the attempt, and one task never said that it had finished."""
    driver = ending_for_rescale(policy=FixedDelay(5, 0.0))
    driver.say(A, TaskFinished())
    driver.end()
    driver.on(TimerElapsed(1, Timer.RESTART))
    driver.on(RestoreFound(2, JobRestore(TaskRestore(5, "root"))))
    driver.all_start()
    for task in TASKS:
        driver.say(task, TaskFinished())
    driver.end()
    assert driver.completion.status is JobStatus.FINISHED


def test_a_plan_without_slots_is_undone_and_costs_no_restart() -> None:
    driver = rescaled()
    out = driver.end(NotEnoughSlotsError(needed=4, available=3))
    assert ChangePlan(two_stages()) in out
    (answer,) = [each for each in out if isinstance(each, AnswerRescale)]
    assert "keeps its parallelism: not enough slots: the job needs 4, Spark has 3" in str(answer.error)
    assert out[-1] == SetTimer(2, Timer.RESTART, 0.0)
    assert driver.machine.status is JobStatus.RESTARTING


def test_a_plan_of_which_a_task_has_run_is_not_undone() -> None:
    driver = rescaled(policy=FixedDelay(5, 0.0))
    driver.connect(A)
    driver.say(A, TaskStarted("h", 1))
    driver.end(RuntimeError("lost"))
    driver.on(TimerElapsed(2, Timer.RESTART))
    driver.on(RestoreFound(3, None))
    out = driver.end(NotEnoughSlotsError(needed=4, available=3))
    assert not any(isinstance(each, ChangePlan | AnswerRescale) for each in out)


def test_a_job_that_is_cancelled_while_tasks_end_for_a_rescale_is_over() -> None:
    driver = ending_for_rescale()
    driver.on(CancelRequested())
    for task in TASKS:
        driver.say(task, TaskFinished())
    driver.end()
    assert driver.completion.status is JobStatus.CANCELED


class AnyOrder(RuleBasedStateMachine):
    """Events in any order, sensible or not: the job ends once, in legal steps, and then is silent."""

    def __init__(self) -> None:
        super().__init__()
        self.driver = Driver(policy=FixedDelay(2, 1.0))
        self.submitted = False
        self.status = JobStatus.CREATED
        self.over = False

    def send(self, event: LifecycleEvent) -> None:
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
        TaskOrigin, st.sampled_from([1, 1, 2, 3]), st.sampled_from(TASKS), st.sampled_from([0, 0, 1])
    )
    messages = st.sampled_from(
        [TaskStarted("h", 1), TaskFinished(), TaskCancelled(), to_message(JobExecutionError("x"))]
    )

    @rule()
    def submit(self) -> None:
        self.send(Submitted())
        self.submitted = True

    @rule(origin=origins, remote=st.booleans())
    def connect(self, origin: TaskOrigin, remote: bool) -> None:
        self.send(TaskConnected(origin, "h", 1, remote))

    @rule(origin=origins, message=messages)
    def say(self, origin: TaskOrigin, message: TaskMessage) -> None:
        self.send(TaskSaid(origin, message))

    @rule(origin=origins)
    def disconnect(self, origin: TaskOrigin) -> None:
        self.send(TaskDisconnected(origin))

    attempts = st.sampled_from([1, 2, 3])

    @rule(attempt=attempts, error=st.sampled_from([None, JobExecutionError("engine")]))
    def end(self, attempt: int, error: BaseException | None) -> None:
        self.send(AttemptEnded(attempt, error))

    @rule(attempt=attempts, rewind=st.booleans())
    def fail_attempt(self, attempt: int, rewind: bool) -> None:
        self.send(AttemptFailed(attempt, JobExecutionError("checkpoints"), rewind))

    @rule(attempt=attempts, task=st.sampled_from(TASKS), engine=st.booleans())
    def fall_silent(self, attempt: int, task: TaskId, engine: bool) -> None:
        self.send(
            EngineSilent(attempt, 9.0, 5.0) if engine else TaskSilent(TaskOrigin(attempt, task), 9.0, 5.0)
        )

    @rule(attempt=st.sampled_from([2, 3, 4]), found=st.booleans())
    def find(self, attempt: int, found: bool) -> None:
        self.send(RestoreFound(attempt, None) if found else RestoreNotFound(attempt, StorageError("x")))

    @rule()
    def restart(self) -> None:
        attempt = self.driver.machine.attempt
        self.send(TimerElapsed(attempt, Timer.RESTART))
        self.send(RestoreFound(attempt + 1, None))

    @rule(timer=st.sampled_from(Timer))
    def elapse(self, timer: Timer) -> None:
        asked = {i.timer for i in self.driver.instructions if isinstance(i, SetTimer)}
        if timer in asked:
            self.send(TimerElapsed(self.driver.machine.attempt, timer))

    @rule(event=st.sampled_from([CancelRequested(), StopRequested(), MasterFailed(OSError("x"))]))
    def ask(self, event: LifecycleEvent) -> None:
        self.send(event)

    @precondition(lambda self: self.submitted and not self.over)
    @rule(cancel=st.booleans())
    def bring_to_an_end(self, cancel: bool) -> None:
        if cancel:
            self.send(CancelRequested())
        for _ in range(10):
            attempt = self.driver.machine.attempt
            self.send(AttemptEnded(attempt, None))
            self.send(TimerElapsed(attempt, Timer.DRAIN))
            self.send(TimerElapsed(attempt, Timer.RESTART))
            self.send(RestoreFound(attempt + 1, None))
        assert self.over, "attempts that have ended and time enough always end the job"

    @invariant()
    def status_is_what_was_announced(self) -> None:
        assert self.driver.machine.status is self.status


AnyOrder.TestCase.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
TestAnyOrder: Callable[..., object] = AnyOrder.TestCase


# States of tasks.


def changes(driver: Driver) -> list[tuple[str, str, str]]:
    return [(c.name, c.before.name, c.after.name) for c in driver.machine.drain_task_changes()]


def states(driver: Driver) -> list[str]:
    return [status.state.name for status in driver.machine.task_statuses()]


def test_a_task_goes_through_the_states_that_flink_has() -> None:
    driver = Driver()
    assert states(driver) == []
    driver.on(Submitted())
    assert states(driver) == ["SCHEDULED"] * 3
    driver.on(AttemptAccepted(1))
    assert states(driver) == ["DEPLOYING"] * 3
    driver.connect(A)
    driver.say(A, TaskStarted("host0", 42))
    driver.say(A, TaskFinished())
    assert states(driver) == ["FINISHED", "DEPLOYING", "DEPLOYING"]
    assert [change for change in changes(driver) if "words" in change[0]] == [
        ("Source: words (1/1)", before, after)
        for before, after in pairwise(
            ["CREATED", "SCHEDULED", "DEPLOYING", "INITIALIZING", "RUNNING", "FINISHED"]
        )
    ]
    assert driver.machine.task_statuses()[0].where == "on host0, process 42"


def test_tasks_of_a_failed_attempt_are_failed_or_cancelled() -> None:
    driver = Driver(policy=FixedDelay(1, 1.0))
    driver.on(Submitted())
    driver.connect(A, B, C)
    for task in TASKS:
        driver.say(task, TaskStarted("host", 1))
    driver.say(B, to_message(RuntimeError("boom")))
    assert states(driver) == ["CANCELING", "FAILED", "CANCELING"]
    driver.say(A, TaskCancelled())
    driver.machine.drain_task_changes()
    driver.on(AttemptEnded(1, RuntimeError("killed")))
    driver.on(TimerElapsed(1, Timer.DRAIN))
    assert changes(driver) == [("Count (2/2)", "CANCELING", "CANCELED")], "it never said how it ended"
    assert states(driver) == [], "between two attempts there are no tasks"


def test_a_lost_task_has_failed() -> None:
    driver = Driver()
    driver.on(Submitted())
    driver.connect(A, B, C)
    driver.on(TaskDisconnected(TaskOrigin(1, A)))
    assert states(driver) == ["FAILED", "CANCELING", "CANCELING"]


def test_in_batch_a_task_is_scheduled_until_its_stage_begins() -> None:
    driver = Driver(RuntimeMode.BATCH)
    driver.on(Submitted())
    driver.on(AttemptAccepted(1))
    driver.connect(A)
    assert states(driver) == ["INITIALIZING", "SCHEDULED", "SCHEDULED"]


def test_times_of_states_and_tasks_of_failed_attempts_are_remembered() -> None:
    machine = JobLifecycle(two_stages(), GRACE, FixedDelay(3, 1.0))
    machine.handle(Submitted(), 1.0)
    for task in TASKS:
        machine.handle(TaskConnected(TaskOrigin(1, task)), 2.0)
        machine.handle(TaskSaid(TaskOrigin(1, task), TaskStarted("host", 42)), 3.0)
    first = machine.task_statuses()[0]
    assert (first.task, first.host, first.pid) == (A, "host", 42)
    assert [(state.name, at) for state, at in first.since] == [
        ("SCHEDULED", 1000),
        ("DEPLOYING", 2000),
        ("INITIALIZING", 2000),
        ("RUNNING", 3000),
    ]
    machine.handle(TaskSaid(TaskOrigin(1, A), to_message(ValueError("no"))), 4.0)
    machine.handle(AttemptEnded(1, None), 5.0)
    assert machine.task_statuses() == []
    (earlier,) = machine.earlier_tasks
    assert [status.state.name for status in earlier] == ["FAILED", "CANCELED", "CANCELED"]
    times = {status.name: at for status, at in machine.status_times}
    assert times == {"CREATED": 1000, "RUNNING": 3000, "FAILING": 4000, "RESTARTING": 5000}
