"""The check of sources finds each mistake that a source can make, and what is right passes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from firesteel.common import Duration
from firesteel.connectors.collection import CollectionSource
from firesteel.datastream.connectors import (
    DataGeneratorSource,
    DeliveryGuarantee,
    FileSource,
    NumberSequenceSource,
    RateLimiterStrategy,
    StreamFormat,
)
from firesteel.datastream.connectors.base import Boundedness, Polled, Source, SourceReader
from firesteel.testing import check_source

EXPECTED = [(letter, number) for letter in "abcd" for number in range(12)]


def letter_of(value: tuple[str, int]) -> str:
    return value[0]


@dataclass(frozen=True)
class Letter:
    name: str
    next: int = 0


class Letters(Source):
    """Right in everything."""

    def create_reader(self, context: Any) -> SourceReader:
        return LettersReader()

    def splits_of(self, subtask: int, parallelism: int) -> Sequence[Letter]:
        return [Letter(name) for name in "abcd"[subtask::parallelism]]


class LettersReader(SourceReader):
    def __init__(self) -> None:
        self.left: list[Letter] = []
        self.stopped = False

    def add_splits(self, splits: Sequence[Letter]) -> None:
        self.left += splits

    def poll(self, limit: int) -> Polled:
        if not self.left or self.stopped:
            return Polled([], ended=True)
        letter = self.left.pop(0)
        end = min(letter.next + limit, 12)
        if end < 12:
            self.left.append(replace(letter, next=end))
        return Polled([(letter.name, number) for number in range(letter.next, end)], split=letter.name)

    def snapshot_state(self, checkpoint_id: int) -> list[Letter]:
        return list(self.left)

    def stop(self) -> None:
        self.stopped = True


def with_reader(reader: type[LettersReader]) -> Source:
    class Planted(Letters):
        def create_reader(self, context: Any) -> SourceReader:
            return reader()

    return Planted()


def test_a_source_that_is_right_passes() -> None:
    check_source(Letters, EXPECTED, split_of=letter_of)


class Ahead(LettersReader):
    def snapshot_state(self, checkpoint_id: int) -> list[Letter]:
        return [replace(letter, next=letter.next + 1) for letter in self.left]


class Behind(LettersReader):
    def snapshot_state(self, checkpoint_id: int) -> list[Letter]:
        return [replace(letter, next=max(letter.next - 1, 0)) for letter in self.left]


class ForgetsASplit(LettersReader):
    def snapshot_state(self, checkpoint_id: int) -> list[Letter]:
        return self.left[1:]


class IgnoresPositions(LettersReader):
    def add_splits(self, splits: Sequence[Letter]) -> None:
        self.left += [Letter(letter.name) for letter in splits]


class TakesOneSplitOnly(LettersReader):
    """What comes to light when the parallelism shrinks."""

    def add_splits(self, splits: Sequence[Letter]) -> None:
        self.left = list(splits[:2])


class Reverses(LettersReader):
    def poll(self, limit: int) -> Polled:
        polled = super().poll(limit)
        return replace(polled, values=polled.values[::-1])


class GivesTwice(LettersReader):
    def poll(self, limit: int) -> Polled:
        polled = super().poll(max(1, limit // 2))
        return replace(polled, values=polled.values * 2 if limit > 1 else polled.values)


class GivesTooMany(LettersReader):
    def poll(self, limit: int) -> Polled:
        return super().poll(limit + 1)


class Invents(LettersReader):
    def poll(self, limit: int) -> Polled:
        return Polled([("z", 0)])


@pytest.mark.parametrize(
    ("reader", "sentence"),
    [
        (Ahead, "lost: .* never came, such as"),
        (Behind, "doubled: .* again after the restore from it; the position .* behind all records"),
        (ForgetsASplit, "lost: "),
        (IgnoresPositions, "doubled: .* again after the restore"),
        (TakesOneSplitOnly, "lost: .* did not come again after the restore"),
        (Reverses, "order: in split '.' "),
        (GivesTwice, "doubled: .* without a crash in between"),
        (GivesTooMany, "a poll for at most . records gave"),
        (Invents, "unexpected: \\('z', 0\\)"),
    ],
)
def test_a_planted_mistake_is_named(reader: type[LettersReader], sentence: str) -> None:
    with pytest.raises(AssertionError, match=sentence) as caught:
        check_source(lambda: with_reader(reader), EXPECTED, split_of=letter_of, patience=0.1)
    assert "seed " in caught.value.__notes__[0]
    assert "start with parallelism" in caught.value.__notes__[0]


def test_at_least_once_allows_what_comes_again_after_a_crash_but_no_loss() -> None:
    at_least = DeliveryGuarantee.AT_LEAST_ONCE
    check_source(lambda: with_reader(Behind), EXPECTED, guarantee=at_least)
    with pytest.raises(AssertionError, match="lost: "):
        check_source(lambda: with_reader(Ahead), EXPECTED, guarantee=at_least, patience=0.1)
    with pytest.raises(AssertionError, match="without a crash"):
        check_source(lambda: with_reader(GivesTwice), EXPECTED, guarantee=at_least, patience=0.1)


class NeverStops(LettersReader):
    """Waits for ever at the end, and does not listen."""

    def poll(self, limit: int) -> Polled:
        polled = super().poll(limit)
        return replace(polled, ended=False, retry_at=float("inf") if polled.ended else 0.0)

    def stop(self) -> None:
        self.told = True


def test_a_reader_that_does_not_stop_is_found() -> None:
    with pytest.raises(AssertionError, match=r"after stop\(\) the reader does not end"):
        check_source(lambda: with_reader(NeverStops), EXPECTED, seeds=[0])


def test_a_failure_of_the_source_itself_comes_with_the_seed() -> None:
    class Fails(LettersReader):
        def snapshot_state(self, checkpoint_id: int) -> list[Letter]:
            raise OSError("no such split")

    with pytest.raises(Exception, match="no such split") as caught:
        check_source(lambda: with_reader(Fails), EXPECTED)
    assert any("seed 0" in note for note in caught.value.__notes__)


def test_a_seed_plays_the_same_history_every_time() -> None:
    notes = []
    for _ in range(2):
        with pytest.raises(AssertionError) as caught:
            check_source(lambda: with_reader(Behind), EXPECTED, seeds=[7, 8, 9])
        notes.append(caught.value.__notes__)
    assert notes[0] == notes[1]


# The sources of Firesteel ---------------------------------------------------------------------------------


def test_number_sequence_collection_and_generator_pass() -> None:
    check_source(lambda: NumberSequenceSource(1, 40), range(1, 41), seeds=range(40))
    words = [f"word {number}" for number in range(30)]
    check_source(lambda: CollectionSource(words), words, split_of=lambda _: 0)
    check_source(lambda: DataGeneratorSource(lambda index: index * 3, 30), range(0, 90, 3))
    slow = RateLimiterStrategy.per_second(10)
    check_source(lambda: DataGeneratorSource(lambda index: index, 30, slow), range(30), seeds=range(5))


@pytest.mark.parametrize("boundedness", Boundedness)
def test_the_file_source_passes(tmp_path: Path, boundedness: Boundedness) -> None:
    lines = [f"{file}{number}" for file in "abc" for number in range(10)]
    for file in "abc":
        (tmp_path / file).write_text("".join(f"{line}\n" for line in lines if line[0] == file))

    def make() -> Source:
        builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path))
        if boundedness is not Boundedness.BOUNDED:
            builder = builder.monitor_continuously(Duration.of_seconds(1))
        return builder.build()

    check_source(make, lines, split_of=lambda line: line[0])
