"""Kafka topics as a stream: the description that travels to the tasks; made by ``KafkaSource.builder()``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from firesteel.common._override import override
from firesteel.common._type_variables import TypeVar
from firesteel.common.typeinfo import TypeInformation
from firesteel.connectors.kafka.source_client import Cluster, Connect, connect
from firesteel.connectors.kafka.source_enumerator import KafkaEnumerator, KafkaEnumeratorState
from firesteel.connectors.kafka.source_offsets import KafkaOffsetsInitializer
from firesteel.connectors.kafka.source_properties import SourceProperties
from firesteel.connectors.kafka.source_reader import KafkaReader
from firesteel.connectors.kafka.source_records import KafkaRecordDeserializationSchema, end_of_stream
from firesteel.connectors.kafka.source_subscription import Subscription
from firesteel.contracts.source import (
    Boundedness,
    Source,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
)

__all__ = ["KafkaPartitionsSource"]

T = TypeVar("T", covariant=True, default=Any)


@dataclass(frozen=True)
class KafkaPartitionsSource(Source[T]):
    """Reads partitions from ``starting`` to ``stopping``; positions are kept in checkpoints, never in Kafka.

    ``ends_by_schema``: a reader ends with a record of which the schema says so, as the old consumer does.
    """

    properties: SourceProperties
    subscription: Subscription
    schema: KafkaRecordDeserializationSchema
    starting: KafkaOffsetsInitializer
    stopping: KafkaOffsetsInitializer | None = None
    bounded: bool = False
    ends_by_schema: bool = False
    connects: Connect = connect

    decodes = True

    @property
    @override
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED if self.bounded else Boundedness.CONTINUOUS_UNBOUNDED

    def get_produced_type(self) -> TypeInformation:
        """What the schema says."""
        return self.schema.get_produced_type()

    @override
    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        # What the property says wins over the initializer's strategy, which is about the start.
        reset = self.properties.reset or self.starting.reset
        is_end = end_of_stream(self.schema) if self.ends_by_schema else None
        return KafkaReader(context, self.properties, self.connects, self.schema, reset, is_end)

    @override
    def create_enumerator(self, context: SplitEnumeratorContext) -> SplitEnumerator:
        return self._enumerator(context, None)

    @override
    def restore_enumerator(
        self, context: SplitEnumeratorContext, state: KafkaEnumeratorState
    ) -> SplitEnumerator:
        return self._enumerator(context, state)

    def _enumerator(
        self, context: SplitEnumeratorContext, state: KafkaEnumeratorState | None
    ) -> SplitEnumerator:
        return KafkaEnumerator(
            context,
            Cluster(self.properties, self.connects),
            self.subscription,
            self.starting,
            self.stopping,
            self.properties.discovery_seconds,
            state,
        )
