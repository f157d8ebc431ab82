"""What user code prints inside a task: whole lines in order, unfinished ones after a while, in linear time."""

from __future__ import annotations

import logging
import sys
from typing import Any

from firesteel.plan.messages import LogOutput, TextOutput
from firesteel.spark.task_output import TaskOutput
from firesteel.testing.manual_clock import ManualClock


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
    with task.output.redirected(logging.INFO):
        print("one", end=" ")
        print("two")
        print("three", end=" ")
        task.output.flush()
        assert task.text == "one two\n"
        print("four")
    assert task.text == "one two\nthree four\n"


def test_a_line_that_nobody_finishes_is_shown_after_a_while_and_gone_on_with() -> None:
    task = Task()
    with task.output.redirected(logging.INFO):
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
    with task.output.redirected(logging.INFO):
        print("half", end="")
        task.clock.advance(1)
        task.output.flush()
    assert task.text == "half\n"


def test_flush_shows_a_line_with_the_next_message() -> None:
    task = Task()
    with task.output.redirected(logging.INFO):
        print("now", end="", flush=True)
        task.output.flush()
        assert task.text == "now"


def test_pieces_of_a_line_are_not_put_together_again_and_again() -> None:
    """320,000 prints without an end of line; the memory they take is bounded, and so are the steps."""
    task = Task()
    with task.output.redirected(logging.INFO):
        for _ in range(320_000):
            print("x", end="")
        stream: Any = sys.stdout
        assert stream._size < 16 * 1024
    assert task.text == "x" * 320_000 + "\n"
    assert len(task.said) < 30


def test_both_streams_and_the_log_keep_their_order() -> None:
    task = Task()
    with task.output.redirected(logging.INFO):
        print("one")
        print("two", file=sys.stderr)
        logging.getLogger("user").info("three")
        print("four")
    kinds = [each.stream if isinstance(each, TextOutput) else "log" for each in task.said]
    assert kinds == ["stdout", "stderr", "log", "stdout"]
    assert isinstance(task.said[2], LogOutput)
