"""map, filter and flat_map over a sequence of numbers; runs unchanged on PyFlink and on Firesteel.

    python stateless.py COUNT[,COUNT ...] [KEY=VALUE ...]

The last filter keeps one record only, so that printing costs nothing and still shows that all was done.
"""

import sys
import time

from pyflink.common import Configuration, Types, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.number_seq import NumberSequenceSource


def halves(record):
    yield record[0], record[1] // 2
    yield record[0], record[1] - record[1] // 2


def run(count, options):
    configuration = Configuration()
    for key, value in options:
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    pair = Types.TUPLE([Types.LONG(), Types.LONG()])
    numbers = env.from_source(
        NumberSequenceSource(1, count), WatermarkStrategy.no_watermarks(), "numbers", Types.LONG()
    )
    (
        numbers.map(lambda n: (n, n * 3), output_type=pair)
        .filter(lambda r: r[0] % 4 != 1)
        .flat_map(halves, output_type=pair)
        .filter(lambda r: r[0] == count)
        .map(lambda r: f"result {r[1]}", output_type=Types.STRING())
        .print()
    )
    started = time.perf_counter()
    env.execute("stateless")
    print(f"seconds {time.perf_counter() - started:.3f}", flush=True)


if __name__ == "__main__":
    for size in sys.argv[1].split(","):
        run(int(size), [argument.split("=", 1) for argument in sys.argv[2:]])
