"""The parallelism that a job asks for, and the changes of it."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from firesteel.common.configuration import Configuration
from firesteel.common.options import (
    ADAPTIVE_COOLDOWN,
    ADAPTIVE_EXECUTING_STABILIZATION,
    ADAPTIVE_STABILIZATION,
    ADAPTIVE_WAIT,
)
from firesteel.jobmaster.job_snapshot import JobSnapshot
from firesteel.jobmaster.rescale_history import REMEMBERED_RESCALES, RescaleOutcome, RescaleRecord
from firesteel.rest.outline import JobOutline, scheduler_of

__all__ = [
    "rescale_config",
    "rescale_details",
    "rescale_history",
    "rescale_overview",
    "rescale_summary",
    "resource_requirements",
]

_GROUP = "0" * 32
_GROUP_NAME = "default"


def resource_requirements(outline: JobOutline, snapshot: JobSnapshot) -> dict[str, Any]:
    """How many subtasks each vertex asks for, and with how many it would do: with fewer only under the adaptive scheduler."""
    is_adaptive = scheduler_of(outline) == "Adaptive"
    requirements: dict[str, Any] = {}
    for vertex in outline.vertices:
        bounds = snapshot.bounds.get(vertex.id)
        upper = vertex.parallelism if bounds is None else bounds.upper
        lower = bounds.lower if is_adaptive and bounds is not None else upper
        requirements[vertex.id] = {"parallelism": {"lowerBound": lower, "upperBound": upper}}
    return requirements


def rescale_config(outline: JobOutline) -> dict[str, Any]:
    """The times of the adaptive scheduler. What Flink waits for before it rescales - failed checkpoints, delays - is not there."""
    options = Configuration.from_dict(dict(outline.options))
    return {
        "rescaleHistoryMax": REMEMBERED_RESCALES,
        "schedulerExecutionMode": None,
        "submissionResourceWaitTimeoutInMillis": options.get(ADAPTIVE_WAIT).to_millis(),
        "submissionResourceStabilizationTimeoutInMillis": options.get(ADAPTIVE_STABILIZATION).to_millis(),
        "slotIdleTimeoutInMillis": 0,
        "executingCooldownTimeoutInMillis": options.get(ADAPTIVE_COOLDOWN).to_millis(),
        "executingResourceStabilizationTimeoutInMillis": options.get(
            ADAPTIVE_EXECUTING_STABILIZATION
        ).to_millis(),
        "maximumDelayForTriggeringRescaleInMillis": 0,
        "rescaleOnFailedCheckpointCount": 0,
    }


def rescale_history(snapshot: JobSnapshot) -> list[dict[str, Any]]:
    """All changes that are remembered, the newest first."""
    return [rescale_details(each) for each in snapshot.rescales]


def rescale_details(rescale: RescaleRecord) -> dict[str, Any]:
    """One change of the parallelism, with that of each vertex before and after it."""
    is_over = rescale.outcome is not RescaleOutcome.IN_PROGRESS
    is_complete = rescale.outcome is RescaleOutcome.COMPLETED
    return {
        "rescaleUuid": rescale.id,
        "resourceRequirementsUuid": rescale.id,
        "rescaleAttemptId": rescale.number,
        "vertices": {
            vertex.id: {
                "jobVertexId": vertex.id,
                "jobVertexName": vertex.name,
                "slotSharingGroupId": _GROUP,
                "slotSharingGroupName": _GROUP_NAME,
                "desiredParallelism": vertex.after,
                "sufficientParallelism": 1,
                "preRescaleParallelism": vertex.before,
                "postRescaleParallelism": vertex.after if is_complete else vertex.before,
                "requiredParallelisms": {
                    "minParallelism": 1,
                    "parallelism": vertex.after,
                    "maxParallelism": vertex.max_parallelism,
                },
            }
            for vertex in rescale.vertices
        },
        "slots": {_GROUP: _slots(rescale, is_complete)},
        "schedulerStates": [_state(rescale)],
        "startTimestampInMillis": rescale.began,
        "endTimestampInMillis": rescale.ended,
        "terminalState": rescale.outcome.value if is_over else None,
        "triggerCause": rescale.cause.value,
        "terminatedReason": _reason(rescale.outcome),
    }


def _slots(rescale: RescaleRecord, is_complete: bool) -> dict[str, Any]:
    before, after = rescale.slots
    return {
        "slotSharingGroupId": _GROUP,
        "slotSharingGroupName": _GROUP_NAME,
        "requestResourceProfile": None,
        "acquiredResourceProfile": None,
        "desiredSlots": after,
        "minimalRequiredSlots": after,
        "preRescaleSlots": before,
        "postRescaleSlots": after if is_complete else before,
    }


def _state(rescale: RescaleRecord) -> dict[str, Any]:
    """From the request to the end: what Flink's scheduler does in steps is one here."""
    return {
        "state": "Rescaling",
        "enterTimestampInMillis": rescale.began,
        "leaveTimestampInMillis": rescale.ended,
        "durationInMillis": _duration(rescale),
        "stringifiedException": rescale.message or None,
    }


def _duration(rescale: RescaleRecord) -> int:
    return 0 if rescale.ended is None else max(0, rescale.ended - rescale.began)


def _reason(outcome: RescaleOutcome) -> str | None:
    match outcome:
        case RescaleOutcome.COMPLETED:
            return "SUCCEEDED"
        case RescaleOutcome.FAILED:
            return "EXCEPTION_OCCURRED"
        case _:
            return None


def rescale_overview(snapshot: JobSnapshot) -> dict[str, Any]:
    """How many there were, and the newest of each kind."""

    def newest(outcome: RescaleOutcome) -> dict[str, Any] | None:
        rescale = next((each for each in snapshot.rescales if each.outcome is outcome), None)
        return None if rescale is None else rescale_details(rescale)

    return {
        "rescalesCounts": _counts(snapshot),
        "latest": {
            "completed": newest(RescaleOutcome.COMPLETED),
            "failed": newest(RescaleOutcome.FAILED),
            "ignored": None,
        },
    }


def rescale_summary(snapshot: JobSnapshot) -> dict[str, Any]:
    """How many there were, and how long those that are remembered took."""

    def took(*outcomes: RescaleOutcome) -> dict[str, Any]:
        return _figures([_duration(each) for each in snapshot.rescales if each.outcome in outcomes])

    return {
        "rescalesCounts": _counts(snapshot),
        "rescalesDurationStatsInMillis": took(RescaleOutcome.COMPLETED, RescaleOutcome.FAILED),
        "completedRescalesDurationStatsInMillis": took(RescaleOutcome.COMPLETED),
        "failedRescalesDurationStatsInMillis": took(RescaleOutcome.FAILED),
        "ignoredRescalesDurationStatsInMillis": took(),
    }


def _counts(snapshot: JobSnapshot) -> dict[str, int]:
    counts = snapshot.rescale_counts
    return {
        "ignored": 0,
        "inProgress": counts.get(RescaleOutcome.IN_PROGRESS, 0),
        "completed": counts.get(RescaleOutcome.COMPLETED, 0),
        "failed": counts.get(RescaleOutcome.FAILED, 0),
    }


def _figures(values: Sequence[int]) -> dict[str, float]:
    ordered = sorted(values) or [0]

    def quantile(share: float) -> float:
        return float(ordered[min(len(ordered) - 1, int(share * len(ordered)))])

    return {
        "min": ordered[0],
        "max": ordered[-1],
        "avg": sum(ordered) // len(ordered),
        "p50": float(statistics.median(ordered)),
        "p90": quantile(0.9),
        "p95": quantile(0.95),
        "p99": quantile(0.99),
        "p999": quantile(0.999),
    }
