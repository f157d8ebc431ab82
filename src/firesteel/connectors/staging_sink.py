"""A sink for systems with transactions, exactly once: records are kept in the checkpoint and written when it is complete.

No transaction is open across a checkpoint, so none can time out. The records of a checkpoint are written in one transaction
together with a mark, the id of their batch. Whoever comes with the same batch again, after a failure that left open whether
it was written, or as a task that does not know yet that it has been replaced, finds the mark.
"""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic

from firesteel.common._override import override
from firesteel.connectors.backoff import Backoff, drop, insist, retries_exhausted
from firesteel.contracts.sink import IN, CommitRequest, Committer, Sink, SinkContext, SinkFunction, SinkWriter

#: How many records a batch has at the most; more of one checkpoint are several batches.
BATCH_RECORDS = 10_000
#: How often a batch is tried again, about a second after the last time.
RETRIES = 8


@dataclass(frozen=True, slots=True)
class StagedBatch:
    """Records of one subtask and one checkpoint; ``id`` is theirs alone."""

    id: str
    records: list[Any]


class StagedClient(ABC, Generic[IN]):
    """A connection that writes whole batches; used by the task's only thread."""

    @abstractmethod
    def write_once(self, batch: StagedBatch) -> None:
        """Write the records and the mark of the batch in one transaction; nothing, if the mark is already there."""

    def close(self) -> None:
        """Called once, also after errors."""


class StagingSink(Sink[IN]):
    """Keeps records in checkpoints, and writes them once through a `StagedClient`.

    They are in the memory of the task until the checkpoint, and in the checkpoint itself: intervals of seconds, not of hours.
    After errors of the connection (``retry_on``) a new client tries again, eight times, a second apart; then the task fails.
    At the start ``backoff`` says how often it is tried to connect.
    """

    retry_on: tuple[type[Exception], ...] = (ConnectionError, TimeoutError)
    backoff: Backoff = Backoff()

    def describe(self) -> str:
        """What it does, for errors: "writing ..." and where to."""
        return f"writing with {type(self).__name__}"

    @abstractmethod
    def connect(self, context: SinkContext) -> StagedClient[IN]:
        """A new connection: the first one, and another after an error of ``retry_on``."""

    @override
    def create_writer(self, context: SinkContext) -> SinkWriter[IN]:
        return _StagingWriter()

    @override
    def create_committer(self, context: SinkContext) -> Committer:
        """It connects at once, so that a wrong address or password is told early."""
        return _StagingCommitter(self, context)


class _StagingWriter(SinkWriter[Any]):
    def __init__(self) -> None:
        self._records: list[Any] = []

    @override
    def write(self, value: Any, context: SinkFunction.Context) -> None:
        self._records.append(value)

    @override
    def prepare_commit(self) -> list[StagedBatch]:
        """All that came since the last time; ids are new for every attempt, because its records may be others."""
        records, self._records = self._records, []
        return [
            StagedBatch(uuid.uuid4().hex, records[start : start + BATCH_RECORDS])
            for start in range(0, len(records), BATCH_RECORDS)
        ]


class _StagingCommitter(Committer):
    def __init__(self, sink: StagingSink[Any], context: SinkContext) -> None:
        self._sink = sink
        self._context = context
        self._client: StagedClient[Any] | None = insist(
            lambda: sink.connect(context), sink.retry_on, sink.backoff, sink.describe()
        )

    @override
    def commit(self, requests: Sequence[CommitRequest]) -> None:
        """Oldest first; after an error of the connection all that are left are tried later, so that order stays."""
        for number, request in enumerate(requests):
            try:
                self._write(request.get_committable())
            except self._sink.retry_on as error:
                drop(self.close, self._sink.describe())
                if request.get_number_of_retries() >= RETRIES:
                    raise retries_exhausted(self._sink.describe(), error, RETRIES + 1) from error
                for left in requests[number:]:
                    left.retry_later()
                return

    def _write(self, batch: StagedBatch) -> None:
        if self._client is None:
            self._client = self._sink.connect(self._context)
        self._client.write_once(batch)

    @override
    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()
