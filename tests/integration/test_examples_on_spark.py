"""The worked examples about time, state, windows and joins give the same results on Spark as in the simulator.

Only what does not depend on the clock of the machine, or on a race of two inputs, can be compared so.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from firesteel.testing import simulated_environment

EXAMPLES = Path(__file__).parents[2] / "examples"


def readings(example):
    return example("sensor_readings").fahrenheit_readings(200)


def interval_join(example, env):
    module = example("joining_streams")
    return module.interval_joined(module.timed(env, module.A), module.timed(env, module.B))


def window_join(example, env):
    module = example("joining_streams")
    return module.window_joined(module.timed(env, module.A), module.timed(env, module.B))


def co_group(example, env):
    module = example("joining_streams")
    return module.co_grouped(module.timed(env, module.A), module.timed(env, module.B))


def late(example, env):
    module = example("late_readings")
    counts, late = module.counts_and_late(module.timed(env, module.READINGS))
    return counts.map(str).union(late.map(str))


def views(example, env):
    module = example("page_views")
    stream = module.timed(env, module.VIEWS)
    sliding, sessions = module.per_minute_every_ten_seconds(stream), module.per_session(stream)
    return sliding.union(sessions, module.busiest_user(stream))


def tips(example, env):
    tips, late = example("hourly_tips_by_process").build(env, example("taxi_rides").taxi_fares())
    return tips.union(late)


def rides_and_fares(example, env):
    module = example("rides_and_fares")
    return module.build(env.from_collection(module.RIDES), env.from_collection(module.FARES))


def of_module(name, build="build", given=None):
    """A program whose ``build`` takes the environment and the input that the module brings along."""

    def program(example, env):
        module = example(name)
        values = readings(example) if given is None else getattr(module, given)
        return getattr(module, build)(env, values)

    return program


PROGRAMS = {
    "average": of_module("average_sensor_readings", "build_windowed"),
    "minimum and maximum": of_module("min_max_per_window"),
    "minimum and maximum, incrementally": of_module("min_max_per_window", "build_incrementally"),
    "maximum per minute": of_module("max_per_minute", "build_incrementally"),
    "mean": lambda example, env: example("window_aggregates").build(env, readings(example))[1],
    "custom windows": of_module("custom_windows"),
    "updating counts": of_module("updating_counts", given="READINGS"),
    "temperature changes": of_module("temperature_changes", "build_with_state", "READINGS"),
    "forgetting sensors": of_module("forgetting_sensors", given="READINGS"),
    "first events": lambda example, env: example("first_events").build_with_timers(
        env.from_collection(example("first_events").EVENTS)
    ),
    "long rides": of_module("long_rides", given="EVENTS"),
    "sorted by time": of_module("sorted_by_time", given="TIMES"),
    "rides and fares": rides_and_fares,
    "hourly tips": lambda example, env: example("hourly_tips").build(env, example("taxi_rides").taxi_fares()),
    "hourly tips by process": tips,
    "late readings": late,
    "page views": views,
    "interval join": interval_join,
    "window join": window_join,
    "co-group": co_group,
}


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """Imports an example by name, as `firesteel run` would find the modules beside it."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return importlib.import_module


@pytest.mark.spark
@pytest.mark.parametrize("name", PROGRAMS)
def test_example_gives_the_same_on_spark(name, example, env):
    simulated = sorted(map(repr, PROGRAMS[name](example, simulated_environment(3, 2)).execute_and_collect()))
    assert sorted(map(repr, PROGRAMS[name](example, env).execute_and_collect())) == simulated
    assert simulated
