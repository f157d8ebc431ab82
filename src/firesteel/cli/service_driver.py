"""The process of a job of the cluster service: the driver of one program, which tells the service what becomes of it.

It reads what to run from the folder of its submission, asks there for slots, and writes there how its jobs are. The service need
not live for that, and finds all of it when it comes back. ``python -m firesteel.cli.service_driver --job FOLDER`` is how the
service starts it; with ``--spare`` it starts Spark first and waits for a line with the folder.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import shutil
import sys
import threading
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from firesteel import launch
from firesteel.cli.log_lines import roll_over, write_log_lines
from firesteel.cli.program import Program
from firesteel.cli.run import run_program
from firesteel.common._executor_name import tell_executors_apart
from firesteel.common._override import override
from firesteel.common.configuration import Configuration
from firesteel.common.errors import InvalidOptionError, JobCancelledError, NotEnoughSlotsError
from firesteel.common.job_id import JobID
from firesteel.common.job_status import JobStatus
from firesteel.common.options import (
    ARCHIVE_DIR,
    CHECKPOINTING_RESUME,
    HIGH_AVAILABILITY,
    JOB_ID,
    PYTHON_ARCHIVES,
    PYTHON_FILES,
    PYTHON_REQUIREMENTS,
    REST_ADDRESS,
    REST_BIND_ADDRESS,
    REST_BIND_PORT,
    REST_PORT,
)
from firesteel.common.time import to_millis
from firesteel.compiler.compile import compile_job
from firesteel.compiler.program_plans import ProgramPlans
from firesteel.datastream._given_options import configured_options
from firesteel.jobmaster.checkpoints.settings import read_checkpoint_settings
from firesteel.jobmaster.elasticity import read_elastic_settings
from firesteel.jobmaster.job_client import MasterJobClient
from firesteel.jobmaster.leaders.settings import configured_id
from firesteel.logs.settings import LogSettings, read_log_settings
from firesteel.plan.job_plan import JobPlan
from firesteel.rest.outline import outline_of
from firesteel.rest.views.jobs import job_plan
from firesteel.service.folder import JobFolder, read_json, write_json
from firesteel.service.manager_paths import executor_owner
from firesteel.service.plans import PLAN_FILE
from firesteel.service.processes import mark_of, this_machine
from firesteel.service.records import DriverReport, JobReport, Orders, SubmittedProgram

__all__ = ["main"]

_LOG = logging.getLogger("firesteel.service_driver")

#: How often a job that waits for slots looks for them: at once there are some, or it may take long.
_LOOK_SECONDS, _LONGEST_PAUSE = 0.01, 0.25
#: How long the service may take to say how many slots a job may have that runs; it may not be there at all.
_ANSWER_SECONDS = 10.0
#: Of the driver, not of the job: each has a port of its own, which only the service asks.
_OWN_OPTIONS = {
    REST_PORT.key: "0",
    REST_BIND_PORT.key: "0",
    REST_ADDRESS.key: "localhost",
    REST_BIND_ADDRESS.key: "127.0.0.1",
    # The service starts it again; a second driver would only stand by for the first.
    HIGH_AVAILABILITY.key: "NONE",
}


#: Who is let in, and how, is decided where people come in: at the service. A driver answers its own user on loopback only.
_AT_THE_FRONT_DOOR = (
    "security.ssl.rest.enabled",
    "security.ssl.rest.authentication-enabled",
    "firesteel.rest.tokens-file",
)


def main(arguments: list[str]) -> int:
    """Run a submission, or show its plan; returns the exit code."""
    kind, folder = arguments
    if kind == "--plan":
        return _show_plan(JobFolder(Path(folder)))
    write_log_lines(LogSettings())
    if kind == "--spare":
        from firesteel.cli.spare_driver import await_folder

        given = await_folder(Path(folder))
        if given is None:
            return 0
        folder = given
    return run_job(JobFolder(Path(folder)))


def run_job(folder: JobFolder) -> int:
    """Run the program of a submission to its end."""
    if folder.lock(this_machine()) is None:
        _LOG.warning("another driver runs this submission already")
        return 0
    tell_executors_apart(executor_owner(folder.id))
    submission = folder.submission()
    options = {**_defaults(folder), **_options(folder, submission)}
    _begin_log(folder, options)
    job = ServiceJob(folder, submission)
    with launch.intercept(job.admit), launch.observe_jobs(job):
        code = run_program(_program(folder, submission), options, is_logged=True)
    launch.await_archives()
    job.end(code)
    return code


def _begin_log(folder: JobFolder, options: Mapping[str, Any]) -> None:
    try:
        settings = read_log_settings(configured_options().add_all(Configuration.from_dict(dict(options))))
    except InvalidOptionError:
        settings = LogSettings()  # its job will be refused for it, and that has to be written somewhere
    write_log_lines(settings)
    roll_over(folder.log, settings)


def _defaults(folder: JobFolder) -> dict[str, Any]:
    return dict(read_json(folder.path.parent.parent / "defaults.json") or {})


def _options(folder: JobFolder, submission: SubmittedProgram) -> dict[str, Any]:
    """What the submission asks for, with its files where they are now."""
    files = folder.files
    options: dict[str, Any] = dict(submission.options)
    if submission.python_files:
        options[PYTHON_FILES.key] = [str(files / name) for name in submission.python_files]
    if submission.requirements:
        cache = _unpacked_cache(files, submission.requirements_cache)
        options[PYTHON_REQUIREMENTS.key] = f"{files / submission.requirements}{cache}"
    if submission.archives:
        options[PYTHON_ARCHIVES.key] = [str(files / name) for name in submission.archives]
    return options


def _unpacked_cache(files: Path, name: str | None) -> str:
    """The directory of packages that came with the requirements, as an archive; ``#`` and where it is."""
    if name is None:
        return ""
    target = files / f"{name}.unpacked"
    shutil.rmtree(target, ignore_errors=True)
    with zipfile.ZipFile(files / name) as archive:
        archive.extractall(target)
    return f"#{target}"


def _program(folder: JobFolder, submission: SubmittedProgram) -> Program:
    script = None if submission.script is None else str(folder.files / submission.script)
    python_files = tuple(str(folder.files / name) for name in submission.python_files)
    return Program(script, submission.module, submission.arguments, submission.pyflink, python_files)


class ServiceJob(launch.JobObserver):
    """What a driver tells the service of itself and its jobs, and the slots that it asks for."""

    def __init__(self, folder: JobFolder, submission: SubmittedProgram) -> None:
        self._folder = folder
        self._submission = submission
        self._resume = folder.orders().resume
        self._archive = str(_defaults(folder)[ARCHIVE_DIR.key])
        self._lock = threading.Lock()
        self._count = 0
        self._asking = 0  # threads that wait for an answer of the service
        earlier = folder.report()
        # Those of a driver that died keep their slots until this one asks for them again.
        kept = [] if earlier is None else [each for each in earlier.jobs if not each.is_over]
        jobs = tuple(dataclasses.replace(each, status="") for each in kept)
        self._report = DriverReport(mark_of(os.getpid()), jobs=jobs)
        self._write()

    def admit(self, submission: launch.Submission) -> launch.Submission:
        """Give a job its id, and wait until it has its slots, or those that it makes do with; raises what keeps it from having them."""
        configuration = Configuration(submission.configuration)
        for key, value in _OWN_OPTIONS.items():
            configuration.set_string(key, value)
        for key in _AT_THE_FRONT_DOOR:
            configuration.remove_config(key)
        configuration.set_string(ARCHIVE_DIR.key, self._archive)  # where the service looks for it
        if not configuration.contains(JOB_ID):
            configuration.set_string(JOB_ID.key, self._next_id())
        self._count += 1
        plan = compile_job(submission.graph, configuration, submission.job_name)
        job = _asking(plan, configuration, _least(submission, configuration, plan))
        if self._resume and job.resumable:
            configuration.set_string(CHECKPOINTING_RESUME.key, "true")
        self._await_slots(job)
        _warm_session_must_fit(configuration, plan.slots)
        return dataclasses.replace(submission, configuration=configuration, allowance=self)

    def _next_id(self) -> str:
        """The same after a restart, so that every job finds its checkpoints."""
        if self._count == 0:
            return self._folder.id
        return f"{(int(self._folder.id, 16) + self._count) % 16**32:032x}"

    def _await_slots(self, job: JobReport) -> None:
        with self._lock:
            self._put(job)
        has_said, pause = False, _LOOK_SECONDS
        while True:
            orders: Orders = self._folder.orders()
            if orders.is_cancelled:
                raise JobCancelledError(f"job '{job.name}' was cancelled before it had its slots")
            if job.id in orders.refused:
                raise NotEnoughSlotsError(
                    f"{orders.refused[job.id]}; lower the parallelism, or raise 'firesteel.cluster.slots'",
                    needed=job.needed,
                )
            if orders.granted.get(job.id, 0) >= job.needed:
                return
            if not has_said:
                has_said = True
                _LOG.info(
                    "job '%s' (%s) asks the service for %d slots, %d at least",
                    job.name,
                    job.id,
                    job.slots,
                    job.needed,
                )
            time.sleep(pause)
            pause = min(_LONGEST_PAUSE, pause * 1.2)

    # What `SlotAllowance` wants.

    def allow(self, job_id: str, wanted: int) -> int:
        """Ask the service; without an answer the job may have what it has."""
        with self._lock:
            orders = self._folder.orders()
            if wanted <= orders.held(self._job(job_id)):
                return wanted
            request = self._ask_for(job_id, wanted, orders)
            self._asking += 1
        try:
            return min(wanted, self._await_answer(job_id, request, wanted))
        finally:
            with self._lock:
                self._asking -= 1

    def _await_answer(self, job_id: str, request: int, wanted: int) -> int:
        deadline = time.monotonic() + _ANSWER_SECONDS
        while time.monotonic() < deadline:
            if self._folder.orders().answered.get(job_id, 0) >= request:
                return self.held(job_id)
            time.sleep(_LOOK_SECONDS)
        _LOG.warning("the service does not say whether job %s may have %d slots", job_id, wanted)
        return self.held(job_id)

    def held(self, job_id: str) -> int:
        """As the service has written it down; not those that the job has given back, which it may still have to read."""
        with self._lock:
            return self._folder.orders().held(self._job(job_id))

    def hope_for(self, job_id: str, wanted: int, least: int) -> None:
        """Tell the service, unless it knows, or somebody waits for its answer to another request."""
        with self._lock:
            job, orders = self._job(job_id), self._folder.orders()
            is_known = (job.wanted, job.least) == (wanted, least)
            if not self._asking and (not is_known or orders.answered.get(job_id, 0) >= job.request):
                self._ask_for(job_id, wanted, orders, least)

    def _ask_for(self, job_id: str, wanted: int, orders: Orders, least: int = 0) -> int:
        """The number of the request: one that no driver of this job has used. What the job has it keeps."""
        job = self._job(job_id)
        request = max(job.request, orders.answered.get(job_id, 0)) + 1
        self._replace(job_id, slots=orders.held(job), wanted=wanted, least=least, request=request)
        return request

    def keep(self, job_id: str, slots: int) -> None:
        """The job runs with ``slots``: tell the service, which may give all others to other jobs."""
        with self._lock:
            self._replace(job_id, slots=slots, wanted=0, least=0)

    # What `launch.JobObserver` wants.

    @override
    def job_submitted(self, client: MasterJobClient) -> None:
        with self._lock:
            self._report = dataclasses.replace(self._report, rest=client.rest_url or self._report.rest)
        self._set_status(str(client.get_job_id()), JobStatus.CREATED)

    @override
    def standing_by(self, job_id: JobID) -> None:
        """Drivers of a service do not."""

    @override
    def engine_starting(self, job_id: JobID) -> None:
        """Its state says it."""

    @override
    def status_changed(self, job: Any, status: JobStatus) -> None:
        self._set_status(str(job.job_id), status)

    def end(self, code: int) -> None:
        """The program has ended by itself."""
        with self._lock:
            self._report = dataclasses.replace(self._report, exit_code=code)
            self._write()

    def _set_status(self, job_id: str, status: JobStatus) -> None:
        ended = to_millis(time.time()) if status.is_terminal_state() else 0
        with self._lock:
            self._replace(job_id, status=status.name, ended=ended)

    def _job(self, job_id: str) -> JobReport:
        """One that was admitted, which all of them are."""
        return next(each for each in self._report.jobs if each.id == job_id)

    def _replace(self, job_id: str, **changes: Any) -> None:
        job = self._job(job_id)
        changed = dataclasses.replace(job, **changes)
        if changed != job:
            self._put(changed)

    def _put(self, job: JobReport) -> None:
        others = tuple(each for each in self._report.jobs if each.id != job.id)
        self._report = dataclasses.replace(self._report, jobs=(*others, job))
        self._write()

    def _write(self) -> None:
        self._folder.write_report(self._report)


def _least(submission: launch.Submission, configuration: Configuration, plan: JobPlan) -> int:
    """With how many slots a job makes do, if it makes do with fewer than it asks for; otherwise 0."""
    if read_elastic_settings(configuration, plan.mode) is None:
        return 0
    plans = ProgramPlans(submission.graph, configuration, plan)
    return plans.smallest(plans.bounds).slots


def _asking(plan: JobPlan, configuration: Configuration, least: int) -> JobReport:
    checkpoints = read_checkpoint_settings(configuration, plan.mode)
    return JobReport(
        str(configured_id(configuration)),
        plan.name,
        plan.slots,
        to_millis(time.time()),
        checkpoints is not None and checkpoints.directory is not None,
        plan.mode.name,
        least=least,
    )


def _warm_session_must_fit(configuration: Configuration, slots: int) -> None:
    """A spare driver has started Spark before it knew the program; one that wants other settings gets another Spark."""
    if "firesteel.cli.spare_driver" in sys.modules:
        from firesteel.cli.spare_driver import session_must_fit

        session_must_fit(configuration, slots)


# A plan -------------------------------------------------------------------------------------------------


class _PlanShown(SystemExit):
    """The first job of a program is known, and nothing is to be run."""


def _show_plan(folder: JobFolder) -> int:
    submission = folder.submission()

    def show(given: launch.Submission) -> launch.Submission:
        plan = compile_job(given.graph, given.configuration, given.job_name)
        write_json(folder.path / PLAN_FILE, job_plan(outline_of(plan), submission.id))
        raise _PlanShown(0)

    options: Mapping[str, Any] = _options(folder, submission)
    with launch.intercept(show):
        _program(folder, submission).run(options)
    print("the program ended without calling execute(): there is no plan")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
