"""Checkpoints: what they cost while all goes well, and how soon a job is back when something dies.

- throughput: the keyed program of `efficiency` with a checkpoint every second against without, in alternating
  repetitions; the second ratio compares CPU seconds per record, which is the one to trust on a busy machine.
- pause: how long the loop of a task stands still for the snapshot of a million keys of which 1 % have changed: the
  beginning of the snapshot plus its longest slice. In this process, on the backend alone.
- restore: a million keys back from a snapshot's file into the tables of one subtask.
- recovery: from ``kill -9`` of a Python worker to the first record that the sink of the next attempt sees, in a warm
  Spark, without a restart delay.
- backends: keyed state on disk against state in memory, with keys that fit into the cache, with twice as many, and
  with many more.
- Flink: which part of its throughput the same PyFlink program loses to checkpoints at the same interval.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _contest import TUNED, firesteel_command, measure, pyflink_command
from _harness import (
    PARALLELISM,
    Cost,
    at_least,
    at_most,
    median,
    note,
    parser,
    rate_text,
    ratio_text,
    slope,
    spread,
    tree_cpu_seconds,
)
from _results import begin
from efficiency import keyed, readings
from firesteel.checkpoint.storage import Storage, open_storage
from firesteel.common import Configuration, Types, WatermarkStrategy
from firesteel.connectors.datagen import DataGeneratorSource
from firesteel.connectors.rate_limit import RateLimiterStrategy
from firesteel.contracts.source import Polled, Source, SourceReader, SourceReaderContext
from firesteel.datastream import StreamExecutionEnvironment
from firesteel.datastream.functions import DiscardingSink, KeyedProcessFunction, SinkFunction
from firesteel.datastream.state import ValueStateDescriptor
from firesteel.plan.state_handles import CheckpointOrder, Segment
from firesteel.runtime.subtask_snapshot import OperatorSection, SnapshotFile, SubtaskSnapshot, segment_reader
from firesteel.state.cached.disk_backend import DiskBackend
from firesteel.state.hashmap_backend import HashMapBackend

INTERVAL = "1 s"
STATE_KEYS = 1_000_000
DIRTY = STATE_KEYS // 100

TARGET_THROUGHPUT = 0.9
TARGET_PAUSE_MS = 50
TARGET_RESTORE_S = 10
TARGET_RECOVERY_S = 2
TARGET_DISK = 0.3


@contextmanager
def environment(options: dict[str, str]) -> Iterator[Any]:
    """An environment with options, and a directory for checkpoints if it has any."""
    with tempfile.TemporaryDirectory(prefix="firesteel-bench-") as directory:
        if "execution.checkpointing.interval" in options:
            options = {**options, "execution.checkpointing.dir": directory}
        configuration = Configuration.from_dict(options)
        yield StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(PARALLELISM)


# Throughput --------------------------------------------------------------------------------------------


class ResumableSource(Source):
    """Like `CyclingSource`, with its positions in checkpoints."""

    def __init__(self, make: Callable[[int], list[Any]], count: int) -> None:
        self.make = make
        self.count = count

    def splits_of(self, subtask: int, parallelism: int) -> list[int]:
        """How many records are left."""
        return [self.count // parallelism]

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        """The reader of one subtask's share."""
        return _ResumableReader(self.make(context.subtask))


class _ResumableReader(SourceReader):
    def __init__(self, records: list[Any]) -> None:
        self._records = records
        self._left = 0

    def add_splits(self, splits: Sequence[int]) -> None:
        self._left += sum(splits)

    def snapshot_state(self, checkpoint_id: int) -> list[int]:
        return [self._left]

    def poll(self, limit: int) -> Polled:
        start = -self._left % len(self._records)
        values = self._records[start : start + min(limit, self._left)]
        self._left -= len(values)
        return Polled(values, ended=self._left <= 0)


def cycling(env: Any, make: Callable[[int], list[Any]], count: int) -> Any:
    """A stream from a `ResumableSource`."""
    return env.from_source(ResumableSource(make, count), WatermarkStrategy.no_watermarks(), "cycle")


def run_keyed(count: int, interval: str | None) -> None:
    """The keyed program to its end."""
    with environment({"execution.checkpointing.interval": interval} if interval else {}) as env:
        keyed(cycling(env, readings, count)).add_sink(DiscardingSink())
        env.execute("keyed")


def throughput(quick: bool) -> list[list[str]]:
    """With checkpoints against without."""
    sizes = (500_000, 3_500_000) if quick else (1_000_000, 16_000_000)
    for interval in (INTERVAL, None):
        run_keyed(sizes[1], interval)  # the JVM compiles what is hot for longer than a small job takes
    with_them, without = in_turns(
        1 if quick else 8,  # each side is first in half of them
        lambda: slope(lambda count: run_keyed(count, INTERVAL), *sizes),
        lambda: slope(lambda count: run_keyed(count, None), *sizes),
    )
    ratios = [b.wall / a.wall for a, b in zip(with_them, without, strict=True)]
    by_cpu = median(b.cpu for b in without) / median(a.cpu for a in with_them)
    rates = [rate_text(1 / median(cost.wall for cost in costs)) for costs in (with_them, without)]
    return [
        [
            f"keyed throughput, every {INTERVAL} / none",
            f"{rates[0]} / {rates[1]} = {ratio_text(median(ratios))} ({spread(ratios)})",
            at_least(median(ratios), TARGET_THROUGHPUT),
        ],
        ["  by CPU time per record", ratio_text(by_cpu), ""],
    ]


def _per_record(cost: Cost) -> str:
    return f"{rate_text(1 / cost.wall)}, {cost.cpu * 1e6:.2f} us CPU"


def in_turns(
    repetitions: int,
    first: Callable[[], Cost],
    second: Callable[[], Cost],
    shown: Callable[[Cost], str] = _per_record,
) -> tuple[list[Cost], list[Cost]]:
    """Both sides, again and again; they take turns at going first, because what comes first may have it better."""
    found: tuple[list[Cost], list[Cost]] = ([], [])
    sides = list(zip(found, (first, second), strict=True))
    for repetition in range(repetitions):
        for costs, side in sides if repetition % 2 == 0 else reversed(sides):
            costs.append(side())
        note(" against ".join(shown(costs[-1]) for costs in found))
    return found


# Pause and restore -------------------------------------------------------------------------------------


def filled(backend: HashMapBackend, keys: int) -> HashMapBackend:
    """A backend with a number under every key."""
    counts = backend.table("count")
    for start in range(0, keys, 1024):
        batch = [f"user-{n:08}" for n in range(start, min(start + 1024, keys))]
        if backend.tracks:
            backend.touch(batch)
        for key in batch:
            counts[key] = len(counts)
    return backend


def change(backend: HashMapBackend, keys: int) -> None:
    """Some keys get another value, in batches."""
    counts = backend.table("count")
    draw = random.Random(1)
    chosen = [f"user-{n:08}" for n in draw.sample(range(STATE_KEYS), keys)]
    for start in range(0, keys, 1024):
        batch = chosen[start : start + 1024]
        backend.touch(batch)
        for key in batch:
            counts[key] += 1


@dataclass(frozen=True, slots=True)
class Pause:
    """Milliseconds that a loop stands still: to begin a snapshot, and for its longest slice."""

    begin: float
    slice: float

    @property
    def longest(self) -> float:
        """If the two came one after the other."""
        return self.begin + self.slice


def snapshot(backend: HashMapBackend, number: int) -> Pause:
    """Take a snapshot and throw it away."""
    began = time.perf_counter()
    taken = backend.begin_snapshot(number)
    begin, longest = time.perf_counter() - began, 0.0
    while not taken.done:
        began = time.perf_counter()
        taken.step()
        longest = max(longest, time.perf_counter() - began)
    backend.checkpoint_completed(number)
    return Pause(begin * 1000, longest * 1000)


def pauses(quick: bool) -> list[list[str]]:
    """Of a full snapshot and of deltas."""
    backend = filled(HashMapBackend(incremental=True), STATE_KEYS)
    full = snapshot(backend, 1)
    deltas = []
    for number in range(2, 5 if quick else 12):
        change(backend, DIRTY)
        deltas.append(snapshot(backend, number))
        note(f"delta: {deltas[-1].begin:.1f} ms to begin, {deltas[-1].slice:.1f} ms the longest slice")
    delta = max(deltas, key=lambda pause: pause.longest)
    return [
        [
            "pause, a million keys, 1 % changed (the worst)",
            f"{delta.begin:.1f} + {delta.slice:.1f} ms",
            at_most(delta.longest, TARGET_PAUSE_MS, " ms"),
        ],
        ["  of a full snapshot", f"{full.begin:.1f} + {full.slice:.1f} ms", ""],
    ]


class _Services:
    """What writing and reading a snapshot's file needs."""

    attempt = 0
    local_copies = None

    def __init__(self, directory: str) -> None:
        self._storage = open_storage(directory)

    def now(self) -> float:
        return time.time()

    def storage(self, root: str) -> Storage:
        return self._storage


def restore(quick: bool) -> list[list[str]]:
    """A million keys from a file, into memory and onto disk, with the cache of every day and with a small one."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="firesteel-bench-") as directory:
        services = _Services(directory)
        segment = written(filled(HashMapBackend(), STATE_KEYS), services, directory)
        size = segment.length / 1e6
        for name, backend in (
            ("hashmap", HashMapBackend()),
            ("disk", DiskBackend()),
            ("disk, 10,000 in memory", DiskBackend(cache_entries=10_000)),
        ):
            began, cpu = time.perf_counter(), time.process_time()
            for block in segment_reader(directory, services)(segment):
                backend.restore_block(block)
            seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
            rows.append(
                [
                    f"restore of a million keys ({size:.0f} MB), {name}",
                    f"{seconds:.1f} s ({cpu:.1f} s CPU)",
                    at_most(seconds, TARGET_RESTORE_S, " s"),
                ]
            )
            backend.close()
    return rows


def written(backend: HashMapBackend, services: _Services, directory: str) -> Segment:
    """A full snapshot in a file, as a task writes it."""
    section = OperatorSection("operator", [], backend.begin_snapshot(1))
    order = CheckpointOrder(1, 0, root=directory)
    whole = SubtaskSnapshot(order, 0, 0, [section], began=time.time(), alignment_ms=0, pause_ms=0)
    file = SnapshotFile(whole, services)
    while not whole.is_serialised:
        whole.step(4096)
        file.write(whole.drain())
    file.finish()
    assert whole.handles is not None
    return whole.handles[0].keyed[0]


# Recovery ----------------------------------------------------------------------------------------------


class Count(KeyedProcessFunction):
    """Counts per key; keeps a text of ``weight`` characters beside the count, to have some size."""

    def __init__(self, weight: int = 0) -> None:
        self.weight = weight

    def open(self, runtime_context: Any) -> None:
        """Ask for the state."""
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        """One more."""
        found = self.count.value()
        number = found[0] + 1 if found else 1
        self.count.update((number, str(number) * self.weight))
        yield number


class FirstRecords(SinkFunction):
    """Leaves a file for every attempt, with the time of the first record that a subtask of it sees."""

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def open(self, runtime_context: Any) -> None:
        """See which attempt this is."""
        attempt, subtask = runtime_context.get_attempt_number(), runtime_context.get_index_of_this_subtask()
        self.path = os.path.join(self.directory, f"{attempt}-{subtask}")
        self.seen = False

    def invoke(self, value: Any, context: Any) -> None:
        """The first one counts."""
        if not self.seen:
            self.seen = True
            with open(self.path + ".new", "w") as file:
                file.write(repr(time.time()))
            os.rename(self.path + ".new", self.path)


def recovery(quick: bool) -> list[list[str]]:
    """Kill workers of one job, one after the other."""
    kills = 3 if quick else 9
    options = {
        "execution.checkpointing.interval": "200 ms",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "1000",
        "restart-strategy.fixed-delay.delay": "0 ms",
    }
    with environment(options) as env, tempfile.TemporaryDirectory(prefix="firesteel-bench-") as seen:
        source = DataGeneratorSource(lambda n: n, None, RateLimiterStrategy.per_second(2000))
        numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
        numbers.key_by(lambda n: n % 1000).process(Count()).add_sink(FirstRecords(seen))
        client = env.execute_async("recovery")
        first_record(seen, set())
        found = []
        for _ in range(kills + 1):  # the first one warms up
            time.sleep(1)  # some checkpoints
            tasks = workers_of_one_attempt()
            before = set(os.listdir(seen))
            killed = time.time()
            os.kill(random.choice(tasks), signal.SIGKILL)
            found.append(first_record(seen, before) - killed)
            note(f"first record after {found[-1]:.2f} s")
        client.cancel().result()
    warm = median(found[1:])
    return [
        [
            f"first record after kill -9 of a worker ({kills} times)",
            f"{warm:.2f} s ({spread(found[1:])})",
            at_most(warm, TARGET_RECOVERY_S, " s"),
        ]
    ]


def first_record(directory: str, before: set[str]) -> float:
    """When the first record of a new attempt was seen."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        new = [name for name in set(os.listdir(directory)) - before if not name.endswith(".new")]
        if new:
            return min(float(Path(directory, name).read_text()) for name in new)
        time.sleep(0.005)
    raise SystemExit("no record within a minute")


def workers_of_one_attempt() -> list[int]:
    """The workers of two stages, when those of the attempt before are gone."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        tasks = task_processes()
        if len(tasks) == 2 * PARALLELISM:
            return tasks
        time.sleep(0.05)
    raise SystemExit(f"{len(task_processes())} workers after a minute, expected {2 * PARALLELISM}")


def task_processes() -> list[int]:
    """The Python workers that run tasks: forks of a daemon that has the same command line."""
    parents = {pid: _parent(pid) for pid in tree_cpu_seconds() if _is_python_worker(pid)}
    return [pid for pid, parent in parents.items() if parent in parents]


def _is_python_worker(pid: int) -> bool:
    try:
        # As an argument of its own: the JVM has it inside an option.
        return b"firesteel.spark.worker_daemon" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


# Backends ----------------------------------------------------------------------------------------------


class PeakMemory:
    """The most memory that any Python worker has of its own while it runs, and of mapped files, in bytes.

    Mapped files are mostly state on disk. The operating system takes that memory back when it needs it.
    """

    def __init__(self) -> None:
        self.own = 0
        self.mapped = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(0.2):
            for pid in task_processes():
                try:
                    resident, mapped = map(int, Path(f"/proc/{pid}/statm").read_text().split()[1:3])
                except OSError:
                    continue
                page = os.sysconf("SC_PAGESIZE")
                self.own = max(self.own, (resident - mapped) * page)
                self.mapped = max(self.mapped, mapped * page)


@dataclass(frozen=True, slots=True)
class Load:
    """Keyed state: how many keys, how heavy each, how many of them the disk backend may keep in memory."""

    keys: int
    weight: int
    cache: int


def numbers_of(subtask: int) -> list[int]:
    """Numbers in random order, the same ones again and again."""
    draw = random.Random(subtask)
    return [draw.randrange(2**31) for _ in range(200_000)]


def run_count(load: Load, backend: str, count: int) -> None:
    """Count per key, to the end."""
    keys = load.keys
    options = {"state.backend.type": backend, "state.backend.disk.cache-entries": str(load.cache)}
    with environment(options) as env:
        counted = cycling(env, numbers_of, count).key_by(lambda n: n % keys).process(Count(load.weight))
        counted.add_sink(DiscardingSink())
        env.execute(backend)


def backends(quick: bool) -> list[list[str]]:
    """Disk against memory: speed while all keys would fit into memory, speed and memory when they do not."""
    return [
        *disk_against_memory("all keys in the cache", Load(50_000, 1, 200_000), quick),
        *disk_against_memory("half of the keys in the cache", Load(200_000, 1, 50_000), quick),
        *larger_than_cache(quick),
    ]


def disk_against_memory(what: str, load: Load, quick: bool) -> list[list[str]]:
    """Both backends in turns; by CPU time per record, too, which is the one to trust on a busy machine."""
    sizes = (200_000, 1_200_000) if quick else (500_000, 3_500_000)
    run_count(load, "disk", sizes[0])
    disk, memory = in_turns(
        1 if quick else 3,
        lambda: slope(lambda count: run_count(load, "disk", count), *sizes),
        lambda: slope(lambda count: run_count(load, "hashmap", count), *sizes),
    )
    ratio = median(b.wall / a.wall for a, b in zip(disk, memory, strict=True))
    by_cpu = median(b.cpu / a.cpu for a, b in zip(disk, memory, strict=True))
    rates = [rate_text(1 / median(cost.wall for cost in costs)) for costs in (disk, memory)]
    return [
        [
            f"disk / hashmap, {what}",
            f"{rates[0]} / {rates[1]} = {ratio_text(ratio)}",
            at_least(ratio, TARGET_DISK),
        ],
        ["  by CPU time per record", ratio_text(by_cpu), ""],
    ]


def larger_than_cache(quick: bool) -> list[list[str]]:
    """Every key with some hundred bytes, twenty times as many as the cache holds; the rate early and late."""
    load = Load(400_000, 200, 10_000)  # 200,000 keys in each of two subtasks
    counts = (300_000, 700_000, 1_100_000) if quick else (1_000_000, 2_500_000, 4_000_000)
    rows = []
    for backend in ("disk", "hashmap"):
        seconds, peaks = [], []
        for count in counts:
            began = time.perf_counter()
            with PeakMemory() as peak:
                run_count(load, backend, count)
            seconds.append(time.perf_counter() - began)
            peaks.append(peak)
        early, late = ((counts[i + 1] - counts[i]) / (seconds[i + 1] - seconds[i]) for i in (0, 1))
        memory = [f"{peak.own / 1e6:.0f} MB + {peak.mapped / 1e6:.0f} MB mapped" for peak in peaks[1:]]
        name = f"  20 times larger than the cache, {backend}"
        rows += [
            [name, f"{rate_text(early)}, later {rate_text(late)}", ""],
            ["    memory of a worker", ", later ".join(memory), ""],
        ]
    return rows


# Flink -------------------------------------------------------------------------------------------------


def flink(quick: bool) -> list[list[str]]:
    """What each engine loses to the same checkpoints in the same program."""
    repeat = 1 if quick else 3
    ours = (500_000, 3_500_000) if quick else (2_000_000, 14_000_000)
    theirs = (20_000, 120_000) if quick else (20_000, 200_000)
    interval = f"execution.checkpointing.interval={INTERVAL}"
    rows = []
    left = {}
    for name, command, sizes, options in (
        ("Firesteel", firesteel_command("keyed_reduce"), ours, ()),
        ("PyFlink, tuned", pyflink_command("keyed_reduce"), theirs, TUNED),
    ):
        without = measure(command, sizes, options, repeat).rate
        with_them = measure(command, sizes, (*options, interval), repeat).rate
        left[name] = with_them / without
        rows.append(
            [
                f"keyed_reduce with / without, {name}",
                f"{rate_text(with_them)} / {rate_text(without)} = {ratio_text(left[name])}",
                "",
            ]
        )
    lost = {name: max(0.0, 1 - ratio) for name, ratio in left.items()}
    both = " against ".join(f"{100 * value:.0f} %" for value in lost.values())
    return [*rows, ["  throughput lost, Firesteel against PyFlink", both, ""]]


PARTS: dict[str, Callable[[bool], list[list[str]]]] = {
    "throughput": throughput,
    "pause": pauses,
    "restore": restore,
    "recovery": recovery,
    "backends": backends,
    "flink": flink,
}


def main() -> None:
    arguments = _arguments()
    results = begin(__file__, f"Checkpoints and recovery, parallelism {PARALLELISM}", arguments)
    rows: list[list[str]] = []
    for name, part in PARTS.items():
        if arguments.only in (None, name):
            note(name)
            rows += part(arguments.quick)
    results.table(["what", "found", "target"], rows)


def _arguments() -> argparse.Namespace:
    found = parser(__doc__)
    found.add_argument("--only", choices=PARTS, help="one part")
    return found.parse_args()


if __name__ == "__main__":
    main()
