# ruff: noqa: D101, D102 - a program as a user writes it
"""A timer at the end of every ten seconds in which a key has records; runs unchanged on PyFlink and on Firesteel.

    python timers.py COUNT[,COUNT ...] [KEY=VALUE ...]

Every record registers the timer at the end of its ten seconds, which is one timer however often that is done; it
rings after ten records of the key. The numbers come from one task, so that event time is in order everywhere.
Printed are the results of a few keys in the first windows, which are the same for every COUNT.
"""

import sys
import time

from pyflink.common import Configuration, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from pyflink.datastream.state import ValueStateDescriptor

KEYS = 1000
PERIOD = 10 * KEYS  # milliseconds, of which every record takes one


class Second(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Alarm(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        now = ctx.timestamp()
        ctx.timer_service().register_event_time_timer(now - now % PERIOD + PERIOD - 1)

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), timestamp


def run(count, options):
    configuration = Configuration()
    for key, value in options:
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    pair = Types.TUPLE([Types.LONG(), Types.LONG()])
    numbers = env.from_source(
        NumberSequenceSource(0, count - 1), WatermarkStrategy.no_watermarks(), "numbers", Types.LONG()
    ).set_parallelism(1)
    by_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Second())
    (
        numbers.map(lambda n: (n % KEYS, n), output_type=pair)
        .assign_timestamps_and_watermarks(by_time)
        .key_by(lambda r: r[0], key_type=Types.LONG())
        .process(Alarm(), output_type=pair)
        .filter(lambda r: r[0] < 5 and r[1] < 2 * PERIOD)
        .map(lambda r: f"result {r[0]} {r[1]}", output_type=Types.STRING())
        .print()
    )
    started = time.perf_counter()
    env.execute("timers")
    print(f"seconds {time.perf_counter() - started:.3f}", flush=True)


if __name__ == "__main__":
    for size in sys.argv[1].split(","):
        run(int(size), [argument.split("=", 1) for argument in sys.argv[2:]])
