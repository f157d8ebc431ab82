"""Paths about checkpoints and savepoints: what there is, and taking and deleting them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from firesteel.checkpoint.storage import absolute
from firesteel.checkpoint.stored_checkpoint import dispose
from firesteel.common.completable_future import CompletableFuture
from firesteel.common.errors import CheckpointError
from firesteel.common.options import CHECKPOINTING_INCREMENTAL, SAVEPOINT_DIR
from firesteel.rest.endpoints import Call, Endpoint
from firesteel.rest.errors import Malformed, NotThere
from firesteel.rest.paths.lookup import checkpoint_in, job_in, vertex_in
from firesteel.rest.paths.triggers import operation_status, start_operation
from firesteel.rest.served_jobs import JobControl, ServedJob
from firesteel.rest.views import checkpoints as views

__all__ = ["ENDPOINTS"]

_ROOT = "/jobs/{jobid}/checkpoints"


def _all(call: Call) -> Any:
    job = job_in(call)
    return views.checkpoints(job.outline, job.snapshot().statistics.checkpoints)


def _config(call: Call) -> Any:
    job = job_in(call)
    return views.checkpoint_config(job.outline, job.snapshot())


def _details(call: Call) -> Any:
    job = job_in(call)
    return views.checkpoint_details(job.outline, checkpoint_in(call, job.snapshot()))


def _subtasks(call: Call) -> Any:
    job = job_in(call)
    vertex = vertex_in(call, job)
    return views.subtask_details(vertex, checkpoint_in(call, job.snapshot()))


# Taking them.


def _trigger_checkpoint(call: Call) -> Any:
    job = job_in(call)
    kind = call.body.get("checkpointType", "CONFIGURED")
    settings = job.snapshot().checkpoints
    if kind == "INCREMENTAL" and not (settings is not None and settings.incremental):
        raise Malformed(
            "checkpointType INCREMENTAL: checkpoints of the job have all of its state, because "
            f"'{CHECKPOINTING_INCREMENTAL.key}' is not set; ask for CONFIGURED or FULL"
        )
    return _start(call, "checkpoint", job, lambda control: control.checkpoint(kind == "FULL"))


def _trigger_savepoint(call: Call) -> Any:
    job = job_in(call)
    directory = _directory(call, job, "target-directory")
    if call.body.get("cancel-job", False):
        # Nothing may be committed between the savepoint and the end, so this is a stop.
        return _start(call, "savepoint", job, lambda control: control.stop(False, directory))
    return _start(call, "savepoint", job, lambda control: control.savepoint(directory))


def _trigger_stop(call: Call) -> Any:
    job = job_in(call)
    directory, drain = _directory(call, job, "targetDirectory"), call.body.get("drain", False)
    return _start(call, "savepoint", job, lambda control: control.stop(drain, directory))


def _directory(call: Call, job: ServedJob, name: str) -> str | None:
    if call.body.get("formatType", "CANONICAL") != "CANONICAL":
        raise NotThere("formatType NATIVE: savepoints have one format, CANONICAL")
    directory: str | None = call.body.get(name)
    settings = job.snapshot().checkpoints
    if not directory and (settings is None or settings.savepoint_directory is None):
        raise Malformed(
            f"the field {name!r} is needed, because the job has no '{SAVEPOINT_DIR.key}' to write savepoints to"
        )
    return directory or None


def _start(
    call: Call, kind: str, job: ServedJob, begin: Callable[[JobControl], CompletableFuture]
) -> dict[str, Any]:
    return start_operation(call, kind, job, begin, CheckpointError)


# Asking how it went.


def _checkpoint_status(call: Call) -> Any:
    job_in(call)
    return operation_status(call, "checkpoint", "checkpointId", "failureCause")


def _savepoint_status(call: Call) -> Any:
    job_in(call)
    return operation_status(call, "savepoint", "location", "failure-cause")


def _dispose(call: Call) -> Any:
    path = call.body["savepoint-path"]
    if not path:
        raise Malformed("the field 'savepoint-path' is empty")
    trigger_id = call.context.operations.start(("disposal", ""), None, lambda: _disposal(path))
    return {"request-id": trigger_id}


def _disposal(path: str) -> CompletableFuture:
    outcome = CompletableFuture()

    def work() -> None:
        try:
            dispose(absolute(path))
        except Exception as error:  # noqa: BLE001 - whoever asks with the trigger id shall know
            outcome.complete_exceptionally(error)
        else:
            outcome.complete("")

    threading.Thread(target=work, name="firesteel-rest-disposal", daemon=True).start()
    return outcome


def _disposal_status(call: Call) -> Any:
    return operation_status(call, "disposal", "", "failure-cause")


ENDPOINTS = (
    Endpoint("GET", _ROOT, _all, "Checkpoints", "Counts, summary, the newest checkpoints and their history."),
    Endpoint("GET", f"{_ROOT}/config", _config, "CheckpointConfig", "How checkpoints are taken."),
    Endpoint("GET", f"{_ROOT}/details/{{checkpointid}}", _details, "Checkpoint", "One checkpoint."),
    Endpoint(
        "GET",
        f"{_ROOT}/details/{{checkpointid}}/subtasks/{{vertexid}}",
        _subtasks,
        "CheckpointSubtasks",
        "One checkpoint in the subtasks of a vertex.",
    ),
    Endpoint(
        "POST",
        _ROOT,
        _trigger_checkpoint,
        "Trigger",
        "Take a checkpoint before the next one is due.",
        status=202,
        body="CheckpointRequest",
    ),
    Endpoint(
        "GET",
        f"{_ROOT}/{{triggerid}}",
        _checkpoint_status,
        "CheckpointTriggerStatus",
        "What has become of a checkpoint that was asked for.",
    ),
    Endpoint(
        "POST",
        "/jobs/{jobid}/savepoints",
        _trigger_savepoint,
        "Trigger",
        "Take a savepoint; with cancel-job the job ends with it.",
        status=202,
        body="SavepointRequest",
        errors=(400, 404, 501),
    ),
    Endpoint(
        "POST",
        "/jobs/{jobid}/stop",
        _trigger_stop,
        "Trigger",
        "Take a savepoint and end the job with it.",
        status=202,
        body="StopRequest",
        errors=(400, 404, 501),
    ),
    Endpoint(
        "GET",
        "/jobs/{jobid}/savepoints/{triggerid}",
        _savepoint_status,
        "SavepointStatus",
        "What has become of a savepoint or stop.",
    ),
    Endpoint(
        "POST",
        "/savepoint-disposal",
        _dispose,
        "Trigger",
        "Delete a savepoint.",
        body="DisposalRequest",
        errors=(400,),
    ),
    Endpoint(
        "GET",
        "/savepoint-disposal/{triggerid}",
        _disposal_status,
        "DisposalStatus",
        "What has become of the deletion of a savepoint.",
    ),
)
