"""A driver that wants to lead, and the lease that it gets: looks at storage and does what follows, a step at a time."""

from __future__ import annotations

import logging
import os
import secrets
import socket
from collections.abc import Callable

from firesteel.checkpoint.storage import Storage
from firesteel.common import options
from firesteel.common.errors import InvalidOptionError, JobExecutionError, StorageError
from firesteel.jobmaster.leaders.election import (
    Candidate,
    Doubt,
    Follow,
    Lead,
    LeaseEnd,
    Leave,
    Outcome,
    still_leads,
)
from firesteel.jobmaster.leaders.lease import Holder, Lease
from firesteel.jobmaster.leaders.settings import HighAvailability

__all__ = ["Campaign", "HeldLease", "StandbyEnd"]

_LOG = logging.getLogger(__name__)


class StandbyEnd(SystemExit):
    """The job has ended in another driver, so this one's program ends here, successfully.

    What follows ``execute()`` in a program is done by the driver that ran the job, and by no other.
    """

    def __init__(self) -> None:
        super().__init__(0)


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
        self._out_of_reach &= isinstance(decision, Doubt)
        match decision:
            case Lead(number):
                return self._acquire(number, self._lease.claimed_epoch(view), view.end)
            case Doubt(number):
                raise StorageError(
                    f"leader {number} was there and is not any more: is a volume not mounted? If somebody has deleted the "
                    "lease, start this driver again"
                )
            case Leave(end):
                self._leave(end)
            case Follow(number):
                self._follow(number)
        return None

    def _acquire(self, number: int, epoch: int, end_before: LeaseEnd | None) -> HeldLease | None:
        who = f"{socket.gethostname()}, process {os.getpid()}"
        me = Holder(secrets.token_hex(16), who, epoch, self._job_name)
        if not self._lease.acquire(number, me):
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
        #: With which this driver has claimed the directory of the job's checkpoints, else that of the leader before.
        self.epoch = holder.claimed
        self._lease = lease
        self._holder = holder
        self._counter = 0
        self._is_tidy = False

    def renew(self) -> str | None:
        """Give a sign of life; returns why this driver leads no longer, if that is so."""
        view = self._lease.look()
        holder = self._lease.holder(self.number)
        token = None if holder is None else holder.token
        match still_leads(view, token, self.number, self._holder.token):
            case None:
                raise StorageError(
                    f"leader {self.number} is not written down any more: somebody has deleted the lease, or a volume is "
                    "not mounted"
                )
            case False:
                return "another driver leads it now"
        self._counter += 1
        self._lease.renew(self.number, self._counter, self.epoch)
        if not self._is_tidy:
            self._lease.forget_before(self.number)
            self._is_tidy = True
        return None

    def end(self, last_word: LeaseEnd) -> None:
        """Tell the other drivers that this one leads no longer, and why."""
        self._lease.end(self.number, last_word, self.epoch)
