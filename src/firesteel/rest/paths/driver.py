"""Paths about the driver."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from firesteel.common._thread_stacks import dump_threads
from firesteel.logs.log_book import LOGS
from firesteel.rest.access import Role
from firesteel.rest.endpoints import GET_METRICS, Call, Endpoint
from firesteel.rest.errors import NotFound
from firesteel.rest.log_texts import LogText
from firesteel.rest.paths.lookup import TAIL, all_jobs, named_log
from firesteel.rest.paths.task_managers import managers
from firesteel.rest.schemas import array, reference
from firesteel.rest.views import driver as views
from firesteel.rest.views.metrics import metrics

__all__ = ["ENDPOINTS"]

#: Spark's name for its driver among its processes.
_SPARK_DRIVER = "driver"
_NO_FILE = (
    "this driver writes to no file that it knows of; 'firesteel run --log-file' names one, and what a driver prints is where it "
    "was started"
)


def _config(call: Call) -> Any:
    return views.dashboard_config(call.role is Role.OPERATOR)


def _overview(call: Call) -> Any:
    return views.cluster_overview(all_jobs(call), managers(call))


def _options(call: Call) -> Any:
    jobs = call.context.jobs.all()
    return views.configuration_entries(jobs[-1].outline.options if jobs else {})


def _environment(call: Call) -> Any:
    return views.environment()


def _thread_dump(call: Call) -> Any:
    """The threads of this process, and those of Spark's driver."""
    threads = dump_threads()
    inspectors = [job.inspector for job in call.context.jobs.all() if job.inspector is not None]
    if inspectors:
        threads += [(f"JVM: {name}", text) for name, text in inspectors[-1].executor_threads(_SPARK_DRIVER)]
    return views.thread_dump(threads)


def _metrics(call: Call) -> Any:
    jobs = call.context.jobs.all()
    known = views.driver_metrics(all_jobs(call), managers(call))
    for job in jobs:
        known |= job.metrics().job_manager()
    return metrics(known, call.query.get("get"))


def _files() -> list[Path]:
    return list(dict.fromkeys((*LOGS.driver_files(), *views.log_files())))


def _logs(call: Call) -> Any:
    return views.log_list(_files())


def _log(call: Call) -> LogText:
    files, tail = _files(), call.query.get("tail")
    return LogText(files[0], tail=tail) if files else LogText(None, LOGS.driver_text(), tail)


def _named_log(call: Call) -> LogText:
    return LogText(named_log(call, _files(), "/jobmanager/logs"), tail=call.query.get("tail"))


def _stdout(call: Call) -> LogText:
    file = views.standard_output(1)
    if file is None:
        raise NotFound(_NO_FILE)
    return LogText(file, tail=call.query.get("tail"))


_OPTIONS = array(reference("ConfigurationEntry"))

ENDPOINTS = (
    Endpoint("GET", "/config", _config, "DashboardConfiguration", "What a page needs to know.", errors=()),
    Endpoint("GET", "/overview", _overview, "ClusterOverview", "Slots and jobs in figures.", errors=()),
    Endpoint("GET", "/jobmanager/config", _options, _OPTIONS, "Options, without secrets.", errors=()),
    Endpoint("GET", "/jobmanager/environment", _environment, "Environment", "The interpreter.", errors=()),
    Endpoint("GET", "/jobmanager/thread-dump", _thread_dump, "ThreadDump", "What threads do.", errors=()),
    Endpoint(
        "GET", "/jobmanager/metrics", _metrics, "Metrics", "Metrics of the driver.", query=(GET_METRICS,)
    ),
    Endpoint("GET", "/jobmanager/logs", _logs, "LogList", "Log files of the driver.", errors=()),
    Endpoint("GET", "/jobmanager/logs/{logname}", _named_log, None, "A log file.", query=(TAIL,)),
    Endpoint("GET", "/jobmanager/log", _log, None, "The log of the driver.", query=(TAIL,), errors=(400,)),
    Endpoint("GET", "/jobmanager/stdout", _stdout, None, "What the driver has printed.", query=(TAIL,)),
)
