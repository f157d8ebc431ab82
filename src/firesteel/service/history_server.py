"""Flink's history server: jobs that have ended, read from an archive, at the same paths and pages; nothing can be changed there."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from firesteel.checkpoint.storage import absolute, shown
from firesteel.common import options
from firesteel.common.configuration import Configuration
from firesteel.common.errors import FiresteelError, InvalidOptionError
from firesteel.rest.endpoints import Call, Context, Endpoint
from firesteel.rest.errors import NotFound, NotThere
from firesteel.rest.paths import ENDPOINTS
from firesteel.rest.served_jobs import ServedJobs
from firesteel.rest.service import RestService
from firesteel.rest.settings import RestSettings, read_rest_settings
from firesteel.rest.views import driver as driver_views
from firesteel.service import merging
from firesteel.service.archives import ArchivedJobs

__all__ = ["HistoryServer", "read_history_settings"]

_LOG = logging.getLogger(__name__)

_JOB = "/jobs/{jobid}"
_READ_ONLY = "the history server shows jobs that have ended, and changes nothing"
_NOT_KEPT = "the history server knows jobs that have ended, and no drivers, hosts or programs"
#: Paths that mean the same everywhere.
_GENERAL = ("/jobmanager/environment", "/jobmanager/thread-dump")


def read_history_settings(configuration: Configuration) -> tuple[RestSettings, str, float]:
    """Where to listen, what to read, and how often to look, in seconds."""
    directory = configuration.get(options.HISTORY_DIR) or configuration.get(options.ARCHIVE_DIR)
    if not directory:
        raise InvalidOptionError(
            f"option '{options.HISTORY_DIR.key}': the history server wants to know which archive it reads; jobs write it to "
            f"'{options.ARCHIVE_DIR.key}'"
        )
    if "," in directory:
        raise InvalidOptionError(
            f"option '{options.HISTORY_DIR.key}': expected one directory, got {directory!r}"
        )
    listening = Configuration(configuration)
    listening.remove_config(options.REST_BIND_PORT.key)
    listening.set_string(options.REST_PORT.key, str(configuration.get(options.HISTORY_PORT)))
    address = configuration.get(options.HISTORY_ADDRESS)
    if address:
        listening.set_string(options.REST_BIND_ADDRESS.key, address)
    settings = read_rest_settings(listening)
    if settings is None:
        raise InvalidOptionError(
            f"option '{options.HISTORY_PORT.key}': expected a port from 0 to 65535, got -1"
        )
    seconds = configuration.get(options.HISTORY_REFRESH).to_millis() / 1000
    return settings, absolute(directory), seconds


class HistoryServer:
    """Serves an archive until `close`."""

    def __init__(self, settings: RestSettings, directory: str, refresh_seconds: float) -> None:
        self._archive = ArchivedJobs(directory)
        self._seconds = refresh_seconds
        self._closed = threading.Event()
        self._look()
        self._thread = threading.Thread(target=self._run, name="firesteel-history", daemon=True)
        self._thread.start()
        self._rest = RestService(settings, lambda: self._app(settings))

    @property
    def url(self) -> str:
        """The address for clients."""
        return self._rest.url

    def close(self) -> None:
        """Answer no more, and look for no more jobs."""
        self._closed.set()
        self._rest.close(linger_seconds=0)

    def _run(self) -> None:
        while not self._closed.wait(self._seconds):
            self._look()

    def _look(self) -> None:
        try:
            self._archive.refresh()
        except FiresteelError as error:  # storage may come back
            _LOG.warning("the archive in %s cannot be read: %s", shown(self._archive.directory), error)

    def _app(self, settings: RestSettings) -> Any:
        from firesteel.rest.app import make_app

        return make_app(Context(ServedJobs()), settings, self.endpoints())

    def endpoints(self) -> tuple[Endpoint, ...]:
        """The table of a driver, with jobs of the archive."""
        own: dict[str, Callable[[Call], Any]] = {
            "/config": self._config,
            "/overview": lambda call: merging.overview(self._archive.lines(), 0, 0, 0),
            "/jobs": self._ids,
            "/jobs/overview": lambda call: {"jobs": self._archive.lines()},
        }
        return tuple(self._instead(each, own) for each in ENDPOINTS)

    def _instead(self, endpoint: Endpoint, own: dict[str, Callable[[Call], Any]]) -> Endpoint:
        if endpoint.method == "GET" and endpoint.path in own:
            return replace(endpoint, answer=own[endpoint.path])
        if endpoint.status in (404, 501) or endpoint.path in _GENERAL:
            return endpoint
        if endpoint.method != "GET":
            return _refusing(endpoint, _READ_ONLY)
        if endpoint.path.startswith(_JOB):
            return replace(endpoint, answer=lambda call: self._job(endpoint, call))
        return _refusing(endpoint, _NOT_KEPT)

    def _config(self, call: Call) -> Any:
        config = driver_views.dashboard_config()
        features = {"web-submit": False, "web-cancel": False, "web-rescale": False, "web-history": True}
        return {**config, "features": features}

    def _ids(self, call: Call) -> Any:
        return {"jobs": [{"id": line["jid"], "status": line["state"]} for line in self._archive.lines()]}

    def _job(self, endpoint: Endpoint, call: Call) -> Any:
        job_id = call.path["jobid"]
        job = self._archive.find(job_id)
        if job is None:
            raise NotFound(f"there is no job {job_id} in the archive; GET /jobs lists those that there are")
        answer = job.answer(endpoint.path.format(**call.path), call.query)
        if answer is None:
            raise NotFound(f"the archive of job {job_id} does not have that")
        return answer


def _refusing(endpoint: Endpoint, reason: str) -> Endpoint:
    def refuse(call: Call) -> Any:
        raise NotThere(reason)

    return replace(
        endpoint,
        answer=refuse,
        shape="Errors",
        summary=reason,
        status=501,
        body=None,
        query=(),
        errors=(400,),
    )
