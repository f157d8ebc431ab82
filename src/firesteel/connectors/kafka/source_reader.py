"""Reads the partitions of one subtask with one consumer, and tells how far it has come in each."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from firesteel.common._override import override
from firesteel.connectors.kafka.source_batches import Share, shares_of
from firesteel.connectors.kafka.source_client import Connect, to_client
from firesteel.connectors.kafka.source_commits import GroupOffsets
from firesteel.connectors.kafka.source_enumerator import PartitionsAssigned
from firesteel.connectors.kafka.source_errors import ReadErrors
from firesteel.connectors.kafka.source_fetcher import Fetcher
from firesteel.connectors.kafka.source_metrics import PartitionEnds, register_partition
from firesteel.connectors.kafka.source_offsets import KafkaOffsetResetStrategy
from firesteel.connectors.kafka.source_properties import SourceProperties
from firesteel.connectors.kafka.source_records import (
    KafkaRecordDeserializationSchema,
    decode_messages,
    timestamps_of,
)
from firesteel.connectors.kafka.source_splits import EARLIEST, KafkaSplit, KafkaTopicPartition
from firesteel.connectors.kafka.source_watch import PartitionWatch
from firesteel.contracts.source import Polled, SourceReader, SourceReaderContext
from firesteel.formats.decoding import Decoded

__all__ = ["KafkaReader"]


class KafkaReader(SourceReader):
    """Takes batches of the fetcher's thread apart by partition: each poll gives records of one of them."""

    def __init__(
        self,
        context: SourceReaderContext,
        properties: SourceProperties,
        connect: Connect,
        schema: KafkaRecordDeserializationSchema,
        reset: KafkaOffsetResetStrategy | None,
        is_end: Callable[[Any], bool] | None = None,
    ) -> None:
        self._schema = schema
        self._is_end = is_end
        # `decode_messages` has made values of the records. Then nobody but this function of the user sees them.
        self.gives_away = is_end is None
        self._errors = ReadErrors(properties.servers, reset)
        self._metrics = context.metric_group()
        self._group = GroupOffsets(properties.group, self._metrics) if properties.commits else None
        callbacks: dict[str, Callable[..., None]] = {"error_cb": self._errors.note}
        if self._group is not None:
            callbacks["on_commit"] = self._group.on_commit
        self._consumer = connect(properties.for_client(f"{context.subtask}"), callbacks)
        watch = PartitionWatch(properties.watch_seconds)
        self._fetcher = Fetcher(self._consumer, watch, context.wake, f"kafka-fetcher-{context.subtask}")
        self._ends = PartitionEnds(self._fetcher.call)
        self._measured: set[KafkaTopicPartition] = set()
        self._positions: dict[KafkaTopicPartition, int] = {}
        self._stops: dict[KafkaTopicPartition, int] = {}
        self._finished: dict[KafkaTopicPartition, int] = {}  # not to be read on, but for the group to know
        self._shares: deque[Share] = deque()
        self._added: tuple[KafkaTopicPartition, ...] = ()
        self._ended: list[KafkaTopicPartition] = []
        self._no_more = False
        self._tell_idle = False
        self._stopped = False

    @override
    def open(self) -> None:
        self._fetcher.start()

    # Splits -------------------------------------------------------------------------------------------

    @override
    def add_splits(self, splits: Sequence[KafkaSplit]) -> None:
        self._added += tuple(split.of for split in splits)
        readable = [split for split in splits if not self._is_empty(split)]
        self._ended += [split.of for split in splits if self._is_empty(split)]
        for split in readable:
            self._positions[split.of] = split.offset
            if split.stop is not None:
                self._stops[split.of] = split.stop
            self._measure(split.of)
        if readable:
            assigned = [to_client(split.of, split.offset) for split in readable]
            self._fetcher.call(lambda consumer: consumer.incremental_assign(assigned))

    @staticmethod
    def _is_empty(split: KafkaSplit) -> bool:
        return split.stop is not None and split.stop <= max(split.offset, 0)

    @override
    def notify_no_more_splits(self) -> None:
        self._no_more = True

    @override
    def handle_source_event(self, event: Any) -> None:
        """Without partitions there is nothing to wait for: event time goes on without this reader."""
        if isinstance(event, PartitionsAssigned) and not self._positions and not self._added:
            self._tell_idle = True

    def _end(self, partition: KafkaTopicPartition) -> None:
        """Nothing of this one is wanted any more."""
        self._finished[partition] = self._positions.pop(partition)
        self._stops.pop(partition, None)
        self._fetcher.call(lambda consumer: consumer.incremental_unassign([to_client(partition)]))

    # Metrics ------------------------------------------------------------------------------------------

    def _measure(self, partition: KafkaTopicPartition) -> None:
        if partition in self._measured:
            return
        self._measured.add(partition)
        committed = None if self._group is None else partial(self._group.confirmed, partition)
        position, lag = partial(self._position, partition), partial(self._lag, partition)
        register_partition(self._metrics, partition, position, committed, lag)

    def _position(self, partition: KafkaTopicPartition) -> int:
        return self._positions.get(partition, self._finished.get(partition, EARLIEST))

    def _lag(self, partition: KafkaTopicPartition) -> int | None:
        if partition not in self._positions:
            return 0
        return self._ends.behind(partition, self._positions[partition], self._stops.get(partition))

    @override
    def pending_records(self) -> int | None:
        """How many offsets there are up to the ends of the partitions; what is not known yet is left out."""
        self._ends.refresh()  # for the next time
        known = [lag for lag in map(self._lag, self._positions) if lag is not None]
        return None if self._positions and not known else sum(known)

    # Polling ------------------------------------------------------------------------------------------

    @override
    def poll(self, limit: int) -> Polled:
        """The next records of one partition."""
        if self._stopped:
            return Polled([], ended=True)
        if self._added or self._ended or self._tell_idle:
            return self._news()
        while not self._shares and self._take_batch():
            pass  # nothing of that batch is wanted; nobody says again that there is another one
        if self._shares:
            return self._next_records(limit)
        ended = self._no_more and not self._positions
        return Polled([], ended=ended, retry_at=math.inf)

    def _news(self) -> Polled:
        """What has changed about splits, before any records."""
        added, self._added = self._added, ()
        ended, self._ended = tuple(self._ended), []
        idle, self._tell_idle = self._tell_idle and not added, False
        return Polled([], splits_added=added, splits_ended=ended, idle=idle)

    def _take_batch(self) -> bool:
        """Take the next batch; False if there is none."""
        batch = self._fetcher.take()
        if batch is None:
            return False
        shares, failed = shares_of(batch)
        for message in failed:
            self._fail_or_reset(message)
        self._shares.extend(share for share in shares if share.partition in self._positions)
        return True

    def _fail_or_reset(self, message: Any) -> None:
        partition = self._errors.partition_to_reset(message)
        if partition in self._positions:
            self._fetcher.call(partial(self._errors.reset, partition=partition, offset=message.offset()))

    def _next_records(self, limit: int) -> Polled:
        share = self._shares[0]
        partition = share.partition
        messages = share.take(limit)
        stop = self._stops.get(partition)
        if stop is not None and messages and messages[-1].offset() >= stop:
            messages = [message for message in messages if message.offset() < stop]
        decoded, times = self._decode(messages) if messages else (Decoded([]), None)
        position = share.position
        self._positions[partition] = position
        if not share.left:
            self._shares.popleft()
        ended = stop is not None and position >= stop
        if stop is not None and ended:
            self._positions[partition] = stop
            self._end(partition)
            if share.left:
                self._shares.popleft()
        return Polled(
            decoded.values,
            times,
            split=partition,
            splits_ended=(partition,) if ended else (),
            bad=decoded.bad,
            ignored=decoded.ignored,
        )

    def _decode(self, messages: list[Any]) -> tuple[Decoded, list[int | None]]:
        decoded, times = decode_messages(self._schema, messages), timestamps_of(messages)
        if decoded.origins is not None:
            times = [times[number] for number in decoded.origins]
        if self._is_end is not None:
            for number, value in enumerate(decoded.values):
                if self._is_end(value):
                    self._stopped = True
                    return decoded._replace(values=decoded.values[:number]), times[:number]
        return decoded, times

    # Checkpoints --------------------------------------------------------------------------------------

    @override
    def snapshot_state(self, checkpoint_id: int) -> list[KafkaSplit]:
        if self._group is not None:
            self._group.remember(checkpoint_id, {**self._finished, **self._positions})
        return [
            KafkaSplit(partition.topic, partition.partition, offset, self._stops.get(partition))
            for partition, offset in self._positions.items()
        ]

    @override
    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Tell the group how far the job has come; for people and their tools, nobody here reads it."""
        if self._group is not None:
            self._fetcher.call(self._group.committing(checkpoint_id))

    @override
    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        if self._group is not None:
            self._group.forget(checkpoint_id)

    @override
    def stop(self) -> None:
        self._stopped = True

    @override
    def close(self) -> None:
        """End the thread, wait a little for what was committed, and disconnect."""
        self._fetcher.stop()
        if self._group is not None:
            self._group.wait(self._consumer)
        self._consumer.close()
