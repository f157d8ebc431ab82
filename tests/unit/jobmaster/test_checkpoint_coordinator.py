"""The checkpoints of a job, driven by hand: every rule of the machine, no threads, no storage, no time."""

from __future__ import annotations

from random import Random
from typing import Any, TypeVar

import pytest

from firesteel.common.errors import (
    CheckpointError,
    JobCancelledError,
    JobTakenOverError,
    StorageError,
    TaskLostError,
)
from firesteel.common.job_status import JobStatus
from firesteel.jobmaster.checkpoints.coordinator import FINAL_RETRY_SECONDS, CheckpointCoordinator
from firesteel.jobmaster.checkpoints.coordinator_messages import (
    AttemptOver,
    AttemptRunning,
    AttemptStarting,
    CoordinatorEvent,
    CoordinatorInstruction,
    EnumeratorsFailed,
    EnumeratorsSaved,
    FailAttempt,
    FailJob,
    JobOver,
    SaveEnumerators,
    TaskHasEnded,
    TaskIsStaying,
)
from firesteel.jobmaster.checkpoints.settings import CheckpointSettings, Retention
from firesteel.jobmaster.checkpoints.statistics import CheckpointStatus, SubtaskAcknowledgement
from firesteel.jobmaster.events import (
    CheckpointNotPublished,
    CheckpointPublished,
    CheckpointRequested,
    SavepointRequested,
    StopWithSavepointRequested,
    Timer,
    TimerElapsed,
)
from firesteel.jobmaster.instructions import (
    AnswerCheckpoint,
    AnswerSavepoint,
    CleanUp,
    DiscardSnapshots,
    PublishCheckpoint,
    SendToTasks,
    SetTimer,
    SubsumeOlder,
)
from firesteel.jobmaster.job_restore import JobRestore
from firesteel.plan.exchange import Rebalance
from firesteel.plan.job_plan import EdgePlan, JobPlan, StagePlan, VertexPlan
from firesteel.plan.messages import (
    CheckpointAborted,
    CheckpointCompleted,
    MayEnd,
    SnapshotAcknowledged,
    SnapshotDeclined,
    StayForSavepoint,
    StopSources,
    SubtaskEnded,
    TaskId,
    TriggerCheckpoint,
)
from firesteel.plan.operator_specs import RuntimeMode
from firesteel.plan.state_handles import CheckpointKind, CheckpointOrder, TaskRestore

T = TypeVar("T")
SOURCE = (TaskId(0, 0),)
TASKS = (TaskId(0, 0), TaskId(1, 0), TaskId(1, 1))
SUBTASKS = ((0, 0), (1, 0), (1, 1))
JOB = "ab" * 16


def plan() -> JobPlan:
    vertices = (
        VertexPlan(0, "Source", 0, 0, 1, 128, ()),
        VertexPlan(1, "Count", 1, 0, 2, 128, ()),
    )
    edge = EdgePlan(0, 0, 0, None, 1, 0, Rebalance())
    stages = (StagePlan(0, 1, (0,)), StagePlan(1, 2, (1,)))
    return JobPlan("job", RuntimeMode.STREAMING, stages, vertices, (edge,))


class Driver:
    """A coordinator of a running job, together with what it has instructed."""

    def __init__(
        self, *, root: str = "/ckpt/job", running: bool = True, next_id: int = 1, **settings: Any
    ) -> None:
        values: dict[str, Any] = {"interval": 10.0, "timeout": 60.0, "savepoint_directory": "/sp"}
        self.machine = CheckpointCoordinator(
            plan(),
            CheckpointSettings(**(values | settings)),
            JOB,
            root=root,
            next_id=next_id,
            random=Random(1),
        )
        self.now = 1000.0
        self.instructions: list[CoordinatorInstruction] = []
        if running:
            self.on(AttemptRunning(1))

    def on(self, event: CoordinatorEvent) -> list[CoordinatorInstruction]:
        out = self.machine.handle(event, self.now)
        for begun in [i for i in out if isinstance(i, SaveEnumerators)]:
            out += self.machine.handle(EnumeratorsSaved(begun.checkpoint_id), self.now)
        self.instructions += out
        return out

    def after(self, seconds: float) -> list[CoordinatorInstruction]:
        self.now += seconds
        return self.on(TimerElapsed(1, Timer.CHECKPOINT))

    def ack(
        self, checkpoint_id: int, *subtasks: tuple[int, int], **facts: Any
    ) -> list[CoordinatorInstruction]:
        out = []
        for vertex, subtask in subtasks or SUBTASKS:
            out += self.on(SnapshotAcknowledged(checkpoint_id, vertex, subtask, (), **facts))
        return out

    def publish(self, checkpoint_id: int) -> list[CoordinatorInstruction]:
        return self.on(CheckpointPublished(checkpoint_id, f"/ckpt/job/chk-{checkpoint_id}"))

    def complete(self, checkpoint_id: int) -> list[CoordinatorInstruction]:
        return self.ack(checkpoint_id) + self.publish(checkpoint_id)

    def end_all(self) -> list[CoordinatorInstruction]:
        return [i for vertex, subtask in SUBTASKS for i in self.on(SubtaskEnded(vertex, subtask))]


def of(kind: type[T], out: list[CoordinatorInstruction]) -> list[T]:
    return [instruction for instruction in out if isinstance(instruction, kind)]


def sent(kind: type[T], out: list[CoordinatorInstruction]) -> list[T]:
    return [i.message for i in of(SendToTasks, out) if isinstance(i.message, kind)]


def triggered(out: list[CoordinatorInstruction]) -> list[CheckpointOrder]:
    return [message.order for message in sent(TriggerCheckpoint, out)]


def answers(out: list[CoordinatorInstruction]) -> list[AnswerSavepoint]:
    return of(AnswerSavepoint, out)


# Periodic ones.


def test_first_checkpoint_begins_an_interval_after_all_tasks_run() -> None:
    driver = Driver(running=False)
    assert driver.on(AttemptRunning(1)) == [SetTimer(1, Timer.CHECKPOINT, 10.0)]
    assert triggered(driver.after(9.9)) == []
    assert [order.id for order in triggered(driver.after(0.1))] == [1]


def test_order_says_where_files_go_and_reaches_the_sources_only() -> None:
    driver = Driver()
    (sending,) = of(SendToTasks, driver.after(10.0))
    order = CheckpointOrder(
        1, 1_010_000, CheckpointKind.CHECKPOINT, root="/ckpt/job", directory="chk-1", full=True
    )
    assert sending == SendToTasks(SOURCE, TriggerCheckpoint(order))


def test_state_travels_inline_without_a_directory() -> None:
    (order,) = triggered(Driver(root="").after(10.0))
    assert (order.root, order.directory) == ("", "")


def test_enumerators_are_saved_before_sources_are_told() -> None:
    driver = Driver()
    driver.now += 10
    assert SaveEnumerators(1) in driver.machine.handle(TimerElapsed(1, Timer.CHECKPOINT), driver.now)
    out = driver.machine.handle(EnumeratorsSaved(1, {"op": b"x"}), driver.now)
    assert [order.id for order in triggered(out)] == [1]
    (publish,) = of(PublishCheckpoint, driver.ack(1))
    assert publish.enumerators == {"op": b"x"}


def test_checkpoint_is_published_when_all_subtasks_have_acknowledged() -> None:
    driver = Driver()
    driver.after(10.0)
    assert of(PublishCheckpoint, driver.ack(1, (1, 1), (0, 0))) == []
    (publish,) = of(PublishCheckpoint, driver.ack(1, (1, 0)))
    assert [(a.vertex, a.subtask) for a in publish.acknowledgements] == list(SUBTASKS)
    assert sent(CheckpointCompleted, driver.instructions) == [], "not before it is durable"


def test_all_tasks_hear_of_a_complete_checkpoint() -> None:
    driver = Driver()
    driver.after(10.0)
    driver.ack(1)
    assert driver.publish(1)[:2] == [SendToTasks(TASKS, CheckpointCompleted(1)), SubsumeOlder(None, 1)]


def test_next_one_begins_an_interval_after_the_last_began() -> None:
    driver = Driver()
    driver.after(10.0)
    driver.now += 4
    assert SetTimer(1, Timer.CHECKPOINT, 6.0) in driver.complete(1)
    assert [order.id for order in triggered(driver.after(6.0))] == [2]


def test_one_that_takes_longer_than_the_interval_is_followed_at_once() -> None:
    driver = Driver()
    driver.after(10.0)
    assert triggered(driver.after(30.0)) == [], "one at a time"
    assert [order.id for order in triggered(driver.complete(1))] == [2]


def test_several_may_be_under_way_at_once() -> None:
    driver = Driver(max_concurrent=2)
    assert [order.id for order in triggered(driver.after(10.0))] == [1]
    assert [order.id for order in triggered(driver.after(10.0))] == [2]
    assert triggered(driver.after(10.0)) == []


def test_pause_counts_from_the_end_of_the_last_one_and_means_one_at_a_time() -> None:
    driver = Driver(min_pause=7.0, max_concurrent=5)
    driver.after(10.0)
    assert triggered(driver.after(10.0)) == []
    assert SetTimer(1, Timer.CHECKPOINT, 7.0) in driver.complete(1)
    assert triggered(driver.after(6.9)) == []
    assert [order.id for order in triggered(driver.after(0.1))] == [2]


def test_pause_also_follows_a_failed_one() -> None:
    driver = Driver(min_pause=7.0, tolerable_failures=3)
    driver.after(10.0)
    driver.now += 9
    driver.on(SnapshotDeclined(1, 0, 0, "no"))
    assert triggered(driver.after(6.9)) == []
    assert len(triggered(driver.after(0.1))) == 1


def test_newer_complete_checkpoint_supersedes_an_older_one() -> None:
    driver = Driver(max_concurrent=2)
    driver.after(10.0)
    driver.after(10.0)
    driver.ack(1, (0, 0))
    out = driver.complete(2)
    assert sent(CheckpointAborted, out) == [CheckpointAborted(1)]
    (discard,) = of(DiscardSnapshots, out)
    assert (discard.order.id, len(discard.acknowledgements)) == (1, 1)
    assert driver.machine.statistics.failed == 0
    assert driver.machine.statistics.superseded == 1


def test_checkpoints_are_full_unless_incremental_ones_are_wanted() -> None:
    assert triggered(Driver().after(10.0))[0].full
    assert not triggered(Driver(incremental=True).after(10.0))[0].full


def test_checkpoints_that_are_being_taken_keep_what_they_build_on() -> None:
    driver = Driver(incremental=True, max_concurrent=3)
    driver.after(10.0)
    assert of(SubsumeOlder, driver.complete(1)) == [SubsumeOlder(None, 1)]
    orders = [order for _ in range(3) for order in triggered(driver.after(10.0))]
    assert [(order.id, order.completed) for order in orders] == [(2, 1), (3, 1), (4, 1)]
    assert of(SubsumeOlder, driver.complete(2)) == [SubsumeOlder(1, 2)]
    assert of(SubsumeOlder, driver.complete(3)) == [SubsumeOlder(1, 3)]
    assert of(SubsumeOlder, driver.complete(4)) == [SubsumeOlder(None, 4)], (
        "nothing is under way but a new one"
    )


def test_full_checkpoints_build_on_nothing() -> None:
    driver = Driver(max_concurrent=2)
    for _ in range(3):
        driver.after(10.0)
    assert of(SubsumeOlder, driver.complete(1)) == [SubsumeOlder(None, 1)]


def test_first_checkpoint_after_a_savepoint_is_full() -> None:
    driver = Driver(running=False, incremental=True)
    driver.on(AttemptRunning(1, JobRestore(TaskRestore(9, "/elsewhere"))))
    assert triggered(driver.after(10.0))[0].full
    driver.complete(1)
    assert not triggered(driver.after(10.0))[0].full


def test_checkpoint_after_one_of_the_same_job_may_be_a_delta() -> None:
    driver = Driver(running=False, incremental=True)
    driver.on(AttemptRunning(1, JobRestore(TaskRestore(9, "/ckpt/job"))))
    assert not triggered(driver.after(10.0))[0].full


# Failures.


def test_declined_checkpoint_is_aborted_and_its_files_go() -> None:
    driver = Driver(tolerable_failures=1)
    driver.after(10.0)
    driver.ack(1, (0, 0))
    out = driver.on(SnapshotDeclined(1, 1, 1, "disk full"))
    assert out[0] == SendToTasks(TASKS, CheckpointAborted(1))
    assert [a.vertex for a in of(DiscardSnapshots, out)[0].acknowledgements] == [0]
    assert driver.machine.statistics.last_failure == "Count (2/2) declined: disk full"


def test_every_failed_checkpoint_is_said_with_number_reason_and_subtask() -> None:
    driver = Driver(tolerable_failures=10)
    driver.after(10.0)
    driver.on(SnapshotDeclined(1, 1, 1, "disk full"))
    driver.after(10.0)
    driver.ack(2, (0, 0))
    driver.after(60.0)
    driver.after(10.0)
    driver.complete(3)
    driver.after(10.0)
    driver.ack(4)
    driver.on(CheckpointNotPublished(4, StorageError("cannot be written")))
    driver.after(10.0)
    driver.on(AttemptOver(TaskLostError("lost a task")))
    said = driver.machine.drain_news()
    assert [text.partition(" after ")[0] for text in said] == [
        f"checkpoint {number} of job 'job' failed" for number in (1, 2, 4, 5)
    ]
    for text, reason in zip(
        said,
        (
            "Count (2/2) declined: disk full",
            "2 of 3 subtasks have not acknowledged it, the first is Count (1/2)",
            "it could not be published: cannot be written",
            "the job did not get that far: lost a task",
        ),
        strict=True,
    ):
        assert reason in text
    assert driver.machine.drain_news() == []
    assert [failure.id for failure in driver.machine.statistics.failures] == [1, 2, 4, 5]
    first = driver.machine.statistics.failures[0]
    assert first.ended is not None
    assert first.ended >= first.began > 0


def test_checkpoint_of_a_cancelled_job_is_nothing_to_warn_about() -> None:
    driver = Driver()
    driver.after(10.0)
    driver.on(AttemptOver(JobCancelledError("job 'job' was cancelled")))
    assert driver.machine.drain_news() == []


def test_late_acknowledgement_of_an_aborted_checkpoint_is_discarded() -> None:
    driver = Driver(tolerable_failures=1)
    (order,) = triggered(driver.after(10.0))
    driver.on(SnapshotDeclined(1, 1, 1, "no"))
    late = SnapshotAcknowledged(1, 1, 0, ())
    assert driver.on(late) == [DiscardSnapshots(order, (late,))]


def test_acknowledgements_of_unknown_and_of_complete_checkpoints_change_nothing() -> None:
    driver = Driver()
    driver.after(10.0)
    driver.complete(1)
    assert driver.ack(1, (0, 0)) == []
    assert driver.ack(77, (0, 0)) == []
    assert driver.ack(1, (5, 5)) == []


def test_second_acknowledgement_of_a_subtask_does_not_count_for_another() -> None:
    driver = Driver()
    driver.after(10.0)
    assert of(PublishCheckpoint, driver.ack(1, (0, 0), (0, 0), (1, 0), (1, 0))) == []


def test_checkpoint_that_takes_too_long_is_aborted() -> None:
    driver = Driver(tolerable_failures=1)
    driver.after(10.0)
    driver.ack(1, (0, 0))
    assert sent(CheckpointAborted, driver.after(59.9)) == []
    assert sent(CheckpointAborted, driver.after(0.1)) == [CheckpointAborted(1)]
    assert driver.machine.statistics.last_failure == (
        "not complete after 60 s: 2 of 3 subtasks have not acknowledged it, the first is Count (1/2)"
    )


def test_checkpoint_that_storage_does_not_publish_in_time_is_aborted() -> None:
    driver = Driver(tolerable_failures=1)
    driver.after(10.0)
    driver.ack(1)
    assert sent(CheckpointAborted, driver.after(59.9)) == []
    out = driver.after(0.1)
    assert sent(CheckpointAborted, out) == [CheckpointAborted(1)]
    assert [discard.order.id for discard in of(DiscardSnapshots, out)] == [1]
    assert driver.machine.statistics.failed == 1
    assert driver.machine.statistics.last_failure == (
        "not complete after 60 s: all subtasks have acknowledged it, but storage has not answered yet"
    )


def test_time_out_is_waited_for_while_a_checkpoint_is_being_published() -> None:
    driver = Driver(interval=1000.0)
    driver.after(1000.0)
    driver.now += 20.0
    assert of(SetTimer, driver.ack(1)) == [], "it is set already, for the time-out"
    assert of(SetTimer, driver.after(10.0))[-1].seconds == 30.0


@pytest.mark.parametrize("kind", ["checkpoint", "savepoint"])
def test_what_is_published_after_its_time_out_is_told_to_nobody(kind: str) -> None:
    driver = Driver(tolerable_failures=1, interval=1000.0)
    if kind == "savepoint":
        driver.on(SavepointRequested(7, None))
    else:
        driver.after(1000.0)
    driver.ack(1)
    out = driver.after(60.0)
    assert [answer.path for answer in answers(out)] == ([None] if kind == "savepoint" else [])
    out = driver.publish(1)
    assert of(SendToTasks, out) + of(SubsumeOlder, out) + answers(out) == []
    assert (driver.machine.statistics.completed, driver.machine.statistics.failed) == (0, 1)
    assert driver.machine.has_completed == (kind == "checkpoint"), "a job may resume from a late checkpoint"


def test_later_checkpoints_do_not_build_on_one_that_was_published_too_late() -> None:
    driver = Driver(tolerable_failures=5, incremental=True)
    driver.after(10.0)
    driver.complete(1)
    driver.after(10.0)
    driver.ack(2)
    assert [order.id for order in triggered(driver.after(60.0))] == [3]
    driver.publish(2)
    driver.on(SnapshotDeclined(3, 1, 0, "no"))
    assert [(order.id, order.completed) for order in triggered(driver.after(10.0))] == [(4, 1)]


def test_final_checkpoint_that_is_not_published_in_time_is_repeated() -> None:
    driver = Driver(tolerable_failures=1)
    driver.end_all()
    driver.ack(1)
    driver.after(60.0)
    assert [order.kind for order in triggered(driver.after(FINAL_RETRY_SECONDS))] == [CheckpointKind.FINAL]


def test_driver_that_was_replaced_ends_its_job_however_late_it_hears_of_it() -> None:
    driver = Driver(tolerable_failures=1)
    driver.after(10.0)
    driver.ack(1)
    driver.after(60.0)
    error = JobTakenOverError("another driver")
    assert of(FailJob, driver.on(CheckpointNotPublished(1, error, fenced=True))) == [FailJob(error)]


def test_late_failure_to_publish_is_no_second_failure() -> None:
    driver = Driver(tolerable_failures=1)
    driver.after(10.0)
    driver.ack(1)
    driver.after(60.0)
    out = driver.on(CheckpointNotPublished(1, StorageError("full")))
    assert of(FailAttempt, out) + sent(CheckpointAborted, out) == []
    assert driver.machine.statistics.failed == 1


def test_failed_publication_is_a_failed_checkpoint() -> None:
    driver = Driver(tolerable_failures=1)
    driver.after(10.0)
    driver.ack(1)
    out = driver.on(CheckpointNotPublished(1, StorageError("full")))
    assert sent(CheckpointAborted, out) == [CheckpointAborted(1)]
    assert len(of(DiscardSnapshots, out)[0].acknowledgements) == 3


def test_enumerator_that_cannot_be_saved_fails_the_checkpoint() -> None:
    driver = Driver(tolerable_failures=1)
    driver.now += 10
    driver.machine.handle(TimerElapsed(1, Timer.CHECKPOINT), driver.now)
    out = driver.on(EnumeratorsFailed(1, ValueError("boom")))
    assert sent(CheckpointAborted, out) == [CheckpointAborted(1)]
    assert triggered(out) == []


def test_too_many_failures_in_a_row_fail_the_attempt() -> None:
    driver = Driver(tolerable_failures=1)
    for number in (1, 2):
        driver.after(10.0)
        out = driver.on(SnapshotDeclined(number, 0, 0, "no"))
    (failure,) = of(FailAttempt, out)
    assert isinstance(failure.error, CheckpointError)
    assert "checkpoint 2 failed: Source (1/1) declined: no; that makes 2 failed checkpoints in a row" in str(
        failure.error
    )
    assert not failure.rewind
    assert triggered(driver.after(100.0)) == [], "nothing begins until the next attempt runs"


def test_a_complete_checkpoint_forgives_earlier_failures() -> None:
    driver = Driver(tolerable_failures=1)
    for number in (1, 2, 3):
        driver.after(10.0)
        if number == 2:
            driver.complete(number)
        else:
            assert of(FailAttempt, driver.on(SnapshotDeclined(number, 0, 0, "no"))) == []


def test_driver_that_was_replaced_ends_its_job() -> None:
    driver = Driver(tolerable_failures=100)
    driver.after(10.0)
    driver.ack(1)
    taken_over = JobTakenOverError("another driver")
    assert of(FailJob, driver.on(CheckpointNotPublished(1, taken_over, fenced=True))) == [FailJob(taken_over)]


# Attempts.


def test_failed_attempt_drops_what_is_not_being_published() -> None:
    driver = Driver(max_concurrent=2)
    driver.after(10.0)
    driver.after(10.0)
    driver.ack(1)
    driver.ack(2, (0, 0))
    out = driver.on(AttemptOver(RuntimeError("x")))
    assert [discard.order.id for discard in of(DiscardSnapshots, out)] == [2]
    assert of(SendToTasks, out) == [], "its tasks are ending anyway"


def test_checkpoint_published_after_its_attempt_is_complete_but_nobody_is_told() -> None:
    driver = Driver()
    driver.after(10.0)
    driver.ack(1)
    driver.on(AttemptOver(RuntimeError("x")))
    out = driver.publish(1)
    assert of(SendToTasks, out) == []
    assert driver.machine.has_completed
    assert driver.machine.statistics.completed == 1


def test_ids_go_on_in_the_next_attempt() -> None:
    driver = Driver()
    driver.after(10.0)
    driver.on(AttemptOver(RuntimeError("x")))
    driver.on(AttemptRunning(2))
    assert [order.id for order in triggered(driver.after(10.0))] == [2]


def test_ids_go_on_in_the_next_driver() -> None:
    assert [order.id for order in triggered(Driver(next_id=42).after(10.0))] == [42]


def test_ended_subtasks_of_an_earlier_attempt_do_not_count() -> None:
    driver = Driver()
    driver.on(SubtaskEnded(0, 0))
    driver.on(AttemptOver(RuntimeError("x")))
    driver.on(AttemptStarting())
    driver.on(AttemptRunning(2))
    driver.on(SubtaskEnded(1, 0))
    assert triggered(driver.on(SubtaskEnded(1, 1))) == []
    assert [order.kind for order in triggered(driver.on(SubtaskEnded(0, 0)))] == [CheckpointKind.FINAL]


# The end of the input.


def test_subtasks_may_end_before_all_tasks_run() -> None:
    driver = Driver(running=False)
    driver.on(AttemptStarting())
    assert driver.end_all() == []
    assert [order.kind for order in triggered(driver.on(AttemptRunning(1)))] == [CheckpointKind.FINAL]


def test_final_checkpoint_begins_when_the_last_subtask_has_ended() -> None:
    driver = Driver()
    driver.on(SubtaskEnded(0, 0))
    driver.on(SubtaskEnded(1, 0))
    (order,) = triggered(driver.on(SubtaskEnded(1, 1)))
    assert order.kind is CheckpointKind.FINAL
    assert sent(CheckpointCompleted, driver.complete(order.id)) == [CheckpointCompleted(1, final=True)]
    assert triggered(driver.after(1000.0)) == []


def test_final_checkpoint_takes_the_place_of_a_periodic_one() -> None:
    driver = Driver()
    driver.after(10.0)
    out = driver.end_all()
    assert sent(CheckpointAborted, out) == [CheckpointAborted(1)]
    assert [order.id for order in triggered(out)] == [2]


def test_final_checkpoint_waits_for_a_savepoint_under_way() -> None:
    driver = Driver()
    driver.on(SavepointRequested(1))
    assert triggered(driver.end_all()) == []
    assert [order.kind for order in triggered(driver.complete(1))] == [CheckpointKind.FINAL]


def test_failed_final_checkpoint_is_repeated_after_a_while() -> None:
    driver = Driver(tolerable_failures=5)
    driver.end_all()
    out = driver.on(SnapshotDeclined(1, 0, 0, "no"))
    assert triggered(out) == []
    assert SetTimer(1, Timer.CHECKPOINT, 1.0) in out
    assert [order.kind for order in triggered(driver.after(1.0))] == [CheckpointKind.FINAL]


def test_final_checkpoint_that_keeps_failing_fails_the_attempt() -> None:
    driver = Driver(tolerable_failures=0)
    driver.end_all()
    assert len(of(FailAttempt, driver.on(SnapshotDeclined(1, 0, 0, "no")))) == 1


# Savepoints.


def test_savepoint_goes_to_a_directory_of_its_own_and_ignores_all_limits() -> None:
    driver = Driver(min_pause=100.0)
    driver.after(100.0)
    (order,) = triggered(driver.on(SavepointRequested(5, "/mine")))
    assert order.kind is CheckpointKind.SAVEPOINT
    assert order.root.startswith(f"/mine/savepoint-{JOB[:6]}-")
    assert order.directory == ""
    assert order.wants_full


def test_savepoint_is_answered_with_its_path_and_sinks_commit() -> None:
    driver = Driver()
    driver.on(SavepointRequested(5))
    driver.ack(1)
    out = driver.on(CheckpointPublished(1, "/sp/savepoint-x"))
    assert answers(out) == [AnswerSavepoint(5, "/sp/savepoint-x")]
    assert sent(CheckpointCompleted, out) == [CheckpointCompleted(1)]
    assert of(SubsumeOlder, out) == []


def test_savepoint_does_not_count_as_one_of_the_concurrent_checkpoints() -> None:
    driver = Driver()
    driver.on(SavepointRequested(5))
    assert [order.kind for order in triggered(driver.after(10.0))] == [CheckpointKind.CHECKPOINT]


def test_failed_savepoint_is_answered_and_does_not_count_as_a_failed_checkpoint() -> None:
    driver = Driver()
    driver.on(SavepointRequested(5))
    out = driver.on(SnapshotDeclined(1, 0, 0, "no"))
    assert str(answers(out)[0].error) == "no savepoint of job 'job': Source (1/1) declined: no"
    assert of(FailAttempt, out) == []


def test_complete_checkpoint_does_not_supersede_an_older_savepoint() -> None:
    driver = Driver()
    driver.on(SavepointRequested(5))
    driver.after(10.0)
    assert sent(CheckpointAborted, driver.complete(2)) == []
    assert answers(driver.complete(1))[0].path is not None


@pytest.mark.parametrize("request_of", [SavepointRequested, StopWithSavepointRequested])
def test_savepoint_of_a_job_that_is_not_running_is_refused(request_of: Any) -> None:
    out = Driver(running=False).on(request_of(1))
    assert "not all tasks of the job are running" in str(answers(out)[0].error)


def test_savepoint_without_a_directory_is_refused() -> None:
    out = Driver(savepoint_directory=None).on(SavepointRequested(1))
    assert "set 'execution.checkpointing.savepoint-dir'" in str(answers(out)[0].error)


def test_savepoint_of_a_failing_attempt_is_answered_with_the_reason() -> None:
    driver = Driver()
    driver.on(SavepointRequested(1))
    out = driver.on(AttemptOver(RuntimeError("boom")))
    assert "the job did not get that far: boom" in str(answers(out)[0].error)


# Stopping with a savepoint.


def test_stop_gives_up_periodic_checkpoints_and_takes_a_savepoint() -> None:
    driver = Driver()
    driver.after(10.0)
    out = driver.on(StopWithSavepointRequested(1))
    assert sent(CheckpointAborted, out) == [CheckpointAborted(1)]
    assert [(order.id, order.kind) for order in triggered(out)] == [(2, CheckpointKind.STOP)]
    assert triggered(driver.after(50.0)) == [], "no checkpoint may slip in between"


def test_stop_is_answered_when_the_job_is_over() -> None:
    driver = Driver()
    driver.on(StopWithSavepointRequested(1))
    driver.ack(1)
    out = driver.on(CheckpointPublished(1, "/sp/x"))
    assert sent(CheckpointCompleted, out) == [CheckpointCompleted(1, final=True)]
    assert answers(out) == []
    assert driver.on(JobOver(JobStatus.FINISHED)) == [AnswerSavepoint(1, "/sp/x"), CleanUp(keep=False)]


def test_stop_waits_for_what_can_no_longer_be_aborted() -> None:
    driver = Driver()
    driver.on(SavepointRequested(7))
    driver.after(10.0)
    driver.ack(2)
    assert triggered(driver.on(StopWithSavepointRequested(8))) == []
    assert triggered(driver.publish(2)) == []
    assert [order.kind for order in triggered(driver.complete(1))] == [CheckpointKind.STOP]


def test_failed_stop_lets_the_job_go_on() -> None:
    driver = Driver()
    driver.on(StopWithSavepointRequested(1))
    out = driver.on(SnapshotDeclined(1, 0, 0, "no"))
    assert sent(CheckpointAborted, out) == [CheckpointAborted(1)]
    assert answers(out)[0].error is not None
    assert of(FailAttempt, out) == []
    assert [order.kind for order in triggered(driver.after(10.0))] == [CheckpointKind.CHECKPOINT]


def test_second_wish_while_stopping_is_refused() -> None:
    driver = Driver()
    driver.on(StopWithSavepointRequested(1))
    for request in (SavepointRequested(2), StopWithSavepointRequested(3)):
        assert "is being stopped with another savepoint" in str(answers(driver.on(request))[0].error)


def test_draining_ends_the_sources_and_then_takes_the_savepoint() -> None:
    driver = Driver()
    out = driver.on(StopWithSavepointRequested(1, drain=True))
    assert of(SendToTasks, out) == [SendToTasks(SOURCE, StopSources())]
    assert triggered(driver.after(50.0)) == []
    (order,) = triggered(driver.end_all())
    assert order.kind is CheckpointKind.FINAL_SAVEPOINT
    assert sent(CheckpointCompleted, driver.complete(1)) == [CheckpointCompleted(1, final=True)]


def test_failed_savepoint_after_draining_takes_the_job_back() -> None:
    driver = Driver()
    driver.on(StopWithSavepointRequested(1, drain=True))
    driver.end_all()
    out = driver.on(SnapshotDeclined(1, 0, 0, "no"))
    (failure,) = of(FailAttempt, out)
    assert failure.rewind
    assert answers(out)[0].error is not None
    assert triggered(driver.after(100.0)) == []


def test_stopping_a_job_whose_input_has_ended_makes_its_last_checkpoint_a_savepoint() -> None:
    driver = Driver()
    driver.end_all()
    out = driver.on(StopWithSavepointRequested(1))
    assert sent(CheckpointAborted, out) == [CheckpointAborted(1)]
    assert [order.kind for order in triggered(out)] == [CheckpointKind.FINAL_SAVEPOINT]
    out = driver.on(SnapshotDeclined(2, 0, 0, "no"))
    assert of(FailAttempt, out) == [], "nobody has ended its sources before their time"
    assert [order.kind for order in triggered(out)] == [CheckpointKind.FINAL]


def test_stop_of_a_job_that_ends_by_itself_is_refused() -> None:
    driver = Driver()
    driver.end_all()
    driver.ack(1)
    assert "the job is ending" in str(answers(driver.on(StopWithSavepointRequested(1)))[0].error)


@pytest.mark.parametrize("drain", [False, True])
def test_failure_while_stopping_is_answered_once_and_forgotten(drain: bool) -> None:
    driver = Driver()
    driver.on(StopWithSavepointRequested(1, drain=drain))
    assert len(answers(driver.on(AttemptOver(RuntimeError("boom"))))) == 1
    driver.on(AttemptRunning(2))
    assert [order.kind for order in triggered(driver.after(10.0))] == [CheckpointKind.CHECKPOINT]


def test_failure_after_the_savepoint_names_the_savepoint() -> None:
    driver = Driver()
    driver.on(StopWithSavepointRequested(1))
    driver.ack(1)
    driver.on(CheckpointPublished(1, "/sp/x"))
    (answer,) = answers(driver.on(AttemptOver(RuntimeError("boom"))))
    assert "savepoint /sp/x is complete, but the job failed before it had ended: boom" in str(answer.error)


def test_savepoint_published_after_the_failure_is_answered_then() -> None:
    driver = Driver()
    driver.on(StopWithSavepointRequested(1))
    driver.ack(1)
    assert answers(driver.on(AttemptOver(RuntimeError("boom")))) == []
    (answer,) = answers(driver.on(CheckpointPublished(1, "/sp/x")))
    assert "savepoint /sp/x is complete, but the job had failed before" in str(answer.error)


# The end of the job.


@pytest.mark.parametrize(
    ("status", "retention", "keep"),
    [
        (JobStatus.FINISHED, Retention.RETAIN_ON_CANCELLATION, False),
        (JobStatus.FINISHED, Retention.NO_EXTERNALIZED_CHECKPOINTS, False),
        (JobStatus.CANCELED, Retention.NO_EXTERNALIZED_CHECKPOINTS, False),
        (JobStatus.CANCELED, Retention.DELETE_ON_CANCELLATION, False),
        (JobStatus.CANCELED, Retention.RETAIN_ON_CANCELLATION, True),
        (JobStatus.FAILED, Retention.NO_EXTERNALIZED_CHECKPOINTS, True),
        (JobStatus.FAILED, Retention.DELETE_ON_CANCELLATION, True),
    ],
)
def test_what_stays_when_the_job_is_over(status: JobStatus, retention: Retention, keep: bool) -> None:
    driver = Driver(retention=retention)
    driver.after(10.0)
    driver.complete(1)
    assert driver.on(JobOver(status)) == [CleanUp(keep)]


def test_failed_job_without_any_checkpoint_leaves_nothing_behind() -> None:
    assert Driver(running=False).on(JobOver(JobStatus.FAILED)) == [CleanUp(keep=False)]


def test_wishes_that_are_open_when_the_job_is_over_are_answered() -> None:
    driver = Driver()
    driver.on(SavepointRequested(1))
    driver.ack(1)
    (answer,) = answers(driver.on(JobOver(JobStatus.CANCELED)))
    assert "the job is over: CANCELED" in str(answer.error)


# Statistics.


def test_statistics_tell_size_and_times_of_the_slowest_subtask() -> None:
    driver = Driver()
    driver.after(10.0)
    driver.ack(1, (0, 0), bytes_written=100, alignment_ms=1.0, pause_ms=5.0)
    driver.ack(1, (1, 0), bytes_written=20, alignment_ms=7.0, pause_ms=2.0)
    driver.ack(1, (1, 1))
    driver.now += 0.25
    assert driver.machine.statistics.in_progress == 1
    driver.publish(1)
    newest = driver.machine.statistics.newest
    assert newest is not None
    assert (newest.id, newest.path, newest.began) == (1, "/ckpt/job/chk-1", 1_010_000)
    assert newest.duration_ms == pytest.approx(250.0)
    assert (newest.bytes_written, newest.alignment_ms, newest.pause_ms) == (120, 7.0, 5.0)
    assert driver.machine.statistics.in_progress == 0


def status_of(driver: Driver, checkpoint_id: int) -> CheckpointStatus:
    (found,) = [each for each in driver.machine.statistics.history if each.id == checkpoint_id]
    return found.status


def test_checkpoint_is_in_the_history_from_its_trigger_on() -> None:
    driver = Driver()
    driver.after(10.0)
    (begun,) = driver.machine.statistics.history
    assert (begun.id, begun.kind, begun.began) == (1, CheckpointKind.CHECKPOINT, 1_010_000)
    assert (begun.status, begun.ended) == (CheckpointStatus.IN_PROGRESS, None)
    assert (begun.subtasks, begun.acknowledgements, begun.duration_ms) == (3, (), 0)


def test_history_tells_who_has_acknowledged_a_checkpoint_and_when() -> None:
    driver = Driver()
    driver.after(10.0)
    driver.now += 0.5
    facts = {"bytes_written": 7, "alignment_ms": 1.0, "pause_ms": 2.0, "duration_ms": 3.0}
    driver.ack(1, (1, 1), **facts)
    driver.now += 0.25
    driver.ack(1, (1, 1), (0, 0))  # the first one was heard already
    (begun,) = driver.machine.statistics.history
    assert begun.acknowledgements == (
        SubtaskAcknowledgement(1, 1, 1_010_500, 7, 1.0, 2.0, 3.0),
        SubtaskAcknowledgement(0, 0, 1_010_750, 0, 0.0, 0.0, 0.0),
    )
    assert (begun.bytes_written, begun.duration_ms) == (7, 750)


def test_declined_checkpoint_is_in_the_history_with_what_was_acknowledged() -> None:
    driver = Driver(tolerable_failures=1)
    driver.after(10.0)
    driver.ack(1, (0, 0))
    driver.now += 1.0
    driver.on(SnapshotDeclined(1, 1, 1, "disk full"))
    driver.after(9.0)
    driver.complete(2)
    failed, completed = driver.machine.statistics.history
    assert (failed.id, failed.status) == (1, CheckpointStatus.FAILED)
    assert failed.failure_message == "Count (2/2) declined: disk full"
    assert (failed.ended, failed.duration_ms, failed.path) == (1_011_000, 1000, "")
    assert [(each.vertex, each.subtask) for each in failed.acknowledgements] == [(0, 0)]
    assert (completed.id, completed.status) == (2, CheckpointStatus.COMPLETED)
    assert (completed.path, completed.failure_message) == ("/ckpt/job/chk-2", "")
    assert driver.machine.statistics.completions == (completed,)
    assert driver.machine.statistics.failures == (failed,)


def test_superseded_checkpoint_says_why_in_the_history() -> None:
    driver = Driver(max_concurrent=2)
    driver.after(10.0)
    driver.after(10.0)
    driver.complete(2)
    older = driver.machine.statistics.history[0]
    assert older.status is CheckpointStatus.SUPERSEDED
    assert older.failure_message == "checkpoint 2 was complete before it"
    assert driver.machine.statistics.failures == ()


def test_checkpoint_whose_storage_answers_too_late_has_failed() -> None:
    driver = Driver(tolerable_failures=1)
    driver.after(10.0)
    driver.ack(1)
    assert status_of(driver, 1) is CheckpointStatus.IN_PROGRESS
    driver.after(60.0)
    assert status_of(driver, 1) is CheckpointStatus.FAILED
    driver.publish(1)
    assert status_of(driver, 1) is CheckpointStatus.FAILED


def test_checkpoints_of_a_failed_attempt_have_failed() -> None:
    driver = Driver()
    driver.after(10.0)
    driver.on(AttemptOver(TaskLostError("lost a task")))
    assert status_of(driver, 1) is CheckpointStatus.FAILED
    assert driver.machine.statistics.last_failure == "the job did not get that far: lost a task"


def test_nothing_is_in_progress_when_the_job_is_over() -> None:
    driver = Driver()
    driver.after(10.0)
    driver.ack(1)  # and storage never answers
    driver.on(JobOver(JobStatus.FAILED))
    assert status_of(driver, 1) is CheckpointStatus.SUPERSEDED
    assert driver.machine.statistics.in_progress == 0


def test_history_is_bounded_and_counts_are_not() -> None:
    driver = Driver(tolerable_failures=1, history_size=2)
    driver.after(10.0)
    driver.complete(1)
    driver.after(10.0)
    driver.on(SnapshotDeclined(2, 0, 0, "not now"))
    for _ in range(3):
        driver.on(SavepointRequested(1, None))
    statistics = driver.machine.statistics
    assert [each.id for each in statistics.history] == [4, 5]
    assert (statistics.begun, statistics.completed, statistics.failed) == (5, 1, 1)
    assert statistics.newest is not None
    assert statistics.newest.id == 1
    assert statistics.last_failure == "Source (1/1) declined: not now"
    driver.complete(3)  # it is not remembered any more
    statistics = driver.machine.statistics
    assert [each.id for each in statistics.history] == [4, 5]
    assert (statistics.completed, statistics.newest and statistics.newest.id) == (2, 3)


def test_history_of_no_checkpoint_is_possible() -> None:
    driver = Driver(history_size=0)
    driver.after(10.0)
    driver.complete(1)
    assert driver.machine.statistics.history == ()
    assert driver.machine.statistics.completed == 1


def test_statistics_remember_where_the_job_went_on() -> None:
    driver = Driver(running=False)
    driver.on(AttemptRunning(1, JobRestore(TaskRestore(9, "/x"))))
    assert driver.machine.statistics.restored == 9


# Jobs without an interval.


def without_interval(**settings: Any) -> Driver:
    return Driver(root="", interval=None, **settings)


def all_stay(driver: Driver) -> list[CoordinatorInstruction]:
    return [i for task in TASKS for i in driver.on(TaskIsStaying(task))]


def test_without_an_interval_nothing_begins_by_itself() -> None:
    driver = without_interval()
    driver.after(1_000_000.0)
    driver.end_all()
    assert driver.instructions == []
    assert driver.on(JobOver(JobStatus.FINISHED)) == []


def test_without_an_interval_savepoints_begin_when_all_tasks_stay() -> None:
    driver = without_interval()
    out = driver.on(SavepointRequested(1)) + driver.on(SavepointRequested(2))
    assert of(SendToTasks, out) == [SendToTasks(TASKS, StayForSavepoint())]
    assert triggered(driver.on(TaskIsStaying(TASKS[0]))) == []
    orders = triggered(all_stay(driver))
    assert [order.kind for order in orders] == [CheckpointKind.SAVEPOINT] * 2
    assert not sent(MayEnd, driver.ack(1) + driver.on(CheckpointPublished(1, "/sp/1")))
    assert sent(MayEnd, driver.ack(2) + driver.on(CheckpointPublished(2, "/sp/2"))) == [MayEnd()]
    assert [answer.path for answer in answers(driver.instructions)] == ["/sp/1", "/sp/2"]


def test_without_an_interval_the_tasks_are_asked_again_for_the_next_savepoint() -> None:
    driver = without_interval()
    driver.on(SavepointRequested(1))
    all_stay(driver)
    driver.on(SnapshotDeclined(1, 0, 0, "no"))
    assert sent(MayEnd, driver.instructions) == [MayEnd()]
    assert sent(StayForSavepoint, driver.on(SavepointRequested(2))) == [StayForSavepoint()]
    assert [order.id for order in triggered(all_stay(driver))] == [2]


def test_without_an_interval_a_stop_ends_the_job_with_its_savepoint() -> None:
    driver = without_interval()
    driver.on(StopWithSavepointRequested(1))
    (order,) = triggered(all_stay(driver))
    assert order.kind is CheckpointKind.STOP
    out = driver.complete(1)
    assert sent(CheckpointCompleted, out) == [CheckpointCompleted(1, final=True)]
    assert not sent(MayEnd, out)


def test_without_an_interval_draining_ends_the_sources_when_all_tasks_stay() -> None:
    driver = without_interval()
    assert not sent(StopSources, driver.on(StopWithSavepointRequested(1, drain=True)))
    assert sent(StopSources, all_stay(driver)) == [StopSources()]
    (order,) = triggered(driver.end_all())
    assert order.kind is CheckpointKind.FINAL_SAVEPOINT


def test_without_an_interval_a_failed_drain_is_for_the_restart_strategy() -> None:
    driver = without_interval()
    driver.on(StopWithSavepointRequested(1, drain=True))
    all_stay(driver)
    driver.end_all()
    (failed,) = of(FailAttempt, driver.on(SnapshotDeclined(1, 0, 0, "no")))
    assert not failed.rewind


def test_without_an_interval_a_task_that_has_ended_ends_the_wait() -> None:
    driver = without_interval()
    driver.on(SavepointRequested(1))
    driver.on(TaskIsStaying(TASKS[0]))
    out = driver.on(TaskHasEnded(TASKS[2]))
    assert "Count (2/2) has processed everything and ended" in str(answers(out)[0].error)
    assert sent(MayEnd, out) == [MayEnd()]
    out = driver.on(SavepointRequested(2))
    assert "Count (2/2) has processed" in str(answers(out)[0].error)
    assert not of(SendToTasks, out)


def test_without_an_interval_a_task_that_does_not_answer_is_waited_for_no_longer_than_the_time_out() -> None:
    driver = without_interval()
    assert of(SetTimer, driver.on(SavepointRequested(1))) == [SetTimer(1, Timer.CHECKPOINT, 60.0)]
    assert "not all tasks have answered after 60 s" in str(answers(driver.after(60.0))[0].error)
    driver.on(SavepointRequested(2))
    assert [order.kind for order in triggered(all_stay(driver))] == [CheckpointKind.SAVEPOINT]


def test_without_an_interval_those_who_wait_hear_of_a_failure() -> None:
    driver = without_interval()
    driver.on(SavepointRequested(1))
    assert "boom" in str(answers(driver.on(AttemptOver(RuntimeError("boom"))))[0].error)
    driver.on(AttemptStarting())
    driver.on(AttemptRunning(2))
    assert sent(StayForSavepoint, driver.on(SavepointRequested(2))) == [StayForSavepoint()]
    assert "the job is over" in str(answers(driver.on(JobOver(JobStatus.CANCELED)))[0].error)


# Checkpoints on request.


def test_checkpoint_on_request_begins_at_once_and_is_answered_with_its_number() -> None:
    driver = Driver(min_pause=5.0)
    (order,) = [m.message.order for m in of(SendToTasks, driver.on(CheckpointRequested(7)))]  # type: ignore[union-attr]
    assert (order.id, order.kind) == (1, CheckpointKind.CHECKPOINT)
    assert of(AnswerCheckpoint, driver.complete(1)) == [AnswerCheckpoint(7, 1)]
    assert driver.machine.statistics.completed == 1


def test_requests_that_come_while_a_checkpoint_is_under_way_share_the_next_one() -> None:
    driver = Driver(incremental=True)
    driver.after(10.0)
    driver.on(CheckpointRequested(1))
    assert of(SaveEnumerators, driver.on(CheckpointRequested(2, full=True))) == [], "one at a time"
    (trigger,) = [m for m in of(SendToTasks, driver.complete(1)) if isinstance(m.message, TriggerCheckpoint)]
    assert isinstance(trigger.message, TriggerCheckpoint)
    assert trigger.message.order.full
    assert of(AnswerCheckpoint, driver.complete(2)) == [AnswerCheckpoint(1, 2), AnswerCheckpoint(2, 2)]


def test_checkpoint_on_request_that_fails_is_answered_with_the_reason() -> None:
    driver = Driver(tolerable_failures=1)
    driver.on(CheckpointRequested(3))
    (answer,) = of(AnswerCheckpoint, driver.on(SnapshotDeclined(1, 0, 0, "no")))
    assert answer.checkpoint_id is None
    assert "Source (1/1) declined: no" in str(answer.error)


@pytest.mark.parametrize(
    ("driver", "reason"),
    [
        (lambda: Driver(interval=None), "takes savepoints only"),
        (lambda: Driver(running=False), "not all tasks of the job are running"),
    ],
)
def test_checkpoint_on_request_is_refused_when_none_can_be_taken(driver: Any, reason: str) -> None:
    (answer,) = of(AnswerCheckpoint, driver().on(CheckpointRequested(1)))
    assert reason in str(answer.error)


def test_checkpoint_that_was_asked_for_too_late_is_answered_when_the_attempt_ends() -> None:
    driver = Driver()
    driver.after(10.0)
    driver.on(CheckpointRequested(1))
    (answer,) = of(AnswerCheckpoint, driver.on(AttemptOver(TaskLostError("lost"))))
    assert "did not get that far" in str(answer.error)


def test_what_an_attempt_started_from_is_remembered() -> None:
    driver = Driver(running=False)
    driver.on(AttemptRunning(1, JobRestore(TaskRestore(4, "/sp/one"), path="/sp/one", is_savepoint=True)))
    restoration = driver.machine.statistics.restoration
    assert restoration is not None
    assert (restoration.checkpoint_id, restoration.time, restoration.is_savepoint) == (4, 1_000_000, True)
    assert driver.machine.statistics.restorations == 1
