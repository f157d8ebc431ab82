"""AsyncDataStream: slow calls for every record, many at a time."""

from __future__ import annotations

from typing import Any

from firesteel.common.time import Time
from firesteel.common.typeinfo import TypeInformation
from firesteel.contracts.async_retry import AsyncRetryStrategy
from firesteel.contracts.functions import AsyncFunction
from firesteel.datastream.not_yet import not_yet
from firesteel.datastream.stream import DataStream

__all__ = ["AsyncDataStream"]

_MISSING = "asynchronous functions are"


class AsyncDataStream:
    """Applies an `AsyncFunction` to a stream."""

    @staticmethod
    def unordered_wait(
        data_stream: DataStream,
        async_function: AsyncFunction[Any, Any],
        timeout: Time,
        capacity: int = 100,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Emit results as they come."""
        raise not_yet("AsyncDataStream.unordered_wait()", _MISSING)

    @staticmethod
    def unordered_wait_with_retry(
        data_stream: DataStream,
        async_function: AsyncFunction[Any, Any],
        timeout: Time,
        async_retry_strategy: AsyncRetryStrategy[Any],
        capacity: int = 100,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Emit results as they come; try failed calls again."""
        raise not_yet("AsyncDataStream.unordered_wait_with_retry()", _MISSING)

    @staticmethod
    def ordered_wait(
        data_stream: DataStream,
        async_function: AsyncFunction[Any, Any],
        timeout: Time,
        capacity: int = 100,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Emit results in the order of the records."""
        raise not_yet("AsyncDataStream.ordered_wait()", _MISSING)

    @staticmethod
    def ordered_wait_with_retry(
        data_stream: DataStream,
        async_function: AsyncFunction[Any, Any],
        timeout: Time,
        async_retry_strategy: AsyncRetryStrategy[Any],
        capacity: int = 100,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Emit results in the order of the records; try failed calls again."""
        raise not_yet("AsyncDataStream.ordered_wait_with_retry()", _MISSING)
