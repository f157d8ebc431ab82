"""Paths that Flink has and this service has not: each answers with a sentence that says why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from firesteel.rest.endpoints import Call, Endpoint
from firesteel.rest.errors import NotFound, NotThere

__all__ = ["ENDPOINTS", "MISSING"]

_ARTIFACTS = "a driver runs one program and takes no others; start it with 'firesteel run'"
_DATASETS = "there are no cached data sets: results of one job that another reads are written by a sink"
_APPLICATIONS = "a driver runs one program, whose jobs GET /jobs lists"
_LOG_URL = "logs are here, and nowhere else: GET /jobmanager/logs and GET /taskmanagers/:taskmanagerid/logs"
_CLUSTER = "a driver ends when its program does; PATCH /jobs/:jobid cancels a job"
_PROFILER = (
    "there is no profiler of a JVM: GET /jobs/:jobid/vertices/:vertexid/flamegraph says where tasks spend their time, and GET "
    "/jobmanager/thread-dump what threads do"
)
_HEARTBEAT = "a job does not depend on signs of life of the client that has submitted it"

#: Method, path, status code and reason.
MISSING: tuple[tuple[str, str, int, str], ...] = (
    ("GET", "/jars", 501, _ARTIFACTS),
    ("POST", "/jars/upload", 501, _ARTIFACTS),
    ("DELETE", "/jars/{jarid}", 501, _ARTIFACTS),
    ("POST", "/jars/{jarid}/plan", 501, _ARTIFACTS),
    ("POST", "/jars/{jarid}/run", 501, _ARTIFACTS),
    ("POST", "/jars/{jarid}/run-application", 501, _ARTIFACTS),
    ("PATCH", "/jobs/{jobid}/clientHeartbeat", 501, _HEARTBEAT),
    ("DELETE", "/cluster", 501, _CLUSTER),
    ("GET", "/applications/overview", 501, _APPLICATIONS),
    ("GET", "/applications/{applicationid}", 501, _APPLICATIONS),
    ("POST", "/applications/{applicationid}/cancel", 501, _APPLICATIONS),
    ("GET", "/applications/{applicationid}/exceptions", 501, _APPLICATIONS),
    ("GET", "/applications/{applicationid}/jobmanager/config", 501, _APPLICATIONS),
    ("GET", "/jobmanager/profiler", 501, _PROFILER),
    ("POST", "/jobmanager/profiler", 501, _PROFILER),
    ("GET", "/jobmanager/profiler/{filename}", 501, _PROFILER),
    ("GET", "/taskmanagers/{taskmanagerid}/profiler", 501, _PROFILER),
    ("POST", "/taskmanagers/{taskmanagerid}/profiler", 501, _PROFILER),
    ("GET", "/taskmanagers/{taskmanagerid}/profiler/{filename}", 501, _PROFILER),
    ("GET", "/jobs/{jobid}/jobmanager/log-url", 404, _LOG_URL),
    ("GET", "/jobs/{jobid}/taskmanagers/{taskmanagerid}/log-url", 404, _LOG_URL),
    ("GET", "/datasets", 404, _DATASETS),
    ("GET", "/datasets/delete/{triggerid}", 404, _DATASETS),
    ("DELETE", "/datasets/{datasetid}", 404, _DATASETS),
)


def _refusing(status: int, reason: str) -> Callable[[Call], Any]:
    def refuse(call: Call) -> Any:
        raise NotThere(reason) if status == 501 else NotFound(reason)

    return refuse


ENDPOINTS = tuple(
    Endpoint(method, path, _refusing(status, reason), "Errors", reason, status, errors=(400,))
    for method, path, status, reason in MISSING
)
