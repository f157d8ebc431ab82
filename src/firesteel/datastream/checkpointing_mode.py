"""What a checkpoint guarantees."""

from __future__ import annotations

from enum import Enum

__all__ = ["CheckpointingMode"]


class CheckpointingMode(Enum):
    """Whether a record may count twice after a recovery.

    EXACTLY_ONCE aligns barriers, so that every record is in the state once. AT_LEAST_ONCE does not
    wait, so that records may be in it twice.
    """

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1
