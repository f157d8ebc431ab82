"""What went wrong in a job so far: a bounded list of failures, each with its location, its time and a label."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace

from firesteel.common.errors import (
    CheckpointError,
    FiresteelError,
    JobTakenOverError,
    NotEnoughSlotsError,
    ProgramError,
    StateError,
    StorageError,
    TaskLostError,
    UpstreamLostError,
    UserCodeError,
)

__all__ = ["Failure", "FailureHistory", "FailureLabel", "FailureLocation", "label_of"]


class FailureLabel(enum.Enum):
    """Whom or what to look at first."""

    #: The program, or a connector that was written for it.
    USER_ERROR = "user error"
    #: A process or machine went away, or gives no sign of life.
    LOST_MACHINE = "lost machine"
    #: Storage cannot be read or written.
    STORAGE = "storage"
    #: Saved state is damaged, missing, or does not fit.
    STATE = "state"
    #: Too many checkpoints failed; the reasons are with them.
    CHECKPOINT = "checkpoint"
    #: Fewer slots than tasks.
    SLOTS = "slots"
    #: Another driver runs the job.
    TAKEN_OVER = "taken over"
    #: Spark, or Firesteel itself.
    ENGINE = "engine"


_LABELS: tuple[tuple[type[BaseException], FailureLabel], ...] = (
    (StorageError, FailureLabel.STORAGE),
    (NotEnoughSlotsError, FailureLabel.SLOTS),
    (StateError, FailureLabel.STATE),
    (TaskLostError, FailureLabel.LOST_MACHINE),
    (UpstreamLostError, FailureLabel.LOST_MACHINE),
    (JobTakenOverError, FailureLabel.TAKEN_OVER),
    (CheckpointError, FailureLabel.CHECKPOINT),
    (UserCodeError, FailureLabel.USER_ERROR),
    (ProgramError, FailureLabel.USER_ERROR),
    (FiresteelError, FailureLabel.ENGINE),
)


@dataclass(frozen=True, slots=True)
class FailureLocation:
    """Where something failed, as far as it is known. ``subtask`` counts from 0."""

    operator: str = ""
    subtask: int | None = None
    host: str = ""
    pid: int = 0
    executor: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    """One failure of an attempt. ``time`` is in milliseconds since 1970; ``message`` is the text of the error.

    ``concurrent``: what else failed in the same attempt before it was over, such as the other tasks of a machine that was lost.
    """

    attempt: int
    time: int
    label: FailureLabel
    error: str
    message: str

    location: FailureLocation = FailureLocation()
    concurrent: tuple[Failure, ...] = ()


def label_of(error: BaseException, *, is_user_code: bool = False) -> FailureLabel:
    """The label of an error; ``is_user_code``: what the error is unless its kind tells more.

    A failure that storage caused is storage's, whoever reports it:

    >>> error = CheckpointError("checkpoint 3 failed")
    >>> label_of(error).value
    'checkpoint'
    >>> error.__cause__ = StorageError("no space left")
    >>> label_of(error).value
    'storage'
    """
    if isinstance(error, CheckpointError) and isinstance(error.__cause__, StorageError):
        return FailureLabel.STORAGE
    for kind, label in _LABELS:
        if isinstance(error, kind):
            return label
    return FailureLabel.USER_ERROR if is_user_code else FailureLabel.ENGINE


#: How many failures are kept beside the first one of an attempt: thousands of tasks may be lost at once.
_CONCURRENT = 20


class FailureHistory:
    """The newest failures; may be read from any thread."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._failures: tuple[Failure, ...] = ()  # newest first

    def add(
        self,
        attempt: int,
        now: float,
        error: BaseException,
        location: FailureLocation | None = None,
        *,
        is_user_code: bool = False,
    ) -> Failure:
        """Something has failed at ``now`` (seconds since 1970)."""
        failure = self._made(attempt, now, error, location, is_user_code)
        self._failures = (failure, *self._failures)[: self._size]
        return failure

    def add_concurrent(
        self,
        attempt: int,
        now: float,
        error: BaseException,
        location: FailureLocation | None = None,
        *,
        is_user_code: bool = False,
    ) -> None:
        """Something else has failed in an attempt whose first failure is there already."""
        if not self._failures or self._failures[0].attempt != attempt:
            return
        first, *earlier = self._failures
        if len(first.concurrent) < _CONCURRENT:
            failure = self._made(attempt, now, error, location, is_user_code)
            self._failures = (replace(first, concurrent=(*first.concurrent, failure)), *earlier)

    def _made(
        self,
        attempt: int,
        now: float,
        error: BaseException,
        location: FailureLocation | None,
        is_user_code: bool,
    ) -> Failure:
        location = location or FailureLocation()
        if isinstance(error, UserCodeError) and error.operator:
            location = replace(location, operator=error.operator, subtask=error.subtask)
        label = label_of(error, is_user_code=is_user_code)
        text = str(error) or type(error).__name__
        return Failure(attempt, int(now * 1000), label, type(error).__name__, text, location)

    @property
    def newest_first(self) -> tuple[Failure, ...]:
        """All that are remembered."""
        return self._failures
