# ruff: noqa: D101, D102 - a program as a user writes it
"""A count per key in value state, by a keyed process function; runs unchanged on PyFlink and on Firesteel.

    python value_state.py KEYS COUNT[,COUNT ...] [KEY=VALUE ...]

Every record gives a result. Printed are the first ones of a few keys, which are the same for every COUNT.
"""

import sys
import time

from pyflink.common import Configuration, Types, WatermarkStrategy
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from pyflink.datastream.state import ValueStateDescriptor


class RunningCount(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield value[0], count


def run(keys, count, options):
    configuration = Configuration()
    for key, value in options:
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    pair = Types.TUPLE([Types.LONG(), Types.LONG()])
    numbers = env.from_source(
        NumberSequenceSource(0, count - 1), WatermarkStrategy.no_watermarks(), "numbers", Types.LONG()
    )
    (
        numbers.map(lambda n: (n % keys, n), output_type=pair)
        .key_by(lambda r: r[0], key_type=Types.LONG())
        .process(RunningCount(), output_type=pair)
        .filter(lambda r: r[0] < 5 and r[1] <= 4)
        .map(lambda r: f"result {r[0]} {r[1]}", output_type=Types.STRING())
        .print()
    )
    started = time.perf_counter()
    env.execute("value state")
    print(f"seconds {time.perf_counter() - started:.3f}", flush=True)


if __name__ == "__main__":
    for size in sys.argv[2].split(","):
        run(int(sys.argv[1]), int(size), [argument.split("=", 1) for argument in sys.argv[3:]])
