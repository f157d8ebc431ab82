"""JobStatus, the states of a job's life, and which state may follow which."""

from __future__ import annotations

from enum import Enum

__all__ = ["JobStatus"]


class JobStatus(Enum):
    """State of a job, from submission to end.

    ::

        CREATED ──> RUNNING ──────────────────────> FINISHED
           ^           │ │
           │           │ └──> CANCELLING ─────────> CANCELED      (from every state that has not ended)
           │           v
           └─ RESTARTING <── FAILING ─────────────> FAILED

    >>> JobStatus.RUNNING.can_become(JobStatus.FAILING)
    True
    >>> JobStatus.FINISHED.can_become(JobStatus.RUNNING)
    False
    """

    #: Accepted; no task runs yet.
    CREATED = 0
    #: Tasks are being started or are running.
    RUNNING = 1
    #: Something failed; the remaining tasks are being stopped.
    FAILING = 2
    #: Ended by a failure that no restart strategy would take.
    FAILED = 3
    #: Asked to end; tasks are being stopped.
    CANCELLING = 4
    #: Ended because it was asked to.
    CANCELED = 5
    #: All tasks ended successfully.
    FINISHED = 6
    #: Waiting to start again after a failure.
    RESTARTING = 7
    #: Stopped here, but another master may take it up.
    SUSPENDED = 8
    #: Taken up by a new master, which asks the tasks how they are.
    RECONCILING = 9

    def is_globally_terminal_state(self) -> bool:
        """Tell whether the job has ended for good and will be taken up by nobody."""
        return self in _ENDED

    def is_terminal_state(self) -> bool:
        """Tell whether this master is done with the job; SUSPENDED counts, for another may take it up."""
        return self in _ENDED or self is JobStatus.SUSPENDED

    def can_become(self, other: JobStatus) -> bool:
        """Tell whether a job in this state may go to `other` next."""
        return other in _NEXT[self]


_S = JobStatus
_ENDED = frozenset({_S.FINISHED, _S.CANCELED, _S.FAILED})
_NEXT: dict[JobStatus, frozenset[JobStatus]] = {
    _S.CREATED: frozenset({_S.RUNNING, _S.FAILING, _S.CANCELLING, _S.RECONCILING, _S.SUSPENDED}),
    _S.RUNNING: frozenset({_S.FINISHED, _S.FAILING, _S.RESTARTING, _S.CANCELLING, _S.SUSPENDED}),
    _S.FAILING: frozenset({_S.FAILED, _S.RESTARTING, _S.CANCELLING, _S.SUSPENDED}),
    _S.RESTARTING: frozenset({_S.CREATED, _S.RUNNING, _S.FAILING, _S.CANCELLING, _S.CANCELED, _S.SUSPENDED}),
    _S.CANCELLING: frozenset({_S.CANCELED, _S.FAILING, _S.SUSPENDED}),
    _S.RECONCILING: frozenset({_S.RUNNING, _S.FAILING, _S.CANCELLING, _S.SUSPENDED}),
    _S.FINISHED: frozenset(),
    _S.CANCELED: frozenset(),
    _S.FAILED: frozenset(),
    _S.SUSPENDED: frozenset(),
}
