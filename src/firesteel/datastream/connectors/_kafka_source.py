"""Building Kafka sources, with PyFlink's names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from typing import Any, Generic

from firesteel.common._type_variables import TypeVar
from firesteel.common.errors import InvalidArgumentError, WrongArgumentError, short_repr
from firesteel.common.serialization import DeserializationSchema
from firesteel.connectors.kafka.client_security import is_secret
from firesteel.connectors.kafka.source import KafkaPartitionsSource
from firesteel.connectors.kafka.source_client import check_client
from firesteel.connectors.kafka.source_offsets import KafkaOffsetResetStrategy, KafkaOffsetsInitializer
from firesteel.connectors.kafka.source_properties import SourceProperties
from firesteel.connectors.kafka.source_records import KafkaRecord, KafkaRecordDeserializationSchema
from firesteel.connectors.kafka.source_splits import KafkaTopicPartition
from firesteel.connectors.kafka.source_subscription import (
    PartitionSet,
    Subscription,
    TopicList,
    TopicPattern,
)
from firesteel.datastream._user_functions import wrong_argument

__all__ = [
    "KafkaOffsetResetStrategy",
    "KafkaOffsetsInitializer",
    "KafkaRecord",
    "KafkaRecordDeserializationSchema",
    "KafkaSource",
    "KafkaSourceBuilder",
    "KafkaTopicPartition",
]

T = TypeVar("T", covariant=True, default=Any)
E = TypeVar("E", default=Any)


class KafkaSource(KafkaPartitionsSource[T]):
    """Reads topics of Kafka."""

    @staticmethod
    def builder() -> KafkaSourceBuilder[Any]:
        """Begin to build a source."""
        return KafkaSourceBuilder()


class KafkaSourceBuilder(Generic[E]):
    """Builds a `KafkaSource`: brokers, topics and a deserializer are needed, all else has a default."""

    def __init__(self) -> None:
        self._properties: dict[str, str] = {}
        self._subscription: Subscription | None = None
        self._schema: KafkaRecordDeserializationSchema | None = None
        self._starting = KafkaOffsetsInitializer.earliest()
        self._stopping: KafkaOffsetsInitializer | None = None
        self._bounded = False

    def build(self) -> KafkaSource[E]:
        """Return the source; what cannot work is refused here, without asking the brokers."""
        if self._subscription is None:
            raise InvalidArgumentError(
                "a Kafka source needs something to read: call set_topics(), set_topic_pattern() or set_partitions()"
            )
        if self._schema is None:
            raise InvalidArgumentError(
                "a Kafka source needs a deserializer: call set_value_only_deserializer(SimpleStringSchema()), for example, or "
                "set_deserializer()"
            )
        properties = SourceProperties.of(self._properties, self._bounded)
        self._check_group(properties)
        check_client(properties)
        return KafkaSource(
            properties, self._subscription, self._schema, self._starting, self._stopping, self._bounded
        )

    def _check_group(self, properties: SourceProperties) -> None:
        for initializer in (self._starting, self._stopping):
            if initializer is not None and initializer.needs_group and properties.group is None:
                raise InvalidArgumentError(
                    "committed offsets are those of a group: call set_group_id() or set the property group.id"
                )
        if self._properties.get("commit.offsets.on.checkpoint") == "true" and properties.group is None:
            raise InvalidArgumentError(
                "offsets are committed for a group: call set_group_id(), or leave commit.offsets.on.checkpoint out"
            )

    # Where to read ------------------------------------------------------------------------------------

    def set_bootstrap_servers(self, bootstrap_servers: str) -> KafkaSourceBuilder[E]:
        """Name brokers to begin with: ``host:port``, several with commas between them."""
        return self.set_property("bootstrap.servers", bootstrap_servers)

    def set_group_id(self, group_id: str) -> KafkaSourceBuilder[E]:
        """Name the group whose offsets can be the start, and are committed for monitoring."""
        return self.set_property("group.id", group_id)

    def set_topics(self, *topics: str) -> KafkaSourceBuilder[E]:
        """Read all partitions of these topics."""
        if not topics or not all(isinstance(topic, str) and topic for topic in topics):
            raise wrong_argument("set_topics()", "names of topics", topics, "set_topics('orders', 'returns')")
        return self._subscribe(TopicList(tuple(dict.fromkeys(topics))))

    def set_topic_pattern(self, topic_pattern: str) -> KafkaSourceBuilder[E]:
        """Read all topics whose whole name matches a regular expression (Python's)."""
        try:
            re.compile(topic_pattern)
        except (re.error, TypeError) as error:
            raise InvalidArgumentError(
                f"set_topic_pattern() takes a regular expression, got {topic_pattern!r}: {error}"
            ) from error
        return self._subscribe(TopicPattern(topic_pattern))

    def set_partitions(self, partitions: Set[KafkaTopicPartition]) -> KafkaSourceBuilder[E]:
        """Read these partitions only."""
        chosen = (
            sorted(partitions) if all(isinstance(each, KafkaTopicPartition) for each in partitions) else []
        )
        if not chosen:
            raise wrong_argument("set_partitions()", "a set of KafkaTopicPartition", partitions)
        return self._subscribe(PartitionSet(tuple(chosen)))

    def _subscribe(self, subscription: Subscription) -> KafkaSourceBuilder[E]:
        if self._subscription is not None:
            raise InvalidArgumentError(
                f"a Kafka source reads one choice of topics, and {short_repr(self._subscription)} is already chosen; call one of "
                "set_topics(), set_topic_pattern() and set_partitions(), once"
            )
        self._subscription = subscription
        return self

    # From where, and how far --------------------------------------------------------------------------

    def set_starting_offsets(
        self, starting_offsets_initializer: KafkaOffsetsInitializer
    ) -> KafkaSourceBuilder[E]:
        """Say where to begin; by default at the oldest record. A job that resumes continues where it was."""
        self._starting = _initializer("set_starting_offsets()", starting_offsets_initializer)
        return self

    def set_unbounded(self, stopping_offsets_initializer: KafkaOffsetsInitializer) -> KafkaSourceBuilder[E]:
        """Read no further than offsets; the job ends there only if it looks for no new partitions."""
        self._stopping = _initializer("set_unbounded()", stopping_offsets_initializer)
        self._bounded = False
        return self

    def set_bounded(self, stopping_offsets_initializer: KafkaOffsetsInitializer) -> KafkaSourceBuilder[E]:
        """End at offsets, which are asked for at the start; new partitions are not looked for."""
        self._stopping = _initializer("set_bounded()", stopping_offsets_initializer)
        self._bounded = True
        return self

    # Records ------------------------------------------------------------------------------------------

    def set_value_only_deserializer(
        self, deserialization_schema: DeserializationSchema
    ) -> KafkaSourceBuilder[E]:
        """Make records from the values of Kafka's records."""
        self._schema = KafkaRecordDeserializationSchema.value_only(deserialization_schema)
        return self

    def set_deserializer(self, deserializer: KafkaRecordDeserializationSchema) -> KafkaSourceBuilder[E]:
        """Make records from key, value, headers, timestamp and position of Kafka's records; not in PyFlink's builder."""
        if not isinstance(deserializer, KafkaRecordDeserializationSchema):
            remedy = (
                "use set_value_only_deserializer() for a schema of values"
                if isinstance(deserializer, DeserializationSchema)
                else ""
            )
            raise wrong_argument(
                "set_deserializer()", "a KafkaRecordDeserializationSchema", deserializer, remedy
            )
        self._schema = deserializer
        return self

    # Clients ------------------------------------------------------------------------------------------

    def set_client_id_prefix(self, prefix: str) -> KafkaSourceBuilder[E]:
        """Say how the names of the source's clients begin, which brokers show."""
        return self.set_property("client.id.prefix", prefix)

    def set_property(self, key: str, value: str) -> KafkaSourceBuilder[E]:
        """Set a property of the source or of its clients."""
        self._properties[_text(key, key)] = _text(key, value)
        return self

    def set_properties(self, props: Mapping[str, str]) -> KafkaSourceBuilder[E]:
        """Set properties of the source or of its clients; others that were set stay."""
        for key, value in props.items():
            self.set_property(key, value)
        return self


def _text(key: Any, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    shown = "a value" if is_secret(str(key)) else short_repr(value)
    raise WrongArgumentError(
        f"properties of Kafka are texts, got {shown} ({type(value).__name__}) for {short_repr(key)}"
    )


def _initializer(place: str, initializer: KafkaOffsetsInitializer) -> KafkaOffsetsInitializer:
    if not isinstance(initializer, KafkaOffsetsInitializer):
        remedy = "for example KafkaOffsetsInitializer.earliest()"
        raise wrong_argument(place, "a KafkaOffsetsInitializer", initializer, remedy)
    return initializer
