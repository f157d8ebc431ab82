"""Kafka as a sink, under PyFlink's names: `KafkaSink`, its record serializer, and the older `FlinkKafkaProducer`."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from firesteel.common._override import override
from firesteel.common.errors import InvalidArgumentError, ProgramError, UnsupportedOperationError
from firesteel.common.serialization import SerializationSchema
from firesteel.connectors.kafka.sink import Delivery, KafkaRecordSink
from firesteel.connectors.kafka.sink_partitioners import (
    CallablePartitioner,
    FlinkFixedPartitioner,
    FlinkKafkaPartitioner,
    RoundRobinPartitioner,
)
from firesteel.connectors.kafka.sink_properties import SinkProperties, check_client
from firesteel.connectors.kafka.sink_records import RecordForm
from firesteel.datastream._user_functions import wrong_argument
from firesteel.datastream.connectors.base import DeliveryGuarantee, StreamTransformer, SupportsPreprocessing

__all__ = [
    "FlinkFixedPartitioner",
    "FlinkKafkaPartitioner",
    "FlinkKafkaProducer",
    "FlinkKafkaProducerBase",
    "KafkaRecordSerializationSchema",
    "KafkaRecordSerializationSchemaBuilder",
    "KafkaSink",
    "KafkaSinkBuilder",
    "KafkaTopicSelector",
    "RoundRobinPartitioner",
    "Semantic",
]

#: Kafka's coordinators keep ids in memory and in records; Flink has the same bound.
_MAX_PREFIX_BYTES = 6400

_DELIVERIES = {
    DeliveryGuarantee.NONE: Delivery.NONE,
    DeliveryGuarantee.AT_LEAST_ONCE: Delivery.AT_LEAST_ONCE,
    DeliveryGuarantee.EXACTLY_ONCE: Delivery.EXACTLY_ONCE,
}


class KafkaTopicSelector(ABC):
    """Chooses the topic of each record."""

    @abstractmethod
    def apply(self, data: Any) -> str:
        """Return the name of the topic."""


class KafkaRecordSerializationSchema(SerializationSchema):
    """How records become records of Kafka; made by its `builder`."""

    def __init__(self, form: RecordForm) -> None:
        self._form = form

    @staticmethod
    def builder() -> KafkaRecordSerializationSchemaBuilder:
        """Begin to describe one."""
        return KafkaRecordSerializationSchemaBuilder()

    @override
    def serialize(self, value: Any) -> bytes | None:
        """Return the bytes of the value; the sink makes the rest of the record from the same description."""
        return self._form.value.serialize(value)


class KafkaRecordSerializationSchemaBuilder:
    """Describes a record: a topic and a value it must have. Methods without a counterpart in PyFlink say so."""

    def __init__(self) -> None:
        self._topic: str | Callable[[Any], str] | None = None
        self._key: SerializationSchema | None = None
        self._value: SerializationSchema | None = None
        self._partitioner: FlinkKafkaPartitioner | None = None
        self._headers: Callable[[Any], Any] | None = None
        self._timestamp: Callable[[Any], int | None] | None = None

    def set_topic(self, topic: str) -> Self:
        """All records go to this topic."""
        if not isinstance(topic, str) or not topic:
            raise wrong_argument("set_topic()", "the name of a topic", topic)
        self._topic = topic
        return self

    def set_topic_selector(self, topic_selector: Callable[[Any], str] | KafkaTopicSelector) -> Self:
        """The topic of each record is what the selector returns for it."""
        if isinstance(topic_selector, KafkaTopicSelector):
            self._topic = topic_selector.apply
        elif callable(topic_selector):
            self._topic = topic_selector
        else:
            raise wrong_argument("set_topic_selector()", "a KafkaTopicSelector or a function", topic_selector)
        return self

    def set_key_serialization_schema(self, key_serialization_schema: SerializationSchema) -> Self:
        """Make the key of a record; without it, or where it gives None, there is no key."""
        self._key = _schema("set_key_serialization_schema()", key_serialization_schema)
        return self

    def set_value_serialization_schema(self, value_serialization_schema: SerializationSchema) -> Self:
        """Make the value of a record; None deletes the key in a compacted topic."""
        self._value = _schema("set_value_serialization_schema()", value_serialization_schema)
        return self

    def set_partitioner(self, partitioner: FlinkKafkaPartitioner | Callable[[Any, int], int]) -> Self:
        """Choose the partition of each record. Not in PyFlink.

        By `FlinkFixedPartitioner`, `RoundRobinPartitioner`, one of your own, or a function of the record and the number of
        partitions. Without it, it is the hash of the key, as in Java, or any if there is no key.
        """
        if isinstance(partitioner, FlinkKafkaPartitioner):
            self._partitioner = partitioner
        elif callable(partitioner) and not isinstance(partitioner, type):
            self._partitioner = CallablePartitioner(partitioner)
        else:
            raise wrong_argument(
                "set_partitioner()",
                "a FlinkKafkaPartitioner or a function",
                partitioner,
                "for example RoundRobinPartitioner()",
            )
        return self

    def set_header_provider(
        self, headers: Callable[[Any], Mapping[str, Any] | Sequence[tuple[str, Any]] | None]
    ) -> Self:
        """Headers of a record, by a function: a dict or pairs of a name and bytes, str or None. Not in PyFlink."""
        if not callable(headers):
            raise wrong_argument("set_header_provider()", "a function of the record", headers)
        self._headers = headers
        return self

    def set_timestamp(self, timestamp: Callable[[Any], int | None]) -> Self:
        """The timestamp of a record in milliseconds, by a function; without it, it is the event time. Not in PyFlink."""
        if not callable(timestamp):
            raise wrong_argument("set_timestamp()", "a function of the record", timestamp)
        self._timestamp = timestamp
        return self

    def build(self) -> KafkaRecordSerializationSchema:
        """Return the schema; a topic and a value must have been set."""
        if self._topic is None:
            raise ProgramError("a Kafka record needs a topic: call set_topic() or set_topic_selector()")
        if self._value is None:
            raise ProgramError("a Kafka record needs a value: call set_value_serialization_schema()")
        return KafkaRecordSerializationSchema(
            RecordForm(self._topic, self._value, self._key, self._partitioner, self._headers, self._timestamp)
        )


def _schema(place: str, schema: SerializationSchema) -> SerializationSchema:
    if not callable(getattr(schema, "serialize", None)):
        raise wrong_argument(place, "a SerializationSchema", schema, "for example SimpleStringSchema()")
    return schema


# The sink ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class KafkaSink(KafkaRecordSink, SupportsPreprocessing):
    """Writes a stream to topics of Kafka; made by its `builder`.

    With EXACTLY_ONCE, records are part of the checkpoint until it is complete and are written by one short transaction then:
    readers with ``isolation.level=read_committed`` see each of them once, and no transaction is ever open across a checkpoint.
    """

    @staticmethod
    def builder() -> KafkaSinkBuilder:
        """Begin to describe a sink."""
        return KafkaSinkBuilder()

    @override
    def get_transformer(self) -> StreamTransformer | None:
        """Return None: the topic of a record is chosen by the sink itself."""
        return None


class KafkaSinkBuilder:
    """Describes a `KafkaSink`: servers and a record serializer it must have."""

    def __init__(self) -> None:
        self._properties: dict[str, str] = {}
        self._delivery = Delivery.AT_LEAST_ONCE
        self._prefix = "kafka-sink"
        self._form: RecordForm | None = None

    def set_bootstrap_servers(self, bootstrap_servers: str) -> Self:
        """Where brokers are: ``host:port``, several with commas between them."""
        return self.set_property("bootstrap.servers", bootstrap_servers)

    def set_delivery_guarantee(self, delivery_guarantee: DeliveryGuarantee) -> Self:
        """What is promised when the job fails and recovers. The default is AT_LEAST_ONCE, where Flink's is NONE."""
        if not isinstance(delivery_guarantee, DeliveryGuarantee):
            raise wrong_argument("set_delivery_guarantee()", "a DeliveryGuarantee", delivery_guarantee)
        self._delivery = _DELIVERIES[delivery_guarantee]
        return self

    def set_transactional_id_prefix(self, transactional_id_prefix: str) -> Self:
        """How transactional ids and the groups of their markers begin, for EXACTLY_ONCE.

        Two jobs may have the same: what follows the prefix is unique. Access rules are given for prefixes.
        """
        if not isinstance(transactional_id_prefix, str) or not transactional_id_prefix:
            raise wrong_argument("set_transactional_id_prefix()", "a text", transactional_id_prefix)
        if len(transactional_id_prefix.encode()) > _MAX_PREFIX_BYTES:
            raise InvalidArgumentError(
                f"a transactional id prefix has at most {_MAX_PREFIX_BYTES} bytes, got {len(transactional_id_prefix.encode())}"
            )
        self._prefix = transactional_id_prefix
        return self

    def set_record_serializer(self, record_serializer: KafkaRecordSerializationSchema) -> Self:
        """How records become records of Kafka."""
        if not isinstance(record_serializer, KafkaRecordSerializationSchema):
            raise wrong_argument(
                "set_record_serializer()",
                "a KafkaRecordSerializationSchema",
                record_serializer,
                "make one with KafkaRecordSerializationSchema.builder()",
            )
        self._form = record_serializer._form
        return self

    def set_property(self, key: str, value: str) -> Self:
        """Set a property of the producer, by the name that Java's client or librdkafka has for it."""
        self._properties[key] = value
        return self

    def build(self) -> KafkaSink:
        """Return the sink; servers and a record serializer must have been set."""
        if not self._properties.get("bootstrap.servers"):
            raise ProgramError("a Kafka sink needs servers: call set_bootstrap_servers()")
        if self._form is None:
            raise ProgramError("a Kafka sink needs a record serializer: call set_record_serializer()")
        check_client()
        properties = SinkProperties.of(self._properties)
        return KafkaSink(properties, self._form, self._delivery, self._prefix)


# The older form ---------------------------------------------------------------------------------------


class Semantic(enum.Enum):
    """What `FlinkKafkaProducer` promises when the job fails and recovers."""

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1
    NONE = 2


@dataclass(frozen=True)
class FlinkKafkaProducerBase(KafkaRecordSink):
    """What producers of all versions have; settings change a copy of the description that ``add_sink`` gets."""

    def set_log_failures_only(self, log_failures_only: bool) -> Self:
        """Refuse to lose records with no more than a line in a log."""
        if log_failures_only:
            raise UnsupportedOperationError(
                "set_log_failures_only(True): records that could not be written would be lost; the job fails and goes back "
                "to its last checkpoint instead"
            )
        return self

    def set_flush_on_checkpoint(self, flush_on_checkpoint: bool) -> Self:
        """Whether a checkpoint waits until what was sent is delivered; without it nothing is promised."""
        if self.delivery is not Delivery.EXACTLY_ONCE:
            delivery = Delivery.AT_LEAST_ONCE if flush_on_checkpoint else Delivery.NONE
            object.__setattr__(self, "delivery", delivery)
        return self

    def set_write_timestamp_to_kafka(self, write_timestamp_to_kafka: bool) -> Self:
        """Whether the event time of a record becomes its timestamp; else it is the time of writing."""
        object.__setattr__(self, "form", replace(self.form, event_time=write_timestamp_to_kafka))
        return self


class FlinkKafkaProducer(FlinkKafkaProducerBase):
    """The older form of `KafkaSink`: one topic, values only, each subtask writes to one partition."""

    def __init__(
        self,
        topic: str,
        serialization_schema: SerializationSchema,
        producer_config: Mapping[str, str],
        kafka_producer_pool_size: int = 5,
        semantic: Semantic = Semantic.AT_LEAST_ONCE,
    ) -> None:
        if not isinstance(semantic, Semantic):
            raise wrong_argument("FlinkKafkaProducer()", "a Semantic", semantic)
        if not producer_config.get("bootstrap.servers"):
            raise ProgramError("FlinkKafkaProducer needs the property 'bootstrap.servers'")
        check_client()
        schema = _schema("FlinkKafkaProducer()", serialization_schema)
        form = RecordForm(topic, schema, partitioner=FlinkFixedPartitioner(), event_time=False)
        super().__init__(
            SinkProperties.of(producer_config), form, Delivery[semantic.name], f"flink-kafka-producer-{topic}"
        )

    def ignore_failures_after_transaction_timeout(self) -> Self:
        """Nothing to ignore: no transaction is open while a job is down, so none can time out."""
        return self
