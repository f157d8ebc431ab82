"""A sink whose records the test can look at afterwards; for jobs that run in this process."""

from __future__ import annotations

import uuid
from typing import Any

from firesteel.common._override import override
from firesteel.contracts.runtime_context import RuntimeContext
from firesteel.contracts.sink import SinkFunction

__all__ = ["CollectSink"]

# Sinks are pickled on their way to the tasks: the copies find the original's records by its id.
_RECORDS: dict[str, list[tuple[int, Any, int | None]]] = {}


class CollectSink(SinkFunction):
    """Keeps every record with the index of the subtask that wrote it and its timestamp.

    Works in the simulator only: on Spark the tasks run in other processes.
    """

    def __init__(self) -> None:
        self._id = uuid.uuid4().hex
        self._subtask = -1

    @property
    def values(self) -> list[Any]:
        """All records, in the order in which they were written."""
        return [value for _, value, _ in self._records]

    @property
    def timestamps(self) -> list[int | None]:
        """The records' timestamps, in the same order."""
        return [timestamp for _, _, timestamp in self._records]

    def values_of(self, subtask: int) -> list[Any]:
        """The records that one subtask wrote, in order."""
        return [value for writer, value, _ in self._records if writer == subtask]

    @property
    def _records(self) -> list[tuple[int, Any, int | None]]:
        return _RECORDS.setdefault(self._id, [])

    @override
    def open(self, runtime_context: RuntimeContext) -> None:
        """Learn which subtask this is."""
        self._subtask = runtime_context.get_index_of_this_subtask()

    @override
    def invoke(self, value: Any, context: SinkFunction.Context) -> None:
        self._records.append((self._subtask, value, context.timestamp()))
