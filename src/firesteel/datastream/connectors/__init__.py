"""Connectors of the DataStream API, at PyFlink's import paths."""

from firesteel.datastream.connectors.base import DeliveryGuarantee, Sink, Source
from firesteel.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from firesteel.datastream.connectors.number_seq import NumberSequenceSource

__all__ = [
    "DataGeneratorSource",
    "DeliveryGuarantee",
    "NumberSequenceSource",
    "RateLimiterStrategy",
    "Sink",
    "Source",
]
