"""The worked examples about windows and joins give the results their docstrings promise."""

from __future__ import annotations

from collections import defaultdict

import pytest

from firesteel.common import WatermarkStrategy
from firesteel.testing import CollectSink, Emit, Pause, ScriptedSource


def collected_from(env, *streams):
    """What each of several streams of one job carries."""
    sinks = [CollectSink() for _ in streams]
    for stream, sink in zip(streams, sinks, strict=True):
        stream.add_sink(sink)
    env.execute()
    return [sink.values for sink in sinks]


def grouped(readings, size):
    """Temperatures by sensor and end of the window: what windows should hold, the simple way."""
    found = defaultdict(list)
    for reading in readings:
        found[reading.id, reading.timestamp // size * size + size].append(reading.temperature)
    return found


# J01, J16 - J18 ---------------------------------------------------------------------------------------


def test_average_of_five_seconds_in_celsius(example, env, collected):
    module = example("average_sensor_readings")
    readings = example("sensor_readings").fahrenheit_readings(120)
    expected = {
        key: sum((value - 32) * 5 / 9 for value in values) / len(values)
        for key, values in grouped(readings, 5000).items()
    }
    found = collected(module.build_windowed(env, readings))
    assert len(found) == len(expected)
    assert {(mean.id, mean.timestamp): mean.temperature for mean in found} == pytest.approx(expected)


def test_minimum_and_mean_of_fifteen_seconds(example, env):
    module = example("window_aggregates")
    readings = example("sensor_readings").fahrenheit_readings(400)
    coldest, mean = collected_from(env, *module.build(env, readings))
    windows = grouped(readings, 15_000)
    assert sorted(coldest) == sorted((sensor, min(values)) for (sensor, _), values in windows.items())
    assert sorted(mean) == sorted(
        (sensor, round(sum(values) / len(values), 3)) for (sensor, _), values in windows.items()
    )


@pytest.mark.parametrize("form", ["build", "build_incrementally"])
def test_minimum_and_maximum_with_the_end(example, env, collected, form):
    readings = example("sensor_readings").fahrenheit_readings(120)
    assert sorted(collected(getattr(example("min_max_per_window"), form)(env, readings))) == sorted(
        (sensor, min(values), max(values), end) for (sensor, end), values in grouped(readings, 5000).items()
    )


def test_early_results_at_most_once_per_second(example, env, collected):
    module = example("custom_windows")
    readings = example("sensor_readings").readings_of(
        *(("a", second, 1.0) for second in (0.1, 0.5, 0.9, 1.2, 1.3, 5.0, 5.5, 9.5, 10.5, 12.0))
    )
    assert collected(module.build(env, readings)) == [
        ("a", 10, 4, 1),
        ("a", 10, 6, 5),
        ("a", 10, 8, 9),
        ("a", 10, 8, 10),
        ("a", 40, 2, 12),
        ("a", 40, 2, 40),
    ]


# J19 --------------------------------------------------------------------------------------------------


def test_pairs_of_an_interval(example, env, collected):
    module = example("joining_streams")
    found = collected(module.interval_joined(module.timed(env, module.A), module.timed(env, module.B)))
    assert sorted(found) == [
        ("a1", "b2", 65),
        ("a1", "b4", 80),
        ("a2", "b3", 72),
        ("a3", "b4", 130),
        ("a3", "b5", 130),
    ]


def test_pairs_and_groups_of_a_window(example, env):
    module = example("joining_streams")
    a, b = module.timed(env, module.A), module.timed(env, module.B)
    pairs, groups = collected_from(env, module.window_joined(a, b), module.co_grouped(a, b))
    assert sorted(pairs) == [("a1", "b4"), ("a1", "b5"), ("a2", "b3")]
    assert sorted(groups) == [([], ["b1", "b2"]), (["a1"], ["b4", "b5"]), (["a2"], ["b3"]), (["a3"], [])]


# J20, J21 ---------------------------------------------------------------------------------------------


def seconds_of(readings, start):
    return [(reading.timestamp - start) // 1000 for reading in readings]


def test_late_readings_of_windows(example, env):
    module = example("late_readings")
    counts, late = collected_from(env, *module.counts_and_late(module.timed(env, module.READINGS)))
    assert sorted(counts) == [
        ("sensor_1", 10, 3),
        ("sensor_1", 20, 2),
        ("sensor_1", 30, 2),
        ("sensor_1", 40, 1),
        ("sensor_2", 40, 1),
    ]
    assert seconds_of(late, module.START) == [3, 9]


def test_late_readings_of_a_process_function(example, env):
    module = example("late_readings")
    on_time, late = collected_from(env, *module.on_time_and_late(module.timed(env, module.READINGS)))
    assert sorted(seconds_of(on_time, module.START)) == [1, 4, 8, 10, 12, 21, 30, 31]
    assert sorted(seconds_of(late, module.START)) == [3, 9, 20]


def test_counts_are_updated_for_five_seconds(example, env, collected):
    module = example("updating_counts")
    assert collected(module.build(env, module.READINGS)) == [
        ("sensor_1", 10, 2, "first"),
        ("sensor_1", 10, 3, "update"),
        ("sensor_1", 10, 4, "update"),
        ("sensor_1", 20, 3, "first"),
        ("sensor_1", 30, 1, "first"),
    ]


# J44 - J47 --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["build", "build_incrementally"])
def test_highest_of_a_minute_may_be_below_zero(example, env, collected, form):
    sensors = example("sensor_readings")
    readings = [
        reading._replace(temperature=reading.temperature - 200)
        for reading in sensors.fahrenheit_readings(1000)
    ]
    expected = [(sensor, end, max(values)) for (sensor, end), values in grouped(readings, 60_000).items()]
    found = collected(getattr(example("max_per_minute"), form)(env, readings))
    assert sorted(found) == sorted(expected)
    assert all(highest < 0 for *_, highest in found)


def test_views_per_minute_session_and_busiest_user(example, env):
    module = example("page_views")
    views = module.timed(env, module.VIEWS)
    minutes, sessions, busiest = collected_from(
        env, module.per_minute(views), module.per_session(views), module.busiest_user(views)
    )
    assert sorted(minutes) == [
        ("ann", 0, 60, 3),
        ("ann", 2400, 2460, 1),
        ("bob", 0, 60, 1),
        ("bob", 60, 120, 2),
    ]
    assert sorted(sessions) == [("ann", 5, 1858, 3), ("ann", 2400, 4200, 1), ("bob", 20, 1919, 3)]
    assert sorted(busiest) == [("ann", 0, 60, 3), ("ann", 2400, 2460, 1), ("bob", 60, 120, 2)]


def test_views_per_minute_every_ten_seconds(example, env, collected):
    module = example("page_views")
    expected = defaultdict(int)
    for view in module.VIEWS:
        last_start = view.second // 10 * 10
        for start in range(last_start - 50, last_start + 10, 10):
            expected[view.user, start, start + 60] += 1
    found = collected(module.per_minute_every_ten_seconds(module.timed(env, module.VIEWS)))
    assert sorted(found) == sorted((*window, count) for window, count in expected.items())


def paced(env, *steps):
    source = env.from_source(ScriptedSource(list(steps)), WatermarkStrategy.no_watermarks(), "Script")
    return source.set_parallelism(1)


def test_sales_of_two_seconds(example, env, collected):
    module = example("sales_per_window")
    lines = paced(env, Emit(module.LINES[:4]), Pause(3.0), Emit(module.LINES[4:6]), Pause(3.0))
    assert sorted(collected(module.per_two_seconds(lines))) == [
        ("June", "Lamp", "Parts", 41, 3),
        ("June", "Road", "Bikes", 20, 1),
        ("May", "Bell", "Parts", 3, 1),
        ("May", "City", "Bikes", 12, 1),
    ]


def test_sales_in_fives_add_up(example, env, collected):
    module = example("sales_per_window")
    found = collected(module.per_five_sales(env.from_collection(module.LINES)))
    assert sorted((sale.month, sale.sales, sale.profit) for sale in found) == [
        ("June", 5, 64),
        ("June", 10, 120),
        ("May", 5, 47),
    ]


def test_alices_level_by_event_time(example, env, collected):
    module = example("bubbles")
    found = collected(module.by_event_time(env.from_collection([*module.BOB, *module.ALICE])))
    assert sorted(found) == [("Alice", 520), ("Bob", 510), ("Bob", 510)]


def test_alices_level_by_processing_time_depends_on_the_tunnel(example, env, collected):
    module = example("bubbles")
    first, *in_the_tunnel = module.ALICE
    bursts = paced(
        env, Emit([first, module.BOB[0]]), Pause(60.0), Emit([module.BOB[1], *in_the_tunnel]), Pause(60.0)
    )
    assert sorted(collected(module.by_processing_time(bursts))) == [("Bob", 510), ("Bob", 510)]
