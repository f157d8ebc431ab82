"""Starting what takes longer than a request, and asking how it went."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from firesteel.common.completable_future import CompletableFuture
from firesteel.common.errors import JobExecutionError
from firesteel.rest.endpoints import Call
from firesteel.rest.errors import NotFound
from firesteel.rest.served_jobs import JobControl, ServedJob
from firesteel.rest.views.jobs import failure_cause

__all__ = ["operation_status", "start_operation"]


def start_operation(
    call: Call,
    kind: str,
    job: ServedJob,
    begin: Callable[[JobControl], CompletableFuture],
    error: type[JobExecutionError],
) -> dict[str, Any]:
    """Tell a job to do something; the answer has the trigger id. ``error``: of a job that is over."""

    def begun() -> CompletableFuture:
        control = job.control
        if control is None:
            status = job.snapshot().status.name
            return CompletableFuture.failed(error(f"no {kind}: the job is over: {status}"))
        try:
            return begin(control)
        except Exception as raised:  # noqa: BLE001 - whoever asks with the trigger id shall know
            return CompletableFuture.failed(raised)

    scope = (kind, call.path["jobid"])
    return {"request-id": call.context.operations.start(scope, call.body.get("triggerId"), begun)}


def operation_status(call: Call, kind: str, result: str, failure: str) -> Any:
    """What has become of it: under ``result`` what it gave, if that has a name, or under ``failure`` why there is nothing."""
    scope = (kind, call.path.get("jobid", ""))
    outcome = call.context.operations.find(scope, call.path["triggerid"])
    if outcome is None:
        raise NotFound(
            f"no {kind} was started with the trigger id {call.path['triggerid']}, or it is forgotten"
        )
    if not outcome.done():
        return {"status": {"id": "IN_PROGRESS"}, "operation": None}
    error = outcome.exception()
    if error is not None:
        return {"status": {"id": "COMPLETED"}, "operation": {failure: failure_cause(error)}}
    return {"status": {"id": "COMPLETED"}, "operation": {result: outcome.result()} if result else {}}
