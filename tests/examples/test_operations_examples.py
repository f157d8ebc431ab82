"""Examples about jobs themselves: their tasks and metrics (J32), submitting, watching and cancelling one (J01), asking for state (J26)."""

from __future__ import annotations

import logging
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from click.testing import CliRunner

from firesteel.cli.main import main as firesteel_command
from firesteel.common import Configuration
from firesteel.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from firesteel.queryable_state import QueryableStateClient
from firesteel.testing import (
    CollectSink,
    Emit,
    FunctionHarness,
    ScriptedSource,
    WaitForever,
    simulated_environment,
)

EXAMPLES = Path(__file__).parents[2] / "examples"


# J32 --------------------------------------------------------------------------------------------------


def chains_of(what: str) -> list[str]:
    """The chains of operators that `firesteel info` shows, and the slots they take."""
    program = str(EXAMPLES / "scheduling_and_metrics.py")
    shown = CliRunner().invoke(firesteel_command, ["info", "-p", "2", program, what])
    assert shown.exit_code == 0, shown.output
    head, *lines = shown.stdout.splitlines()
    chains = [line.split("] ")[1].split("  x")[0] for line in lines if "  x" in line]
    return [head.partition(" slots")[0].rpartition(" ")[2], *chains]


def test_filter_map_map_filter_are_one_two_or_three_tasks():
    before, after = "Source: Sequence Source -> Filter1 -> Map1", "Filter2 -> Sink: Out"
    assert chains_of("chained") == ["2", f"{before} -> Map2 -> {after}"]
    assert chains_of("no_chain") == ["6", before, "Map2", after]
    assert chains_of("new_chain") == ["4", before, f"Map2 -> {after}"]


def test_operators_of_three_groups_share_no_task():
    assert chains_of("groups") == ["12", "Source: A -> B", "Source: C", "D", "Sink: E"]


@pytest.mark.parametrize("what", ["chained", "no_chain", "new_chain", "groups"])
def test_programs_about_scheduling_run(example, simulator, what):
    example("scheduling_and_metrics").main([what])


def test_filter_counts_what_it_drops(example, caplog):
    module = example("scheduling_and_metrics")
    harness = FunctionHarness(module.PositiveFilter())
    with caplog.at_level(logging.WARNING):
        harness.process_elements(module.NUMBERS)
    assert harness.take_output() == [3, 4, 9, 2, 6]
    metrics = {name.partition(".")[2]: value for name, value in harness._harness.runtime.metrics.snapshot()}
    sizes = metrics["sizes"]
    assert (sizes.count, sizes.total, sizes.minimum, sizes.maximum) == (9, sum(module.NUMBERS), -5, 9)
    assert (metrics["droppedElements"], metrics["MyMetrics.zeros"]) == (4, 2)
    assert [record.getMessage() for record in caplog.records] == [
        "dropped -1, the 1. of this task",
        "dropped 0, the 2. of this task",
        "dropped -5, the 3. of this task",
        "dropped 0, the 4. of this task",
    ]


def test_gauge_tells_the_watermark(example):
    harness = FunctionHarness(example("scheduling_and_metrics").WatermarkGauge())

    def told():
        metrics = dict(harness._harness.runtime.metrics.snapshot())
        return [value for name, value in metrics.items() if name.endswith(".currentWatermark")]

    assert told() == [-(2**63)]
    harness.process_watermark(7000)
    harness.process_element(5)
    assert told() == [7000]


def test_accumulator_counts_for_all_tasks(example, env):
    module, sink = example("scheduling_and_metrics"), CollectSink()
    module.build_metrics(env, module.NUMBERS).add_sink(sink)
    assert env.execute().get_accumulator_result("dropped") == 4
    assert sorted(sink.values) == [2, 3, 4, 6, 9]


# J01 --------------------------------------------------------------------------------------------------


def reading_by_number(number):
    """Ten sensors, a round every hundred milliseconds, always the same temperature for each."""
    from sensor_readings import START, SensorReading

    return SensorReading(f"sensor_{number % 10 + 1}", START + number // 10 * 100, 50.0 + 9 * (number % 10))


def test_mean_of_every_sensor_and_second(example, env, collected):
    module, start = example("endless_averages"), example("sensor_readings").START
    found = collected(module.build(env, DataGeneratorSource(reading_by_number, 300)))
    assert sorted(found) == sorted(
        (f"sensor_{n + 1}", start + second * 1000, pytest.approx(10.0 + 5 * n))
        for n in range(10)
        for second in (1, 2, 3)
    )


def test_endless_job_is_watched_and_cancelled(example, capsys):
    module, sink = example("endless_averages"), CollectSink()
    env = simulated_environment(parallelism=2)
    module.build(
        env, DataGeneratorSource(reading_by_number, None, RateLimiterStrategy.per_second(100))
    ).add_sink(sink)
    client = env.execute_async("Endless averages")
    waits = []

    def wait(seconds):
        waits.append(seconds)
        while not sink.values:  # it runs, in a thread of its own
            assert client.get_job_status().result().name in ("CREATED", "RUNNING")
            time.sleep(0.01)

    assert module.watch_and_cancel(client, 3, wait) == "CANCELED"
    assert waits == [1.0, 1.0, 1.0]
    assert capsys.readouterr().out.splitlines() == [
        f"watching: RUNNING after {second} s" for second in (1, 2, 3)
    ]
    assert sink.values


def test_endless_program_ends_when_it_is_told_for_how_long(example, simulator, capsys, monkeypatch):
    module = example("endless_averages")
    monkeypatch.setattr(
        module,
        "sensors",
        lambda: DataGeneratorSource(reading_by_number, None, RateLimiterStrategy.per_second(100)),
    )
    monkeypatch.setattr(sys, "argv", ["endless_averages.py", "--seconds", "1"])
    module.main()
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("the job is ")
    assert last.endswith("; it is CANCELED")


# J26 --------------------------------------------------------------------------------------------------

#: Two windows of sensor_1 end, one of sensor_2; the last reading of sensor_3 is in a window that does not.
FAHRENHEIT = [("sensor_1", 0, 50.0), ("sensor_2", 3, 41.0), ("sensor_1", 4, 68.0), ("sensor_1", 12, 59.0)]
FAHRENHEIT += [("sensor_1", 15, 32.0), ("sensor_3", 21, 95.0)]


def queryable(example, seed, *script):
    """The job of the example, running, with a client and the address that it is at."""
    options = Configuration.from_dict({"queryable-state.enable": "true", "rest.port": "0"})
    env = simulated_environment(seed, 2, options)
    example("queryable_maxima").build(env, ScriptedSource(script))
    job = env.execute_async("Queryable maxima")
    at = urlsplit(job.rest_url)
    return job, QueryableStateClient(at.hostname, at.port), at.netloc


@pytest.mark.parametrize("seed", range(5))
def test_client_prints_the_newest_maximum_of_five_sensors_every_ten_seconds(example, capsys, seed):
    module = example("queryable_maxima")
    readings = example("sensor_readings").readings_of(*FAHRENHEIT)
    job, client, at = queryable(example, seed, Emit(readings), WaitForever())
    names = [f"sensor_{number}" for number in range(1, 6)]
    known = {"sensor_1": pytest.approx(15.0), "sensor_2": pytest.approx(5.0)}
    expected = {name: known.get(name) for name in names}
    with client:
        while module.maxima_of(client, job.get_job_id(), names) != expected:
            assert not job.is_over()
            time.sleep(0.01)
        waits = []
        module.dashboard(client, job.get_job_id(), names, 3, waits.append)
    assert waits == [10, 10]
    line = "  15.0 °C |    5.0 °C |         - |         - |         -"
    assert capsys.readouterr().out.splitlines() == [" | ".join(f"{name:>9}" for name in names), *[line] * 3]
    module.main(["--ask", str(job.get_job_id()), "--at", at, "--rounds", "1"])
    assert capsys.readouterr().out.splitlines()[1:] == [line]
    job.cancel().result()


def test_program_without_a_job_to_ask_is_the_job(example, simulator, monkeypatch):
    module = example("queryable_maxima")
    monkeypatch.setattr(module, "sensors", lambda: DataGeneratorSource(reading_by_number, 300))
    module.main([])
