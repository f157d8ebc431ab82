"""A real Kafka cluster for the sink, by confluent-kafka."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from firesteel.common._override import override
from firesteel.common.errors import InvalidArgumentError, ProgramError, SetupError
from firesteel.connectors.kafka.client_trouble import Trouble, refusal
from firesteel.connectors.kafka.sink_client import (
    KafkaCluster,
    OutgoingRecord,
    Producer,
    Transactions,
    UnknownOutcomeError,
)
from firesteel.connectors.kafka.sink_errors import DOES_NOT_EXIST, NO_ANSWER, NOT_READY, explained
from firesteel.connectors.kafka.sink_properties import SinkProperties

__all__ = ["ConfluentCluster"]

#: Java's client has these, and equal keys shall go to equal partitions whoever writes them.
_DEFAULTS = {"partitioner": "murmur2_random", "enable.idempotence": "true"}
#: When all brokers are down, librdkafka 2.16 forgets them ("rebootstrap") and with them the transaction coordinator: then calls
#: hang beyond their time-outs, and its threads spin. Without it, it finds them again (the tests with a broker that dies).
_KEEP_BROKERS = {"metadata.recovery.strategy": "none"}
#: What a consumer is told, too, of the properties of a producer: how to get into the cluster.
_OF_EVERY_CLIENT = (
    "bootstrap.", "security.", "sasl.", "ssl.", "enable.ssl.", "enable.sasl.", "client.", "socket.", "broker.",
    "reconnect.", "metadata.",
)  # fmt: skip
#: How long a topic may take to appear that the cluster makes when it is asked for.
_CREATION_SECONDS = 5.0
_POLL_SECONDS = 0.1
#: How long a question waits at first: only between questions the client tells that it is not let in. Then twice as long.
_FIRST_WAIT_SECONDS = 1.0
_MARKER_PARTITION = 0

#: What the client library says by itself; errors that matter are raised.
_client_log = logging.getLogger(f"{__name__}.client")


class ConfluentCluster(KafkaCluster):
    """The cluster that properties describe; connections are made when they are needed."""

    def __init__(self, properties: SinkProperties) -> None:
        self._properties = properties
        self._seconds = properties.max_block_ms / 1000
        self._asking: Any = None
        self._trouble = Trouble("sink", properties.servers)

    @override
    def partitions(self, topic: str) -> int:
        if self._asking is None:
            self._asking = self.client()
        deadline = time.monotonic() + min(self._seconds, _CREATION_SECONDS)
        while True:
            with _failing():
                known = self._ask_for(topic)
            if known.error is None and known.partitions:
                return len(known.partitions)
            if time.monotonic() > deadline or (known.error and known.error.code() not in DOES_NOT_EXIST):
                with _failing():
                    raise explained(known.error, self._properties, topic)
            self._asking.poll(_POLL_SECONDS)

    def _ask_for(self, topic: str) -> Any:
        """What brokers know of a topic; the client itself only waits for those who do not let it in."""
        deadline, wait = time.monotonic() + self._seconds, _FIRST_WAIT_SECONDS
        while True:
            try:
                left = max(_POLL_SECONDS, deadline - time.monotonic())
                metadata = self._asking.list_topics(topic, min(wait, left)).topics[topic]
                self._trouble.is_over()
                return metadata
            except KafkaException as error:
                self._asking.poll(0)  # has the client tell its troubles
                if self._trouble.refused:
                    raise SetupError(refusal(self._properties.servers, self._trouble.reason)) from error
                if error.args[0].code() not in NO_ANSWER or time.monotonic() >= deadline:
                    raise explained(error.args[0], self._properties, topic) from error
            wait *= 2

    @override
    def producer(self) -> Producer:
        return ConfluentProducer(self)

    @override
    def transactions(self, transactional_id: str, marker_topic: str) -> Transactions:
        return ConfluentTransactions(self, self._properties, transactional_id, marker_topic)

    @override
    def close(self) -> None:
        self._asking = None

    def client(self, **settings: Any) -> Any:
        """A producer of the client library."""
        config = {
            **_DEFAULTS,
            **_KEEP_BROKERS,
            **self._properties.given,
            **settings,
            "delivery.report.only.error": True,
        }
        if (
            self._properties.given.get("acks", "all") not in ("all", "-1")
            and "transactional.id" not in settings
        ):
            config.setdefault("enable.idempotence", "false")
            if "enable.idempotence" not in self._properties.given:
                config["enable.idempotence"] = "false"
        return self._made(confluent_kafka.Producer, config)

    def consumer(self, group: str) -> Any:
        """A consumer of the client library, which knows the offsets of a group; it takes only what consumers have."""
        shared = {
            key: value for key, value in self._properties.given.items() if key.startswith(_OF_EVERY_CLIENT)
        }
        settings = {"group.id": group, "enable.auto.commit": False, "isolation.level": "read_committed"}
        return self._made(confluent_kafka.Consumer, {**_KEEP_BROKERS, **shared, **settings})

    def _made(self, kind: Callable[..., Any], config: Mapping[str, Any]) -> Any:
        try:
            return kind({"error_cb": self._trouble.note, **config, "log_level": 2}, logger=_client_log)
        except KafkaException as error:
            reason: KafkaError = error.args[0]
            raise InvalidArgumentError(
                f"the Kafka client refuses a property: {reason.str()}; properties are those of librdkafka "
                "(its CONFIGURATION.md), most of which have the names of Java's client"
            ) from error
        except (ValueError, TypeError) as error:
            raise ProgramError(f"the Kafka client refuses a property: {error}") from error

    @property
    def seconds(self) -> float:
        """How long to wait for an answer."""
        return self._seconds

    @property
    def properties(self) -> SinkProperties:
        """What the program has set, checked and translated."""
        return self._properties


class _Sending:
    """What plain producers and transactions share: records on their way, and the first of them that did not arrive."""

    def __init__(self, client: Any, properties: SinkProperties) -> None:
        self._client = client
        self._properties = properties
        self._failed: tuple[Any, str] | None = None

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None and self._failed is None:
            self._failed = (error, message.topic())

    def send(self, records: Sequence[OutgoingRecord]) -> None:
        client, delivered = self._client, self._delivered
        produce = client.produce
        for record in records:
            topic, partition, key, value, timestamp, headers = record
            while True:
                try:
                    produce(
                        topic,
                        value,
                        key,
                        partition,
                        on_delivery=delivered,
                        timestamp=timestamp,
                        headers=list(headers) or None,
                    )
                    break
                except BufferError:  # the brokers are slower than we are
                    client.poll(_POLL_SECONDS)
                    self.check()
                except KafkaException as error:
                    raise explained(error.args[0], self._properties, topic, record) from error
        client.poll(0)
        self.check()

    def check(self) -> None:
        if self._failed is not None:
            error, topic = self._failed
            raise explained(error, self._properties, topic)


class ConfluentProducer(Producer):
    """Sends, without transactions."""

    def __init__(self, cluster: ConfluentCluster) -> None:
        self._client = cluster.client()
        self._sending = _Sending(self._client, cluster.properties)

    @override
    def produce(self, records: Sequence[OutgoingRecord]) -> None:
        with _failing():
            self._sending.send(records)

    @override
    def check(self) -> None:
        self._client.poll(0)
        with _failing():
            self._sending.check()

    @override
    def flush(self) -> None:
        """Every record is delivered or fails within delivery.timeout.ms, so this comes to an end."""
        while self._client.flush(_POLL_SECONDS):
            self.check()
        self.check()

    @override
    def close(self) -> None:
        self._client.purge()
        self._client.flush(_POLL_SECONDS)


class ConfluentTransactions(Transactions):
    """Transactions of one id; the group of its marker has the name of the id."""

    def __init__(
        self, cluster: ConfluentCluster, properties: SinkProperties, transactional_id: str, marker_topic: str
    ) -> None:
        self._cluster = cluster
        self._properties = properties
        self._id = transactional_id
        self._topic = marker_topic
        self._client = cluster.client(**{"transactional.id": transactional_id})
        self._sending = _Sending(self._client, properties)
        self._group: Any = None

    @override
    def init(self) -> None:
        self._call(self._client.init_transactions, self._cluster.seconds)

    @override
    def marker(self) -> str:
        consumer = self._cluster.consumer(self._id)
        try:
            partition = self._offset(consumer)
            self._group = consumer.consumer_group_metadata()
            return "" if partition.offset < 0 else partition.metadata or ""
        finally:
            consumer.close()

    def _offset(self, consumer: Any) -> Any:
        """Ask until the broker knows: groups move between brokers, and their topic is made with the first of them."""
        deadline = time.monotonic() + self._cluster.seconds
        while True:
            place = TopicPartition(self._topic, _MARKER_PARTITION)
            try:
                (partition,) = consumer.committed([place], self._cluster.seconds)
                error = partition.error
            except KafkaException as raised:
                error = raised.args[0]
            if error is None:
                return partition
            if error.code() not in NOT_READY or time.monotonic() > deadline:
                raise explained(error, self._properties, self._topic, transactional_id=self._id)
            consumer.poll(_POLL_SECONDS)

    @override
    def begin(self) -> None:
        self._call(self._client.begin_transaction)

    @override
    def produce(self, records: Sequence[OutgoingRecord]) -> None:
        self._sending.send(records)

    @override
    def mark(self, text: str) -> None:
        """The offset says how many ranges there are, so that it is one for whoever looks at the group."""
        place = TopicPartition(self._topic, _MARKER_PARTITION, text.count(",") + 1, text)
        self._call(self._client.send_offsets_to_transaction, [place], self._group, self._cluster.seconds)

    @override
    def commit(self) -> None:
        try:
            self._call(self._client.commit_transaction, self._cluster.seconds)
        except UnknownOutcomeError:
            with contextlib.suppress(KafkaException):  # a fatal error is raised by everything
                self._client.poll(0)
            self._sending.check()  # a record that never fits is the better reason
            raise
        self._sending.check()

    @override
    def close(self) -> None:
        """Without an attempt to abort: it would only wait for brokers that may be gone."""
        with contextlib.suppress(KafkaException):
            self._client.purge()
            self._client.poll(0)

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        with translated(self._properties, self._topic, self._id):
            return function(*arguments)


@contextlib.contextmanager
def translated(properties: SinkProperties, topic: str, transactional_id: str | None = None) -> Iterator[None]:
    """Errors of the client library become the sink's."""
    try:
        yield
    except KafkaException as error:
        raise explained(error.args[0], properties, topic, transactional_id=transactional_id) from error


@contextlib.contextmanager
def _failing() -> Iterator[None]:
    """Without transactions nobody can find out later what became of a record: the job goes back to its last checkpoint."""
    try:
        yield
    except UnknownOutcomeError as error:
        raise SetupError(str(error)) from error
