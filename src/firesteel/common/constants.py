"""The smallest and largest 64-bit integers, under the names PyFlink programs import."""

from __future__ import annotations

from firesteel.common.time import MAX_TIMESTAMP, MIN_TIMESTAMP

__all__ = ["MAX_LONG_VALUE", "MIN_LONG_VALUE"]

MAX_LONG_VALUE: int = MAX_TIMESTAMP
MIN_LONG_VALUE: int = MIN_TIMESTAMP
