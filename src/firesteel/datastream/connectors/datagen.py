"""Generated records at a chosen rate (Java Flink has this source, PyFlink does not)."""

from firesteel.connectors.datagen import DataGeneratorSource
from firesteel.connectors.rate_limit import RateLimiterStrategy

__all__ = ["DataGeneratorSource", "RateLimiterStrategy"]
