"""A Python list as a bounded source: ``from_collection`` and ``from_elements``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from firesteel.common._override import override
from firesteel.common._values import private_batch
from firesteel.common.errors import ProgramError
from firesteel.contracts.source import Polled, Source, SourceReader, SourceReaderContext


class CollectionSource(Source[Any]):
    """Emits the values of a list, in order, by one subtask; with event times when they are given."""

    def __init__(self, values: Sequence[Any], timestamps: Sequence[int | None] | None = None) -> None:
        self.values = list(values)
        #: Whether nobody can change any of them: then tasks need not look at them again, record by record.
        self.are_constant = private_batch(self.values) is self.values
        self.timestamps = None if timestamps is None else list(timestamps)
        if self.timestamps is not None and len(self.timestamps) != len(self.values):
            raise ProgramError(
                f"a collection of {len(self.values)} values needs as many timestamps, got {len(self.timestamps)}"
            )

    @property
    @override
    def max_subtasks(self) -> int:
        """One: a list has an order, and several readers would lose it."""
        return 1

    @override
    def splits_of(self, subtask: int, parallelism: int) -> list[int]:
        """The only split is a position in the list."""
        return [0]

    @override
    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        """The reader of the only subtask."""
        return _CollectionReader(self.values, self.timestamps, self.are_constant)


class _CollectionReader(SourceReader):
    def __init__(self, values: list[Any], timestamps: list[int | None] | None, gives_away: bool) -> None:
        self.gives_away = gives_away
        self._values = values
        self._timestamps = timestamps
        self._position = self._end = len(values)

    @override
    def add_splits(self, splits: Sequence[int]) -> None:
        (self._position,) = splits

    @override
    def poll(self, limit: int) -> Polled:
        """The next slice of the list."""
        start, stop = self._position, min(self._position + limit, self._end)
        self._position = max(start, stop)
        timestamps = None if self._timestamps is None else self._timestamps[start:stop]
        return Polled(self._values[start:stop], timestamps, ended=stop >= self._end)

    @override
    def snapshot_state(self, checkpoint_id: int) -> list[int]:
        """The position, unless everything has been read."""
        return [self._position] if self._position < len(self._values) else []

    @override
    def stop(self) -> None:
        self._end = self._position
