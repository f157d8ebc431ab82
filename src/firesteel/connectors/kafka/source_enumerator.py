"""Finds the partitions of the Kafka source, now and again, and says which reader reads which from where."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from firesteel.common._override import override
from firesteel.common.errors import JobExecutionError
from firesteel.connectors.kafka.source_client import Cluster
from firesteel.connectors.kafka.source_offsets import KafkaOffsetsInitializer
from firesteel.connectors.kafka.source_splits import KafkaSplit, KafkaTopicPartition, owner_of
from firesteel.connectors.kafka.source_subscription import Subscription
from firesteel.contracts.source import SplitEnumerator, SplitEnumeratorContext

__all__ = ["KafkaEnumerator", "KafkaEnumeratorState", "PartitionsAssigned"]

#: While looking does not work for the same reason, this is said so often.
WARNING_SECONDS = 60.0

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PartitionsAssigned:
    """Tells a reader that it has got all partitions that are its own so far; those without any need not be waited for."""


@dataclass(frozen=True, slots=True)
class KafkaEnumeratorState:
    """All partitions ever found, and the splits that no reader has yet. ``looked``: at least once."""

    known: frozenset[KafkaTopicPartition] = frozenset()
    unassigned: tuple[KafkaSplit, ...] = ()
    looked: bool = False


class KafkaEnumerator(SplitEnumerator):
    """Partitions that are there at the start begin where the user said; those that come later at their earliest record."""

    def __init__(
        self,
        context: SplitEnumeratorContext,
        cluster: Cluster,
        subscription: Subscription,
        starting: KafkaOffsetsInitializer,
        stopping: KafkaOffsetsInitializer | None,
        interval: float | None,
        state: KafkaEnumeratorState | None = None,
    ) -> None:
        state = KafkaEnumeratorState() if state is None else state
        self._context = context
        self._cluster = cluster
        self._subscription = subscription
        self._starting = starting
        self._stopping = stopping
        self._interval = interval
        self._known = state.known
        self._unassigned = list(state.unassigned)
        self._looked = state.looked
        self._trouble = ""
        self._warned_at = -math.inf

    @override
    def start(self) -> None:
        """Look for partitions; without an interval only once in the life of the job."""
        if self._interval is not None or not self._looked:
            self._context.call_async(self._look, self._on_found, 0.0, self._interval)

    def _look(self) -> list[KafkaSplit]:
        """The splits of partitions that are new; in another thread."""
        chosen = self._subscription.choose(self._cluster.topics())
        new = [each for each in dict.fromkeys(chosen) if each not in self._known]
        initializer = KafkaOffsetsInitializer.earliest() if self._looked else self._starting
        starts = initializer.resolve(new, self._cluster)
        stops = {} if self._stopping is None else self._stopping.resolve(new, self._cluster)
        return [KafkaSplit(each.topic, each.partition, starts[each], stops.get(each)) for each in new]

    def _on_found(self, splits: list[KafkaSplit] | None, error: Exception | None) -> None:
        if error is not None:
            self._could_not_look(error)
            return
        assert splits is not None
        if splits and self._looked:
            _LOG.info("the Kafka source reads new partitions: %s", [tuple(split.of) for split in splits])
        self._trouble = ""
        self._looked = True
        self._known |= {split.of for split in splits}
        self._unassigned += splits
        self._assign(self._context.registered_readers())

    def _could_not_look(self, error: Exception) -> None:
        """At the start this is the end; later, readers continue with what they have, and looking is tried again."""
        if not self._looked or not isinstance(error, JobExecutionError):
            raise error
        now = self._context.now()
        if str(error) != self._trouble or not 0 <= now - self._warned_at < WARNING_SECONDS:
            self._warned_at, self._trouble = now, str(error)
            _LOG.warning(
                "the Kafka source could not look for new partitions, and tries again in %g s: %s",
                self._interval,
                error,
            )

    def _assign(self, readers: Sequence[int]) -> None:
        """Hand splits to those of their readers that are there."""
        parallelism = self._context.current_parallelism()
        shares: dict[int, list[KafkaSplit]] = {}
        kept: list[KafkaSplit] = []
        for split in self._unassigned:
            owner = owner_of(split.of, parallelism)
            (shares.setdefault(owner, []) if owner in readers else kept).append(split)
        self._unassigned = kept
        if shares:
            self._context.assign_splits(shares)
        if self._looked:
            for reader in readers:
                self._context.send_event_to_source_reader(reader, PartitionsAssigned())
                if self._interval is None:
                    self._context.signal_no_more_splits(reader)

    @override
    def add_reader(self, subtask: int) -> None:
        """Hand it what it is to read."""
        self._assign([subtask])

    @override
    def handle_split_request(self, subtask: int) -> None:
        """Readers do not ask: partitions have their readers."""

    @override
    def add_splits_back(self, splits: Sequence[Any], subtask: int) -> None:
        """They wait for their reader's return."""
        self._unassigned += splits

    @override
    def snapshot_state(self, checkpoint_id: int) -> KafkaEnumeratorState:
        return KafkaEnumeratorState(self._known, tuple(self._unassigned), self._looked)

    @override
    def close(self) -> None:
        self._cluster.close()
