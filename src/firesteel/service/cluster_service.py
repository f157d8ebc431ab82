"""The service as a whole: leads its folder, or stands by until it does; then dispatches and answers until it is told to end."""

from __future__ import annotations

import hashlib
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

from firesteel.common import options
from firesteel.common.configuration import Configuration
from firesteel.common.errors import SetupError
from firesteel.common.job_id import JobID
from firesteel.common.time import to_millis
from firesteel.jobmaster.leaders.leadership import Leadership, await_leadership
from firesteel.jobmaster.leaders.settings import HighAvailability
from firesteel.rest.endpoints import Context
from firesteel.rest.operations import Operations
from firesteel.rest.served_jobs import ServedJobs
from firesteel.rest.service import RestService
from firesteel.service.archives import ArchivedJobs
from firesteel.service.artifacts import Artifacts
from firesteel.service.dispatcher import Dispatcher
from firesteel.service.drivers import Drivers
from firesteel.service.folder import ServiceFolder, write_json
from firesteel.service.paths import ServicePaths
from firesteel.service.plans import PlanMaker
from firesteel.service.processes import end_driver, is_alive, this_machine
from firesteel.service.settings import ServiceSettings

__all__ = ["ClusterService", "end_all_drivers"]

_LOG = logging.getLogger(__name__)

#: How long drivers may take to end when they are told to, before they are ended.
_GRACE_SECONDS = 20.0
#: How long those may take whose jobs are over, before they count as drivers that do not want to end.
_MOMENT_SECONDS = 5.0


class ClusterService:
    """One service. `run` it in the main thread; `stop` it from anywhere."""

    def __init__(self, settings: ServiceSettings, configuration: Configuration) -> None:
        self._settings = settings
        self._configuration = configuration
        self._folder = ServiceFolder(settings.folder)
        self._stopping = threading.Event()
        self._error: BaseException | None = None
        self._led = _Led(self._lost)

    def stop(self) -> None:
        """Let `run` return; jobs go on."""
        self._stopping.set()

    def run(self, on_ready: Callable[[str], None] = lambda url: None) -> None:
        """Serve until `stop`; ``on_ready`` is told the address. Raises what keeps it from serving."""
        self._folder.prepare()
        try:
            leadership = self._lead() if self._settings.has_standby else None
        except _StoppedError:
            return
        lock = self._folder.lock()
        try:
            if lock is None:
                raise SetupError(_taken(self._folder))
            self._serve(on_ready)
        finally:
            if lock is not None:
                os.close(lock)
            if leadership is not None:
                self._led.end()
                leadership.release()  # another one may lead at once
        if self._error is not None:
            raise self._error

    def _lead(self) -> Leadership:
        """Wait until this service leads."""
        configuration = self._configuration
        cluster_id = str(self._settings.folder)
        settings = HighAvailability(
            JobID(hashlib.md5(cluster_id.encode(), usedforsecurity=False).hexdigest()),
            str(self._settings.folder / "leaders"),
            configuration.get(options.HIGH_AVAILABILITY_LEASE_TIMEOUT).to_millis() / 1000,
            configuration.get(options.STORAGE_PATIENCE).to_millis() / 1000,
        )
        leadership = await_leadership(
            settings, "cluster service", lambda text: _LOG.warning("%s", text), pause=self._pause
        )
        leadership.bind(self._led, 0)
        return leadership

    def _pause(self, seconds: float) -> None:
        if self._stopping.wait(seconds):
            raise _StoppedError

    def _lost(self, error: BaseException) -> None:
        self._error = error
        self._stopping.set()

    def _serve(self, on_ready: Callable[[str], None]) -> None:
        settings, folder = self._settings, self._folder
        write_json(
            folder.path / "defaults.json", {**settings.defaults, options.ARCHIVE_DIR.key: settings.archive}
        )
        drivers = Drivers(folder.work, folder.path / "spares", settings.spare_drivers)
        archive = ArchivedJobs(settings.archive)
        dispatcher = Dispatcher(folder, drivers, archive, settings.slots, settings.kept_jobs)
        rest: RestService
        paths = ServicePaths(
            dispatcher,
            Artifacts(folder.jars),
            PlanMaker(folder.path),
            _shown(self._configuration),
            lambda: rest.url,
            self.stop,
        )
        context = Context(ServedJobs(), Operations())

        def app() -> object:
            from firesteel.rest.app import make_app

            return make_app(context, settings.rest, paths.endpoints())

        rest = RestService(settings.rest, app)
        try:
            dispatcher.start()
            folder.write_service(_about(rest.url))
            _LOG.info(
                "the cluster service is at %s, with %d slots, in %s", rest.url, settings.slots, folder.path
            )
            on_ready(rest.url)
            self._stopping.wait()
        finally:
            folder.write_service(None)
            rest.close(linger_seconds=0)
            paths.close()
            dispatcher.close()
        if self._error is None:
            _LOG.info("the cluster service has ended; jobs go on")


class _StoppedError(Exception):
    """It was told to end while it stood by."""


class _Led:
    """What the lease is held for."""

    def __init__(self, on_lost: Callable[[BaseException], None]) -> None:
        self.result: Future[Any] = Future()
        self._on_lost = on_lost

    def fail(self, error: BaseException) -> None:
        """Another service leads by now."""
        self.result.set_exception(error)
        self._on_lost(error)

    def end(self) -> None:
        """It is not held any more."""
        if not self.result.done():
            self.result.set_result(None)


def end_all_drivers(folder: ServiceFolder) -> int:
    """End the drivers of a folder whose service has ended; a service that is started there later resumes their jobs.

    Returns how many were ended. Those whose jobs are over are about to end by themselves, and have not said how yet: they get a moment.
    """
    reports = [job.report() for job in folder.all_jobs() if job.end() is None]
    alive = [report for report in reports if report is not None and is_alive(report.process)]
    ending = [each.process for each in alive if each.jobs and all(job.is_over for job in each.jobs)]
    deadline = time.monotonic() + _MOMENT_SECONDS
    while any(map(is_alive, ending)) and time.monotonic() < deadline:
        time.sleep(0.05)
    marks = [each.process for each in alive if is_alive(each.process)]
    for mark in marks:
        # By force: a driver that is told to end cancels its jobs, and these are to go on another day.
        end_driver(mark, by_force=True)
    deadline = time.monotonic() + _GRACE_SECONDS
    while any(map(is_alive, marks)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return len(marks)


def _about(url: str) -> dict[str, object]:
    return {"url": url, "pid": os.getpid(), "machine": this_machine(), "started": to_millis(time.time())}


def _taken(folder: ServiceFolder) -> str:
    service = folder.service() or {}
    where = service.get("url", "an address that is not known yet")
    return (
        f"a service works in {folder.path} already, at {where}; 'firesteel cluster stop' ends it, and another one needs a "
        f"folder of its own: '{options.CLUSTER_DIR.key}'"
    )


def _shown(configuration: Configuration) -> Mapping[str, str]:
    return configuration.to_dict()
