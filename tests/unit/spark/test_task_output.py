"""What user code prints inside a task: whole lines in order, unfinished ones after a while, in linear time."""

from __future__ import annotations

import logging
import sys
from typing import Any

from firesteel.logs.levels import ROOT
from firesteel.logs.origin import LogOrigin, origin_of
from firesteel.plan.messages import LogOutput, TextOutput
from firesteel.spark.task_output import TaskOutput
from firesteel.testing.manual_clock import ManualClock

ORIGIN = LogOrigin("ab" * 16, "word count", "Map (1/2)", 1)


class Task:
    """Everything a task says, in order, and its clock."""

    def __init__(self) -> None:
        self.said: list[Any] = []
        self.clock = ManualClock()
        self.output = TaskOutput(self.said.append, self.clock.now)

    @property
    def text(self) -> str:
        return "".join(each.text for each in self.said if isinstance(each, TextOutput))


def test_lines_are_sent_whole() -> None:
    task = Task()
    with task.output.redirected({ROOT: logging.INFO}, ORIGIN):
        print("one", end=" ")
        print("two")
        print("three", end=" ")
        task.output.flush()
        assert task.text == "one two\n"
        print("four")
    assert task.text == "one two\nthree four\n"


def test_a_line_that_nobody_finishes_is_shown_after_a_while_and_gone_on_with() -> None:
    task = Task()
    with task.output.redirected({ROOT: logging.INFO}, ORIGIN):
        print(".", end="")
        task.output.flush()
        assert task.text == ""
        task.clock.advance(0.25)
        task.output.flush()
        assert task.text == "."
        print(".", end="")
        task.clock.advance(0.25)
        task.output.flush()
        assert task.text == ".."
        print("done")
    assert task.text == "..done\n"


def test_a_line_that_was_shown_is_ended_with_the_task() -> None:
    task = Task()
    with task.output.redirected({ROOT: logging.INFO}, ORIGIN):
        print("half", end="")
        task.clock.advance(1)
        task.output.flush()
    assert task.text == "half\n"


def test_flush_shows_a_line_with_the_next_message() -> None:
    task = Task()
    with task.output.redirected({ROOT: logging.INFO}, ORIGIN):
        print("now", end="", flush=True)
        task.output.flush()
        assert task.text == "now"


def test_pieces_of_a_line_are_not_put_together_again_and_again() -> None:
    """320,000 prints without an end of line; the memory they take is bounded, and so are the steps."""
    task = Task()
    with task.output.redirected({ROOT: logging.INFO}, ORIGIN):
        for _ in range(320_000):
            print("x", end="")
        stream: Any = sys.stdout
        assert stream._size < 16 * 1024
    assert task.text == "x" * 320_000 + "\n"
    assert len(task.said) < 30


def test_both_streams_and_the_log_keep_their_order() -> None:
    task = Task()
    with task.output.redirected({ROOT: logging.INFO}, ORIGIN):
        print("one")
        print("two", file=sys.stderr)
        logging.getLogger("user").info("three")
        print("four")
    kinds = [each.stream if isinstance(each, TextOutput) else "log" for each in task.said]
    assert kinds == ["stdout", "stderr", "log", "stdout"]
    assert isinstance(task.said[2], LogOutput)


def test_a_record_says_which_job_and_subtask_it_is_from() -> None:
    task = Task()
    with task.output.redirected({ROOT: logging.INFO}, ORIGIN):
        logging.getLogger("orders").info("negative: %d", -5)
    assert isinstance(task.said[0], LogOutput)
    assert origin_of(logging.makeLogRecord(dict(task.said[0].attributes))) == ORIGIN


def test_single_loggers_have_the_levels_of_the_driver_and_lose_them_with_the_task() -> None:
    task = Task()
    with task.output.redirected({ROOT: logging.WARNING, "orders": logging.DEBUG}, ORIGIN):
        logging.getLogger("orders.late").debug("told")
        logging.getLogger("other").info("not told")
    assert [each.attributes["msg"] for each in task.said] == ["told"]
    assert logging.getLogger("orders").level == logging.NOTSET
