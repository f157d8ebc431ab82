"""Where event time begins: records get their timestamps, and watermarks their places between records.

Used by the two operators at which a watermark can start: sources, with one generator for each split, and
assigners, with one in all. The rules:

- what is passed on is the minimum over the splits that are not idle, and only when it advances;
- built-in generators are asked once in an interval of machine time, at fixed ticks, and only when there is
  something new; generators of users at every tick;
- what a generator emits for a record takes its place right behind that record;
- a split without records for the idle timeout leaves the minimum and returns with its next record;
- in BATCH there is only the watermark of the end.
"""

from __future__ import annotations

import datetime
import math
import operator
from array import array
from collections.abc import Callable, Hashable
from itertools import repeat
from typing import Any

from firesteel.common._override import override
from firesteel.common._values import private
from firesteel.common.errors import short_repr
from firesteel.common.time import MAX_TIMESTAMP, MAX_WATERMARK, MIN_TIMESTAMP, to_millis
from firesteel.common.watermark_strategy import IngestionTime, WatermarkStrategy
from firesteel.plan.operator_specs import RuntimeMode
from firesteel.runtime.asked import ByClass, keeps_no_argument, lets_go
from firesteel.runtime.operator import Operator, OperatorContext, Timestamps
from firesteel.runtime.split_time import GeneratedTime, SplitTime, split_factory

#: The user's function (record, timestamp so far) -> timestamp.
Assign = Callable[[Any, int], int]

#: The split of readers that have none: the whole reader.
WHOLE: Hashable = None


class EventTime:
    """Stamps and sends on the records of one operator, and makes its watermarks."""

    def __init__(self, owner: Operator, strategy: WatermarkStrategy, context: OperatorContext) -> None:
        self._owner = owner
        self._output = context.output
        self._now: Callable[[], float] = context.services.now
        progressive = context.mode is RuntimeMode.STREAMING
        self._pace = context.pace
        self._protects = context.protects
        #: The user's assigner; the machine's time needs none.
        self._assign = (
            None if isinstance(strategy.generator, IngestionTime) else strategy.timestamp_function()
        )
        self._stamp = create_stamper(strategy, self._now)
        self._is_let_go = ByClass(self._lets_go)
        self._new_split = split_factory(strategy, progressive)
        self._interval = context.watermark_interval if progressive else 0
        timeout = strategy.idle_timeout if progressive else None
        self._timeout = math.inf if timeout is None else timeout / 1000
        self._own_signals = progressive and self._new_split is SplitTime
        self._progressive = progressive
        self._idle = False
        self._ended = False
        self._opened_ms = to_millis(self._now())
        self._tick_at = math.inf
        self._idle_at = math.inf
        #: The timestamp of the record that was sent last.
        self.last_stamp: int | None = None
        self._splits: dict[Hashable, SplitTime] = {}
        self.add_split(WHOLE)

    # Records ------------------------------------------------------------------------------------------

    def receive(self, values: list[Any], timestamps: Timestamps, split: Hashable = WHOLE) -> int:
        """Stamp a batch of one split and send it on, with the watermarks that belong between its records.

        Returns how many records are left at its end, because the user's code took too long.
        """
        state = self._splits.get(split) or self.add_split(split)
        state.has_records = True
        if state.idle or self._timeout != math.inf:
            self._touch(state)
        if isinstance(state, GeneratedTime):
            return self._receive_one_by_one(state, values, timestamps)
        left = 0
        stamps: Timestamps
        if self._assign is None:
            stamps = self._stamp(values, timestamps)
        else:
            values, stamps, left = self._assigned(self._assign, values, timestamps)
        if stamps:
            self.last_stamp = stamps[-1]
        if stamps is not None and state.see(stamps):
            self._arm()
        self._output.emit(values, stamps)
        return left

    def _assigned(
        self, assign: Assign, values: list[Any], timestamps: Timestamps
    ) -> tuple[list[Any], list[int | None], int]:
        """The records with the timestamps of the user's assigner, and how many are left at the end of the batch.

        A record becomes a value when the assigner has seen it: what it does to the record then belongs to the record,
        what it does later does not.
        """
        let_go = self._is_let_go
        guarded = self._protects and not (let_go.always or let_go(values))
        self._owner.cursor = cursor = self._pace.begin(values)
        stamps: list[Any]
        if guarded:
            passed: list[Any] = []
            stamps = []
            # The cursor comes last: zip asks its first iterable once more at the end.
            for old, value in zip(repeat(None) if timestamps is None else timestamps, cursor, strict=False):
                stamps.append(assign(value, MIN_TIMESTAMP if old is None else old))
                passed.append(private(value))
        elif timestamps is None:
            stamps = [assign(value, MIN_TIMESTAMP) for value in cursor]
        else:
            stamps = [
                assign(value, MIN_TIMESTAMP if old is None else old)
                for old, value in zip(timestamps, cursor, strict=False)
            ]
        left = self._pace.end()
        checked: list[Any]
        try:
            checked = array("q", stamps).tolist()  # looks at all, at a few nanoseconds each
        except (TypeError, OverflowError):
            checked = _checked(self._owner, values, stamps)
        if guarded:
            return passed, checked, left
        return values[:-left] if left else values, checked, left

    def _receive_one_by_one(self, state: GeneratedTime, values: list[Any], timestamps: Timestamps) -> int:
        """Ask for the timestamp of every record, show it to the user's generator, and cut the batch where that emits.

        Record by record, because assigner and generator may know of each other.
        """
        assign = self._assign
        if assign is None:
            timestamps = self._stamp(values, timestamps)
        guarded = self._protects and not self._is_let_go_by_both(state, values)
        timed = assign is not None or timestamps is not None
        passed: list[Any] = []
        stamps: list[int | None] = []
        on_event, signals = state.on_event, state.signals
        self._owner.cursor = cursor = self._pace.begin(values)
        for old, value in zip(repeat(None) if timestamps is None else timestamps, cursor, strict=False):
            if state.idle:  # what the generator said about the record before; this one makes it active
                self._touch(state)
            stamp = old
            if assign is not None:
                stamp = _clamped(assign(value, MIN_TIMESTAMP if old is None else old), _BY_ASSIGNER)
            # What it is now leaves; what the generator does to it nobody sees.
            passed.append(private(value) if guarded else value)
            stamps.append(stamp)
            on_event(value, MIN_TIMESTAMP if stamp is None else stamp, state)
            if signals:
                self._send(passed, stamps, timed)
                passed, stamps = [], []
                self._settle(state)
        left = self._pace.end()
        self._send(passed, stamps, timed)
        return left

    def _send(self, values: list[Any], stamps: list[int | None], timed: bool) -> None:
        if timed and stamps:
            self.last_stamp = stamps[-1]
        self._output.emit(values, stamps if timed else None)

    def _is_let_go_by_both(self, state: GeneratedTime, values: list[Any]) -> bool:
        """Whether it is certain that neither the assigner nor the generator of a split keeps these records."""
        if state.is_let_go is None:
            on_event, lets_go = state.on_event, self._lets_go
            state.is_let_go = ByClass(lambda kind: lets_go(kind) and keeps_no_argument(on_event, kind))
        return state.is_let_go(values)

    def _lets_go(self, kind: type | None) -> bool:
        return self._assign is None or lets_go(self._assign, kind)

    # Splits -------------------------------------------------------------------------------------------

    def add_split(self, split: Hashable) -> SplitTime:
        """A split that takes part from now on: it holds time back until it has records, or is idle."""
        if split in self._splits:
            return self._splits[split]
        whole = self._splits.get(WHOLE)
        if whole is not None and not whole.has_records:  # it stood for splits that were not there yet
            del self._splits[WHOLE]
        state = self._splits[split] = self._new_split(self._now())
        self._idle_at = min(self._idle_at, state.seen_at + self._timeout)
        if state.always_ticks:
            self._arm()
        return state

    def end_split(self, split: Hashable) -> None:
        """A split of which nothing follows; it holds nobody back any more."""
        ended = self._splits.pop(split, None)
        if ended is None:
            return
        if not self._splits:
            self.add_split(WHOLE).watermark = self._owner.current_watermark
        self._combine()

    def advance(self, timestamp: int, split: Hashable = WHOLE) -> None:
        """The source's own watermark; counts only when the strategy makes none."""
        if self._own_signals:
            state = self.add_split(split)
            state.advance(timestamp)
            state.idle = state.silent = False
            self._combine()

    def mark_idle(self, split: Hashable = WHOLE) -> None:
        """The source says itself that nothing follows for a while."""
        if self._progressive:
            self.add_split(split).idle = True
            self._combine()

    def next_watermark(self) -> int:
        """The watermark that the records so far allow, whether it has been sent or not; the greatest when idle."""
        if self._ended:
            return MAX_WATERMARK
        watermarks = [state.next_watermark() for state in self._splits.values() if not state.idle]
        return max(min(watermarks), self._owner.current_watermark) if watermarks else MAX_WATERMARK

    def explain(self, name: str, is_source: bool) -> str:
        """Why the watermark does not move, for people; ``name`` is that of the operator and its subtask."""
        active = {split: state for split, state in self._splits.items() if not state.idle}
        if not active:
            return f"{name} has said that it is idle"
        lowest = min(state.watermark for state in active.values())
        split, state = next(item for item in active.items() if item[1].watermark == lowest)
        where = name if split is WHOLE else f"split {short_repr(split)} of {name}"
        if self._own_signals and lowest == MIN_TIMESTAMP:
            source = "the strategy of from_source()" if is_source else "its strategy"
            return (
                f"{where} makes no watermarks: let {source} make them, or call assign_timestamps_and_watermarks() behind it, "
                "with WatermarkStrategy.for_monotonous_timestamps() or for_bounded_out_of_orderness(...)"
            )
        if not state.has_records:
            whole = " (it has no split to read, or an empty one)" if is_source and split is WHOLE else ""
            return f"{where} has had no record{whole} and holds all others back: {_IDLENESS}"
        newest = state.newest()
        if newest is None:
            return f"{where} has records, but gives no later watermark: look at its generator, or at the source if that makes them"
        if len(active) > 1 or split is not WHOLE:
            return f"{where} has had no later record than {_moment(newest)} and holds all others back: {_IDLENESS}"
        return (
            f"{where} has had no later record than {_moment(newest)}: {_IDLENESS}; if it does have records, look at the timestamps that "
            "its assigner gives, which must grow, in milliseconds"
        )

    def _combine(self) -> None:
        """Pass on what has changed: idleness of the whole, and the minimum when it advances."""
        if self._ended:
            return
        active = [state.watermark for state in self._splits.values() if not state.idle]
        self._set_idle(not active)
        if active:
            self._pass_on(min(active))

    def _set_idle(self, idle: bool) -> None:
        if idle != self._idle:
            self._idle = idle
            self._output.status(not idle)

    def _pass_on(self, watermark: int) -> None:
        if watermark > self._owner.current_watermark:
            self._owner.current_watermark = watermark
            self._output.watermark(watermark)

    def _settle(self, state: GeneratedTime) -> None:
        for signal in state.signals:
            state.apply(signal)
            self._combine()
        state.signals.clear()

    def finish(self) -> None:
        """The input has ended: time comes to its end."""
        if not self._ended:
            self._set_idle(False)
            self._ended = True
            self._tick_at = self._idle_at = math.inf
            self._pass_on(MAX_WATERMARK)

    # The machine's time -------------------------------------------------------------------------------

    def next_deadline(self) -> float:
        """When `on_time` or `check_idle` has something to do."""
        return min(self._tick_at, self._idle_at)

    def idle_due(self, now: float) -> bool:
        """Whether `check_idle` has something to do."""
        return self._idle_at <= now

    def on_time(self, now: float) -> None:
        """Claim what the records so far allow, when a tick is due."""
        if now < self._tick_at:
            return
        self._tick_at = math.inf
        now_ms = to_millis(now)
        for state in list(self._splits.values()):
            if not state.silent:
                state.tick(now_ms)
                if isinstance(state, GeneratedTime):
                    self._settle(state)
            if state.always_ticks:
                self._arm()
        self._combine()

    def _arm(self) -> None:
        """Wait for the first tick after now. Ticks are at fixed times, so waiting never adds up."""
        if self._tick_at == math.inf and self._interval > 0 and not self._ended:
            passed = to_millis(self._now()) - self._opened_ms
            tick = self._opened_ms + (passed // self._interval + 1) * self._interval
            self._tick_at = tick / 1000

    def check_idle(self, now: float) -> None:
        """Let splits leave that had no record for too long.

        A look that comes much too late says that the task itself was held up, not that nothing was there:
        then the wait begins again.
        """
        if now < self._idle_at or self._ended:
            return
        if now - self._idle_at > self._timeout / 2:
            self.restart_idleness(now)
            return
        active = [state for state in self._splits.values() if not state.idle]
        quiet = [state for state in active if state.seen_at + self._timeout <= now]
        for state in quiet:
            if not isinstance(state, GeneratedTime):
                state.tick(to_millis(now))
        if quiet:
            self._combine()
        for state in quiet:
            state.idle = state.silent = True
        self._idle_at = min((s.seen_at + self._timeout for s in active if not s.idle), default=math.inf)
        if quiet:
            self._combine()

    def restart_idleness(self, now: float) -> None:
        """Count the time without records from now."""
        for state in self._splits.values():
            state.seen_at = now
        self._idle_at = now + self._timeout

    def _touch(self, state: SplitTime) -> None:
        state.seen_at = self._now()
        self._idle_at = min(self._idle_at, state.seen_at + self._timeout)
        if state.idle:
            state.idle = state.silent = False
            self._combine()


_IDLENESS = "WatermarkStrategy.with_idleness(...) lets the others go on without it"


def _moment(timestamp: int) -> str:
    """An event time for people; many a program counts from somewhere else than 1970.

    >>> _moment(1_704_067_200_000), _moment(5), _moment(10**18)
    ('2024-01-01 00:00:00 UTC (1704067200000)', '5', '1000000000000000000')
    """
    if not _YEAR_2000 <= timestamp < _YEAR_2100:
        return str(timestamp)
    moment = datetime.datetime.fromtimestamp(timestamp / 1000, datetime.UTC)
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC ({timestamp})"


_YEAR_2000, _YEAR_2100 = 946_684_800_000, 4_102_444_800_000


# Timestamps of whole batches --------------------------------------------------------------------------
# As they were, or as the clock says.


Stamper = Callable[[list[Any], Timestamps], Timestamps]


def create_stamper(strategy: WatermarkStrategy, now: Callable[[], float]) -> Stamper:
    """The function (values, timestamps so far) -> timestamps for a strategy without an assigner of the user's."""
    return _IngestionStamper(now) if isinstance(strategy.generator, IngestionTime) else _kept


def _kept(values: list[Any], timestamps: Timestamps) -> Timestamps:
    if timestamps is None:
        return None
    stamps: list[Any] = timestamps
    try:
        array("q", stamps)
        return timestamps
    except (TypeError, OverflowError):  # some records may have none
        return [None if stamp is None else _clamped(stamp, "the source") for stamp in stamps]


class _IngestionStamper:
    """The machine's time; it does not go back when the machine's clock is set back."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._last = MIN_TIMESTAMP

    def __call__(self, values: list[Any], timestamps: Timestamps) -> Timestamps:
        self._last = max(self._last, to_millis(self._now()))
        return [self._last] * len(values)


def _checked(owner: Operator, values: list[Any], stamps: list[Any]) -> list[int | None]:
    """The timestamps within 64 bits, one by one; what is no int is refused together with its record."""
    timestamps: list[int | None] = []
    for stamp in stamps:
        try:
            timestamps.append(_clamped(stamp, _BY_ASSIGNER))
        except TypeError:
            owner.cursor = iter(values[len(timestamps) + 1 :])
            raise
    return timestamps


_BY_ASSIGNER = "the timestamp assigner"


def _clamped(stamp: Any, origin: str) -> int:
    """Python's numbers are longer than those of watermarks on the wire."""
    try:
        return min(max(operator.index(stamp), MIN_TIMESTAMP), MAX_TIMESTAMP)
    except TypeError:
        raise TypeError(
            f"a timestamp must be an int, milliseconds since 1970, got {short_repr(stamp)} from {origin}"
        ) from None


# assign_timestamps_and_watermarks ---------------------------------------------------------------------


class TimestampsOperator(Operator):
    """Event time restarts here: watermarks and idleness from before end here, except for the end of time."""

    def __init__(self, strategy: WatermarkStrategy) -> None:
        self._strategy = strategy

    @override
    def open(self, context: OperatorContext) -> None:
        self.output = context.output
        self.time = EventTime(self, self._strategy, context)

    @override
    def process(self, values: list[Any], timestamps: Timestamps) -> None:
        """Stamp a batch and let its watermarks go between its records."""
        self.left = self.time.receive(values, timestamps)

    @override
    def on_watermark(self, timestamp: int) -> None:
        """Swallow it, unless it says that the input has ended."""
        if timestamp == MAX_WATERMARK:
            self.time.finish()

    @override
    def on_status(self, active: bool) -> None:
        """Swallow it: whether this stream is idle is decided here."""

    @override
    def next_deadline(self) -> float:
        """When the next watermark or idleness is due."""
        return self.time.next_deadline()

    @override
    def on_time(self, now: float) -> None:
        """Emit the watermark that is due, then see who is idle."""
        self.time.on_time(now)
        self.time.check_idle(now)
