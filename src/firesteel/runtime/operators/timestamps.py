"""assign_timestamps_and_watermarks: gives a stream new timestamps and watermarks, wherever it stands."""

from __future__ import annotations

from typing import Any

from firesteel.common.time import MAX_WATERMARK
from firesteel.common.watermark_strategy import WatermarkStrategy
from firesteel.runtime.event_time import EventTime
from firesteel.runtime.operator import Operator, OperatorContext, Timestamps


class TimestampsOperator(Operator):
    """Event time begins anew here: watermarks and idleness from before end here, except for the end of time."""

    def __init__(self, strategy: WatermarkStrategy) -> None:
        self._strategy = strategy

    def open(self, context: OperatorContext) -> None:
        """Start the generator."""
        self.output = context.output
        self._time = EventTime(self, self._strategy, context)

    def process(self, values: list[Any], timestamps: Timestamps) -> None:
        """Stamp a batch and let its watermarks go between its records."""
        self._time.receive(values, timestamps)

    def on_watermark(self, timestamp: int) -> None:
        """Swallow it, unless it says that the input has ended."""
        if timestamp == MAX_WATERMARK:
            self._time.finish()

    def on_status(self, active: bool) -> None:
        """Swallow it: whether this stream is idle is decided here."""

    def next_deadline(self) -> float:
        """When the next watermark or idleness is due."""
        return self._time.next_deadline()

    def on_time(self, now: float) -> None:
        """Emit the watermark that is due, then see who is idle."""
        self._time.on_time(now)
        self._time.check_idle(now)
