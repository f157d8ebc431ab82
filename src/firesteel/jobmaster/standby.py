"""A driver among several: waits until it leads its job, and gives signs of life while it does.

`await_leadership` looks at the lease from the thread that submits the job; nothing of the job exists yet, so a driver
that stands by costs the memory of its program only. A `Leadership` has a thread that renews the lease. When that finds
another leader the job fails with `JobTakenOverError`; when the job ends it leaves the last word that lets the other
drivers end, too.

That the job has finished is written down *before* its checkpoints are deleted: a leader that dies in between must not
be replaced by one that finds none and begins anew.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol

from firesteel.checkpoint.storage import Storage, open_storage, shown
from firesteel.common import options
from firesteel.common.errors import (
    InvalidOptionError,
    JobCancelledError,
    JobExecutionError,
    JobTakenOverError,
    StorageError,
)
from firesteel.common.job_execution_result import JobExecutionResult
from firesteel.common.job_status import JobStatus
from firesteel.jobmaster.high_availability import HighAvailability, check_lease_directory
from firesteel.jobmaster.leadership import (
    Candidate,
    Claim,
    Follow,
    LeaseEnd,
    Leave,
    Outcome,
    still_leads,
)
from firesteel.jobmaster.lease import Holder, Lease
from firesteel.jobmaster.progress import ObservedJob

__all__ = ["Campaign", "HeldLease", "Leadership", "StandbyEnd", "await_leadership"]

_LOG = logging.getLogger(__name__)

#: How long storage may take to write a leader's last word.
_LAST_WORD_SECONDS = 30.0
_ENDINGS = {JobStatus.FINISHED: Outcome.FINISHED, JobStatus.CANCELED: Outcome.CANCELED}


class StandbyEnd(SystemExit):
    """The job has ended in another driver, so this one's program ends here, successfully.

    What follows ``execute()`` in a program is done by the driver that ran the job, and by no other.
    """

    def __init__(self) -> None:
        super().__init__(0)


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
    check_lease_directory(settings)
    campaign = Campaign(settings, job_name, open_storage(settings.directory), tell, on_standby)
    while (held := campaign.step(clock())) is None:
        pause(settings.interval)
    return Leadership(settings, held)


class Campaign:
    """A driver that wants to lead; whoever calls `step` decides when."""

    def __init__(
        self,
        settings: HighAvailability,
        job_name: str,
        storage: Storage,
        tell: Callable[[str], object],
        on_standby: Callable[[], object],
    ) -> None:
        self._job_name = job_name
        self._job = f"job '{job_name}' ({settings.job_id})"
        self._lease = Lease(storage)
        self._tell = tell
        self._on_standby = on_standby
        self._candidate = Candidate(settings.lease_timeout, settings.interval)
        self._told: int | None = None
        self._out_of_reach = False

    def step(self, now: float) -> HeldLease | None:
        """Look, and do what follows; gives the lease when this driver has it."""
        try:
            return self._decide(now)
        except StorageError as error:
            self._candidate.saw_nothing()
            if not self._out_of_reach:
                _LOG.warning("the lease of %s cannot be read, trying again: %s", self._job, error)
            self._out_of_reach = True
            return None

    def _decide(self, now: float) -> HeldLease | None:
        view = self._lease.look()
        decision = self._candidate.saw(view, now)
        self._out_of_reach = False
        match decision:
            case Claim(number):
                return self._claim(number, self._lease.claimed(), view.end)
            case Leave(end):
                self._leave(end)
            case Follow(number):
                self._follow(number)
        return None

    def _claim(self, number: int, claimed: int, end_before: LeaseEnd | None) -> HeldLease | None:
        who = f"{socket.gethostname()}, process {os.getpid()}"
        me = Holder(secrets.token_hex(16), who, claimed, self._job_name)
        if not self._lease.claim(number, me):
            return None
        if self._told is not None:
            self._tell(f"this driver takes {self._job} over, as leader {number}")
        return HeldLease(self._lease, self._job, number, me, end_before)

    def _follow(self, number: int) -> None:
        if self._told == number:
            return
        holder = self._lease.holder(number)
        who = "another driver" if holder is None else holder.who
        if holder is not None and holder.job_name not in ("", self._job_name):
            # It would end when that job ends, without a word of this one.
            raise InvalidOptionError(
                f"option '{options.JOB_ID.key}': {self._job} cannot stand by, because {who} runs another job with this "
                f"id, '{holder.job_name}'; give each job an id of its own, or none"
            )
        self._tell(f"standing by for {self._job}: {who} leads it")
        if self._told is None:
            self._on_standby()
        self._told = number

    def _leave(self, end: LeaseEnd) -> None:
        if end.outcome is Outcome.FAILED:
            raise JobExecutionError(
                f"{self._job} has failed for good in the driver that led it, so this standby driver ends: "
                f"{end.sentence}"
            )
        self._tell(
            f"{self._job} is {end.outcome.value} in the driver that led it, so this standby driver ends"
        )
        raise StandbyEnd


class HeldLease:
    """The lease of the leader in this process; not for several threads at once."""

    def __init__(
        self, lease: Lease, job: str, number: int, holder: Holder, end_before: LeaseEnd | None = None
    ) -> None:
        self.job = job
        self.number = number
        #: The last word of the leader before.
        self.end_before = end_before
        #: The number that this driver has claimed among those of the job's checkpoints, else that of the leader before.
        self.claimed = holder.claimed
        self._lease = lease
        self._holder = holder
        self._counter = 0
        self._is_tidy = False

    def renew(self) -> str | None:
        """Give a sign of life; returns why this driver leads no longer, if that is so."""
        view = self._lease.look()
        holder = self._lease.holder(self.number)
        if not still_leads(view, None if holder is None else holder.token, self.number, self._holder.token):
            newer = view.number >= self.number
            return "another driver leads it now" if newer else "somebody has deleted its lease"
        self._counter += 1
        self._lease.renew(self.number, self._counter, self.claimed)
        if not self._is_tidy:
            self._lease.forget_before(self.number)
            self._is_tidy = True
        return None

    def end(self, last_word: LeaseEnd) -> None:
        """Tell the other drivers that this one leads no longer, and why."""
        self._lease.end(self.number, last_word, self.claimed)


class Leadership:
    """What a driver has that leads, until `release` or the end of the job it is bound to; a thread renews the lease.

    It listens to the job (`JobListener`).
    """

    def __init__(self, settings: HighAvailability, held: HeldLease) -> None:
        #: The number that an earlier leader had claimed among the drivers of the job's checkpoints.
        self.claimed_before = held.claimed
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

    def bind(self, master: LeadingMaster, claimed: int) -> None:
        """Lead this job, of which this driver is number ``claimed``; raises when another driver leads by now."""
        with self._lock:
            if self._lost is not None:
                raise self._lost
            self._master = master
        self._held.claimed = claimed
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
        """The process has to end, but the job has not: end it here and let another driver go on with it."""
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
                self._held.claimed = 0  # the job may have ended before there was a checkpoint to keep
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
