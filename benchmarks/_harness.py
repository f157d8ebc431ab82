"""What all benchmarks share: arguments, medians, CPU and memory accounting, and the streams they measure.

A benchmark prints ratios of two things measured in the same run, because machines differ and shared ones
are noisy. It repeats, alternates the two sides and reports medians.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firesteel.contracts.source import Polled, Source, SourceReader

if TYPE_CHECKING:  # `versions` runs this with sources of earlier versions, which called it otherwise
    from firesteel.contracts.source import SourceReaderContext

ROOT = Path(__file__).resolve().parents[1]
PARALLELISM = 2


# Arguments and output --------------------------------------------------------------------------------


def parser(description: str | None) -> argparse.ArgumentParser:
    """The arguments every benchmark has."""
    found = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    found.add_argument("--quick", action="store_true", help="smaller sizes, fewer repetitions: a smoke test")
    found.add_argument("--json", metavar="FILE", help="save what was measured, for the report")
    return found


def cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def version_of(package: str) -> str:
    """The version of an installed package."""
    from importlib.metadata import version

    return version(package)


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print columns, the first one to the left and the others to the right."""
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    print()
    for row in [header, ["-" * width for width in widths], *rows]:
        cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
        print("  ".join([row[0].ljust(widths[0]), *cells[1:]]).rstrip(), flush=True)
    print(flush=True)


def note(text: str) -> None:
    """Say what is going on, apart from the results."""
    print(f"  {text}", file=sys.stderr, flush=True)


def rate_text(per_second: float) -> str:
    """Records per second, for a table."""
    return f"{per_second:,.0f}/s"


def ratio_text(ratio: float) -> str:
    """A ratio with as many digits as mean something."""
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:,.0f}"


def at_least(value: float, target: float) -> str:
    """Whether a target holds that wants much."""
    return f"{'holds' if value >= target else 'MISSED'} (>= {target:g})"


def at_most(value: float, target: float, unit: str = "") -> str:
    """Whether a target holds that wants little."""
    return f"{'holds' if value <= target else 'MISSED'} (<= {target:g}{unit})"


median = statistics.median


def spread(values: Sequence[float]) -> str:
    """Smallest and largest of the repetitions, to show how noisy they were."""
    return f"{min(values):.2f}-{max(values):.2f}"


def percentile(ordered: Sequence[float], fraction: float) -> float:
    """The value below which ``fraction`` of the ordered values lie."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * fraction))]


# Time and CPU ----------------------------------------------------------------------------------------


@dataclass(slots=True)
class Cost:
    """What something took: wall seconds, and CPU seconds of this process and all it started."""

    wall: float = 0.0
    cpu: float = 0.0

    def __sub__(self, other: Cost) -> Cost:
        return Cost(self.wall - other.wall, self.cpu - other.cpu)


@contextmanager
def measured() -> Iterator[Cost]:
    """Measures its body; on machines without /proc the CPU time stays 0."""
    cost = Cost()
    with _TreeClock() as clock:
        wall = time.perf_counter()
        yield cost
        cost.wall = time.perf_counter() - wall
    cost.cpu = clock.seconds


class _TreeClock:
    """CPU seconds that this process and its descendants use while it runs.

    Looks at the processes again and again, because Python workers come and go within a job and PySpark's
    daemon ignores their end, which makes the system forget what they used.
    """

    _PERIOD = 0.05

    def __init__(self) -> None:
        self._before = tree_cpu_seconds()
        self._latest: dict[int, float] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    @property
    def seconds(self) -> float:
        """So far, of the living and the dead."""
        return sum(used - self._before.get(pid, 0.0) for pid, used in self._latest.items())

    def __enter__(self) -> _TreeClock:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()
        self._latest.update(tree_cpu_seconds())

    def _watch(self) -> None:
        while not self._over.wait(self._PERIOD):
            self._latest.update(tree_cpu_seconds())


def tree_cpu_seconds() -> dict[int, float]:
    """CPU seconds of this process and of each of its living descendants."""
    processes = dict(_processes())
    children: dict[int, list[int]] = {}
    for pid, (parent, _) in processes.items():
        children.setdefault(parent, []).append(pid)
    found: dict[int, float] = {}
    waiting = [os.getpid()]
    while waiting:
        pid = waiting.pop()
        waiting += children.get(pid, [])
        if pid in processes:
            found[pid] = processes[pid][1]
    return found


def _processes() -> Iterator[tuple[int, tuple[int, float]]]:
    """Every process: (id, (parent, CPU seconds))."""
    tick = os.sysconf("SC_CLK_TCK")
    for pid in filter(str.isdigit, os.listdir("/proc") if os.path.isdir("/proc") else []):
        try:
            with open(f"/proc/{pid}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        yield int(pid), (int(fields[1]), sum(map(int, fields[11:13])) / tick)


class PeakMemory:
    """The most memory that any one Python worker of this process holds while the body runs, in bytes.

    Looks again and again. Memory that a worker has from an earlier job counts, too: begin with the smallest.
    """

    _PERIOD = 0.02

    def __init__(self) -> None:
        self.peak = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()
        self._look()

    def _watch(self) -> None:
        while not self._over.wait(self._PERIOD):
            self._look()

    def _look(self) -> None:
        self.peak = max([self.peak, *worker_memory().values()])


def worker_memory() -> dict[int, int]:
    """Resident bytes of every living descendant that is a Python process."""
    found = {}
    for pid in tree_cpu_seconds():
        try:
            name = Path(f"/proc/{pid}/comm").read_text()
            pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        except (OSError, IndexError):  # it has just ended
            continue
        if pid != os.getpid() and name.startswith("python"):
            found[pid] = pages * os.sysconf("SC_PAGESIZE")
    return found


def slope(run: Callable[[int], Any], small: int, large: int) -> Cost:
    """Cost per record without what every job costs once: the difference between two sizes."""
    with measured() as first:
        run(small)
    with measured() as second:
        run(large)
    difference = second - first
    return Cost(difference.wall / (large - small), difference.cpu / (large - small))


# Streams ---------------------------------------------------------------------------------------------


class CyclingSource(Source):
    """Emits ``count`` records in all, over and over the same pre-built list: nearly free.

    ``make`` builds the list inside the task, from the subtask's number.
    """

    def __init__(self, make: Callable[[int], list[Any]], count: int) -> None:
        self.make = make
        self.count = count

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        """The reader of one subtask's share."""
        return _CyclingReader(self.make(context.subtask), self.count // context.parallelism)


class _CyclingReader(SourceReader):
    gives_away = True  # tuples and text

    def __init__(self, records: list[Any], count: int) -> None:
        self._records = records
        self._left = count
        self._position = 0

    def poll(self, limit: int) -> Polled:
        """A slice of the list."""
        start = self._position
        values = self._records[start : start + min(limit, self._left)]
        self._position = (start + len(values)) % len(self._records)
        self._left -= len(values)
        return Polled(values, ended=self._left <= 0)

    def stop(self) -> None:
        """Leave out the rest."""
        self._left = 0


def environment(parallelism: int = PARALLELISM) -> Any:
    """A Firesteel environment; all of one process share a warm Spark."""
    from firesteel.datastream import StreamExecutionEnvironment

    return StreamExecutionEnvironment.get_execution_environment().set_parallelism(parallelism)


def cycling(env: Any, make: Callable[[int], list[Any]], count: int) -> Any:
    """A stream from a `CyclingSource`."""
    from firesteel.common import WatermarkStrategy

    return env.from_source(CyclingSource(make, count), WatermarkStrategy.no_watermarks(), "cycle")
