"""Hot readings (J23): readings -> how many of them were hot, counted by each task for itself, in operator state.

`HotReadings` keeps one number per task. When the job resumes with more tasks, the numbers are dealt out, and some tasks get
none. `HotReadingsInParts` cuts its number into ten, so that every task gets something. `HotReadingsPerSensor` counts
per sensor as well, in keyed state.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from firesteel.common import Types
from firesteel.datastream import DataStream, FlatMapFunction, RuntimeContext, StreamExecutionEnvironment
from firesteel.datastream.functions import (
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    ListCheckpointed,
)
from firesteel.datastream.state import ListStateDescriptor, ValueStateDescriptor
from sensor_readings import SensorReading, fahrenheit_readings

THRESHOLD = 80.0
PARTS = 10


class HotReadings(FlatMapFunction[SensorReading, tuple[int, int]], ListCheckpointed):
    """Emits the task's number and its count for every hot reading."""

    def __init__(self, threshold: float) -> None:
        self.threshold = threshold
        self.count = 0

    def open(self, runtime_context: RuntimeContext) -> None:
        """Learn which task this is."""
        self.subtask = runtime_context.get_index_of_this_subtask()

    def flat_map(self, value: SensorReading) -> Iterator[tuple[int, int]]:
        """One reading."""
        if value.temperature > self.threshold:
            self.count += 1
            yield self.subtask, self.count

    def restore_state(self, state: list[int]) -> None:
        """Add up what this task gets, nothing at a first start."""
        self.count = sum(state)

    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> list[int]:
        """The count as a list with one element."""
        return [self.count]


class HotReadingsInParts(HotReadings):
    """The same, with a count that can be dealt out to more tasks."""

    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> list[int]:
        """The count in ten parts."""
        whole, rest = divmod(self.count, PARTS)
        return [whole + 1] * rest + [whole] * (PARTS - rest)


class HotReadingsPerSensor(FlatMapFunction[SensorReading, tuple[str, int, int]], CheckpointedFunction):
    """Emits sensor, count of the sensor and count of the task for every hot reading."""

    def __init__(self, threshold: float) -> None:
        self.threshold = threshold

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Ask for the state of the sensors and for that of the task."""
        of_sensor = ValueStateDescriptor("of the sensor", Types.LONG())
        of_task = ListStateDescriptor("of the task", Types.LONG())
        self.of_sensor = context.get_keyed_state_store().get_state(of_sensor)
        self.of_task = context.get_operator_state_store().get_list_state(of_task)
        self.count = sum(self.of_task.get())

    def flat_map(self, value: SensorReading) -> Iterator[tuple[str, int, int]]:
        """One reading."""
        if value.temperature > self.threshold:
            self.count += 1
            of_sensor = (self.of_sensor.value() or 0) + 1
            self.of_sensor.update(of_sensor)
            yield value.id, of_sensor, self.count

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Put the task's count into its state; those of the sensors are there."""
        self.of_task.update([self.count])


def build(env: StreamExecutionEnvironment, readings: Sequence[SensorReading]) -> DataStream[tuple[int, int]]:
    return env.from_collection(readings).rebalance().flat_map(HotReadingsInParts(THRESHOLD))


def build_per_sensor(
    env: StreamExecutionEnvironment, readings: Sequence[SensorReading]
) -> DataStream[tuple[str, int, int]]:
    keyed = env.from_collection(readings).key_by(lambda reading: reading.id)
    return keyed.flat_map(HotReadingsPerSensor(THRESHOLD))


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(1000)
    readings = fahrenheit_readings(200)
    build(env, readings).print("task")
    build_per_sensor(env, readings).print("sensor")
    env.execute("Hot readings")


if __name__ == "__main__":
    main()
