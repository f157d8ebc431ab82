"""The paths of a service: those of a driver, answered by the driver that has the job, out of an archive, or from all drivers."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from firesteel.common.job_status import JobStatus
from firesteel.logs.rolled_output import read_as_one
from firesteel.rest.endpoints import Call, Context, Endpoint, Parameter, RawAnswer
from firesteel.rest.errors import Conflict, Malformed, NotFound, NotThere, RestError
from firesteel.rest.paths import ENDPOINTS
from firesteel.rest.paths.missing import ENDPOINTS as MISSING_ENDPOINTS
from firesteel.rest.schemas import TEXT, WHOLE, choice
from firesteel.rest.served_jobs import ServedJob
from firesteel.rest.views import driver as driver_views
from firesteel.rest.views import jobs as job_views
from firesteel.rest.views.metrics import aggregated_metrics
from firesteel.service import merging
from firesteel.service.all_drivers import AllDrivers
from firesteel.service.artifacts import Artifacts
from firesteel.service.dispatcher import Dispatcher, Managed
from firesteel.service.driver_client import DriverClient, DriverGoneError, target_of
from firesteel.service.manager_paths import ManagerPaths, all_metrics
from firesteel.service.plans import PlanMaker
from firesteel.service.programs import artifact_request, submit_artifact, submit_form
from firesteel.service.records import JobReport
from firesteel.service.stand_ins import StandIn
from firesteel.service.triggers import Triggers

__all__ = ["ServicePaths"]

_JOB = "/jobs/{jobid}"
#: How long a program may take to submit its job before its client is told the id without knowing more.
_KNOWN_SECONDS = 60.0
#: How long it may take until it is known what became of a driver that does not answer any more.
_GONE_SECONDS, _LOOK_SECONDS = 5.0, 0.02


class _NoAnswerError(RestError):
    """The driver of a job is not there at the moment."""

    status = 503


@dataclass(frozen=True, slots=True)
class _StandInJobs:
    """A directory with one job that no driver shows."""

    job_id: str
    job: ServedJob

    def all(self) -> list[ServedJob]:
        return [self.job]

    def find(self, job_id: str) -> ServedJob | None:
        return self.job if job_id == self.job_id else None


class ServicePaths:
    """What a service answers."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        artifacts: Artifacts,
        plans: PlanMaker,
        options: Mapping[str, str],
        address: Callable[[], str],
        shut_down: Callable[[], None],
    ) -> None:
        self._dispatcher = dispatcher
        self._artifacts = artifacts
        self._plans = plans
        self._address = address
        self._shut_down = shut_down
        self._client = DriverClient()
        self._triggers = Triggers(self._client)
        self._drivers = AllDrivers(dispatcher, self._client)
        self._managers = ManagerPaths(dispatcher, self._drivers, options)

    def close(self) -> None:
        """Ask drivers nothing any more."""
        self._drivers.close()
        self._triggers.close()
        self._client.close()

    def endpoints(self) -> tuple[Endpoint, ...]:
        """The table: every path of a driver, and those that only a service has."""
        own = {(each.method, each.path): each for each in self._own()}
        endpoints = []
        for endpoint in ENDPOINTS:
            key = (endpoint.method, endpoint.path)
            if key in own:
                endpoints.append(own.pop(key))
            elif endpoint.path.startswith(_JOB) and endpoint not in MISSING_ENDPOINTS:
                # A job that has not begun, or has ended before, is told nothing any more.
                refused = {404, 503} if endpoint.method == "GET" else {404, 409, 503}
                errors = tuple(sorted({*endpoint.errors, *refused}))
                endpoints.append(replace(endpoint, answer=self._forwarding(endpoint), errors=errors))
            else:
                endpoints.append(endpoint)
        return tuple(
            sorted(
                (*endpoints, *own.values()),
                key=lambda endpoint: [(part.startswith("{"), part) for part in endpoint.path.split("/")],
            )
        )

    # Jobs -------------------------------------------------------------------------------------------------

    def _forwarding(self, endpoint: Endpoint) -> Callable[[Call], Any]:
        def answer(call: Call) -> Any:
            return self._answer_about_job(endpoint, call)

        return answer

    def _answer_about_job(self, endpoint: Endpoint, call: Call) -> Any:
        deadline = time.monotonic() + _GONE_SECONDS
        while True:
            answer = self._answer_now(endpoint, call)
            if answer is not None:
                return answer
            # Its driver has just ended, well or not: a moment later it is known which.
            if time.monotonic() > deadline:
                raise _NoAnswerError(
                    f"the driver of job {call.path['jobid']} does not answer; ask again in a moment"
                )
            time.sleep(_LOOK_SECONDS)

    def _answer_now(self, endpoint: Endpoint, call: Call) -> Any:
        """What is answered; None when the driver does not answer that had the job a moment ago, and nobody else knows yet."""
        pair = self._dispatcher.find(call.path["jobid"])
        if pair is None:
            return self._from_archive(endpoint, call)
        managed, job = pair
        if job is None or not (job.status and managed.is_alive):
            if job is not None and job.is_over:
                return self._once_archived(endpoint, call)
            return self._about_stand_in(endpoint, call, managed, job)
        assert managed.report is not None
        answer = self._asked(managed.report.rest, endpoint, call)
        return self._once_archived(endpoint, call) if answer is None and job.is_over else answer

    def _asked(self, rest: str, endpoint: Endpoint, call: Call) -> Any:
        """What the driver answers; None when it is gone."""
        sent = call.sent
        remembered = self._triggers.ended(sent.path)
        if remembered is not None:
            return remembered
        try:
            answer = self._client.ask(rest, sent.method, target_of(sent), sent.body, sent.headers)
        except DriverGoneError:
            return self._triggers.ended(sent.path)
        if endpoint.method == "POST" and answer.status == 202:
            self._triggers.watch(rest, sent.path, answer, sent.headers)
        return RawAnswer(answer.status, answer.content, answer.media_type)

    def _about_stand_in(self, endpoint: Endpoint, call: Call, managed: Managed, job: JobReport | None) -> Any:
        job_id = call.path["jobid"]
        if endpoint.method == "PATCH" and endpoint.path == _JOB:
            if call.query.get("mode", "cancel") == "cancel":
                self._dispatcher.cancel(managed)
                return {}
        elif endpoint.method != "GET":
            raise Conflict(f"job {job_id} has not begun yet: ask again when it runs, or cancel it")
        stand_in = next(each for each in self._stand_ins_of(managed) if job is None or each.id == job_id)
        jobs = _StandInJobs(job_id, replace(stand_in, id=job_id).served())
        return endpoint.answer(replace(call, context=Context(jobs, call.context.operations)))

    def _stand_ins_of(self, managed: Managed) -> list[StandIn]:
        ids = {managed.folder.id, *(job.id for job in (managed.report.jobs if managed.report else ()))}
        stand_ins = [each for each in self._dispatcher.stand_ins() if each.id in ids]
        # It may have begun between two looks.
        return stand_ins or [
            StandIn(
                managed.folder.id, managed.submission.name, JobStatus.CREATED, managed.submission.submitted
            )
        ]

    def _once_archived(self, endpoint: Endpoint, call: Call) -> Any:
        """What is answered about a job that is over; None as long as neither its driver nor the service has written it down."""
        is_there = self._dispatcher.archive.find(call.path["jobid"]) is not None
        return self._from_archive(endpoint, call) if is_there else None

    def _from_archive(self, endpoint: Endpoint, call: Call) -> Any:
        job_id = call.path["jobid"]
        job = self._dispatcher.archive.find(job_id)
        if job is None:
            raise NotFound(f"there is no job {job_id} here; GET /jobs lists those that there are")
        if endpoint.method != "GET":
            if endpoint.method == "PATCH" and endpoint.path == _JOB and job.line["state"] == "CANCELED":
                return {}
            raise Conflict(f"job {job_id} has ended before: {job.line['state']}")
        remembered = self._triggers.ended(call.sent.path)
        if remembered is not None:
            return remembered
        answer = job.answer(endpoint.path.format(**call.path), call.query)
        if answer is None:
            raise NotFound(f"job {job_id} has ended, and its archive does not have that")
        return answer

    def _lines(self) -> list[dict[str, Any]]:
        asked = [line for each in self._drivers.ask("/jobs/overview") for line in each.answer["jobs"]]
        shown = {line["jid"] for line in asked}
        archive = self._dispatcher.archive
        # Where a driver has just ended, either it has written its job down, or it has died.
        silent = [
            _silent(job)
            for job in self._jobs()
            if job.id not in shown and job.status and not (job.is_over and archive.find(job.id))
        ]
        stand_ins = [each.served() for each in (*self._dispatcher.stand_ins(), *silent)]
        waiting = [job_views.overview([(job.outline, job.snapshot())])["jobs"][0] for job in stand_ins]
        return merging.merged_lines(asked, waiting, archive.lines())

    def _jobs(self) -> list[JobReport]:
        """What drivers tell of their jobs."""
        reports = [each.report for each in self._dispatcher.managed() if each.report is not None]
        return [job for report in reports for job in report.jobs]

    def _ids(self, call: Call) -> Any:
        return {"jobs": [{"id": line["jid"], "status": line["state"]} for line in self._lines()]}

    def _jobs_overview(self, call: Call) -> Any:
        return {"jobs": self._lines()}

    def _overview(self, call: Call) -> Any:
        executors = len(self._managers.executors())
        dispatcher = self._dispatcher
        return merging.overview(self._lines(), executors, dispatcher.slots, dispatcher.slots_available())

    def _jobs_metrics(self, call: Call) -> Any:
        wanted = call.query.get("jobs")
        paths = [
            (driver, f"{_JOB.format(jobid=job.id)}/metrics")
            for driver in self._drivers.living()
            for job in (() if driver.report is None else driver.report.jobs)
            if job.status and (not wanted or job.id in wanted)
        ]
        sources = all_metrics(self._drivers, paths)
        return aggregated_metrics(sources, call.query.get("get"), call.query.get("agg", ()))

    def _job_log(self, call: Call) -> Path:
        job_id = call.path["jobid"]
        pair = self._dispatcher.find(job_id)
        folder = self._dispatcher.folder.job(job_id) if pair is None else pair[0].folder
        if not folder.log.is_file():
            raise NotFound(f"there is no log of a job {job_id} here")
        return folder.log

    def _job_log_part(self, call: Call) -> RawAnswer:
        part = read_as_one(self._job_log(call), max(0, call.query.get("from", 0)), _MOST_LOG)
        return RawAnswer(200, part, "text/plain; charset=utf-8")

    def _log_url(self, call: Call) -> Any:
        self._job_log(call)
        return {"url": f"{self._address()}{_JOB_LOG.format(**call.path)}"}

    # The service itself ---------------------------------------------------------------------------------------

    def _config(self, call: Call) -> Any:
        config = driver_views.dashboard_config()
        return {**config, "features": {**config["features"], "web-submit": True}}

    def _shut(self, call: Call) -> Any:
        self._shut_down()
        return {}

    # Programs -------------------------------------------------------------------------------------------------

    def _upload(self, call: Call) -> Any:
        if len(call.files) != 1:
            raise Malformed(f"expected one file, in a field 'jarfile', got {len(call.files)}")
        artifact = self._artifacts.add(call.files[0].name, call.files[0].content)
        return {"filename": str(artifact.path), "status": "success"}

    def _jars(self, call: Call) -> Any:
        files = [
            {
                "id": each.id,
                "name": each.name,
                "uploaded": each.uploaded,
                "entry": [{"name": name, "description": None} for name in each.entries],
            }
            for each in self._artifacts.all()
        ]
        return {"address": self._address(), "files": files}

    def _delete_jar(self, call: Call) -> Any:
        self._artifacts.delete(call.path["jarid"])
        return {}

    def _run_jar(self, call: Call) -> Any:
        artifact = self._artifacts.find(call.path["jarid"])
        managed = submit_artifact(self._dispatcher, artifact, artifact_request(call))
        # A program is an application: the submission, whose id its first job has, too. So is Flink's.
        return {"jobid": self._await_job(managed), "applicationId": managed.folder.id}

    def _plan_jar(self, call: Call) -> Any:
        return self._plans.plan(self._artifacts.find(call.path["jarid"]), artifact_request(call))

    def _submit(self, call: Call) -> Any:
        managed = submit_form(self._dispatcher, call)
        return {"jobUrl": f"/jobs/{self._await_job(managed)}"}

    def _await_job(self, managed: Managed) -> str:
        """Wait until the program has submitted its job, or has failed before."""
        managed.known.wait(_KNOWN_SECONDS)
        end = managed.folder.end()
        jobs = () if managed.report is None else managed.report.jobs
        if end is not None and end.status == "FAILED" and not any(job.status for job in jobs):
            raise Malformed(
                *(end.sentence or f"the program has ended without a job: {end.status}").split("\n")
            )
        return jobs[0].id if jobs else managed.folder.id

    def _own(self) -> tuple[Endpoint, ...]:
        given = {(each.method, each.path): each for each in ENDPOINTS}

        def instead(method: str, path: str, answer: Callable[[Call], Any]) -> Endpoint:
            return replace(given[method, path], answer=answer)

        return (
            instead("GET", "/config", self._config),
            instead("GET", "/overview", self._overview),
            instead("GET", "/jobs", self._ids),
            instead("GET", "/jobs/overview", self._jobs_overview),
            instead("GET", "/jobs/metrics", self._jobs_metrics),
            *self._managers.endpoints(),
            *self._of_programs(),
            *(_refusing(each) for each in MISSING_ENDPOINTS if each.path.startswith("/applications")),
            Endpoint("DELETE", "/cluster", self._shut, "Nothing", "End the service; jobs go on.", errors=()),
            Endpoint(
                "GET",
                _JOB_LOG,
                self._job_log_part,
                None,
                "What the driver of a job has printed and logged, a piece at a time.",
                query=(Parameter("from", WHOLE, "How many bytes to leave out at its beginning."),),
            ),
            Endpoint(
                "GET",
                f"{_JOB}/jobmanager/log-url",
                self._log_url,
                "LogUrl",
                "Where the log of the driver is.",
            ),
        )

    def _of_programs(self) -> tuple[Endpoint, ...]:
        return (
            Endpoint("GET", "/jars", self._jars, "Jars", "Uploaded programs.", errors=()),
            Endpoint(
                "POST",
                "/jars/upload",
                self._upload,
                "JarUpload",
                "Upload a program: .py, .zip or .whl.",
                errors=(400, 413),
                is_upload=True,
            ),
            Endpoint("DELETE", "/jars/{jarid}", self._delete_jar, "Nothing", "Forget a program."),
            Endpoint(
                "POST",
                "/jars/{jarid}/run-application",
                _no_applications,
                "Errors",
                _RUN_IT,
                501,
                errors=(400,),
            ),
            *self._of_runs(),
        )

    def _of_runs(self) -> tuple[Endpoint, ...]:
        plan = ("JobPlan", "The dataflow of a program, which is not run.")
        return (
            Endpoint(
                "POST",
                "/jars/{jarid}/run",
                self._run_jar,
                "JarRun",
                "Run a program.",
                query=(*_JAR_QUERY, *_JAR_STATE),
                body="JarRunRequest",
                errors=(400, 404, 409),
            ),
            # It runs the program.
            Endpoint(
                "GET", "/jars/{jarid}/plan", self._plan_jar, *plan, query=_JAR_QUERY, is_for_operators=True
            ),
            Endpoint(
                "POST", "/jars/{jarid}/plan", self._plan_jar, *plan, query=_JAR_QUERY, body="JarPlanRequest"
            ),
            Endpoint(
                "POST",
                "/jobs",
                self._submit,
                "Submitted",
                "Run a program that comes with its files: a form with a field 'request' and the files that it names.",
                status=202,
                errors=(400, 409, 413),
                is_upload=True,
            ),
        )


def _no_applications(call: Call) -> Any:
    raise NotThere(_RUN_IT)


def _refusing(endpoint: Endpoint) -> Endpoint:
    def refuse(call: Call) -> Any:
        raise NotThere(_ONLY_JOBS)

    return replace(endpoint, answer=refuse, summary=_ONLY_JOBS)


def _silent(job: JobReport) -> StandIn:
    status = JobStatus[job.status] if job.is_over else JobStatus.RESTARTING
    return StandIn(job.id, job.name, status, job.asked, job.ended, "its driver has died", job.mode, job.slots)


_JOB_LOG = f"{_JOB}/jobmanager/log"
_MOST_LOG = 1 << 22
_RUN_IT = "POST /jars/:jarid/run runs a program; here every one is an application with a process of its own"
_ONLY_JOBS = (
    "the service runs each program as an application of its own, with the id of its first job, and shows it by its jobs: GET /jobs "
    "lists them, PATCH /jobs/:jobid cancels one"
)
_JAR_QUERY = (
    Parameter("entry-class", TEXT, "The module that is run."),
    Parameter("parallelism", WHOLE, "The default parallelism."),
    Parameter("programArg", TEXT, "Arguments of the program, between commas.", True),
    Parameter("program-args", TEXT, "Arguments of the program, as on a command line."),
)
_JAR_STATE = (
    Parameter("savepointPath", TEXT, "The savepoint that the job starts from."),
    Parameter(
        "allowNonRestoredState", choice("true", "false"), "Whether state without an operator is left out."
    ),
)
