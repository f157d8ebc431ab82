"""Custom partitioning (J09): negative numbers go to the first task, all others to a random one.

The partitioner gets the key and the number of tasks and returns the index of one of them. Unlike
``key_by`` it gives no state per key: it only says where records go.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from firesteel.datastream import (
    DataStream,
    MapFunction,
    Partitioner,
    RuntimeContext,
    StreamExecutionEnvironment,
)


class NegativesFirst(Partitioner[int]):
    """Task 0 for negative keys, any task for the others."""

    def partition(self, key: int, num_partitions: int) -> int:
        """Return the index of the task."""
        return 0 if key < 0 else random.randrange(num_partitions)


class WithTask(MapFunction[int, tuple[int, int]]):
    """Pairs a record with the index of the task that sees it."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Learn the index."""
        self.task = runtime_context.get_index_of_this_subtask()

    def map(self, value: int) -> tuple[int, int]:
        """Return the pair."""
        return self.task, value


def build(env: StreamExecutionEnvironment, numbers: Sequence[int]) -> DataStream[tuple[int, int]]:
    stream = env.from_collection(numbers)
    return stream.partition_custom(NegativesFirst(), lambda number: number).map(WithTask())


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    build(env, range(-5, 6)).print()
    env.execute("Custom partitioning")


if __name__ == "__main__":
    main()
