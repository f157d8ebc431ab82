"""Resettable source (J28): nothing -> 0, 1, 2, ... and after a failure the numbers go on behind the last checkpoint.

`CountSource` counts from the beginning whenever it is started. `ResettableCountSource` keeps how far it has come in
operator state. It emits a number and advances its position under the checkpoint lock: so no checkpoint can come
between the two, and the position in a checkpoint is that of the last number before it.
"""

from __future__ import annotations

import time

from failing_mapper import FailingMapper
from firesteel.common import Types
from firesteel.datastream import DataStream, StreamExecutionEnvironment
from firesteel.datastream.functions import (
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    SourceFunction,
)
from firesteel.datastream.state import ListStateDescriptor


class CountSource(SourceFunction[int]):
    """Counts from 0 to ``end``, with a pause after each number."""

    bounded = True

    def __init__(self, end: int, pause_seconds: float = 0.0) -> None:
        self.end = end
        self.pause_seconds = pause_seconds
        self.is_running = True
        self.next = 0

    def run(self, ctx: SourceFunction.SourceContext) -> None:
        """Emit number after number."""
        while self.is_running and self.next < self.end:
            with ctx.get_checkpoint_lock():
                ctx.collect(self.next)
                self.next += 1
            time.sleep(self.pause_seconds)

    def cancel(self) -> None:
        """End the loop."""
        self.is_running = False


class ResettableCountSource(CountSource, CheckpointedFunction):
    """The same, with its position in checkpoints."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Ask for the state; after a failure it holds the position of the checkpoint."""
        descriptor = ListStateDescriptor("next number", Types.LONG())
        self.position = context.get_operator_state_store().get_list_state(descriptor)
        for number in self.position.get():
            self.next = number

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Put the position into the checkpoint."""
        self.position.update([self.next])


def build(
    env: StreamExecutionEnvironment, source: SourceFunction, records_until_failure: int
) -> DataStream[int]:
    numbers = env.add_source(source, type_info=Types.LONG())
    return numbers.map(FailingMapper(records_until_failure, failures=2), Types.LONG())


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(500)
    build(env, ResettableCountSource(100, pause_seconds=0.05), records_until_failure=40).print()
    env.execute("Resettable numbers")


if __name__ == "__main__":
    main()
