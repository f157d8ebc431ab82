"""WatermarkStrategy: where event timestamps come from, and how far behind them the stream's clock stays.

A strategy is a description. It travels to the tasks, and there `create_generator` builds the live
`WatermarkGenerator`, one per source split or subtask.
"""

from __future__ import annotations

import abc
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Generic

from firesteel.common._function_code import python_function
from firesteel.common._method_checks import check_function, check_methods, uncallable
from firesteel.common._override import override
from firesteel.common._type_variables import TypeVar
from firesteel.common.errors import InvalidArgumentError, WrongArgumentError, describe_function
from firesteel.common.time import MIN_TIMESTAMP, AnyLength, Duration, millis_of

__all__ = [
    "AssignerWithPeriodicWatermarksWrapper",
    "BoundedOutOfOrderness",
    "BoundedOutOfOrdernessWatermarks",
    "CustomGenerator",
    "IngestionTime",
    "IngestionTimeWatermarks",
    "NoWatermarks",
    "NoWatermarksGenerator",
    "TimestampAssigner",
    "Watermark",
    "WatermarkAlignment",
    "WatermarkGenerator",
    "WatermarkOutput",
    "WatermarkStrategy",
]

T = TypeVar("T", contravariant=True, default=Any)


class TimestampAssigner(abc.ABC, Generic[T]):
    """Reads the event timestamp of a record."""

    @abc.abstractmethod
    def extract_timestamp(self, value: T, record_timestamp: int, /) -> int:
        """Return milliseconds since 1970 (UTC); `record_timestamp` is what the source gave, MIN_TIMESTAMP if nothing."""


@dataclass(frozen=True, slots=True, order=True)
class Watermark:
    """The promise that no record with this timestamp or an earlier one follows."""

    timestamp: int


class WatermarkOutput(abc.ABC):
    """What a generator speaks to."""

    @abc.abstractmethod
    def emit_watermark(self, watermark: Watermark) -> None:
        """Move the clock; one that is not later than the last is ignored. Also marks the stream active."""

    @abc.abstractmethod
    def mark_idle(self) -> None:
        """Let downstream clocks advance without this stream."""

    @abc.abstractmethod
    def mark_active(self) -> None:
        """Let downstream clocks wait for this stream again."""


class WatermarkGenerator(abc.ABC, Generic[T]):
    """Turns event timestamps into watermarks; written by users for `WatermarkStrategy.for_generator`."""

    @abc.abstractmethod
    def on_event(self, event: T, event_timestamp: int, output: WatermarkOutput, /) -> None:
        """See a record; may emit a watermark at once (a punctuated generator)."""

    @abc.abstractmethod
    def on_periodic_emit(self, output: WatermarkOutput, /) -> None:
        """Called every auto-watermark interval; may emit a watermark (a periodic generator)."""


class BoundedOutOfOrdernessWatermarks(WatermarkGenerator):
    """Stays a fixed time behind the latest timestamp: latest - bound - 1.

    The 1 is there because a watermark t says that t itself will not come again.
    """

    def __init__(self, max_out_of_orderness: Duration) -> None:
        self._bound = max_out_of_orderness.to_millis()
        self._latest = (
            MIN_TIMESTAMP + self._bound + 1
        )  # so that the first watermark does not go below the minimum

    @override
    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        if event_timestamp > self._latest:
            self._latest = event_timestamp

    @override
    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Emit what the latest timestamp allows."""
        output.emit_watermark(Watermark(self._latest - self._bound - 1))


class NoWatermarksGenerator(WatermarkGenerator):
    """Emits nothing: for streams that use processing time only."""

    @override
    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        """Do nothing."""

    @override
    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Do nothing."""


@dataclass(frozen=True, slots=True)
class NoWatermarks:
    """Description: no watermarks."""

    def create(self) -> WatermarkGenerator:
        """Build the live generator."""
        return NoWatermarksGenerator()


@dataclass(frozen=True, slots=True)
class BoundedOutOfOrderness:
    """Description: watermark = latest timestamp - `bound` - 1 (milliseconds)."""

    bound: int = 0

    def create(self) -> WatermarkGenerator:
        """Build the live generator."""
        return BoundedOutOfOrdernessWatermarks(Duration.of_millis(self.bound))

    def watermark(self, latest: int) -> int:
        """Return the watermark after records up to `latest`: the whole batch-at-a-time generator.

        >>> BoundedOutOfOrderness(2000).watermark(10_000)
        7999
        """
        return max(latest - self.bound - 1, MIN_TIMESTAMP)


class IngestionTimeWatermarks(WatermarkGenerator):
    """Follows a clock (seconds): everything before the present millisecond has arrived."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now

    @override
    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        """Do nothing: the clock decides."""

    @override
    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Emit what the clock says."""
        output.emit_watermark(Watermark(int(self._now() * 1000) - 1))


@dataclass(frozen=True, slots=True)
class IngestionTime:
    """Description: timestamps and watermarks of the machine on which the source runs."""

    def create(self) -> WatermarkGenerator:
        """Build a live generator on the machine's clock (tasks use their own clock)."""
        return IngestionTimeWatermarks()


@dataclass(frozen=True, slots=True)
class CustomGenerator:
    """Description: a generator written by the user, from a class or function without arguments."""

    supplier: Callable[[], WatermarkGenerator]

    def create(self) -> WatermarkGenerator:
        """Call the class or function, and check the methods of what a function returns."""
        generator = self.supplier()
        if not isinstance(
            self.supplier, type
        ):  # the methods of a class were looked at where the program named it
            check_methods(generator, "for_generator()")
        return generator


@dataclass(frozen=True, slots=True)
class WatermarkAlignment:
    """Sources of one group wait for each other when their watermarks drift apart (milliseconds)."""

    group: str
    max_drift: int
    update_interval: int = 1000


@dataclass(frozen=True, slots=True)
class WatermarkStrategy(Generic[T]):
    """How a stream gets timestamps and watermarks.

    >>> strategy = (
    ...     WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5))
    ...     .with_timestamp_assigner(lambda event, _: event[1])
    ...     .with_idleness(Duration.of_minutes(1))
    ... )
    >>> strategy.generator, strategy.idle_timeout
    (BoundedOutOfOrderness(bound=5000), 60000)
    >>> strategy.timestamp_function()(("a", 42), 0)
    42

    ``WatermarkStrategy[Order].for_monotonous_timestamps()`` tells type checkers what its records are.
    """

    #: Where watermarks come from.
    generator: NoWatermarks | BoundedOutOfOrderness | IngestionTime | CustomGenerator = field(
        default_factory=NoWatermarks
    )
    #: Where timestamps come from; None: the source's timestamps stay.
    timestamp_assigner: TimestampAssigner[T] | Callable[[T, int], int] | None = None
    #: Milliseconds without records after which the stream counts as idle; None: never.
    idle_timeout: int | None = None
    #: Which group of sources waits for each other; None: none.
    alignment: WatermarkAlignment | None = None

    # Of the class, and not static, so that ``WatermarkStrategy[Order].for_monotonous_timestamps()`` is one of orders.

    @classmethod
    def for_monotonous_timestamps(cls) -> WatermarkStrategy[T]:
        """Timestamps never go back: the watermark follows the latest one closely."""
        return WatermarkStrategy(BoundedOutOfOrderness(0))

    @classmethod
    def for_bounded_out_of_orderness(cls, max_out_of_orderness: AnyLength) -> WatermarkStrategy[T]:
        """Records may be late by up to the given time."""
        bound = millis_of(max_out_of_orderness)
        if bound < 0:
            raise InvalidArgumentError(
                f"max_out_of_orderness must not be negative, got {max_out_of_orderness}"
            )
        return WatermarkStrategy(BoundedOutOfOrderness(bound))

    @classmethod
    def no_watermarks(cls) -> WatermarkStrategy[T]:
        """Return a strategy without watermarks: the stream works in processing time."""
        return WatermarkStrategy(NoWatermarks())

    @classmethod
    def for_generator(cls, supplier: Callable[[], WatermarkGenerator[T]]) -> WatermarkStrategy[T]:
        """Return a strategy with watermarks from the user's generator, built in each subtask (as in Java Flink)."""
        if not callable(supplier):
            raise WrongArgumentError(
                f"for_generator takes a class or function that builds a generator, got {supplier!r}"
            )
        if isinstance(supplier, type):
            check_methods(supplier, "for_generator()")
        return WatermarkStrategy(CustomGenerator(supplier))

    def with_timestamp_assigner(
        self, timestamp_assigner: TimestampAssigner[T] | Callable[[T, int], int]
    ) -> WatermarkStrategy[T]:
        """Return the strategy with timestamps read by an assigner, or a function (value, timestamp) -> timestamp."""
        if not isinstance(timestamp_assigner, TimestampAssigner) and not callable(timestamp_assigner):
            raise WrongArgumentError(
                f"expected a TimestampAssigner or a function, got {timestamp_assigner!r}"
            )
        _check_assigner(timestamp_assigner)
        if self.timestamp_assigner is None:
            # PyFlink changes the strategy in place, so programs may drop the result; this is the only
            # departure from a frozen value (test_assigner_is_also_set_in_place_when_the_result_is_dropped).
            object.__setattr__(self, "timestamp_assigner", timestamp_assigner)
        return replace(self, timestamp_assigner=timestamp_assigner)

    def with_idleness(self, idle_timeout: AnyLength) -> WatermarkStrategy[T]:
        """Return the strategy that counts a stream without records for that long as idle."""
        millis = millis_of(idle_timeout)
        if millis <= 0:
            raise InvalidArgumentError(f"idle_timeout must be positive, got {idle_timeout}")
        return replace(self, idle_timeout=millis)

    def with_watermark_alignment(
        self,
        watermark_group: str,
        max_allowed_watermark_drift: AnyLength,
        update_interval: AnyLength | None = None,
    ) -> WatermarkStrategy[T]:
        """Return the strategy that pauses sources too far ahead of the slowest in their group."""
        drift = millis_of(max_allowed_watermark_drift)
        interval = 1000 if update_interval is None else millis_of(update_interval)
        if not watermark_group:
            raise InvalidArgumentError(
                "with_watermark_alignment() needs the name of a group, got an empty one"
            )
        if drift < 0:
            raise InvalidArgumentError(
                f"max_allowed_watermark_drift must not be negative, got {max_allowed_watermark_drift}"
            )
        if interval <= 0:
            raise InvalidArgumentError(f"update_interval must be positive, got {update_interval}")
        alignment = WatermarkAlignment(watermark_group, drift, interval)
        return replace(self, alignment=alignment)

    def create_generator(self) -> WatermarkGenerator:
        """Build the live generator (called by the runtime, once per split or subtask)."""
        return self.generator.create()

    def timestamp_function(self) -> Callable[[Any, int], int] | None:
        """Return (value, timestamp) -> timestamp, or None when the source's timestamps stay."""
        if isinstance(self.timestamp_assigner, TimestampAssigner):
            return self.timestamp_assigner.extract_timestamp
        return self.timestamp_assigner


def _check_assigner(assigner: Any) -> None:
    """Refuse an assigner that cannot be called with a record and its timestamp, or gives none."""
    used_by = "with_timestamp_assigner()"
    if isinstance(assigner, type) and issubclass(assigner, TimestampAssigner):
        raise WrongArgumentError(
            f"{used_by} needs a TimestampAssigner, got the class {assigner.__name__} itself; pass an instance: "
            f"{assigner.__name__}()"
        )
    if isinstance(assigner, TimestampAssigner):
        check_methods(assigner, used_by)
        return
    why = uncallable(assigner, 2) if python_function(assigner) is not None else None
    if why is not None:
        raise WrongArgumentError(
            f"{used_by} needs a TimestampAssigner or a function of a record and the timestamp that it has, got "
            f"{describe_function(assigner)}; it cannot be called so: {why}"
        )
    check_function(assigner, used_by, "extract_timestamp")


class AssignerWithPeriodicWatermarksWrapper:
    """Holds a Java object in PyFlink; here only so that the name can be imported."""

    def __init__(self, j_assigner_with_periodic_watermarks: object) -> None:
        self._assigner = j_assigner_with_periodic_watermarks
