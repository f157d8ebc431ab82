"""The changes of a job's parallelism: who wanted them, when, and what became of them."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, replace

from firesteel.common.time import to_millis
from firesteel.plan.job_plan import JobPlan, VertexPlan

__all__ = [
    "REMEMBERED_RESCALES",
    "RescaleCause",
    "RescaleHistory",
    "RescaleOutcome",
    "RescaleRecord",
    "RescaledVertex",
]

#: How many are remembered.
REMEMBERED_RESCALES = 16


class RescaleCause(enum.Enum):
    """Why a job is to have another parallelism; the values are Flink's."""

    REQUEST = "UPDATE_REQUIREMENT"
    MORE_SLOTS = "NEW_RESOURCE_AVAILABLE"
    FEWER_SLOTS = "INITIAL_SCHEDULE"  # than it asked for, when it started
    FAILURE = "RECOVERABLE_FAILOVER"


class RescaleOutcome(enum.Enum):
    """What became of a change."""

    IN_PROGRESS = "IN_PROGRESS"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True)
class RescaledVertex:
    """A vertex, and how many subtasks its first operator had and has."""

    id: str
    name: str
    before: int
    after: int
    max_parallelism: int


@dataclass(frozen=True, slots=True)
class RescaleRecord:
    """One change. Times are milliseconds since 1970; ``slots`` are those before and after."""

    number: int
    cause: RescaleCause
    began: int
    vertices: tuple[RescaledVertex, ...]
    slots: tuple[int, int]
    outcome: RescaleOutcome = RescaleOutcome.IN_PROGRESS
    ended: int | None = None
    message: str = ""

    @property
    def id(self) -> str:
        """As interfaces name it: the number as 32 hexadecimal digits, where Flink has a UUID."""
        return f"{self.number:032x}"


class RescaleHistory:
    """Those of one job; may be read from any thread."""

    def __init__(self) -> None:
        #: The newest first.
        self.newest_first: tuple[RescaleRecord, ...] = ()
        self._begun = 0
        self._counts = dict.fromkeys(RescaleOutcome, 0)
        self._open: dict[int, int] = {}  # numbers by request

    @property
    def is_one_open(self) -> bool:
        """Whether one was asked for that has neither happened nor failed."""
        return bool(self._open)

    @property
    def counts(self) -> Mapping[RescaleOutcome, int]:
        """How many there were, also those that are forgotten."""
        return {**self._counts, RescaleOutcome.IN_PROGRESS: len(self._open)}

    def begin(self, request: int, cause: RescaleCause, before: JobPlan, after: JobPlan, now: float) -> None:
        """A change was asked for."""
        self._begun += 1
        self._open[request] = self._begun
        vertices = tuple(_rescaled(vertex, before) for vertex in after.vertices)
        rescale = RescaleRecord(self._begun, cause, to_millis(now), vertices, (before.slots, after.slots))
        self.newest_first = (rescale, *self.newest_first)[:REMEMBERED_RESCALES]

    def end(self, request: int, error: BaseException | None, now: float) -> None:
        """A change has happened, or will not; one that never began is none."""
        number = self._open.pop(request, None)
        if number is None:
            return
        outcome = RescaleOutcome.COMPLETED if error is None else RescaleOutcome.FAILED
        self._counts[outcome] += 1
        self.newest_first = tuple(
            replace(each, outcome=outcome, ended=to_millis(now), message="" if error is None else str(error))
            if each.number == number
            else each
            for each in self.newest_first
        )


def _rescaled(vertex: VertexPlan, before: JobPlan) -> RescaledVertex:
    head = vertex.operators[0].id
    return RescaledVertex(
        head, vertex.name, before.parallelism[head], vertex.parallelism, vertex.max_parallelism
    )
