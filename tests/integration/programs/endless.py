"""A job without end, in two stages; says when it runs, where its tasks are, and how it ended.

For every --again a small job runs afterwards, and between them the job without end once more.
"""

import os
import sys
import time

from firesteel.common import JobStatus
from firesteel.common.errors import JobExecutionError
from firesteel.connectors.rate_limit import RateLimiterStrategy
from firesteel.datastream import DiscardingSink, MapFunction, StreamExecutionEnvironment


class Announce(MapFunction):
    """Prints its process; hangs at the tenth record when it is told to."""

    def __init__(self, hang):
        self.hang = hang

    def open(self, runtime_context):
        print("task", runtime_context.get_index_of_this_subtask(), os.getpid())
        self.seen = 0

    def map(self, value):
        self.seen += 1
        if self.hang and self.seen == 10:
            while True:
                time.sleep(1000)
        return value


def run_endless(env, options):
    numbers = env.from_data_gen(lambda n: n, None, RateLimiterStrategy.per_second(5000))
    numbers.key_by(lambda n: n % 10).map(Announce("--hang" in options)).add_sink(DiscardingSink())
    client = env.execute_async("endless")
    while client.get_job_status().result() is not JobStatus.RUNNING:
        time.sleep(0.01)
    print("running", flush=True)
    if "--leave" in options:
        return
    began = time.monotonic()
    try:
        client.wait()
    except JobExecutionError as error:
        print(f"over after {time.monotonic() - began:.1f} s: {type(error).__name__}: {error}", flush=True)


def main(options):
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
    run_endless(env, options)
    for number in range(options.count("--again")):
        results = env.from_collection([1, 2, 3]).rebalance().map(lambda x: x * 2).execute_and_collect()
        print(f"again {number}:", sorted(results), flush=True)
        if number + 1 < options.count("--again"):
            run_endless(env, options)


main(sys.argv[1:])
