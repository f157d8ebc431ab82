"""What Spark says when something goes wrong, in a sentence instead of a Java stack trace."""

from __future__ import annotations

import re

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException

from firesteel.common.errors import (
    FiresteelError,
    JobExecutionError,
    NotEnoughSlotsError,
    SetupError,
    TaskLostError,
)

_FRAME = re.compile(r"^\s*(at |\.\.\. \d+ more|Driver stacktrace:|Caused by: )")


def explain(error: BaseException, *, starting: bool = False) -> BaseException:
    """An error of the tree for one of Spark's; what is explained already, and our own faults, stay as they are."""
    if isinstance(error, FiresteelError | NotImplementedError) or not isinstance(error, Exception):
        return error
    explained = _explained(error, SetupError if starting else JobExecutionError)
    if explained is None:
        return error
    explained.__cause__ = error
    return explained


def _explained(error: Exception, kind: type[FiresteelError]) -> FiresteelError | None:
    if isinstance(error, Py4JJavaError):
        text = _first_lines(str(error.java_exception.toString()))
        if "INSUFFICIENT_SLOT" in text:
            return NotEnoughSlotsError(f"Spark has too few slots for the job: {text}")
        return kind(f"Spark says: {text}")
    if isinstance(error, Py4JNetworkError | ConnectionError | EOFError):
        return TaskLostError(
            "the Java process of Spark is gone: it was killed or crashed (out of memory?); "
            "the next job starts a new one"
        )
    if isinstance(error, PySparkException | Py4JError):
        return kind(f"Spark says: {_first_lines(str(error))}")
    return None


def _first_lines(text: str) -> str:
    """The text up to the first stack frame."""
    lines = []
    for line in text.splitlines():
        if _FRAME.match(line):
            break
        lines.append(line)
    return "\n".join(lines).strip() or text.strip()
