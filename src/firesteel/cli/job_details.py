"""What ``firesteel list`` says of one job: its tasks, and what its functions have counted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from firesteel.jobmaster.terminal.progress_lines import metric_text
from firesteel.rest.client import RestClient

__all__ = ["metric_lines", "task_lines"]

#: What operators have by themselves (docs/metrics.md); everything else is a function's.
_OF_THE_SYSTEM = frozenset(
    {
        "alreadyCommittedCommittables",
        "currentEmitEventTimeLag",
        "currentInputWatermark",
        "currentOutputWatermark",
        "failedCommittables",
        "numLateRecordsDropped",
        "numRecordsIn",
        "numRecordsInErrors",
        "numRecordsInPerSecond",
        "numRecordsOut",
        "numRecordsOutPerSecond",
        "pendingCommittables",
        "pendingRecords",
        "retriedCommittables",
        "sourceIdleTime",
        "stateEntries",
        "stateSize",
        "successfulCommittables",
        "totalCommittables",
        "watermarkLag",
    }
)
#: Metrics are asked for by name, in the address of the request.
_NAMES_AT_ONCE = 50


def task_lines(client: RestClient, job_id: str) -> list[str]:
    """A line for each subtask: its state, its name, and where it runs."""
    lines = []
    for vertex in client.get(f"/jobs/{job_id}")["vertices"]:
        subtasks = client.get(f"/jobs/{job_id}/vertices/{vertex['id']}")["subtasks"]
        for each in subtasks:
            host, colon, pid = each["endpoint"].rpartition(":")
            where = f" on {host}, process {pid}" if colon else ""
            place = f"({each['subtask'] + 1}/{vertex['parallelism']})"
            lines.append(f"{each['status']:<12} {vertex['name']} {place}{where}")
    return lines


def metric_lines(client: RestClient, job_id: str) -> list[str]:
    """A line for each metric of a function: its sum over the subtasks, and the span of what they have."""
    lines = []
    for vertex in client.get(f"/jobs/{job_id}")["vertices"]:
        path = f"/jobs/{job_id}/vertices/{vertex['id']}/metrics"
        names = [each["id"] for each in client.get(path) if _is_of_function(each["id"])]
        values: dict[str, list[Any]] = {}
        for each in _asked(client, path, names):
            _, _, name = each["id"].partition(".")
            values.setdefault(name, []).append(_number(each["value"]))
        lines += [_metric_line(name, figures) for name, figures in values.items()]
    return lines


def _is_of_function(name: str) -> bool:
    """Names are ``subtask.operator.metric``, and groups in between.

    >>> _is_of_function("0.Map.cache.hits"), _is_of_function("0.Map.numRecordsIn"), _is_of_function("0.numRecordsIn")
    (True, False, False)
    """
    parts = name.split(".", 2)
    return len(parts) == 3 and parts[2] not in _OF_THE_SYSTEM


def _asked(client: RestClient, path: str, names: list[str]) -> Iterable[Mapping[str, Any]]:
    for first in range(0, len(names), _NAMES_AT_ONCE):
        yield from client.get(path, {"get": ",".join(names[first : first + _NAMES_AT_ONCE])})


def _number(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _metric_line(name: str, values: list[Any]) -> str:
    """One metric of all subtasks.

    >>> _metric_line("Map.cache.hits", [3, 4]), _metric_line("Map.state", ["open", "open"])
    ('Map: cache.hits 7 (3..4)', 'Map: state open')
    """
    operator, _, metric = name.partition(".")
    if not all(isinstance(value, int | float) for value in values):
        return f"{operator}: {metric} {' | '.join(dict.fromkeys(map(str, values)))}"
    least, greatest = min(values), max(values)
    span = (
        ""
        if len(values) == 1
        else f" ({metric_text(least, exact=True)}..{metric_text(greatest, exact=True)})"
    )
    return f"{operator}: {metric} {metric_text(sum(values), exact=True)}{span}"
