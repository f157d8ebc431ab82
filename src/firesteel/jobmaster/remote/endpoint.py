"""The driver's side of ``firesteel list``, ``cancel``, ``savepoint`` and ``stop``: answers questions about one job.

A connection carries one request and one answer, both JSON, after both sides have proved that they know the secret of
the registry's file (the connection is like those of the control plane). It listens on the loopback interface only.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import time
from collections.abc import Callable
from typing import Any

from firesteel.common.job_client import JobClient
from firesteel.common.time import to_millis
from firesteel.control.acceptor import Acceptor, listen
from firesteel.control.channel import Channel
from firesteel.jobmaster.remote.registry import RegistryEntry, register, unregister
from firesteel.jobmaster.task_states import TaskStatus
from firesteel.jobmaster.terminal.progress_lines import metric_text, totals_to_show
from firesteel.plan.executor import LOOPBACK

__all__ = ["JobEndpoint"]

_LOG = logging.getLogger(__name__)


class JobEndpoint:
    """Listens for requests about one job; registered from the beginning until `withdraw` or `close`."""

    def __init__(self, client: JobClient, name: str) -> None:
        self._client = client
        #: What somebody has asked of the job that ends it, in words.
        self.wish = ""
        self._acceptor = Acceptor(listen(LOOPBACK), self._converse, "firesteel-job-answer")
        self.entry = RegistryEntry(
            str(client.get_job_id()),
            name,
            os.getpid(),
            socket.gethostname(),
            self._acceptor.port,
            self._acceptor.secret.hex(),
            to_millis(time.time()),
            getattr(client, "rest_url", ""),
        )
        try:
            register(self.entry)
        except BaseException:
            self._acceptor.close()
            raise

    def withdraw(self) -> None:
        """The job is over: nobody shall find it any more. Who has asked still gets an answer."""
        with contextlib.suppress(OSError):
            unregister(self.entry)

    def close(self, linger_seconds: float = 2.0) -> None:
        """Answer no new requests; give those that wait for an answer ``linger_seconds`` to get it."""
        self.withdraw()
        self._acceptor.close(linger_seconds)

    def _converse(self, channel: Channel, request: bytes) -> None:
        with contextlib.suppress(OSError):  # whoever asked may not want to know any more
            channel.send(json.dumps(self._answer(json.loads(request))).encode())

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            return {"result": self._actions()[request["do"]](request)}
        except Exception as error:  # noqa: BLE001 - whatever it is, the one who asked shall know
            _LOG.debug("request %s about job %s failed", request, self.entry.job_id, exc_info=True)
            return {"error": str(error) or type(error).__name__}

    def _actions(self) -> dict[str, Callable[[dict[str, Any]], Any]]:
        return {
            "status": lambda _: self._status(),
            "tasks": lambda _: self._tasks(),
            "cancel": lambda _: self._cancel(),
            "savepoint": lambda request: self._client.trigger_savepoint(request["directory"]).result(),
            "metrics": lambda _: self._metrics(),
            "stop": lambda request: self._stop(request["drain"], request["directory"]),
        }

    def _status(self) -> str:
        return str(self._client.get_job_status().result().name)

    def _tasks(self) -> list[list[str]]:
        statuses: list[TaskStatus] = getattr(self._client, "task_statuses", list)()
        return [[each.name, each.state.name, each.where] for each in statuses]

    def _metrics(self) -> list[list[str]]:
        totals = totals_to_show(self._client.metrics())
        return [[each.operator, each.full_name, metric_text(each.value, exact=True)] for each in totals]

    def _stop(self, drain: bool, directory: str | None) -> str:
        self.wish = "stopped with a savepoint"
        try:
            return str(self._client.stop_with_savepoint(drain, directory).result())
        except BaseException:
            self.wish = ""  # the job continues
            raise

    def _cancel(self) -> str:
        self.wish = "by 'firesteel cancel'"
        self._client.cancel().result()
        return self._status()
