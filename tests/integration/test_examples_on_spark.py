"""The worked examples give the same results on Spark as in the simulator.

All of them together are one job, so that Spark starts once and waiting times pass side by side. What depends on the
machine's clock, or on which of two inputs is first, has a script with pauses: between things that must happen one
after the other there is at least a second, so both engines see them in the same order.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

import pytest
from support import PATIENCE, until

from firesteel.common import Configuration, Time, WatermarkStrategy
from firesteel.datastream import DataStream, StreamExecutionEnvironment
from firesteel.queryable_state import QueryableStateClient
from firesteel.testing import Emit, Pause, ScriptedSource, simulated_environment

EXAMPLES = Path(__file__).parents[2] / "examples"

Example = Callable[[str], ModuleType]
Streams = DataStream | Sequence[DataStream]
Program = Callable[[Example, StreamExecutionEnvironment], Streams]


def readings(example: Example) -> Any:
    return example("sensor_readings").fahrenheit_readings(200)


def with_input(name: str, build: str, made_from: Callable[[Example], Any]) -> Program:
    """A program whose ``build`` takes the environment and some input."""
    return lambda example, env: getattr(example(name), build)(env, made_from(example))


def of_readings(name: str, build: str = "build") -> Program:
    return with_input(name, build, readings)


def own_input(name: str, constant: str, build: str = "build") -> Program:
    """A program with the input that its module brings along."""
    return with_input(name, build, lambda example: getattr(example(name), constant))


def of_fares(name: str) -> Program:
    return with_input(name, "build", lambda example: example("taxi_rides").taxi_fares())


def of_rides(name: str) -> Program:
    return with_input(name, "build", lambda example: example("taxi_rides").taxi_rides())


# Programs that need some words -------------------------------------------------------------------------


def simple_functions(example: Example, env: StreamExecutionEnvironment) -> Streams:
    return example("map_filter_flat_map").build(env, readings(example), ["to be", "or not"])


def cities(example: Example, env: StreamExecutionEnvironment) -> Streams:
    module = example("union_of_cities")
    return module.build(
        env, *(module.city(name, 6, seed) for seed, name in enumerate(("paris", "rio", "oslo")))
    )


def fire_alerts(example: Example, env: StreamExecutionEnvironment) -> Streams:
    module = example("fire_alert")
    heat, smoke = [("a", 1_000), ("a", 900_000), ("b", 5_000)], [("a", 601_000), ("b", 4_999)]
    return (
        module.build(env, module.TEMPERATURES, module.SMOKE),
        module.build_with_broadcast(env, module.TEMPERATURES, [10.0, 80.0]),
        module.build_hot_then_smoke(env, heat, smoke),
    )


def partitioned(example: Example, env: StreamExecutionEnvironment) -> Streams:
    """Only negative numbers have a task of their own; the others go to a random one."""
    numbers = example("custom_partitioning").build(env, range(-5, 20))
    return numbers.map(lambda pair: pair if pair[1] < 0 else pair[1])


def parameters(example: Example, env: StreamExecutionEnvironment) -> Streams:
    module = example("parameters_and_context")
    return module.matching_tweets(env, module.TWEETS, "flink"), module.build(env, range(1, 7))


def punctuated_watermarks(example: Example, env: StreamExecutionEnvironment) -> Streams:
    module = example("watermark_strategies")
    return module.build(env, example("sensor_readings").fahrenheit_readings(20), module.punctuated)


def first_events(example: Example, env: StreamExecutionEnvironment) -> Streams:
    module = example("first_events")
    return module.build(env.from_collection(module.EVENTS)), module.build_with_timers(
        env.from_collection(module.EVENTS)
    )


def training(example: Example, env: StreamExecutionEnvironment) -> Streams:
    """All four exercises, from the same generated rides."""
    module, generator = example("training"), example("taxi_generator")
    rides, fares = generator.ride_stream(env, 300), generator.fare_stream(env, 300)
    return [stream for build in module.EXERCISES.values() for stream in build(rides, fares).values()]


def rides_and_fares(example: Example, env: StreamExecutionEnvironment) -> Streams:
    module = example("rides_and_fares")
    rides, fares = env.from_collection(module.RIDES), env.from_collection(module.FARES)
    return (module.build(rides, fares), *module.build_with_timers(rides, fares))


def late_readings(example: Example, env: StreamExecutionEnvironment) -> Streams:
    module = example("late_readings")
    timed = module.timed(env, module.READINGS)
    return (*module.counts_and_late(timed), *module.on_time_and_late(timed))


def page_views(example: Example, env: StreamExecutionEnvironment) -> Streams:
    module = example("page_views")
    views = module.timed(env, module.VIEWS)
    kinds = (module.per_minute, module.per_minute_every_ten_seconds, module.per_session, module.busiest_user)
    return [kind(views) for kind in kinds]


def joins(example: Example, env: StreamExecutionEnvironment) -> Streams:
    module = example("joining_streams")
    a, b = module.timed(env, module.A), module.timed(env, module.B)
    return module.interval_joined(a, b), module.window_joined(a, b), module.co_grouped(a, b)


def sales_in_fives(example: Example, env: StreamExecutionEnvironment) -> Streams:
    module = example("sales_per_window")
    return module.per_five_sales(env.from_collection(module.LINES))


def levels_by_event_time(example: Example, env: StreamExecutionEnvironment) -> Streams:
    module = example("bubbles")
    return module.by_event_time(env.from_collection([*module.BOB, *module.ALICE]))


# Programs by the clock of the machine --------------------------------------------------------------------


def scripted(env: StreamExecutionEnvironment, *steps: float | list[Any]) -> DataStream:
    """Records, and seconds to wait between them. It begins when all tasks have had time to start."""
    script = [Emit(step) if isinstance(step, list) else Pause(step) for step in (2.0, *steps)]
    source = env.from_source(ScriptedSource(script), WatermarkStrategy.no_watermarks(), "Script")
    return source.set_parallelism(1)


def control_words(example: Example, env: StreamExecutionEnvironment) -> Streams:
    module = example("control_words")
    return module.build(scripted(env, module.CONTROL), scripted(env, 2.0, module.WORDS))


def periodic_watermarks(example: Example, env: StreamExecutionEnvironment) -> Streams:
    module = example("watermark_strategies")
    first, second, third = example("sensor_readings").fahrenheit_readings(3)
    shown = []
    for strategy in (module.within_a_minute, module.bounded, module.ascending):
        timed = strategy.with_timestamp_assigner(lambda reading, _: reading.timestamp)
        stream = scripted(env, [first], 1.0, [second], 1.0, [third]).assign_timestamps_and_watermarks(timed)
        shown.append(stream.set_parallelism(1).process(module.ShowTime()).set_parallelism(1))
    return shown


def rising_temperatures(example: Example, env: StreamExecutionEnvironment) -> Streams:
    reading = example("sensor_readings").SensorReading
    both = [[reading(sensor, 0, temperature) for sensor in "ab"] for temperature in (1.0, 2.0)]
    paced = scripted(env, both[0], 0.1, both[1], 0.1, [reading("b", 0, 1.5)], 2.5)
    return example("rising_temperatures").build(paced)


def sensor_switches(example: Example, env: StreamExecutionEnvironment) -> Streams:
    reading = example("sensor_readings").SensorReading
    one, two = ([reading(f"sensor_{number}", time, 0.0) for number in (1, 2, 7)] for time in (1, 2))
    switches = scripted(env, [("sensor_2", 2_000), ("sensor_7", 60_000)])
    return example("sensor_switches").build(scripted(env, 1.0, one, 3.0, two), switches)


def current_thresholds(example: Example, env: StreamExecutionEnvironment) -> Streams:
    reading = example("sensor_readings").SensorReading
    both = {value: [reading(sensor, 0, value) for sensor in "ab"] for value in (10.0, 20.0, 25.0, 28.0)}
    paced = scripted(env, both[10.0], both[20.0], 2.0, both[25.0], 2.0, both[28.0])
    return example("current_thresholds").build(paced, scripted(env, 1.0, [("a", 4.0)], 2.0, [("b", 1.0)]))


def first_events_with_ttl(example: Example, env: StreamExecutionEnvironment) -> Streams:
    module = example("first_events")
    events = [module.Event("a", number) for number in range(4)]
    paced = scripted(env, events[:2], 1.0, events[2:3], 3.0, events[3:])
    return module.build_with_ttl(paced, Time.seconds(2))


def sales_per_two_seconds(example: Example, env: StreamExecutionEnvironment) -> Streams:
    module = example("sales_per_window")
    return module.per_two_seconds(scripted(env, module.LINES[:4], 3.0, module.LINES[4:6], 3.0))


def levels_by_processing_time(example: Example, env: StreamExecutionEnvironment) -> Streams:
    module = example("bubbles")
    first, *in_the_tunnel = module.ALICE
    paced = scripted(env, [first, module.BOB[0]], 3.0, [module.BOB[1], *in_the_tunnel], 3.0)
    return module.by_processing_time(paced, Time.seconds(2))


Check = Callable[[list[list[Any]], list[list[Any]]], bool]


def as_far(spark: list[list[Any]], simulated: list[list[Any]]) -> bool:
    """The same records; the watermark of each is one that there is, and none is ahead of its time."""
    return all(
        [record[:2] for record in found] == [record[:2] for record in exact]
        and all(
            record[2] in {each[2] for each in exact} and record[2] <= most[2]
            for record, most in zip(found, exact, strict=True)
        )
        for found, exact in zip(spark, simulated, strict=True)
    )


def added_up(sales: list[Any]) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    for sale in sales:
        profit, count = found.get(sale.month, (0, 0))
        found[sale.month] = (profit + sale.profit, count + sale.sales)
    return found


#: Programs by the clock of the machine, each with what must be true however slow the machine is. What exactly they give
#: is known where the clock is not the machine's: in the simulator, see tests/examples.
BY_THE_CLOCK: dict[str, tuple[Program, Check]] = {
    "J12 periodic watermarks": (periodic_watermarks, as_far),
    # More alarms if the machine needs a second from a rise to the fall behind it.
    "J13 rising temperatures": (rising_temperatures, lambda found, exact: {*exact[0]} <= {*found[0]}),
    # What comes before its switch, or after its time, is not forwarded.
    "J15 switches": (
        sensor_switches,
        lambda found, _: (
            {(r.id, r.timestamp) for r in found[0]}
            <= {(f"sensor_{number}", time) for number in (2, 7) for time in (1, 2)}
        ),
    ),
    "J24 thresholds": (
        current_thresholds,
        lambda found, _: all(sensor in "ab" and change > 0 for sensor, _, change in found[0]),
    ),
    "J37 time to live": (
        first_events_with_ttl,
        lambda found, exact: found[0][0] == exact[0][0] and len(found[0]) <= 4,
    ),
    # More words if one of them comes before its control word.
    "J38 control words": (control_words, lambda found, exact: {*exact[0]} <= {*found[0]}),
    "J46 per two seconds": (
        sales_per_two_seconds,
        lambda found, exact: added_up(found[0]) == added_up(exact[0]),
    ),
    # Each of Bob's bursts is enough for a level, in whichever window it falls; Alice needs several in one.
    "J47 processing time": (
        levels_by_processing_time,
        lambda found, _: sum(bubbles for who, bubbles in found[0] if who == "Bob") == 1020,
    ),
}

PROGRAMS: dict[str, Program] = {
    "J01 running mean": of_readings("average_sensor_readings"),
    "J01 mean per window": of_readings("average_sensor_readings", "build_windowed"),
    "J02 hashtags": own_input("hashtag_count", "TWEETS"),
    "J03 map, filter, flat_map": simple_functions,
    "J04 rolling sum": own_input("rolling_sum", "RECORDS"),
    "J05 reduce": own_input("words_per_language", "RECORDS"),
    "J06 union": cities,
    "J07 fire alerts": fire_alerts,
    "J08 split": own_input("split_numbers", "RECORDS"),
    "J09 partitioner": partitioned,
    "J11 parameters": parameters,
    "J12 punctuated watermarks": punctuated_watermarks,
    "J14 side output": own_input("freezing_alarms", "READINGS"),
    "J16 window aggregates": of_readings("window_aggregates"),
    "J17 minimum and maximum": of_readings("min_max_per_window"),
    "J17 incrementally": of_readings("min_max_per_window", "build_incrementally"),
    "J18 custom windows": of_readings("custom_windows"),
    "J19 joins": joins,
    "J20 late readings": late_readings,
    "J21 updating counts": own_input("updating_counts", "READINGS"),
    "J22 class": own_input("temperature_changes", "READINGS"),
    "J22 function": own_input("temperature_changes", "READINGS", "build_with_state"),
    "J23 hot readings": of_readings("hot_readings"),
    "J23 per sensor": of_readings("hot_readings", "build_per_sensor"),
    "J25 forgetting": own_input("forgetting_sensors", "READINGS"),
    "J32 metrics": own_input("scheduling_and_metrics", "NUMBERS", "build_metrics"),
    "J34 adults": lambda example, env: example("adults").build(env).map(str),
    "J35 ride cleansing": of_rides("ride_cleansing"),
    "J36 longest rides": of_rides("longest_rides"),
    "J37 first events": first_events,
    "J39 rides and fares": rides_and_fares,
    "J40 hourly tips": of_fares("hourly_tips"),
    "J41 by process": of_fares("hourly_tips_by_process"),
    "J42 long rides": own_input("long_rides", "EVENTS"),
    "J43 sorted": own_input("sorted_by_time", "TIMES"),
    "J44 maximum": of_readings("max_per_minute"),
    "J44 incrementally": of_readings("max_per_minute", "build_incrementally"),
    "J45 page views": page_views,
    "J46 in fives": sales_in_fives,
    "J47 event time": levels_by_event_time,
    "training exercises": training,
}

Results = dict[str, list[str]]


def records_of(programs: dict[str, Program], env: StreamExecutionEnvironment) -> dict[str, list[Any]]:
    """The records of each stream of each program, in one job; order among tasks means nothing."""
    labelled = []
    for name, program in programs.items():
        streams = program(importlib.import_module, env)
        for number, stream in enumerate([streams] if isinstance(streams, DataStream) else streams):
            label = f"{name}, {number}"
            labelled.append(stream.map(lambda value, label=label: (label, value)))
    first, *others = labelled
    everything = first.union(*others) if others else first
    found: dict[str, list[Any]] = defaultdict(list)
    with everything.execute_and_collect() as records:
        for label, record in records:
            found[label].append(record)
    return {label: sorted(records, key=repr) for label, records in found.items()}


def results_of(programs: dict[str, Program], env: StreamExecutionEnvironment) -> Results:
    """What each of the programs gives, as text."""
    return {
        label: [repr(record) for record in records] for label, records in records_of(programs, env).items()
    }


def only(name: str, results: Results) -> Results:
    return {label: texts for label, texts in results.items() if label.rpartition(", ")[0] == name}


@pytest.fixture(scope="module")
def _examples() -> Iterator[None]:
    """Examples are found by name, as `firesteel run` would find the modules beside them."""
    sys.path.insert(0, str(EXAMPLES))
    yield
    sys.path.remove(str(EXAMPLES))


@pytest.fixture(scope="module")
def simulated(_examples: None) -> Results:
    return results_of(PROGRAMS, simulated_environment(3, 2))


@pytest.fixture(scope="module")
def on_spark(_examples: None, spark: None) -> Results:
    return results_of(PROGRAMS, StreamExecutionEnvironment.get_execution_environment().set_parallelism(2))


@pytest.mark.spark
@pytest.mark.parametrize("name", PROGRAMS)
def test_example_gives_the_same_on_spark(name: str, simulated: Results, on_spark: Results) -> None:
    assert only(name, on_spark) == only(name, simulated) != {}


def streams_of(name: str, records: dict[str, list[Any]]) -> list[list[Any]]:
    return [records[label] for label in sorted(records) if label.rpartition(", ")[0] == name]


@pytest.fixture(scope="module")
def clocked_on_spark(_examples: None, spark: None) -> dict[str, list[Any]]:
    programs = {name: program for name, (program, _) in BY_THE_CLOCK.items()}
    return records_of(programs, StreamExecutionEnvironment.get_execution_environment().set_parallelism(2))


@pytest.mark.spark
@pytest.mark.parametrize("name", BY_THE_CLOCK)
@pytest.mark.usefixtures("_examples")
def test_example_by_the_clock_gives_what_it_can_on_spark(
    name: str, clocked_on_spark: dict[str, list[Any]]
) -> None:
    program, check = BY_THE_CLOCK[name]
    exact = records_of({name: program}, simulated_environment(3, 2))
    found = streams_of(name, clocked_on_spark)
    assert check(found, streams_of(name, exact)), found


@pytest.mark.spark
@pytest.mark.usefixtures("_examples")
def test_in_batch_thresholds_are_there_before_the_first_reading(
    environment: Callable[..., StreamExecutionEnvironment],
) -> None:
    def thresholds(example: Example, env: StreamExecutionEnvironment) -> Streams:
        module = example("current_thresholds")
        return module.build(env.from_collection(readings(example)), env.from_collection(module.UPDATES))

    batch = {"execution.runtime-mode": "BATCH"}
    expected = results_of({"J24": thresholds}, simulated_environment(5, 2, Configuration.from_dict(batch)))
    assert results_of({"J24": thresholds}, environment(2, **batch)) == expected != {}


@pytest.mark.spark
def test_endless_job_is_submitted_watched_and_cancelled(tmp_path: Path) -> None:
    """J01: what the example says, as a user would type it."""
    environment = {**os.environ, "FIRESTEEL_HOME": str(tmp_path)}

    def firesteel(*words: str) -> str:
        command = [sys.executable, "-m", "firesteel.cli.main", *words]
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    submitted = firesteel("run", "-d", "-p", "1", str(EXAMPLES / "endless_averages.py"))
    found = re.search(r"JobID (\w+)\nProcess (\d+) runs it, with output to (.*)\.\n", submitted)
    assert found, submitted
    job, process, log = found[1], int(found[2]), Path(found[3])
    try:
        until(lambda: "sensor_10 had " in log.read_text(), "means of all sensors")
        listed = firesteel("list", "-t")
        assert re.search(rf"{job}.*Endless averages.*RUNNING", listed), listed
        firesteel("cancel", job)
        until(lambda: "was cancelled" in log.read_text(), "the end of the job")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


@pytest.mark.spark
@pytest.mark.usefixtures("_examples")
def test_operators_of_different_parallelism(
    env: StreamExecutionEnvironment, capsys: pytest.CaptureFixture[str]
) -> None:
    """J10: the sink prints, with the task's number before each line."""
    importlib.import_module("operator_parallelism").build(env, last=5)
    env.execute()
    lines = capsys.readouterr().out.splitlines()
    assert sorted(int(line.split("> ")[1]) for line in lines) == [1, 4, 9, 16, 25]
    assert {line.split(">")[0] for line in lines} <= {"1", "2"}


@pytest.mark.spark
@pytest.mark.usefixtures("_examples")
def test_client_asks_for_the_maxima_of_five_sensors(
    environment: Callable[..., StreamExecutionEnvironment], capsys: pytest.CaptureFixture[str]
) -> None:
    """J26: of windows of a second, so that nobody waits for ten."""
    module, live = importlib.import_module("queryable_maxima"), importlib.import_module("endless_averages")
    env = environment(2, **{"queryable-state.enable": "true", "rest.port": "0"})
    module.build(env, live.sensors(), Time.seconds(1))
    job: Any = env.execute_async("Queryable maxima")
    at = urlsplit(job.rest_url)
    names = [f"sensor_{number}" for number in range(1, 6)]
    assert at.hostname is not None
    assert at.port is not None
    with QueryableStateClient(at.hostname, at.port, timeout=PATIENCE) as client:
        until(
            lambda: None not in module.maxima_of(client, job.get_job_id(), names).values(),
            "a maximum of each sensor",
        )
    module.main(["--ask", str(job.get_job_id()), "--at", at.netloc, "--rounds", "1"])
    job.cancel().result()
    line = capsys.readouterr().out.splitlines()[-1]
    assert re.fullmatch(r" *\d+\.\d °C( \| +\d+\.\d °C){4}", line), line
