"""Soak: many jobs, checkpoints and splits, one after the other, and a look at what the processes hold meanwhile.

    scripts/soak                                  an hour
    scripts/soak --minutes 5                      the same with less of everything
    scripts/soak --minutes 10 --part service      only this

    jobs          a thousand small jobs of one program, registered as those of `firesteel run` are
    checkpoints   one job with ten thousand checkpoints
    splits        one job that reads a million splits
    spark-jobs    as many jobs on one embedded Spark as a quarter of the time allows
    spark-job     one job on it for another quarter, with a checkpoint every 20 ms: its tasks are looked at, too
    service       a cluster service whose jobs end, fail, are cancelled, killed and rescaled, and watched all the while: service_soak.py

The first three run in the simulator, where a job master is as real as on Spark and a job takes milliseconds; tasks
are in the same process, so theirs is measured as well. Descriptors, threads, memory and temporary files are counted
again and again. Whatever grows - whose least count towards the end is larger than the greatest one before - is an
error, and a table shows all counts.
"""

from __future__ import annotations

import argparse
import gc
import math
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from firesteel.common import Configuration, WatermarkStrategy
from firesteel.contracts.source import (
    Boundedness,
    Polled,
    Source,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from firesteel.datastream import DiscardingSink, StreamExecutionEnvironment
from firesteel.jobmaster.checkpoints.deletions import DELETION_THREAD
from firesteel.launch import register_jobs
from firesteel.testing import simulated_environment

_PAGE = os.sysconf("SC_PAGE_SIZE")
_SAMPLES = 12
_SPLITS_AT_ONCE = 100

#: How much more there may be at the end than before, of each thing that is counted.
ALLOWED = {"descriptors": 3.0, "threads": 3.0, "megabytes": 6.0, "files": 3.0, "processes": 1.0}


# Looking ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Usage:
    """What a process, or several together, hold at a moment."""

    descriptors: int
    threads: int
    megabytes: float
    files: int = 0
    processes: int = 1

    def __add__(self, other: Usage) -> Usage:
        return Usage(*(mine + theirs for mine, theirs in zip(self.values(), other.values(), strict=True)))

    def values(self) -> tuple[int, int, float, int, int]:
        return self.descriptors, self.threads, self.megabytes, self.files, self.processes


#: What no process holds.
NOTHING = Usage(0, 0, 0.0, 0, 0)


def usage(pid: int, files: int = 0) -> Usage:
    """What a process holds now."""
    place = Path(f"/proc/{pid}")
    pages = int((place / "statm").read_text().split()[1])
    return Usage(
        len(os.listdir(place / "fd")), len(os.listdir(place / "task")), round(pages * _PAGE / 1e6, 1), files
    )


def descendants(pid: int) -> dict[int, str]:
    """The processes that a process has started, and those that they have: their command lines by pid."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found: dict[int, str] = {}
    level = {pid}
    while level := {child for child, parent in parents.items() if parent in level}:
        for child in level:
            try:
                found[child] = (Path("/proc") / str(child) / "cmdline").read_text().replace("\0", " ")
            except OSError:
                continue
    return found


@dataclass
class Series:
    """The counts of one process over time."""

    name: str
    samples: list[Usage] = field(default_factory=list)
    #: What says nothing when it grows.
    free: tuple[str, ...] = ()

    def growth(self) -> list[str]:
        """What has grown; nothing can be said about few samples."""
        if len(self.samples) < 6:
            return []
        third = len(self.samples) // 3
        found = []
        for index, (what, allowed) in enumerate(ALLOWED.items()):
            before = max(sample.values()[index] for sample in self.samples[third : 2 * third])
            after = min(sample.values()[index] for sample in self.samples[2 * third :])
            if what not in self.free and after > before + allowed:
                found.append(f"{self.name}: {what} grew from {before:g} to {after:g}")
        return found

    def table(self) -> str:
        """One line for each sample."""
        lines = [
            f"{self.name:<28} {'descriptors':>12} {'threads':>9} {'MB':>9} {'files':>7} {'processes':>10}"
        ]
        for sample in self.samples:
            descriptors, threads, megabytes, files, processes = sample.values()
            lines.append(
                f"{'':<28} {descriptors:>12} {threads:>9} {megabytes:>9.1f} {files:>7} {processes:>10}"
            )
        return "\n".join(lines)


class Looks:
    """Samples at equal steps of something that is counted; made of this process."""

    current: Looks  # of the part that runs now: its sources are in this process, too

    def __init__(self, name: str, total: int, temporary: Path, samples: int = _SAMPLES) -> None:
        self.series = Series(name)
        self._step = self._next = max(1, total // samples)
        self._temporary = temporary
        Looks.current = self

    def at(self, count: int) -> None:
        """So many have been done."""
        if count >= self._next:
            self._next += self._step
            self.look()

    def look(self) -> None:
        """Take a sample now."""
        await_deletions()
        gc.collect()
        self.series.samples.append(usage(os.getpid(), files_in(self._temporary)))


def await_deletions() -> None:
    """Let old checkpoints be deleted, which happens in a thread: those that it has not come to yet are no leak.

    Where checkpoints are completed all the time it may never have nothing to do, so that is not waited for.
    """
    from firesteel_support import (
        threads,  # not above: tasks import this module, too, and have no such package
    )

    for thread in threading.enumerate():
        if thread.name == DELETION_THREAD:
            threads.join(thread, 30.0)


def files_in(directory: Path) -> int:
    """How many files and directories there are below it; but Spark makes its 64 folders for blocks as it needs them."""
    return sum(
        len(files) + (0 if Path(folder).name.startswith("blockmgr-") else len(names))
        for folder, names, files in os.walk(directory)
    )


# In the simulator ---------------------------------------------------------------------------------------


def many_jobs(count: int, temporary: Path) -> Series:
    """Small jobs, one after the other."""
    looks = Looks("jobs", count, temporary)
    with register_jobs():
        for number in range(1, count + 1):
            env = simulated_environment(number, parallelism=1)
            env.from_collection(range(20)).key_by(lambda n: n % 3).sum(0).add_sink(DiscardingSink())
            env.execute(f"job {number}")
            looks.at(number)
    return looks.series


class CheckpointCounter(Source):
    """A record for each checkpoint, and the end after so many."""

    def __init__(self, count: int) -> None:
        self.count = count

    @property
    def max_subtasks(self) -> int:
        return 1

    def splits_of(self, subtask: int, parallelism: int) -> list[int]:
        return [0]

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        return _CheckpointReader(self.count, context)


class _CheckpointReader(SourceReader):
    def __init__(self, count: int, context: SourceReaderContext) -> None:
        self._count = count
        self._context = context
        self._completed = self._emitted = 0

    def poll(self, limit: int) -> Polled:
        if self._completed >= self._count:
            return Polled([], ended=True)
        if self._emitted > self._completed:
            return Polled([], retry_at=math.inf)
        self._emitted += 1
        return Polled([self._emitted])

    def add_splits(self, splits: Sequence[Any]) -> None:
        pass

    def snapshot_state(self, checkpoint_id: int) -> list[int]:
        return [self._emitted]

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self._completed += 1
        Looks.current.at(self._completed)
        self._context.wake()


def many_checkpoints(count: int, temporary: Path) -> Series:
    """One job that does little but take checkpoints."""
    # How many files incremental checkpoints have goes up and down: few looks could seem to go up only.
    looks = Looks("checkpoints", count, temporary, 2 * _SAMPLES)
    directory = temporary / "checkpoints"
    options = {
        "execution.checkpointing.interval": "10 ms",
        "execution.checkpointing.dir": str(directory),
        "execution.checkpointing.incremental": "true",
    }
    env = simulated_environment(1, parallelism=1, configuration=Configuration.from_dict(options))
    source = env.from_source(CheckpointCounter(count), WatermarkStrategy.no_watermarks(), "Counter")
    source.key_by(lambda n: n % 100).sum(0).add_sink(DiscardingSink())
    env.execute("checkpoints")
    # On a busy machine old ones are deleted later than new ones come; a job that has ended has deleted them.
    looks.series.free = ("files",)
    left = [path for path in directory.rglob("*") if path.is_file()]
    assert not left, f"{len(left)} files are left of {count} checkpoints: {left[:20]}"
    return looks.series


class ManySplits(Source):
    """Splits of a single record, some for each request."""

    def __init__(self, count: int) -> None:
        self.count = count

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.CONTINUOUS_UNBOUNDED

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        return _SplitReader(context)

    def create_enumerator(self, context: SplitEnumeratorContext) -> SplitEnumerator:
        return _SplitEnumerator(self.count, context)


class _SplitEnumerator(SplitEnumerator):
    def __init__(self, count: int, context: SplitEnumeratorContext) -> None:
        self._count = count
        self._context = context
        self._given = 0

    def handle_split_request(self, subtask: int) -> None:
        if self._given == self._count:
            self._context.signal_no_more_splits(subtask)
            return
        some = range(self._given, min(self._given + _SPLITS_AT_ONCE, self._count))
        self._given = some.stop
        self._context.assign_splits({subtask: [(f"/data/part-{n:020}.txt", 0, 1 << 20) for n in some]})
        Looks.current.at(self._given)

    def snapshot_state(self, checkpoint_id: int) -> Any:
        return self._given


class _SplitReader(SourceReader):
    def __init__(self, context: SourceReaderContext) -> None:
        self._context = context
        self._splits: list[Any] = []
        self._asked = self._no_more = False

    def poll(self, limit: int) -> Polled:
        if self._splits:
            taken, self._splits = self._splits, []
            self._asked = False
            return Polled(taken)
        if self._no_more:
            return Polled([], ended=True)
        if not self._asked:
            self._asked = True
            self._context.request_split()
        return Polled([], retry_at=math.inf)

    def add_splits(self, splits: Sequence[Any]) -> None:
        self._splits += splits

    def notify_no_more_splits(self) -> None:
        self._no_more = True

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        return list(self._splits)


def many_splits(count: int, temporary: Path) -> Series:
    """One job that reads many splits."""
    looks = Looks("splits", count, temporary)
    env = simulated_environment(1, parallelism=1)
    source = env.from_source(ManySplits(count), WatermarkStrategy.no_watermarks(), "Splits")
    source.map(lambda split: split[0]).add_sink(DiscardingSink())
    env.execute("splits")
    return looks.series


# On Spark -----------------------------------------------------------------------------------------------


def spark_environment(temporary: Path, **options: str) -> StreamExecutionEnvironment:
    """An environment whose Spark keeps all its files where they are counted."""
    settings = {"spark.local.dir": str(temporary / "spark"), **options}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    return env.set_parallelism(1)


def many_spark_jobs(temporary: Path, goes_on: Callable[[int], bool]) -> list[Series]:
    """Jobs on one embedded Spark: the driver, and the JVM in which Spark is, as long as ``goes_on`` says."""
    driver = Series("spark jobs: driver")
    # Its heap grows up to what it may have before anything is collected, and its pools keep threads, and those their
    # descriptors, for a minute after each task: all of it follows the pace of the jobs, and goes when there are none.
    jvm = Series("spark jobs: JVM", free=("threads", "megabytes", "descriptors"))
    directory = temporary / "input"
    directory.mkdir()
    (directory / "lines.txt").write_text("one\ntwo\nthree\n")
    number = 0
    with register_jobs():
        while goes_on(number):
            number += 1
            env = spark_environment(
                temporary,
                **{
                    "execution.checkpointing.interval": "20 ms",
                    "execution.checkpointing.dir": str(temporary / "checkpoints"),
                },
            )
            lines = env.read_text_file(str(directory))
            lines.key_by(lambda line: line).map(len).add_sink(DiscardingSink())
            env.execute(f"job {number}")
            gc.collect()
            driver.samples.append(usage(os.getpid(), files_in(temporary)))
            java = [pid for pid, command in descendants(os.getpid()).items() if "org.apache.spark" in command]
            jvm.samples.append(sum((usage(pid) for pid in java), NOTHING))
    return [driver, jvm]


def long_spark_job(temporary: Path, goes_on: Callable[[int], bool]) -> list[Series]:
    """One job with checkpoints all the time: the driver, and the processes of its tasks."""
    driver, tasks = Series("spark job: driver"), Series("spark job: tasks")
    env = spark_environment(
        temporary,
        **{
            "execution.checkpointing.interval": "20 ms",
            "execution.checkpointing.dir": str(temporary / "checkpoints"),
        },
    )
    numbers = env.from_source(
        CheckpointCounterWithoutLooks(1 << 62), WatermarkStrategy.no_watermarks(), "Counter"
    )
    numbers.key_by(lambda n: n % 1000).sum(0).add_sink(DiscardingSink())
    client = env.execute_async("long job")
    workers: list[int] = []
    number = 0
    while goes_on(number):
        number += 1
        time.sleep(1.0)  # the time between two samples, not a wait for anything
        await_deletions()
        gc.collect()
        driver.samples.append(usage(os.getpid(), files_in(temporary)))
        workers = [pid for pid, command in descendants(os.getpid()).items() if "worker_daemon" in command]
        tasks.samples.append(sum((usage(pid) for pid in workers), NOTHING))
    client.cancel().result()
    return [driver, tasks]


class CheckpointCounterWithoutLooks(CheckpointCounter):
    """The same in another process."""

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        return _CheckpointReaderWithoutLooks(self.count, context)


class _CheckpointReaderWithoutLooks(_CheckpointReader):
    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self._completed += 1
        self._context.wake()


# All of it ----------------------------------------------------------------------------------------------


def report(series: Iterable[Series], say: Callable[[str], None] = print) -> list[str]:
    """Show the counts; what has grown."""
    grown = []
    for each in series:
        say(each.table())
        grown += each.growth()
    return grown


def _until(seconds: float) -> Callable[[int], bool]:
    deadline = time.monotonic() + seconds
    return lambda number: number < _SAMPLES or time.monotonic() < deadline


def _counted(part: Callable[[int, Path], Series], whole: int) -> Callable[[Path, float], list[Series]]:
    """A part of which there is less when there is less than an hour."""

    def run(temporary: Path, minutes: float) -> list[Series]:
        return [part(max(_SAMPLES, int(whole * min(1.0, minutes / 60))), temporary)]

    return run


def _service(temporary: Path, goes_on: Callable[[int], bool]) -> list[Series]:
    from service_soak import soak_service  # late: it is made of what is above

    return soak_service(temporary / "service", goes_on)


_COUNTED = {
    "jobs": _counted(many_jobs, 1000),
    "checkpoints": _counted(many_checkpoints, 10_000),
    "splits": _counted(many_splits, 1_000_000),
}
_TIMED = {"spark-jobs": many_spark_jobs, "spark-job": long_spark_job, "service": _service}


def main() -> int:
    """Run what is wanted; the exit code says whether nothing grew."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=60.0, help="about how long (default 60)")
    parser.add_argument(
        "--part", action="append", choices=[*_COUNTED, *_TIMED], help="only this; may be given again"
    )
    arguments = parser.parse_args()
    wanted = arguments.part or [*_COUNTED, *_TIMED]
    # Of all that is wanted the part that is counted takes about as long as each of those that are timed.
    seconds = arguments.minutes * 60 / (len(_TIMED.keys() & wanted) + bool(_COUNTED.keys() & wanted))
    temporary = Path(tempfile.mkdtemp(prefix="firesteel-soak-"))
    os.environ["TMPDIR"] = tempfile.tempdir = str(temporary)  # so that every temporary file is seen
    grown: list[str] = []
    try:
        for name in wanted:
            if name in _COUNTED:
                grown += report(_COUNTED[name](temporary, arguments.minutes))
            else:
                grown += report(_TIMED[name](temporary, _until(seconds)))
    except BaseException:
        print(f"what there is of logs and checkpoints is in {temporary}", file=sys.stderr)
        raise
    shutil.rmtree(temporary, ignore_errors=True)
    for each in grown:
        print(each, file=sys.stderr)
    if not grown:
        print("nothing grew")
    return 1 if grown else 0


if __name__ == "__main__":
    # As a module of its own, so that tasks know its classes by name.
    sys.path.insert(0, str(Path(__file__).parent))
    import soak

    sys.exit(soak.main())
