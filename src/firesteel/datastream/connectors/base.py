"""What all connectors share: the bases of sources and sinks, and what a sink promises about delivery.

Beyond PyFlink's, here is what a source or a sink written in Python is made of, with bases for clients that block, that use
asyncio, that acknowledge, that take batches, and that have transactions.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from typing import Any

from firesteel.connectors.acknowledging_source import AcknowledgingClient, AcknowledgingSource, Delivery
from firesteel.connectors.async_source import AsyncSource
from firesteel.connectors.backoff import Backoff
from firesteel.connectors.batching_sink import BatchClient, BatchingSink, RetryError
from firesteel.connectors.blocking_source import BlockingSource
from firesteel.connectors.hand_over import Fetched
from firesteel.connectors.staging_sink import StagedBatch, StagedClient, StagingSink
from firesteel.contracts.sink import CommitRequest, Committer, Sink, SinkContext, SinkWriter, at_record
from firesteel.contracts.source import (
    Boundedness,
    Polled,
    Source,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from firesteel.formats.decoding import Decoded, decode

__all__ = [
    "AcknowledgingClient",
    "AcknowledgingSource",
    "AsyncSource",
    "Backoff",
    "BatchClient",
    "BatchingSink",
    "BlockingSource",
    "Boundedness",
    "CommitRequest",
    "Committer",
    "Decoded",
    "Delivery",
    "DeliveryGuarantee",
    "Fetched",
    "Polled",
    "RetryError",
    "Sink",
    "SinkContext",
    "SinkWriter",
    "Source",
    "SourceReader",
    "SourceReaderContext",
    "SplitEnumerator",
    "SplitEnumeratorContext",
    "StagedBatch",
    "StagedClient",
    "StagingSink",
    "StreamTransformer",
    "SupportsPreprocessing",
    "at_record",
    "decode",
]


class DeliveryGuarantee(enum.Enum):
    """How often a record reaches the outside when the job fails and recovers."""

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1
    NONE = 2


class StreamTransformer(ABC):
    """A change of the stream, applied before it reaches a sink."""

    @abstractmethod
    def apply(self, ds: Any) -> Any:
        """Return the changed stream."""


class SupportsPreprocessing(ABC):
    """A sink that wants its stream changed first."""

    @abstractmethod
    def get_transformer(self) -> StreamTransformer | None:
        """Return the change, or None when there is none."""
