"""A sink that writes batches, at least once: with retries, and everything written before a checkpoint is taken.

Where the other system replaces a record by its key, writing a batch twice does what writing it once does, and so does the
sink.
"""

from __future__ import annotations

import logging
import math
import time
from abc import ABC, abstractmethod
from typing import Any, Generic

from firesteel.common._override import override
from firesteel.common.errors import InvalidArgumentError
from firesteel.connectors.backoff import Backoff, drop, retries_exhausted
from firesteel.contracts.sink import IN, Sink, SinkContext, SinkFunction, SinkWriter

_LOG = logging.getLogger(__name__)


class RetryError(Exception):
    """Raised by a `BatchClient`: a batch may be taken later; ``after`` is when the other side wants to be asked, in seconds.

    ``left`` is what is to be written again, if a part of the batch was taken.
    """

    def __init__(self, reason: str, after: float | None = None, left: list[Any] | None = None) -> None:
        super().__init__(reason)
        self.after = after
        self.left = left


class BatchClient(ABC, Generic[IN]):
    """A connection that takes batches; used by the task's only thread."""

    @abstractmethod
    def write_batch(self, batch: list[Any]) -> None:
        """Write all of them; returns when they are safe. `RetryError`, and errors in ``retry_on``, are tried again."""

    def close(self) -> None:
        """Called once, also after errors."""


class BatchingSink(Sink[IN]):
    """Collects records and writes them through a `BatchClient`: when there are enough, when they are old, at checkpoints.

    ``batch_size`` records, or ``linger`` seconds, whatever comes first. After an error of the connection (``retry_on``)
    the client is closed, and the batch is tried with a new one.
    """

    batch_size: int = 500
    linger: float = 1.0
    retry_on: tuple[type[Exception], ...] = (ConnectionError, TimeoutError)
    backoff: Backoff = Backoff()

    def describe(self) -> str:
        """What it does, for errors: "writing ..." and where to."""
        return f"writing with {type(self).__name__}"

    @abstractmethod
    def connect(self, context: SinkContext) -> BatchClient[IN]:
        """A new connection: the first one, and another after an error of ``retry_on``."""

    @override
    def create_writer(self, context: SinkContext) -> SinkWriter[IN]:
        """The writer of one subtask; it connects at once, so that a wrong address or password is told early."""
        if self.batch_size < 1:
            raise InvalidArgumentError(f"a batch has at least one record, got batch_size={self.batch_size}")
        return _BatchingWriter(self, context)


class _BatchingWriter(SinkWriter[Any]):
    def __init__(self, sink: BatchingSink[Any], context: SinkContext) -> None:
        self._sink = sink
        self._context = context
        self._batch: list[Any] = []
        self._write_at = math.inf
        self._client: BatchClient[Any] | None = None
        self._insist([])

    @override
    def write(self, value: Any, context: SinkFunction.Context) -> None:
        if not self._batch:
            self._write_at = self._context.now() + self._sink.linger
        self._batch.append(value)
        if len(self._batch) >= self._sink.batch_size:
            self.flush(False)

    @override
    def flush(self, end_of_input: bool) -> None:
        """Write what there is, and return when it is safe."""
        if self._batch:
            batch, self._batch, self._write_at = self._batch, [], math.inf
            self._insist(batch)

    @override
    def next_deadline(self) -> float:
        """When the oldest record has waited long enough."""
        return self._write_at

    @override
    def on_time(self, now: float) -> None:
        self.flush(False)

    @override
    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _insist(self, batch: list[Any]) -> None:
        """Write a batch, as often as it takes; an empty one only connects."""
        again: tuple[type[Exception], ...] = (RetryError, *self._sink.retry_on)
        tried = 0
        while True:
            try:
                self._try(batch)
                return
            except again as error:
                before, batch = len(batch), self._left(batch, error)
                tried = tried if len(batch) == before else 0  # it goes on, so it will end
                pause = self._pause(tried, error)
                if pause is None:
                    raise retries_exhausted(self._what(batch), error, tried + 1) from error
                _LOG.warning("%s: again in %.1f s, after %s", self._what(batch), pause, error)
                tried += 1
                time.sleep(pause)  # nothing else is to be done: what comes has to wait behind this batch

    def _what(self, batch: list[Any]) -> str:
        return f"{self._sink.describe()} ({len(batch)} records)"

    def _try(self, batch: list[Any]) -> None:
        if self._client is None:
            self._client = self._sink.connect(self._context)
        if batch:
            self._client.write_batch(batch)

    def _left(self, batch: list[Any], error: Exception) -> list[Any]:
        if isinstance(error, RetryError):
            return batch if error.left is None else error.left
        drop(self.close, self._sink.describe())
        return batch

    def _pause(self, tried: int, error: Exception) -> float | None:
        pause = self._sink.backoff.pause(tried)
        if pause is not None and isinstance(error, RetryError) and error.after is not None:
            return error.after
        return pause
