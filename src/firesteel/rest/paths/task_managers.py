"""Paths about executors: their slots, metrics, logs and threads."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from typing import Any

from firesteel.logs.log_book import LOGS
from firesteel.plan.executor import EngineExecutor
from firesteel.plan.messages import ProcessStatistics, TaskId
from firesteel.rest.endpoints import AGGREGATION, GET_METRICS, Call, Endpoint, Parameter
from firesteel.rest.errors import NotFound
from firesteel.rest.log_texts import LogText
from firesteel.rest.paths.lookup import TAIL, all_jobs, named_log
from firesteel.rest.schemas import TEXT
from firesteel.rest.served_jobs import ServedJob
from firesteel.rest.task_managers import TaskManager, lost_executors, task_managers
from firesteel.rest.views import task_managers as views
from firesteel.rest.views.driver import log_list, thread_dump
from firesteel.rest.views.metrics import aggregated_metrics, metrics

__all__ = ["ENDPOINTS", "managers"]

_ROOT = "/taskmanagers/{taskmanagerid}"
_NOTHING = "its tasks have {done} nothing since they started"


def _executors(jobs: Iterable[ServedJob]) -> list[EngineExecutor]:
    """Those of all engines; jobs of one driver share theirs."""
    executors: dict[tuple[str, int], EngineExecutor] = {}
    for job in jobs:
        if (inspector := job.inspector) is not None:
            executors |= {(each.id, each.since_ms): each for each in inspector.executors()}
    return list(executors.values())


def managers(call: Call) -> list[TaskManager]:
    """The executors that are there now."""
    jobs = call.context.jobs.all()
    silences: dict[str, float] = {}
    for job in jobs:
        for process in () if job.inspector is None else job.inspector.processes():
            silences[process.executor_name] = min(
                process.silence, silences.get(process.executor_name, process.silence)
            )
    snapshots = [snapshot for _, snapshot in all_jobs(call)]
    return task_managers(snapshots, _executors(jobs), silences, platform.node())


def _list(call: Call) -> Any:
    return views.list_of_managers(managers(call), lost_executors(_executors(call.context.jobs.all())))


def _manager(call: Call) -> TaskManager:
    name = call.path["taskmanagerid"]
    manager = next((each for each in managers(call) if each.id == name), None)
    if manager is None:
        raise NotFound(views.why_missing(name, lost_executors(_executors(call.context.jobs.all()))))
    return manager


def _details(call: Call) -> Any:
    return views.manager_details(_manager(call))


def _metrics(call: Call) -> Any:
    manager = _manager(call)
    return metrics(views.manager_metrics(manager, _processes(call, manager)), call.query.get("get"))


def _all_metrics(call: Call) -> Any:
    wanted = call.query.get("taskmanagers")
    chosen = [each for each in managers(call) if not wanted or each.id in wanted]
    sources = [views.manager_metrics(each, _processes(call, each)) for each in chosen]
    return aggregated_metrics(sources, call.query.get("get"), call.query.get("agg", ()))


def _processes(call: Call, manager: TaskManager) -> list[ProcessStatistics]:
    reports = {snapshot.job_id: snapshot.reports for _, snapshot in all_jobs(call)}
    task_reports = [
        reports[job_id].get(task.task) for job_id, task in manager.tasks if task.task and job_id in reports
    ]
    return [report.process for report in task_reports if report is not None and report.process is not None]


def _thread_dump(call: Call) -> Any:
    """The threads of its tasks' processes, and those of its JVM."""
    manager = _manager(call)
    threads: list[tuple[str, str]] = []
    for job in call.context.jobs.all():
        if (inspector := job.inspector) is None:
            continue
        job_id = job.snapshot().job_id
        tasks = {
            task.task: task for owner, task in manager.tasks if owner == job_id and task.task is not None
        }
        for task_id, answer in sorted(inspector.threads(list(tasks)).items()):
            threads += [
                (f"{_title(tasks[task_id].name, task_id)}: {name}", text) for name, text in answer.threads
            ]
        if manager.executor is not None and not any(name.startswith("JVM: ") for name, _ in threads):
            threads += [
                (f"JVM: {name}", text) for name, text in inspector.executor_threads(manager.executor.id)
            ]
    return thread_dump(threads)


def _title(name: str, task: TaskId) -> str:
    return name or f"task {task.index} of stage {task.stage}"


# Logs. They are there as long as this process is, also of executors that are lost.


def _known(call: Call) -> str:
    name: str = call.path["taskmanagerid"]
    if name not in LOGS.executors():
        _manager(call)  # or it was never there
    return name


def _logs(call: Call) -> Any:
    name = _known(call)
    return log_list([*LOGS.executor_files(name), *LOGS.executor_files(name, printed=True)])


def _log(call: Call) -> LogText:
    return _text(call, _known(call), printed=False)


def _stdout(call: Call) -> LogText:
    return _text(call, _known(call), printed=True)


def _text(call: Call, name: str, printed: bool) -> LogText:
    files = LOGS.executor_files(name, printed)
    tail = call.query.get("tail")
    return LogText(files[0], tail=tail) if files else LogText(None, LOGS.executor_text(name, printed), tail)


def _named_log(call: Call) -> LogText:
    name = _known(call)
    files = [*LOGS.executor_files(name), *LOGS.executor_files(name, printed=True)]
    return LogText(named_log(call, files, f"/taskmanagers/{name}/logs"), tail=call.query.get("tail"))


ENDPOINTS = (
    Endpoint(
        "GET", "/taskmanagers", _list, "TaskManagers", "Executors, and those that were lost.", errors=()
    ),
    Endpoint(
        "GET",
        "/taskmanagers/metrics",
        _all_metrics,
        "AggregatedMetrics",
        "Figures over the metrics of executors.",
        query=(GET_METRICS, AGGREGATION, Parameter("taskmanagers", TEXT, "Which executors.", True)),
    ),
    Endpoint("GET", _ROOT, _details, "TaskManager", "One executor."),
    Endpoint("GET", f"{_ROOT}/metrics", _metrics, "Metrics", "Metrics of an executor.", query=(GET_METRICS,)),
    Endpoint("GET", f"{_ROOT}/logs", _logs, "LogList", "Files of what its tasks have logged and printed."),
    Endpoint("GET", f"{_ROOT}/logs/{{logname}}", _named_log, None, "One of these files.", query=(TAIL,)),
    Endpoint("GET", f"{_ROOT}/log", _log, None, "What its tasks have logged.", query=(TAIL,)),
    Endpoint("GET", f"{_ROOT}/stdout", _stdout, None, "What its tasks have printed.", query=(TAIL,)),
    Endpoint(
        "GET",
        f"{_ROOT}/thread-dump",
        _thread_dump,
        "ThreadDump",
        "What the threads of its tasks and its JVM do.",
    ),
)
