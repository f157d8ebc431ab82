"""A source's part in watermark alignment: reports how far it has come, and waits when it is too far ahead."""

from __future__ import annotations

import math

from firesteel.common.time import MAX_WATERMARK, MIN_TIMESTAMP
from firesteel.common.watermark_strategy import WatermarkAlignment


class SourceAlignment:
    """One subtask of a group. Its own watermark is reported at most once in an update interval.

    What cannot wait - its first watermark, becoming idle or ended, returning, and having to wait, which may be
    for its own last report - is reported at once. Members that have not reported hold nobody back.
    """

    def __init__(self, alignment: WatermarkAlignment) -> None:
        self.group = alignment.group
        self._drift = alignment.max_drift
        self._interval = alignment.update_interval / 1000
        self._limit = MAX_WATERMARK
        self._own = MIN_TIMESTAMP
        self._reported = MIN_TIMESTAMP
        self._report_at = math.inf
        self._earliest = -math.inf
        self._outgoing: int | None = None

    @property
    def held(self) -> bool:
        """Whether the source has to wait for others."""
        return self._limit < self._own < MAX_WATERMARK

    def update(self, slowest: int) -> None:
        """The group's slowest member has come to ``slowest``."""
        self._limit = min(slowest + self._drift, MAX_WATERMARK)

    def release(self) -> None:
        """Wait for nobody from now on."""
        self._limit = MAX_WATERMARK
        self._drift = MAX_WATERMARK - MIN_TIMESTAMP

    def observe(self, watermark: int, now: float) -> None:
        """The subtask has come to ``watermark``; the greatest one: it is idle or has ended."""
        self._own = watermark
        if watermark == self._reported:
            self._report_at = math.inf
            return
        urgent = self._reported == MIN_TIMESTAMP or MAX_WATERMARK in (watermark, self._reported)
        if urgent or self.held or now >= self._earliest:
            self._outgoing = self._reported = watermark
            self._earliest, self._report_at = now + self._interval, math.inf
        else:
            self._report_at = self._earliest

    def next_deadline(self) -> float:
        """When a report is due."""
        return self._report_at

    def take(self) -> int | None:
        """The watermark to report now, when there is one."""
        watermark, self._outgoing = self._outgoing, None
        return watermark
