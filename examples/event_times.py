"""Timestamps and watermarks for the examples.

`in_order_of_time` is what most programs use. `watermark_after_each` moves the stream's clock with every record, so
it is certain which records are late: examples about late data use it, others need not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from firesteel.common import Duration, Watermark, WatermarkGenerator, WatermarkOutput, WatermarkStrategy
from firesteel.datastream import DataStream

T = TypeVar("T")


def in_order_of_time(
    stream: DataStream[T], time_of: Callable[[T], int], bound: Duration | None = None
) -> DataStream[T]:
    """Timestamps by a function of the record; records may be late by up to ``bound``, five seconds if none is given."""
    strategy = WatermarkStrategy[T].for_bounded_out_of_orderness(bound or Duration.of_seconds(5))
    return _assigned(stream, strategy, time_of)


class AfterEach(WatermarkGenerator[Any]):
    """After every record: nothing follows that is older than the latest record by more than the bound."""

    def __init__(self, bound: int) -> None:
        self.bound = bound

    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        """Move the clock; a watermark that would turn it back is ignored."""
        output.emit_watermark(Watermark(event_timestamp - self.bound - 1))

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Do nothing: the records do it."""


def watermark_after_each(stream: DataStream[T], time_of: Callable[[T], int], bound: int = 0) -> DataStream[T]:
    """Timestamps by a function of the record, and a watermark after each, ``bound`` milliseconds behind."""
    return _assigned(stream, WatermarkStrategy.for_generator(lambda: AfterEach(bound)), time_of)


def _assigned(
    stream: DataStream[T], strategy: WatermarkStrategy[T], time_of: Callable[[T], int]
) -> DataStream[T]:
    # One task, as the sources of the examples have: records keep their order.
    timed = strategy.with_timestamp_assigner(lambda record, _: time_of(record))
    return stream.assign_timestamps_and_watermarks(timed).set_parallelism(1)
