"""Average sensor readings (J01): the mean temperature of every sensor, in degrees Celsius.

Shows the skeleton of a program: environment, source, transformations, sink, ``execute``. The mean of `build` is
a running one over all readings of a sensor so far, kept in state per key. `build_windowed` gives the mean of
every five seconds of event time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from event_times import in_order_of_time
from firesteel.common import Time, Types
from firesteel.datastream import (
    DataStream,
    KeyedProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
    TimeWindow,
    WindowFunction,
)
from firesteel.datastream.state import ValueStateDescriptor
from firesteel.datastream.window import TumblingEventTimeWindows
from sensor_readings import SensorReading, fahrenheit_readings, reading_time, to_celsius


class RunningMean(KeyedProcessFunction[str, SensorReading, SensorReading]):
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


def build(env: StreamExecutionEnvironment, readings: Sequence[SensorReading]) -> DataStream[SensorReading]:
    # One task, as the source has: dealt out to several, readings of a sensor could overtake each other.
    celsius = env.from_collection(readings).map(to_celsius).set_parallelism(1)
    return celsius.key_by(lambda reading: reading.id).process(RunningMean())


class MeanOfWindow(WindowFunction[SensorReading, SensorReading, str, TimeWindow]):
    """A reading with the mean of a window, timed at the window's end."""

    def apply(self, key: str, window: TimeWindow, inputs: Iterable[SensorReading]) -> Iterator[SensorReading]:
        """One window of a sensor."""
        temperatures = [reading.temperature for reading in inputs]
        yield SensorReading(key, window.end, sum(temperatures) / len(temperatures))


def build_windowed(
    env: StreamExecutionEnvironment, readings: Sequence[SensorReading]
) -> DataStream[SensorReading]:
    celsius = in_order_of_time(env.from_collection(readings), reading_time).map(to_celsius).set_parallelism(1)
    windows = celsius.key_by(lambda reading: reading.id).window(TumblingEventTimeWindows.of(Time.seconds(5)))
    return windows.apply(MeanOfWindow())


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    build(env, fahrenheit_readings(50)).print("so far")
    build_windowed(env, fahrenheit_readings(100)).print("per five seconds")
    env.execute("Compute average sensor temperature")


if __name__ == "__main__":
    main()
