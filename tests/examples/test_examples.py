"""Every worked example gives the results its docstring promises, in whatever order its tasks take their steps."""

from __future__ import annotations

import ast
import json
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from firesteel.common import WatermarkStrategy
from firesteel.testing import CollectSink, Emit, Pause, ScriptedSource, simulated_environment

EXAMPLES = Path(__file__).parents[2] / "examples"
WITH_TESTS_OF_THEIR_OWN = (
    "demo",
    "visitors",
    "training",
    "endless_averages",
    "orders_with_dead_letters",
    "queryable_maxima",  # it does not end
)
PROGRAMS = sorted(
    path.stem
    for path in EXAMPLES.glob("*.py")
    if path.stem not in WITH_TESTS_OF_THEIR_OWN and "__main__" in path.read_text(encoding="utf-8")
)


def by_key(records, key=lambda record: record[0]):
    """The records of each key, in their order: what is defined when keys are spread over tasks."""
    found = defaultdict(list)
    for record in records:
        found[key(record)].append(record)
    return dict(found)


def test_visitors_are_counted_per_door(example, env, collected):
    lines = collected(example("visitors").build(env, count=12))
    doors = ["north", "east", "south", "west"]
    expected = [f"visitor {n} is number {n // 4 + 1} at the {doors[n % 4]} door" for n in range(12)]
    assert sorted(lines) == sorted(expected)


# J01 - J06 --------------------------------------------------------------------------------------------


def test_average_is_a_running_mean_in_celsius(example, env, collected):
    module = example("average_sensor_readings")
    readings = example("sensor_readings").fahrenheit_readings(40)
    found = by_key(collected(module.build(env, readings)))
    expected = defaultdict(list)
    totals = defaultdict(lambda: (0, 0.0))
    for reading in readings:
        count, total = totals[reading.id]
        totals[reading.id] = count, total = count + 1, total + (reading.temperature - 32) * 5 / 9
        expected[reading.id].append(reading._replace(temperature=total / count))
    assert found == expected


def test_hashtags_are_counted(example, env, collected):
    module = example("hashtag_count")
    assert by_key(collected(module.build(env, module.TWEETS))) == {
        "summit": [("summit", 1), ("summit", 2)],
        "train": [("train", 1), ("train", 2)],
        "streaming": [("streaming", 1), ("streaming", 2), ("streaming", 3)],
        "state": [("state", 1), ("state", 2)],
    }


def test_map_filter_and_flat_map(example, env):
    module = example("map_filter_flat_map")
    reading = example("sensor_readings").SensorReading
    readings = [reading("a", 1, 24.9), reading("b", 2, 25.0), reading("a", 3, 80.0)]
    sinks = [CollectSink() for _ in range(3)]
    for stream, sink in zip(module.build(env, readings, ["to be", "or"]), sinks, strict=True):
        stream.add_sink(sink)
    env.execute()
    ids, warm, words = (sorted(sink.values) for sink in sinks)
    assert (ids, warm, words) == (["a", "a", "b"], [readings[2], readings[1]], ["be", "or", "to"])


def test_rolling_sum(example, env, collected):
    module = example("rolling_sum")
    assert by_key(collected(module.build(env, module.RECORDS))) == {
        1: [(1, 2, 2), (1, 7, 2)],
        2: [(2, 3, 1), (2, 5, 1)],
    }


def test_words_per_language(example, env, collected):
    module = example("words_per_language")
    assert by_key(collected(module.build(env, module.RECORDS))) == {
        "en": [("en", ["tea"]), ("en", ["tea", "cake"])],
        "fr": [("fr", ["vin"])],
    }


def test_union_keeps_everything_and_the_order_of_each_city(example, collected):
    module = example("union_of_cities")
    cities = [module.city(name, 6, seed) for seed, name in enumerate(("paris", "tokyo", "rio"))]
    for seed in range(5):
        env = simulated_environment(seed=seed, parallelism=1)
        found = by_key(collected(module.build(env, *cities)), key=lambda reading: reading.id.split("/")[0])
        assert found == {"paris": cities[0], "tokyo": cities[1], "rio": cities[2]}


# J07 - J11 --------------------------------------------------------------------------------------------


def test_fire_alert_comes_once_where_it_is_hot_and_smoky(example, env, collected):
    module = example("fire_alert")
    found = collected(module.build(env, module.TEMPERATURES, module.SMOKE))
    assert sorted(found) == ["fire alert: north", "fire alert: south"]


def test_broadcast_smoke_reaches_every_task(example, env, collected):
    module = example("fire_alert")
    found = collected(module.build_with_broadcast(env, module.TEMPERATURES, [10.0, 80.0]))
    assert sorted(found) == [
        "fire alert: north has 120.0 degrees",
        "fire alert: south has 104.0 degrees",
        "fire alert: west has 101.0 degrees",
    ]


def test_no_alert_without_smoke(example, env, collected):
    module = example("fire_alert")
    assert collected(module.build_with_broadcast(env, module.TEMPERATURES, [10.0])) == []


def test_smoke_must_follow_heat_within_ten_minutes(example, env, collected):
    module = example("fire_alert")
    heat = [("a", 1_000), ("a", 900_000), ("b", 5_000)]
    smoke = [("a", 601_000), ("a", 601_001), ("b", 4_999), ("c", 5_000)]
    assert collected(module.build_hot_then_smoke(env, heat, smoke)) == [("a", 1_000, 601_000)]


def test_split_into_large_small_and_both(example, env):
    module = example("split_numbers")
    sinks = [CollectSink() for _ in range(3)]
    for stream, sink in zip(module.build(env, module.RECORDS), sinks, strict=True):
        stream.add_sink(sink)
    env.execute()
    large, small, both = (sorted(number for number, _ in sink.values) for sink in sinks)
    assert (large, small, both) == ([1001, 70_000], [5, 1000], [5, 1000, 1001, 70_000])


def test_negative_numbers_go_to_the_first_task(example, env, collected):
    module = example("custom_partitioning")
    found = collected(module.build(env, range(-20, 60)))
    assert sorted(number for _, number in found) == list(range(-20, 60))
    assert {task for task, number in found if number < 0} == {0}
    assert {task for task, number in found if number >= 0} == {0, 1}


@pytest.mark.parametrize(("default", "expected"), [(16, [16, 32, 2]), (8, [8, 16, 2])])
def test_parallelism_is_relative_to_the_default(example, default, expected):
    env = simulated_environment(parallelism=default)
    example("operator_parallelism").build(env)
    plan = json.loads(env.get_execution_plan())
    assert [node["parallelism"] for node in plan["nodes"]] == expected


def test_squares_come_out_of_every_parallelism(example, env, capsys):
    example("operator_parallelism").build(env, last=5)
    env.execute()
    lines = capsys.readouterr().out.splitlines()
    assert sorted(int(line.split("> ")[1]) for line in lines) == [1, 4, 9, 16, 25]
    assert {line.split(">")[0] for line in lines} <= {"1", "2"}


def test_keyword_comes_from_the_constructor(example, env, collected):
    module = example("parameters_and_context")
    found = collected(module.matching_tweets(env, module.TWEETS, "flink"))
    assert sorted(found) == ["apache flink", "flink on spark"]


def test_each_task_takes_its_own_share(example, env):
    sink = CollectSink()
    example("parameters_and_context").build(env, range(1, 7)).add_sink(sink)
    result = env.execute()
    assert sorted(sink.values) == [(0, 2), (0, 4), (0, 6), (1, 1), (1, 3), (1, 5)]
    assert result.get_accumulator_result("left to other tasks") == 6


def test_orders_are_summed_and_bad_ones_set_aside(example, env):
    sums, bad = CollectSink(), CollectSink()
    for stream, sink in zip(example("orders_with_dead_letters").build(env), (sums, bad), strict=True):
        stream.add_sink(sink)
    env.execute()
    newest = {customer: found[-1][1] for customer, found in by_key(sums.values).items()}
    assert newest == {"ada": "12.60", "alan": "3.20"}
    reasons = ("object missing required field price", "invalid character", "at price: invalid decimal string")
    assert len(bad.values) == len(reasons)
    assert all(any(reason in text for text in bad.values) for reason in reasons)


def test_orders_run_as_a_program(example, simulator, capsys):
    example("orders_with_dead_letters").main()
    assert "('ada', '12.60')" in capsys.readouterr().out


# J34 - J36, J38 ---------------------------------------------------------------------------------------


def test_adults_are_printed_with_their_task(example, env, capsys):
    example("adults").build(env).print()
    env.execute()
    assert sorted(capsys.readouterr().out.splitlines()) == ["1> Fred: age 35", "2> Wilma: age 35"]


def test_ride_cleansing_keeps_rides_inside_the_city(example, env, collected):
    rides = example("taxi_rides").taxi_rides()
    found = collected(example("ride_cleansing").build(env, rides))
    inside = [
        ride
        for ride in rides
        if all(-74.05 <= p.lon <= -73.7 and 40.5 <= p.lat <= 41.0 for p in (ride.start, ride.end))
    ]
    assert 0 < len(inside) < len(rides)
    assert Counter(found) == Counter(inside)


def test_longest_ride_of_each_cell_so_far(example, env, collected):
    rides = example("taxi_rides").taxi_rides()
    found = by_key(collected(example("longest_rides").build(env, rides)))
    assert [minutes for _, minutes in found[50797]] == [6, 8, 11, 12]
    assert [minutes for _, minutes in found[54285]] == [20, 20]


def test_map_and_flat_map_enrich_alike(example, env):
    module = example("longest_rides")
    rides = env.from_collection(example("taxi_rides").taxi_rides())
    by_map, by_flat_map = CollectSink(), CollectSink()
    module.enriched(rides).add_sink(by_map)
    module.enriched_by_flat_map(rides).add_sink(by_flat_map)
    env.execute()
    assert Counter(by_map.values) == Counter(by_flat_map.values)
    assert by_map.values


def test_grid_cells_are_where_their_centres_are(example):
    module = example("taxi_rides")
    assert all(module.grid_cell(module.cell_centre(cell)) == cell for cell in (0, 249, 250, 50797, 99_999))


def after_a_minute(env, values):
    """A source that is silent for a minute of the job's clock first."""
    source = ScriptedSource([Pause(60.0), Emit(values)])
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "Late").set_parallelism(1)


def test_control_words_that_come_first_drop_words(example, env, collected):
    module = example("control_words")
    found = collected(module.build(env.from_collection(module.CONTROL), after_a_minute(env, module.WORDS)))
    assert sorted(found) == ["Apache", "Flink"]


def test_control_words_that_come_late_drop_nothing(example, env, collected):
    module = example("control_words")
    found = collected(module.build(after_a_minute(env, module.CONTROL), env.from_collection(module.WORDS)))
    assert sorted(found) == sorted(module.WORDS)


# All of them ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_says_what_it_shows_and_runs_as_a_program(name, example, capsys, simulator, monkeypatch):
    module = example(name)
    monkeypatch.setattr(sys, "argv", [f"{name}.py"])
    assert "(J" in ast.get_docstring(ast.parse((EXAMPLES / f"{name}.py").read_text(encoding="utf-8")))
    module.main()
    assert capsys.readouterr().out
