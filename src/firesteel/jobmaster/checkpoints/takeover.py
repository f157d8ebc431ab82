"""Takes a job over from earlier drivers and decides what it starts from: the one place in which that is decided.

`preparation` starts jobs with it, and so does the crash simulation. What a job starts from, in this order:

1. If it is to be resumed: the newest checkpoint or savepoint of an earlier driver that can be used. When there are some
   and none can be used, the job is refused: what it has written until then must not be written twice.
2. What it was told to begin with, a savepoint or checkpoint. It is looked for only if nothing was found before: a job
   that has checkpoints of its own no longer needs it, and its users may have deleted it.
3. The beginning.

The same look is taken twice. Before the claim, so that a job that this program does not fit is left to the driver that
runs it. And after it, because that driver may have completed checkpoints until then; from the claim on it cannot.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from firesteel.checkpoint import layout
from firesteel.checkpoint.repository import JobCheckpoints
from firesteel.checkpoint.storage import shown
from firesteel.checkpoint.stored_checkpoint import StoredCheckpoint
from firesteel.common import options
from firesteel.common.errors import FileMissingError, NoSuchSnapshotError, StateError, StorageError
from firesteel.jobmaster.checkpoints.store import CheckpointStore
from firesteel.jobmaster.job_restore import JobRestore
from firesteel.jobmaster.master_core import MasterStart
from firesteel.plan.job_plan import JobPlan

__all__ = ["TakenOver", "Takeover", "master_start"]

_LOG = logging.getLogger(__name__)

#: How often a job is looked at that a living driver changes meanwhile, before it is claimed nevertheless.
_LOOKS = 3
#: Attempts are numbered on from driver to driver, so that files of tasks that outlived their driver have other names.
ATTEMPTS_PER_DRIVER = 1000
#: How many checkpoints a driver may begin in a row without leaving a trace in storage.
RESERVED_IDS = 1000


@dataclass(frozen=True, slots=True)
class TakenOver:
    """A job that is this driver's. The plan has the numbers of key groups that the state has.

    ``resumed``: it resumes from where an earlier driver was.
    """

    plan: JobPlan
    start: MasterStart
    store: CheckpointStore
    resumed: bool


@dataclass(frozen=True, slots=True)
class Takeover:
    """A job on its way to being this driver's.

    ``fit`` says how the program resumes from something that the job has saved, or raises. ``given`` says how it starts
    when there is no such thing: from what it was told to begin with, or from the beginning. ``open_store`` makes the store
    of the master for the plan that was chosen. ``finished_before``: the driver before this one has finished the job, so
    what it has left is not to be resumed from; it had no time to delete it. ``who`` is a note for people.
    """

    checkpoints: JobCheckpoints
    plan: JobPlan
    job_id: str
    fit: Callable[[StoredCheckpoint], tuple[JobRestore, JobPlan]]
    given: Callable[[], tuple[JobRestore | None, JobPlan]]
    open_store: Callable[[JobPlan], CheckpointStore]
    resume: bool = True
    finished_before: bool = False
    who: str = ""
    warn: Callable[[str], object] = _LOG.warning

    def take_over(self) -> TakenOver:
        """Claim the job, and say how its core begins."""
        begun = self.resume and not self.finished_before and self._fits()
        if not self.resume and self.checkpoints.completed():
            raise StateError(
                f"job {self.job_id} has checkpoints below {shown(self.checkpoints.root)} already; resume from them with "
                f"'{options.CHECKPOINTING_RESUME.key}', or choose another '{options.JOB_ID.key}'"
            )
        given = None if begun else self.given()
        self.checkpoints.claim(self.who)
        if self.finished_before and not self._lies_here(given):
            self.checkpoints.delete_earlier_run()
        newest = self._newest(self.warn) if self.resume else None
        start, plan = newest or given or self.given()
        store = self.open_store(plan)
        store.begin_with(start)
        master = master_start(self.checkpoints, self.job_id, start)
        return TakenOver(plan, master, store, resumed=newest is not None)

    def _fits(self) -> bool:
        """Whether there is something to resume from, before the job is claimed: one that does not fit is left alone.

        Its driver may live, and replace what is looked at by something newer; that is no damage.
        """
        for _ in range(_LOOKS):
            seen = self.checkpoints.resumable_ids()
            try:
                return self._newest(lambda problem: None) is not None
            except (NoSuchSnapshotError, FileMissingError):
                if self.checkpoints.resumable_ids() == seen:
                    raise
        return True

    def _newest(self, warn: Callable[[str], object]) -> tuple[JobRestore, JobPlan] | None:
        problems: list[str] = []
        newest = self.checkpoints.newest_valid(problems.append)
        if newest is None and self.checkpoints.resumable_ids():
            # Not from the beginning: what it has written until then must not be written twice.
            raise NoSuchSnapshotError(
                f"job '{self.plan.name}' cannot resume, because nothing of what it has saved below "
                f"{shown(self.checkpoints.root)} can be used: {'; '.join(problems)}; start it from a savepoint (-s) under "
                f"another '{options.JOB_ID.key}', or delete this directory to start over"
            )
        for problem in problems:
            warn(problem)
        if newest is None:
            return None
        start, plan = self.fit(newest)
        # In a directory of this job: what is newer and cannot be used was reported, and will not be overwritten.
        return replace(start, path=newest.location), plan

    def _lies_here(self, given: tuple[JobRestore | None, JobPlan] | None) -> bool:
        """Whether a job is to start from one of its own checkpoints."""
        start = None if given is None else given[0]
        return start is not None and start.tasks.root == self.checkpoints.root


def master_start(checkpoints: JobCheckpoints, job_id: str, point: JobRestore | None) -> MasterStart:
    """How a core resumes from ``point`` with a job that this driver has claimed."""
    first_unused = checkpoints.next_id()
    if point is not None:
        first_unused = max(first_unused, point.checkpoint_id + 1)
    if checkpoints.root:
        _reserve_ids(checkpoints, first_unused)
    return MasterStart(
        job_id=job_id,
        root=checkpoints.root,
        restore=point,
        completed=tuple(checkpoints.completed()),
        next_checkpoint=first_unused,
        first_attempt=(checkpoints.epoch - 1) * ATTEMPTS_PER_DRIVER + 1,
    )


def _reserve_ids(checkpoints: JobCheckpoints, first: int) -> None:
    """Leave a trace of the numbers that this driver may use, so that the next one uses others.

    No number may be used twice, even if nothing of its checkpoint is left: sinks and user code may name things outside
    after it. The trace looks like a state file and goes as soon as newer checkpoints leave traces of their own.
    """
    trace = layout.state_file(layout.SHARED, 0, 0, 0, first + RESERVED_IDS - 1)
    if not checkpoints.storage.exists(trace):
        checkpoints.storage.publish(trace, b"")
        if not checkpoints.storage.exists(trace):
            raise StorageError(f"{trace} was written and is not there: is a volume not mounted?")
