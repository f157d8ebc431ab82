"""Whole numbers from start to end, divided among the subtasks."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from firesteel.common._override import override
from firesteel.common.errors import ProgramError
from firesteel.connectors.shares import share_of
from firesteel.contracts.source import Polled, Source, SourceReader, SourceReaderContext


class NumberSequenceSource(Source[int]):
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

    @override
    def splits_of(self, subtask: int, parallelism: int) -> list[range]:
        """A split is a range of numbers."""
        numbers = self.numbers_of(subtask, parallelism)
        return [numbers] if numbers else []

    @override
    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        """The reader of one subtask's share."""
        return _NumberReader()


class _NumberReader(SourceReader):
    gives_away = True

    def __init__(self) -> None:
        self._rest: deque[range] = deque()
        self._stopped = False

    @override
    def add_splits(self, splits: Sequence[range]) -> None:
        self._rest.extend(splits)

    @override
    def poll(self, limit: int) -> Polled:
        if self._stopped or not self._rest:
            return Polled([], ended=True)
        values = list(self._rest[0][:limit])
        self._rest[0] = self._rest[0][limit:]
        if not self._rest[0]:
            self._rest.popleft()
        return Polled(values, ended=not self._rest)

    @override
    def snapshot_state(self, checkpoint_id: int) -> list[range]:
        """The numbers that are left."""
        return list(self._rest)

    @override
    def stop(self) -> None:
        self._stopped = True
