"""A driver among several: waits until it leads its job, and gives signs of life while it does.

`await_leadership` looks at the lease from the thread that submits the job; nothing of the job exists yet, so a driver
that stands by costs the memory of its program only. A `Leadership` has a thread that renews the lease. When that finds
another leader the job fails with `JobTakenOverError`; when the job ends it leaves the last word that lets the other
drivers end too.

That the job has finished is written down *before* its checkpoints are deleted: a leader that dies in between must not
be replaced by one that finds none and starts the job from its beginning.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol

from firesteel.checkpoint.storage import open_storage, shown
from firesteel.common.errors import JobCancelledError, JobTakenOverError
from firesteel.common.job_execution_result import JobExecutionResult
from firesteel.common.job_status import JobStatus
from firesteel.jobmaster.leaders.campaign import Campaign, HeldLease
from firesteel.jobmaster.leaders.election import LeaseEnd, Outcome
from firesteel.jobmaster.leaders.settings import HighAvailability, check_lease_directory
from firesteel.jobmaster.storage_retry import retry_storage
from firesteel.jobmaster.terminal.progress import ObservedJob

__all__ = ["Leadership", "await_leadership"]

_LOG = logging.getLogger(__name__)

#: How long storage may take to write a leader's last word.
_LAST_WORD_SECONDS = 30.0
_ENDINGS = {JobStatus.FINISHED: Outcome.FINISHED, JobStatus.CANCELED: Outcome.CANCELED}


class LeadingMaster(Protocol):
    """What a leader needs of a job master."""

    result: Future[JobExecutionResult]

    def fail(self, error: BaseException) -> None:
        """End the job; no restart can help."""


def await_leadership(
    settings: HighAvailability,
    job_name: str,
    tell: Callable[[str], object],
    on_standby: Callable[[], object] = lambda: None,
    *,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], object] = time.sleep,
) -> Leadership:
    """Wait until this driver leads the job.

    ``tell`` gets sentences for people, ``on_standby`` is called once when it has to wait. Raises `StandbyEnd` when
    the job has ended in another driver, `JobExecutionError` when it has failed there for good, and `InvalidOptionError`
    when another job has its id.
    """
    storage = open_storage(settings.directory)
    retry_storage(
        lambda: check_lease_directory(settings),
        settings.patience,
        f"no leader of job '{job_name}' can be chosen yet",
        clock=clock,
        pause=pause,
    )
    campaign = Campaign(settings, job_name, storage, tell, on_standby)
    while (held := campaign.step(clock())) is None:
        pause(settings.interval)
    return Leadership(settings, held)


class Leadership:
    """What a driver has that leads, until `release` or the end of the job it is bound to; a thread renews the lease.

    It listens to the job (`JobListener`).
    """

    def __init__(self, settings: HighAvailability, held: HeldLease) -> None:
        #: The epoch with which an earlier leader had claimed the directory of the job's checkpoints.
        self.epoch_before = held.epoch
        #: Whether it has finished the job; its checkpoints may still be there.
        self.finished_before = held.end_before is not None and held.end_before.outcome is Outcome.FINISHED
        self._interval = settings.interval
        self._directory = settings.directory
        self._held = held
        self._lock = threading.Lock()
        self._lost: JobTakenOverError | None = None
        self._master: LeadingMaster | None = None
        self._last_word: LeaseEnd | None = None
        self._is_handing_over = False
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="firesteel-lease", daemon=True)
        self._thread.start()

    def bind(self, master: LeadingMaster, epoch: int) -> None:
        """Lead this job, whose checkpoints are claimed with ``epoch``; raises when another driver leads by now."""
        with self._lock:
            if self._lost is not None:
                raise self._lost
            self._master = master
        self._held.epoch = epoch
        master.result.add_done_callback(self._on_result)

    @property
    def is_over(self) -> bool:
        """Whether this driver leads no longer, or is about to say so."""
        return self._stopped.is_set()

    def release(self) -> None:
        """The job does not run here, but it is not over: let another driver try, at once.

        Nothing happens while a job runs here that it is bound to: how that ends decides about the last word.
        """
        with self._lock:
            master = self._master
        if master is None or master.result.done():
            self._end(LeaseEnd(Outcome.RELEASED))

    def hand_over(self) -> None:
        """The process has to end, but the job has not: end it here and let another driver resume it."""
        with self._lock:
            self._is_handing_over = True
            master = self._master
        if master is not None:
            master.fail(
                JobTakenOverError(f"{self._held.job} was left to another driver: this one was told to end")
            )

    def status_changed(self, job: ObservedJob, status: JobStatus) -> None:
        """Leave the last word of a job that ended well; its checkpoints are still there."""
        if status in _ENDINGS:
            self._end(LeaseEnd(_ENDINGS[status]))

    def _on_result(self, result: Future[JobExecutionResult]) -> None:
        error = result.exception()
        match error:
            case None | JobCancelledError():
                pass  # said before
            case _ if self._is_handing_over:
                self.release()
            case JobTakenOverError():
                self._stopped.set()
            case _:
                self._end(LeaseEnd(Outcome.FAILED, str(error) or type(error).__name__))

    def _end(self, last_word: LeaseEnd) -> None:
        with self._lock:
            if self._stopped.is_set():
                return
            self._last_word = last_word
            if self._master is not None:
                self._held.epoch = 0  # the job may have ended before there was a checkpoint to keep
            self._stopped.set()
        # By the thread: it may be waiting for storage, and nobody else can tell for how long.
        self._thread.join(_LAST_WORD_SECONDS)
        if self._thread.is_alive():
            _LOG.warning(
                "standby drivers of %s do not know that it is %s: storage is too slow",
                self._held.job,
                last_word.outcome.value,
            )

    # The thread.

    def _run(self) -> None:
        while True:
            self._try(self._renew, "the lease of %s cannot be renewed, trying again: %s")
            if self._stopped.wait(self._interval):
                break
        if self._last_word is not None:
            self._leave_last_word(self._last_word)

    def _renew(self) -> None:
        reason = self._held.renew()
        if reason is None:
            return
        error = JobTakenOverError(
            f"this driver has led {self._held.job} as leader {self._held.number} and stops: {reason}, in "
            f"{shown(self._directory)}"
        )
        with self._lock:
            self._stopped.set()
            self._lost = error
            master = self._master
        if master is not None:
            master.fail(error)

    def _leave_last_word(self, last_word: LeaseEnd) -> None:
        deadline = time.monotonic() + _LAST_WORD_SECONDS
        problem = "standby drivers of %s do not know yet that it is over: %s"
        while not self._try(lambda: self._held.end(last_word), problem):
            if time.monotonic() >= deadline:
                break
            time.sleep(self._interval)

    def _try(self, action: Callable[[], object], problem: str) -> bool:
        try:
            action()
        except Exception as error:  # noqa: BLE001 - storage fails in all kinds of ways
            _LOG.warning(problem, self._held.job, error)
            return False
        return True
