"""A PyFlink program: counts words as they come."""

import argparse
import logging
import sys

from pyflink.common import Types
from pyflink.datastream import RuntimeExecutionMode, StreamExecutionEnvironment


def word_count(text):
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_runtime_mode(RuntimeExecutionMode.STREAMING)
    env.set_parallelism(1)

    def split(line):
        yield from line.split()

    words = env.from_collection(text).flat_map(split)
    words.map(lambda word: (word, 1), output_type=Types.TUPLE([Types.STRING(), Types.INT()])).key_by(
        lambda pair: pair[0]
    ).reduce(lambda a, b: (a[0], a[1] + b[1])).print()
    env.execute()


if __name__ == "__main__":
    logging.basicConfig(stream=sys.stdout, level=logging.WARNING, format="%(message)s")
    parser = argparse.ArgumentParser()
    parser.add_argument("--text", default="to be or not to be")
    word_count([parser.parse_args().text])
