"""The enumerator of the Kafka source, on a cluster that is a dictionary."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firesteel.common.errors import JobExecutionError
from firesteel.connectors.kafka.source_enumerator import KafkaEnumerator, KafkaEnumeratorState
from firesteel.connectors.kafka.source_offsets import KafkaOffsetResetStrategy, KafkaOffsetsInitializer
from firesteel.connectors.kafka.source_splits import EARLIEST, KafkaSplit, KafkaTopicPartition, owner_of
from firesteel.connectors.kafka.source_subscription import PartitionSet, TopicList, TopicPattern
from firesteel.contracts.source import SplitEnumeratorContext

TP = KafkaTopicPartition


class FakeCluster:
    """Topics with the ends of their partitions; what a group has committed."""

    def __init__(self, **topics: list[int]) -> None:
        self.ends = topics
        self.committed: dict[TP, int] = {}
        self.down = False

    def topics(self) -> dict[str, list[int]]:
        if self.down:
            raise JobExecutionError("Kafka at fake does not tell the topics")
        return {name: list(range(len(ends))) for name, ends in self.ends.items()}

    def end_offsets(self, partitions: Iterable[TP]) -> dict[TP, int]:
        return {each: self.ends[each.topic][each.partition] for each in partitions}

    def offsets_at(self, partitions: Iterable[TP], timestamp: int) -> dict[TP, int]:
        return {each: min(timestamp, end) for each, end in self.end_offsets(partitions).items()}

    def committed_offsets(self, partitions: Iterable[TP]) -> dict[TP, int]:
        return {each: self.committed[each] for each in partitions if each in self.committed}

    def close(self) -> None:
        self.ends = {}


class FakeContext(SplitEnumeratorContext):
    def __init__(self, readers: int) -> None:
        self.readers: list[int] = []
        self.parallelism = readers
        self.assigned: dict[int, list[KafkaSplit]] = {}
        self.no_more: list[int] = []
        self.looks: list[tuple[Callable[[], Any], Callable[..., None], float | None]] = []
        self.time = 0.0

    def current_parallelism(self) -> int:
        return self.parallelism

    def registered_readers(self) -> list[int]:
        return self.readers

    def now(self) -> float:
        return self.time

    def assign_splits(self, assignment: Mapping[int, Sequence[Any]]) -> None:
        for reader, splits in assignment.items():
            assert reader in self.readers
            self.assigned.setdefault(reader, []).extend(splits)

    def signal_no_more_splits(self, subtask: int) -> None:
        self.no_more.append(subtask)

    def send_event_to_source_reader(self, subtask: int, event: Any) -> None:
        pass

    def call_async(
        self,
        callable: Callable[[], Any],
        handler: Callable[[Any, Exception | None], None],
        initial_delay: float = 0.0,
        interval: float | None = None,
    ) -> None:
        self.looks.append((callable, handler, interval))

    def look(self) -> None:
        """What the interval brings."""
        for callable, handler, _ in self.looks:
            try:
                result = callable()
            except JobExecutionError as error:
                handler(None, error)
            else:
                handler(result, None)


def start(
    cluster: FakeCluster,
    context: FakeContext,
    subscription: Any,
    starting: KafkaOffsetsInitializer | None = None,
    stopping: KafkaOffsetsInitializer | None = None,
    interval: float | None = 10.0,
    state: KafkaEnumeratorState | None = None,
) -> KafkaEnumerator:
    begin = starting or KafkaOffsetsInitializer.earliest()
    found = KafkaEnumerator(context, cluster, subscription, begin, stopping, interval, state)  # type: ignore[arg-type]
    found.start()
    return found


def join(enumerator: KafkaEnumerator, context: FakeContext, *readers: int) -> None:
    for reader in readers:
        context.readers.append(reader)
        enumerator.add_reader(reader)


@given(st.text("abcdefgh.-_", min_size=1), st.integers(1, 64), st.integers(1, 20))
def test_partitions_of_a_topic_go_round(topic: str, partitions: int, readers: int) -> None:
    owners = [owner_of(TP(topic, number), readers) for number in range(partitions)]
    assert owners == [(owners[0] + number) % readers for number in range(partitions)]


def test_partitions_have_the_readers_that_flink_gives_them() -> None:
    # "orders".hashCode() is -1008770331 in Java; times 31, without its sign, modulo 7.
    assert owner_of(TP("orders", 0), 7) == ((-1008770331 * 31) & 0x7FFFFFFF) % 7


def test_readers_that_come_early_and_late_get_what_is_theirs() -> None:
    context = FakeContext(2)
    enumerator = start(FakeCluster(a=[5, 5, 5, 5]), context, TopicList(("a",)))
    join(enumerator, context, 0)
    context.look()
    join(enumerator, context, 1)
    assert {split.of for splits in context.assigned.values() for split in splits} == {
        TP("a", number) for number in range(4)
    }
    for reader, splits in context.assigned.items():
        assert all(owner_of(split.of, 2) == reader and split.offset == EARLIEST for split in splits)
    assert context.no_more == []


def test_without_an_interval_readers_learn_that_nothing_follows() -> None:
    context = FakeContext(3)
    enumerator = start(FakeCluster(a=[5]), context, TopicList(("a",)), interval=None)
    join(enumerator, context, 0, 1)
    assert context.no_more == []
    context.look()
    join(enumerator, context, 2)
    assert context.no_more == [0, 1, 2]


def test_partitions_that_come_later_are_read_from_their_beginning_and_once() -> None:
    cluster, context = FakeCluster(a=[5]), FakeContext(1)
    latest = KafkaOffsetsInitializer.latest()
    enumerator = start(cluster, context, TopicPattern("a|b"), starting=latest)
    join(enumerator, context, 0)
    context.look()
    cluster.ends = {"a": [6, 3], "b": [9], "c": [1]}
    context.look()
    context.look()
    assert context.assigned[0] == [
        KafkaSplit("a", 0, 5),
        KafkaSplit("a", 1, EARLIEST),
        KafkaSplit("b", 0, EARLIEST),
    ]


def test_a_restored_enumerator_knows_what_it_has_found() -> None:
    cluster, context = FakeCluster(a=[5, 5]), FakeContext(2)
    enumerator = start(cluster, context, TopicList(("a",)))
    first = owner_of(TP("a", 0), 2)
    join(enumerator, context, first)
    context.look()
    state = pickle.loads(pickle.dumps(enumerator.snapshot_state(1)))

    again = FakeContext(1)
    cluster.ends["a"].append(7)
    restored = start(
        cluster, again, TopicList(("a",)), starting=KafkaOffsetsInitializer.latest(), state=state
    )
    join(restored, again, 0)
    again.look()
    assert [split.partition for split in again.assigned[0]] == [1, 2]  # 0 is in the reader's checkpoint
    assert again.assigned[0][1].offset == EARLIEST


def test_splits_that_come_back_wait_for_their_reader() -> None:
    context = FakeContext(1)
    enumerator = start(FakeCluster(a=[5]), context, TopicList(("a",)))
    join(enumerator, context, 0)
    context.look()
    lost = context.assigned.pop(0)
    enumerator.add_splits_back(lost, 0)
    enumerator.add_reader(0)
    assert context.assigned[0] == lost


def test_ends_are_asked_for_with_the_beginning() -> None:
    cluster, context = FakeCluster(a=[5, 8]), FakeContext(1)
    stop = KafkaOffsetsInitializer.latest()
    enumerator = start(cluster, context, PartitionSet((TP("a", 1),)), stopping=stop, interval=None)
    join(enumerator, context, 0)
    context.look()
    assert context.assigned[0] == [KafkaSplit("a", 1, EARLIEST, 8)]


def test_trouble_at_the_start_fails_the_job_and_later_it_does_not(caplog: pytest.LogCaptureFixture) -> None:
    cluster, context = FakeCluster(a=[5]), FakeContext(1)
    enumerator = start(cluster, context, TopicList(("a",)))
    join(enumerator, context, 0)
    cluster.down = True
    with pytest.raises(JobExecutionError, match="does not tell the topics"):
        context.look()
    cluster.down = False
    context.look()
    cluster.down = True
    context.look()
    context.look()
    assert [record.getMessage().count("tries again in 10 s") for record in caplog.records] == [1]
    cluster.down = False
    cluster.ends["a"].append(1)
    context.look()
    assert len(context.assigned[0]) == 2


def test_where_a_group_has_committed_nothing_the_strategy_decides() -> None:
    cluster = FakeCluster(a=[5, 8])
    cluster.committed = {TP("a", 0): 2}
    both = [TP("a", 0), TP("a", 1)]
    committed = KafkaOffsetsInitializer.committed_offsets
    assert committed(KafkaOffsetResetStrategy.LATEST).resolve(both, cluster) == {both[0]: 2, both[1]: 8}
    assert committed(KafkaOffsetResetStrategy.EARLIEST).resolve(both, cluster) == {
        both[0]: 2,
        both[1]: EARLIEST,
    }
    with pytest.raises(JobExecutionError, match="no offset for partition 1 of topic 'a'"):
        committed().resolve(both, cluster)
    given_offsets = KafkaOffsetsInitializer.offsets({both[1]: 4})
    assert given_offsets.resolve(both, cluster) == {both[0]: 2, both[1]: 4}


def test_topics_and_partitions_that_are_not_there_are_named() -> None:
    topics = {"orders": [0, 1], "__consumer_offsets": [0]}
    with pytest.raises(
        JobExecutionError, match=r"there is no topic 'order'; the brokers have orders\. Create it"
    ):
        TopicList(("order",)).choose(topics)
    with pytest.raises(JobExecutionError, match="topic 'orders' has no partition 2, but 2, counted from 0"):
        PartitionSet((TP("orders", 2),)).choose(topics)
    assert TopicPattern("order").choose(topics) == []  # the whole name must match
