"""The check of sinks finds each mistake that a sink can make, and what is right passes."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from firesteel.common.serialization import Encoder
from firesteel.contracts.two_phase_commit import TwoPhaseCommitSinkFunction
from firesteel.contracts.write_ahead import FileCheckpointCommitter, GenericWriteAheadSink
from firesteel.datastream.connectors import DeliveryGuarantee, FileSink, RollingPolicy
from firesteel.datastream.connectors.base import CommitRequest, Committer, Sink, SinkWriter
from firesteel.datastream.functions import SinkFunction
from firesteel.testing import check_sink

EXACTLY, AT_LEAST = DeliveryGuarantee.EXACTLY_ONCE, DeliveryGuarantee.AT_LEAST_ONCE


class Shelf:
    """The other system: what can be seen, and batches that were put on it."""

    def __init__(self) -> None:
        self.seen: list[Any] = []
        self.marks: set[int] = set()
        self.numbers = itertools.count()


SHELF = Shelf()


def seen() -> list[Any]:
    return SHELF.seen


class Shelved(Sink):
    """Right in everything: batches have numbers, and a mark says that one has been put."""

    def create_writer(self, context: Any) -> SinkWriter:
        return Writer()

    def create_committer(self, context: Any) -> Committer | None:
        return Marks()


class Writer(SinkWriter):
    def __init__(self) -> None:
        self.batch: list[Any] = []

    def write(self, value: Any, context: Any) -> None:
        self.batch.append(value)

    def prepare_commit(self) -> list[Any]:
        batch, self.batch = self.batch, []
        return [(next(SHELF.numbers), batch)]


class Marks(Committer):
    def commit(self, requests: Sequence[CommitRequest]) -> None:
        for request in requests:
            number, batch = request.get_committable()
            if number not in SHELF.marks:
                SHELF.marks.add(number)
                SHELF.seen += batch


def shelved(writer: type[SinkWriter] = Writer, committer: type[Committer] = Marks) -> Sink:
    class Planted(Shelved):
        def create_writer(self, context: Any) -> SinkWriter:
            return writer()

        def create_committer(self, context: Any) -> Committer:
            return committer()

    SHELF.__init__()  # type: ignore[misc]
    return Planted()


def test_a_sink_that_is_right_passes() -> None:
    check_sink(shelved, seen, guarantee=EXACTLY, seeds=range(60))


class CommitsTwice(Committer):
    def commit(self, requests: Sequence[CommitRequest]) -> None:
        for request in requests:
            SHELF.seen += request.get_committable()[1]


class CommitsTheNewestOnly(Marks):
    def commit(self, requests: Sequence[CommitRequest]) -> None:
        super().commit(requests[-1:])


class ShowsAtOnce(Writer):
    def write(self, value: Any, context: Any) -> None:
        SHELF.seen.append(value)


class ShowsWhenClosed(Writer):
    """What a writer must not do when it is closed: its attempt may have been replaced."""

    def close(self) -> None:
        SHELF.seen += self.batch


class HandsOverTooLittle(Writer):
    def prepare_commit(self) -> list[Any]:
        batch, self.batch = self.batch[:3], self.batch[3:]
        return [(next(SHELF.numbers), batch)]


class ReusesNumbers(Writer):
    """Takes what another attempt has committed for its own."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = itertools.count()

    def prepare_commit(self) -> list[Any]:
        batch, self.batch = self.batch, []
        return [(next(self.numbers), batch)]


@pytest.mark.parametrize(
    ("writer", "committer", "sentence"),
    [
        (Writer, CommitsTwice, "doubled: .* a commit that came again"),
        (Writer, CommitsTheNewestOnly, "lost: "),
        (ShowsAtOnce, Marks, "seen too early: .* no completed checkpoint has it"),
        (ShowsWhenClosed, Marks, "a zombie's write can be seen|seen too early"),
        (HandsOverTooLittle, Marks, "lost: .* not handed over"),
        (ReusesNumbers, Marks, "lost: "),
    ],
)
def test_a_planted_mistake_is_named(
    writer: type[SinkWriter], committer: type[Committer], sentence: str
) -> None:
    with pytest.raises(AssertionError, match=sentence) as caught:
        check_sink(lambda: shelved(writer, committer), seen, guarantee=EXACTLY)
    assert "checkpoint" in caught.value.__notes__[0]


class ShowsZombies(Writer):
    """Shows what it has at the first notification, whatever it is of."""

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        SHELF.seen += [value for value in self.batch if value >= 1_000_000]


def test_what_a_zombie_writes_is_told_from_what_comes_too_early() -> None:
    with pytest.raises(AssertionError, match="a zombie's write can be seen: 100000"):
        check_sink(lambda: shelved(ShowsZombies), seen, guarantee=EXACTLY, seeds=range(60))


# At least once --------------------------------------------------------------------------------------------


class Buffered(SinkWriter):
    def __init__(self) -> None:
        self.batch: list[Any] = []

    def write(self, value: Any, context: Any) -> None:
        self.batch.append(value)

    def flush(self, end_of_input: bool) -> None:
        SHELF.seen += self.batch
        self.batch = []


class FlushesAtTheEndOnly(Buffered):
    def flush(self, end_of_input: bool) -> None:
        if end_of_input:
            super().flush(end_of_input)


class Upserts(Buffered):
    def flush(self, end_of_input: bool) -> None:
        SHELF.seen[:] = sorted({*SHELF.seen, *self.batch})
        self.batch = []


def written_by(writer: type[SinkWriter]) -> Sink:
    class Written(Sink):
        def create_writer(self, context: Any) -> SinkWriter:
            return writer()

    SHELF.__init__()  # type: ignore[misc]
    return Written()


def test_at_least_once_allows_doubles_but_no_loss() -> None:
    check_sink(lambda: written_by(Buffered), seen, guarantee=AT_LEAST)
    with pytest.raises(AssertionError, match=r"lost: .* not flushed before the checkpoint"):
        check_sink(lambda: written_by(FlushesAtTheEndOnly), seen, guarantee=AT_LEAST)


def test_idempotent_sinks_show_no_doubles() -> None:
    check_sink(lambda: written_by(Upserts), seen, guarantee=AT_LEAST, idempotent=True)
    with pytest.raises(AssertionError, match="doubled: "):
        check_sink(lambda: written_by(Buffered), seen, guarantee=AT_LEAST, idempotent=True)


# The sinks of Firesteel -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "policy",
    [RollingPolicy.on_checkpoint_rolling_policy(), RollingPolicy.default_rolling_policy(part_size=4)],
    ids=["on checkpoint", "by size"],
)
def test_the_file_sink_passes(tmp_path: Path, policy: RollingPolicy) -> None:
    out = tmp_path / "out"

    def make() -> Sink:
        shutil.rmtree(out, ignore_errors=True)
        encoder = Encoder.simple_string_encoder()
        return FileSink.for_row_format(str(out), encoder).with_rolling_policy(policy).build()

    def lines() -> list[int]:
        return [int(line) for part in out.rglob("part-*") for line in part.read_text().splitlines()]

    check_sink(make, lines, guarantee=EXACTLY)


class Transactions(TwoPhaseCommitSinkFunction):
    open_ones: dict[int, list[Any]] = {}

    def begin_transaction(self) -> int:
        number = next(SHELF.numbers)
        self.open_ones[number] = []
        return number

    def invoke(self, transaction: int, value: Any, context: SinkFunction.Context) -> None:  # type: ignore[override]
        self.open_ones[transaction].append(value)

    def pre_commit(self, transaction: int) -> None:
        pass

    def commit(self, transaction: int) -> None:
        SHELF.seen += self.open_ones.pop(transaction, [])

    def abort(self, transaction: int) -> None:
        self.open_ones.pop(transaction, None)


def test_two_phase_commit_passes() -> None:
    def make() -> Transactions:
        SHELF.__init__()  # type: ignore[misc]
        return Transactions()

    check_sink(make, seen, guarantee=EXACTLY, seeds=range(40))


class Ahead(GenericWriteAheadSink):
    def send_values(self, values: Iterable[Any], checkpoint_id: int, timestamp: int) -> bool:
        SHELF.seen += values
        return True


def test_write_ahead_passes(tmp_path: Path) -> None:
    numbers = itertools.count()

    def make() -> Ahead:
        SHELF.__init__()  # type: ignore[misc]
        return Ahead(FileCheckpointCommitter(tmp_path / str(next(numbers))), "job")

    check_sink(make, seen, guarantee=EXACTLY)
