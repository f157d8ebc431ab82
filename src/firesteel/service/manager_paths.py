"""Paths about processes: executors, which drivers tell of; and the service with its drivers, which are Flink's job manager."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from firesteel.common._redaction import redacted
from firesteel.common._thread_stacks import dump_threads
from firesteel.jobmaster.job_metrics import DriverProcess, process_metrics
from firesteel.logs.outputs import rolled_files
from firesteel.rest.endpoints import Call, Endpoint
from firesteel.rest.errors import NotFound
from firesteel.rest.log_texts import LogText
from firesteel.rest.paths import ENDPOINTS
from firesteel.rest.paths.log_levels import change_level, shown_levels
from firesteel.rest.paths.missing import ENDPOINTS as MISSING_ENDPOINTS
from firesteel.rest.views import driver as views
from firesteel.rest.views.metrics import aggregated_metrics, metrics
from firesteel.service.all_drivers import AllDrivers, Asked
from firesteel.service.dispatcher import Dispatcher, Managed

__all__ = ["ManagerPaths", "all_metrics", "executor_owner"]

_EXECUTOR = "/taskmanagers/{taskmanagerid}"
_LEVELS = "/log-levels"
#: How much of a submission's id names its executors.
_OWNER_DIGITS = 8


def executor_owner(submission: str) -> str:
    """What names of a driver's executors end with, behind an @."""
    return submission[:_OWNER_DIGITS]


class ManagerPaths:
    """What a service answers about processes. ``options`` are its own."""

    def __init__(self, dispatcher: Dispatcher, drivers: AllDrivers, options: Mapping[str, str]) -> None:
        self._dispatcher = dispatcher
        self._drivers = drivers
        self._options = options
        self._process = DriverProcess()

    def endpoints(self) -> tuple[Endpoint, ...]:
        """The rows of the table; what is asked of one executor is answered by its driver."""
        own: dict[tuple[str, str], Callable[[Call], Any]] = {
            ("GET", "/jobmanager/config"): self._configuration,
            ("GET", "/jobmanager/metrics"): self._metrics,
            ("GET", "/jobmanager/thread-dump"): self._thread_dump,
            ("GET", "/jobmanager/logs"): self._logs,
            ("GET", "/jobmanager/logs/{logname}"): self._named_log,
            ("GET", "/log-levels"): self._levels,
            ("PUT", "/log-levels"): self._change_level,
            ("GET", "/taskmanagers"): self._executors,
            ("GET", "/taskmanagers/metrics"): self._executors_metrics,
        }
        return tuple(
            replace(each, answer=own.get((each.method, each.path), self._of_executor))
            for each in ENDPOINTS
            if (each.method, each.path) in own
            or (each.path.startswith(_EXECUTOR) and each not in MISSING_ENDPOINTS)
        )

    # Executors.

    def executors(self) -> list[dict[str, Any]]:
        """Those of all drivers: no two share one."""
        answers = self._drivers.ask("/taskmanagers")
        return [each for asked in answers for each in asked.answer["taskmanagers"]]

    def _executors(self, call: Call) -> Any:
        answers = [asked.answer for asked in self._drivers.ask("/taskmanagers")]
        return {
            name: [each for answer in answers for each in answer[name]] for name in ("taskmanagers", "lost")
        }

    def _of_executor(self, call: Call) -> Any:
        name = call.path["taskmanagerid"]
        driver = self._driver_of(name)
        answer = None if driver is None else self._drivers.pass_on(driver, call.sent)
        if answer is None:
            raise NotFound(
                f"there is no executor {name[:100]!r} now; GET /taskmanagers lists those that are, with the drivers that have them"
            )
        return answer

    def _driver_of(self, executor: str) -> Managed | None:
        owner = executor.rpartition("@")[2]
        drivers = (each for each in self._drivers.living() if executor_owner(each.folder.id) == owner)
        return next(drivers, None)

    def _executors_metrics(self, call: Call) -> Any:
        wanted = call.query.get("taskmanagers")
        names = [each["id"] for each in self.executors() if not wanted or each["id"] in wanted]
        owned = [(driver, name) for name in names if (driver := self._driver_of(name)) is not None]
        paths = [(driver, f"/taskmanagers/{quote(name, safe='')}/metrics") for driver, name in owned]
        sources = all_metrics(self._drivers, paths)
        return aggregated_metrics(sources, call.query.get("get"), call.query.get("agg", ()))

    # The service and its drivers.

    def _configuration(self, call: Call) -> Any:
        return views.configuration_entries(redacted(self._options))

    def _metrics(self, call: Call) -> Any:
        dispatcher = self._dispatcher
        known = {
            **process_metrics(self._process.read()),
            "numRunningJobs": len(dispatcher.managed()),
            "numRegisteredTaskManagers": len(self.executors()),
            "taskSlotsTotal": dispatcher.slots,
            "taskSlotsAvailable": dispatcher.slots_available(),
        }
        return metrics(known, call.query.get("get"))

    def _thread_dump(self, call: Call) -> Any:
        stacks = [(f"service: {name}", text) for name, text in dump_threads()]
        for asked in self._drivers.ask("/jobmanager/thread-dump"):
            threads = asked.answer["threadInfos"]
            stacks += [
                (f"{asked.name}: {each['threadName']}", each["stringifiedThreadInfo"]) for each in threads
            ]
        return views.thread_dump(stacks)

    def _logs(self, call: Call) -> Any:
        """The files of the service, what each driver has printed, and the files of drivers that log to some."""
        files = list(views.log_list(views.log_files())["logs"])
        for name, file in self._printed().items():
            files += [{**entry, "name": name} for entry in views.log_list([file])["logs"]]
        for asked in self._drivers.ask("/jobmanager/logs"):
            logs = asked.answer["logs"]
            printed = {file.name for file in rolled_files(asked.driver.folder.log)}
            files += [file for file in logs if file["name"] not in printed]
        return {"logs": files}

    def _named_log(self, call: Call) -> Any:
        name, tail = call.path["logname"], call.query.get("tail")
        files: dict[str, Path] = {file.name: file for file in views.log_files()}
        files |= self._printed()
        if name in files:
            return LogText(files[name], tail=tail)
        for asked in self._drivers.ask("/jobmanager/logs"):
            if name in [file["name"] for file in asked.answer["logs"]]:
                answer = self._drivers.pass_on(asked.driver, call.sent)
                if answer is not None:
                    return answer
        raise NotFound(f"there is no log file {name[:100]!r}; GET /jobmanager/logs lists them")

    def _printed(self) -> dict[str, Path]:
        """What drivers have printed and logged, the newest first, under names that say whose it is: `driver-JOBID.log.1`."""
        return {
            file.name.replace(each.folder.log.stem, f"driver-{each.folder.id}", 1): file
            for each in self._dispatcher.managed()
            for file in rolled_files(each.folder.log)
        }

    # Levels of loggers.

    def _levels(self, call: Call) -> Any:
        wanted = call.query.get("jobs")
        if not wanted:
            return shown_levels()
        return _one_list(self._drivers.ask_each([(each, _LEVELS) for each in self._drivers_of(wanted)]))

    def _change_level(self, call: Call) -> Any:
        """In the drivers of some jobs; or in all that run now, and in the service."""
        wanted = call.query.get("jobs")
        if not wanted:
            change_level(call.body)
        chosen = self._drivers_of(wanted) if wanted else self._drivers.living()
        answers = self._drivers.ask_each([(each, _LEVELS) for each in chosen], "PUT", call.sent.body)
        return _one_list(answers) if wanted else shown_levels()

    def _drivers_of(self, jobs: Sequence[str]) -> list[Managed]:
        living = {each.folder.id: each for each in self._drivers.living()}
        by_job = {job: self._dispatcher.find(job) for job in jobs}
        chosen = {job: each[0] for job, each in by_job.items() if each is not None}
        missing = [job for job in jobs if job not in chosen or chosen[job].folder.id not in living]
        if missing:
            raise NotFound(f"no driver runs a job {missing[0]} now; GET /jobs lists the jobs that there are")
        return list({each.folder.id: each for each in chosen.values()}.values())


def _one_list(answers: Sequence[Asked]) -> dict[str, Any]:
    """Loggers of several drivers, each once."""
    by_name = {each["logger"]: each for asked in answers for each in asked.answer["loggers"]}
    return {"loggers": [by_name[name] for name in sorted(by_name)]}


def all_metrics(drivers: AllDrivers, paths: Sequence[tuple[Managed, str]]) -> list[dict[str, Any]]:
    """All metrics at each of these paths, as a driver tells them: names first, then values."""
    named = [
        (driver, f"{path}?{urlencode({'get': ','.join(each['id'] for each in listed.answer)})}")
        for driver, path in paths
        for listed in drivers.ask_each([(driver, path)])
        if listed.answer
    ]
    return [{each["id"]: each["value"] for each in asked.answer} for asked in drivers.ask_each(named)]
