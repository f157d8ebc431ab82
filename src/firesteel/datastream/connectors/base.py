"""What all connectors share: the bases of sources and sinks, and what a sink promises about delivery."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from typing import Any

from firesteel.contracts.sink import Sink
from firesteel.contracts.source import Source

__all__ = ["DeliveryGuarantee", "Sink", "Source", "StreamTransformer", "SupportsPreprocessing"]


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
