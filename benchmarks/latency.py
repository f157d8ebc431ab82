"""Latency: how long a record takes from source to sink, through key_by and a keyed process function.

Every record carries the time at which the source made it; the sink, in another process on the same machine,
subtracts it from its own clock and counts the difference in a histogram. The first seconds are not counted:
class loading and code generation happen once.

- 1,000 and 200,000 records/s: the source makes what is due, at most every millisecond. Two figures: from the
  making of the record, and from the moment it was due. The second includes the time the source itself was held
  up, so nothing hides in a source that fell behind.
- saturated: as fast as it goes; the time is what the buffers of a full pipeline hold.

There are two floors, at the same rates and measured in the same way. *Bare loopback socket*: a process that sends pickled
chunks of records to another one. *Bare Spark*: two Python stages of one pipelined Spark job on the same session, without anything of
Firesteel in them; they group the records of some milliseconds, as Firesteel does, and only count. Where that floor is above a
target, the machine is too slow for it, or too busy.
"""

from __future__ import annotations

import multiprocessing
import pickle
import socket
import struct
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from _harness import PARALLELISM, at_most, environment, note, parser
from _results import Results, begin
from firesteel.common import WatermarkStrategy
from firesteel.contracts.source import Polled, Source, SourceReader, SourceReaderContext
from firesteel.datastream.functions import KeyedProcessFunction, ListAccumulator, SinkFunction
from firesteel.datastream.state import ValueStateDescriptor

KEYS = 1000
TICK = 0.001
BUCKETS_PER_SECOND = 100_000  # ten microseconds each
Record = tuple[int, float, float]  # key, when it was made, when it was due


class Histogram:
    """Latencies in buckets of ten microseconds: cheap to count, exact enough, mergeable."""

    def __init__(self, counts: Counter[int] | None = None) -> None:
        self.counts = Counter() if counts is None else counts

    def percentile(self, fraction: float) -> float:
        """In milliseconds; the upper edge of the bucket."""
        wanted, seen = fraction * self.counts.total(), 0
        for bucket, count in sorted(self.counts.items()):
            seen += count
            if seen >= wanted:
                return (bucket + 1) / BUCKETS_PER_SECOND * 1000
        return float("nan")

    def texts(self) -> list[str]:
        """p50, p99, p99.9 and the largest, for a table."""
        return [f"{self.percentile(fraction):.1f}" for fraction in (0.5, 0.99, 0.999, 1.0)]


# The job ------------------------------------------------------------------------------------------------


class TimedSource(Source):
    """Records with their times, at ``rate`` in all (None: as fast as it goes), for some seconds."""

    def __init__(self, rate: float | None, seconds: float) -> None:
        self.rate = rate
        self.seconds = seconds

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        """The reader of one subtask."""
        if self.rate is None:
            return _BusyReader(self.seconds)
        return _PacedReader(self.rate / context.parallelism, self.seconds, context.subtask / self.rate)


class _PacedReader(SourceReader):
    gives_away = True  # new tuples

    def __init__(self, rate: float, seconds: float, offset: float) -> None:
        self._timetable = Timetable(rate, seconds, offset)

    def poll(self, limit: int) -> Polled:
        """What is due."""
        now = time.time()
        values = self._timetable.due(now, limit)
        return Polled(values, retry_at=self._timetable.next_time(), ended=self._timetable.over)


class Timetable:
    """Which records are due at a given time; behind schedule it never skips any."""

    def __init__(self, rate: float, seconds: float, offset: float = 0.0) -> None:
        self._rate = rate
        self._count = int(rate * seconds)
        self._offset = offset
        self._group = max(1, int(rate * TICK))
        self._start = 0.0
        self._next = 0

    def due(self, now: float, limit: int) -> list[Record]:
        """The records up to ``now``."""
        self._start = self._start or now + self._offset
        first, start, rate = self._next, self._start, self._rate
        end = min(int((now - start) * rate) + 1, first + limit, self._count)
        self._next = max(first, end)
        return [(n % KEYS, now, start + n / rate) for n in range(first, end)]

    @property
    def over(self) -> bool:
        """Whether all records have been made."""
        return self._next >= self._count

    def next_time(self) -> float:
        """When the next group will be due."""
        return self._start + (self._next + self._group - 1) / self._rate


class _BusyReader(SourceReader):
    gives_away = True  # new tuples

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._end = 0.0
        self._number = 0

    def poll(self, limit: int) -> Polled:
        """As much as is wanted."""
        now = time.time()
        self._end = self._end or now + self._seconds
        numbers = range(self._number, self._number + limit)
        self._number += limit
        return Polled([(n % KEYS, now, now) for n in numbers], ended=now >= self._end)


class Count(KeyedProcessFunction):
    """Counts the records of each key, in keyed state."""

    def open(self, runtime_context: Any) -> None:
        """Get the state."""
        self.count = runtime_context.get_state(ValueStateDescriptor("count", None))

    def process_element(self, value: Record, ctx: Any) -> Iterator[Any]:
        """One more."""
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield value[1], value[2], count


class Clock(SinkFunction):
    """Counts latencies; they reach the driver when the sink closes, so that reporting disturbs nothing."""

    def __init__(self, warm_up: float) -> None:
        self.warm_up = warm_up

    def open(self, runtime_context: Any) -> None:
        """Start with nothing."""
        self.since_made: dict[int, int] = {}
        self.since_due: dict[int, int] = {}
        self.results = ListAccumulator()
        self.count_from = self.last = float("inf")
        runtime_context.add_accumulator("latency", self.results)

    def invoke(self, value: tuple[float, float, int], context: Any) -> None:
        """Count one record."""
        now = time.time()
        if now < self.count_from:
            if self.count_from == float("inf"):
                self.count_from = now + self.warm_up
            return
        self.last = now
        bucket = int((now - value[0]) * BUCKETS_PER_SECOND)
        self.since_made[bucket] = self.since_made.get(bucket, 0) + 1
        bucket = int((now - value[1]) * BUCKETS_PER_SECOND)
        self.since_due[bucket] = self.since_due.get(bucket, 0) + 1

    def close(self) -> None:
        """Hand the counts over."""
        window = self.last - self.count_from if self.since_made else 0.0
        self.results.add((self.since_made, self.since_due, window))


@dataclass(frozen=True, slots=True)
class Measured:
    """Latencies since making and since being due, and how many records a second were counted."""

    made: Histogram
    due: Histogram
    rate: float


def firesteel_latency(rate: float | None, seconds: float, warm_up: float) -> Measured:
    """Run the job; ``rate`` None means as fast as it goes."""
    env = environment()
    source = TimedSource(rate, seconds + warm_up)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "timed")
    stream.key_by(lambda r: r[0]).process(Count()).add_sink(Clock(warm_up))
    parts = env.execute("latency").get_accumulator_result("latency")
    made = sum((Counter(part[0]) for part in parts), Counter())
    due = sum((Counter(part[1]) for part in parts), Counter())
    counted = sum(sum(part[0].values()) / part[2] for part in parts if part[2] > 0)
    return Measured(Histogram(made), Histogram(due), counted)


# The floor ----------------------------------------------------------------------------------------------


def bare_latency(rate: float, seconds: float) -> Histogram:
    """Pickled chunks over a loopback socket between two processes."""
    context = multiprocessing.get_context("spawn")
    with socket.create_server(("127.0.0.1", 0)) as server:
        sender = context.Process(target=_send, args=(server.getsockname()[1], rate, seconds))
        sender.start()
        connection, _ = server.accept()
        with connection, connection.makefile("rb") as stream:
            counts = _count_received(stream)
        sender.join()
    return Histogram(counts)


def _send(port: int, rate: float, seconds: float) -> None:
    timetable = Timetable(rate, seconds)
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while not timetable.over:
            records = timetable.due(time.time(), 10_000)
            if records:
                blob = pickle.dumps(records, protocol=5)
                connection.sendall(struct.pack("<I", len(blob)) + blob)
            time.sleep(max(0.0, timetable.next_time() - time.time()))


def _count_received(stream: Any) -> Counter[int]:
    counts: Counter[int] = Counter()
    while size := stream.read(4):
        for _, made, _ in pickle.loads(stream.read(struct.unpack("<I", size)[0])):
            counts[int((time.time() - made) * BUCKETS_PER_SECOND)] += 1
    return counts


class _BareStages:
    """The functions of the two stages; what crosses is a list of records in a row, and an empty row that pushes it on."""

    def __init__(self, rate: float, seconds: float, warm_up: float) -> None:
        self._rate = rate / PARALLELISM
        self._seconds = seconds + warm_up
        self._warm_up = warm_up

    def send(self, batches: Iterator[Any]) -> Iterator[Any]:
        """The first stage: what is due goes to its receivers, at most as often as Firesteel's tasks flush."""
        list(batches)
        timetable = Timetable(self._rate, self._seconds)
        while not timetable.over:
            records = timetable.due(time.time(), 10_000)
            parts = [[r for r in records if r[0] % PARALLELISM == target] for target in range(PARALLELISM)]
            rows = [(t, pickle.dumps(part, protocol=5)) for t, part in enumerate(parts) if part]
            rows += [(target, b"") for target, _ in rows]
            if rows:
                yield _bare_batch(rows)
            pause = max(timetable.next_time() - time.time(), len(rows) / 1000)
            time.sleep(max(0.0, pause))

    def count(self, batches: Iterator[Any]) -> Iterator[Any]:
        """The second stage; its only row has the counts."""
        counts: Counter[int] = Counter()
        count_from = 0.0
        for batch in batches:
            for scalar in batch.column(1):
                blob = scalar.as_py()
                records = pickle.loads(blob) if blob else ()
                now = time.time()
                count_from = count_from or now + self._warm_up
                if now >= count_from:
                    counts.update(int((now - made) * BUCKETS_PER_SECOND) for _, made, _ in records)
        yield _bare_batch([(0, pickle.dumps(counts))])


def _bare_batch(rows: list[tuple[int, bytes]]) -> Any:
    import pyarrow as pa

    columns = [
        pa.array([target for target, _ in rows], pa.int32()),
        pa.array([blob for _, blob in rows], pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, names=["target", "payload"])


def bare_spark_latency(rate: float, seconds: float, warm_up: float) -> Histogram:
    """Two Python stages of a pipelined Spark job, on the session of a job of Firesteel's that has just run."""
    from pyspark.sql import SparkSession

    from firesteel.spark.pipelined import physical_plan, pipelined, set_active
    from firesteel.spark.settings import TASK

    session = SparkSession.builder.getOrCreate()  # the one that is there
    stages = _BareStages(rate, seconds, warm_up)
    schema = "target int, payload binary"
    frame = session.range(0, PARALLELISM, 1, PARALLELISM).mapInArrow(stages.send, schema)
    frame = frame.repartitionById(PARALLELISM, "target").mapInArrow(stages.count, schema)
    set_active(session)
    for key, value in TASK.items():
        session.sparkContext.setLocalProperty(key, value)
    rows = pipelined(session, physical_plan(frame)).executeCollect()
    return Histogram(sum((pickle.loads(bytes(row.getBinary(1))) for row in rows), Counter()))


# Main ---------------------------------------------------------------------------------------------------


#: Where the curves of the report have their points; the table has fewer.
CURVE = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999, "max": 1.0}


def add_curve(results: Results, plot: str, series: str, histogram: Histogram) -> None:
    """The percentiles of one measurement, for the report."""
    for name, fraction in CURVE.items():
        results.point(plot, series, name, histogram.percentile(fraction))


def paced_rows(
    results: Results, rate: int, seconds: float, warm_up: float, targets: dict[float, float]
) -> list[list[str]]:
    """Firesteel and the floor at one rate."""
    note(f"{rate:,} records/s for {seconds:g} s")
    floor = bare_latency(rate, min(seconds, 5))
    ours = firesteel_latency(rate, seconds, warm_up)
    spark = bare_spark_latency(rate, seconds, warm_up)
    made, due = ours.made, ours.due
    ratios = [f"{made.percentile(f) / spark.percentile(f):.1f}x" for f in (0.5, 0.99)]
    verdict = ", ".join(
        f"p{fraction * 100:g} {at_most(made.percentile(fraction), most, ' ms')}"
        for fraction, most in targets.items()
    )
    label = f"{rate:,}/s"
    for name, histogram in {
        "Firesteel, since made": made,
        "Firesteel, since due": due,
        "bare Spark": spark,
        "bare socket": floor,
    }.items():
        add_curve(results, f"latency at {label}", name, histogram)
    return [
        [label, "bare loopback socket", *floor.texts(), ""],
        ["", "bare Spark", *spark.texts(), ""],
        ["", "Firesteel, since made", *made.texts(), verdict],
        [
            "",
            "Firesteel, since due",
            *due.texts(),
            f"since made over bare Spark: p50 {ratios[0]}, p99 {ratios[1]}",
        ],
    ]


def saturated_row(results: Results, seconds: float, warm_up: float) -> list[str]:
    """Firesteel at full speed."""
    note(f"saturated for {seconds:g} s")
    ours = firesteel_latency(None, seconds, warm_up)
    made = ours.made
    add_curve(results, "latency saturated", "Firesteel, since made", made)
    verdict = f"p99 {at_most(made.percentile(0.99), 500, ' ms')}"
    return [f"saturated ({ours.rate:,.0f}/s)", "Firesteel, since made", *made.texts(), verdict]


def main() -> None:
    found = parser(__doc__)
    found.add_argument("--seconds", type=float, help="how long each rate is measured")
    arguments = found.parse_args()
    seconds = arguments.seconds or (5.0 if arguments.quick else 20.0)
    warm_up = 3.0 if arguments.quick else 8.0
    results = begin(
        __file__,
        f"Latency from source to sink: key_by and a keyed process function, parallelism {PARALLELISM}, in ms",
        arguments,
    )
    rows = paced_rows(results, 1_000, seconds, warm_up, {0.5: 3, 0.99: 10})
    rows += paced_rows(results, 200_000, seconds, warm_up, {0.99: 25})
    rows.append(saturated_row(results, seconds, warm_up))
    results.table(["load", "measured", "p50", "p99", "p99.9", "max", "target"], rows)


if __name__ == "__main__":
    main()
