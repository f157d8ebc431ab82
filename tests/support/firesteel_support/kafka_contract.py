"""What the Kafka sink relies on, as checks of a cluster; they run on the simulated one and on a real broker.

That they hold on both is what makes the simulation of the sink a proof.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from firesteel.common.errors import FiresteelError
from firesteel.connectors.kafka.sink_client import (
    FencedError,
    KafkaCluster,
    OutgoingRecord,
    Transactions,
    UnknownOutcomeError,
)

__all__ = ["CHECKS", "Subject"]


@dataclass(frozen=True)
class Subject:
    """A cluster, a topic of two partitions in it, and the values that a reader with read_committed sees, by partition order."""

    cluster: KafkaCluster
    topic: str
    read: Callable[[str], list[bytes]]

    def transactions(self, transactional_id: str) -> Transactions:
        """Transactions of an id, initialised."""
        transactions = self.cluster.transactions(transactional_id, self.topic)
        transactions.init()
        transactions.marker()
        return transactions

    def record(self, value: str, partition: int = 0) -> OutgoingRecord:
        """A record of the topic."""
        return OutgoingRecord(self.topic, partition, None, value.encode(), 0, ())

    def marker(self, transactional_id: str) -> str:
        """The marker of an id, as somebody finds it who initialises it."""
        transactions = self.cluster.transactions(transactional_id, self.topic)
        transactions.init()
        try:
            return transactions.marker()
        finally:
            transactions.close()


def _write(transactions: Transactions, record: OutgoingRecord, marker: str) -> None:
    transactions.begin()
    transactions.produce([record])
    transactions.mark(marker)
    transactions.commit()


def _new_id() -> str:
    return f"contract-{uuid.uuid4().hex}"


def a_transaction_is_seen_with_its_marker_when_it_is_committed(subject: Subject) -> None:
    name = _new_id()
    transactions = subject.transactions(name)
    transactions.begin()
    transactions.produce([subject.record("a"), subject.record("b")])
    transactions.mark("0-3,5-5")
    assert subject.read(subject.topic) == []
    transactions.commit()
    transactions.close()
    assert subject.read(subject.topic) == [b"a", b"b"]
    assert subject.marker(name) == "0-3,5-5"


def a_new_id_has_no_marker(subject: Subject) -> None:
    assert subject.marker(_new_id()) == ""


def transactions_of_one_id_follow_each_other_and_replace_the_marker(subject: Subject) -> None:
    name = _new_id()
    transactions = subject.transactions(name)
    for number in range(3):
        transactions.begin()
        transactions.produce([subject.record(str(number))])
        transactions.mark(f"0-{number}")
        transactions.commit()
    transactions.close()
    assert subject.read(subject.topic) == [b"0", b"1", b"2"]
    assert subject.marker(name) == "0-2"


def initialising_aborts_what_another_producer_left_open(subject: Subject) -> None:
    name = _new_id()
    left_open = subject.transactions(name)
    left_open.begin()
    left_open.produce([subject.record("lost")])
    left_open.mark("0-0")
    assert subject.marker(name) == ""
    after = subject.transactions(name)
    after.begin()
    after.produce([subject.record("seen")])
    after.mark("0-1")
    after.commit()
    after.close()
    assert subject.read(subject.topic) == [b"seen"]
    left_open.close()


def a_fenced_producer_commits_nothing(subject: Subject) -> None:
    name = _new_id()
    zombie = subject.transactions(name)
    zombie.begin()
    zombie.produce([subject.record("of the zombie")])
    zombie.mark("0-0")
    assert subject.marker(name) == ""
    with pytest.raises(UnknownOutcomeError):
        zombie.commit()
    assert subject.read(subject.topic) == []
    assert subject.marker(name) == ""
    zombie.close()


def a_fenced_producer_is_told_so(subject: Subject) -> None:
    name = _new_id()
    zombie = subject.transactions(name)
    zombie.begin()
    zombie.produce([subject.record("first")])
    zombie.mark("0-0")
    zombie.commit()
    assert subject.marker(name) == "0-0"
    with pytest.raises(FencedError):
        _write(zombie, subject.record("second"), "0-1")
    assert subject.read(subject.topic) == [b"first"]
    zombie.close()


def ids_do_not_fence_each_other(subject: Subject) -> None:
    one, other = subject.transactions(_new_id()), subject.transactions(_new_id())
    for transactions, value in ((one, "one"), (other, "other")):
        transactions.begin()
        transactions.produce([subject.record(value)])
        transactions.mark("0-0")
    other.commit()
    one.commit()
    assert subject.read(subject.topic) == [b"one", b"other"]
    one.close()
    other.close()


def readers_see_nothing_behind_an_open_transaction(subject: Subject) -> None:
    name = _new_id()
    open_one, other = subject.transactions(name), subject.transactions(_new_id())
    open_one.begin()
    open_one.produce([subject.record("open")])
    open_one.mark("0-0")  # an answer of the broker: it has what was produced before
    other.begin()
    other.produce([subject.record("behind", 0), subject.record("beside", 1)])
    other.mark("0-0")
    other.commit()
    assert subject.read(subject.topic) == [b"beside"]
    subject.marker(name)
    assert subject.read(subject.topic) == [b"behind", b"beside"]
    open_one.close()
    other.close()


def a_transaction_may_write_to_several_partitions(subject: Subject) -> None:
    transactions = subject.transactions(_new_id())
    transactions.begin()
    transactions.produce([subject.record("0", 0), subject.record("1", 1), subject.record("2", 0)])
    transactions.mark("0-0")
    transactions.commit()
    transactions.close()
    assert subject.read(subject.topic) == [b"0", b"2", b"1"]


def without_transactions_records_are_seen_when_they_are_flushed(subject: Subject) -> None:
    producer = subject.cluster.producer()
    producer.produce([subject.record("a"), subject.record("b", 1), subject.record("c")])
    producer.flush()
    assert subject.read(subject.topic) == [b"a", b"c", b"b"]
    producer.close()


def a_topic_tells_its_partitions(subject: Subject) -> None:
    assert subject.cluster.partitions(subject.topic) == 2


def a_topic_that_does_not_exist_is_refused(subject: Subject) -> None:
    with pytest.raises(FiresteelError, match="the topic 'nowhere' does not exist"):
        subject.cluster.partitions("nowhere")


CHECKS = [
    a_transaction_is_seen_with_its_marker_when_it_is_committed,
    a_new_id_has_no_marker,
    transactions_of_one_id_follow_each_other_and_replace_the_marker,
    initialising_aborts_what_another_producer_left_open,
    a_fenced_producer_commits_nothing,
    a_fenced_producer_is_told_so,
    ids_do_not_fence_each_other,
    readers_see_nothing_behind_an_open_transaction,
    a_transaction_may_write_to_several_partitions,
    without_transactions_records_are_seen_when_they_are_flushed,
    a_topic_tells_its_partitions,
    a_topic_that_does_not_exist_is_refused,
]
