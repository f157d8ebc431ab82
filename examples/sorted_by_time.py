"""Sorted by time (J43): records leave in order of their timestamps, each as soon as the watermark says it is complete.

The function keeps records in state and lets a timer at each timestamp release them. The watermark is the promise that
nothing older follows; the bound says how much disorder is expected, and is the price: with a larger one records wait
longer, with a smaller one more are late. Late records are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from event_times import watermark_after_each
from firesteel.common import Types
from firesteel.datastream import DataStream, KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from firesteel.datastream.state import MapStateDescriptor

TIMES = [4, 2, 7, 11, 9, 15, 12, 13, 17, 14, 21, 24, 22, 19, 23]


class Sort(KeyedProcessFunction[str, int, int]):
    """Buffers records by their timestamps."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Ask for the buffer: how many records of each timestamp."""
        self.buffer = runtime_context.get_map_state(MapStateDescriptor("buffer", Types.LONG(), Types.LONG()))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> None:
        """Keep a record until nothing older can come."""
        if value > ctx.timer_service().current_watermark():
            self.buffer.put(value, (self.buffer.get(value) or 0) + 1)
            ctx.timer_service().register_event_time_timer(value)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[int]:
        """Release the records of a timestamp; timers ring in order."""
        yield from [timestamp] * self.buffer[timestamp]
        self.buffer.remove(timestamp)


def build(env: StreamExecutionEnvironment, times: Sequence[int], bound: int = 5) -> DataStream[int]:
    timed = watermark_after_each(env.from_collection(times), lambda time: time, bound)
    return timed.key_by(lambda time: "all").process(Sort())


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    build(env, TIMES).print()
    env.execute("Sorted by time")


if __name__ == "__main__":
    main()
