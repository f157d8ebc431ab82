"""Everything about checkpoints and restarts that is decided before a job starts, so that mistakes show at once.

What a job starts from is decided by `takeover`, for which this module reads the options and compares the program with the
state. With ``execution.checkpointing.resume`` a job resumes from where an earlier driver was: it is found below the
checkpoint directory by ``pipeline.job-id``, else by its name. Its driver may still live somewhere: claiming the job
keeps it from completing checkpoints. Else it starts from ``execution.state-recovery.path``, or from the beginning.

A job with standby drivers (`leaders`) always resumes, by an id that all its drivers know.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from firesteel.checkpoint.matching import ProgramOperator
from firesteel.checkpoint.memory_storage import MemoryStorage
from firesteel.checkpoint.repository import JobCheckpoints, jobs_in
from firesteel.checkpoint.storage import Storage, absolute, check_writable, open_storage, shown
from firesteel.checkpoint.stored_checkpoint import StoredCheckpoint, load, verify
from firesteel.checkpoint.trust import refuse_untrusted
from firesteel.common import options
from firesteel.common.configuration import Configuration
from firesteel.common.errors import InvalidOptionError, StateError, StorageError
from firesteel.common.job_id import JobID
from firesteel.jobmaster.checkpoints.deletions import DeletionThread
from firesteel.jobmaster.checkpoints.settings import (
    CheckpointSettings,
    read_checkpoint_settings,
    savepoint_settings,
)
from firesteel.jobmaster.checkpoints.store import CheckpointStore, matched_start
from firesteel.jobmaster.checkpoints.takeover import Takeover
from firesteel.jobmaster.elasticity import read_elastic_settings
from firesteel.jobmaster.heartbeat_settings import read_heartbeat
from firesteel.jobmaster.job_restore import JobRestore
from firesteel.jobmaster.leaders.settings import HighAvailability, configured_id, read_high_availability
from firesteel.jobmaster.master_core import MasterSettings, MasterStart
from firesteel.jobmaster.regions import warn_about_regions
from firesteel.jobmaster.repeated_failures import read_repetition_settings
from firesteel.jobmaster.restart_policy import create_policy
from firesteel.jobmaster.storage_retry import retry_storage
from firesteel.plan.job_plan import JobPlan
from firesteel.plan.operator_specs import RuntimeMode, TwoInputTransformSpec

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Preparation:
    """What a `JobMaster` is made of. The plan has the numbers of key groups that the state has."""

    plan: JobPlan
    settings: MasterSettings
    start: MasterStart
    store: CheckpointStore | None
    #: With which this driver has claimed the directory of the job's checkpoints; 0 without checkpoints.
    epoch: int = 0


def standby_settings(plan: JobPlan, configuration: Configuration) -> HighAvailability | None:
    """How the drivers of this job choose their leader; None when it has one driver only."""
    checkpoints = read_checkpoint_settings(configuration, plan.mode)
    create_policy(configuration, Random())  # so that mistakes show in a driver that stands by too
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
    epoch_before: int = 0,
    finished_before: bool = False,
    simulated: bool = False,
) -> Preparation:
    """Read the options, find what to start from, compare it with the program, claim the job.

    ``epoch_before``: a driver is known to have claimed the job with this epoch. ``finished_before``: the leader before this
    one has finished the job, so what it has left is not to be resumed from; it had no time to delete it. ``simulated``: the job
    runs in a time of its own.
    """
    checkpoints = read_checkpoint_settings(configuration, plan.mode)
    settings = MasterSettings(
        configuration.get(options.CANCEL_GRACE).to_millis() / 1000,
        create_policy(configuration, Random()),
        checkpoints,
        heartbeat=read_heartbeat(configuration),
        deployment_seconds=configuration.get(options.SLOT_REQUEST_TIMEOUT).to_millis() / 1000,
        remembered_failures=configuration.get(options.EXCEPTION_HISTORY_SIZE),
        repetition=read_repetition_settings(configuration, simulated),
        elastic=read_elastic_settings(configuration, plan.mode),
    )
    warn_about_regions(plan, configuration)
    job_id = configured_id(configuration)
    standby = _standby(plan, configuration, checkpoints)
    if checkpoints is None:
        start, plan = _from_path(plan, program, configuration)
        _refuse_resume(configuration)
        job_id_text = str(job_id or JobID())
        if reason := _why_no_savepoints(plan):
            settings = replace(settings, why_none=reason)
            return Preparation(plan, settings, MasterStart(job_id_text, restore=start), None)
        settings = replace(settings, checkpoints=savepoint_settings(configuration))
        in_memory = JobCheckpoints(MemoryStorage(), job_id_text, plan.name)
        takeover = Takeover(
            in_memory,
            plan,
            job_id_text,
            fit=lambda stored: matched_start(stored, plan, program, allow_non_restored=False),
            given=lambda: (start, plan),
            open_store=lambda fitted_plan: _open_store(in_memory, fitted_plan, job_id_text, program),
            resume=False,
        )
        taken = takeover.take_over()
        return Preparation(plan, settings, taken.start, taken.store)
    preparing = _CheckpointedJob(plan, program, configuration, checkpoints, epoch_before, finished_before)
    return preparing.prepare(settings, job_id, standby)


def _why_no_savepoints(plan: JobPlan) -> str:
    """What keeps the tasks from taking part in savepoints; empty when nothing does."""
    if plan.mode is RuntimeMode.BATCH:
        return f"it runs in BATCH mode; set '{options.RUNTIME_MODE.key}' to STREAMING"
    for vertex in plan.vertices:
        for operator in vertex.operators:
            if isinstance(operator.spec, TwoInputTransformSpec) and operator.spec.selects:
                return (
                    f"{operator.name!r} is InputSelectable, which does not go together with savepoints: what waits on "
                    "the input that is not selected would be in none"
                )
    return ""


def _open_store(
    checkpoints: JobCheckpoints, plan: JobPlan, job_id: str, program: Sequence[ProgramOperator]
) -> CheckpointStore:
    return CheckpointStore(checkpoints, plan, job_id, _uids(program), aside=DeletionThread.of(plan.name))


def _uids(program: Sequence[ProgramOperator]) -> dict[str, str]:
    return {operator.id: operator.uid for operator in program if operator.uid is not None}


def _from_path(
    plan: JobPlan, program: Sequence[ProgramOperator], configuration: Configuration
) -> tuple[JobRestore | None, JobPlan]:
    path = configuration.get(options.SAVEPOINT_PATH)
    if not path:
        return None, plan
    if plan.mode is RuntimeMode.BATCH:
        raise InvalidOptionError(
            f"option '{options.SAVEPOINT_PATH.key}': job '{plan.name}' runs in BATCH mode, which has no state to "
            f"start from; set '{options.RUNTIME_MODE.key}' to STREAMING"
        )
    stored = load(absolute(path))
    verify(stored)
    if not configuration.get(options.TRUST_DIRECTORY):
        refuse_untrusted(stored)
    return matched_start(stored, plan, program, configuration.get(options.SAVEPOINT_IGNORE_UNCLAIMED))


def _refuse_resume(configuration: Configuration) -> None:
    if configuration.get(options.CHECKPOINTING_RESUME):
        raise InvalidOptionError(
            f"option '{options.CHECKPOINTING_RESUME.key}': there is nothing to resume from without checkpoints; "
            f"set '{options.CHECKPOINTING_INTERVAL.key}' and '{options.CHECKPOINTING_DIR.key}', in STREAMING mode"
        )


class _CheckpointsGone(StateError):
    """There is less than another driver has left."""


class _CheckpointedJob:
    """A job with checkpoints, on its way to being this driver's."""

    def __init__(
        self,
        plan: JobPlan,
        program: Sequence[ProgramOperator],
        configuration: Configuration,
        settings: CheckpointSettings,
        epoch_before: int,
        finished_before: bool,
    ) -> None:
        self._plan = plan
        self._program = program
        self._configuration = configuration
        self._settings = settings
        self._epoch_before = epoch_before
        self._finished_before = finished_before
        self._resume = configuration.get(options.CHECKPOINTING_RESUME)
        self._allow_non_restored = configuration.get(options.SAVEPOINT_IGNORE_UNCLAIMED)

    def prepare(
        self, settings: MasterSettings, job_id: JobID | None, standby: HighAvailability | None
    ) -> Preparation:
        """Claim the job. One to be resumed waits for a storage that does not answer: a new start would be wrong."""
        if not self._resume and standby is None:
            return self._prepare(settings, job_id, standby)
        directory = self._settings.directory
        if directory is not None:
            open_storage(directory)  # one that no waiting makes right is refused at once
        return retry_storage(
            lambda: self._prepare(settings, job_id, standby),
            self._configuration.get(options.STORAGE_PATIENCE).to_millis() / 1000,
            f"job '{self._plan.name}' cannot be resumed yet",
            (StorageError, _CheckpointsGone),
        )

    def _prepare(
        self, settings: MasterSettings, job_id: JobID | None, standby: HighAvailability | None
    ) -> Preparation:
        storage = self._open()
        if standby is not None:
            self._refuse_other_id(storage, job_id, standby.job_id)
            job_id, self._resume = standby.job_id, True
        if job_id is None and self._resume:
            job_id = _predecessor(storage, self._plan.name)
        job_id_text = str(job_id or JobID())
        checkpoints = JobCheckpoints(storage, job_id_text, self._plan.name, self._settings.num_retained)
        if standby is not None:
            self._refuse_lost_checkpoints(checkpoints, standby.directory)
        takeover = Takeover(
            checkpoints,
            self._plan,
            job_id_text,
            fit=self._fit,
            given=self._given,
            open_store=lambda plan: _open_store(checkpoints, plan, job_id_text, self._program),
            resume=self._resume,
            finished_before=self._finished_before,
            who=f"{socket.gethostname()}, process {os.getpid()}",
            warn=_LOG.warning,
        )
        taken = takeover.take_over()
        if taken.resumed:
            self._warn_of_other_start(taken.start.restore)
        return Preparation(taken.plan, settings, taken.start, taken.store, checkpoints.epoch)

    def _fit(self, stored: StoredCheckpoint) -> tuple[JobRestore, JobPlan]:
        """How the program resumes from something that the job has saved."""
        if not self._configuration.get(options.TRUST_DIRECTORY):
            refuse_untrusted(stored)
        return matched_start(stored, self._plan, self._program, self._allow_non_restored)

    def _given(self) -> tuple[JobRestore | None, JobPlan]:
        return _from_path(self._plan, self._program, self._configuration)

    def _warn_of_other_start(self, start: JobRestore | None) -> None:
        path = self._configuration.get(options.SAVEPOINT_PATH)
        if start is not None and path and not self._epoch_before:
            _LOG.warning(
                "job '%s' resumes from %s, where it was, and not from %s ('%s'); to start from that, choose another '%s'",
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
                f"run it as {derived}; set '{options.JOB_ID.key}' to the earlier id to resume it, or leave "
                f"'{options.CHECKPOINTING_RESUME.key}' out to start from the beginning"
            )

    def _refuse_lost_checkpoints(self, checkpoints: JobCheckpoints, lease: str) -> None:
        newest = checkpoints.newest_epoch()
        if newest < self._epoch_before:
            raise _CheckpointsGone(
                f"the leader before this one was driver {self._epoch_before} of job '{self._plan.name}', but "
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


def _predecessor(storage: Storage, name: str) -> JobID | None:
    """The id of the job with this name below a checkpoint directory; None when there is none."""
    usable = _jobs_with_checkpoints(storage, name)
    # To find none means to start from the beginning, so a list that is empty for once must not decide about it.
    candidates = usable or _jobs_named(storage, name) or _jobs_named(storage, name)
    if len(usable) > 1:
        raise StateError(
            f"several jobs named '{name}' have checkpoints below {shown(storage.uri)}: {', '.join(usable)}; "
            f"choose the one to resume by '{options.JOB_ID.key}', or give them different names"
        )
    return JobID(candidates[0]) if len(candidates) == 1 else None


def _jobs_named(storage: Storage, name: str) -> list[str]:
    return [job.job_id for job in jobs_in(storage) if job.job_name == name]


def _jobs_with_checkpoints(storage: Storage, name: str) -> list[str]:
    return [
        job_id for job_id in _jobs_named(storage, name) if JobCheckpoints(storage, job_id, name).completed()
    ]
