"""Everything a test wants to see on a cluster, in one driver: results, places, output, and then a job without end.

usage: on_cluster.py MASTER DIRECTORY; what was seen goes to DIRECTORY/seen.pickle
"""

import logging
import os
import pickle
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import same_results
import support

from firesteel.common import Configuration
from firesteel.common.errors import JobExecutionError
from firesteel.connectors.rate_limit import RateLimiterStrategy
from firesteel.datastream import DiscardingSink, MapFunction, StreamExecutionEnvironment
from firesteel.datastream.functions import IntCounter

master, directory = sys.argv[1], Path(sys.argv[2])
logging.basicConfig(level=logging.INFO, format="LOG %(name)s %(message)s", stream=sys.stdout)


def environment(parallelism, **options):
    configuration = Configuration.from_dict({"firesteel.spark.master": master, **options})
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(parallelism)
    for module in (same_results, support):
        env.add_python_file(module.__file__)
    return env


class Place(MapFunction):
    def open(self, runtime_context):
        self.counter = IntCounter()
        runtime_context.add_accumulator("seen", self.counter)
        self.cached = runtime_context.get_cached_file("words")

    def map(self, value):
        import firesteel

        self.counter.add(1)
        print("print in task", value)
        logging.getLogger("in.task").info("logged %s", value)
        return os.getcwd(), firesteel.__file__, open(self.cached).read()


def main():
    seen = {"streaming": {}, "batch": {}}
    for mode in ("streaming", "batch"):
        for name, program in same_results.PROGRAMS.items():
            env = environment(2, **{"execution.runtime-mode": mode.upper()})
            seen[mode][name] = program.run(env, directory / mode / name)

    (directory / "words.txt").write_text("words")
    env = environment(6)
    env.register_cached_file(str(directory / "words.txt"), "words")
    placed = env.from_collection(range(60)).rebalance().map(Place()).name("place")
    placed.map(lambda place: "printed").print("p")
    seen["places"] = sorted(set(placed.execute_and_collect()))

    env = environment(40, **{"slot.request.timeout": "2 s"})
    env.from_sequence(1, 10).print()
    try:
        env.execute()
    except Exception as error:  # noqa: BLE001 - the test looks at what was raised
        seen["slots"] = f"{type(error).__name__}: {error}"
    pickle.dump(seen, (directory / "seen.pickle").open("wb"))

    env = environment(6)
    numbers = env.from_data_gen(lambda n: n, None, RateLimiterStrategy.per_second(1000))
    numbers.key_by(lambda n: n % 100).map(lambda n: n).name("keyed").add_sink(DiscardingSink())
    client = env.execute_async("endless")
    while client.statistics()["keyed"].records_in == 0:
        time.sleep(0.05)
    print("running", flush=True)
    began = time.monotonic()
    try:
        client.wait()
    except JobExecutionError as error:
        print(f"over after {time.monotonic() - began:.1f} s: {type(error).__name__}: {error}", flush=True)


main()
