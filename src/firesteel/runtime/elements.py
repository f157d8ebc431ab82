"""What flows between stages: data chunks and the in-band signals that keep their place among them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from firesteel.plan.state_handles import CheckpointOrder


@dataclass(frozen=True, slots=True)
class Chunk:
    """Records in order. ``timestamps`` runs parallel to ``values``, or is None when none has one."""

    values: list[Any]
    timestamps: list[int | None] | None = None


@dataclass(frozen=True, slots=True)
class WatermarkSignal:
    """No record at or before ``timestamp`` follows on this channel."""

    timestamp: int


@dataclass(frozen=True, slots=True)
class StreamStatus:
    """Whether the channel takes part in event time: an idle one holds nobody back."""

    active: bool


@dataclass(frozen=True, slots=True)
class Barrier:
    """Separates the records before a checkpoint from those after it, and says what is wanted of the receiver."""

    order: CheckpointOrder


@dataclass(frozen=True, slots=True)
class LatencyMarker:
    """Carries the time it was made at through the pipeline, behind the records that were there before it.

    ``source_id`` is the id of the operator that has sent it, ``source_subtask`` its subtask, from 0.
    """

    marked_at_ms: int
    source_id: str
    source_subtask: int


@dataclass(frozen=True, slots=True)
class EndOfInput:
    """Nothing follows on this channel."""


Element = Chunk | WatermarkSignal | StreamStatus | Barrier | LatencyMarker | EndOfInput
END_OF_INPUT = EndOfInput()
