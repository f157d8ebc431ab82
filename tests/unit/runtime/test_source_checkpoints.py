"""Sources in checkpoints: every record before the barrier or after the restart, never both, never neither."""

from __future__ import annotations

import logging
import math
import pickle
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firesteel.connectors.collection import CollectionSource
from firesteel.connectors.datagen import DataGeneratorSource
from firesteel.connectors.files import line_blocks, splits
from firesteel.connectors.number_sequence import NumberSequenceSource
from firesteel.connectors.socket import SocketTextSource
from firesteel.connectors.text_file import TextFileSource
from firesteel.contracts.source import Polled, Source, SourceReader, SourceReaderContext, SplitEnumerator
from firesteel.plan.messages import ReaderEvent, ReaderRegistered, SplitRequested
from firesteel.plan.operator_specs import SourceSpec
from firesteel.plan.shipped import Shipped
from firesteel.testing import Emit, EmitWatermark, ScriptedSource
from firesteel.testing.checkpoint_harness import CheckpointHarness


def spec_of(source: Source) -> SourceSpec:
    return SourceSpec(Shipped.of(source, "from_source"), True, source.max_subtasks)


def harness(source: Source, parallelism: int = 1, **more: Any) -> CheckpointHarness:
    return CheckpointHarness(spec_of(source), parallelism, **more)


SOURCES = {
    "collection": (CollectionSource([f"v{n}" for n in range(20)]), [f"v{n}" for n in range(20)]),
    "numbers": (NumberSequenceSource(1, 30), list(range(1, 31))),
    "generator": (DataGeneratorSource(lambda index: index * 2, 25), list(range(0, 50, 2))),
    "script": (
        ScriptedSource([Emit([1, 2, 3]), EmitWatermark(5), Emit([4, 5])], [Emit([6])], [Emit([7, 8, 9])]),
        list(range(1, 10)),
    ),
}


@pytest.mark.parametrize("name", SOURCES)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_every_record_comes_before_the_checkpoint_or_after_the_restart(
    name: str, data: st.DataObject
) -> None:
    source, expected = SOURCES[name]
    degrees = st.just(1) if source.max_subtasks == 1 else st.integers(1, 4)
    checkpoint, seen = None, []
    for attempt in range(data.draw(st.integers(1, 4), "attempts")):
        running = harness(source, data.draw(degrees, "parallelism"), restore=checkpoint)
        for subtask in running:
            for limit in data.draw(st.lists(st.integers(1, 7), max_size=4), "polls"):
                if not subtask.source.ended:
                    subtask.source.poll(limit)
        checkpoint = running.checkpoint(attempt + 1)
        seen += [value for subtask in running for value in subtask.output.values]
        for subtask in running:  # what comes after the checkpoint is forgotten with the attempt
            subtask.drain(3)
    final = harness(source, data.draw(degrees, "parallelism"), restore=checkpoint)
    seen += [value for subtask in final for value in subtask.drain()]
    assert sorted(seen, key=expected.index) == expected


@pytest.fixture
def tiny_splits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splits, "MIN_SPLIT_BYTES", 10)
    monkeypatch.setattr(splits, "MAX_SPLIT_BYTES", 30)
    monkeypatch.setattr(line_blocks, "BLOCK_BYTES", 8)


@pytest.mark.usefixtures("tiny_splits")
@pytest.mark.parametrize("polls", range(12))
def test_lines_of_a_file_go_on_where_they_were_with_more_readers_and_with_fewer(
    tmp_path: Any, polls: int
) -> None:
    lines = [f"line {n}" for n in range(40)]
    (tmp_path / "a.txt").write_text("\n".join(lines))
    before = harness(TextFileSource(tmp_path), 2)
    for subtask in before:
        for _ in range(polls):
            subtask.source.poll(2)
    checkpoint = before.checkpoint(1)
    for parallelism in (1, 2, 3):
        after = harness(TextFileSource(tmp_path), parallelism, restore=checkpoint)
        rest = [line for subtask in after for line in subtask.drain()]
        assert sorted([v for s in before for v in s.output.values] + rest) == sorted(lines)


def test_a_source_that_had_read_everything_ends_at_once() -> None:
    before = harness(NumberSequenceSource(1, 5))
    before[0].drain()
    after = harness(NumberSequenceSource(1, 5), 2, restore=before.checkpoint(1))
    assert [subtask.drain() for subtask in after] == [[], []]


def test_restored_positions_win_over_what_the_program_asks_for() -> None:
    before = harness(NumberSequenceSource(1, 5))
    before[0].source.poll(3)
    after = harness(NumberSequenceSource(100, 200), restore=before.checkpoint(1))
    assert after[0].drain() == [4, 5]


def test_a_source_that_is_new_in_the_program_starts_at_its_beginning() -> None:
    class Nothing(Source):
        def create_reader(self, context: SourceReaderContext) -> SourceReader:
            return OwnWork()

    checkpoint = harness(Nothing()).checkpoint(7)  # has no splits, hence no state
    assert harness(NumberSequenceSource(1, 3), restore=checkpoint)[0].drain() == [1, 2, 3]


def test_notes_about_having_begun_do_not_pile_up() -> None:
    checkpoint = harness(NumberSequenceSource(1, 9), 3).checkpoint(1)
    for number in range(2, 6):
        checkpoint = harness(NumberSequenceSource(1, 9), 3, restore=checkpoint).checkpoint(number)
    assert sum(map(len, checkpoint.subtasks)) == 4  # one split each, and one note


def test_what_a_stopped_source_left_out_is_in_the_checkpoint() -> None:
    for source, expected in SOURCES.values():
        before = harness(source)
        before[0].source.poll(2)
        before[0].source.stop()
        before[0].drain()
        after = harness(source, restore=before.checkpoint(1))
        assert before[0].output.values + after[0].drain() == expected


def test_a_reader_that_knows_no_stop_is_not_asked_any_more() -> None:
    class Endless(Source):
        def create_reader(self, context: SourceReaderContext) -> SourceReader:
            return EndlessReader()

        def splits_of(self, subtask: int, parallelism: int) -> list[int]:
            return [0]

    before = harness(Endless())
    before[0].source.poll(2)
    before[0].source.stop()
    assert before[0].drain() == [0, 1]
    after = harness(Endless(), restore=before.checkpoint(1))
    after[0].source.poll(2)
    assert after[0].output.values == [2, 3]


class EndlessReader(SourceReader):
    """Numbers for ever."""

    def add_splits(self, splits: Sequence[int]) -> None:
        (self._next,) = splits

    def poll(self, limit: int) -> Polled:
        self._next += limit
        return Polled(list(range(self._next - limit, self._next)))

    def snapshot_state(self, checkpoint_id: int) -> list[int]:
        return [self._next]


def test_a_suspended_source_sends_nothing_and_goes_on_when_it_is_resumed() -> None:
    source = harness(NumberSequenceSource(1, 5))[0].source
    source.poll(2)
    source.suspend()
    assert not source.ready(1e12)
    assert (source.retry_at, source.next_deadline()) == (math.inf, math.inf)
    source.resume()
    assert source.ready(0.0)
    source.poll(10)
    assert source.ended


class OwnWork(SourceReader):
    """Finds its own work, and forgets it."""

    def poll(self, limit: int) -> Polled:
        return Polled([1], ended=True)


def test_a_source_that_cannot_go_back_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    source = SocketTextSource("localhost", 1)
    with caplog.at_level(logging.WARNING):
        harness(source)
        harness(source, checkpointing=False)
    assert [record.getMessage() for record in caplog.records] == [
        "Operator cannot go back to where it was at a checkpoint: after a failure it continues with what comes then"
    ]


# Enumerators ------------------------------------------------------------------------------------------


class Asking(Source):
    """Its readers say what they are told, and ask for splits when they have none."""

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        return AskingReader(context)

    def create_enumerator(self, context: Any) -> SplitEnumerator:
        raise AssertionError("enumerators are the job master's business")


class AskingReader(SourceReader):
    def __init__(self, context: SourceReaderContext) -> None:
        self._context = context
        self._splits: list[str] = []
        self._no_more = False
        self.told: list[Any] = []

    def add_splits(self, splits: Sequence[str]) -> None:
        self._splits += splits

    def notify_no_more_splits(self) -> None:
        self._no_more = True

    def snapshot_state(self, checkpoint_id: int) -> list[str]:
        return list(self._splits)

    def handle_source_event(self, event: Any) -> None:
        self._context.send_event(("heard", event))

    def poll(self, limit: int) -> Polled:
        if self._splits:
            return Polled([self._splits.pop(0)])
        if not self._no_more:
            self._context.request_split()
        return Polled([], ended=self._no_more, retry_at=math.inf)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self._context.send_event(("complete", checkpoint_id))

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        self._context.send_event(("aborted", checkpoint_id))


def test_a_reader_registers_asks_reads_what_it_is_given_and_ends_when_told() -> None:
    subtask = harness(Asking(), 2)[1]
    source = subtask.source
    assert source.take_messages() == [ReaderRegistered("op", 1)]
    source.poll(10)
    assert source.take_messages() == [SplitRequested("op", 1)]
    assert not source.ready(1e12)
    source.assign(["a", "b"], no_more=False)
    assert source.ready(0.0)
    source.poll(10)
    source.poll(10)
    assert subtask.output.values == ["a", "b"]
    source.assign([], no_more=True)
    source.poll(10)
    assert source.ended
    assert source.take_messages() == []


def test_assigned_splits_are_part_of_the_checkpoint_and_go_back_to_readers() -> None:
    before = harness(Asking())
    before[0].source.assign(list("abcd"), no_more=True)
    before[0].source.poll(1)
    after = harness(Asking(), 3, restore=before.checkpoint(1))
    for subtask in after:
        subtask.source.assign([], no_more=True)
    assert [subtask.drain() for subtask in after] == [["b"], ["c"], ["d"]]


def test_events_and_the_ends_of_checkpoints_reach_the_reader() -> None:
    running = harness(Asking())
    source = running[0].source
    source.take_messages()
    source.handle_event("hello")
    running.complete(3)
    running.abort(4)
    sent = [message.event for message in source.take_messages() if isinstance(message, ReaderEvent)]
    assert [pickle.loads(event) for event in sent] == [("heard", "hello"), ("complete", 3), ("aborted", 4)]
