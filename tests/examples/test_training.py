"""The four exercises of the training give what plain Python finds in the same rides."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest

from firesteel.testing import CollectSink, simulated_environment

RIDES = 700


@pytest.fixture
def generator(example):
    return example("taxi_generator")


@pytest.fixture
def training(example):
    return example("training")


@pytest.fixture
def events(generator):
    source = generator.RideEvents(RIDES)
    return [event for n in range(RIDES + generator.ON_THEIR_WAY) for event in source.map(n)]


@pytest.fixture
def fares(generator):
    source = generator.Fares(RIDES)
    return [fare for n in range(RIDES + len(generator.DISORDER)) for fare in source.map(n)]


def results(training, exercise, seed):
    """What each stream of an exercise carries."""
    env = simulated_environment(seed=seed, parallelism=2)
    streams = training.build(env, exercise, RIDES)
    sinks = {name: CollectSink() for name in streams}
    for name, stream in streams.items():
        stream.add_sink(sinks[name])
    env.execute()
    return {name: sink.values for name, sink in sinks.items()}


# The generator ----------------------------------------------------------------------------------------


def test_rides_start_and_end_in_order_of_time(generator, events):
    assert [event.time for event in events] == sorted(event.time for event in events)
    starts = [event.ride_id for event in events if event.is_start]
    assert starts == [n for n in range(RIDES) if generator.plan_of(n).has_start]
    ends = sorted(event.ride_id for event in events if not event.is_start)
    assert ends == [n for n in range(RIDES) if generator.plan_of(n).minutes is not None]


def test_something_is_wrong_with_some_rides(generator, events, fares):
    plans = [generator.plan_of(n) for n in range(RIDES)]
    assert 0 < sum(plan.minutes is None for plan in plans) < 30
    assert 0 < sum(plan.minutes is not None and plan.minutes > 120 for plan in plans) < 40
    assert 0 < sum(not plan.has_start for plan in plans) < 30
    assert 0 < sum(not plan.has_fare for plan in plans) < 40


def test_fares_are_out_of_order_by_less_than_two_minutes(generator, fares):
    assert sorted(fare.ride_id for fare in fares) == [
        n for n in range(RIDES) if generator.plan_of(n).has_fare
    ]
    latest, late = 0, []
    for fare in fares:
        late.append(latest - fare.start_time)
        latest = max(latest, fare.start_time)
    assert 0 < max(late) < 120_000


def test_an_endless_stream_begins_like_one_with_an_end(generator, events, fares):
    rides, without_end = generator.RideEvents(None), generator.Fares(None)
    assert [event for n in range(RIDES) for event in rides.map(n)] == events[
        : sum(len(rides.map(n)) for n in range(RIDES))
    ]
    assert [fare for n in range(RIDES - 4) for fare in without_end.map(n)] == fares[: len(fares) - 4]
    assert rides.map(10**9)  # it goes on


# The exercises ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(2))
def test_ride_cleansing(training, events, seed):
    inside = [
        event
        for event in events
        if all(-74.05 <= p.lon <= -73.7 and 40.5 <= p.lat <= 41.0 for p in (event.start, event.end))
    ]
    assert 0 < len(inside) < len(events)
    assert Counter(results(training, "ride_cleansing", seed)["in the city"]) == Counter(inside)


@pytest.mark.parametrize("seed", range(2))
def test_rides_and_fares(training, events, fares, seed):
    rides = {event.ride_id: event for event in events if event.is_start}
    paid = {fare.ride_id: fare for fare in fares}
    found = results(training, "rides_and_fares", seed)
    assert Counter(found["pair"]) == Counter((rides[n], paid[n]) for n in rides.keys() & paid.keys())
    alone = [(rides.get(n) or paid[n]) for n in rides.keys() ^ paid.keys()]
    assert Counter(found["alone"]) == Counter(alone)
    assert {type(value).__name__ for value in alone} == {"RideEvent", "TaxiFare"}


@pytest.mark.parametrize("seed", range(2))
def test_hourly_tips(training, fares, seed):
    sums = defaultdict(float)
    for fare in fares:
        sums[fare.start_time // 3_600_000, fare.driver_id] += fare.tip
    best = {}
    for (hour, driver), tips in sums.items():
        best[hour] = max(best.get(hour, (0.0, 0)), (tips, driver))
    expected = [(driver, (hour + 1) * 3_600_000, tips) for hour, (tips, driver) in best.items()]
    assert len(expected) == 4
    assert sorted(results(training, "hourly_tips", seed)["most tips"]) == sorted(expected)


@pytest.mark.parametrize("seed", range(2))
def test_long_rides(training, events, seed):
    starts = {event.ride_id: event.time for event in events if event.is_start}
    ends = {event.ride_id: event.time for event in events if not event.is_start}
    long = [n for n, start in starts.items() if n not in ends or ends[n] - start > 7_200_000]
    assert 0 < len(long) < 50
    assert sorted(results(training, "long_rides", seed)["longer than two hours"]) == long


@pytest.mark.parametrize("exercise", ["ride_cleansing", "rides_and_fares", "hourly_tips", "long_rides"])
def test_exercise_is_a_program(training, exercise, simulator, capsys):
    training.main([exercise, "--rides", "60", "--rate", "1000"])
    lines = capsys.readouterr().out.splitlines()
    assert lines
    assert all("ride " in line or "driver " in line for line in lines)
    assert sorted(training.EXERCISES) == ["hourly_tips", "long_rides", "ride_cleansing", "rides_and_fares"]
