"""Flink's older Kafka consumer, on the same source."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

from firesteel.common._override import override
from firesteel.common.errors import InvalidArgumentError, short_repr
from firesteel.common.serialization import DeserializationSchema
from firesteel.common.typeinfo import TypeInformation
from firesteel.common.watermark_strategy import WatermarkStrategy
from firesteel.connectors.kafka.source_offsets import KafkaOffsetResetStrategy, KafkaOffsetsInitializer
from firesteel.contracts.source import Source, SourceFunctionOfSource
from firesteel.datastream.connectors._kafka_source import KafkaSource

__all__ = ["FlinkKafkaConsumer", "FlinkKafkaConsumerBase"]

_DISCOVERY = "flink.partition-discovery.interval-millis"


class FlinkKafkaConsumerBase(SourceFunctionOfSource[Any], ABC):
    """What consumers of all versions have."""

    def __init__(
        self, topics: list[str], schema: DeserializationSchema, properties: Mapping[str, str]
    ) -> None:
        self._topics = topics
        self._schema = schema
        self._properties = {str(key): value for key, value in properties.items()}
        self._starting: KafkaOffsetsInitializer | None = None
        self._strategy: WatermarkStrategy[Any] = WatermarkStrategy.no_watermarks()
        self.as_source()  # what is wrong is told now

    def set_commit_offsets_on_checkpoints(self, commit_on_checkpoints: bool) -> Self:
        """Choose whether the group's offsets are committed when a checkpoint is complete."""
        self._properties["commit.offsets.on.checkpoint"] = "true" if commit_on_checkpoints else "false"
        return self

    def set_start_from_earliest(self) -> Self:
        """Begin at the oldest records."""
        self._starting = KafkaOffsetsInitializer.earliest()
        return self

    def set_start_from_latest(self) -> Self:
        """Begin with what comes from now on."""
        self._starting = KafkaOffsetsInitializer.latest()
        return self

    def set_start_from_timestamp(self, startup_offsets_timestamp: int) -> Self:
        """Begin at a time in milliseconds."""
        self._starting = KafkaOffsetsInitializer.timestamp(startup_offsets_timestamp)
        return self

    def set_start_from_group_offsets(self) -> Self:
        """Begin at the group's offsets, which is the default; auto.offset.reset says where without them."""
        self._starting = None
        return self

    def disable_filter_restored_partitions_with_subscribed_topics(self) -> Self:
        """Go on with all partitions of a checkpoint, also of topics that are not asked for any more; always so here."""
        return self

    def assign_timestamps_and_watermarks(self, watermark_strategy: WatermarkStrategy[Any]) -> Self:
        """Have watermarks made for each partition."""
        self._strategy = watermark_strategy
        return self

    def get_produced_type(self) -> TypeInformation:
        """Return the declared type of the records."""
        return self._schema.get_produced_type()

    @override
    def watermark_strategy(self) -> WatermarkStrategy[Any]:
        return self._strategy

    @override
    def as_source(self) -> Source[Any]:
        """The source that does the work."""
        properties = {"partition.discovery.interval.ms": "-1", **self._properties}
        if _DISCOVERY in properties:
            properties["partition.discovery.interval.ms"] = properties.pop(_DISCOVERY)
        builder = KafkaSource.builder().set_topics(*self._topics).set_properties(properties)
        builder.set_value_only_deserializer(self._schema)
        starting = self._starting or self._group_offsets()
        return replace(builder.set_starting_offsets(starting).build(), ends_by_schema=True)

    def _group_offsets(self) -> KafkaOffsetsInitializer:
        reset = str(self._properties.get("auto.offset.reset", "latest")).upper()
        names = KafkaOffsetResetStrategy.__members__
        if reset not in names:
            raise InvalidArgumentError(
                f"the property auto.offset.reset is earliest, latest or none, got {reset.lower()!r}"
            )
        return KafkaOffsetsInitializer.committed_offsets(names[reset])


class FlinkKafkaConsumer(FlinkKafkaConsumerBase):
    """Reads topics, beginning at the offsets of a group."""

    def __init__(
        self,
        topics: str | list[str],
        deserialization_schema: DeserializationSchema,
        properties: Mapping[str, str],
    ) -> None:
        if not isinstance(properties, Mapping):
            raise InvalidArgumentError(
                f"FlinkKafkaConsumer takes its properties as a dict, got {short_repr(properties)}"
            )
        names = [topics] if isinstance(topics, str) else list(topics)
        super().__init__(names, deserialization_schema, properties)
