"""Much, large, many, nothing: data and jobs at the edges of size."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import SparkEnvironment
from support import Process, is_jvm, is_python_worker, processes, until

from firesteel.datastream import (
    DiscardingSink,
    KeyedProcessFunction,
    RuntimeContext,
    SinkFunction,
    StreamExecutionEnvironment,
)
from firesteel.datastream.functions import IntCounter, LongCounter
from firesteel_support import servers

pytestmark = pytest.mark.spark

MB = 1 << 20


def descendants() -> list[Process]:
    """The JVM and the Python workers of this test process, without servers that tests of connectors have started."""
    everything = {pid: process for pid, process in processes().items() if pid not in servers.RUNNING}
    found = []
    for process in everything.values():
        ancestor = process
        while ancestor.parent in everything and ancestor.pid != os.getpid():
            ancestor = everything[ancestor.parent]
        if ancestor.pid == os.getpid() and process.pid != os.getpid():
            found.append(process)
    return found


# Ten million records ------------------------------------------------------------------------------------

COUNT = 10_000_000
HALF = COUNT // 2


def payload(number: int) -> bytes:
    """Fifty bytes that no pickle can share: everything buffered would be half a gigabyte."""
    return b"%050d" % number


def skewed(value: bytes) -> int:
    """Nine of ten records have the same key."""
    number = int(value)
    return number % 1000 if number % 10 == 0 else 1


class CheckOrder(KeyedProcessFunction):
    """Within a key, the records of each source subtask must come in the order in which it sent them."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._violations = IntCounter()
        runtime_context.add_accumulator("violations before the keys", self._violations)
        self._last: dict[tuple[int, bool], int] = {}

    def process_element(self, value: bytes, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        number = int(value)
        channel = (ctx.get_current_key(), number >= HALF)
        if number <= self._last.get(channel, -1):
            self._violations.add(1)
        self._last[channel] = number
        yield value


class SlowSink(SinkFunction):
    """The slowest part of the job: alone, and checks everything."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._count, self._sum, self._violations = LongCounter(), LongCounter(), IntCounter()
        for name, counter in (("count", self._count), ("sum", self._sum), ("violations", self._violations)):
            runtime_context.add_accumulator(name, counter)
        self._last: dict[tuple[int, bool], int] = {}
        self._by_key: dict[int, int] = {}

    def invoke(self, value: bytes, context: SinkFunction.Context) -> None:
        number = int(value)
        key = skewed(value)
        channel = (key, number >= HALF)
        if number <= self._last.get(channel, -1):
            self._violations.add(1)
        self._last[channel] = number
        self._by_key[key] = self._by_key.get(key, 0) + 1
        self._count.add(1)
        self._sum.add(number)

    def close(self) -> None:
        wrong = {k: n for k, n in self._by_key.items() if n != (COUNT * 9 // 10 if k == 1 else COUNT // 1000)}
        assert not wrong, wrong


@pytest.mark.slow
def test_ten_million_records_arrive_once_and_in_order_within_bounded_memory(
    environment: SparkEnvironment,
) -> None:
    env = environment(2)
    numbers = env.from_sequence(0, COUNT - 1).map(payload)
    keyed = numbers.key_by(skewed).process(CheckOrder()).name("checked")
    keyed.add_sink(SlowSink()).name("slow").set_parallelism(1)
    client: Any = env.execute_async("ten million")
    result = client.get_job_execution_result()
    in_flight, memory = [], []
    while not result.done():
        totals = client.statistics()
        in_flight.append(totals["Map"].records_out - totals["Sink: slow"].records_in)
        memory.append(
            (
                sum(p.rss for p in descendants() if not is_jvm(p)),
                max((p.rss for p in descendants() if is_jvm(p)), default=0),
            )
        )
        threading.Event().wait(0.2)
    found = result.result().get_all_accumulator_results()
    print(
        f"most in flight {max(in_flight)}, workers {max(m[0] for m in memory) / MB:.0f} MB, JVM {max(m[1] for m in memory) / MB:.0f} MB"
    )
    assert found["count"] == COUNT
    assert found["sum"] == COUNT * (COUNT - 1) // 2
    assert found["violations"] == found["violations before the keys"] == 0
    # Reports are half a second old, so some of this is not in flight but not yet reported.
    assert max(in_flight) < COUNT / 4
    assert max(workers for workers, _ in memory) < 900 * MB
    assert max(jvm for _, jvm in memory) < 1800 * MB


# Sizes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "count"), [(MB, 60), (20 * MB, 5)])
def test_large_records_pass_two_exchanges(size: int, count: int, env: StreamExecutionEnvironment) -> None:
    made = env.from_collection(range(count)).map(lambda n: (n, bytes([n]) * size))
    checked = (
        made.key_by(lambda r: r[0])
        .map(lambda r: r)
        .rebalance()
        .map(lambda r: (r[0], len(r[1]), set(r[1]) == {r[0]}))
    )
    with checked.execute_and_collect() as results:
        assert sorted(results) == [(n, size, True) for n in range(count)]


def test_records_without_content_are_records(env: StreamExecutionEnvironment) -> None:
    nothing = [b"", "", [], {}, (), None, 0, False]
    with (
        env.from_collection(nothing)
        .rebalance()
        .map(lambda x: x)
        .key_by(repr)
        .map(lambda x: x)
        .execute_and_collect() as results
    ):
        assert sorted(results, key=repr) == sorted(nothing, key=repr)


def test_hundred_thousand_keys(env: StreamExecutionEnvironment) -> None:
    pairs = env.from_sequence(0, 299_999).map(lambda n: (n % 100_000, 1))
    counts = pairs.key_by(lambda p: p[0]).reduce(lambda a, b: (a[0], a[1] + b[1])).filter(lambda p: p[1] == 3)
    with counts.execute_and_collect() as results:
        assert sorted(results) == [(key, 3) for key in range(100_000)]


def test_ten_stages_in_a_row(env: StreamExecutionEnvironment) -> None:
    stream = env.from_collection(range(1000))
    for _ in range(10):
        stream = stream.rebalance().map(lambda x: x + 1)
    with stream.execute_and_collect() as results:
        assert sorted(results) == list(range(10, 1010))


def test_more_subtasks_than_processors(environment: SparkEnvironment) -> None:
    numbers = environment(8).from_sequence(1, 10_000).key_by(lambda n: n % 50).map(lambda n: n)
    with numbers.execute_and_collect() as results:
        assert sorted(results) == list(range(1, 10_001))


def test_job_without_a_record_finishes(env: StreamExecutionEnvironment) -> None:
    with env.from_collection([]).key_by(lambda x: x).reduce(lambda a, b: a).execute_and_collect() as results:
        assert list(results) == []


# Jobs ---------------------------------------------------------------------------------------------------


def test_two_jobs_run_at_the_same_time(environment: SparkEnvironment) -> None:
    first, second = environment(), environment()
    with (
        first.from_data_gen(lambda n: ("first", n), None).execute_and_collect() as ones,
        second.from_data_gen(lambda n: ("second", n), None).execute_and_collect() as twos,
    ):
        for _ in range(100):
            assert next(ones)[0] == "first"
            assert next(twos)[0] == "second"


def resources() -> tuple[int, int, int]:
    """Threads of this process, open files of this process, Python workers."""
    workers = [p for p in descendants() if is_python_worker(p)]
    return len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd")), len(workers)


def test_thirty_jobs_one_after_another_leave_nothing_behind(environment: SparkEnvironment) -> None:
    def job() -> float:
        env = environment()
        env.from_collection(range(100)).key_by(lambda n: n % 3).map(lambda n: n).add_sink(DiscardingSink())
        began = time.monotonic()
        env.execute()
        return time.monotonic() - began

    for _ in range(3):
        job()
    before = resources()
    seconds = sorted(job() for _ in range(30))
    print(
        f"a warm job takes {seconds[15]:.2f} s in the middle, {seconds[0]:.2f} at best, {seconds[-1]:.2f} at worst"
    )
    until(
        lambda: all(now <= then + 2 for now, then in zip(resources(), before, strict=True)),
        f"no more than {before}",
    )
