"""Slow functions are bounded in time, functions with many results in memory.

- time: a map that sleeps for every record, from 0.1 to 100 ms. *Late* is the time from the end of its call to the
  arrival of the result at a sink behind an exchange; it may take the buffer time-out and one more call. *Checkpoint*
  is the longest of the checkpoints, one every second; it may take two more calls and the buffer time-out longer than
  with a map that does not sleep. *Cancel* is the time from `cancel()` to the end of the job; it may take one more
  call and 100 ms longer than there. The map is either behind an exchange that brings a burst every second, half a
  second's work, which a barrier may have to wait for, or in the chain of a source that always has records.
- memory: a flat_map that yields 10^3, 10^4 ... records for one input, to a slower sink behind an exchange. The figure
  is the most that any one Python worker holds while the job runs; it must not grow with the number of results.

A row of the first table that shows nothing under *late* had no result before the measurement was over.
"""

from __future__ import annotations

import argparse
import os
import pickle
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _harness import PeakMemory, at_most, note, parser, ratio_text, worker_memory
from _results import begin
from firesteel.common import Configuration, WatermarkStrategy
from firesteel.contracts.source import Boundedness, Polled, Source, SourceReader, SourceReaderContext
from firesteel.datastream import StreamExecutionEnvironment
from firesteel.datastream.functions import MapFunction, SinkFunction
from latency import BUCKETS_PER_SECOND, Histogram

BUFFER_TIMEOUT_MS = 100
CALLS_MS = (0.1, 1.0, 10.0, 100.0)
BURST_EVERY = 1.0
BURST_WORK = 0.5
REPORT_EVERY = 0.25
PATIENCE = 300.0  # seconds until a job that does not begin or end is given up

SIZES = tuple(10**n for n in range(3, 9))
MEMORY_LIMIT = 1 << 30  # a job whose worker takes more is ended, before the machine suffers
TARGET_GROWTH = 1.2


@contextmanager
def environment(interval_ms: int) -> Iterator[Any]:
    """One subtask per operator, checkpoints in a directory that is then thrown away; 0 is without."""
    with tempfile.TemporaryDirectory(prefix="firesteel-bench-") as directory:
        options = {"execution.buffer-timeout.interval": f"{BUFFER_TIMEOUT_MS} ms"}
        if interval_ms:
            options["execution.checkpointing.interval"] = f"{interval_ms} ms"
            options["execution.checkpointing.dir"] = directory
        configuration = Configuration.from_dict(options)
        yield StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(1)


# Time ---------------------------------------------------------------------------------------------------


class Numbers(Source):
    """Numbers without end: as many as are wanted, or ``burst`` every second."""

    def __init__(self, burst: int = 0) -> None:
        self.burst = burst

    @property
    def boundedness(self) -> Boundedness:
        """There is no end."""
        return Boundedness.CONTINUOUS_UNBOUNDED

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        """The reader of one subtask; it keeps nothing in checkpoints."""
        return _BurstReader(self.burst) if self.burst else _EagerReader()

    def splits_of(self, subtask: int, parallelism: int) -> list[int]:
        """Numbers need no position; with a split the source counts as one that can go back to a checkpoint."""
        return [0]


class _EagerReader(SourceReader):
    def __init__(self) -> None:
        self._next = 0

    def add_splits(self, splits: Sequence[int]) -> None:
        """Nothing to do."""

    def poll(self, limit: int) -> Polled:
        """As much as is wanted."""
        self._next += limit
        return Polled(list(range(self._next - limit, self._next)))


class _BurstReader(_EagerReader):
    def __init__(self, burst: int) -> None:
        super().__init__()
        self._burst = burst
        self._due = 0.0
        self._left = 0

    def poll(self, limit: int) -> Polled:
        """The rest of the burst that is due."""
        now = time.time()
        if not self._left and now >= self._due:
            self._due = now + BURST_EVERY
            self._left = self._burst
        count = min(limit, self._left)
        self._left -= count
        return Polled([self._due] * count, retry_at=0.0 if self._left else self._due)


class Slow(MapFunction):
    """Sleeps, and returns the time at which it had slept."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def map(self, value: Any) -> float:
        """One record."""
        if self.seconds:
            time.sleep(self.seconds)
        return time.time()


class Arrivals(SinkFunction):
    """Counts how late results are, and writes the counts to a file now and then: a cancelled job returns nothing."""

    def __init__(self, path: str) -> None:
        self.path = path

    def open(self, runtime_context: Any) -> None:
        """Start with nothing."""
        self.counts: dict[int, int] = {}
        self.reported = 0.0

    def invoke(self, value: float, context: Any) -> None:
        """Count one record."""
        now = time.time()
        bucket = int((now - value) * BUCKETS_PER_SECOND)
        self.counts[bucket] = self.counts.get(bucket, 0) + 1
        if now - self.reported >= REPORT_EVERY:
            self.reported = now
            with open(f"{self.path}.new", "wb") as file:
                pickle.dump(self.counts, file)
            os.replace(f"{self.path}.new", self.path)


def arrivals(path: str) -> Counter[int]:
    """What the sink has written so far."""
    try:
        return Counter(pickle.loads(Path(path).read_bytes()))
    except FileNotFoundError:
        return Counter()


@dataclass(frozen=True, slots=True)
class Timed:
    """How late results were, how long checkpoints took and how long the end took, in milliseconds."""

    late: Histogram
    checkpoints: list[float]
    in_progress: int
    cancel: float


def timed(call_ms: float, in_chain: bool, seconds: float) -> Timed:
    """Run the job for so many seconds after the beginning, then cancel it."""
    call = call_ms / 1000
    with environment(1000) as env, tempfile.TemporaryDirectory(prefix="firesteel-bench-") as directory:
        path = os.path.join(directory, "arrivals")
        burst = max(1, int(BURST_WORK / slept(call))) if call else 1000
        source = Numbers() if in_chain else Numbers(burst)
        stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
        if not in_chain:
            stream = stream.rebalance()
        stream.map(Slow(call)).rebalance().add_sink(Arrivals(path))
        job = env.execute_async("slow function")
        job.wait_until_deployed()
        time.sleep(1.0)  # workers start; what they do then is not counted
        before = arrivals(path)
        time.sleep(seconds)
        counted = arrivals(path) - before if before else arrivals(path)
        checkpoints = job.statistics().checkpoints
        began = time.perf_counter()
        job.cancel().result(PATIENCE)
        return Timed(
            Histogram(counted),
            [done.duration_ms for done in checkpoints.completions],
            checkpoints.in_progress,
            (time.perf_counter() - began) * 1000,
        )


def slept(seconds: float) -> float:
    """How long a sleep really takes: the short ones take longer than they should."""
    began = time.perf_counter()
    for _ in range(10):
        time.sleep(seconds)
    return (time.perf_counter() - began) / 10


def time_rows(calls: Iterable[float], seconds: float) -> list[list[str]]:
    """One row for every place of the map and duration of a call; all are compared with a map that does not sleep."""
    note("a map that does not sleep")
    base = timed(0.0, False, seconds)
    rows = [["behind an exchange", "0 ms", *time_texts(base, base, 0.0, False)]]
    for name, in_chain in (("behind an exchange", False), ("in the source's chain", True)):
        for call_ms in calls:
            note(f"{name}, {call_ms:g} ms a call")
            found = timed(call_ms, in_chain, seconds)
            rows.append([name, f"{call_ms:g} ms", *time_texts(found, base, call_ms, in_chain)])
    return rows


def time_texts(found: Timed, base: Timed, call_ms: float, in_chain: bool) -> list[str]:
    """The cells of one row, with verdicts on the largest values."""
    if found.late.counts:
        p50, p99, late = (found.late.percentile(fraction) for fraction in (0.5, 0.99, 1.0))
        texts = [f"{p50:.1f}", f"{p99:.1f}", f"{late:.1f}", at_most(late, BUFFER_TIMEOUT_MS + call_ms, " ms")]
    else:
        texts = ["-", "-", "-", "MISSED (none came)"]
    waits = 0.0 if in_chain else BURST_WORK * 1000
    bar = max(base.checkpoints, default=0.0) + BUFFER_TIMEOUT_MS + 2 * call_ms + waits
    if found.checkpoints:
        longest = max(found.checkpoints)
        texts += [f"{longest:.0f}", at_most(longest, round(bar), " ms")]
    else:
        texts += ["-", "MISSED (none completed)"]
    bar = base.cancel + 100 + call_ms
    return [*texts, f"{found.cancel:.0f}", at_most(found.cancel, round(bar), " ms")]


# Memory -------------------------------------------------------------------------------------------------


class SlowerSink(SinkFunction):
    """Takes longer for a record than a flat_map takes to make it."""

    def invoke(self, value: Any, context: Any) -> None:
        """One record."""
        for _ in range(20):
            pass


def peak_of_burst(size: int) -> tuple[int, float, bool]:
    """The most bytes of a worker while one input gives so many results; seconds; whether it came to its end."""
    with environment(0) as env, PeakMemory() as memory:
        began = time.perf_counter()
        stream = env.from_collection([size])
        stream.flat_map(lambda count: range(count)).rebalance().add_sink(SlowerSink())
        job = env.execute_async("burst")
        while not job.is_over():
            if max(worker_memory().values(), default=0) > MEMORY_LIMIT:
                job.cancel().result(PATIENCE)
                return memory.peak, time.perf_counter() - began, False
            time.sleep(0.05)
        job.get_job_execution_result().result()
        return memory.peak, time.perf_counter() - began, True


def memory_rows(sizes: Iterable[int], measure: Callable[[int], tuple[int, float, bool]]) -> list[list[str]]:
    """One row for every number of results, compared with the smallest one."""
    rows: list[list[str]] = []
    smallest = 0
    for size in sizes:
        note(f"{size:,} results for one input")
        peak, seconds, ended = measure(size)
        smallest = smallest or peak
        growth = peak / smallest
        verdict = at_most(growth, TARGET_GROWTH)
        rows.append([f"{size:,}", f"{seconds:.1f} s", f"{peak / 1e6:.0f} MB", ratio_text(growth), verdict])
        if not ended:
            rows[-1][-1] += f", ended at {MEMORY_LIMIT / 1e6:.0f} MB"
            break
    return rows


# Main ---------------------------------------------------------------------------------------------------


def main() -> None:
    arguments = _arguments()
    seconds = 3.0 if arguments.quick else 6.0
    results = begin(
        __file__,
        "Slow functions and functions with many results: bounded in time and memory? parallelism 1, in ms",
        arguments,
    )
    peak_of_burst(1)  # Spark starts
    if arguments.only in (None, "memory"):  # first: workers that have done nothing else
        largest = 10**6 if arguments.quick else 10**8 if arguments.full else arguments.largest
        rows = memory_rows([size for size in SIZES if size <= largest], peak_of_burst)
        results.table(["results for one input", "took", "largest worker", "growth", "target"], rows)
    if arguments.only in (None, "time"):
        rows = time_rows((1.0, 10.0) if arguments.quick else CALLS_MS, seconds)
        header = [
            "map",
            "call",
            "late p50",
            "p99",
            "max",
            "target",
            "checkpoint",
            "target",
            "cancel",
            "target",
        ]
        results.table(header, rows)


def _arguments() -> argparse.Namespace:
    found = parser(__doc__)
    found.add_argument("--only", choices=["time", "memory"], help="one part")
    found.add_argument("--largest", type=int, default=10**7, help="the most results for one input")
    found.add_argument("--full", action="store_true", help="up to 10^8 results for one input")
    return found.parse_args()


if __name__ == "__main__":
    main()
