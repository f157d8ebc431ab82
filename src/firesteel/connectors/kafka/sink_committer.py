"""Writes staged chunks once their checkpoint is complete, each exactly once, whoever does it and however often it is tried.

One rule makes it so: *a chunk is written only by a transaction of the transactional id of the writer that staged it, whose
marker was read after that id was initialised, and which replaces the marker.* Transactions of one id follow each
other, an initialisation comes between them and fences all who had initialised it before, so between the look at the marker
and the end of the transaction nobody else can have written the chunk. docs/decisions/0030 has the cases.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Sequence

from firesteel.common._override import override
from firesteel.common.errors import SetupError, StateError
from firesteel.connectors.kafka.sink_client import KafkaCluster, Transactions, UnknownOutcomeError
from firesteel.connectors.kafka.sink_staging import Chunk, marker_numbers, marker_text
from firesteel.connectors.number_ranges import Numbers
from firesteel.contracts.sink import CommitRequest, Committer

__all__ = ["TransactionCommitter"]

#: What one transaction writes at most, apart from its last chunk: it ends long before its time-out.
_TRANSACTION_BYTES = 32 << 20

#: How often it is tried to write what a checkpoint has brought, before the job restarts.
_TRIES = 3
_LOOK_SECONDS = 0.2

_LOG = logging.getLogger(__name__)


class _Session:
    """A transactional id that this committer has initialised, and the chunks of its writer that are known to be written."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions
        transactions.init()
        text = transactions.marker()
        self.is_marked = bool(text)
        self._written = marker_numbers(text)

    def has_written(self, chunk: Chunk) -> bool:
        return chunk.number in self._written

    def write(self, chunks: Sequence[Chunk]) -> None:
        """One transaction: the records, and the marker that says so."""
        written = Numbers([list(ends) for ends in self._written.ranges])
        self._transactions.begin()
        for chunk in chunks:
            self._transactions.produce(chunk.records())
            written.add(chunk.number)
        self._transactions.mark(marker_text(written))
        self._transactions.commit()
        self._written, self.is_marked = written, True

    def close(self) -> None:
        with contextlib.suppress(UnknownOutcomeError):
            self._transactions.close()


class TransactionCommitter(Committer):
    """One transaction per subtask and checkpoint; more of them where a checkpoint has very much.

    ``retention`` is for how many seconds the cluster keeps offsets of a group that nobody uses, ``patience`` for how many to
    wait for another subtask that has to write first.
    """

    def __init__(
        self, cluster: KafkaCluster, now: Callable[[], float], retention: float, patience: float = 60.0
    ) -> None:
        self._cluster = cluster
        self._now = now
        self._retention = retention
        self._patience = patience
        self._id: str | None = None
        self._session: _Session | None = None
        self._trouble = ""

    @override
    def commit(self, requests: Sequence[CommitRequest]) -> None:
        """Write the chunks of each writer in their order; what has an unknown outcome is looked at and tried again later.

        What a checkpoint has brought must be written before anything that follows it, so there is no later for that.
        """
        by_writer: dict[str, list[CommitRequest]] = {}
        for request in requests:
            by_writer.setdefault(_chunk(request).transactional_id, []).append(request)
        left = list(by_writer.values())
        while left and self._is_committed(sorted(left[0], key=lambda request: _chunk(request).number)):
            left.pop(0)
        for request in [request for of_one in left for request in of_one]:
            request.retry_later()

    def _is_committed(self, of_one: list[CommitRequest]) -> bool:
        """Commit the chunks of one writer; false if it has to be tried again."""
        first = _chunk(of_one[0])
        if not first.is_restored:
            return self._try(of_one)
        for _ in range(_TRIES):
            if self._comes_next(of_one) and self._try(of_one):
                return True
        raise SetupError(
            f"records of the checkpoint that the job resumes from could not be written to Kafka in {_TRIES} tries: "
            f"{self._trouble}"
        )

    def _try(self, of_one: list[CommitRequest]) -> bool:
        try:
            session = self._session_of(_chunk(of_one[0]))
            for group in _transactions(self._unwritten(session, of_one)):
                session.write([_chunk(request) for request in group])
            return True
        except UnknownOutcomeError as error:
            self._note(error)
            return False
        except BaseException:
            self._forget()
            raise

    def _note(self, error: UnknownOutcomeError) -> None:
        """After that nothing is known of the session, and its producer must not be used any more."""
        self._forget()
        self._trouble = str(error)
        _LOG.warning("a transaction on Kafka will be tried again: %s", error)

    def _comes_next(self, of_one: list[CommitRequest]) -> bool:
        """Wait until chunks of lower numbers are written, which may be in the hands of another subtask; false if they are not.

        Only looks: to initialise the id would disturb who writes them.
        """
        first = _chunk(of_one[0])
        if first.number == 0:
            return True
        transactions = self._cluster.transactions(first.transactional_id, first.marker_topic)
        try:
            waited = 0.0
            while not _covers(transactions.marker(), first.number):
                if waited >= self._patience:
                    self._trouble = f"their predecessors have no marker, an offset of the group {first.transactional_id!r}"
                    return False
                time.sleep(_LOOK_SECONDS)
                waited += _LOOK_SECONDS
            return True
        except UnknownOutcomeError as error:
            self._note(error)
            return False
        finally:
            with contextlib.suppress(UnknownOutcomeError):
                transactions.close()

    def _session_of(self, chunk: Chunk) -> _Session:
        """The session of the chunk's writer. Only one is open: a writer of this attempt is all there is, after the first commit."""
        if self._session is None or self._id != chunk.transactional_id:
            self._forget()
            transactions = self._cluster.transactions(chunk.transactional_id, chunk.marker_topic)
            try:
                self._session = _Session(transactions)
            except BaseException:
                with contextlib.suppress(UnknownOutcomeError):
                    transactions.close()
                raise
            self._id = chunk.transactional_id
        return self._session

    def _unwritten(self, session: _Session, requests: list[CommitRequest]) -> list[CommitRequest]:
        unwritten = []
        for request in requests:
            if session.has_written(_chunk(request)):
                request.signal_already_committed()
            else:
                if not session.is_marked:
                    self._check_age(_chunk(request))
                unwritten.append(request)
        return unwritten

    def _check_age(self, chunk: Chunk) -> None:
        """No marker at all: nothing was written, or the cluster has forgotten it."""
        age = self._now() - chunk.staged_at
        if age > self._retention:
            raise StateError(
                f"nobody knows whether records that were staged {age / 86400:.1f} days ago were written to Kafka: their "
                f"marker, an offset of the group {chunk.transactional_id!r}, is not there, and the cluster forgets offsets "
                f"after {self._retention / 86400:.1f} days (offsets.retention.minutes); if it keeps them longer, say so by "
                "set_property('firesteel.marker.retention.ms', ...); else look into the topic, and let the job continue without "
                "them by giving the sink another uid()"
            )

    def _forget(self) -> None:
        session, self._session, self._id = self._session, None, None
        if session is not None:
            session.close()

    @override
    def close(self) -> None:
        self._forget()


def _chunk(request: CommitRequest) -> Chunk:
    chunk: Chunk = request.get_committable()
    return chunk


def _covers(marker: str, number: int) -> bool:
    """Whether everything before a number is written."""
    ranges = marker_numbers(marker).ranges
    return bool(ranges) and ranges[0][0] == 0 and ranges[0][1] >= number - 1


def _transactions(unwritten: list[CommitRequest]) -> Iterator[list[CommitRequest]]:
    """What each transaction writes."""
    group: list[CommitRequest] = []
    size = 0
    for request in unwritten:
        group.append(request)
        size += _chunk(request).size
        if size >= _TRANSACTION_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group
