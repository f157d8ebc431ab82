"""Transactional sinks against a model: whatever dies, and whenever, every record is seen exactly once.

A source of numbers feeds a sink through random checkpoints, lost notifications, failures at any call into the outside
system, zombies that go on writing, and changes of parallelism. In the end the outside system must show every number
once.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firesteel.common.errors import UserCodeError
from firesteel.common.serialization import Encoder
from firesteel.connectors.files import part_file
from firesteel.contracts.sink import (
    CommitRequest,
    Committer,
    Sink,
    SinkContext,
    SinkFunction,
    SinkWriter,
)
from firesteel.contracts.two_phase_commit import TwoPhaseCommitSinkFunction
from firesteel.contracts.write_ahead import FileCheckpointCommitter, GenericWriteAheadSink
from firesteel.datastream.connectors.file_system import BucketAssigner, FileSink, RollingPolicy
from firesteel.plan.operator_specs import OperatorSpec, SinkSpec, WriterSinkSpec
from firesteel.plan.shipped import Shipped
from firesteel.plan.state_handles import CheckpointKind
from firesteel.testing.checkpoint_harness import CheckpointHarness, OperatorCheckpoint


class Database:
    """The outside system: transactions by number, and a fuse that makes one of the next calls fail."""

    def __init__(self) -> None:
        self.numbers = itertools.count()
        self.open: dict[int, list[Any]] = {}
        self.prepared: dict[int, list[Any]] = {}
        self.committed: dict[int, list[Any]] = {}
        self.fuse = -1

    def burn(self) -> None:
        self.fuse -= 1
        if self.fuse == 0:
            raise ConnectionError("the database is gone")

    def begin(self) -> int:
        self.burn()
        number = next(self.numbers)
        self.open[number] = []
        return number

    def write(self, number: int, value: Any) -> None:
        self.burn()
        self.open[number].append(value)

    def prepare(self, number: int) -> None:
        self.burn()
        self.prepared[number] = self.open.pop(number)
        self.burn()

    def commit(self, number: int) -> None:
        self.burn()
        if number not in self.committed:
            self.committed[number] = self.prepared.pop(number)
        self.burn()

    def abort(self, number: int) -> None:
        self.burn()
        assert number not in self.committed, "committed data cannot be aborted"
        self.open.pop(number, None)
        self.prepared.pop(number, None)

    def seen(self) -> list[Any]:
        return [value for values in self.committed.values() for value in values]


DATABASE = Database()


class TwoPhases(TwoPhaseCommitSinkFunction):
    def begin_transaction(self) -> int:
        return DATABASE.begin()

    def invoke(  # type: ignore[override]
        self, transaction: int, value: Any, context: SinkFunction.Context
    ) -> None:
        DATABASE.write(transaction, value)

    def pre_commit(self, transaction: int) -> None:
        DATABASE.prepare(transaction)

    def commit(self, transaction: int) -> None:
        DATABASE.commit(transaction)

    def abort(self, transaction: int) -> None:
        DATABASE.abort(transaction)


class WriterAndCommitter(Sink):
    def create_writer(self, context: SinkContext) -> SinkWriter:
        return Writer()

    def create_committer(self, context: SinkContext) -> Committer:
        return Commits()


class Writer(SinkWriter):
    def __init__(self) -> None:
        self._transaction = DATABASE.begin()

    def write(self, value: Any, context: SinkFunction.Context) -> None:
        DATABASE.write(self._transaction, value)

    def prepare_commit(self) -> list[int]:
        transaction = self._transaction
        DATABASE.prepare(transaction)
        self._transaction = DATABASE.begin()
        return [transaction]


class Commits(Committer):
    def commit(self, requests: Sequence[CommitRequest]) -> None:
        for request in requests:
            try:
                DATABASE.commit(request.get_committable())
            except ConnectionError:
                if request.get_number_of_retries() < 2:
                    request.retry_later()
                else:
                    raise


class Ahead(GenericWriteAheadSink):
    """Sends in one step, so that only the two moments that no such sink can help remain: they are left out here."""

    def send_values(self, values: Iterable[Any], checkpoint_id: int, timestamp: int) -> bool:
        DATABASE.committed.setdefault(next(DATABASE.numbers), []).extend(values)
        return True


class Buckets(BucketAssigner):
    """Three buckets, so that a subtask has several files at once."""

    def get_bucket_id(self, element: Any, context: SinkFunction.Context) -> str:
        return f"bucket-{element % 3}"


class Run:
    """A job of one sink, and its source as a position."""

    def __init__(self, spec: OperatorSpec, parallelism: int) -> None:
        self._spec = spec
        self._running: CheckpointHarness | None = CheckpointHarness(spec, parallelism)
        self._zombies: list[CheckpointHarness] = []
        self._position = 0
        self._next_id = 1
        self._complete: tuple[OperatorCheckpoint, int] | None = None
        self._completed: list[tuple[OperatorCheckpoint, int]] = []
        self._attempt = 0

    def records(self, count: int) -> None:
        """So many more records, dealt out to the subtasks."""
        assert self._running is not None
        subtasks = list(self._running)
        for _ in range(count):
            subtasks[self._position % len(subtasks)].process([self._position])
            self._position += 1

    def checkpoint(self, outcome: str, kind: CheckpointKind = CheckpointKind.CHECKPOINT) -> None:
        """A checkpoint that is completed, completed without anybody hearing of it, or aborted."""
        assert self._running is not None
        number, self._next_id = self._next_id, self._next_id + 1
        taken = self._running.checkpoint(number, kind)
        if outcome == "aborted":
            self._running.abort(number)
            return
        self._complete = (taken, self._position)
        self._completed.append(self._complete)
        if outcome == "half":
            self._running[0].link.notify_complete(number)
        if outcome == "complete":
            self._running.complete(number)

    def die(self, manner: str, parallelism: int) -> None:
        """The attempt ends, and another one resumes from the newest complete checkpoint."""
        if self._running is not None:
            if manner == "zombie":
                self._zombies.append(self._running)
            else:
                _close(self._running)
        self._running = None
        self._attempt += 1
        checkpoint, self._position = self._complete or (None, 0)
        self._running = CheckpointHarness(self._spec, parallelism, restore=checkpoint, attempt=self._attempt)

    def rewind(self, back: int, parallelism: int) -> None:
        """Another job starts from an older checkpoint, numbers its own from there, and dies after the first of them."""
        if self._completed:
            self._complete = self._completed[-1 - back % len(self._completed)]
            self._next_id = self._complete[0].checkpoint_id + 1
            self.die("close", parallelism)
            self.records(back + parallelism)
            self.checkpoint("lost")
            self.die("close", parallelism)

    def haunt(self) -> None:
        """A zombie writes once more, and is gone."""
        if self._zombies:
            zombie = self._zombies.pop()
            for subtask in zombie:
                with contextlib.suppress(UserCodeError):
                    subtask.process([-1, -2, -3])
            _close(zombie)

    def finish(self) -> None:
        assert self._running is not None
        self._running.finish()
        self.checkpoint("complete", CheckpointKind.FINAL)
        _close(self._running)

    @property
    def position(self) -> int:
        return self._position


def _close(running: CheckpointHarness) -> None:
    for subtask in running:
        with contextlib.suppress(UserCodeError):  # as in a job: closing a failed attempt changes nothing
            subtask.link.close()


FATES = (
    st.tuples(st.just("records"), st.integers(1, 9)),
    st.tuples(st.just("checkpoint"), st.sampled_from(["complete", "complete", "lost", "half", "aborted"])),
    st.tuples(st.just("die"), st.tuples(st.sampled_from(["close", "zombie"]), st.integers(1, 3))),
    st.tuples(st.just("haunt"), st.just(None)),
)
FUSE = st.tuples(st.just("fuse"), st.integers(1, 12))
ACTIONS = st.lists(st.one_of(*FATES), min_size=8, max_size=25)
ACTIONS_AND_FUSE = st.lists(st.one_of(*FATES, FUSE), min_size=8, max_size=25)


def perform(run: Run, action: str, detail: Any) -> None:
    match action:
        case "records":
            run.records(detail)
        case "checkpoint":
            run.checkpoint(detail)
        case "die":
            run.die(*detail)
        case "rewind":
            run.rewind(*detail)
        case "haunt":
            run.haunt()
        case "fuse":
            DATABASE.fuse = detail


def check(spec: OperatorSpec, parallelism: int, actions: list[Any], seen: Callable[[], list[Any]]) -> None:
    DATABASE.__init__()  # type: ignore[misc]
    run = Run(spec, parallelism)
    for action, detail in [*actions, ("fuse", -1), ("records", 3), ("finish", None)]:
        try:
            if action == "finish":
                run.finish()
            else:
                perform(run, action, detail)
        except UserCodeError:  # the fuse: user code failed, so the job restarts, maybe several times
            while True:
                try:
                    run.die("close", 2)
                    break
                except UserCodeError:
                    continue
        assert len(set(seen())) == len(seen()), "a record was seen twice"
    assert sorted(seen()) == list(range(run.position))


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 3), ACTIONS_AND_FUSE)
def test_two_phase_commit_shows_every_record_once(parallelism: int, actions: list[Any]) -> None:
    check(SinkSpec(Shipped.of(TwoPhases(), "add_sink")), parallelism, actions, database_shows)


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 3), ACTIONS_AND_FUSE)
def test_writer_and_committer_show_every_record_once(parallelism: int, actions: list[Any]) -> None:
    check(WriterSinkSpec(Shipped.of(WriterAndCommitter(), "sink_to")), parallelism, actions, database_shows)


def database_shows() -> list[Any]:
    return DATABASE.seen()


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 3), ACTIONS)
def test_write_ahead_shows_every_record_once_when_it_is_not_hit_while_sending(
    tmp_path_factory: pytest.TempPathFactory, parallelism: int, actions: list[Any]
) -> None:
    committer = FileCheckpointCommitter(tmp_path_factory.mktemp("notes"))
    check(SinkSpec(Shipped.of(Ahead(committer, "job"), "add_sink")), parallelism, actions, database_shows)


REWIND = st.tuples(st.just("rewind"), st.tuples(st.integers(0, 5), st.integers(1, 3)))


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 3), st.lists(st.one_of(*FATES, REWIND), min_size=8, max_size=25))
def test_write_ahead_loses_nothing_whichever_checkpoint_jobs_start_from(
    tmp_path_factory: pytest.TempPathFactory, parallelism: int, actions: list[Any]
) -> None:
    """All under one job id: what another future of a checkpoint has noted must not count for this one."""
    DATABASE.__init__()  # type: ignore[misc]
    committer = FileCheckpointCommitter(tmp_path_factory.mktemp("notes"))
    run = Run(SinkSpec(Shipped.of(Ahead(committer, "job"), "add_sink")), parallelism)
    for action, detail in [*actions, ("records", 3)]:
        perform(run, action, detail)
    run.finish()
    assert set(range(run.position)) <= set(DATABASE.seen())


@settings(max_examples=120, deadline=None)
@given(
    st.integers(1, 3),
    ACTIONS,
    st.sampled_from([4, 20, 1 << 20]),
    st.booleans(),
)
def test_part_files_show_every_record_once(
    tmp_path_factory: pytest.TempPathFactory,
    parallelism: int,
    actions: list[Any],
    part_size: int,
    on_checkpoint: bool,
) -> None:
    base = tmp_path_factory.mktemp("sink") / "out"
    policy = (
        RollingPolicy.on_checkpoint_rolling_policy()
        if on_checkpoint
        else RollingPolicy.default_rolling_policy(part_size=part_size)
    )
    sink = (
        FileSink.for_row_format(str(base), Encoder.simple_string_encoder())
        .with_bucket_assigner(Buckets())
        .with_rolling_policy(policy)
        .build()
    )
    spec = WriterSinkSpec(Shipped.of(sink, "sink_to"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            part_file, "_BUFFER_BYTES", 1
        )  # what comes after the checkpoint gets into the file, too
        check(spec, parallelism, actions, lambda: finished_numbers(base))


def finished_numbers(base: Path) -> list[int]:
    files = [path for path in base.rglob("part-*") if path.is_file()]
    numbers = [(path, int(line)) for path in files for line in path.read_text().splitlines()]
    assert all(path.parent.name == f"bucket-{number % 3}" for path, number in numbers)
    return [number for _, number in numbers]
