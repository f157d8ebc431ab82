"""Where records go: Flink's `SinkFunction`, called for every record."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from firesteel.contracts.functions import Function


class SinkFunction(Function):
    """A sink written in Python: ``invoke`` is called for every record, in order per channel."""

    class Context(ABC):
        """What a sink may ask about the record at hand."""

        @abstractmethod
        def timestamp(self) -> int | None:
            """Event time of the record in milliseconds, None when it has none."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """Time of the machine in milliseconds."""

        @abstractmethod
        def current_watermark(self) -> int:
            """Event time up to which the input is complete."""

    @abstractmethod
    def invoke(self, value: Any, context: SinkFunction.Context) -> None:
        """Write one record."""


class DiscardingSink(SinkFunction):
    """Takes everything and keeps nothing; for measuring and for jobs whose effect lies elsewhere."""

    def invoke(self, value: Any, context: SinkFunction.Context) -> None:
        """Forget the record."""
