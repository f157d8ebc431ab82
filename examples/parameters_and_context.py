"""Functions with parameters and with a life cycle (J11).

``KeywordFilter`` gets its word in the constructor: a function object is pickled with everything in it
when the program is built, and every task works with its own copy. What cannot be pickled, such as a
connection, is created in ``open`` instead, which runs once per task before the first record, and
released in ``close``. ``open`` also gets the runtime context: which of how many tasks this is, state,
accumulators.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from firesteel.datastream import (
    DataStream,
    FilterFunction,
    FlatMapFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from firesteel.datastream.functions import IntCounter

TWEETS = ["apache flink", "hello world", "flink on spark", "spark alone"]


class KeywordFilter(FilterFunction[str]):
    """Keeps the tweets that contain a word."""

    def __init__(self, word: str) -> None:
        self.word = word

    def filter(self, value: str) -> bool:
        """Return whether the word occurs."""
        return self.word in value


class OwnShare(FlatMapFunction[int, tuple[int, int]]):
    """Of the numbers, those that leave this task's index when divided by two, with that index."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Learn which task this is, and count what it leaves to others."""
        self.task = runtime_context.get_index_of_this_subtask()
        self.left = IntCounter()
        runtime_context.add_accumulator("left to other tasks", self.left)

    def flat_map(self, value: int) -> Iterator[tuple[int, int]]:
        """Yield the number if it is this task's."""
        if value % 2 == self.task:
            yield self.task, value
        else:
            self.left.add(1)

    def close(self) -> None:
        """Nothing to release here; the place to close connections."""


def matching_tweets(env: StreamExecutionEnvironment, tweets: Sequence[str], word: str) -> DataStream[str]:
    return env.from_collection(tweets).filter(KeywordFilter(word))


def build(env: StreamExecutionEnvironment, numbers: Sequence[int]) -> DataStream[tuple[int, int]]:
    # Broadcast: every task sees every number, so each number is taken by exactly one of the two tasks.
    return env.from_collection(numbers).broadcast().flat_map(OwnShare()).set_parallelism(2)


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    matching_tweets(env, TWEETS, "flink").print("tweet")
    build(env, range(1, 7)).print("number").set_parallelism(2)
    print(env.execute("Parameters and context"))


if __name__ == "__main__":
    main()
