"""What the Kafka sink needs of a cluster: a protocol small enough to be simulated, and the errors that decide what it does.

`firesteel.connectors.kafka.sink_confluent` is the real one. The simulated one of the tests has the same semantics, which a
contract test that runs on both proves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

__all__ = [
    "ANY_PARTITION",
    "FencedError",
    "KafkaCluster",
    "OutgoingRecord",
    "Producer",
    "Transactions",
    "UnknownOutcomeError",
]

#: The client chooses, by the hash of the key as Java's does, or at random where there is no key.
ANY_PARTITION = -1


class OutgoingRecord(NamedTuple):
    """A record as Kafka has it. ``timestamp`` in milliseconds; 0 is the time at which it is written."""

    topic: str
    partition: int = ANY_PARTITION
    key: bytes | None = None
    value: bytes | None = None
    timestamp: int = 0
    headers: tuple[tuple[str, bytes | None], ...] = ()


class UnknownOutcomeError(Exception):
    """It did not work, or nobody knows whether it worked; after a new `Transactions.init` it can be found out."""


class FencedError(UnknownOutcomeError):
    """Another producer has initialised the same transactional id since."""


class Producer(Protocol):
    """Writes records that everybody sees at once. Errors that no other try will cure are raised with a sentence."""

    def produce(self, records: Sequence[OutgoingRecord]) -> None:
        """Send records, in their order; an error of an earlier one may be raised here."""

    def check(self) -> None:
        """Raise if something that was sent could not be delivered."""

    def flush(self) -> None:
        """Wait until everything is delivered; raise if something is not."""

    def close(self) -> None:
        """Give up what is still on its way."""


class Transactions(Protocol):
    """Transactions of one transactional id, and its *marker*: a text that is kept as an offset of a private group.

    After any error but those with a sentence, nothing is known of the transaction, and this object is of no more use.
    """

    def init(self) -> None:
        """Fence every other producer of the id; what the last one began is committed or aborted when this returns."""

    def marker(self) -> str:
        """The text that the last committed transaction with a marker has left; empty when there is none."""

    def begin(self) -> None:
        """Begin a transaction; none may be open."""

    def produce(self, records: Sequence[OutgoingRecord]) -> None:
        """Write records as part of the transaction, in their order."""

    def mark(self, text: str) -> None:
        """Replace the marker, as part of the transaction."""

    def commit(self) -> None:
        """Let everybody see the transaction, all of it."""

    def close(self) -> None:
        """Leave everything as it is; a transaction that is open is aborted by the next `init`, or by its time-out."""


class KafkaCluster(Protocol):
    """The brokers that a sink writes to, and what its tasks ask of them."""

    def partitions(self, topic: str) -> int:
        """How many partitions a topic has; a topic that does not exist, or nobody who answers, is an error with a sentence."""

    def producer(self) -> Producer:
        """A producer without transactions."""

    def transactions(self, transactional_id: str, marker_topic: str) -> Transactions:
        """Transactions of an id; the topic, which must exist, is the one that the offset of the marker is about."""

    def close(self) -> None:
        """End all connections that do not belong to a producer."""
