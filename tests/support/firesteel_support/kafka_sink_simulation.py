"""The real Kafka sink on a simulated cluster: jobs, crashes, zombies and requests with unknown outcome, as a seed wants.

One or two jobs write numbers with EXACTLY_ONCE, under one prefix. Their checkpoints are kept elsewhere and survive. At any
request to the cluster a job may die, before or after it is carried out; a request may time out and never have been received,
have been carried out, or arrive later. Attempts that are thought to be dead go on and hear that their checkpoints were complete.
The parallelism changes at every start. In the end everybody who reads only what is committed must have seen every number
once, and those that one subtask wrote in their order.
"""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from firesteel.common.errors import UserCodeError
from firesteel.common.serialization import SimpleStringSchema
from firesteel.connectors.kafka import sink_committer
from firesteel.connectors.kafka.sink import Delivery, KafkaRecordSink
from firesteel.connectors.kafka.sink_partitioners import FlinkFixedPartitioner
from firesteel.connectors.kafka.sink_properties import SinkProperties
from firesteel.connectors.kafka.sink_records import RecordForm
from firesteel.plan.operator_specs import WriterSinkSpec
from firesteel.plan.shipped import Shipped
from firesteel.plan.state_handles import CheckpointKind
from firesteel.testing.checkpoint_harness import CheckpointHarness, OperatorCheckpoint
from firesteel_support.simulated_kafka import Mistakes, Outcome, SimulatedKafka, _timed_out

__all__ = ["Job", "World", "check", "simulate"]

TOPIC = "numbers"
#: More than any parallelism, so that a partition has the records of one subtask, in the order in which they are seen.
PARTITIONS = 8
ACTIONS = ["write", "checkpoint", "die", "haunt", "arrive late", "time out", "advance"]

_TIMEOUTS = [Outcome.NEVER_RECEIVED, Outcome.ANSWER_LOST, Outcome.LATE]


class Crash(BaseException):
    """The process of whoever made the request is gone."""


def _die(request: str) -> BaseException:
    return Crash(request)


class World:
    """The cluster, and what goes wrong."""

    def __init__(self, seed: int, mistakes: Mistakes | None = None) -> None:
        self.random = Random(seed)
        self.kafka = SimulatedKafka({TOPIC: PARTITIONS})
        self.kafka.mistakes = mistakes or Mistakes()
        self.kafka.outcome = self._outcome
        self._fuse = -1
        self._effect = ""
        #: How often things happen; every history has its own mixture.
        self.weights = [5, 5, *self.random.choices([0, 1, 5], k=len(ACTIONS) - 2)]
        self.interleaved = self.random.choice([0.0, 0.1, 0.5])
        self.jobs: list[Job] = []
        self._is_haunted = False
        self.fuses = self.random.choice([0.0, 0.2, 0.5, 0.8])

    def spec(self) -> WriterSinkSpec:
        """The sink as part of a plan."""
        form = RecordForm(TOPIC, SimpleStringSchema(), partitioner=FlinkFixedPartitioner())
        properties = SinkProperties.of({"bootstrap.servers": "simulated"})
        sink = KafkaRecordSink(properties, form, Delivery.EXACTLY_ONCE, "simulated", self.kafka)
        return WriterSinkSpec(Shipped.of(sink, "sink_to"), None)

    def set_fuse(self) -> None:
        """Trouble at one of the next requests."""
        self._fuse = self.random.choice([1, 2, 3, self.random.randint(1, 15)])
        self._effect = self.random.choice(_TIMEOUTS)
        dies = self.random.random() < 0.4
        self.kafka.failure = _die if dies else _timed_out

    def remove_fuse(self) -> None:
        """No more trouble."""
        self._fuse = -1

    def _outcome(self, request: str) -> str:
        self._interleave()
        self._fuse -= 1
        if self._fuse:
            return Outcome.DONE
        effect = self._effect
        if self.random.random() < 0.4:  # trouble seldom comes alone
            self.set_fuse()
        return effect

    def _interleave(self) -> None:
        """Before the request arrives, a late one does, or a zombie does something."""
        if self.random.random() < self.interleaved:
            self.kafka.deliver_late(self.random.choice)
        if not self._is_haunted and self.random.random() < self.interleaved:
            self._is_haunted = True
            try:
                with contextlib.suppress(UserCodeError, Crash):
                    self.random.choice(self.jobs).haunt()
            finally:
                self._is_haunted = False

    def seen(self) -> list[list[int]]:
        """The numbers that readers see, for each partition."""
        partitions: list[list[int]] = [[] for _ in range(PARTITIONS)]
        for record in self.kafka.read(TOPIC):
            partitions[record.partition].append(int(record.value or b""))
        return partitions


@dataclass
class _Attempt:
    """A run of a job: which checkpoints it took part in, and which of them are complete."""

    harness: CheckpointHarness
    completed: list[int] = field(default_factory=list)


class Job:
    """A source as a position, and a Kafka sink; ``sign`` tells the numbers of two jobs apart."""

    def __init__(self, world: World, sign: int) -> None:
        self._world = world
        self._sign = sign
        self._spec = world.spec()
        self._complete: tuple[OperatorCheckpoint | None, int] = (None, 0)
        self._next_checkpoint = 1
        self._position = 0
        self._running: _Attempt | None = None
        self._zombies: list[_Attempt] = []

    @property
    def is_running(self) -> bool:
        """Whether there is an attempt."""
        return self._running is not None

    def start(self) -> None:
        """From the newest complete checkpoint, with any parallelism."""
        checkpoint, self._position = self._complete
        parallelism = self._world.random.choice([1, 2, 2, 5])
        self._running = _Attempt(CheckpointHarness(self._spec, parallelism, restore=checkpoint))

    def write(self, count: int) -> None:
        """So many more numbers."""
        assert self._running is not None
        subtasks = list(self._running.harness)
        for _ in range(count):
            self._position += 1
            subtasks[self._position % len(subtasks)].process([str(self._sign * self._position)])

    def checkpoint(self, outcome: str, kind: CheckpointKind = CheckpointKind.CHECKPOINT) -> None:
        """Completed, completed without anybody hearing of it yet, or aborted."""
        assert self._running is not None
        running = self._running
        number, self._next_checkpoint = self._next_checkpoint, self._next_checkpoint + 1
        taken = running.harness.checkpoint(number, kind)
        if outcome == "aborted":
            return
        self._complete = (taken, self._position)
        running.completed.append(number)
        if outcome == "complete":
            running.harness.complete(number)

    def advance(self) -> None:
        """Time passes: what failed is tried again."""
        assert self._running is not None
        for subtask in self._running.harness:
            subtask.advance(1.0)

    def die(self, manner: str) -> None:
        """Killed, or only thought to be dead."""
        running, self._running = self._running, None
        if running is not None and manner == "zombie":
            self._zombies.append(running)

    def haunt(self) -> None:
        """A zombie writes, or hears at last that one of its checkpoints was complete, or tries again."""
        if not self._zombies:
            return
        random = self._world.random
        zombie = random.choice(self._zombies)
        match random.choice(["writes", "hears", "hears", "tries again", "goes"]):
            case "writes":
                for subtask in zombie.harness:
                    subtask.process(["0"])
            case "hears":
                if zombie.completed:
                    zombie.harness.complete(random.choice(zombie.completed))
            case "tries again":
                for subtask in zombie.harness:
                    subtask.advance(1.0)
            case _:
                self._zombies.remove(zombie)

    def finish(self) -> None:
        """The input ends, and the job with it."""
        assert self._running is not None
        self._running.harness.finish()
        self.checkpoint("complete", CheckpointKind.FINAL)

    def expected(self) -> list[int]:
        """What has to be seen."""
        return [self._sign * number for number in range(1, self._position + 1)]


def simulate(seed: int, mistakes: Mistakes | None = None) -> Counter[str]:
    """One history; raises if something was lost or seen twice. How often things went wrong in it."""
    logging.getLogger(sink_committer.__name__).setLevel(logging.ERROR)
    world = World(seed, mistakes)
    random = world.random
    happened: Counter[str] = Counter()
    jobs = [Job(world, sign) for sign in ([1, -1] if random.random() < 0.3 else [1])]
    world.jobs = jobs
    for _ in range(random.randint(10, 50)):
        if random.random() < world.fuses:
            world.set_fuse()
        protected(world, random.choice(jobs), action, happened)
    world.remove_fuse()
    for job in jobs:
        while not is_finished(world, job, happened):
            happened["did not finish at once"] += 1
        for _ in range(3):  # zombies and requests may still come afterwards
            world.kafka.deliver_late(random.choice)
            protected(world, job, lambda _, job: job.haunt(), happened)
    check(world, jobs)
    return happened


def is_finished(world: World, job: Job, happened: Counter[str]) -> bool:
    """Try to bring a job to its end."""
    if not job.is_running:
        protected(world, job, lambda _, job: job.start(), happened)
    if job.is_running:
        protected(world, job, lambda _, job: job.write(3), happened)
    if job.is_running:
        protected(world, job, lambda _, job: job.finish(), happened)
    return job.is_running


def protected(world: World, job: Job, act: Callable[[World, Job], object], happened: Counter[str]) -> None:
    """Do something; a process that dies in the middle of it, or fails, is one attempt less."""
    try:
        act(world, job)
    except Crash:
        happened["crash"] += 1
        job.die(world.random.choice(["killed", "zombie"]))
    except UserCodeError:
        happened["failure"] += 1
        job.die("killed")


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
        case "die":
            job.die(random.choice(["killed", "zombie"]))
        case "haunt":
            with contextlib.suppress(UserCodeError, Crash):
                job.haunt()
        case "arrive late":
            world.kafka.deliver_late(random.choice)
        case "time out":
            world.kafka.time_out(random.choice)
        case _:
            job.advance()


def check(world: World, jobs: list[Job]) -> None:
    """Every number was seen once, and each partition has the numbers of each job in order, as each subtask wrote them."""
    by_partition = world.seen()
    seen = Counter([number for numbers in by_partition for number in numbers])
    expected = Counter([number for job in jobs for number in job.expected()])
    assert seen == expected, f"lost {dict(expected - seen)}, seen once too often {dict(seen - expected)}"
    for numbers in by_partition:
        for sign in (1, -1):
            of_job = [sign * number for number in numbers if sign * number > 0]
            assert of_job == sorted(of_job), f"not in order: {of_job}"
