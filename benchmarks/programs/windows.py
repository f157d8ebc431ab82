# ruff: noqa: D101, D102 - a program as a user writes it
"""Counts per key and window; runs unchanged on PyFlink and on Firesteel.

    python windows.py tumbling|sliding|sessions COUNT[,COUNT ...] [KEY=VALUE ...]

- tumbling: windows of ten seconds, ten records of a key in each
- sliding: the last 24 hours every 15 minutes, so 96 windows for a record; ten records of a key in 15 minutes
- sessions: ten records of a key, a minute apart, then an hour of silence

The numbers come from one task, so that event time is in order everywhere. Printed are the results of a few keys in
the first windows, which are the same for every COUNT.
"""

import sys
import time

from pyflink.common import Configuration, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import AggregateFunction, ProcessWindowFunction, StreamExecutionEnvironment
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from pyflink.datastream.window import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)

MINUTE = 60_000

# Kind of window: (assigner, number of keys, event time of record n, end of the last window that is printed)
KINDS = {
    "tumbling": (TumblingEventTimeWindows.of(Time.seconds(10)), 1000, lambda n: n, 10_000),
    "sliding": (
        SlidingEventTimeWindows.of(Time.hours(24), Time.minutes(15)),
        10,
        lambda n: n * 9000,
        60 * MINUTE,
    ),
    "sessions": (
        EventTimeSessionWindows.with_gap(Time.minutes(30)),
        100,
        lambda n: n // 100 * MINUTE + n // 1000 * 60 * MINUTE,
        120 * MINUTE,
    ),
}


class Second(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Count(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + 1

    def get_result(self, accumulator):
        return accumulator

    def merge(self, a, b):
        return a + b


class WithEnd(ProcessWindowFunction):
    def process(self, key, context, elements):
        for count in elements:
            yield key, context.window().end, count


def run(kind, count, options):
    assigner, keys, time_of, shown_until = KINDS[kind]
    configuration = Configuration()
    for key, value in options:
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    pair = Types.TUPLE([Types.LONG(), Types.LONG()])
    triple = Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG()])
    numbers = env.from_source(
        NumberSequenceSource(0, count - 1), WatermarkStrategy.no_watermarks(), "numbers", Types.LONG()
    ).set_parallelism(1)
    by_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Second())
    (
        numbers.map(lambda n: (n % keys, time_of(n)), output_type=pair)
        .assign_timestamps_and_watermarks(by_time)
        .key_by(lambda r: r[0], key_type=Types.LONG())
        .window(assigner)
        .aggregate(Count(), WithEnd(), accumulator_type=Types.LONG(), output_type=triple)
        .filter(lambda r: r[0] < 3 and r[1] <= shown_until)
        .map(lambda r: f"result {r[0]} {r[1]} {r[2]}", output_type=Types.STRING())
        .print()
    )
    started = time.perf_counter()
    env.execute(f"{kind} windows")
    print(f"seconds {time.perf_counter() - started:.3f}", flush=True)


if __name__ == "__main__":
    for size in sys.argv[2].split(","):
        run(sys.argv[1], int(size), [argument.split("=", 1) for argument in sys.argv[3:]])
