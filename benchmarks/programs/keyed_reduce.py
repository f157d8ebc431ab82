"""A running sum per key; runs unchanged on PyFlink and on Firesteel.

    python keyed_reduce.py COUNT[,COUNT ...] [KEY=VALUE ...]

The last filter keeps one record only: the final sum of key 0.
"""

import sys
import time

from pyflink.common import Configuration, Types, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.number_seq import NumberSequenceSource

KEYS = 1000


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
        numbers.map(lambda n: (n % KEYS, 1), output_type=pair)
        .key_by(lambda r: r[0], key_type=Types.LONG())
        .reduce(lambda a, b: (a[0], a[1] + b[1]))
        .filter(lambda r: r[0] == 0 and r[1] == count // KEYS)
        .map(lambda r: f"result {r[1]}", output_type=Types.STRING())
        .print()
    )
    started = time.perf_counter()
    env.execute("keyed reduce")
    print(f"seconds {time.perf_counter() - started:.3f}", flush=True)


if __name__ == "__main__":
    for size in sys.argv[1].split(","):
        run(int(size), [argument.split("=", 1) for argument in sys.argv[2:]])
