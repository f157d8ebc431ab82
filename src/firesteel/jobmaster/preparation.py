"""Everything about checkpoints and restarts that is decided before a job starts, so that mistakes show at once.

Where a job starts from, in this order:

1. With ``execution.checkpointing.resume``: the newest checkpoint or savepoint of an earlier driver of the same job. The job
   is found below the checkpoint directory by ``pipeline.job-id``, else by its name. Its driver may still live
   somewhere: claiming the job keeps it from completing checkpoints.
2. With ``execution.state-recovery.path``: that savepoint or checkpoint. It is looked for only if nothing was found before:
   a job that has checkpoints of its own no longer needs it, and its users may have deleted it.
3. From the beginning.

A job with standby drivers (`high_availability`) always resumes, by an id that all its drivers know.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random

from firesteel.checkpoint.matching import ProgramOperator
from firesteel.checkpoint.memory_storage import MemoryStorage
from firesteel.checkpoint.repository import JobCheckpoints, jobs_in
from firesteel.checkpoint.restore_point import load, verify
from firesteel.checkpoint.storage import Storage, absolute, check_writable, open_storage, shown
from firesteel.common import options
from firesteel.common.configuration import Configuration
from firesteel.common.errors import InvalidOptionError, NoSuchSnapshotError, StateError
from firesteel.common.job_id import JobID
from firesteel.jobmaster.checkpoint_settings import CheckpointSettings, read_checkpoint_settings
from firesteel.jobmaster.checkpoint_store import CheckpointStore, beginning_of, matched_start
from firesteel.jobmaster.high_availability import HighAvailability, configured_id, read_high_availability
from firesteel.jobmaster.master_core import Beginning, MasterSettings
from firesteel.jobmaster.restart_policy import create_policy
from firesteel.jobmaster.start_point import StartPoint
from firesteel.plan.job_plan import JobPlan
from firesteel.plan.operator_specs import RuntimeMode

_LOG = logging.getLogger(__name__)

#: How often a job is looked at that a living driver changes meanwhile, before it is claimed all the same.
_LOOKS = 3


@dataclass(frozen=True, slots=True)
class Preparation:
    """What a `JobMaster` is made of. The plan has the numbers of key groups that the state has."""

    plan: JobPlan
    settings: MasterSettings
    beginning: Beginning
    store: CheckpointStore | None
    #: The number of this driver among those that worked on the job; 0 without checkpoints.
    claimed: int = 0


def standby_settings(plan: JobPlan, configuration: Configuration) -> HighAvailability | None:
    """How the drivers of this job choose their leader; None when it has one driver only."""
    checkpoints = read_checkpoint_settings(configuration, plan.mode)
    create_policy(configuration, Random())  # so that mistakes show in a driver that stands by, too
    settings = _standby(plan, configuration, checkpoints)
    if settings is None and configuration.get(options.HIGH_AVAILABILITY) != "NONE":
        _LOG.warning(
            "option '%s': job '%s' runs in BATCH mode, which has no checkpoints to take it over from, and so without "
            "standby drivers",
            options.HIGH_AVAILABILITY.key,
            plan.name,
        )
    return settings


def _standby(
    plan: JobPlan, configuration: Configuration, checkpoints: CheckpointSettings | None
) -> HighAvailability | None:
    if plan.mode is RuntimeMode.BATCH:
        return None
    return read_high_availability(configuration, plan.name, checkpoints)


def prepare(
    plan: JobPlan,
    program: Sequence[ProgramOperator],
    configuration: Configuration,
    claimed_before: int = 0,
    finished_before: bool = False,
) -> Preparation:
    """Read the options, find what to start from, compare it with the program, claim the job.

    ``claimed_before``: a driver is known to have claimed the job as this number. ``finished_before``: the leader before this
    one has finished the job, so what it has left is not to be gone on from; it had no time to delete it.
    """
    checkpoints = read_checkpoint_settings(configuration, plan.mode)
    settings = MasterSettings(
        configuration.get(options.CANCEL_GRACE).to_millis() / 1000,
        create_policy(configuration, Random()),
        checkpoints,
    )
    job_id = configured_id(configuration)
    standby = _standby(plan, configuration, checkpoints)
    if checkpoints is None:
        start, plan = _from_path(plan, program, configuration)
        _refuse_resume(configuration)
        return Preparation(plan, settings, Beginning(str(job_id or JobID()), point=start), None)
    claim = _Claim(plan, program, configuration, checkpoints, claimed_before, finished_before)
    return claim.prepare(settings, job_id, standby)


def _from_path(
    plan: JobPlan, program: Sequence[ProgramOperator], configuration: Configuration
) -> tuple[StartPoint | None, JobPlan]:
    path = configuration.get(options.SAVEPOINT_PATH)
    if not path:
        return None, plan
    if plan.mode is RuntimeMode.BATCH:
        raise InvalidOptionError(
            f"option '{options.SAVEPOINT_PATH.key}': job '{plan.name}' runs in BATCH mode, which has no state to "
            f"start from; set '{options.RUNTIME_MODE.key}' to STREAMING"
        )
    point = load(absolute(path))
    verify(point)
    return matched_start(point, plan, program, configuration.get(options.SAVEPOINT_IGNORE_UNCLAIMED))


def _refuse_resume(configuration: Configuration) -> None:
    if configuration.get(options.CHECKPOINTING_RESUME):
        raise InvalidOptionError(
            f"option '{options.CHECKPOINTING_RESUME.key}': there is nothing to go on from without checkpoints; "
            f"set '{options.CHECKPOINTING_INTERVAL.key}' and '{options.CHECKPOINTING_DIR.key}', in STREAMING mode"
        )


class _Claim:
    """A job with checkpoints, on its way to being this driver's."""

    def __init__(
        self,
        plan: JobPlan,
        program: Sequence[ProgramOperator],
        configuration: Configuration,
        settings: CheckpointSettings,
        claimed_before: int,
        finished_before: bool,
    ) -> None:
        self._plan = plan
        self._program = program
        self._configuration = configuration
        self._settings = settings
        self._claimed_before = claimed_before
        self._finished_before = finished_before
        self._resume = configuration.get(options.CHECKPOINTING_RESUME)
        self._allow_non_restored = configuration.get(options.SAVEPOINT_IGNORE_UNCLAIMED)

    def prepare(
        self,
        settings: MasterSettings,
        job_id: JobID | None,
        standby: HighAvailability | None,
    ) -> Preparation:
        storage = self._open()
        if standby is not None:
            self._refuse_other_id(storage, job_id, standby.job_id)
            job_id, self._resume = standby.job_id, True
        if job_id is None and self._resume:
            job_id = _predecessor(storage, self._plan.name)
        chosen = str(job_id or JobID())
        checkpoints = JobCheckpoints(storage, chosen, self._plan.name, self._settings.num_retained)
        if standby is not None:
            self._refuse_lost_checkpoints(checkpoints, standby.directory)
        begun = self._resume and not self._finished_before and self._fits(checkpoints)
        if not self._resume and checkpoints.completed():
            raise StateError(
                f"job {chosen} has checkpoints below {shown(checkpoints.root)} already; go on from them with "
                f"'{options.CHECKPOINTING_RESUME.key}', or choose another '{options.JOB_ID.key}'"
            )
        given = None if begun else self._given()
        checkpoints.claim(f"{socket.gethostname()}, process {os.getpid()}")
        if self._finished_before and not _lies_in(checkpoints, given):
            checkpoints.begin_anew()
        newest = self._newest(checkpoints, _LOG.warning) if self._resume else None
        start, plan = newest or given or self._given()
        if newest is not None:
            self._warn_of_other_start(newest[0])
        uids = {operator.id: operator.uid for operator in self._program if operator.uid is not None}
        store = CheckpointStore(checkpoints, plan, chosen, uids)
        beginning = beginning_of(checkpoints, chosen, start)
        return Preparation(plan, settings, beginning, store, checkpoints.epoch)

    def _given(self) -> tuple[StartPoint | None, JobPlan]:
        return _from_path(self._plan, self._program, self._configuration)

    def _fits(self, checkpoints: JobCheckpoints) -> bool:
        """Whether there is something to go on from, before the job is claimed: one that does not fit is left alone.

        Its driver may live, and replace what is looked at by something newer; that is no damage.
        """
        for _ in range(_LOOKS):
            seen = checkpoints.to_go_on_from()
            try:
                return self._newest(checkpoints) is not None
            except NoSuchSnapshotError:
                if checkpoints.to_go_on_from() == seen:
                    raise
        return True

    def _warn_of_other_start(self, start: StartPoint) -> None:
        path = self._configuration.get(options.SAVEPOINT_PATH)
        if path and not self._claimed_before:
            _LOG.warning(
                "job '%s' goes on from %s, where it was, and not from %s ('%s'); to start from that, choose another '%s'",
                self._plan.name,
                start.path,
                shown(absolute(path)),
                options.SAVEPOINT_PATH.key,
                options.JOB_ID.key,
            )

    def _refuse_other_id(self, storage: Storage, given: JobID | None, derived: JobID) -> None:
        """Who asks for a job to be resumed shall not get a new one, because standby drivers give it another id."""
        if given is not None or not self._resume:
            return
        earlier = _jobs_with_checkpoints(storage, self._plan.name)
        if earlier and str(derived) not in earlier:
            raise StateError(
                f"job '{self._plan.name}' ran without standby drivers before, as {' and '.join(earlier)}, and they would "
                f"run it as {derived}; set '{options.JOB_ID.key}' to the earlier id to go on with it, or leave "
                f"'{options.CHECKPOINTING_RESUME.key}' out to begin anew"
            )

    def _refuse_lost_checkpoints(self, checkpoints: JobCheckpoints, lease: str) -> None:
        newest = checkpoints.newest_epoch()
        if newest < self._claimed_before:
            raise StateError(
                f"the leader before this one was driver {self._claimed_before} of job '{self._plan.name}', but "
                f"{shown(checkpoints.root)} knows of {newest or 'none'} only: this driver's checkpoint directory is "
                "another one, or the job had finished and its checkpoints were deleted; to run it again from the "
                f"beginning, delete its lease, the directory {shown(lease)}"
            )

    def _open(self) -> Storage:
        directory = self._settings.directory
        if directory is not None:
            check_writable(directory, "checkpoint directory", f"'{options.CHECKPOINTING_DIR.key}'")
            return open_storage(directory)
        if self._resume:
            raise InvalidOptionError(
                f"option '{options.CHECKPOINTING_RESUME.key}': checkpoints in a driver's memory are gone with it; "
                f"set '{options.CHECKPOINTING_DIR.key}'"
            )
        return MemoryStorage()

    def _newest(
        self, checkpoints: JobCheckpoints, warn: Callable[[str], object] = lambda problem: None
    ) -> tuple[StartPoint, JobPlan] | None:
        problems: list[str] = []
        found = checkpoints.newest_valid(problems.append)
        if found is None and checkpoints.to_go_on_from():
            # Not from the beginning: what it has written until then must not be written twice.
            raise NoSuchSnapshotError(
                f"job '{self._plan.name}' cannot go on, because nothing of what it has saved below "
                f"{shown(checkpoints.root)} can be used: {'; '.join(problems)}; start it from a savepoint (-s) under "
                f"another '{options.JOB_ID.key}', or delete this directory to begin anew"
            )
        for problem in problems:
            warn(problem)
        if found is None:
            return None
        start, plan = matched_start(found, self._plan, self._program, self._allow_non_restored)
        # In a directory of this job: what is newer and cannot be used was reported, and will not be overwritten.
        return replace(start, path=found.location), plan


def _lies_in(checkpoints: JobCheckpoints, given: tuple[StartPoint | None, JobPlan] | None) -> bool:
    """Whether a job is to start from one of its own checkpoints."""
    start = None if given is None else given[0]
    return start is not None and start.restore.root == checkpoints.root


def _predecessor(storage: Storage, name: str) -> JobID | None:
    """The id of the job with this name below a checkpoint directory; None when there is none."""
    usable = _jobs_with_checkpoints(storage, name)
    candidates = usable or _jobs_named(storage, name)
    if len(usable) > 1:
        raise StateError(
            f"several jobs named '{name}' have checkpoints below {shown(storage.uri)}: {', '.join(usable)}; "
            f"choose the one to go on with by '{options.JOB_ID.key}', or give them different names"
        )
    return JobID(candidates[0]) if len(candidates) == 1 else None


def _jobs_named(storage: Storage, name: str) -> list[str]:
    return [job.job_id for job in jobs_in(storage) if job.job_name == name]


def _jobs_with_checkpoints(storage: Storage, name: str) -> list[str]:
    return [
        job_id for job_id in _jobs_named(storage, name) if JobCheckpoints(storage, job_id, name).completed()
    ]
