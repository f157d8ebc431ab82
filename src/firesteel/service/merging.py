"""One answer out of those of several drivers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from firesteel.rest.views.driver import cluster_overview

__all__ = ["merged_lines", "overview"]

_ENDED = ("FINISHED", "CANCELED", "FAILED")


def merged_lines(*groups: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Lines of jobs, each job once - as the first group has it that has it - the one that began first in front."""
    by_id: dict[str, dict[str, Any]] = {}
    for group in groups:
        for line in group:
            by_id.setdefault(line["jid"], dict(line))
    return sorted(by_id.values(), key=lambda line: (line["start-time"], line["jid"]))


def overview(lines: Sequence[Mapping[str, Any]], executors: int, slots: int, free: int) -> dict[str, Any]:
    """Slots and jobs in figures."""
    states = Counter(line["state"] for line in lines)
    return {
        **cluster_overview(()),
        "taskmanagers": executors,
        "slots-total": slots,
        "slots-available": free,
        "jobs-running": sum(count for state, count in states.items() if state not in _ENDED),
        "jobs-finished": states["FINISHED"],
        "jobs-cancelled": states["CANCELED"],
        "jobs-failed": states["FAILED"],
    }
