"""Average sensor readings (J01): the mean temperature of every sensor, in degrees Celsius.

Shows the skeleton of a program: environment, source, transformations, sink, ``execute``. The mean is
a running one over all readings of a sensor so far, kept in state per key. The form with a mean per
five seconds of event time comes with event time and windows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from firesteel.common import Types
from firesteel.datastream import DataStream, KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from firesteel.datastream.state import ValueStateDescriptor
from sensor_readings import SensorReading, fahrenheit_readings, to_celsius


class RunningMean(KeyedProcessFunction):
    """For every reading: the reading with the mean temperature of its sensor so far."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Ask for the state: how many readings, and their sum."""
        pair = Types.TUPLE([Types.LONG(), Types.DOUBLE()])
        self.totals = runtime_context.get_state(ValueStateDescriptor("totals", pair))

    def process_element(
        self, value: SensorReading, ctx: KeyedProcessFunction.Context
    ) -> Iterator[SensorReading]:
        """Add the reading to its sensor's totals."""
        count, total = self.totals.value() or (0, 0.0)
        count, total = count + 1, total + value.temperature
        self.totals.update((count, total))
        yield value._replace(temperature=total / count)


def build(env: StreamExecutionEnvironment, readings: Sequence[SensorReading]) -> DataStream:
    # One task, as the source has: dealt out to several, readings of a sensor could overtake each other.
    celsius = env.from_collection(readings).map(to_celsius).set_parallelism(1)
    return celsius.key_by(lambda reading: reading.id).process(RunningMean())


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    build(env, fahrenheit_readings(50)).print()
    env.execute("Compute average sensor temperature")


if __name__ == "__main__":
    main()
