"""Messages that a source cannot deserialize: they fail the job, are counted, or go to a side output, never lost in silence."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import pytest

from firesteel.common import Types, WatermarkStrategy
from firesteel.common.errors import DeserializationError, ProgramError, UserCodeError
from firesteel.common.serialization import DeserializationSchema
from firesteel.contracts.dead_letter import DeadLetter
from firesteel.contracts.source import Polled, Source, SourceReader, SourceReaderContext
from firesteel.datastream import OutputTag, StreamExecutionEnvironment
from firesteel.datastream.connectors.hybrid_source import HybridSource
from firesteel.datastream.formats.changes import DebeziumJsonSchema
from firesteel.datastream.formats.json import JsonRowDeserializationSchema, JsonSchema
from firesteel.formats.decoding import decode
from firesteel.testing import simulated_environment

BAD = OutputTag("bad")


@dataclass(frozen=True)
class Order:
    id: int


class Messages(Source[Any]):
    """A topic with one partition, in short."""

    decodes = True

    def __init__(self, schema: DeserializationSchema, messages: list[bytes], at_once: int = 2) -> None:
        self.schema, self.messages, self.at_once = schema, messages, at_once

    def splits_of(self, subtask: int, parallelism: int) -> list[int]:
        return [0] if subtask == 0 else []

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        return _Reader(self)


class _Reader(SourceReader):
    def __init__(self, source: Messages) -> None:
        self.source = source
        self.next: int | None = None

    def add_splits(self, splits: Any) -> None:
        self.next = splits[0]

    def poll(self, limit: int) -> Polled:
        if self.next is None or self.next >= len(self.source.messages):
            return Polled([], ended=True)
        first = self.next
        batch = self.source.messages[first : first + self.source.at_once]
        self.next += len(batch)
        found = decode(self.source.schema, batch, lambda index: {"topic": "orders", "offset": first + index})
        return Polled(found.values, bad=found.bad, ignored=found.ignored)

    def snapshot_state(self, checkpoint_id: int) -> list[int]:
        return [] if self.next is None else [self.next]


MESSAGES = [b'{"id": 1}', b"not JSON", b'{"id": "x"}', b'{"id": 4}', b'{"id": 5}']


def stream(env: StreamExecutionEnvironment, source: Source[Any]) -> Any:
    env.set_parallelism(1)
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "orders")


def test_a_bad_message_fails_the_job_with_its_bytes_and_where_it_is() -> None:
    env = simulated_environment()
    stream(env, Messages(JsonSchema(Order), MESSAGES)).print()
    with pytest.raises(UserCodeError) as failure:
        env.execute()
    text = str(failure.value)
    assert "message is no valid JSON of Order: invalid character" in text
    assert "the message is b'not JSON', of topic 'orders', offset 1" in text


@pytest.mark.parametrize("at_once", [1, 2, 5])
def test_bad_messages_go_to_the_side_output_with_their_bytes_and_where_they_are(at_once: int) -> None:
    env = simulated_environment()
    orders = stream(env, Messages(JsonSchema(Order), MESSAGES, at_once)).on_error(dead_letter=BAD)
    letters = orders.get_side_output(BAD)
    both = orders.union(letters)
    with both.execute_and_collect() as results:
        found = list(results)
    assert [record for record in found if isinstance(record, Order)] == [Order(1), Order(4), Order(5)]
    bad = [record for record in found if isinstance(record, DeadLetter)]
    assert [letter.value for letter in bad] == MESSAGES[1:3]
    assert [letter.where for letter in bad] == [{"topic": "orders", "offset": n} for n in (1, 2)]
    assert "at id: expected int, got str" in bad[1].message
    assert bad[0].operator == "Source: orders"
    assert bad[0].error_type == "firesteel.common.errors.DeserializationError"


def test_dropped_messages_are_counted_and_named_at_the_end(caplog: pytest.LogCaptureFixture) -> None:
    env = simulated_environment()
    stream(env, Messages(JsonSchema(Order), MESSAGES)).on_error("drop").print()
    with caplog.at_level(logging.WARNING):
        result = env.execute()
    assert result.get_accumulator_result("badRecords.Source: orders") == 2
    assert "drops a message (on_error)" in caplog.text
    assert "has dropped 2 records, which 'Source: orders' could not deserialize (on_error)" in caplog.text


def test_ignored_parse_errors_are_counted_and_named_at_the_end(caplog: pytest.LogCaptureFixture) -> None:
    env = simulated_environment()
    row_type = Types.ROW_NAMED(["id"], [Types.INT()])
    schema = JsonRowDeserializationSchema.builder().type_info(row_type).ignore_parse_errors().build()
    rows = stream(env, Messages(schema, MESSAGES))
    rows.map(lambda row: row["id"]).print()
    with caplog.at_level(logging.WARNING):
        result = env.execute()
    assert result.get_accumulator_result("ignoredParseErrors.Source: orders") == 2
    assert "has passed over 2 errors in messages of 'Source: orders' (ignore_parse_errors)" in caplog.text
    assert "passed over (ignore_parse_errors), number 1: message is no valid JSON" in caplog.text


def test_a_schema_that_gives_many_records_gives_them_one_by_one() -> None:
    env = simulated_environment()
    change = b'{"op": "u", "before": {"n": 1}, "after": {"n": 2}}'
    rows = stream(env, Messages(DebeziumJsonSchema(), [change, b""]))
    with rows.map(lambda row: (str(row.get_row_kind()), row["n"])).execute_and_collect() as results:
        assert list(results) == [("-U", 1), ("+U", 2)]


class Careless(DeserializationSchema):
    def deserialize(self, message: bytes) -> int:
        return int(message)


def test_errors_of_schemas_of_ones_own_are_bad_messages_too() -> None:
    env = simulated_environment()
    numbers = stream(env, Messages(Careless(), [b"1", b"x"])).on_error(dead_letter=BAD)
    with numbers.get_side_output(BAD).execute_and_collect() as results:
        (letter,) = results
    assert letter.value == b"x"
    assert "Careless raised ValueError: invalid literal for int()" in letter.message


def test_schemas_are_functions_for_any_operator() -> None:
    env = simulated_environment()
    texts = env.from_collection(MESSAGES)
    orders = texts.map(JsonSchema(Order).deserialize).name("Parse").on_error(dead_letter=BAD)
    with orders.union(
        orders.get_side_output(BAD).map(lambda letter: letter.value)
    ).execute_and_collect() as results:
        found = list(results)
    assert set(found) == {Order(1), Order(4), Order(5), *MESSAGES[1:3]}


def test_bad_messages_of_a_source_that_does_not_announce_them_fail_the_job() -> None:
    source = Messages(JsonSchema(Order), MESSAGES)
    source.decodes = False
    env = simulated_environment()
    stream(env, source).print()
    with pytest.raises((UserCodeError, ProgramError), match="set decodes = True"):
        env.execute()
    with pytest.raises(ProgramError, match="a source makes records and has no function"):
        stream(simulated_environment(), source).on_error("drop")


def test_errors_survive_pickling_with_all_they_know() -> None:
    import pickle

    error = DeserializationError(b"x", "bad", path="a", index=3).found(offset=7)
    copied = pickle.loads(pickle.dumps(error))
    assert (copied.message, copied.index, copied.where, str(copied)) == (b"x", 3, {"offset": 7}, str(error))


def test_a_hybrid_source_has_the_bad_messages_of_its_sources() -> None:
    env = simulated_environment()
    sources = HybridSource.builder(Messages(JsonSchema(Order), MESSAGES[:2]))
    orders = stream(env, sources.add_source(Messages(JsonSchema(Order), MESSAGES[2:])).build())
    tolerant = orders.on_error(dead_letter=BAD)
    with tolerant.union(tolerant.get_side_output(BAD)).execute_and_collect() as results:
        found = list(results)
    assert [letter.value for letter in found if isinstance(letter, DeadLetter)] == MESSAGES[1:3]
    assert [record for record in found if isinstance(record, Order)] == [Order(1), Order(4), Order(5)]
