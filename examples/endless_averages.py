"""Average sensor readings without end (J01): submit a job, watch it, cancel it.

In the background, with commands:

    firesteel run -d examples/endless_averages.py     # submit; says the job's id and where its output goes
    firesteel list -t                                 # watch: its state, and those of its tasks
    firesteel cancel JOB_ID                           # end it; "firesteel stop" would take a savepoint, too

In the foreground Ctrl-C cancels it: ``firesteel run examples/endless_averages.py``. And by another program, which is what
`watch_and_cancel` does with the client of a running job, for so many seconds:

    firesteel run examples/endless_averages.py --seconds 10

Ten sensors are read ten times a second each; every second of event time there is the mean of each, in degrees Celsius.
"""

from __future__ import annotations

import argparse
import math
import random
import time
from collections.abc import Callable, Sequence

from average_sensor_readings import MeanOfWindow
from firesteel.common import Duration, Time, WatermarkStrategy
from firesteel.common.job_client import JobClient
from firesteel.datastream import DataStream, StreamExecutionEnvironment
from firesteel.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from firesteel.datastream.window import TumblingEventTimeWindows
from sensor_readings import SensorReading, reading_time, to_celsius

SENSORS = 10
PER_SECOND = 10  # of each sensor


def reading_now(number: int) -> SensorReading:
    """Reading number so-and-so, made now, in degrees Fahrenheit."""
    now = time.time()
    sensor = number % SENSORS
    fahrenheit = 65 + 2 * sensor + 10 * math.sin(now / 20 + sensor) + random.gauss(0, 1)
    return SensorReading(f"sensor_{sensor + 1}", int(now * 1000), fahrenheit)


def sensors(count: int | None = None) -> DataGeneratorSource:
    """All readings, without end unless a count is given."""
    return DataGeneratorSource(reading_now, count, RateLimiterStrategy.per_second(SENSORS * PER_SECOND))


def build(env: StreamExecutionEnvironment, source: DataGeneratorSource) -> DataStream:
    """The mean of every sensor and second."""
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(200))
    timed = strategy.with_timestamp_assigner(lambda reading, _: reading_time(reading))
    readings = env.from_source(source, timed, "Sensors")
    by_sensor = readings.map(to_celsius).name("Celsius").key_by(lambda reading: reading.id)
    return by_sensor.window(TumblingEventTimeWindows.of(Time.seconds(1))).apply(MeanOfWindow())


def watch_and_cancel(client: JobClient, seconds: int, wait: Callable[[float], None] = time.sleep) -> str:
    """Say once a second how the job is, then cancel it: its last state."""
    for second in range(1, seconds + 1):
        wait(1.0)
        print(f"watching: {client.get_job_status().result().name} after {second} s")
    client.cancel().result()
    return str(client.get_job_status().result().name)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--seconds", type=int, help="watch it for so long, then cancel it; otherwise it does not end"
    )
    seconds = parser.parse_args(arguments).seconds
    env = StreamExecutionEnvironment.get_execution_environment()
    build(env, sensors()).map(lambda mean: f"{mean.id} had {mean.temperature:.1f} °C").print()
    if seconds is None:
        env.execute("Endless averages")
        return
    client = env.execute_async("Endless averages")
    print(f"the job is {client.get_job_id()}; it is {watch_and_cancel(client, seconds)}")


if __name__ == "__main__":
    main()
