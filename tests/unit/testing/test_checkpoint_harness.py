"""CheckpointHarness takes what users write as it is; what becomes of it is tested with each operator."""

from __future__ import annotations

import pytest

from firesteel.common import Types
from firesteel.common.errors import WrongArgumentError
from firesteel.datastream.connectors import NumberSequenceSource
from firesteel.datastream.connectors.base import CommitRequest, Committer, Sink, SinkContext, SinkWriter
from firesteel.datastream.functions import CheckpointedFunction, MapFunction, SinkFunction, SourceFunction
from firesteel.datastream.state import ListStateDescriptor
from firesteel.testing import CheckpointHarness

SEEN: list[object] = []
COUNT = ListStateDescriptor("count", Types.INT())


@pytest.fixture(autouse=True)
def _nothing_seen() -> None:
    SEEN.clear()


class Countdown(SourceFunction):
    bounded = True

    def run(self, ctx):
        for number in (3, 2, 1):
            ctx.collect(number)


class Numbering(MapFunction, CheckpointedFunction):
    def initialize_state(self, context):
        self.state = context.get_operator_state_store().get_list_state(COUNT)
        self.count = sum(self.state.get())

    def snapshot_state(self, context):
        self.state.update([self.count])

    def map(self, value):
        self.count += 1
        return self.count, value


class Showing(SinkFunction):
    def invoke(self, value, context):
        SEEN.append(value)


class Prepared(Sink):
    def create_writer(self, context: SinkContext) -> SinkWriter:
        return PreparedWriter()

    def create_committer(self, context: SinkContext) -> Committer:
        return PreparedCommitter()


class PreparedWriter(SinkWriter):
    def __init__(self):
        self.written = []

    def write(self, value, context):
        self.written.append(value)

    def prepare_commit(self):
        written, self.written = self.written, []
        return [written]


class PreparedCommitter(Committer):
    def commit(self, requests: list[CommitRequest]) -> None:
        SEEN.extend(request.get_committable() for request in requests)


def test_a_source_goes_on_where_its_checkpoint_was() -> None:
    before = CheckpointHarness(NumberSequenceSource(1, 5))
    assert before[0].poll(2) == [1, 2]
    assert before[0].poll(1) == [3]
    after = CheckpointHarness(NumberSequenceSource(1, 5), restore=before.checkpoint(1))
    assert after[0].drain() == [4, 5]


def test_a_source_function() -> None:
    assert CheckpointHarness(Countdown())[0].drain() == [3, 2, 1]


def test_a_function_with_state() -> None:
    before = CheckpointHarness(Numbering())
    before[0].process(["a", "b"])
    after = CheckpointHarness(Numbering(), restore=before.checkpoint(1))
    after[0].process(["c"])
    assert after[0].output.values == [(3, "c")]


def test_a_sink_function() -> None:
    CheckpointHarness(Showing())[0].process([1, 2])
    assert SEEN == [1, 2]


def test_a_sink_shows_what_a_complete_checkpoint_holds() -> None:
    harness = CheckpointHarness(Prepared())
    harness[0].process([1, 2])
    harness.checkpoint(1)
    assert SEEN == []
    harness.complete(1)
    assert SEEN == [[1, 2]]


def test_anything_else_is_refused() -> None:
    with pytest.raises(WrongArgumentError, match=r"a Source, a Sink or a function, got 'words' \(str\)"):
        CheckpointHarness("words")
