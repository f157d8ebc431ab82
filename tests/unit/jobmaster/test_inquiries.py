"""Questions to tasks: who asks waits for those that are there, and for nobody else."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from firesteel.control.protocol import TaskHello
from firesteel.jobmaster.attempt import AttemptMaster
from firesteel.jobmaster.collect_buffer import CollectBuffer
from firesteel.jobmaster.inquiries import Inquiries
from firesteel.jobmaster.statistics import ReportBook
from firesteel.plan.executor import Deployment
from firesteel.plan.job_plan import JobPlan
from firesteel.plan.messages import (
    DumpThreads,
    MasterMessage,
    SetLogLevels,
    TaskId,
    TaskInquiry,
    ThreadsDumped,
)

ONE, TWO = TaskId(0, 0), TaskId(0, 1)
LONG = 60.0


def answer(inquiry: TaskInquiry, text: str) -> ThreadsDumped:
    assert isinstance(inquiry, DumpThreads)
    return ThreadsDumped(inquiry.question, ((text, text),))


def test_answers_come_by_task() -> None:
    inquiries = Inquiries()

    def send(inquiry: TaskInquiry) -> None:
        for task, text in ((ONE, "one"), (TWO, "two")):
            inquiries.answered(task, answer(inquiry, text))

    found = inquiries.ask([ONE, TWO], DumpThreads, send, LONG)
    assert {task: each.threads[0][0] for task, each in found.items()} == {ONE: "one", TWO: "two"}  # type: ignore[union-attr]


def test_a_task_that_goes_away_is_not_waited_for() -> None:
    inquiries = Inquiries()

    def send(inquiry: TaskInquiry) -> None:
        inquiries.answered(ONE, answer(inquiry, "one"))
        threading.Thread(target=inquiries.lost, args=(TWO,)).start()

    assert list(inquiries.ask([ONE, TWO], DumpThreads, send, LONG)) == [ONE]


def test_the_end_of_an_attempt_ends_all_questions() -> None:
    inquiries = Inquiries()
    assert inquiries.ask([ONE], DumpThreads, lambda _: inquiries.close(), LONG) == {}


def test_a_task_that_does_not_answer_is_given_up() -> None:
    before = time.monotonic()
    assert Inquiries().ask([ONE], DumpThreads, lambda _: None, 0.01) == {}
    assert time.monotonic() - before < LONG


def test_an_answer_that_comes_too_late_or_twice_changes_nothing() -> None:
    inquiries = Inquiries()
    asked: list[TaskInquiry] = []
    assert inquiries.ask([ONE], DumpThreads, asked.append, 0.0) == {}
    inquiries.answered(ONE, answer(asked[0], "late"))

    def send(inquiry: TaskInquiry) -> None:
        for text in ("first", "second"):
            inquiries.answered(ONE, answer(inquiry, text))

    (found,) = inquiries.ask([ONE], DumpThreads, send, LONG).values()
    assert isinstance(found, ThreadsDumped)
    assert found.threads[0][0] == "first"


def test_a_task_that_comes_later_is_told_what_all_were_told(make_plan: Callable[..., JobPlan]) -> None:
    plan = make_plan(2)
    attempt = AttemptMaster(Deployment("ab" * 16, 1, plan), lambda event: None, ReportBook(plan), _no_buffer)
    told: dict[int, list[MasterMessage]] = {0: [], 1: []}
    attempt.task_connected(TaskHello("ab" * 16, 1, ONE), 1, told[0].append)
    attempt.tell_all(SetLogLevels({"orders": 10}))
    attempt.task_connected(TaskHello("ab" * 16, 1, TWO), 2, told[1].append)
    assert told == {0: [SetLogLevels({"orders": 10})], 1: [SetLogLevels({"orders": 10})]}


def _no_buffer(collect_id: str) -> CollectBuffer:
    raise AssertionError(collect_id)
