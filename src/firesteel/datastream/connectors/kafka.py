"""Kafka, at PyFlink's import path."""

from firesteel.datastream.connectors._kafka_consumer import FlinkKafkaConsumer, FlinkKafkaConsumerBase
from firesteel.datastream.connectors._kafka_sink import (
    FlinkFixedPartitioner,
    FlinkKafkaPartitioner,
    FlinkKafkaProducer,
    FlinkKafkaProducerBase,
    KafkaRecordSerializationSchema,
    KafkaRecordSerializationSchemaBuilder,
    KafkaSink,
    KafkaSinkBuilder,
    KafkaTopicSelector,
    RoundRobinPartitioner,
    Semantic,
)
from firesteel.datastream.connectors._kafka_source import (
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaRecord,
    KafkaRecordDeserializationSchema,
    KafkaSource,
    KafkaSourceBuilder,
    KafkaTopicPartition,
)
from firesteel.datastream.connectors.base import DeliveryGuarantee

__all__ = [
    "DeliveryGuarantee",
    "FlinkFixedPartitioner",
    "FlinkKafkaConsumer",
    "FlinkKafkaConsumerBase",
    "FlinkKafkaPartitioner",
    "FlinkKafkaProducer",
    "FlinkKafkaProducerBase",
    "KafkaOffsetResetStrategy",
    "KafkaOffsetsInitializer",
    "KafkaRecord",
    "KafkaRecordDeserializationSchema",
    "KafkaRecordSerializationSchema",
    "KafkaRecordSerializationSchemaBuilder",
    "KafkaSink",
    "KafkaSinkBuilder",
    "KafkaSource",
    "KafkaSourceBuilder",
    "KafkaTopicPartition",
    "KafkaTopicSelector",
    "RoundRobinPartitioner",
    "Semantic",
]
