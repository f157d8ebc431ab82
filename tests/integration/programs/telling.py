"""Sends a word through the shuffle and over the control connections, again and again, until somebody ends it.

usage: telling.py WORD-BACKWARDS; the word itself is in the memory of tasks only, not in the program
"""

import sys

from firesteel.common import WatermarkStrategy
from firesteel.datastream import MapFunction, StreamExecutionEnvironment
from firesteel.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy


class Turned(MapFunction):
    """(key, word backwards) -> (key, word)."""

    def map(self, value):
        return value[0], value[1][::-1]


backwards = sys.argv[1]
env = StreamExecutionEnvironment.get_execution_environment()
source = DataGeneratorSource(lambda n: (n % 7, backwards), None, RateLimiterStrategy.per_second(200))
words = env.from_source(source, WatermarkStrategy.no_watermarks(), "words").map(Turned())
words.key_by(lambda record: record[0]).map(lambda record: record[1]).print()
env.execute("telling")
