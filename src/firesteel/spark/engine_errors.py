"""What Spark says when something goes wrong, in a sentence instead of a Java stack trace."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pyspark
from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException

from firesteel.common.errors import (
    FiresteelError,
    JobExecutionError,
    NotEnoughSlotsError,
    SetupError,
    TaskLostError,
)
from firesteel.spark.master_url import EMBEDDED

_MOST_CAUSES = 4
_CLASS_NAME = re.compile(r"\b(?:[a-z_][\w$]*\.){2,}([A-Z][\w$]*)")
#: What Spark says of a job that it has aborted because an executor was gone, before any of our own signs of life was missed.
_LOST_EXECUTOR = re.compile(
    r"ExecutorLostFailure \(executor (?P<id>\S+) (?P<how>[^)]*)\)(?: Reason: (?P<reason>.*))?", re.DOTALL
)
_FRAME = re.compile(r"^\s*(at |\.\.\. \d+ more|Driver stacktrace:|Caused by: )")


def explain(error: BaseException, *, starting: bool = False, master: str = EMBEDDED) -> BaseException:
    """An error of the tree for one of Spark's; what is explained already, and our own faults, stay as they are.

    ``starting``: it kept Spark from starting, at ``master``.
    """
    if isinstance(error, FiresteelError | NotImplementedError) or not isinstance(error, Exception):
        return error
    explained = _explained(error, master if starting else None)
    if explained is None:
        return error
    explained.__cause__ = error
    return explained


def _explained(error: Exception, master: str | None) -> FiresteelError | None:
    if isinstance(error, Py4JJavaError):
        text = _first_lines(str(error.java_exception.toString()))
        if "INSUFFICIENT_SLOT" in text:
            return NotEnoughSlotsError(f"Spark has too few slots for the job: {text}")
        if (lost := lost_executor(text)) is not None:
            return lost
        if master is not None and master != EMBEDDED:
            return start_failure(master, [text, *_causes(error.java_exception)])
        return (JobExecutionError if master is None else SetupError)(f"Spark says: {text}")
    if isinstance(error, Py4JNetworkError | ConnectionError | EOFError):
        return TaskLostError(
            "the Java process of Spark is gone: it was killed or crashed (out of memory?); "
            "the next job starts a new one"
        )
    if isinstance(error, PySparkException | Py4JError):
        return (JobExecutionError if master is None else SetupError)(
            f"Spark says: {_first_lines(str(error))}"
        )
    return None


def lost_executor(text: str) -> TaskLostError | None:
    """The error of a job that Spark has aborted because an executor was gone, if that is what the text says.

    >>> said = "Lost task 0.0 in stage 2.0 (TID 4) (10.0.0.3 executor 1): ExecutorLostFailure (executor 1 exited caused by one "
    >>> lost = lost_executor(said + "of the running tasks) Reason: Executor heartbeat timed out after 4057 ms")
    >>> print(lost, "-", lost.executor)
    Spark has lost executor 1: Executor heartbeat timed out after 4057 ms - 1
    """
    found = _LOST_EXECUTOR.search(text)
    if found is None:
        return None
    reason = (found["reason"] or found["how"]).strip()
    return TaskLostError(f"Spark has lost executor {found['id']}: {reason}", executor=found["id"])


#: Signs of a master that took the connection and not the application, in what a context says that was stopped meanwhile.
_TURNED_AWAY = (
    "masters are unresponsive",
    "stopped SparkContext",
    "SparkContext was shut down",
    "NullPointerException",
)


def start_failure(master: str, texts: Sequence[str]) -> SetupError:
    """The error of a Spark that did not start at a master; ``texts``: what Spark says, and the causes of it.

    >>> print(start_failure("yarn", ["a.b.SparkException: no queue", "java.net.ConnectException: refused"]))
    Spark did not start at yarn: SparkException: no queue; ConnectException: refused
    """
    said = "; ".join(_CLASS_NAME.sub(r"\1", text) for text in dict.fromkeys(texts))
    if master.startswith("spark://") and any(sign in said for sign in _TURNED_AWAY):
        return SetupError(
            f"somebody listens at {master}, but does not take applications of this Spark, version {pyspark.__version__}: is it "
            "the master of a cluster of the same version, and not its web page, and can it connect back to this machine "
            f"(spark.driver.host, spark.driver.port)? Spark says: {said}"
        )
    return SetupError(f"Spark did not start at {master}: {said}")


def _causes(exception: Any) -> list[str]:
    """The texts of what a Java exception was caused by, nearest first."""
    causes: list[str] = []
    while len(causes) < _MOST_CAUSES and (exception := exception.getCause()) is not None:
        causes.append(_first_lines(str(exception.toString())))
    return causes


def _first_lines(text: str) -> str:
    """The text up to the first stack frame."""
    lines = []
    for line in text.splitlines():
        if _FRAME.match(line):
            break
        lines.append(line)
    return "\n".join(lines).strip() or text.strip()
