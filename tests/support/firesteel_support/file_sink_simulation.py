"""The real file sink on a simulated file system or object store: jobs, crashes and power losses, as a seed wants.

One or two jobs write numbers into one folder. Their checkpoints are kept elsewhere and survive. At any step of the file
system the power fails, or a step does not work. Somebody takes finished files away now and then. Attempts that are
thought to be dead go on. Files may be compacted. In the end every number must have been seen exactly once.
"""

from __future__ import annotations

import contextlib
import errno
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from typing import Any, BinaryIO

from firesteel.common._override import override
from firesteel.common.errors import UserCodeError
from firesteel.common.serialization import BulkWriter, BulkWriterFactory, Encoder
from firesteel.connectors.files.compactors import (
    FileCompactor,
    FileCompactStrategy,
    RecordWiseFileCompactor,
)
from firesteel.connectors.files.rolling import DefaultRollingPolicy, OnCheckpointRollingPolicy
from firesteel.connectors.files.sink import BucketAssigner, PartFileSink
from firesteel.contracts.sink import SinkFunction
from firesteel.plan.operator_specs import WriterSinkSpec
from firesteel.plan.shipped import Shipped
from firesteel.plan.state_handles import CheckpointKind
from firesteel.testing.checkpoint_harness import CheckpointHarness, OperatorCheckpoint
from firesteel_support.simulated_files import PowerLoss, SimulatedFiles
from firesteel_support.simulated_objects import SimulatedObjects

__all__ = ["Job", "World", "check", "simulate"]

BASE = "/data/out"
ACTIONS = ["write", "checkpoint", "take away", "die", "haunt", "lose power"]


class Buckets(BucketAssigner):
    """Some records in a folder of their own, the rest in one that may be the base folder."""

    def __init__(self, base: str) -> None:
        self._base = base

    @override
    def get_bucket_id(self, element: Any, context: SinkFunction.Context) -> str:
        return self._base if element % 3 else f"below/{element % 2}"


class Lines(BulkWriterFactory):
    """A bulk format: the number of lines, then the lines."""

    @override
    def create(self, stream: BinaryIO) -> BulkWriter:
        return LinesWriter(stream)


class LinesWriter(BulkWriter):
    """Keeps everything until the end."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._lines: list[str] = []

    @override
    def add_element(self, element: Any) -> None:
        self._lines.append(f"{element}\n")

    @override
    def flush(self) -> None:
        """The format allows nothing before the end."""

    @override
    def finish(self) -> None:
        self._stream.write(f"{len(self._lines)} lines\n{''.join(self._lines)}".encode())


def numbers_of(file: BinaryIO) -> list[int]:
    """The records of a file of the bulk format."""
    return [int(line) for line in file.read().decode().splitlines()[1:]]


class World:
    """The file system, what becomes of its files, and what goes wrong."""

    def __init__(
        self,
        seed: int,
        broken_syncs: frozenset[str] = frozenset(),
        bucket: str | None = None,
        in_objects: bool = False,
        compacts: bool = False,
    ) -> None:
        self.random = Random(seed)
        self.in_objects = in_objects
        self.files: SimulatedFiles | SimulatedObjects = (
            SimulatedObjects(self.random) if in_objects else SimulatedFiles(self.random)
        )
        self.files.broken_syncs = broken_syncs
        self.files.trouble = self._step
        self.taken: list[int] = []
        self.is_troubled = False
        self._fuse = -1
        self._only_syncs = False
        #: How often things happen; every history has its own mixture.
        self.weights = [5, 5, *self.random.choices([0, 1, 5], k=4)]
        self.fuses = self.random.choice([0.0, 0.2, 0.5])
        self._is_bulk = self.random.random() < 0.3
        sink = self._new_sink(bucket)
        self._sinks = [*[self._compacting(sink) for _ in range(3)], sink] if compacts else [sink]

    def _compacting(self, sink: PartFileSink) -> PartFileSink:
        builder = FileCompactStrategy.builder()
        if self.random.random() < 0.6:
            builder.enable_compaction_on_checkpoint(self.random.randint(1, 4))
        else:
            builder.set_size_threshold(self.random.choice([1, 20, 100]))
        concat = FileCompactor.concat_file_compactor()
        compactor = RecordWiseFileCompactor(numbers_of) if self._is_bulk else concat
        return replace(sink, compaction=builder.build(), compactor=compactor)

    def _new_sink(self, bucket: str | None) -> PartFileSink:
        size = self.random.choice([4, 15, 1000])
        encoder = Lines() if self._is_bulk else Encoder.simple_string_encoder()
        is_rolled = self._is_bulk or self.random.random() < 0.3
        policy = OnCheckpointRollingPolicy() if is_rolled else DefaultRollingPolicy(size)
        buckets = Buckets(self.random.choice(["", "below/2"]) if bucket is None else bucket)
        return PartFileSink(BASE, encoder, buckets, policy, file_system=self.files)

    def spec(self) -> WriterSinkSpec:
        """The sink as part of a plan; a program may compact otherwise, or not any more, when it starts again."""
        sink = self._sinks[0] if len(self._sinks) == 1 else self.random.choice(self._sinks)
        return WriterSinkSpec(Shipped.of(sink, "sink_to"), None)

    # What goes wrong ------------------------------------------------------------------------------------

    def set_fuse(self) -> None:
        """Trouble at one of the next steps, or at one of the next syncs."""
        self._only_syncs = self.random.random() < 0.5
        self._fuse = self.random.randint(1, 10 if self._only_syncs else 50)

    def remove_fuse(self) -> None:
        """No more trouble."""
        self._fuse = -1

    def _step(self, what: str) -> None:
        self._fuse -= what == "sync" or not self._only_syncs
        if self._fuse == 0:
            self._fuse = -1
            if self.random.random() < 0.6:
                raise PowerLoss
            self.is_troubled = True
            raise OSError(errno.EIO, "the disk has trouble")

    def lose_power(self) -> None:
        """What was not synced is there afterwards, or not."""
        self.files.lose_power(self.random.choice([0.0, 0.5, 0.5, 0.9, 1.0]))

    @contextlib.contextmanager
    def without_trouble(self) -> Iterator[None]:
        """For those who only look."""
        before, self.files.trouble = self.files.trouble, None
        yield
        self.files.trouble = before

    # What is seen ---------------------------------------------------------------------------------------

    def finished(self) -> list[str]:
        """The files that everybody may read."""
        with self.without_trouble():
            return [path for path in self._below(BASE) if "/part-" in path or "/compacted-part-" in path]

    def _below(self, folder: str) -> list[str]:
        paths = [f"{folder}/{name}" for name in self.files.names(folder)]
        return [found for path in paths for found in self._below(path) or [path]]

    def take_away(self) -> None:
        """Somebody reads a file and deletes it, with all care: in an object store, not while it has its hidden name, too."""
        paths = [path for path in self.finished() if not self._is_half_finished(path)]
        if paths:
            path = self.random.choice(paths)
            with self.without_trouble():
                numbers = self.read(path)
                self.files.remove(path)
                self.files.sync_for_certain(path.rpartition("/")[0])
            self.taken += numbers

    def _is_half_finished(self, path: str) -> bool:
        if not self.in_objects:
            return False
        folder, _, name = path.rpartition("/")
        with self.without_trouble():
            return any(each.startswith(f".{name}.inprogress.") for each in self.files.names(folder))

    def read(self, path: str) -> list[int]:
        """The numbers in a file, which must be whole."""
        lines = self.files.read(path).decode().splitlines()
        if self._is_bulk:
            assert lines[0] == f"{len(lines) - 1} lines", f"{path} is not whole"
            lines = lines[1:]
        return [int(line) for line in lines]

    def seen(self) -> Counter[int]:
        """All numbers that were ever finished, and how often."""
        with self.without_trouble():
            numbers = [number for path in self.finished() for number in self.read(path)]
        return Counter([*numbers, *self.taken])


class Job:
    """A source as a position, and a file sink; ``sign`` tells the numbers of two jobs apart."""

    def __init__(self, world: World, sign: int) -> None:
        self._world = world
        self._sign = sign
        self._complete: tuple[OperatorCheckpoint | None, int] = (None, 0)
        self._next_checkpoint = 1
        self._position = 0
        self._running: CheckpointHarness | None = None
        self._taken_by: CheckpointHarness | None = None
        self.zombie: CheckpointHarness | None = None

    def start(self) -> None:
        """From the newest complete checkpoint."""
        checkpoint, self._position = self._complete
        parallelism = self._world.random.randint(1, 2)
        self._running = CheckpointHarness(self._world.spec(), parallelism, restore=checkpoint)

    @property
    def is_running(self) -> bool:
        """Whether there is an attempt."""
        return self._running is not None

    @property
    def has_checkpoint(self) -> bool:
        """Whether a checkpoint was ever completed."""
        return self._complete[0] is not None

    def write(self, count: int) -> None:
        """So many more numbers."""
        assert self._running is not None
        for _ in range(count):
            subtasks = list(self._running)
            self._position += 1
            subtasks[self._position % len(subtasks)].process([self._sign * self._position])

    def checkpoint(self, outcome: str, kind: CheckpointKind = CheckpointKind.CHECKPOINT) -> None:
        """Completed, completed without anybody hearing of it, or aborted."""
        assert self._running is not None
        number, self._next_checkpoint = self._next_checkpoint, self._next_checkpoint + 1
        taken = self._running.checkpoint(number, kind)
        if outcome != "aborted":
            self._complete = (taken, self._position)
            self._taken_by = self._running
        if outcome == "complete":
            self._running.complete(number)

    def die(self, manner: str) -> None:
        """Closed in order, killed, or only thought to be dead."""
        running, self._running = self._running, None
        if running is None:
            return
        if manner == "closed":
            _close(running)
        elif manner == "zombie":
            self.zombie = running
        else:
            _kill(running)

    def haunt(self, manner: str) -> None:
        """The zombie writes, prepares a checkpoint, hears of one that it was part of, or is gone at last."""
        zombie = self.zombie
        if zombie is None:
            return
        match manner:
            case "writes":
                for subtask in zombie:
                    subtask.process([0] * 4)
            case "prepares":
                zombie.checkpoint(10_000)
            case "hears":
                if self._complete[0] is not None and self._taken_by is zombie:
                    zombie.complete(self._complete[0].checkpoint_id)
            case _:
                _kill(zombie)
                self.zombie = None

    def lose_power(self) -> None:
        """Everybody is dead."""
        self._running = self.zombie = None

    def finish(self) -> None:
        """The input ends, and the job with it."""
        assert self._running is not None
        self._running.finish()
        self.checkpoint("complete", CheckpointKind.FINAL)
        _close(self._running)

    def expected(self) -> range:
        """What has to be seen."""
        return range(self._sign, self._sign * (self._position + 1), self._sign)


def _close(running: CheckpointHarness) -> None:
    for subtask in running:
        with contextlib.suppress(UserCodeError):
            subtask.link.close()


def _kill(running: CheckpointHarness) -> None:
    """Nothing is closed in order, but the system takes back what was open."""
    for subtask in running:
        writer = subtask.operator._writer  # type: ignore[attr-defined]
        for part in [] if writer is None else writer._open.values():
            part.abandon()


def simulate(
    seed: int,
    broken_syncs: frozenset[str] = frozenset(),
    in_objects: bool = False,
    compacts: bool = False,
) -> set[str]:
    """One history; from where in the program there were syncs."""
    world = World(seed, broken_syncs, in_objects=in_objects, compacts=compacts)
    random = world.random
    jobs = [Job(world, sign) for sign in ([1, -1] if random.random() < 0.3 else [1])]
    for _ in range(random.randint(10, 40)):
        if random.random() < world.fuses:
            world.set_fuse()
        protected(world, jobs, random.choice(jobs), action)
    world.remove_fuse()
    for job in jobs:
        if not job.is_running:
            job.start()
        protected(world, jobs, job, lambda _, job: job.write(3))
        protected(world, jobs, job, lambda _, job: job.finish())
    if random.random() < 0.5:
        world.lose_power()
    check(world, jobs)
    return world.files.syncs


def protected(world: World, jobs: list[Job], job: Job, act: Callable[[World, Job], object]) -> None:
    """Do something. When the power fails all jobs are dead; when there was trouble, this one is."""
    try:
        act(world, job)
    except PowerLoss:
        world.lose_power()
        for each in jobs:
            each.lose_power()
    except UserCodeError:
        if not world.is_troubled:
            raise
        world.is_troubled = False
        job.die(world.random.choice(["closed", "killed"]))


def action(world: World, job: Job) -> None:
    """Something that a job does, or that happens to it."""
    random = world.random
    if not job.is_running:
        job.start()
    match random.choices(ACTIONS, world.weights)[0]:
        case "write":
            job.write(random.randint(1, 6))
        case "checkpoint":
            job.checkpoint(random.choice(["complete", "complete", "unheard", "aborted"]))
        case "take away":
            world.take_away()
        case "die":
            job.die(random.choice(["closed", "killed", "zombie"]))
        case "haunt":
            with contextlib.suppress(UserCodeError):
                job.haunt(random.choice(["writes", "prepares", "hears", "goes"]))
            world.is_troubled = False
        case _:
            raise PowerLoss


def check(world: World, jobs: list[Job]) -> None:
    """Every number was seen once."""
    seen = world.seen()
    expected = Counter([number for job in jobs for number in job.expected()])
    assert seen == expected, f"lost {dict(expected - seen)}, seen once too often {dict(seen - expected)}"
