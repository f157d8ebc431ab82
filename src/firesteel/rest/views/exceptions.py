"""What has failed in a job: the failures that are remembered, with traceback and the operator that raised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from firesteel.common._executor_name import executor_name
from firesteel.jobmaster.failure_history import Failure, FailureLocation

__all__ = ["exceptions"]

#: How many are shown unless a request says otherwise, as in Flink.
SHOWN = 20


def exceptions(
    failures: Sequence[Failure], most: int = SHOWN, labels: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """The newest ones, newest first; of those that have the labels, if any are given."""
    wanted = [each for each in failures if (labels or {}).items() <= _labels(each).items()]
    shown = wanted[: max(0, most)]
    return {
        "exceptionHistory": {
            "entries": [_entry(each) for each in shown],
            "truncated": len(shown) < len(wanted),
        },
    }


def _entry(failure: Failure) -> dict[str, Any]:
    return {**_exception(failure), "concurrentExceptions": [_exception(each) for each in failure.concurrent]}


def _exception(failure: Failure) -> dict[str, Any]:
    where = failure.location
    return {
        "exceptionName": failure.error,
        "stacktrace": _stack_trace(failure),
        "timestamp": failure.time,
        "taskName": _task_name(failure),
        "endpoint": _endpoint(where),
        "taskManagerId": executor_name(where.host, where.executor) or None,
        "failureLabels": _labels(failure),
    }


def _stack_trace(failure: Failure) -> str:
    return f"{failure.error}: {failure.message}"


def _labels(failure: Failure) -> dict[str, str]:
    return {"type": failure.label.value}


def _task_name(failure: Failure) -> str | None:
    where = failure.location
    if not where.operator:
        return None
    subtask = "" if where.subtask is None else f" ({where.subtask + 1})"
    return f"{where.operator}{subtask} - execution #{max(0, failure.attempt - 1)}"


def _endpoint(where: FailureLocation) -> str | None:
    return f"{where.host}:{where.pid}" if where.host else None
