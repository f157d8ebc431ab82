"""The Kafka sink: a description that makes writers and committers, by what was promised about delivery.

EXACTLY_ONCE without a transaction that is open across a checkpoint: the records of a checkpoint are staged with it, and
written by a short transaction when it is complete (docs/decisions/0030).
"""

from __future__ import annotations

import enum
import uuid
from dataclasses import dataclass, field
from typing import Any

from firesteel.common._override import override
from firesteel.connectors.kafka.sink_client import KafkaCluster
from firesteel.connectors.kafka.sink_committer import TransactionCommitter
from firesteel.connectors.kafka.sink_properties import SinkProperties, check_client
from firesteel.connectors.kafka.sink_records import RecordForm, Serializer
from firesteel.connectors.kafka.sink_staging import Staging
from firesteel.connectors.kafka.sink_writers import Partitions, SendingWriter, StagingWriter
from firesteel.contracts.sink import Committer, Sink, SinkContext, SinkWriter

__all__ = ["Delivery", "KafkaRecordSink"]


class Delivery(enum.Enum):
    """How often a record is written when the job fails and recovers."""

    NONE = "none"
    AT_LEAST_ONCE = "at least once"
    EXACTLY_ONCE = "exactly once"


@dataclass(frozen=True)
class KafkaRecordSink(Sink[Any]):
    """Writes records as ``form`` says. Made by the builders of the public API.

    ``cluster`` is another one than the properties say in simulations only.
    """

    properties: SinkProperties
    form: RecordForm
    delivery: Delivery = Delivery.AT_LEAST_ONCE
    transactional_id_prefix: str = "kafka-sink"
    cluster: KafkaCluster | None = field(default=None, repr=False)

    @override
    def create_writer(self, context: SinkContext) -> SinkWriter[Any]:
        """The writer of one subtask; says at once if the topic does not exist, or nobody answers."""
        cluster = self._cluster()
        partitions = Partitions(cluster, context.now)
        if isinstance(self.form.topic, str):
            partitions(self.form.topic)
        serializer = Serializer(self.form, context.subtask, context.parallelism, partitions)
        if self.delivery is not Delivery.EXACTLY_ONCE:
            return SendingWriter(cluster, serializer, context.now, self.delivery is Delivery.AT_LEAST_ONCE)
        staging = Staging(self._new_id(context), self.properties.staged_max_bytes)
        return StagingWriter(cluster, serializer, context.now, staging)

    def _new_id(self, context: SinkContext) -> str:
        """A transactional id that no other writer has ever had: chunks are known by it for ever."""
        return f"{self.transactional_id_prefix}-{context.subtask}-{uuid.uuid4().hex}"

    @override
    def create_committer(self, context: SinkContext) -> Committer | None:
        if self.delivery is not Delivery.EXACTLY_ONCE:
            return None
        retention, patience = self.properties.marker_retention_ms / 1000, self.properties.max_block_ms / 1000
        return TransactionCommitter(self._cluster(), context.now, retention, patience)

    def _cluster(self) -> KafkaCluster:
        if self.cluster is not None:
            return self.cluster
        check_client()
        from firesteel.connectors.kafka.sink_confluent import ConfluentCluster

        return ConfluentCluster(self.properties)
