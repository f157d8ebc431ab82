"""Paths about the driver and the hosts that its tasks run on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from firesteel.rest.access import Role
from firesteel.rest.endpoints import AGGREGATION, GET_METRICS, Call, Endpoint, Parameter
from firesteel.rest.errors import NotFound
from firesteel.rest.paths.found import all_jobs
from firesteel.rest.schemas import TEXT, array, reference
from firesteel.rest.views import driver as views
from firesteel.rest.views.metrics import aggregated_metrics, metrics

__all__ = ["ENDPOINTS"]

_NO_FILE = (
    "this driver writes to no file that it knows of; 'firesteel run --log-file' names one, and what a driver prints is where it "
    "was started"
)


def _config(call: Call) -> Any:
    return views.dashboard_config(call.role is Role.OPERATOR)


def _overview(call: Call) -> Any:
    return views.cluster_overview(all_jobs(call))


def _options(call: Call) -> Any:
    jobs = call.context.jobs.all()
    return views.configuration_entries(jobs[-1].outline.options if jobs else {})


def _environment(call: Call) -> Any:
    return views.environment()


def _thread_dump(call: Call) -> Any:
    return views.thread_dump()


def _metrics(call: Call) -> Any:
    jobs = call.context.jobs.all()
    known = views.driver_metrics(all_jobs(call))
    for job in jobs:
        known |= job.metrics().job_manager()
    return metrics(known, call.query.get("get"))


def _logs(call: Call) -> Any:
    return views.log_list(views.log_files())


def _log(call: Call) -> Path:
    files = views.log_files()
    if not files:
        raise NotFound(_NO_FILE)
    return files[0]


def _named_log(call: Call) -> Path:
    # Only a name of the list: never a path that a client makes up.
    found = [file for file in views.log_files() if file.name == call.path["logname"]]
    if not found:
        raise NotFound(
            f"there is no log file {call.path['logname'][:100]!r}; GET /jobmanager/logs lists them"
        )
    return found[0]


def _stdout(call: Call) -> Path:
    file = views.standard_output(1)
    if file is None:
        raise NotFound(_NO_FILE)
    return file


def _task_managers(call: Call) -> Any:
    return views.task_managers(snapshot for _, snapshot in all_jobs(call))


def _host(call: Call) -> list[Any]:
    name = call.path["taskmanagerid"]
    tasks = views.hosts(snapshot for _, snapshot in all_jobs(call)).get(name)
    if tasks is None:
        raise NotFound(f"no task runs on a host {name[:100]!r} now; GET /taskmanagers lists the hosts")
    return tasks


def _task_manager(call: Call) -> Any:
    return views.task_manager(call.path["taskmanagerid"], _host(call))


def _task_manager_metrics(call: Call) -> Any:
    return metrics(_of_host(_host(call)), call.query.get("get"))


def _all_task_manager_metrics(call: Call) -> Any:
    found = views.hosts(snapshot for _, snapshot in all_jobs(call))
    wanted = call.query.get("taskmanagers") or list(found)
    sources = [_of_host(tasks) for name, tasks in found.items() if name in wanted]
    return aggregated_metrics(sources, call.query.get("get"), call.query.get("agg", ()))


def _of_host(tasks: list[Any]) -> dict[str, Any]:
    return {"Status.Flink.Tasks": len(tasks), "Status.Flink.Jobs": len({job_id for job_id, _ in tasks})}


def _task_manager_logs(call: Call) -> Any:
    _host(call)
    return {"logs": []}


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
    Endpoint("GET", "/jobmanager/logs/{logname}", _named_log, None, "A log file."),
    Endpoint("GET", "/jobmanager/log", _log, None, "The log of the driver.", errors=(404,)),
    Endpoint("GET", "/jobmanager/stdout", _stdout, None, "What the driver has printed.", errors=(404,)),
    Endpoint("GET", "/taskmanagers", _task_managers, "TaskManagers", "Hosts with tasks.", errors=()),
    Endpoint(
        "GET",
        "/taskmanagers/metrics",
        _all_task_manager_metrics,
        "AggregatedMetrics",
        "Figures over the metrics of hosts.",
        query=(GET_METRICS, AGGREGATION, Parameter("taskmanagers", TEXT, "Which hosts.", True)),
    ),
    Endpoint("GET", "/taskmanagers/{taskmanagerid}", _task_manager, "TaskManager", "One host."),
    Endpoint(
        "GET",
        "/taskmanagers/{taskmanagerid}/metrics",
        _task_manager_metrics,
        "Metrics",
        "Metrics of a host.",
        query=(GET_METRICS,),
    ),
    Endpoint(
        "GET",
        "/taskmanagers/{taskmanagerid}/logs",
        _task_manager_logs,
        "LogList",
        "Log files of tasks: none, for what tasks log comes out of the driver.",
    ),
)
