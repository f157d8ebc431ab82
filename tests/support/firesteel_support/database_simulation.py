"""Histories of an exactly-once sink on a simulated database: crashes, zombies, other parallelisms, lost answers.

A source counts up from 0, and its position is part of every checkpoint, as in a job. When all is over each number must be
in the database once.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial

from firesteel.connectors.jdbc.options import JdbcExactlyOnceOptions, JdbcExecutionOptions
from firesteel.connectors.jdbc.sink import JdbcSink
from firesteel.connectors.jdbc.statement import Statement
from firesteel.testing import CheckpointHarness, OperatorCheckpoint
from firesteel_support.simulated_database import SimulatedDatabase, World

__all__ = ["SinkHistory", "simulate_sink"]

_SQL = Statement.parse("INSERT INTO output VALUES (?)")


@dataclass
class SinkHistory:
    """What happened."""

    attempts: int
    zombies: int
    trouble: Counter[str]


class _Job:
    """A source, a sink and its checkpoints; `last` is the newest that is complete."""

    def __init__(self, world: World, database: SimulatedDatabase) -> None:
        self.world = world
        execution = JdbcExecutionOptions(max_retries=3)
        self.sink = JdbcSink._of(_SQL, None, database, execution, JdbcExactlyOnceOptions())
        self.last: OperatorCheckpoint | None = None
        self.saved_position = 0
        self.checkpoint_id = 0
        self.zombies = 0

    def attempt(self, steps: int) -> None:
        """One life: from the last checkpoint on, until it has done so many steps or something fails."""
        random = self.world.generator
        position = self.saved_position
        harness = CheckpointHarness(self.sink, random.randint(1, 3), restore=self.last)
        for _ in range(steps):
            for subtask in harness:
                count = random.randint(0, 3)
                subtask.process([(number,) for number in range(position, position + count)])
                position += count
            self.checkpoint_id += 1
            snapshot = harness.checkpoint(self.checkpoint_id)
            if random.random() < 0.2:
                continue  # never complete; its rows are part of the next one
            self.last, self.saved_position = snapshot, position
            lot = random.random()
            if lot < 0.2:  # the driver dies, or is believed to be dead, before anybody hears of it
                break
            if lot < 0.3:  # a notification gets lost
                continue
            harness.complete(self.checkpoint_id)
        self._leave_zombie(harness)

    def _leave_zombie(self, harness: CheckpointHarness) -> None:
        """Subtasks hear of their last complete checkpoint at some time, while others go on."""
        complete = self.last.checkpoint_id if self.last is not None else 0
        for subtask in harness:
            if self.world.generator.random() < 0.5:
                self.zombies += 1
                self.world.actors.spawn(partial(subtask.link.notify_complete, complete))


def simulate_sink(seed: int) -> SinkHistory:
    """One history; raises AssertionError unless every number is there once."""
    world = World(seed, trouble=0.04)
    database = SimulatedDatabase.of(world)
    job = _Job(world, database)
    attempts = 0
    for _ in range(world.generator.randint(1, 5)):
        attempts += 1
        try:
            job.attempt(world.generator.randint(1, 4))
        except Exception as error:
            if "simulated database" not in str(error):
                raise
    world.trouble = 0.0
    CheckpointHarness(job.sink, world.generator.randint(1, 3), restore=job.last)
    world.actors.finish()
    database.forget()
    _check(seed, world, job.saved_position)
    return SinkHistory(attempts, job.zombies, Counter(world.happened))


def _check(seed: int, world: World, count: int) -> None:
    seen = Counter(number for (number,) in world.rows)
    wrong = {number: seen[number] for number in {*range(count), *seen} if seen[number] != (number < count)}
    assert not wrong, f"seed {seed}: of {count} numbers these are there as often as said: {wrong}"
    strange = [error for error in world.actors.errors if "simulated database" not in str(error)]
    assert not strange, f"seed {seed}: {strange}"
