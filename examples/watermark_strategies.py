"""Watermark strategies (J12): four ways to give readings their time, and the stream its clock.

- `within_a_minute`: a generator of one's own that is asked periodically and stays a minute behind.
- `bounded`: the same idea ready-made, ten seconds behind.
- `ascending`: for timestamps that never go back.
- `punctuated`: a generator that reacts to single records: every reading of sensor_1 moves the clock.

Each strategy is followed by a function that shows a record's time and the watermark at that moment. Periodic ones
move at the pace of the job (``auto_watermark_interval``, 200 ms), so what a short input shows of them depends on the
moment; punctuated ones are exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from firesteel.common import Duration, Watermark, WatermarkGenerator, WatermarkOutput, WatermarkStrategy
from firesteel.datastream import DataStream, ProcessFunction, StreamExecutionEnvironment
from sensor_readings import START, SensorReading, fahrenheit_readings

MINUTE = 60 * 1000


class MinuteBehind(WatermarkGenerator[SensorReading]):
    """Periodic: remembers the latest timestamp, and tells when it is asked."""

    def __init__(self) -> None:
        self.latest: int | None = None

    def on_event(self, event: SensorReading, event_timestamp: int, output: WatermarkOutput) -> None:
        """See a reading."""
        self.latest = event_timestamp if self.latest is None else max(self.latest, event_timestamp)

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Every record that is still to come is at most a minute older than the latest."""
        if self.latest is not None:
            output.emit_watermark(Watermark(self.latest - MINUTE))


class BySensorOne(WatermarkGenerator[SensorReading]):
    """Punctuated: the readings of sensor_1 are known to come last of their time."""

    def on_event(self, event: SensorReading, event_timestamp: int, output: WatermarkOutput) -> None:
        """Move the clock at once."""
        if event.id == "sensor_1":
            output.emit_watermark(Watermark(event_timestamp))

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Do nothing."""


within_a_minute = WatermarkStrategy.for_generator(MinuteBehind)
bounded = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(10))
ascending = WatermarkStrategy.for_monotonous_timestamps()
punctuated = WatermarkStrategy.for_generator(BySensorOne)


class ShowTime(ProcessFunction[SensorReading, tuple[str, int, int]]):
    """The sensor, the record's timestamp, and the watermark that came before it."""

    def process_element(
        self, value: SensorReading, ctx: ProcessFunction.Context
    ) -> Iterator[tuple[str, int, int]]:
        """Show one record."""
        timestamp = ctx.timestamp()
        assert timestamp is not None  # the strategy gives every record one
        yield value.id, timestamp, ctx.timer_service().current_watermark()


def build(
    env: StreamExecutionEnvironment, readings: Sequence[SensorReading], strategy: WatermarkStrategy
) -> DataStream[tuple[str, int, int]]:
    with_times = strategy.with_timestamp_assigner(lambda reading, _: reading.timestamp)
    stream = env.from_collection(readings).assign_timestamps_and_watermarks(with_times).set_parallelism(1)
    return stream.process(ShowTime()).set_parallelism(1)


def since_start(shown: tuple[str, int, int]) -> str:
    """Readable times: milliseconds since the first reading."""
    sensor, timestamp, watermark = shown
    clock = "nothing" if watermark < 0 else f"{watermark - START} ms"
    return f"{sensor} at {timestamp - START} ms, watermark: {clock}"


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    strategies = {
        "within a minute": within_a_minute,
        "bounded": bounded,
        "ascending": ascending,
        "punctuated": punctuated,
    }
    for name, strategy in strategies.items():
        build(env, fahrenheit_readings(12), strategy).map(since_start).print(name)
    env.execute("Watermark strategies")


if __name__ == "__main__":
    main()
