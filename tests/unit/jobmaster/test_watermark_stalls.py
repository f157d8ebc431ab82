"""Questions from task to task about who holds event time back."""

from __future__ import annotations

from firesteel.jobmaster.instructions import SendToTasks
from firesteel.jobmaster.watermark_stalls import WatermarkStalls
from firesteel.plan.job_plan import JobPlan, StagePlan, VertexPlan
from firesteel.plan.messages import (
    ExplainWatermark,
    TaskId,
    WatermarkCause,
    WatermarkExplained,
    WatermarkStalled,
)
from firesteel.plan.operator_specs import RuntimeMode

NOBODY = -(2**63)


def stalls() -> WatermarkStalls:
    source = VertexPlan(0, "Source", 0, 2, 2, 128, ())
    sums = VertexPlan(1, "Sums", 1, 0, 2, 128, ())
    stages = (StagePlan(0, 4, (0,)), StagePlan(1, 2, (1,)))
    return WatermarkStalls(JobPlan("job", RuntimeMode.STREAMING, stages, (source, sums), ()))


def stall(subtask: int = 0, cause: WatermarkCause | None = None) -> WatermarkStalled:
    return WatermarkStalled("Sums", subtask, 2, 61.2, NOBODY, cause or WatermarkCause("", 0, 3, 1))


def test_the_task_of_the_sender_is_asked_and_its_answer_told() -> None:
    machine = stalls()
    assert machine.stalled(stall()) == [SendToTasks((TaskId(0, 3),), ExplainWatermark(1, 0, 3))]
    assert machine.drain_news() == []
    assert machine.explained(WatermarkExplained(1, WatermarkCause("it sleeps"))) == []
    (told,) = machine.drain_news()
    assert told == (
        "event time stands still in job 'job': 'Sums' (1/2) has got records for 61 s, but its watermark has not begun, so its "
        "windows and timers wait. The reason: it sleeps. ('firesteel.watermark.stall-warning')"
    )


def test_an_answer_may_lead_further() -> None:
    machine = stalls()
    machine.stalled(stall())
    (asked,) = machine.explained(WatermarkExplained(1, WatermarkCause("", 0, 0, 0)))
    assert asked == SendToTasks((TaskId(0, 2),), ExplainWatermark(2, 0, 0))
    machine.explained(WatermarkExplained(2, WatermarkCause("it sleeps")))
    assert len(machine.drain_news()) == 1


def test_subtasks_that_wait_for_the_same_say_it_once() -> None:
    machine = stalls()
    for subtask in range(2):
        machine.stalled(stall(subtask, WatermarkCause("it sleeps")))
    assert len(machine.drain_news()) == 1
    machine.stalled(stall(0, WatermarkCause("it sleeps again")))
    assert len(machine.drain_news()) == 1


def test_who_has_not_answered_in_time_is_told_at_the_end() -> None:
    machine = stalls()
    machine.stalled(stall())
    machine.end_attempt()
    (told,) = machine.drain_news()
    assert "it lies behind 'Source' (2/2), whose task has not answered before it ended" in told
    assert machine.explained(WatermarkExplained(1, WatermarkCause("it sleeps"))) == []
    assert machine.drain_news() == []


def test_what_nobody_answers_does_not_pile_up() -> None:
    machine = stalls()
    for number in range(1000):
        machine.stalled(stall())
        machine.stalled(stall(cause=WatermarkCause(f"reason {number}")))
    assert len(machine._open) == len(machine._told) == 256
