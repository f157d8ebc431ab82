"""What tasks print, log, count and collect reaches the program that started the job, and timers ring in time."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from conftest import SparkEnvironment
from support import settled, until

from firesteel.common import JobStatus, WatermarkStrategy
from firesteel.common.errors import JobCancelledError
from firesteel.connectors.rate_limit import RateLimiterStrategy
from firesteel.datastream import (
    DiscardingSink,
    KeyedProcessFunction,
    MapFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from firesteel.datastream.functions import IntCounter, LongMaximum
from firesteel.testing import Emit, Pause, ScriptedSource

pytestmark = pytest.mark.spark


def by_prefix(text: str) -> dict[str, list[str]]:
    """Lines by what stands before the first "> "."""
    found = defaultdict(list)
    for line in text.splitlines():
        prefix, _, rest = line.rpartition("> ")
        found[prefix].append(rest)
    return dict(found)


# print --------------------------------------------------------------------------------------------------


def test_print_sinks_write_in_order_with_the_number_of_the_subtask(
    env: StreamExecutionEnvironment, capsys: pytest.CaptureFixture[str]
) -> None:
    env.from_collection(range(5000)).partition_custom(lambda key, n: key % n, lambda x: x).map(
        lambda x: x
    ).print()
    env.execute()
    lines = by_prefix(capsys.readouterr().out)
    assert lines == {
        "1": [str(n) for n in range(0, 5000, 2)],
        "2": [str(n) for n in range(1, 5000, 2)],
    }


def test_print_prefixes_are_flinks(
    env: StreamExecutionEnvironment, capsys: pytest.CaptureFixture[str]
) -> None:
    one = env.from_collection(["a"])
    one.print().set_parallelism(1)
    one.print("id").set_parallelism(1)
    one.global_().print("many")
    one.print_to_err("err").set_parallelism(1)
    env.execute()
    captured = capsys.readouterr()
    assert sorted(captured.out.splitlines()) == ["a", "id> a", "many:1> a"]
    assert captured.err == "err> a\n"


def test_print_and_stderr_of_user_functions_arrive_in_whole_lines_and_in_order(
    env: StreamExecutionEnvironment, capsys: pytest.CaptureFixture[str]
) -> None:
    def talk(number: int) -> int:
        import sys

        print("begin", number, end=" ")
        print("end")
        print("aside", number, file=sys.stderr)
        return number

    env.from_collection(range(200)).map(talk).set_parallelism(1).print().set_parallelism(1)
    env.execute()
    captured = capsys.readouterr()
    assert [line for line in captured.out.splitlines() if "begin" in line] == [
        f"begin {n} end" for n in range(200)
    ]
    assert captured.err.splitlines() == [f"aside {n}" for n in range(200)]


# logging ------------------------------------------------------------------------------------------------


def test_log_records_of_tasks_are_handled_by_the_drivers_logging(
    env: StreamExecutionEnvironment, caplog: pytest.LogCaptureFixture
) -> None:
    def log(number: int) -> int:
        logger = logging.getLogger("user.module")
        logger.debug("not wanted")
        logger.info("number %d", number)
        try:
            raise ValueError("inner")
        except ValueError:
            logger.exception("failed at %s", number)
        return number

    with caplog.at_level(logging.INFO):
        env.from_collection(range(3)).map(log).set_parallelism(1).add_sink(DiscardingSink())
        env.execute()
    found = [r for r in caplog.records if r.name == "user.module"]
    assert [r.getMessage() for r in found] == [
        text for n in range(3) for text in (f"number {n}", f"failed at {n}")
    ]
    assert [r.levelno for r in found[:2]] == [logging.INFO, logging.ERROR]
    assert "ValueError: inner" in (found[1].exc_text or "")


# accumulators and counters ------------------------------------------------------------------------------


class Counting(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self._seen = IntCounter()
        self._largest = LongMaximum()
        runtime_context.add_accumulator("seen", self._seen)
        runtime_context.add_accumulator("largest", self._largest)

    def map(self, value: int) -> int:
        self._seen.add(1)
        self._largest.add(value)
        return value


def test_accumulators_are_merged_over_all_subtasks(env: StreamExecutionEnvironment) -> None:
    env.from_collection(range(1000)).rebalance().map(Counting()).add_sink(DiscardingSink())
    result = env.execute()
    assert result.get_accumulator_result("seen") == 1000
    assert result.get_all_accumulator_results() == {"seen": 1000, "largest": 999}


def test_every_operator_counts_records_in_and_out(env: StreamExecutionEnvironment) -> None:
    numbers = env.from_collection(range(900)).name("numbers")
    numbers.map(lambda x: x).name("all").filter(lambda x: x % 3 == 0).name("thirds").key_by(
        lambda x: x % 2
    ).reduce(lambda a, b: a + b).name("sums").add_sink(DiscardingSink()).name("end")
    client: Any = env.execute_async()
    client.get_job_execution_result().result()
    counts = {o.name: (o.records_in, o.records_out) for o in client.statistics().operators}
    assert counts == {
        "Source: numbers": (0, 900),
        "all": (900, 900),
        "thirds": (900, 300),
        "sums": (300, 300),
        "Sink: end": (300, 0),
    }


# collecting ---------------------------------------------------------------------------------------------


def endless(env: StreamExecutionEnvironment) -> Any:
    """An unbounded stream of 0, 1, 2, ... at a modest rate."""
    return env.from_data_gen(lambda n: n, None, RateLimiterStrategy.per_second(2000))


def test_results_come_while_the_job_runs_and_closing_cancels_it(environment: SparkEnvironment) -> None:
    env = environment(1)
    with endless(env).map(lambda n: n * 2).execute_and_collect() as results:
        first = [next(results) for _ in range(500)]
        job: Any = results._job
    assert first == list(range(0, 1000, 2))
    assert job.get_job_status().result() is JobStatus.CANCELED


def test_limit_takes_that_many_and_ends_the_job(environment: SparkEnvironment) -> None:
    env = environment(1)
    assert endless(env).execute_and_collect(limit=10) == list(range(10))


def test_collecting_a_bounded_stream_gives_everything_in_order(environment: SparkEnvironment) -> None:
    with environment(1).from_collection(range(100_000)).map(str).execute_and_collect() as results:
        assert list(results) == [str(n) for n in range(100_000)]


def test_keyed_stream_collects_keys_and_values(env: StreamExecutionEnvironment) -> None:
    with env.from_collection(["a", "bb", "cc"]).key_by(len).execute_and_collect() as results:
        assert sorted((row[0], row[1]) for row in results) == [(1, "a"), (2, "bb"), (2, "cc")]


def test_slow_reader_of_results_slows_the_job_down(environment: SparkEnvironment) -> None:
    """Nobody buffers what the reader does not take: the source is far from its end when a little was read."""
    env = environment(1)
    count = 20_000_000
    with env.from_sequence(1, count).name("sequence").execute_and_collect() as results:
        assert [next(results) for _ in range(10)] == list(range(1, 11))
        job: Any = results._job
        assert settled(lambda: job.statistics()["Source: sequence"].records_out) < count / 4


# jobs in the background ---------------------------------------------------------------------------------


def test_asynchronous_job_runs_until_it_is_cancelled(env: StreamExecutionEnvironment) -> None:
    endless(env).add_sink(DiscardingSink())
    client = env.execute_async("endless")
    until(lambda: client.get_job_status().result() is JobStatus.RUNNING)
    client.cancel().result()
    assert client.get_job_status().result() is JobStatus.CANCELED
    with pytest.raises(JobCancelledError, match="'endless' was cancelled"):
        client.get_job_execution_result().result()


def test_stopped_job_finishes_with_everything_processed(env: StreamExecutionEnvironment) -> None:
    endless(env).name("source").key_by(lambda n: n % 3).map(lambda n: n).name("map").add_sink(
        DiscardingSink()
    ).name("sink")
    client: Any = env.execute_async()
    until(lambda: client.statistics()["Sink: sink"].records_in > 1000)
    client.stop()
    client.get_job_execution_result().result()
    totals = client.statistics()
    assert (
        totals["Source: source"].records_out
        == totals["map"].records_in
        == totals["Sink: sink"].records_in
        > 1000
    )
    assert client.get_job_status().result() is JobStatus.FINISHED


def test_a_job_without_checkpoints_is_stopped_with_a_savepoint(
    env: StreamExecutionEnvironment, tmp_path: Path
) -> None:
    endless(env).name("source").key_by(lambda n: n % 3).map(lambda n: n).name("map").add_sink(
        DiscardingSink()
    ).name("sink")
    client: Any = env.execute_async()
    until(lambda: client.statistics()["Sink: sink"].records_in > 1000)
    taken = client.trigger_savepoint(str(tmp_path)).result()
    stopped = client.stop_with_savepoint(False, str(tmp_path)).result()
    assert {path.name for path in tmp_path.iterdir()} == {Path(taken).name, Path(stopped).name}
    assert client.get_job_status().result() is JobStatus.FINISHED


# Timers -------------------------------------------------------------------------------------------------


class Lateness(KeyedProcessFunction):
    """Sets timers for the next seconds and says by how many milliseconds each of them rang after its time."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        timers = ctx.timer_service()
        now = timers.current_processing_time()
        for number in range(1, 31):
            timers.register_processing_time_timer(now + 70 * number)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[float]:
        yield time.time() * 1000 - timestamp


def test_timers_of_a_stream_without_records_ring_in_time(environment: SparkEnvironment) -> None:
    script = ScriptedSource([Emit(["only one"]), Pause(3600.0)])
    stream = environment(1).from_source(script, WatermarkStrategy.no_watermarks(), "Idle")
    # Timers ring although no record comes that would wake the task; or else this waits for ever.
    with stream.key_by(lambda word: word).process(Lateness()).execute_and_collect() as results:
        late = list(islice(results, 30))
    assert len(late) == 30
    assert min(late) >= 0, "a timer must not ring before its time"
