"""One query of Nexmark after the other; runs unchanged on PyFlink and on Firesteel.

    python nexmark.py QUERY:COUNT[,QUERY:COUNT ...] [KEY=VALUE ...]

The numbers of the events come from one task, so that event time is in order everywhere. Printed are a few results
that are the same for every COUNT from 12,000 on.
"""

import sys
import time

import nexmark_events
import nexmark_queries
from pyflink.common import Configuration, Types, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.number_seq import NumberSequenceSource


def run(name, count, options):
    query, has_time, is_shown = nexmark_queries.QUERIES[name]
    configuration = Configuration()
    for key, value in options:
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    for module in (nexmark_events, nexmark_queries):
        env.add_python_file(module.__file__)
    numbers = env.from_source(
        NumberSequenceSource(0, count - 1), WatermarkStrategy.no_watermarks(), "numbers", Types.LONG()
    ).set_parallelism(1)
    events = numbers.map(nexmark_events.event)
    if has_time:
        by_time = WatermarkStrategy.for_monotonous_timestamps()
        events = events.assign_timestamps_and_watermarks(
            by_time.with_timestamp_assigner(nexmark_queries.EventTime())
        )
    results = query(events)
    shown = results.filter(is_shown if is_shown is not None else lambda r: False)
    shown.map(lambda r: f"result {name} {r}", output_type=Types.STRING()).print()
    started = time.perf_counter()
    env.execute(name)
    print(f"seconds {time.perf_counter() - started:.3f}", flush=True)


if __name__ == "__main__":
    for job in sys.argv[1].split(","):
        query_name, size = job.split(":")
        run(query_name, int(size), [argument.split("=", 1) for argument in sys.argv[2:]])
