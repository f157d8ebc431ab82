"""Paths about whole jobs."""

from __future__ import annotations

from typing import Any

from firesteel.common.job_status import JobStatus
from firesteel.rest.endpoints import AGGREGATION, GET_METRICS, Call, Endpoint, Parameter
from firesteel.rest.errors import Conflict, Malformed, RestError
from firesteel.rest.paths.lookup import all_jobs, job_in
from firesteel.rest.schemas import HEX, TEXT, WHOLE, array, choice, reference
from firesteel.rest.views import driver as driver_views
from firesteel.rest.views import exceptions as exception_views
from firesteel.rest.views import hosts as host_views
from firesteel.rest.views import jobs as views
from firesteel.rest.views.metrics import aggregated_metrics, metrics

__all__ = ["ENDPOINTS"]


class _Moved(RestError):
    """Flink had it once, and answers with this code."""

    status = 308


def _ids(call: Call) -> Any:
    return views.ids(snapshot for _, snapshot in all_jobs(call))


def _overview(call: Call) -> Any:
    return views.overview(all_jobs(call))


def _details(call: Call) -> Any:
    job = job_in(call)
    return views.job_details(job.outline, job.snapshot())


def _plan(call: Call) -> Any:
    return views.job_plan(job_in(call).outline, call.path["jobid"])


def _status(call: Call) -> Any:
    return {"status": job_in(call).snapshot().status.name}


def _config(call: Call) -> Any:
    return views.job_config(job_in(call).outline, call.path["jobid"])


def _options(call: Call) -> Any:
    return driver_views.configuration_entries(job_in(call).outline.options)


def _environment(call: Call) -> Any:
    job_in(call)
    return driver_views.environment()


def _result(call: Call) -> Any:
    job = job_in(call)
    return views.execution_result(job.snapshot(), job.accumulators(), job.error())


def _exceptions(call: Call) -> Any:
    labels: dict[str, str] = {}
    for label in call.query.get("failureLabelFilter", ()):
        key, colon, value = label.partition(":")
        if not colon:
            raise Malformed(f"parameter 'failureLabelFilter': expected key:value, got {label[:100]!r}")
        labels[key] = value
    most = call.query.get("maxExceptions", exception_views.SHOWN)
    return exception_views.exceptions(job_in(call).snapshot().failures, most, labels)


def _hosts(call: Call) -> Any:
    return host_views.job_hosts(job_in(call).snapshot())


def _accumulators(call: Call) -> Any:
    return views.accumulators(job_in(call).accumulators())


def _metrics(call: Call) -> Any:
    return metrics(job_in(call).metrics().job(), call.query.get("get"))


def _all_metrics(call: Call) -> Any:
    wanted = call.query.get("jobs")
    jobs = [job for job in call.context.jobs.all() if not wanted or job.snapshot().job_id in wanted]
    sources = [job.metrics().job() for job in jobs]
    return aggregated_metrics(sources, call.query.get("get"), call.query.get("agg", ()))


def _cancel(call: Call) -> Any:
    job = job_in(call)
    if call.query.get("mode", "cancel") == "stop":
        raise _Moved("mode=stop is not there any more; POST /jobs/:jobid/stop ends a job with a savepoint")
    status = job.snapshot().status
    if job.control is not None and not status.is_terminal_state():
        job.control.cancel()
    elif status is not JobStatus.CANCELED:
        raise Conflict(f"job {call.path['jobid']} has ended before: {status.name}")
    return {}


_OPTIONS = array(reference("ConfigurationEntry"))

ENDPOINTS = (
    Endpoint("GET", "/jobs", _ids, "JobIds", "All jobs of this driver.", errors=()),
    Endpoint("GET", "/jobs/overview", _overview, "JobsOverview", "A line for each job.", errors=()),
    Endpoint(
        "GET",
        "/jobs/metrics",
        _all_metrics,
        "AggregatedMetrics",
        "Figures over the metrics of jobs.",
        query=(GET_METRICS, AGGREGATION, Parameter("jobs", HEX, "Which jobs.", True)),
    ),
    Endpoint("GET", "/jobs/{jobid}", _details, "JobDetails", "One job with its vertices and its plan."),
    Endpoint(
        "PATCH",
        "/jobs/{jobid}",
        _cancel,
        "Nothing",
        "End a job now.",
        status=202,
        query=(Parameter("mode", choice("cancel", "stop"), "cancel; stop is not there any more."),),
        errors=(308, 400, 404, 409),
    ),
    Endpoint("GET", "/jobs/{jobid}/plan", _plan, "JobPlan", "The dataflow of a job."),
    Endpoint("GET", "/jobs/{jobid}/status", _status, "JobStatus", "The state of a job."),
    Endpoint("GET", "/jobs/{jobid}/config", _config, "JobConfig", "How a job is executed."),
    Endpoint(
        "GET", "/jobs/{jobid}/jobmanager/config", _options, _OPTIONS, "Options of a job, without secrets."
    ),
    Endpoint("GET", "/jobs/{jobid}/jobmanager/environment", _environment, "Environment", "The interpreter."),
    Endpoint("GET", "/jobs/{jobid}/execution-result", _result, "ExecutionResult", "How a job has ended."),
    Endpoint(
        "GET",
        "/jobs/{jobid}/exceptions",
        _exceptions,
        "Exceptions",
        "What has failed in a job, the newest first.",
        query=(
            Parameter("maxExceptions", WHOLE, "How many at most; 20 unless given."),
            Parameter("failureLabelFilter", TEXT, "Only those with these labels: key:value.", True),
        ),
    ),
    Endpoint(
        "GET",
        "/jobs/{jobid}/hosts",
        _hosts,
        "JobHosts",
        "Where tasks run and have run: signs of life, hosts that were lost and are back, slots that are missing.",
    ),
    Endpoint(
        "GET",
        "/jobs/{jobid}/accumulators",
        _accumulators,
        "JobAccumulators",
        "Results of accumulators so far.",
        query=(
            Parameter("includeSerializedValue", choice("true", "false"), "Without effect: there are none."),
        ),
    ),
    Endpoint("GET", "/jobs/{jobid}/metrics", _metrics, "Metrics", "Metrics of a job.", query=(GET_METRICS,)),
)
