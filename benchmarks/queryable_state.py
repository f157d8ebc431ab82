"""Queryable state: how long a look-up takes while the job runs, from the client's call to the state in its hands.

A job counts records by key in keyed state, 1,000 keys in two subtasks. One client asks for one key after the other, for a while, in three
situations: 1,000 records/s with state in memory, the same with state on disk, and as many records as go, where a task answers between
two batches. A second client asks with 32 look-ups under way at a time: how many are answered per second.

The peer is the floor: ``GET /jobs/:jobid/status`` of the same interface over the same kind of connection, which no task has to answer.
Look-ups and floor take turns.
"""

from __future__ import annotations

import http.client
import random
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

from _harness import PARALLELISM, at_most, note, parser, percentile, rate_text, ratio_text
from _results import begin
from firesteel.common import Configuration, Types, WatermarkStrategy
from firesteel.datastream import StreamExecutionEnvironment
from firesteel.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from firesteel.datastream.functions import DiscardingSink, KeyedProcessFunction
from firesteel.datastream.state import ValueStateDescriptor
from firesteel.queryable_state import QueryableStateClient

KEYS = 1_000
IN_FLIGHT = 32
SITUATIONS: tuple[tuple[str, float | None, str], ...] = (
    ("1,000 records/s, in memory", 1_000, "hashmap"),
    ("1,000 records/s, on disk", 1_000, "disk"),
    ("saturated, in memory", None, "hashmap"),
)
#: Milliseconds for p50 and p99.
TARGETS = {
    "1,000 records/s, in memory": (5.0, 25.0),
    "1,000 records/s, on disk": (5.0, 25.0),
    "saturated, in memory": (25.0, 100.0),
}


class Counting(KeyedProcessFunction):
    """Counts records by key."""

    def open(self, runtime_context: Any) -> None:
        """Get the state."""
        descriptor = ValueStateDescriptor("count", Types.LONG())
        descriptor.set_queryable("counts")
        self._count = runtime_context.get_state(descriptor)

    def process_element(self, value: int, ctx: Any) -> None:
        """One more."""
        self._count.update((self._count.value() or 0) + 1)


def start(rate: float | None, backend: str) -> Any:
    """A job that runs until somebody ends it."""
    options = {"queryable-state.enable": "true", "rest.port": "0", "state.backend.type": backend}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
    env.set_parallelism(PARALLELISM)
    pace = RateLimiterStrategy.no_op() if rate is None else RateLimiterStrategy.per_second(rate)
    source = DataGeneratorSource(lambda number: number % KEYS, None, pace)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "Numbers")
    counted: Any = numbers.key_by(lambda number: number, key_type=Types.LONG()).process(Counting())
    counted.add_sink(DiscardingSink())
    return env.execute_async("counts")


def times(calls: Sequence[Callable[[], Any]], seconds: float) -> list[list[float]]:
    """What each call takes, in milliseconds and in order, when they take turns for a while."""
    found: list[list[float]] = [[] for _ in calls]
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for call, took in zip(calls, found, strict=True):
            began = time.perf_counter()
            call()
            took.append((time.perf_counter() - began) * 1000)
    return [sorted(took) for took in found]


def look_up(client: QueryableStateClient, job: Any, key: int) -> Any:
    """A look-up that has begun."""
    return client.get_kv_state(
        job.get_job_id(), "counts", key, Types.LONG(), ValueStateDescriptor("count", Types.LONG())
    )


def throughput(client: QueryableStateClient, job: Any, seconds: float) -> float:
    """Look-ups per second with many under way."""
    began, answered, waiting = time.monotonic(), 0, []
    while time.monotonic() - began < seconds:
        waiting = [look_up(client, job, random.randrange(KEYS)) for _ in range(IN_FLIGHT)]
        for future in waiting:
            future.result()
        answered += len(waiting)
    return answered / (time.monotonic() - began)


def until_all_counted(job: Any) -> None:
    """Every key has a count."""
    while not job.is_over():
        done = sum(report.records_in for report in operators(job, "Keyed Process"))
        if done >= 2 * KEYS:
            return
        time.sleep(0.1)
    job.wait()


def operators(job: Any, name: str) -> list[Any]:
    """The counters of an operator, by subtask."""
    ids = {each.id for vertex in job.plan.vertices for each in vertex.operators if each.name == name}
    reports = job.snapshot().reports.values()
    return [each for report in reports for each in report.operators if each.operator_id in ids]


HEADER = [
    "situation",
    "p50",
    "p99",
    "largest",
    "floor p50",
    "ratio",
    f"{IN_FLIGHT} at a time",
    "p50 target",
    "p99 target",
]


def measure(situation: str, rate: float | None, backend: str, seconds: float) -> list[str]:
    """One row."""
    job = start(rate, backend)
    at = urlsplit(job.rest_url)
    assert at.hostname is not None
    assert at.port is not None
    floor = http.client.HTTPConnection(at.hostname, at.port)

    def status() -> None:
        floor.request("GET", f"/v1/jobs/{job.get_job_id()}/status")
        floor.getresponse().read()

    try:
        until_all_counted(job)
        with QueryableStateClient(at.hostname, at.port) as client, closing(floor):
            calls = (lambda: look_up(client, job, random.randrange(KEYS)).result(), status)
            times(calls, 1.0)  # warm up
            asked, answered_by_nobody = times(calls, seconds)
            many = throughput(client, job, seconds / 2)
    finally:
        job.cancel().result()
    note(f"{situation}: {len(asked)} look-ups one by one")
    p50, p99 = percentile(asked, 0.5), percentile(asked, 0.99)
    wanted = TARGETS[situation]
    return [
        situation,
        f"{p50:.1f} ms",
        f"{p99:.1f} ms",
        f"{asked[-1]:.1f} ms",
        f"{percentile(answered_by_nobody, 0.5):.1f} ms",
        ratio_text(p50 / percentile(answered_by_nobody, 0.5)),
        rate_text(many),
        at_most(p50, wanted[0], " ms"),
        at_most(p99, wanted[1], " ms"),
    ]


def main() -> None:
    arguments = parser(__doc__).parse_args()
    results = begin(__file__, f"Look-ups in the state of a running job, parallelism {PARALLELISM}", arguments)
    rows: list[list[str]] = []
    try:
        for situation, rate, backend in SITUATIONS:
            rows.append(measure(situation, rate, backend, 2.0 if arguments.quick else 15.0))
    finally:  # what fails in the last situation has its rows before it
        if rows:
            results.table(HEADER, rows)


if __name__ == "__main__":
    main()
