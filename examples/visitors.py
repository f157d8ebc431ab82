"""Visitors: counts people at the doors of a museum, and goes on counting whatever is killed.

Visitor number ``n`` comes through door ``n % 4`` (north, east, south, west), so of every line one can tell whether it is
right: the count of a door at visitor ``n`` is ``n // 4 + 1``, however often the job was killed and restarted before. The
walkthrough in docs/savepoints.md runs this program, kills it, changes it and reads its state.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from firesteel.common import Configuration, Types, WatermarkStrategy
from firesteel.datastream import DataStream, KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from firesteel.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from firesteel.datastream.state import ValueStateDescriptor

DOORS = ("north", "east", "south", "west")


def visitor(number: int) -> tuple[int, str]:
    return number, DOORS[number % 4]


class CountVisitors(KeyedProcessFunction[str, tuple[int, str], str]):
    """Counts the visitors of each door."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Ask for the count."""
        print(f"{runtime_context.get_task_name_with_subtasks()} is in process {os.getpid()}")
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: tuple[int, str], ctx: KeyedProcessFunction.Context) -> Iterator[str]:
        """One visitor."""
        number, door = value
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield f"visitor {number} is number {count} at the {door} door"


def build(env: StreamExecutionEnvironment, count: int | None = None) -> DataStream[str]:
    source = DataGeneratorSource(visitor, count, RateLimiterStrategy.per_second(20))
    visitors = env.from_source(source, WatermarkStrategy.no_watermarks(), "Visitors").uid("visitors")
    return visitors.key_by(lambda visitor: visitor[1]).process(CountVisitors()).uid("doors")


def main() -> None:
    configuration = Configuration()
    configuration.set_string("execution.checkpointing.interval", "1 s")
    configuration.set_string("execution.checkpointing.dir", "checkpoints")
    configuration.set_string("execution.checkpointing.savepoint-dir", "savepoints")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    build(env).print()
    env.execute("Visitors")


if __name__ == "__main__":
    main()
