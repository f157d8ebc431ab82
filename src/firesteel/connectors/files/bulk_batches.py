"""Hands the records of a file to its bulk writer in batches, if the writer accepts batches."""

from __future__ import annotations

from typing import Any

from firesteel.common._override import override
from firesteel.common.serialization import BulkWriter

#: How many records are kept back at most: enough for work per batch to be little work per record.
BATCH_RECORDS = 4096


def in_batches(writer: BulkWriter) -> BulkWriter:
    """The writer, behind a batch when it has an ``add_elements`` of its own.

    Others get every record as it comes, so that their errors come with the record.
    """
    if type(writer).add_elements is BulkWriter.add_elements:
        return writer
    return _InBatches(writer)


class _InBatches(BulkWriter):
    """Keeps records until there are enough, or the file ends."""

    def __init__(self, writer: BulkWriter) -> None:
        self._writer = writer
        self._batch: list[Any] = []

    @override
    def add_element(self, element: Any) -> None:
        self._batch.append(element)
        if len(self._batch) >= BATCH_RECORDS:
            self._hand_over()

    @override
    def flush(self) -> None:
        """Hand over everything, and write it."""
        self._hand_over()
        self._writer.flush()

    @override
    def finish(self) -> None:
        """Hand over everything, and end the file."""
        self._hand_over()
        self._writer.finish()

    def _hand_over(self) -> None:
        batch, self._batch = self._batch, []
        if batch:
            self._writer.add_elements(batch)
