"""The reader of the Kafka source, on a simulated consumer: positions, ends, drops, errors, commits."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firesteel.common.errors import JobExecutionError, ProgramError
from firesteel.common.serialization import ByteArraySchema, DeserializationSchema
from firesteel.connectors.kafka.source import KafkaPartitionsSource
from firesteel.connectors.kafka.source_enumerator import PartitionsAssigned
from firesteel.connectors.kafka.source_splits import EARLIEST, KafkaSplit, KafkaTopicPartition
from firesteel.contracts.source import Polled, SourceReader, SourceReaderContext
from firesteel.datastream.connectors.kafka import KafkaSource
from firesteel_support.simulated_consumer import SimulatedTopics


def source(topics: SimulatedTopics, schema: DeserializationSchema | None = None, **properties: str) -> Any:
    built = (
        KafkaSource.builder()
        .set_bootstrap_servers("nowhere:1")
        .set_topics("t")
        .set_group_id("g")
        .set_value_only_deserializer(schema or ByteArraySchema())
        .set_properties({key.replace("_", "."): value for key, value in properties.items()})
        .build()
    )
    return replace(built, connects=topics.connect)


class Driven:
    """A reader, polled until it waits."""

    def __init__(self, described: KafkaPartitionsSource, splits: Sequence[KafkaSplit]) -> None:
        self.woken = threading.Event()
        context = SourceReaderContext(0, 1, lambda: 0.0, self.woken.set)
        self.reader: SourceReader = described.create_reader(context)
        self.reader.open()
        self.reader.add_splits(splits)
        self.polls: list[Polled] = []

    def poll(self, limit: int = 1024) -> Polled:
        """The next poll that gives anything; waits for the thread where there is nothing."""
        while True:
            self.woken.clear()
            polled = self.reader.poll(limit)
            self.polls.append(polled)
            if polled.retry_at == 0 or polled.ended:
                return polled
            assert self.woken.wait(60)

    def drain(self, limit: int = 1024) -> list[Any]:
        self.reader.notify_no_more_splits()
        while not self.poll(limit).ended:
            pass
        self.reader.close()
        return self.values()

    def values(self) -> list[Any]:
        return [value for polled in self.polls for value in polled.values]


def test_pending_records_are_those_up_to_the_known_ends() -> None:
    topics = SimulatedTopics()
    topics.put("t", 0, b"a", b"b")
    topics.put("t", 1, b"c", b"d", b"e")
    driven = Driven(source(topics), [KafkaSplit("t", 0, 0), KafkaSplit("t", 1, 1)])
    assert driven.reader.pending_records() == 4
    while len(driven.values()) < 4:
        driven.poll()
    assert driven.reader.pending_records() == 0
    driven.reader.close()


def test_each_poll_gives_records_of_one_partition_with_their_times() -> None:
    topics = SimulatedTopics()
    topics.put("t", 0, b"a", b"b")
    topics.put("t", 1, b"c")
    driven = Driven(source(topics), [KafkaSplit("t", 0, EARLIEST, 2), KafkaSplit("t", 1, 0, 1)])
    assert driven.drain() == [b"a", b"b", b"c"]
    with_values = [polled for polled in driven.polls if polled.values]
    assert [(polled.split, polled.timestamps) for polled in with_values] == [
        (KafkaTopicPartition("t", 0), [0, 10]),
        (KafkaTopicPartition("t", 1), [0]),
    ]
    assert driven.polls[0].splits_added == (KafkaTopicPartition("t", 0), KafkaTopicPartition("t", 1))
    assert [polled.splits_ended for polled in with_values] == [(polled.split,) for polled in with_values]
    assert topics.consumers[0].closed


@settings(deadline=None, max_examples=40)
@given(
    lengths=st.lists(st.integers(0, 12), min_size=1, max_size=4),
    limit=st.integers(1, 7),
    polls=st.integers(1, 12),
    gap=st.integers(0, 2),
)
def test_wherever_a_checkpoint_is_taken_nothing_is_lost_or_repeated(
    lengths: list[int], limit: int, polls: int, gap: int
) -> None:
    topics = SimulatedTopics()
    for partition, length in enumerate(lengths):
        topics.put("t", partition, *(f"{partition}/{n}".encode() for n in range(length)), gap=gap)
    splits = [KafkaSplit("t", number, EARLIEST, length + gap) for number, length in enumerate(lengths)]
    before = Driven(source(topics), splits)
    before.reader.notify_no_more_splits()
    for _ in range(polls):
        if before.poll(limit).ended:
            break
    saved = before.reader.snapshot_state(1)
    before.reader.close()
    after = Driven(source(topics), saved)
    both = before.values() + after.drain(limit)
    for partition, length in enumerate(lengths):
        mine = [value for value in both if value.startswith(b"%d/" % partition)]
        assert mine == [f"{partition}/{n}".encode() for n in range(length)]


def test_an_end_behind_which_there_are_no_records_is_reached() -> None:
    topics = SimulatedTopics()
    topics.put("t", 0, b"a", gap=1)  # the mark of a transaction
    assert Driven(source(topics), [KafkaSplit("t", 0, 0, 2)]).drain() == [b"a"]


def test_records_behind_the_end_are_not_given() -> None:
    topics = SimulatedTopics()
    topics.put("t", 0, b"a", b"b", b"c")
    assert Driven(source(topics), [KafkaSplit("t", 0, 0, 2)]).drain() == [b"a", b"b"]
    assert Driven(source(topics), [KafkaSplit("t", 0, 2, 2)]).drain() == []


class Picky(DeserializationSchema):
    """Drops what begins with a dash, cannot read an x."""

    def deserialize(self, message: bytes) -> Any:
        return None if message.startswith(b"-") else int(message)


def test_what_a_schema_drops_goes_with_its_timestamp() -> None:
    topics = SimulatedTopics()
    topics.put("t", 0, b"1", b"-", b"3")
    driven = Driven(source(topics, Picky()), [KafkaSplit("t", 0, 0, 3)])
    assert driven.drain() == [1, 3]
    assert [polled.timestamps for polled in driven.polls if polled.values] == [[0, 20]]


@pytest.mark.parametrize(
    ("value", "told"),
    [(b"x1", "Picky raised ValueError"), (None, "the record has no value (a tombstone)")],
)
def test_a_record_that_cannot_be_deserialized_is_apart_with_where_it_is(
    value: bytes | None, told: str
) -> None:
    topics = SimulatedTopics()
    topics.put("t", 3, b"1", value, b"3")
    driven = Driven(source(topics, Picky()), [KafkaSplit("t", 3, 0, 3)])
    assert driven.drain() == [1, 3]
    (bad,) = [bad for polled in driven.polls for bad in polled.bad]
    assert told in bad.reason
    assert (bad.message, bad.where) == (value or b"", {"topic": "t", "partition": 3, "offset": 1})


class Wrong(ByteArraySchema):
    def deserialize_batch(self, messages: list[bytes]) -> list[Any]:
        return messages[1:]


def test_a_schema_that_gives_another_number_of_records_is_refused() -> None:
    topics = SimulatedTopics()
    topics.put("t", 0, b"1", b"2")
    driven = Driven(source(topics, Wrong()), [KafkaSplit("t", 0, 0, 2)])
    with pytest.raises(ProgramError, match=r"deserialize_batch\(\) of Wrong gives 1 records for 2 messages"):
        driven.drain()
    driven.reader.close()


def test_offsets_that_are_gone_are_an_error_unless_the_user_chose() -> None:
    topics = SimulatedTopics()
    topics.put("t", 0, b"a", b"b", b"c")
    topics.low["t", 0] = 2
    driven = Driven(source(topics), [KafkaSplit("t", 0, 1, 3)])
    with pytest.raises(
        JobExecutionError, match=r"offset 1 of .* from offset 2 to 2\. 1 offsets were deleted"
    ):
        driven.drain()
    driven.reader.close()
    del topics.logs["t", 0][1], topics.logs["t", 0][0]
    chosen = source(topics, auto_offset_reset="earliest")
    assert Driven(chosen, [KafkaSplit("t", 0, 1, 3)]).drain() == [b"c"]


def test_positions_of_complete_checkpoints_are_committed_those_of_others_are_not() -> None:
    topics = SimulatedTopics()
    topics.put("t", 0, b"a", b"b", b"c", b"d")
    driven = Driven(source(topics), [KafkaSplit("t", 0, 0)])
    driven.poll()  # the news of the split
    for checkpoint in (1, 2, 3):
        driven.poll(1)
        driven.reader.snapshot_state(checkpoint)
    driven.reader.notify_checkpoint_aborted(3)
    driven.reader.notify_checkpoint_complete(2)
    driven.reader.notify_checkpoint_complete(3)
    driven.reader.close()
    assert topics.consumers[0].committed == {("t", 0): 2}


def test_partitions_that_were_read_to_their_end_are_committed_too() -> None:
    topics = SimulatedTopics()
    topics.put("t", 0, b"a", b"b", b"c", gap=1)
    driven = Driven(source(topics), [KafkaSplit("t", 0, 0, 2)])
    driven.reader.notify_no_more_splits()
    while not driven.poll().ended:
        pass
    assert driven.reader.snapshot_state(1) == []
    driven.reader.notify_checkpoint_complete(1)
    driven.reader.close()
    assert topics.consumers[0].committed == {("t", 0): 2}


def test_a_reader_without_partitions_says_that_it_is_idle_once() -> None:
    driven = Driven(source(SimulatedTopics()), [])
    driven.reader.handle_source_event(PartitionsAssigned())
    assert driven.poll().idle
    assert not driven.reader.poll(1).idle
    driven.reader.close()
