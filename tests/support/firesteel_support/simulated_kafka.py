"""A simulated Kafka cluster: transactions, producer epochs, offsets of groups, read_committed, and requests with unknown outcome.

It implements what the Kafka sink needs of a cluster (`firesteel.connectors.kafka.sink_client`). `firesteel_support.kafka_contract`
checks that it does what a real broker does. All clients share its state; each request is one step.

A request can time out. Then it was never received, or it was carried out and only the answer was lost, or it is still on its way
and arrives later, in the middle of something else. `deliver_late` lets the latter arrive.
"""

from __future__ import annotations

import contextlib
import itertools
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from firesteel.common._override import override
from firesteel.common.errors import ProgramError
from firesteel.connectors.kafka.sink_client import (
    ANY_PARTITION,
    FencedError,
    KafkaCluster,
    OutgoingRecord,
    Producer,
    Transactions,
    UnknownOutcomeError,
)

__all__ = ["Outcome", "SimulatedKafka"]


class Outcome:
    """What becomes of a request."""

    DONE = "done"
    NEVER_RECEIVED = "never received"
    ANSWER_LOST = "answer lost"
    LATE = "late"


@dataclass(eq=False)
class _Transaction:
    """``is_committed`` is None while it is open."""

    is_committed: bool | None = None
    marker: str | None = None
    has_records: bool = False


@dataclass(eq=False)
class _Coordinated:
    """What the transaction coordinator knows of an id."""

    epoch: int = -1
    open: _Transaction | None = None


@dataclass(eq=False)
class _Entry:
    record: OutgoingRecord
    transaction: _Transaction | None


_CLUSTERS: weakref.WeakValueDictionary[int, SimulatedKafka] = weakref.WeakValueDictionary()
_IDS = itertools.count()


@dataclass(eq=False)
class _Late:
    """A request that is still on its way."""

    carry_out: Callable[[], None]


@dataclass(eq=False)
class Mistakes:
    """Parts of the protocol that a planted mistake leaves out; a real cluster has none of them."""

    no_fencing: bool = False
    marker_outside: bool = False
    no_marker: bool = False


class SimulatedKafka(KafkaCluster):
    """The cluster. ``outcome`` is asked about every request, by its name; without it everything works."""

    def __init__(self, topics: dict[str, int]) -> None:
        self._id = next(_IDS)
        _CLUSTERS[self._id] = self
        self._topics = topics
        self._log: dict[tuple[str, int], list[_Entry]] = {
            (topic, partition): [] for topic, count in topics.items() for partition in range(count)
        }
        self.coordinated: dict[str, _Coordinated] = {}
        self.offsets: dict[str, str] = {}
        self.outcome: Callable[[str], str] = lambda _: Outcome.DONE
        #: What whoever made a request gets, if it is not its answer.
        self.failure: Callable[[str], BaseException] = _timed_out
        self.mistakes = Mistakes()
        self._late: list[_Late] = []
        self._round_robin = itertools.count()

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        """Sinks travel by pickle; the cluster is the same for all who know it."""
        return _recall, (self._id,)

    def __deepcopy__(self, memo: Any) -> SimulatedKafka:
        return self

    # What the sink uses ---------------------------------------------------------------------------------

    @override
    def partitions(self, topic: str) -> int:
        if topic not in self._topics:
            raise ProgramError(f"the topic {topic!r} does not exist")
        return self._topics[topic]

    @override
    def producer(self) -> Producer:
        return _PlainProducer(self)

    @override
    def transactions(self, transactional_id: str, marker_topic: str) -> Transactions:
        self.partitions(marker_topic)
        return _IdTransactions(self, transactional_id)

    @override
    def close(self) -> None:
        """Nothing is open."""

    # What readers see -----------------------------------------------------------------------------------

    def read(self, topic: str, committed: bool = True) -> list[OutgoingRecord]:
        """What a reader gets: with read_committed nothing of aborted transactions, and nothing behind an open one."""
        found = []
        for partition in range(self._topics[topic]):
            for entry in self._log[topic, partition]:
                transaction = entry.transaction
                if committed and transaction is not None:
                    if transaction.is_committed is None:
                        break
                    if not transaction.is_committed:
                        continue
                found.append(entry.record)
        return found

    # Requests -------------------------------------------------------------------------------------------

    def request(self, name: str, carry_out: Callable[[], Any]) -> Any:
        """One request and its answer."""
        outcome = self.outcome(name)
        if outcome == Outcome.DONE:
            return carry_out()
        if outcome == Outcome.LATE:
            self._late.append(_Late(carry_out))
        elif outcome == Outcome.ANSWER_LOST:
            carry_out()
        raise self.failure(name)

    def deliver_late(self, choose: Callable[[list[Any]], Any]) -> None:
        """One of the requests that are on their way arrives; nobody hears the answer."""
        if self._late:
            late = choose(self._late)
            self._late.remove(late)
            with contextlib.suppress(UnknownOutcomeError, ProgramError):
                late.carry_out()

    def time_out(self, choose: Callable[[list[Any]], Any]) -> None:
        """The coordinator gives up on a transaction that is open for long: the id gets a new epoch."""
        open_ones = [known for known in self.coordinated.values() if known.open is not None]
        if open_ones:
            known = choose(open_ones)
            self.end(known, committed=False)
            known.epoch += 1

    def append(self, record: OutgoingRecord, transaction: _Transaction | None) -> None:
        """Write a record."""
        partition = record.partition
        if partition == ANY_PARTITION:
            partition = (hash(record.key) if record.key else next(self._round_robin)) % self.partitions(
                record.topic
            )
        self._log[record.topic, partition].append(_Entry(record, transaction))

    def end(self, known: _Coordinated, committed: bool) -> None:
        """An open transaction is over, and its marker is the group's offset if it is committed."""
        assert known.open is not None
        known.open.is_committed = committed
        known.open = None


def _timed_out(request: str) -> BaseException:
    return UnknownOutcomeError(f"the request {request!r} timed out")


def _recall(cluster_id: int) -> SimulatedKafka:
    return _CLUSTERS[cluster_id]


class _PlainProducer(Producer):
    def __init__(self, cluster: SimulatedKafka) -> None:
        self._cluster = cluster
        self._failed: UnknownOutcomeError | None = None

    @override
    def produce(self, records: Sequence[OutgoingRecord]) -> None:
        for record in records:
            self._cluster.partitions(record.topic)
            try:
                self._cluster.request("produce", lambda record=record: self._cluster.append(record, None))  # type: ignore[misc]
            except UnknownOutcomeError as error:
                self._failed = self._failed or error

    @override
    def check(self) -> None:
        if self._failed is not None:
            raise self._failed

    @override
    def flush(self) -> None:
        self.check()

    @override
    def close(self) -> None:
        """Nothing is on its way that we would know of."""


@dataclass(eq=False)
class _IdTransactions(Transactions):
    cluster: SimulatedKafka
    transactional_id: str
    epoch: int = field(default=-1)

    @property
    def known(self) -> _Coordinated:
        return self.cluster.coordinated.setdefault(self.transactional_id, _Coordinated())

    @override
    def init(self) -> None:
        def carry_out() -> int:
            known = self.known
            if known.open is not None and not self.cluster.mistakes.no_fencing:
                self.cluster.end(known, committed=False)
            known.epoch += 1
            return known.epoch

        self.epoch = self.cluster.request("init", carry_out)

    @override
    def marker(self) -> str:
        found = self.cluster.request(
            "read the marker", lambda: self.cluster.offsets.get(self.transactional_id, "")
        )
        return str(found)

    @override
    def begin(self) -> None:
        """No request: a transaction begins with the first thing that is in it."""

    @override
    def produce(self, records: Sequence[OutgoingRecord]) -> None:
        """The requests of a producer are answered in their order; half of them may be carried out."""
        for record in records:
            self.cluster.partitions(record.topic)
            self.cluster.request(
                "produce",
                lambda record=record: self.cluster.append(record, self._transaction()),  # type: ignore[misc]
            )

    @override
    def mark(self, text: str) -> None:
        def carry_out() -> None:
            if self.cluster.mistakes.no_marker:
                return
            transaction = self._transaction()
            if self.cluster.mistakes.marker_outside:
                self.cluster.offsets[self.transactional_id] = text
            else:
                transaction.marker = text

        self.cluster.request("mark", carry_out)

    @override
    def commit(self) -> None:
        def carry_out() -> None:
            self._check_epoch()
            known = self.known
            if known.open is None:
                raise UnknownOutcomeError("there is no transaction to commit")
            marker = known.open.marker
            self.cluster.end(known, committed=True)
            if marker is not None:
                self.cluster.offsets[self.transactional_id] = marker

        self.cluster.request("commit", carry_out)

    @override
    def close(self) -> None:
        """The transaction stays open, as when a process dies."""

    def _transaction(self) -> _Transaction:
        self._check_epoch()
        known = self.known
        if known.open is None:
            known.open = _Transaction()
        return known.open

    def _check_epoch(self) -> None:
        if self.epoch != self.known.epoch and not self.cluster.mistakes.no_fencing:
            raise FencedError(f"{self.transactional_id!r} has epoch {self.known.epoch}, not {self.epoch}")
