"""Whole numbers from start to end, divided among the subtasks."""

from __future__ import annotations

from firesteel.common.errors import ProgramError
from firesteel.connectors.shares import share_of
from firesteel.contracts.source import Polled, Source, SourceContext, SourceReader


class NumberSequenceSource(Source):
    """The numbers from ``start`` to ``end``, both included; each subtask emits a contiguous share in order.

    >>> source = NumberSequenceSource(1, 10)
    >>> source.numbers_of(subtask=1, parallelism=2)
    range(6, 11)
    """

    def __init__(self, start: int, end: int) -> None:
        if start > end:
            raise ProgramError(f"a number sequence needs start <= end, got start {start} and end {end}")
        self.start = start
        self.end = end

    def numbers_of(self, subtask: int, parallelism: int) -> range:
        """The share of one subtask."""
        share = share_of(self.end - self.start + 1, subtask, parallelism)
        return range(self.start + share.start, self.start + share.stop)

    def create_reader(self, context: SourceContext) -> SourceReader:
        """The reader of one subtask's share."""
        return _NumberReader(self.numbers_of(context.subtask, context.parallelism))


class _NumberReader(SourceReader):
    def __init__(self, numbers: range) -> None:
        self._rest = numbers

    def poll(self, limit: int) -> Polled:
        """The next numbers."""
        values = list(self._rest[:limit])
        self._rest = self._rest[limit:]
        return Polled(values, ended=not self._rest)

    def stop(self) -> None:
        """Leave out the rest."""
        self._rest = range(0)
