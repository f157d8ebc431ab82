"""Lifecycle, checkpoints and sources together: what one of them does because of another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeVar

import pytest
from numbered_source import SINK_ID, SOURCE_ID, NumberSource, enumerated_plan

from firesteel.checkpoint import state_pickle
from firesteel.common.errors import (
    CheckpointError,
    CorruptStateError,
    JobExecutionError,
    JobTakenOverError,
    NoSuchSnapshotError,
    ProgramError,
    UnknownLocationError,
    UserCodeError,
)
from firesteel.common.job_status import JobStatus
from firesteel.jobmaster.checkpoints.settings import CheckpointSettings
from firesteel.jobmaster.events import (
    AttemptEnded,
    CancelRequested,
    CheckpointNotPublished,
    CheckpointPublished,
    Event,
    RestoreFound,
    SavepointRequested,
    StateQueried,
    StopWithSavepointRequested,
    Submitted,
    TaskConnected,
    TaskOrigin,
    TaskSaid,
    Timer,
    TimerElapsed,
    WorkDone,
)
from firesteel.jobmaster.instructions import (
    AnswerQuery,
    AnswerSavepoint,
    ChangeStatus,
    CleanUp,
    CompleteJob,
    DiscardSnapshots,
    FindRestore,
    Instruction,
    PublishCheckpoint,
    RunWork,
    SendToTasks,
    StartAttempt,
)
from firesteel.jobmaster.job_restore import JobRestore
from firesteel.jobmaster.master_core import MasterCore, MasterSettings, MasterStart
from firesteel.jobmaster.restart_policy import FixedDelay, NoRestart
from firesteel.plan.messages import (
    CheckpointCompleted,
    MayEnd,
    QueryableStateRegistered,
    QueryState,
    ReaderRegistered,
    SnapshotAcknowledged,
    SnapshotDeclined,
    SplitRequested,
    SplitsAssigned,
    StateAnswered,
    StayForSavepoint,
    SubtaskEnded,
    TaskCancelled,
    TaskFinished,
    TaskId,
    TaskMessage,
    TaskStarted,
    TaskStays,
    TriggerCheckpoint,
)
from firesteel.plan.operator_specs import RuntimeMode
from firesteel.plan.state_handles import TaskRestore
from firesteel.plan.task_failure import to_message

T = TypeVar("T")
A, B, C = TaskId(0, 0), TaskId(0, 1), TaskId(1, 0)
SUBTASKS = {A: (0, 0), B: (0, 1), C: (1, 0)}


@pytest.fixture(autouse=True)
def no_enumerators_of_other_tests() -> Iterator[None]:
    NumberSource.made.clear()
    yield
    NumberSource.made.clear()


class Driver:
    """A core, and tasks at the other end that say what they are told to say."""

    def __init__(
        self,
        fault: str = "",
        *,
        checkpoints: CheckpointSettings | None = None,
        restarts: int = 3,
        start: MasterStart | None = None,
    ) -> None:
        policy = FixedDelay(restarts, 1.0) if restarts else NoRestart()
        settings = MasterSettings(2.0, policy, checkpoints)
        self.core = MasterCore(enumerated_plan(fault), settings, start)
        self.now = 100.0
        self.instructions: list[Instruction] = []

    def on(self, event: Event) -> list[Instruction]:
        out = self.core.handle(event, self.now)
        self.instructions += out
        return out

    def say(self, task: TaskId, message: TaskMessage, attempt: int | None = None) -> list[Instruction]:
        return self.on(TaskSaid(TaskOrigin(self.core.attempt if attempt is None else attempt, task), message))

    def run(self) -> Driver:
        self.on(Submitted())
        return self.all_start()

    def all_start(self) -> Driver:
        for task in SUBTASKS:
            self.on(TaskConnected(TaskOrigin(self.core.attempt, task)))
            self.say(task, TaskStarted("h", 1))
        return self

    def begin(self) -> list[Instruction]:
        self.now += 10.0
        return self.on(TimerElapsed(self.core.attempt, Timer.CHECKPOINT))

    def ack(self, checkpoint_id: int, *tasks: TaskId) -> list[Instruction]:
        return [
            instruction
            for task in tasks or SUBTASKS
            for instruction in self.say(task, SnapshotAcknowledged(checkpoint_id, *SUBTASKS[task], ()))
        ]

    def complete(self, checkpoint_id: int) -> list[Instruction]:
        return self.ack(checkpoint_id) + self.on(
            CheckpointPublished(checkpoint_id, f"/c/chk-{checkpoint_id}")
        )

    def fail(self, error: BaseException | None = None) -> list[Instruction]:
        self.say(C, to_message(error or JobExecutionError("boom")))
        self.say(A, TaskCancelled())
        self.say(B, TaskCancelled())
        return self.on(AttemptEnded(self.core.attempt, RuntimeError("killed")))

    def restart(self, point: JobRestore | None) -> list[Instruction]:
        attempt = self.core.attempt
        self.on(TimerElapsed(attempt, Timer.RESTART))
        out = self.on(RestoreFound(attempt + 1, point))
        self.all_start()
        return out


def with_checkpoints(fault: str = "", *, tolerable: int = 0, **others: object) -> Driver:
    settings = CheckpointSettings(10.0, tolerable_failures=tolerable, savepoint_directory="/sp")
    return Driver(fault, checkpoints=settings, **others).run()  # type: ignore[arg-type]


def of(kind: type[T], out: list[Instruction]) -> list[T]:
    return [instruction for instruction in out if isinstance(instruction, kind)]


def test_attempt_is_told_whether_it_takes_part_in_checkpoints() -> None:
    assert of(StartAttempt, Driver().run().instructions) == [StartAttempt(1)]
    assert of(StartAttempt, with_checkpoints().instructions) == [StartAttempt(1, checkpointing=True)]


def test_splits_assigned_before_a_checkpoint_are_sent_before_it() -> None:
    driver = with_checkpoints()
    driver.say(A, ReaderRegistered(SOURCE_ID, 0))
    driver.say(A, SplitRequested(SOURCE_ID, 0))
    driver.begin()
    to_reader = [i.message for i in of(SendToTasks, driver.instructions) if A in i.tasks]
    assert [type(message) for message in to_reader] == [SplitsAssigned, TriggerCheckpoint]
    (publish,) = of(PublishCheckpoint, driver.ack(1))
    assert state_pickle.loads(publish.enumerators[SOURCE_ID]) == [2, 3]


def test_enumerators_go_back_with_the_job() -> None:
    driver = with_checkpoints()
    driver.say(A, ReaderRegistered(SOURCE_ID, 0))
    driver.begin()
    (publish,) = of(PublishCheckpoint, driver.ack(1))
    driver.on(CheckpointPublished(1, "/c/chk-1"))
    driver.say(A, SplitRequested(SOURCE_ID, 0))
    driver.fail()
    driver.restart(JobRestore(TaskRestore(1, "/c"), publish.enumerators))
    assert NumberSource.made[-1].left == [1, 2, 3]
    assert "closed" in NumberSource.made[0].heard


def test_enumerators_hear_of_checkpoints() -> None:
    driver = with_checkpoints(tolerable=1)
    driver.begin()
    driver.complete(1)
    driver.begin()
    driver.say(A, SnapshotDeclined(2, 0, 0, "no"))
    assert NumberSource.made[0].heard == [("complete", 1), ("aborted", 2)]


def test_enumerator_that_fails_ends_the_attempt_with_its_error() -> None:
    driver = with_checkpoints("request")
    driver.say(A, ReaderRegistered(SOURCE_ID, 0))
    assert ChangeStatus(JobStatus.FAILING) in driver.say(A, SplitRequested(SOURCE_ID, 0))
    for task in SUBTASKS:
        driver.say(task, TaskCancelled())
    driver.on(AttemptEnded(1, None))
    assert driver.core.status is JobStatus.RESTARTING


def test_enumerator_that_cannot_start_ends_the_attempt() -> None:
    driver = Driver("start", restarts=0)
    assert ChangeStatus(JobStatus.FAILING) in driver.on(Submitted())
    driver.on(AttemptEnded(1, None))
    (end,) = of(CompleteJob, driver.instructions)
    assert isinstance(end.error, UserCodeError)


def test_enumerator_that_cannot_be_saved_fails_the_checkpoint_only() -> None:
    driver = with_checkpoints("snapshot", tolerable=1)
    out = driver.begin()
    assert not any(isinstance(i.message, TriggerCheckpoint) for i in of(SendToTasks, out))
    assert driver.core.status is JobStatus.RUNNING
    driver.begin()
    assert driver.core.status is JobStatus.FAILING, "one too many"


def test_work_for_enumerators_is_handed_out_and_its_result_given_back() -> None:
    driver = Driver("calls").run()
    (work,) = of(RunWork, driver.instructions)
    assert of(RunWork, driver.on(WorkDone(work.work, 7, None)))[0].delay == 3.0
    assert NumberSource.made[0].left == [1, 2, 3, 7]


def test_tasks_of_an_earlier_attempt_neither_acknowledge_nor_ask_for_splits() -> None:
    driver = with_checkpoints()
    driver.fail()
    driver.restart(None)
    driver.begin()
    for task in SUBTASKS:
        assert driver.say(task, SnapshotAcknowledged(1, *SUBTASKS[task], ()), attempt=1) == []
    assert driver.say(A, ReaderRegistered(SOURCE_ID, 0), attempt=1) == []
    assert driver.say(A, SubtaskEnded(0, 0), attempt=1) == []
    assert NumberSource.made[-1].heard == []


def test_nobody_commits_once_the_attempt_fails() -> None:
    driver = with_checkpoints()
    driver.begin()
    driver.ack(1)
    driver.say(C, to_message(JobExecutionError("boom")))
    out = driver.on(CheckpointPublished(1, "/c/chk-1"))
    assert not any(isinstance(i.message, CheckpointCompleted) for i in of(SendToTasks, out))


def test_too_many_failed_checkpoints_restart_the_job() -> None:
    driver = with_checkpoints()
    driver.begin()
    driver.say(A, SnapshotDeclined(1, 0, 0, "disk full"))
    assert driver.core.status is JobStatus.FAILING
    for task in SUBTASKS:
        driver.say(task, TaskCancelled())
    driver.on(AttemptEnded(1, None))
    assert driver.core.status is JobStatus.RESTARTING


def test_restart_looks_for_the_newest_checkpoint() -> None:
    driver = with_checkpoints()
    driver.fail()
    assert of(FindRestore, driver.on(TimerElapsed(1, Timer.RESTART))) == [FindRestore(2)]
    point = JobRestore(TaskRestore(5, "/c"))
    assert of(StartAttempt, driver.on(RestoreFound(2, point))) == [StartAttempt(2, True, point)]


def test_restart_without_any_checkpoint_begins_where_the_job_began() -> None:
    start = JobRestore(TaskRestore(9, "/savepoint"))
    driver = with_checkpoints(start=MasterStart(restore=start, next_checkpoint=10))
    driver.fail()
    assert of(StartAttempt, driver.restart(None)) == [StartAttempt(2, True, start)]
    assert [
        i.message.order.id
        for i in of(SendToTasks, driver.begin())  # type: ignore[union-attr]
        if isinstance(i.message, TriggerCheckpoint)
    ] == [10]


def test_restart_without_checkpointing_needs_no_storage() -> None:
    start = JobRestore(TaskRestore(9, "/savepoint"))
    driver = Driver(start=MasterStart(restore=start)).run()
    driver.fail()
    out = driver.on(TimerElapsed(1, Timer.RESTART))
    assert of(FindRestore, out) == []
    assert of(StartAttempt, out) == [StartAttempt(2, False, start)]


def test_job_does_not_start_over_when_all_its_checkpoints_are_lost() -> None:
    driver = with_checkpoints()
    driver.begin()
    driver.complete(1)
    driver.fail()
    driver.on(TimerElapsed(1, Timer.RESTART))
    (end,) = of(CompleteJob, driver.on(RestoreFound(2, None)))
    assert isinstance(end.error, NoSuchSnapshotError)
    assert "none of its checkpoints can be read any more" in str(end.error)


def test_job_does_not_try_a_damaged_savepoint_again_and_names_the_damage() -> None:
    start = JobRestore(TaskRestore(9, "/savepoints"), path="/savepoints/one")
    driver = with_checkpoints(start=MasterStart(restore=start, next_checkpoint=10))
    driver.fail(CorruptStateError("the checksum does not match", file="0-0-1-9"))
    assert of(FindRestore, driver.on(TimerElapsed(1, Timer.RESTART))) == [FindRestore(2, frozenset({9}))]
    (end,) = of(CompleteJob, driver.on(RestoreFound(2, None)))
    text = str(end.error)
    assert "cannot start from /savepoints/one, which cannot be read: damaged state: 0-0-1-9" in text
    assert "start it from another savepoint or checkpoint" in text


def test_driver_that_was_replaced_fails_without_restart() -> None:
    driver = with_checkpoints()
    driver.begin()
    driver.ack(1)
    driver.on(CheckpointNotPublished(1, JobTakenOverError("another driver"), fenced=True))
    for task in SUBTASKS:
        driver.say(task, TaskCancelled())
    (end,) = of(CompleteJob, driver.on(AttemptEnded(1, None)))
    assert isinstance(end.error, JobTakenOverError)


def finish(driver: Driver) -> list[Instruction]:
    for task in SUBTASKS:
        driver.say(task, TaskFinished())
    return driver.on(AttemptEnded(driver.core.attempt, None))


def test_bounded_job_ends_with_its_final_checkpoint() -> None:
    driver = with_checkpoints()
    for task in SUBTASKS:
        out = driver.say(task, SubtaskEnded(*SUBTASKS[task]))
    assert any(isinstance(i.message, TriggerCheckpoint) for i in of(SendToTasks, out))
    driver.complete(1)
    assert finish(driver)[-2:] == [CleanUp(keep=False), CompleteJob(JobStatus.FINISHED, None)]


def test_stop_with_savepoint_is_answered_with_the_end_of_the_job() -> None:
    driver = with_checkpoints()
    driver.on(StopWithSavepointRequested(4, "/mine"))
    driver.ack(1)
    driver.on(CheckpointPublished(1, "/mine/savepoint"))
    assert of(AnswerSavepoint, driver.instructions) == []
    assert of(AnswerSavepoint, finish(driver)) == [AnswerSavepoint(4, "/mine/savepoint")]


def test_failed_drain_takes_the_job_back_without_asking_the_restart_policy() -> None:
    driver = with_checkpoints(restarts=0)
    driver.on(StopWithSavepointRequested(4, drain=True))
    for task in SUBTASKS:
        driver.say(task, SubtaskEnded(*SUBTASKS[task]))
    out = driver.say(A, SnapshotDeclined(1, 0, 0, "no"))
    assert of(AnswerSavepoint, out)[0].error is not None
    for task in SUBTASKS:
        driver.say(task, TaskCancelled())
    driver.on(AttemptEnded(1, None))
    assert driver.core.status is JobStatus.RESTARTING


def test_savepoint_of_a_job_that_takes_no_part_is_refused() -> None:
    (answer,) = of(AnswerSavepoint, Driver().run().on(SavepointRequested(1)))
    assert isinstance(answer.error, CheckpointError)
    assert "its tasks take no part in checkpoints" in str(answer.error)


def messages(kind: type[T], out: list[Instruction]) -> list[T]:
    return [sending.message for sending in of(SendToTasks, out) if isinstance(sending.message, kind)]


def fail_and_wait(driver: Driver) -> list[Instruction]:
    driver.fail()
    return driver.on(TimerElapsed(driver.core.attempt, Timer.RESTART))


SAVEPOINTS_ONLY = CheckpointSettings(interval=None, savepoint_directory="/s")


def test_savepoint_of_a_job_without_checkpoints_waits_until_all_tasks_stay() -> None:
    driver = Driver(checkpoints=SAVEPOINTS_ONLY).run()
    assert [start.checkpointing for start in of(StartAttempt, driver.instructions)] == [False]
    asked = [i for i in of(SendToTasks, driver.on(SavepointRequested(1))) if i.message == StayForSavepoint()]
    assert [set(sending.tasks) for sending in asked] == [{A, B, C}]
    driver.say(A, TaskStays())
    assert not messages(TriggerCheckpoint, driver.say(B, TaskStays()))
    assert len(messages(TriggerCheckpoint, driver.say(C, TaskStays()))) == 1
    assert messages(MayEnd, driver.complete(1)) == [MayEnd()]


def test_a_failed_job_without_checkpoints_resumes_from_its_savepoint_if_there_is_one() -> None:
    driver = Driver(checkpoints=SAVEPOINTS_ONLY).run()
    assert not of(FindRestore, fail_and_wait(driver)), "nothing to look for"
    driver.all_start()
    driver.on(SavepointRequested(1))
    for task in SUBTASKS:
        driver.say(task, TaskStays())
    driver.complete(1)
    assert len(of(FindRestore, fail_and_wait(driver))) == 1


def test_tasks_of_a_job_without_checkpoints_may_end_before_a_savepoint() -> None:
    driver = Driver(checkpoints=SAVEPOINTS_ONLY).run()
    driver.on(SavepointRequested(1))
    driver.say(A, TaskStays())
    out = driver.say(C, TaskFinished())
    (answer,) = of(AnswerSavepoint, out)
    assert "has processed everything and ended" in str(answer.error)
    assert messages(MayEnd, out) == [MayEnd()]


def test_cancelled_job_drops_its_checkpoints() -> None:
    driver = with_checkpoints()
    driver.begin()
    driver.ack(1, A)
    assert len(of(DiscardSnapshots, driver.on(CancelRequested()))) == 1
    for task in SUBTASKS:
        driver.say(task, TaskCancelled())
    assert of(CleanUp, driver.on(AttemptEnded(1, None))) == [CleanUp(keep=False)]


def test_batch_job_has_enumerators_but_no_checkpoints() -> None:
    core = MasterCore(enumerated_plan(mode=RuntimeMode.BATCH))
    core.handle(Submitted(), 0.0)
    core.handle(TaskConnected(TaskOrigin(1, A)), 0.0)
    core.handle(TaskSaid(TaskOrigin(1, A), ReaderRegistered(SOURCE_ID, 0)), 0.0)
    out = core.handle(TaskSaid(TaskOrigin(1, A), SplitRequested(SOURCE_ID, 0)), 0.0)
    assert isinstance(of(SendToTasks, out)[0].message, SplitsAssigned)


def test_nothing_follows_the_end() -> None:
    driver = with_checkpoints()
    driver.on(CancelRequested())
    for task in SUBTASKS:
        driver.say(task, TaskCancelled())
    driver.on(AttemptEnded(1, None))
    assert driver.on(TimerElapsed(1, Timer.CHECKPOINT)) == []
    assert driver.on(SavepointRequested(1))[0] == AnswerSavepoint(1, None, driver.instructions[-1].error)  # type: ignore[union-attr]


# Queryable state.


def queryable() -> Driver:
    """A job whose last task has a state that others may ask for, submitted."""
    driver = Driver()
    plan = replace(enumerated_plan(), options={"queryable-state.enable": "true"})
    driver.core = MasterCore(plan, MasterSettings(2.0, FixedDelay(3, 1.0)))
    driver.on(Submitted())
    return driver


def all_start_with_state(driver: Driver, name: str = "counts") -> None:
    state = QueryableStateRegistered(name, 1, 0, SINK_ID, "count", "value", "Long")
    for task in SUBTASKS:
        driver.on(TaskConnected(TaskOrigin(driver.core.attempt, task)))
        driver.say(task, TaskStarted("h", 1, 0, (state,) if task == C else ()))


def answers(out: list[Instruction]) -> list[tuple[int, bytes | None, type]]:
    return [(each.request, each.value, type(each.error)) for each in of(AnswerQuery, out)]


def test_a_running_job_is_asked_and_no_other() -> None:
    driver = queryable()
    assert answers(driver.on(StateQueried(1, "counts", "ada"))) == [(1, None, UnknownLocationError)]
    all_start_with_state(driver)
    assert [state.name for state in driver.core.queryable.shown] == ["counts"]
    assert of(SendToTasks, driver.on(StateQueried(2, "counts", "ada"))) == [
        SendToTasks((C,), QueryState(2, "counts", "ada"))
    ]
    assert answers(driver.say(C, StateAnswered(2, b"7"))) == [(2, b"7", type(None))]
    driver.say(C, TaskFinished())
    assert answers(driver.on(StateQueried(3, "counts", "ada"))) == [(3, None, UnknownLocationError)]


def test_those_who_wait_hear_of_a_restart_and_old_answers_do_not_count() -> None:
    driver = queryable()
    all_start_with_state(driver)
    driver.on(StateQueried(1, "counts", "ada"))
    assert answers(driver.say(A, to_message(JobExecutionError("boom")))) == [(1, None, UnknownLocationError)]
    assert driver.core.queryable.shown == ()
    assert answers(driver.on(StateQueried(2, "counts", "ada"))) == [(2, None, UnknownLocationError)]
    for task in (B, C):
        driver.say(task, TaskCancelled())
    driver.on(AttemptEnded(1, RuntimeError("killed")))
    driver.on(TimerElapsed(1, Timer.RESTART))
    all_start_with_state(driver)
    driver.on(StateQueried(3, "counts", "ada"))
    assert answers(driver.say(C, StateAnswered(3, b"7"), attempt=1)) == [], "an attempt that is over"
    assert answers(driver.say(C, StateAnswered(3, b"8"))) == [(3, b"8", type(None))]


def test_a_state_that_comes_up_later_is_known_from_then_on() -> None:
    driver = queryable()
    all_start_with_state(driver)
    driver.say(C, QueryableStateRegistered("late", 1, 0, SINK_ID, "late", "list", ""))
    assert [state.name for state in driver.core.queryable.shown] == ["counts", "late"]


def test_a_name_that_is_taken_ends_the_job_for_good() -> None:
    driver = queryable()
    all_start_with_state(driver)
    out = driver.say(C, QueryableStateRegistered("counts", 1, 0, SINK_ID, "other", "value", "Long"))
    assert ChangeStatus(JobStatus.FAILING) in out
    for task in SUBTASKS:
        driver.say(task, TaskCancelled())
    driver.on(AttemptEnded(1, None))
    (end,) = of(CompleteJob, driver.instructions)
    assert isinstance(end.error, ProgramError)
