"""The demonstration: a network of sensors, statistics per sensor, and how fast it all is.

A generator sends readings at a steady rate. They are converted, divided by sensor, and turned into
running statistics with state per key; a sink shows these in the terminal and measures how old every
reading is when it arrives there. All of it is one Spark job whose stages run at the same time:

    Sensors -> Celsius   =by sensor=>   Statistics   =>   Dashboard

``--seconds``, ``--rate``, ``--sensors`` and ``--parallelism`` change it; Ctrl-C ends it early.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import shutil
import sys
import time
from collections import deque
from collections.abc import Iterator

from firesteel.common import Types
from firesteel.datastream import (
    DiscardingSink,
    KeyedProcessFunction,
    RuntimeContext,
    SinkFunction,
    StreamExecutionEnvironment,
)
from firesteel.datastream.connectors import RateLimiterStrategy
from firesteel.datastream.state import ValueStateDescriptor
from sensor_readings import SensorReading, to_celsius

HOT = 75.0  # degrees Celsius
WARM_UP_SECONDS = 2.0
FRAME_SECONDS = 0.25
LINE_SECONDS = 2.0
BARS = "▁▂▃▄▅▆▇█"

# Sensor, temperature now, smallest, mean, largest, number of readings, when the last reading was made.
Update = tuple[str, float, float, float, float, int, float]


class SensorNetwork:
    """Makes reading number ``index``: sensors in turn, each around its own temperature, now and then too hot."""

    def __init__(self, sensors: int) -> None:
        self.sensors = sensors

    def map(self, index: int) -> SensorReading:
        """The reading, made now."""
        now = time.time()
        sensor = index % self.sensors
        fahrenheit = 120 + 2 * sensor + 8 * math.sin(now / 3 + sensor) + random.gauss(0, 1.5)
        if int(now / 4) % self.sensors == sensor:  # for four seconds it is this sensor's turn to overheat
            fahrenheit += 60 * math.sin(math.pi * (now % 4) / 4) ** 2
        return SensorReading(f"sensor-{sensor + 1:02}", int(now * 1_000_000), fahrenheit)


class RunningStatistics(KeyedProcessFunction[str, SensorReading, Update]):
    """Per sensor: smallest, mean and largest temperature so far, in state."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Ask for the state of a sensor: number of readings, sum, smallest, largest."""
        kind = Types.TUPLE([Types.LONG(), Types.DOUBLE(), Types.DOUBLE(), Types.DOUBLE()])
        self.state = runtime_context.get_state(ValueStateDescriptor("statistics", kind))

    def process_element(self, value: SensorReading, ctx: KeyedProcessFunction.Context) -> Iterator[Update]:
        """Update the statistics and emit them."""
        count, total, low, high = self.state.value() or (0, 0.0, math.inf, -math.inf)
        now = value.temperature
        count, total, low, high = count + 1, total + now, min(low, now), max(high, now)
        self.state.update((count, total, low, high))
        yield value.id, now, low, total / count, high, count, value.timestamp / 1_000_000


class Dashboard(SinkFunction[Update]):
    """Shows the statistics: a view that renews itself on a terminal, otherwise a line now and then."""

    def __init__(self, title: str, seconds: int, live: bool, columns: int, rows: int) -> None:
        self.title, self.seconds, self.live = title, seconds, live
        self.columns, self.rows = columns, rows  # of the terminal

    def open(self, runtime_context: RuntimeContext) -> None:
        """Begin with an empty view."""
        self.began = self.drawn = time.time()
        self.drawn_count = self.count = self.alarms = self.lines = 0
        self.sensors: dict[str, Update] = {}
        self.history: dict[str, deque[float]] = {}
        self.hot: set[str] = set()
        self.ages: list[float] = []  # of the readings since the last frame, when they arrived, in seconds
        self.recent: deque[list[float]] = deque(maxlen=8 if self.live else 1)  # the same for two seconds
        self.steady: list[float] = []  # the same after the first seconds
        self.rate, self.latency = 0.0, "measuring"

    def invoke(self, value: Update, context: SinkFunction.Context) -> None:
        """Note one update."""
        now = time.time()
        sensor, temperature, *_, created = value
        self.count += 1
        self.ages.append(now - created)
        if now - self.began > WARM_UP_SECONDS:
            self.steady.append(now - created)
        self.sensors[sensor] = value
        if temperature > HOT and sensor not in self.hot:
            self.hot.add(sensor)
            self.alarms += 1
        elif temperature < HOT - 5:
            self.hot.discard(sensor)
        if now - self.drawn >= (FRAME_SECONDS if self.live else LINE_SECONDS):
            self._measure(now)
            print("\n".join(self._frame(now) if self.live else self._status(now)), flush=True)

    def close(self) -> None:
        """Say how it went; also when the job is cancelled."""
        seconds = max(time.time() - self.began, 0.001)
        steady = self.steady or self.ages
        print(
            f"\n{self.count:,} readings of {len(self.sensors)} sensors in {seconds:.1f} s, "
            f"{self.count / seconds:,.0f} per second, {alarms(self.alarms)} above {HOT:.0f} °C\n"
            f"from the making of a reading to this view: {percentiles(steady)} "
            f"(without the first {WARM_UP_SECONDS:.0f} s)"
        )

    def _measure(self, now: float) -> None:
        self.rate = (self.count - self.drawn_count) / (now - self.drawn)
        self.recent.append(self.ages)
        self.latency = percentiles([age for ages in self.recent for age in ages])
        self.ages = []
        self.drawn, self.drawn_count = now, self.count
        for sensor, update in self.sensors.items():
            self.history.setdefault(sensor, deque(maxlen=24)).append(update[1])

    def _status(self, now: float) -> list[str]:
        hottest = max(self.sensors.values(), key=lambda update: update[1])
        line = (
            f"{now - self.began:5.1f} s  {self.rate:7,.0f} readings/s  {self.latency}  "
            f"hottest now {hottest[0]} with {hottest[1]:.1f} °C (mean {hottest[3]:.1f} °C)  {alarms(self.alarms)}"
        )
        return [line]

    def _frame(self, now: float) -> list[str]:
        shown = sorted(self.sensors)[: max(self.rows - 7, 1)]
        hidden = len(self.sensors) - len(shown)
        lines = [
            f"{self.title}   {now - self.began:4.1f} of {self.seconds} s"[: self.columns],
            "",
            "sensor        now     min    mean     max   readings"[: self.columns],
            *(self._row(self.sensors[sensor]) for sensor in shown),
            f"and {hidden} more sensors"[: self.columns] if hidden else "",
            self._totals()[: self.columns],
        ]
        # Back to where the last frame began, then clear to the end of the screen.
        back = f"\x1b[{self.lines}A\x1b[J" if self.lines else ""
        self.lines = len(lines)
        return [back + lines[0], *lines[1:]]

    def _totals(self) -> str:
        return (
            f"{self.rate:,.0f} readings/s   {self.count:,} in all   latency {self.latency}   "
            f"{alarms(self.alarms)}"
        )

    def _row(self, update: Update) -> str:
        sensor, now, low, mean, high, count, _ = update
        text = f"{sensor}  {now:6.1f}  {low:6.1f}  {mean:6.1f}  {high:6.1f}  {count:9,}  "
        mark = " HOT" if sensor in self.hot else ""
        bars = sparkline(self.history[sensor], low, high)
        line = text + bars[: max(self.columns - len(text) - len(mark), 0)] + mark
        return f"\x1b[1;31m{line[: self.columns]}\x1b[0m" if mark else line[: self.columns]


def percentiles(latencies: list[float]) -> str:
    """The median and the 99th percentile, in milliseconds."""
    if not latencies:
        return "p50 -  p99 -"
    ordered = sorted(latencies)
    p50, p99 = ordered[len(ordered) // 2], ordered[len(ordered) * 99 // 100]
    return f"p50 {p50 * 1000:.1f} ms  p99 {p99 * 1000:.1f} ms"


def alarms(count: int) -> str:
    """A number of alarms in words."""
    return "1 alarm" if count == 1 else f"{count} alarms"


def sparkline(values: deque[float], low: float, high: float) -> str:
    """One bar for each value, as high as it lies between ``low`` and ``high``."""
    step = (high - low) / len(BARS) or 1.0
    return "".join(BARS[min(int((value - low) / step), len(BARS) - 1)] for value in values)


def build(
    env: StreamExecutionEnvironment, dashboard: SinkFunction, rate: int, count: int, sensors: int
) -> None:
    readings = env.from_data_gen(
        SensorNetwork(sensors), count, RateLimiterStrategy.per_second(rate), "Sensors"
    )
    celsius = readings.map(to_celsius).name("Celsius")
    statistics = celsius.key_by(lambda reading: reading.id).process(RunningStatistics()).name("Statistics")
    statistics.add_sink(dashboard).name("Dashboard").set_parallelism(1)


def main() -> None:
    options = parse_options()
    title = (
        f"firesteel demo: {options.sensors} sensors, {options.rate:,} readings/s, "
        f"parallelism {options.parallelism}"
    )
    print("starting Spark inside this program, which takes some seconds ...", flush=True)
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(options.parallelism)
    columns, rows = shutil.get_terminal_size()
    dashboard = Dashboard(title, options.seconds, sys.stdout.isatty(), columns, rows)
    try:
        # The first job of a Java process is slow: code is loaded and compiled. Let a short one take that.
        build(env, DiscardingSink(), options.rate, options.rate, options.sensors)
        env.execute("warm-up")
        print("" if dashboard.live else title, flush=True)
        build(env, dashboard, options.rate, options.rate * options.seconds, options.sensors)
        env.execute("firesteel demo")
    except KeyboardInterrupt:
        sys.exit(130)
    here = os.path.relpath(os.path.dirname(os.path.abspath(__file__)))
    print(
        f"\nwhat to look at next\n"
        f"  {os.path.join(here, 'demo.py')}   this program\n"
        f"  firesteel run {os.path.join(here, 'hashtag_count.py')}   a smaller one\n"
        f"  firesteel info {os.path.join(here, 'demo.py')}   how it is divided into stages\n"
        f"  docs/getting_started.md   how to write your own"
    )


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Readings of sensors, statistics per sensor, rates and latencies."
    )
    parser.add_argument("--seconds", type=positive, default=30, help="how long it runs (30)")
    parser.add_argument("--rate", type=positive, default=1000, help="readings per second (1000)")
    parser.add_argument("--sensors", type=positive, default=12, help="number of sensors (12)")
    parser.add_argument("--parallelism", type=positive, default=2, help="tasks per operator (2)")
    return parser.parse_args()


def positive(text: str) -> int:
    """A whole number above 0."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not above 0")
    return number


if __name__ == "__main__":
    main()
