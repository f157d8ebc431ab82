"""How far event time has come in one split of a source, or in one input of an assigner.

There is one kind for each way to make watermarks. The built-in ones look at whole batches; only a generator
written by the user is called for every record.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from firesteel.common._override import override
from firesteel.common.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from firesteel.common.watermark_strategy import (
    BoundedOutOfOrderness,
    IngestionTime,
    NoWatermarks,
    Watermark,
    WatermarkGenerator,
    WatermarkOutput,
    WatermarkStrategy,
)

_NOTHING = MIN_TIMESTAMP


class SplitTime:
    """Base of all kinds, and the one that makes no watermarks: only the source itself can advance it.

    ``watermark`` is what has been announced, ``idle`` whether the split takes part in the minimum, ``silent``
    whether it is idle because of its timeout. ``seen_at`` is when it last had records.
    """

    #: Whether it must be asked at every interval, whatever happened since the last one.
    always_ticks = False

    def __init__(self, seen_at: float) -> None:
        self.watermark = _NOTHING
        self.idle = False
        self.silent = False
        self.seen_at = seen_at
        self.has_records = False

    def see(self, stamps: list[int | None]) -> bool:
        """Take the timestamps of a batch, at least one, into account; whether the next tick has news."""
        return False

    def tick(self, now_ms: int) -> None:
        """The interval is over: announce what the records so far allow."""

    def next_watermark(self) -> int:
        """The watermark that a tick would give now."""
        return self.watermark

    def newest(self) -> int | None:
        """The latest timestamp of its records, None when it is not known."""
        return None

    def advance(self, timestamp: int) -> None:
        """Announce ``timestamp``; never goes back."""
        if timestamp > self.watermark:
            self.watermark = min(timestamp, MAX_TIMESTAMP)


class BoundedTime(SplitTime):
    """The watermark stays a bound behind the latest timestamp; costs one max() for each batch."""

    def __init__(self, seen_at: float, kind: BoundedOutOfOrderness) -> None:
        super().__init__(seen_at)
        self._kind = kind
        self._latest = _NOTHING

    @override
    def see(self, stamps: list[int | None]) -> bool:
        latest = _latest(stamps)
        if latest <= self._latest:
            return False
        self._latest = latest
        return True

    @override
    def tick(self, now_ms: int) -> None:
        """Announce what the latest timestamp allows."""
        self.advance(self._kind.watermark(self._latest))

    @override
    def next_watermark(self) -> int:
        """The watermark that a tick would give now."""
        return max(self.watermark, self._kind.watermark(self._latest))

    @override
    def newest(self) -> int | None:
        """The latest timestamp of its records."""
        return self._latest


class IngestionSplitTime(SplitTime):
    """The watermark follows the machine's clock, with records or without."""

    always_ticks = True

    @override
    def tick(self, now_ms: int) -> None:
        """Everything before this millisecond has arrived."""
        self.advance(now_ms - 1)


class GeneratedTime(SplitTime, WatermarkOutput):
    """A generator written by the user; what it emits is kept in ``signals`` until the caller looks.

    A signal is a watermark, or True for active and False for idle.
    """

    always_ticks = True

    def __init__(self, seen_at: float, generator: WatermarkGenerator) -> None:
        super().__init__(seen_at)
        self.on_event = generator.on_event
        #: Whether records are let go by it, and by the assigner in front of it; for the one who asks it.
        self.is_let_go: Callable[[list[Any]], bool] | None = None
        self._on_periodic_emit = generator.on_periodic_emit
        self.signals: list[int | bool] = []

    @override
    def tick(self, now_ms: int) -> None:
        self._on_periodic_emit(self)

    @override
    def emit_watermark(self, watermark: Watermark) -> None:
        """Keep the watermark; a bare number is taken, too."""
        timestamp = watermark if isinstance(watermark, int) else watermark.timestamp
        self.signals.append(min(max(timestamp, MIN_TIMESTAMP), MAX_TIMESTAMP))

    @override
    def mark_idle(self) -> None:
        self.signals.append(False)

    @override
    def mark_active(self) -> None:
        self.signals.append(True)

    def apply(self, signal: int | bool) -> None:
        """Make a signal true; a watermark that does not advance changes nothing."""
        if isinstance(signal, bool):
            self.idle = not signal
        elif signal > self.watermark:
            self.watermark = signal
            self.idle = False


def _latest(stamps: list[Any]) -> int:
    """The latest timestamp; records of a source that assigns none to some of them are left out."""
    try:
        latest = max(stamps)
    except TypeError:
        latest = None
    return max((s for s in stamps if s is not None), default=_NOTHING) if latest is None else latest


def split_factory(strategy: WatermarkStrategy, progressive: bool) -> Callable[[float], SplitTime]:
    """What makes the time of a new split; in BATCH (not ``progressive``) there is only the end of time."""
    kind = strategy.generator
    if not progressive or isinstance(kind, NoWatermarks):
        return SplitTime
    if isinstance(kind, BoundedOutOfOrderness):
        return lambda seen_at: BoundedTime(seen_at, kind)
    if isinstance(kind, IngestionTime):
        return IngestionSplitTime
    return lambda seen_at: GeneratedTime(seen_at, strategy.create_generator())
