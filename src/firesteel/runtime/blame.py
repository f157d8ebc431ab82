"""Turns an exception of user code into one that says which operator, which function and which record."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from firesteel.common.errors import (
    FiresteelError,
    JobExecutionError,
    TypeMismatchError,
    UserCodeError,
    short_repr,
)
from firesteel.runtime.explanations import explained

NO_RECORD = object()

#: What user code may raise to end its task. ``sys.exit`` is not an Exception, but it needs the same explanation.
RAISED_BY_USERS = (Exception, SystemExit)


@dataclass(frozen=True, slots=True)
class Blame:
    """Who is running when something raises."""

    operator: str
    subtask: int
    parallelism: int
    function: str

    def error(self, error: Exception | SystemExit, record: Any = NO_RECORD) -> JobExecutionError:
        """The error to end the job with; one that is already explained stays as it is."""
        if isinstance(error, JobExecutionError):
            return error
        explained = UserCodeError(
            _reason(error, record),
            operator=self.operator,
            subtask=self.subtask,
            parallelism=self.parallelism,
            function=self.function,
            record="" if record is NO_RECORD else short_repr(record),
            traceback_text=user_traceback(error),
        )
        explained.__cause__ = error
        return explained


def failing_record(values: Sequence[Any], cursor: Iterator[Any] | None, taken_out: int = 0) -> Any:
    """The last record that ``cursor`` took from ``values``: the one user code was working on.

    ``taken_out`` records at the end were taken away from the cursor before it came to them.
    """
    if cursor is None:
        return NO_RECORD
    taken = len(values) - taken_out - cursor.__length_hint__()  # type: ignore[attr-defined]
    return values[taken - 1] if 0 < taken <= len(values) else NO_RECORD


def mismatched_record(values: Sequence[Any], error: TypeMismatchError) -> Any:
    """The record whose conversion to its declared type failed."""
    return NO_RECORD if error.index is None else values[error.index]


def _reason(error: Exception | SystemExit, record: Any) -> str:
    if isinstance(error, SystemExit):
        wish = (
            f"user code wanted the task's process to exit (SystemExit: {error.code}); return to continue with the "
            "next record, or raise another error to say why the job must end"
        )
        return "\n".join([wish, *getattr(error, "__notes__", ())])
    if isinstance(error, FiresteelError):
        return str(error)
    said = "".join(traceback.format_exception_only(error)).strip()
    explanation = None if "Did you mean" in said else explained(error, record)
    if explanation is None:
        return said
    first, *notes = said.splitlines()
    return "\n".join([f"{first}; {explanation}", *notes])


def user_traceback(error: BaseException) -> str:
    """The traceback without the runtime's own frames before the user's code."""
    step: TracebackType | None = error.__traceback__
    while step is not None and _is_own(step):
        step = step.tb_next
    if step is None:
        return ""
    return "".join(["Traceback (most recent call last):\n", *traceback.format_tb(step)])


def _is_own(step: TracebackType) -> bool:
    return str(step.tb_frame.f_globals.get("__name__", "")).startswith("firesteel.")
