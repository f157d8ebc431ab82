"""ExecutionMode, kept for programs written for Flink 1.x."""

from __future__ import annotations

from enum import Enum

__all__ = ["ExecutionMode"]


class ExecutionMode(Enum):
    """How batch programs exchanged data; accepted, and without effect: see RuntimeExecutionMode."""

    PIPELINED = 0
    PIPELINED_FORCED = 1
    BATCH = 2
    BATCH_FORCED = 3
