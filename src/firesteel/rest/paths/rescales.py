"""Paths about the parallelism of a job: changing it while the job runs, and how that went."""

from __future__ import annotations

from typing import Any

from firesteel.common.completable_future import CompletableFuture
from firesteel.common.errors import RescaleError
from firesteel.compiler.program_plans import Bounds
from firesteel.rest.endpoints import Call, Endpoint, Parameter
from firesteel.rest.errors import Conflict, Malformed, NotFound
from firesteel.rest.paths.lookup import job_in
from firesteel.rest.paths.triggers import operation_status, start_operation
from firesteel.rest.schemas import WHOLE, array, reference
from firesteel.rest.views import rescales as views

__all__ = ["ENDPOINTS"]

_ROOT = "/jobs/{jobid}/rescales"


def _rescale(call: Call) -> Any:
    job = job_in(call)
    parallelism = call.query.get("parallelism")
    if parallelism is None:
        raise Malformed("the parameter 'parallelism' is missing: how many subtasks operators are to have")
    if parallelism < 1:
        raise Malformed(f"parameter 'parallelism': expected at least 1, got {parallelism}")
    return start_operation(call, "rescale", job, lambda control: control.rescale(parallelism), RescaleError)


def _status(call: Call) -> Any:
    job_in(call)
    return operation_status(call, "rescale", "", "failure-cause")


def _requirements(call: Call) -> Any:
    job = job_in(call)
    return views.resource_requirements(job.outline, job.snapshot())


def _change_requirements(call: Call) -> Any:
    job = job_in(call)
    bounds: dict[str, Bounds] = {}
    for vertex_id, wanted in call.body.items():
        vertex = job.outline.vertex(vertex_id)
        if vertex is None:
            raise Malformed(f"job {call.path['jobid']} has no vertex {vertex_id[:100]!r}")
        asked = Bounds(wanted["parallelism"]["lowerBound"], wanted["parallelism"]["upperBound"])
        if not 1 <= asked.lower <= asked.upper:
            raise Malformed(
                f"vertex {vertex_id}: expected 1 <= lowerBound <= upperBound, got {asked.lower} and {asked.upper}"
            )
        bounds.update({operator.id: asked for operator in vertex.operators})
    control, status = job.control, job.snapshot().status
    if control is None or status.is_terminal_state():
        raise Conflict(f"job {call.path['jobid']} has ended: {status.name}")
    _refuse_at_once(control.change_requirements(bounds))
    return {}


def _refuse_at_once(outcome: CompletableFuture) -> None:
    """What is known to be impossible is an answer to the request; what fails later is in the history."""
    error = outcome.exception() if outcome.done() else None
    if error is not None:
        raise Conflict(str(error))


def _history(call: Call) -> Any:
    return views.rescale_history(job_in(call).snapshot())


def _details(call: Call) -> Any:
    for rescale in job_in(call).snapshot().rescales:
        if rescale.id == call.path["rescaleuuid"]:
            return views.rescale_details(rescale)
    raise NotFound(
        f"job {call.path['jobid']} has no rescale {call.path['rescaleuuid'][:100]!r}, or it is forgotten; "
        f"GET /jobs/{call.path['jobid']}/rescales/history has those that are known"
    )


def _overview(call: Call) -> Any:
    return views.rescale_overview(job_in(call).snapshot())


def _summary(call: Call) -> Any:
    return views.rescale_summary(job_in(call).snapshot())


def _config(call: Call) -> Any:
    return views.rescale_config(job_in(call).outline)


ENDPOINTS = (
    Endpoint(
        "PATCH",
        "/jobs/{jobid}/rescaling",
        _rescale,
        "Trigger",
        "Go on with another default parallelism.",
        query=(
            Parameter(
                "parallelism", WHOLE, "How many subtasks operators without a parallelism of their own get."
            ),
        ),
    ),
    Endpoint(
        "GET",
        "/jobs/{jobid}/rescaling/{triggerid}",
        _status,
        "RescalingStatus",
        "What has become of it.",
    ),
    Endpoint(
        "GET",
        "/jobs/{jobid}/resource-requirements",
        _requirements,
        "ResourceRequirements",
        "How many subtasks each vertex asks for.",
    ),
    Endpoint(
        "PUT",
        "/jobs/{jobid}/resource-requirements",
        _change_requirements,
        "Nothing",
        "Ask for other numbers of subtasks.",
        body="ResourceRequirements",
        errors=(400, 404, 409),
    ),
    Endpoint("GET", f"{_ROOT}/config", _config, "RescaleConfig", "The times of the adaptive scheduler."),
    Endpoint(
        "GET",
        f"{_ROOT}/history",
        _history,
        array(reference("Rescale")),
        "The changes of the parallelism, the newest first.",
    ),
    Endpoint(
        "GET", f"{_ROOT}/overview", _overview, "RescalesOverview", "How many there were, and the newest."
    ),
    Endpoint("GET", f"{_ROOT}/summary", _summary, "RescalesSummary", "How long they took."),
    Endpoint(
        "GET", f"{_ROOT}/details/{{rescaleuuid}}", _details, "Rescale", "One change of the parallelism."
    ),
)
