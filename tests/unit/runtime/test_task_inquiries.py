"""A task answers questions about itself from other threads than its own, which may be stuck."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Iterator

import pytest

from firesteel.logs.levels import ROOT, levels, set_levels
from firesteel.plan.messages import (
    DumpThreads,
    SampleStacks,
    SetLogLevels,
    StacksSampled,
    TaskAnswer,
    ThreadsDumped,
)
from firesteel.runtime.task_inquiries import TaskInquiries


@pytest.fixture
def answers() -> queue.Queue[TaskAnswer]:
    return queue.Queue()


@pytest.fixture
def stuck(answers: queue.Queue[TaskAnswer]) -> Iterator[TaskInquiries]:
    """A task whose thread waits for something that does not come."""
    begun, over = threading.Event(), threading.Event()

    def stuck_in_user_code() -> None:
        begun.set()
        over.wait()

    thread = threading.Thread(target=stuck_in_user_code, name="task", daemon=True)
    thread.start()
    begun.wait()
    assert thread.ident is not None
    yield TaskInquiries(answers.put, thread.ident)
    over.set()
    thread.join()


def test_threads_are_dumped(stuck: TaskInquiries, answers: queue.Queue[TaskAnswer]) -> None:
    stuck.answer(DumpThreads(7))
    answer = answers.get(timeout=60)
    assert isinstance(answer, ThreadsDumped)
    assert answer.question == 7
    assert "in stuck_in_user_code" in dict(answer.threads)["task"]


def test_stacks_are_sampled(stuck: TaskInquiries, answers: queue.Queue[TaskAnswer]) -> None:
    stuck.answer(SampleStacks(8, samples=4, delay=0.001, depth=50))
    answer = answers.get(timeout=60)
    assert isinstance(answer, StacksSampled)
    assert answer.question == 8
    own = [each for each in answer.stacks if any("stuck_in_user_code" in frame for frame in each.frames)]
    assert sum(each.count for each in own) == 4


def test_nothing_is_left_when_everything_is_answered(
    stuck: TaskInquiries, answers: queue.Queue[TaskAnswer]
) -> None:
    stuck.answer(SampleStacks(1, samples=1, delay=0.0, depth=1))
    answers.get(timeout=60)
    for thread in threading.enumerate():
        if thread.name == "firesteel-sampler":
            thread.join(60)
            assert not thread.is_alive()


def test_levels_are_set_and_taken_away(stuck: TaskInquiries) -> None:
    before = levels()
    try:
        stuck.answer(SetLogLevels({"orders": logging.DEBUG, ROOT: logging.ERROR}))
        assert logging.getLogger("orders").level == logging.DEBUG
        assert logging.getLogger().level == logging.ERROR
        stuck.answer(SetLogLevels({"orders": logging.NOTSET}))
        assert logging.getLogger("orders").level == logging.NOTSET
    finally:
        set_levels(before)
