"""Groups of sources that wait for each other: who is told what."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from firesteel.common.time import MAX_WATERMARK
from firesteel.jobmaster.instructions import SendToTasks
from firesteel.jobmaster.watermark_alignment import WatermarkGroups
from firesteel.plan.messages import TaskId, WatermarkAlignmentUpdate, WatermarkReport


def report(subtask: int, watermark: int, group: str = "g") -> WatermarkReport:
    return WatermarkReport(group, "source", subtask, watermark)


def test_everybody_is_told_when_the_slowest_moves() -> None:
    groups = WatermarkGroups()
    first, second = TaskId(0, 0), TaskId(0, 1)
    assert groups.report(first, report(0, 10)) == [SendToTasks((first,), WatermarkAlignmentUpdate("g", 10))]
    assert groups.report(second, report(1, 5)) == [
        SendToTasks((first, second), WatermarkAlignmentUpdate("g", 5))
    ]
    assert groups.report(first, report(0, 20)) == []
    assert groups.report(second, report(1, 15)) == [
        SendToTasks((first, second), WatermarkAlignmentUpdate("g", 15))
    ]


def test_a_new_member_is_told_where_the_group_stands() -> None:
    groups = WatermarkGroups()
    groups.report(TaskId(0, 0), report(0, 10))
    assert groups.report(TaskId(0, 1), report(1, 30)) == [
        SendToTasks((TaskId(0, 1),), WatermarkAlignmentUpdate("g", 10))
    ]


def test_idle_and_ended_members_hold_nobody_back_until_they_return() -> None:
    groups = WatermarkGroups()
    groups.report(TaskId(0, 0), report(0, 10))
    groups.report(TaskId(0, 1), report(1, 3))
    both = (TaskId(0, 0), TaskId(0, 1))
    assert groups.report(TaskId(0, 1), report(1, MAX_WATERMARK)) == [
        SendToTasks(both, WatermarkAlignmentUpdate("g", 10))
    ]
    assert groups.report(TaskId(0, 1), report(1, 4)) == [SendToTasks(both, WatermarkAlignmentUpdate("g", 4))]


def test_groups_do_not_touch_each_other() -> None:
    groups = WatermarkGroups()
    groups.report(TaskId(0, 0), report(0, 10))
    assert groups.report(TaskId(0, 0), report(0, 3, "h")) == [
        SendToTasks((TaskId(0, 0),), WatermarkAlignmentUpdate("h", 3))
    ]
    assert groups.report(TaskId(0, 0), report(0, 11))[0].message == WatermarkAlignmentUpdate("g", 11)


@given(
    reports=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20) | st.just(MAX_WATERMARK)), max_size=30)
)
def test_every_member_always_knows_the_minimum(reports: list[tuple[int, int]]) -> None:
    groups = WatermarkGroups()
    known: dict[int, int] = {}
    told: dict[int, int] = {}
    for subtask, watermark in reports:
        known[subtask] = watermark
        for instruction in groups.report(TaskId(0, subtask), report(subtask, watermark)):
            assert isinstance(instruction.message, WatermarkAlignmentUpdate)
            told.update((task.index, instruction.message.watermark) for task in instruction.tasks)
        assert told == dict.fromkeys(known, min(known.values()))
