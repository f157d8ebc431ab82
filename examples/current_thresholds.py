"""Current thresholds (J24): temperature changes above a threshold that can be changed while the job runs.

Updates (sensor, threshold) are broadcast to all tasks, and each keeps them in broadcast state; 0.0 removes a threshold.
Readings stay divided by sensor. Their side may read the thresholds and not change them: only so do all tasks keep the
same ones. A sensor without a threshold gives no alerts. As between any two inputs, nothing defines whether a reading
or an update comes first.
"""

from __future__ import annotations

from collections.abc import Iterator

from firesteel.common import Types
from firesteel.datastream import (
    DataStream,
    KeyedBroadcastProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from firesteel.datastream.connectors import RateLimiterStrategy
from firesteel.datastream.state import MapStateDescriptor, ValueStateDescriptor
from sensor_readings import SensorReading, fahrenheit_readings

THRESHOLDS = MapStateDescriptor("thresholds", Types.STRING(), Types.DOUBLE())
UPDATES = [("sensor_1", 5.0), ("sensor_2", 0.9), ("sensor_3", 0.5), ("sensor_1", 1.2), ("sensor_3", 0.0)]


class AlertByThreshold(
    KeyedBroadcastProcessFunction[str, SensorReading, tuple[str, float], tuple[str, float, float]]
):
    """(sensor, temperature, change) for changes above the sensor's threshold."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Ask for the last temperature of a sensor."""
        self.last = runtime_context.get_state(ValueStateDescriptor("last temperature", Types.DOUBLE()))

    def process_element(
        self, value: SensorReading, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext
    ) -> Iterator[tuple[str, float, float]]:
        """A reading: compare."""
        last = self.last.value()
        self.last.update(value.temperature)
        threshold = ctx.get_broadcast_state(THRESHOLDS).get(value.id)
        if last is None or threshold is None:
            return
        change = round(abs(value.temperature - last), 2)
        if change > threshold:
            yield value.id, value.temperature, change

    def process_broadcast_element(
        self, value: tuple[str, float], ctx: KeyedBroadcastProcessFunction.Context
    ) -> None:
        """An update of a threshold."""
        sensor, threshold = value
        thresholds = ctx.get_broadcast_state(THRESHOLDS)
        if threshold != 0.0:
            thresholds.put(sensor, threshold)
        elif thresholds.contains(sensor):
            thresholds.remove(sensor)


def build(readings: DataStream[SensorReading], updates: DataStream) -> DataStream[tuple[str, float, float]]:
    keyed = readings.key_by(lambda reading: reading.id)
    return keyed.connect(updates.broadcast(THRESHOLDS)).process(AlertByThreshold())


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    known = fahrenheit_readings(40)
    # Slowly, so that the updates are first.
    paced = env.from_data_gen(known.__getitem__, len(known), RateLimiterStrategy.per_second(10))
    build(paced.set_parallelism(1), env.from_collection(UPDATES)).print()
    env.execute("Current thresholds")


if __name__ == "__main__":
    main()
