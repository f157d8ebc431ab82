"""The worked examples about time, timers and state give the results their docstrings promise."""

from __future__ import annotations

from collections import defaultdict

import pytest

from firesteel.common import WatermarkStrategy
from firesteel.testing import CollectSink, Emit, FunctionHarness, Pause, ScriptedSource


def by_key(records, key=lambda record: record[0]):
    found = defaultdict(list)
    for record in records:
        found[key(record)].append(record)
    return dict(found)


def scripted(env, *steps):
    """A source that follows a script, in one task."""
    return env.from_source(
        ScriptedSource(list(steps)), WatermarkStrategy.no_watermarks(), "Script"
    ).set_parallelism(1)


def collected_from(env, *streams):
    """What each of several streams of one job carries."""
    sinks = [CollectSink() for _ in streams]
    for stream, sink in zip(streams, sinks, strict=True):
        stream.add_sink(sink)
    env.execute()
    return [sink.values for sink in sinks]


def without_start(module, shown):
    """Times relative to the first reading; None for a watermark that says nothing."""
    return [
        (sensor, timestamp - module.START, None if watermark < 0 else watermark - module.START)
        for sensor, timestamp, watermark in shown
    ]


# J12 --------------------------------------------------------------------------------------------------


def test_punctuated_watermarks_follow_sensor_one(example, env, collected):
    module = example("watermark_strategies")
    readings = example("sensor_readings").readings_of(
        ("sensor_2", 1, 0.0),
        ("sensor_1", 3, 0.0),
        ("sensor_2", 2, 0.0),
        ("sensor_1", 5, 0.0),
        ("sensor_2", 6, 0.0),
    )
    assert without_start(module, collected(module.build(env, readings, module.punctuated))) == [
        ("sensor_2", 1000, None),
        ("sensor_1", 3000, None),
        ("sensor_2", 2000, 3000),
        ("sensor_1", 5000, 3000),
        ("sensor_2", 6000, 5000),
    ]


@pytest.mark.parametrize(
    ("name", "behind"), [("within_a_minute", 60_000), ("bounded", 10_001), ("ascending", 1)]
)
def test_periodic_watermarks_stay_behind_the_latest_reading(example, env, name, behind):
    module, sensors = example("watermark_strategies"), example("sensor_readings")
    readings = sensors.fahrenheit_readings(6)
    slowly = [step for reading in readings for step in (Emit([reading]), Pause(1.0))]
    strategy = getattr(module, name).with_timestamp_assigner(lambda reading, _: reading.timestamp)
    timed = scripted(env, *slowly).assign_timestamps_and_watermarks(strategy).set_parallelism(1)
    shown = list(timed.process(module.ShowTime()).set_parallelism(1).execute_and_collect())
    assert [timestamp for _, timestamp, _ in shown] == [reading.timestamp for reading in readings]
    earlier = [reading.timestamp - behind for reading in readings[:-1]]
    assert [watermark for _, _, watermark in shown[1:]] == earlier


# J13 - J15 --------------------------------------------------------------------------------------------


def rises(reading, *steps):
    """Readings of one sensor with pauses between them: (temperature, seconds to wait)."""
    return [
        step for temperature, wait in steps for step in (Emit([reading("a", 0, temperature)]), Pause(wait))
    ]


def test_warning_after_a_second_of_rising(example, env, collected):
    reading = example("sensor_readings").SensorReading
    steps = rises(reading, (1.0, 0.4), (2.0, 0.4), (3.0, 0.4), (4.0, 0.4), (5.0, 0.1))
    found = collected(example("rising_temperatures").build(scripted(env, *steps)))
    assert found == ["a has been rising for a second"]


@pytest.mark.parametrize("last", [3.0, 2.5])
def test_no_warning_when_it_stops_rising_in_time(example, env, collected, last):
    reading = example("sensor_readings").SensorReading
    steps = rises(reading, (1.0, 0.4), (3.0, 0.9), (last, 5.0))
    assert collected(example("rising_temperatures").build(scripted(env, *steps))) == []


def test_timer_of_a_rise_is_deleted(example):
    module, reading = example("rising_temperatures"), example("sensor_readings").SensorReading
    harness = FunctionHarness(
        module.WarnOfRise(), key_selector=lambda reading: reading.id, processing_time=10_000
    )
    for temperature, timers in [(1.0, []), (2.0, [11_000]), (3.0, [11_000]), (2.0, []), (2.5, [11_000])]:
        harness.process_element(reading("a", 0, temperature))
        assert harness.processing_time_timers("a") == timers
    harness.set_processing_time(11_000)
    assert harness.take_output() == ["a has been rising for a second"]


def test_freezing_readings_raise_alarms_and_stay_in_the_stream(example, env):
    module = example("freezing_alarms")
    readings, alarms = collected_from(env, *module.build(env, module.READINGS))
    assert sorted(readings) == sorted(module.READINGS)
    assert sorted(alarms) == ["freezing alarm for sensor_2: 31.9 F", "freezing alarm for sensor_3: -4.0 F"]


def test_readings_pass_while_the_switch_is_on(example, env, collected):
    module, reading = example("sensor_switches"), example("sensor_readings").SensorReading
    every_two_seconds = [
        step
        for second in range(0, 80, 2)
        for step in (
            Emit([reading(f"sensor_{number}", second, 0.0) for number in (1, 2, 7)]),
            Pause(2.0),
        )
    ]
    readings = scripted(env, Pause(1.0), *every_two_seconds)
    found = by_key(collected(module.build(readings, env.from_collection(module.SWITCHES))))
    assert {sensor: [value.timestamp for value in values] for sensor, values in found.items()} == {
        "sensor_2": list(range(0, 10, 2)),
        "sensor_7": list(range(0, 60, 2)),
    }


def test_a_second_switch_prolongs_and_leaves_one_timer(example):
    module, reading = example("sensor_switches"), example("sensor_readings").SensorReading
    harness = FunctionHarness(module.Gate(), lambda r: r.id, lambda s: s[0], processing_time=0)
    for switch, timers in [(("a", 500), [500]), (("a", 800), [800]), (("a", 100), [800])]:
        harness.process_element2(switch)
        assert harness.processing_time_timers("a") == timers
    harness.set_processing_time(799)
    harness.process_element(reading("a", 1, 0.0))
    harness.set_processing_time(800)
    harness.process_element(reading("a", 2, 0.0))
    assert harness.take_output() == [reading("a", 1, 0.0)]


# J22, J24, J25, J37 -----------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["build", "build_with_state"])
def test_changes_above_the_threshold(example, env, collected, form):
    module = example("temperature_changes")
    assert by_key(collected(getattr(module, form)(env, module.READINGS))) == {
        "sensor_1": [("sensor_1", 63.5, 2.0)],
        "sensor_2": [("sensor_2", 69.0, 2.0), ("sensor_2", 73.0, 4.0)],
    }


def test_thresholds_apply_from_when_they_come(example, env, collected):
    module, reading = example("current_thresholds"), example("sensor_readings").SensorReading

    def both(temperature):
        return Emit([reading("a", 0, temperature), reading("b", 0, temperature)])

    readings = scripted(
        env, both(10.0), both(20.0), Pause(2.0), both(25.0), Pause(2.0), both(28.0), Pause(2.0), both(50.0)
    )
    updates = scripted(
        env,
        Pause(1.0),
        Emit([("a", 4.0)]),
        Pause(2.0),
        Emit([("b", 1.0)]),
        Pause(2.0),
        Emit([("a", 0.0), ("c", 0.0)]),
    )
    assert by_key(collected(module.build(readings, updates))) == {
        "a": [("a", 25.0, 5.0)],
        "b": [("b", 28.0, 3.0), ("b", 50.0, 22.0)],
    }


def test_sensor_is_forgotten_after_an_hour(example, env, collected):
    module = example("forgetting_sensors")
    assert by_key(collected(module.build(env, module.READINGS))) == {
        "sensor_1": [("sensor_1", 64.0, 4.0), ("sensor_1", 85.0, 5.0)],
        "sensor_2": [("sensor_2", 55.0, 5.0)],
    }


def test_nothing_is_left_of_a_forgotten_sensor(example):
    module, sensors = example("forgetting_sensors"), example("sensor_readings")
    harness = FunctionHarness(module.ForgettingChangeAlert(1.7), key_selector=lambda reading: reading.id)
    for time in (0, 1000):
        harness.process_element(sensors.SensorReading("a", time, 60.0), timestamp=time)
    assert harness.event_time_timers("a") == [module.HOUR + 1000]
    harness.process_watermark(module.HOUR + 1000)
    assert harness.keys_of_state("last temperature") == harness.keys_of_state("timer") == set()


def test_first_event_of_every_key(example, env, collected):
    module = example("first_events")
    found = collected(module.build(env.from_collection(module.EVENTS)))
    assert sorted(found) == [("a", 0), ("b", 10_000)]


def test_timers_let_a_key_be_new_again(example, env, collected):
    module = example("first_events")
    found = collected(module.build_with_timers(env.from_collection(module.EVENTS)))
    assert sorted(found) == [("a", 0), ("a", 70_000), ("b", 10_000)]


def test_expired_flags_let_a_key_be_new_again(example, env, collected):
    module = example("first_events")
    events = [module.Event("a", number) for number in range(4)]
    source = scripted(env, Emit(events[:2]), Pause(59.0), Emit(events[2:3]), Pause(2.0), Emit(events[3:]))
    assert collected(module.build_with_ttl(source)) == [("a", 0), ("a", 3)]


# J39 - J43 --------------------------------------------------------------------------------------------


def test_rides_meet_their_fares(example, env, collected):
    module = example("rides_and_fares")
    found = collected(module.build(env.from_collection(module.RIDES), env.from_collection(module.FARES)))
    assert sorted((ride.ride_id, fare.ride_id) for ride, fare in found) == [(n, n) for n in (1, 3, 5, 12)]


def test_rides_and_fares_without_partner_go_to_the_side(example, env):
    module = example("rides_and_fares")
    streams = module.build_with_timers(env.from_collection(module.RIDES), env.from_collection(module.FARES))
    pairs, alone = collected_from(env, *streams)
    assert sorted(ride.ride_id for ride, _ in pairs) == [1, 3, 5, 12]
    assert sorted((type(value).__name__, value.ride_id) for value in alone) == [("Ride", 2), ("TaxiFare", 4)]


HOURLY_TIPS = [
    (2013, 9, 6.0),
    (2013, 10, 11.5),
    (2014, 9, 4.5),
    (2014, 11, 10.0),
    (2015, 10, 8.0),
    (2015, 11, 0.5),
]


def in_hours(tips, taxi):
    return sorted((driver, 8 + (end - taxi.EIGHT_O_CLOCK) // taxi.HOUR, tip) for driver, end, tip in tips)


def test_tips_per_hour(example, env, collected):
    taxi = example("taxi_rides")
    assert in_hours(collected(example("hourly_tips").build(env, taxi.taxi_fares())), taxi) == HOURLY_TIPS


def test_tips_per_hour_by_a_process_function(example, env):
    taxi, module = example("taxi_rides"), example("hourly_tips_by_process")
    late = taxi.TaxiFare(10, 2013, taxi.EIGHT_O_CLOCK, 100.0)
    tips, too_late = collected_from(env, *module.build(env, [*taxi.taxi_fares(), late]))
    assert in_hours(tips, taxi) == HOURLY_TIPS
    assert too_late == [late]


def test_long_rides_are_noticed(example, env, collected):
    module = example("long_rides")
    assert sorted(collected(module.build(env, module.EVENTS))) == [2, 5]


def test_alert_does_not_wait_for_the_end_of_the_ride(example):
    module = example("long_rides")
    start, end = module.ride_events((1, "start", 0), (1, "end", 300))
    harness = FunctionHarness(module.LongRide(), key_selector=lambda event: event.ride_id)
    harness.process_element(start, timestamp=start.time)
    harness.process_watermark(start.time + 2 * module.HOUR)
    assert harness.take_output() == [1]
    harness.process_element(end, timestamp=end.time)
    harness.end_of_input()
    assert (harness.take_output(), harness.keys_of_state("waiting")) == ([], set())


def test_records_leave_sorted(example, env, collected):
    module = example("sorted_by_time")
    assert collected(module.build(env, module.TIMES)) == sorted(module.TIMES)


def test_a_small_bound_makes_records_late(example, env, collected):
    module = example("sorted_by_time")
    assert collected(module.build(env, [1, 5, 3, 4, 4, 9], bound=1)) == [1, 4, 4, 5, 9]
