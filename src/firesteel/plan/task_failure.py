"""How the reason of a task's failure travels: exception -> `TaskFailed` -> the same exception in the driver."""

from __future__ import annotations

import pickle
import traceback

import cloudpickle

from firesteel.common.errors import FiresteelError, JobExecutionError
from firesteel.plan.messages import TaskFailed


def to_message(error: BaseException) -> TaskFailed:
    """Pack why a task failed, together with the exception that caused it when that can be pickled."""
    if not isinstance(error, FiresteelError):
        error = _as_job_error(error)
    summary = str(error)
    try:
        blob = _dump(error)
    except Exception:  # noqa: BLE001 - the reason must reach the driver whatever it carries
        blob = _dump(JobExecutionError(summary))
    return TaskFailed(pickle.dumps((blob, _dump_cause(error.__cause__))), summary)


def to_exception(message: TaskFailed) -> BaseException:
    """The exception that `to_message` was given, its cause as ``__cause__`` where this process can build it."""
    try:
        loaded = pickle.loads(message.exception)
        error, cause = (pickle.loads(loaded[0]), loaded[1]) if isinstance(loaded, tuple) else (loaded, None)
    except Exception:  # noqa: BLE001 - its class may exist only in the task
        error, cause = None, None
    if not isinstance(error, BaseException):
        return JobExecutionError(message.summary)
    error.__cause__ = _load_cause(cause)
    return error


def _as_job_error(error: BaseException) -> JobExecutionError:
    text = "".join(traceback.format_exception(error)).rstrip()
    wrapped = JobExecutionError(f"a task failed outside user code\n{text}")
    wrapped.__cause__ = error
    return wrapped


def _dump(error: BaseException) -> bytes:
    blob = bytes(cloudpickle.dumps(error))
    pickle.loads(blob)  # many exceptions pickle but do not come back: their constructor wants other arguments
    return blob


def _dump_cause(cause: BaseException | None) -> bytes | None:
    if cause is None:
        return None
    try:
        return _dump(cause)
    except Exception:  # noqa: BLE001 - the cause's text is part of the error already
        return None


def _load_cause(blob: bytes | None) -> BaseException | None:
    if blob is None:
        return None
    try:
        cause = pickle.loads(blob)
    except Exception:  # noqa: BLE001 - needs a module that the driver does not have
        return None
    return cause if isinstance(cause, BaseException) else None
