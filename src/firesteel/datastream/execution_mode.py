"""How a program runs: as a stream, as a batch, or whichever fits its sources."""

from __future__ import annotations

from enum import Enum

__all__ = ["RuntimeExecutionMode"]


class RuntimeExecutionMode(Enum):
    """Execution mode of a program.

    STREAMING runs all stages at once and emits every update. BATCH runs stage after stage, needs
    bounded sources and emits final results only. AUTOMATIC is BATCH if all sources are bounded.
    """

    STREAMING = 0
    BATCH = 1
    AUTOMATIC = 2
