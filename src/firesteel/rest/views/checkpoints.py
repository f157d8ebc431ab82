"""Checkpoints and savepoints of a job: counts, sizes and times, the newest ones one by one, and how they are configured."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from firesteel.jobmaster.checkpoints.settings import Retention
from firesteel.jobmaster.checkpoints.statistics import (
    CheckpointStatistics,
    CheckpointStatus,
    CheckpointSummary,
    Restoration,
    SubtaskAcknowledgement,
)
from firesteel.jobmaster.job_snapshot import JobSnapshot
from firesteel.plan.state_handles import CheckpointKind
from firesteel.rest.outline import JobOutline, VertexOutline

__all__ = ["checkpoint_config", "checkpoint_details", "checkpoints", "find_checkpoint", "subtask_details"]

_CLASSES = {"IN_PROGRESS": "in_progress", "COMPLETED": "completed", "FAILED": "failed"}
_TYPES = {CheckpointKind.SAVEPOINT: "SAVEPOINT", CheckpointKind.STOP: "SYNC_SAVEPOINT"}


def checkpoints(outline: JobOutline, statistics: CheckpointStatistics) -> dict[str, Any]:
    """How many there were, a summary of the completed ones, the newest of each kind, and the history."""
    completed = statistics.completions
    newest = next((each for each in reversed(completed) if not each.kind.is_savepoint), None)
    if newest is None and statistics.newest is not None and not statistics.newest.kind.is_savepoint:
        newest = statistics.newest
    return {
        "counts": {
            "restored": statistics.restorations,
            "total": statistics.begun,
            "in_progress": statistics.in_progress,
            "completed": statistics.completed,
            "failed": statistics.failed + statistics.superseded,
        },
        "summary": _summary(completed),
        "latest": {
            "completed": _or_none(outline, newest),
            "savepoint": _or_none(outline, statistics.newest_savepoint),
            "failed": _or_none(outline, statistics.newest_failed),
            "restored": None if statistics.restoration is None else _restored(statistics.restoration),
        },
        "history": [_one(outline, each) for each in reversed(statistics.history)],
    }


def _or_none(outline: JobOutline, checkpoint: CheckpointSummary | None) -> dict[str, Any] | None:
    return None if checkpoint is None else _one(outline, checkpoint)


def _restored(restoration: Restoration) -> dict[str, Any]:
    return {
        "id": restoration.checkpoint_id,
        "restore_timestamp": restoration.time,
        "is_savepoint": restoration.is_savepoint,
        "external_path": restoration.path,
    }


def find_checkpoint(statistics: CheckpointStatistics, checkpoint_id: int) -> CheckpointSummary | None:
    """The checkpoint with this number; None when it never was, or is not remembered any more."""
    known = (
        *statistics.history,
        statistics.newest,
        statistics.newest_failed,
        statistics.newest_savepoint,
    )
    return next((each for each in known if each is not None and each.id == checkpoint_id), None)


def checkpoint_details(outline: JobOutline, checkpoint: CheckpointSummary) -> dict[str, Any]:
    """One checkpoint, with a line for each vertex."""
    tasks = {vertex.id: _task(vertex, checkpoint) for vertex in outline.vertices}
    return {**_one(outline, checkpoint), "tasks": tasks}


def _one(outline: JobOutline, checkpoint: CheckpointSummary) -> dict[str, Any]:
    status = _status(checkpoint)
    entry: dict[str, Any] = {
        "className": _CLASSES[status],
        "id": checkpoint.id,
        "status": status,
        "is_savepoint": checkpoint.kind.is_savepoint,
        "savepointFormat": "CANONICAL" if checkpoint.kind.is_savepoint else None,
        "trigger_timestamp": checkpoint.began,
        **_figures(checkpoint.acknowledgements, checkpoint.began),
        "end_to_end_duration": checkpoint.duration_ms,
        "num_subtasks": checkpoint.subtasks,
        "num_acknowledged_subtasks": len(checkpoint.acknowledgements),
        "checkpoint_type": _type(checkpoint.kind),
        "tasks": {},
    }
    if status == "COMPLETED":
        entry |= {"external_path": checkpoint.path, "discarded": False}
    elif status == "FAILED":
        entry |= {"failure_timestamp": checkpoint.ended or 0, "failure_message": checkpoint.failure_message}
    return entry


def _status(checkpoint: CheckpointSummary) -> str:
    # Flink has three: one that was not needed any more has failed there.
    is_superseded = checkpoint.status is CheckpointStatus.SUPERSEDED
    return "FAILED" if is_superseded else checkpoint.status.name


def _type(kind: CheckpointKind) -> str:
    if not kind.is_savepoint:
        return "CHECKPOINT"
    return _TYPES.get(kind, "SYNC_SAVEPOINT")


def _figures(acknowledgements: Sequence[SubtaskAcknowledgement], began: int) -> dict[str, int]:
    newest = max((each.acknowledged for each in acknowledgements), default=-1)
    return {
        "latest_ack_timestamp": newest,
        "checkpointed_size": sum(each.bytes_written for each in acknowledgements),
        "state_size": sum(each.state_bytes for each in acknowledgements),
        "end_to_end_duration": -1 if newest < 0 else max(0, newest - began),
        "alignment_buffered": 0,
        "processed_data": 0,
        "persisted_data": 0,
    }


def _task(vertex: VertexOutline, checkpoint: CheckpointSummary) -> dict[str, Any]:
    own = _own(vertex, checkpoint)
    is_complete = len(own) == vertex.parallelism
    return {
        "id": checkpoint.id,
        "status": "COMPLETED" if is_complete else _status(checkpoint),
        **_figures(own, checkpoint.began),
        "num_subtasks": vertex.parallelism,
        "num_acknowledged_subtasks": len(own),
    }


def _own(vertex: VertexOutline, checkpoint: CheckpointSummary) -> list[SubtaskAcknowledgement]:
    own = [each for each in checkpoint.acknowledgements if each.vertex == vertex.number]
    return sorted(own, key=lambda each: each.subtask)


def subtask_details(vertex: VertexOutline, checkpoint: CheckpointSummary) -> dict[str, Any]:
    """What the subtasks of one vertex had to do with a checkpoint."""
    own = _own(vertex, checkpoint)

    def summary(get: Callable[[SubtaskAcknowledgement], float]) -> dict[str, Any]:
        return _statistics([get(each) for each in own])

    nothing = summary(lambda _: 0)
    acknowledged = {each.subtask: each for each in own}
    return {
        **_task(vertex, checkpoint),
        "summary": {
            "checkpointed_size": summary(lambda each: each.bytes_written),
            "state_size": summary(lambda each: each.state_bytes),
            "end_to_end_duration": summary(lambda each: each.acknowledged - checkpoint.began),
            "checkpoint_duration": {
                "sync": summary(lambda each: each.pause_ms),
                "async": summary(_asynchronous),
            },
            "alignment": {
                "buffered": nothing,
                "processed": nothing,
                "persisted": nothing,
                "duration": summary(lambda each: each.alignment_ms),
            },
            "start_delay": summary(lambda each: _start_delay(each, checkpoint)),
        },
        "subtasks": [
            _subtask(acknowledged.get(index), index, checkpoint) for index in range(vertex.parallelism)
        ],
    }


def _subtask(
    acknowledged: SubtaskAcknowledgement | None, index: int, checkpoint: CheckpointSummary
) -> dict[str, Any]:
    if acknowledged is None:
        return {"className": "pending", "index": index, "status": "pending_or_failed"}
    return {
        "className": "completed",
        "index": index,
        "status": "completed",
        "ack_timestamp": acknowledged.acknowledged,
        "end_to_end_duration": max(0, acknowledged.acknowledged - checkpoint.began),
        "checkpointed_size": acknowledged.bytes_written,
        "state_size": acknowledged.state_bytes,
        "checkpoint": {"sync": int(acknowledged.pause_ms), "async": int(_asynchronous(acknowledged))},
        "alignment": {
            "buffered": 0,
            "processed": 0,
            "persisted": 0,
            "duration": int(acknowledged.alignment_ms),
        },
        "start_delay": int(_start_delay(acknowledged, checkpoint)),
        "unaligned_checkpoint": False,
        "aborted": False,
    }


def _asynchronous(acknowledged: SubtaskAcknowledgement) -> float:
    return max(0.0, acknowledged.duration_ms - acknowledged.pause_ms - acknowledged.alignment_ms)


def _start_delay(acknowledged: SubtaskAcknowledgement, checkpoint: CheckpointSummary) -> float:
    return max(0.0, acknowledged.acknowledged - checkpoint.began - acknowledged.duration_ms)


def _summary(completed: Sequence[CheckpointSummary]) -> dict[str, Any]:
    def of(get: Callable[[CheckpointSummary], float]) -> dict[str, Any]:
        return _statistics([get(each) for each in completed])

    nothing = of(lambda _: 0)
    return {
        "checkpointed_size": of(lambda each: each.bytes_written),
        "state_size": of(lambda each: each.state_bytes),
        "end_to_end_duration": of(lambda each: each.duration_ms),
        "alignment_buffered": nothing,
        "processed_data": nothing,
        "persisted_data": nothing,
    }


def _statistics(values: Sequence[float]) -> dict[str, Any]:
    """Least, greatest, mean and quantiles; quantiles of nothing are no numbers."""
    ordered = sorted(values)
    quantiles = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999}
    return {
        "min": int(ordered[0]) if ordered else 0,
        "max": int(ordered[-1]) if ordered else 0,
        "avg": int(sum(ordered) / len(ordered)) if ordered else 0,
        **{name: _quantile(ordered, share) for name, share in quantiles.items()},
    }


def _quantile(ordered: Sequence[float], share: float) -> float | str:
    return float(ordered[max(0, math.ceil(share * len(ordered)) - 1)]) if ordered else "NaN"


def checkpoint_config(outline: JobOutline, snapshot: JobSnapshot) -> dict[str, Any]:
    """How checkpoints are taken; an interval of -1 means that only savepoints are."""
    settings = snapshot.checkpoints
    interval = None if settings is None else settings.interval
    retention = None if settings is None else settings.retention
    return {
        "mode": "exactly_once",
        "interval": -1 if interval is None else int(interval * 1000),
        "timeout": 0 if settings is None else int(settings.timeout * 1000),
        "min_pause": 0 if settings is None else int(settings.min_pause * 1000),
        "max_concurrent": 1 if settings is None else settings.concurrent,
        "externalization": {
            "enabled": retention not in (None, Retention.NO_EXTERNALIZED_CHECKPOINTS),
            "delete_on_cancellation": retention is not Retention.RETAIN_ON_CANCELLATION,
        },
        "state_backend": outline.options.get("state.backend.type", "hashmap"),
        "checkpoint_storage": "jobmanager"
        if settings is None or settings.directory is None
        else "filesystem",
        "unaligned_checkpoints": False,
        "tolerable_failed_checkpoints": 0 if settings is None else settings.tolerable_failures,
        "aligned_checkpoint_timeout": 0,
        "checkpoints_after_tasks_finish": True,
        "state_changelog_enabled": False,
        "changelog_storage": "",
        "changelog_periodic_materialization_interval": 0,
    }
