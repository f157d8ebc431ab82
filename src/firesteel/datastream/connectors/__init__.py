"""Connectors of the DataStream API, at PyFlink's import paths."""

import importlib
from typing import TYPE_CHECKING

from firesteel.common._missing_modules import missing_name
from firesteel.datastream.connectors.base import DeliveryGuarantee, Sink, Source
from firesteel.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from firesteel.datastream.connectors.file_system import (
    BucketAssigner,
    FileEnumeratorProvider,
    FileSink,
    FileSource,
    FileSourceBuilder,
    FileSplitAssignerProvider,
    OutputFileConfig,
    RollingPolicy,
    StreamFormat,
    StreamingFileSink,
)
from firesteel.datastream.connectors.hybrid_source import HybridSource, HybridSourceBuilder
from firesteel.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcExecutionOptions, JdbcSink
from firesteel.datastream.connectors.kafka import (
    FlinkKafkaConsumer,
    FlinkKafkaProducer,
    KafkaOffsetsInitializer,
    KafkaSink,
    KafkaSource,
    Semantic,
)
from firesteel.datastream.connectors.number_seq import NumberSequenceSource

__all__ = [
    "BucketAssigner",
    "DataGeneratorSource",
    "DeliveryGuarantee",
    "FileEnumeratorProvider",
    "FileSink",
    "FileSource",
    "FileSourceBuilder",
    "FileSplitAssignerProvider",
    "FlinkKafkaConsumer",
    "FlinkKafkaProducer",
    "HybridSource",
    "HybridSourceBuilder",
    "JdbcConnectionOptions",
    "JdbcExecutionOptions",
    "JdbcSink",
    "KafkaOffsetsInitializer",
    "KafkaSink",
    "KafkaSource",
    "NumberSequenceSource",
    "OutputFileConfig",
    "RateLimiterStrategy",
    "RollingPolicy",
    "Semantic",
    "Sink",
    "Source",
    "StreamFormat",
    "StreamingFileSink",
]

if TYPE_CHECKING:
    from firesteel.datastream.connectors.rabbitmq import RMQConnectionConfig as RMQConnectionConfig
    from firesteel.datastream.connectors.rabbitmq import RMQSink as RMQSink
    from firesteel.datastream.connectors.rabbitmq import RMQSource as RMQSource
else:  # type checkers must still see which names do not exist
    _missing = missing_name(__name__, __name__)
    #: Their clients are extras, so they are imported when somebody asks for them; PyFlink has them here, too.
    _EXTRAS = dict.fromkeys(["RMQConnectionConfig", "RMQSink", "RMQSource"], "rabbitmq")

    def __getattr__(name):
        if name in _EXTRAS:
            return getattr(importlib.import_module(f"{__name__}.{_EXTRAS[name]}"), name)
        return _missing(name)
