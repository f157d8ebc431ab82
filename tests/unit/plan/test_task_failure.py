"""The reason of a failure arrives as it was, or as much of it as can travel."""

from __future__ import annotations

import pickle
import threading
from typing import Any

from firesteel.common.errors import JobExecutionError, UserCodeError
from firesteel.plan.messages import TaskFailed
from firesteel.plan.task_failure import to_exception, to_message


def sent(error: BaseException) -> Any:
    message = to_message(error)
    return to_exception(pickle.loads(pickle.dumps(message)))


def caused(cause: BaseException) -> UserCodeError:
    error = UserCodeError("ValueError: boom", operator="Map", subtask=1, parallelism=2, record="7")
    error.__cause__ = cause
    return error


def test_error_arrives_with_its_attributes_and_cause() -> None:
    received = sent(caused(ValueError("boom")))
    assert (type(received), received.operator, received.subtask, received.record) == (
        UserCodeError,
        "Map",
        1,
        "7",
    )
    assert repr(received.__cause__) == "ValueError('boom')"


def test_class_that_cannot_be_imported_arrives() -> None:
    class Local(Exception):
        pass

    assert isinstance(sent(caused(Local("x"))).__cause__, Local)


class Demanding(Exception):
    """Pickles, but cannot be built again: its constructor wants more than its args."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} {two}")


def test_cause_that_cannot_travel_is_left_out() -> None:
    for cause in (Demanding(1, 2), ValueError(threading.Lock())):
        received = sent(caused(cause))
        assert isinstance(received, UserCodeError)
        assert received.__cause__ is None


def test_error_that_is_not_ours_arrives_with_its_traceback_as_text() -> None:
    try:
        raise KeyError("x")
    except KeyError as error:
        received = sent(error)
    assert type(received) is JobExecutionError
    assert "test_task_failure.py" in str(received)
    assert "KeyError: 'x'" in str(received)


def test_summary_remains_when_nothing_else_can_be_read() -> None:
    received = to_exception(TaskFailed(b"rubbish", "what happened"))
    assert (type(received), str(received)) == (JobExecutionError, "what happened")


def test_plainly_pickled_error_is_understood() -> None:
    received = to_exception(TaskFailed(pickle.dumps(JobExecutionError("plain")), "plain"))
    assert str(received) == "plain"
