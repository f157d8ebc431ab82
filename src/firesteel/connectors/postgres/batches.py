"""Records on their way from the thread that reads to the reader, with the position behind each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from firesteel.connectors.postgres.position import CdcPosition

__all__ = ["Batch"]


@dataclass(frozen=True, slots=True)
class Batch:
    """``after`` is the position behind the last record. ``within`` is asked when only some are handed out: at least how many.

    It answers how many they are then, and the position behind them.
    """

    values: list[Any]
    timestamps: list[int | None]
    after: CdcPosition
    within: Callable[[int], tuple[int, CdcPosition]] | None = None
    ended: bool = False
