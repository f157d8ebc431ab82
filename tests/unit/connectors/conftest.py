"""Driving readers by hand, with a clock that tests set."""

from __future__ import annotations

import pickle
import time
from typing import Any

import cloudpickle
import pytest

from firesteel.contracts.source import Polled, Source, SourceReader, SourceReaderContext


class Clock:
    """Jumps to where it is told."""

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class Drive:
    """One subtask's reader of a source that has travelled by pickle; ``splits`` are those of a checkpoint."""

    def __init__(
        self, source: Source, subtask: int = 0, parallelism: int = 1, splits: list[Any] | None = None
    ) -> None:
        self.clock = Clock()
        self.woken = 0
        context = SourceReaderContext(subtask, parallelism, self.clock, self._wake)
        copy = pickle.loads(cloudpickle.dumps(source))
        self.reader: SourceReader = copy.create_reader(context)
        self.reader.open()
        initial = copy.splits_of(subtask, parallelism)
        if splits is not None or initial is not None:
            self.reader.add_splits(initial if splits is None else splits)
            self.reader.notify_no_more_splits()

    def _wake(self) -> None:
        self.woken += 1

    def poll(self, limit: int = 1024) -> Polled:
        return self.reader.poll(limit)

    def batches(self, limit: int = 1024, patience: float = 300.0) -> list[list[Any]]:
        """All batches until the end; the clock jumps to the time that each poll asks for."""
        found: list[list[Any]] = []
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            polled = self.poll(limit)
            assert len(polled.values) <= limit
            if polled.values:
                found.append(polled.values)
            if polled.ended:
                self.reader.close()
                return found
            self.clock.now = max(self.clock.now, polled.retry_at)
        raise AssertionError(f"the source did not end within {patience} s; got {found!r}")

    def values(self, limit: int = 1024) -> list[Any]:
        return [value for batch in self.batches(limit) for value in batch]


@pytest.fixture(scope="session")
def drive() -> type[Drive]:
    return Drive
