"""Which failures are the same, when they count as repeated, and what a job does about it."""

from __future__ import annotations

import pytest

from firesteel.common.configuration import Configuration
from firesteel.common.errors import CheckpointError, InvalidOptionError, TaskLostError, UserCodeError
from firesteel.common.job_status import JobStatus
from firesteel.jobmaster.events import (
    AttemptEnded,
    RestoreFound,
    Submitted,
    TaskConnected,
    TaskOrigin,
    TaskSaid,
    Timer,
    TimerElapsed,
)
from firesteel.jobmaster.failure_history import label_of
from firesteel.jobmaster.instructions import CompleteJob, FindRestore, Instruction, StartAttempt
from firesteel.jobmaster.job_lifecycle import JobLifecycle
from firesteel.jobmaster.job_restore import JobRestore
from firesteel.jobmaster.repeated_failures import (
    RepeatedFailures,
    Repetition,
    RepetitionSettings,
    identity_of,
    read_repetition_settings,
)
from firesteel.jobmaster.restart_policy import FixedDelay
from firesteel.plan.job_plan import JobPlan, OperatorPlan, StagePlan, VertexPlan
from firesteel.plan.messages import TaskCancelled, TaskId, TaskStarted
from firesteel.plan.operator_specs import MapSpec, RuntimeMode
from firesteel.plan.shipped import Shipped
from firesteel.plan.state_handles import TaskRestore
from firesteel.plan.task_failure import to_message

TASK = TaskId(0, 0)
WARN, END = RepetitionSettings(3, ends_job=False), RepetitionSettings(3, ends_job=True)


def plan() -> JobPlan:
    parse = OperatorPlan("id", "Parse", MapSpec(Shipped.of(int, "map")))
    vertex = VertexPlan(0, "Parse", 0, 0, 1, 128, (parse,))
    return JobPlan("job", RuntimeMode.STREAMING, (StagePlan(0, 1, (0,)),), (vertex,), ())


def failure(
    record: str = "'x'", line: int = 3, reason: str = "ValueError: no", subtask: int = 0
) -> UserCodeError:
    text = f'Traceback (most recent call last):\n  File "job.py", line 1, in f\n  File "job.py", line {line}, in g\n'
    return UserCodeError(
        reason,
        operator="Parse",
        subtask=subtask,
        parallelism=4,
        function="f",
        record=record,
        traceback_text=text,
    )


# Which are the same -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "other",
    [
        failure(),
        failure(reason="ValueError: no, at 12:34:56"),
        failure(subtask=2),
    ],
)
def test_messages_and_subtasks_may_differ(other: UserCodeError) -> None:
    assert identity_of(failure()) == identity_of(other)


@pytest.mark.parametrize("other", [failure("'y'"), failure(line=4), failure(reason="TypeError: no")])
def test_another_record_line_or_error_is_another_failure(other: UserCodeError) -> None:
    assert identity_of(failure()) != identity_of(other)


def test_addresses_of_objects_are_of_one_process_only() -> None:
    first, second = failure("<Order object at 0x7f01>"), failure("<Order object at 0x7f02>")
    assert identity_of(first) == identity_of(second)


def test_numbers_do_not_matter_in_errors_that_are_not_of_user_code() -> None:
    first, second = CheckpointError("checkpoint 3 failed\nreason"), CheckpointError("checkpoint 4 failed")
    assert identity_of(first) == identity_of(second) != identity_of(CheckpointError("savepoint 3 failed"))


# When they count --------------------------------------------------------------------------------------


class Failures:
    """Failures of a job, each with the checkpoint from which its attempt had begun."""

    def __init__(self, settings: RepetitionSettings) -> None:
        self.repeated = RepeatedFailures(plan(), settings)

    def after(self, restored: int | None, error: BaseException | None = None) -> Repetition | None:
        error = error or failure()
        return self.repeated.failed(error, label_of(error), restored, restarts=True)


def test_the_third_of_a_kind_is_told() -> None:
    failures = Failures(WARN)
    assert [failures.after(7) for _ in range(2)] == [None, None]
    found = failures.after(7)
    assert found is not None
    assert not found.ends_job
    assert found.text == (
        "the same record has failed job 'job' 3 times, in 'Parse' with ValueError: 'x'; a restart reads it again. "
        "on_error('drop') or on_error(dead_letter=...) on 'Parse' takes such records out; or mend the function and start the "
        "job from its newest checkpoint. The job goes on restarting; with 'firesteel.repeated-failure.action' = fail it would "
        "end here"
    )


def test_told_again_when_the_count_has_doubled() -> None:
    failures = Failures(WARN)
    assert [n for n in range(1, 30) if failures.after(7)] == [3, 6, 12, 24]


def test_two_records_may_take_turns() -> None:
    failures = Failures(END)
    turns = [failures.after(7, failure(record)) for record in ("'x'", "'y'", "'y'", "'x'", "'x'")]
    assert [found is not None for found in turns] == [False, False, False, False, True]


def test_a_checkpoint_in_between_may_have_come_before_the_record() -> None:
    failures = Failures(END)
    assert [failures.after(checkpoint) is not None for checkpoint in (None, 40, 41)] == [False, False, True]


def test_an_attempt_that_came_much_further_has_passed_the_record() -> None:
    failures = Failures(END)
    assert [failures.after(checkpoint) for checkpoint in (None, 40, 60, 80, 100)] == [None] * 5


def test_lost_machines_and_storage_say_nothing_of_the_program() -> None:
    failures = Failures(END)
    assert [failures.after(7, TaskLostError("lost")) for _ in range(9)] == [None] * 9


def test_a_failure_without_record_is_told_without() -> None:
    failures = Failures(END)
    found = [failures.after(7, failure(record="")) for _ in range(3)][-1]
    assert found is not None
    assert found.text.startswith("the same failure of 'Parse' has ended job 'job' 3 times: ValueError;")
    assert "on_error" not in found.text


def test_nothing_is_counted_when_it_is_switched_off() -> None:
    failures = Failures(RepetitionSettings(0, ends_job=True))
    assert [failures.after(7) for _ in range(9)] == [None] * 9


def test_only_so_many_failures_are_remembered() -> None:
    failures = Failures(END)
    for number in range(1000):
        failures.after(7, failure(f"'{number}'"))
    assert len(failures.repeated._seen) == 32


@pytest.mark.parametrize(
    ("options", "simulated", "expected"),
    [
        ({}, False, RepetitionSettings(3, ends_job=False)),
        ({}, True, RepetitionSettings(3, ends_job=True)),
        ({"firesteel.repeated-failure.action": "fail"}, False, RepetitionSettings(3, ends_job=True)),
        ({"firesteel.repeated-failure.action": "warn"}, True, RepetitionSettings(3, ends_job=False)),
        ({"firesteel.repeated-failure.threshold": "5"}, False, RepetitionSettings(5, ends_job=False)),
    ],
)
def test_options(options: dict[str, str], simulated: bool, expected: RepetitionSettings) -> None:
    assert read_repetition_settings(Configuration.from_dict(options), simulated) == expected


def test_a_negative_threshold_is_refused() -> None:
    configuration = Configuration.from_dict({"firesteel.repeated-failure.threshold": "-1"})
    with pytest.raises(InvalidOptionError, match="expected at least 0, got -1"):
        read_repetition_settings(configuration, simulated=False)


# In the life of a job ---------------------------------------------------------------------------------


def fail_again_and_again(lifecycle: JobLifecycle, times: int) -> list[Instruction]:
    """Attempts that fail at the same record, until the job is over; all that was instructed."""
    done = lifecycle.handle(Submitted())
    for attempt in range(1, times + 1):
        origin = TaskOrigin(attempt, TASK, 0)
        for event in (
            TaskConnected(origin),
            TaskSaid(origin, TaskStarted("host", 1, attempt)),
            TaskSaid(origin, to_message(failure())),
            TaskSaid(origin, TaskCancelled()),
            AttemptEnded(attempt, None),
            TimerElapsed(attempt, Timer.RESTART),
            RestoreFound(attempt + 1, JobRestore(TaskRestore(7, ""))),
        ):
            done += lifecycle.handle(event, float(attempt))
    return done


def lifecycle_with(settings: RepetitionSettings, restarts: int = 1000) -> JobLifecycle:
    return JobLifecycle(plan(), 2.0, FixedDelay(restarts, 1.0), checkpointing=True, repetition=settings)


def test_the_job_goes_on_and_says_what_it_does() -> None:
    lifecycle = lifecycle_with(WARN)
    done = fail_again_and_again(lifecycle, 5)
    assert len([each for each in done if isinstance(each, StartAttempt)]) == 6
    assert len([each for each in done if isinstance(each, FindRestore)]) == 5
    (news,) = lifecycle.drain_news()
    assert "the same record has failed job 'job' 3 times" in news


def test_the_job_ends_with_the_error_and_a_note() -> None:
    lifecycle = lifecycle_with(END)
    done = fail_again_and_again(lifecycle, 5)
    assert len([each for each in done if isinstance(each, StartAttempt)]) == 3
    (end,) = [each for each in done if isinstance(each, CompleteJob)]
    assert end.status is JobStatus.FAILED
    assert isinstance(end.error, UserCodeError)
    (note,) = end.error.__notes__
    assert "3 times" in note
    assert "The job ends here" in note
    assert lifecycle.drain_news() == []


def test_a_job_that_has_used_up_its_restarts_tells_that_they_were_in_vain() -> None:
    lifecycle = lifecycle_with(WARN, restarts=3)
    (end,) = [each for each in fail_again_and_again(lifecycle, 5) if isinstance(each, CompleteJob)]
    assert end.error is not None
    (note,) = end.error.__notes__
    assert "the same record has failed job 'job' 4 times" in note
    assert "restarting" not in note
