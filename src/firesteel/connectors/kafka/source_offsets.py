"""Where reading begins and ends: the offsets initializers of the Kafka source."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from firesteel.common._override import override
from firesteel.common.errors import InvalidArgumentError, JobExecutionError, WrongArgumentError, short_repr
from firesteel.connectors.kafka.source_splits import EARLIEST, KafkaTopicPartition

__all__ = ["KafkaOffsetResetStrategy", "KafkaOffsetsInitializer", "OffsetQueries"]

Offsets = dict[KafkaTopicPartition, int]


class KafkaOffsetResetStrategy(enum.Enum):
    """Where reading begins when there is no such offset."""

    LATEST = "latest"
    EARLIEST = "earliest"
    NONE = "none"


class OffsetQueries(Protocol):
    """What a cluster can be asked about offsets."""

    def end_offsets(self, partitions: Iterable[KafkaTopicPartition]) -> Offsets:
        """The offsets that the next records will have."""

    def offsets_at(self, partitions: Iterable[KafkaTopicPartition], timestamp: int) -> Offsets:
        """The first offsets at or after a time; the end where there is none."""

    def committed_offsets(self, partitions: Iterable[KafkaTopicPartition]) -> Offsets:
        """What the source's group has committed; partitions without are left out."""


class KafkaOffsetsInitializer:
    """Where the source begins, or ends, in each partition. A job that resumes continues where it was, whatever this says."""

    #: What the user chose for offsets that are not there; None: nothing, so that it is an error.
    reset: KafkaOffsetResetStrategy | None = None
    needs_group: bool = False

    def resolve(self, partitions: Iterable[KafkaTopicPartition], cluster: OffsetQueries) -> Offsets:
        """The offsets as numbers, `EARLIEST` for the oldest record."""
        raise NotImplementedError(f"{type(self).__name__} must have a method resolve")

    @staticmethod
    def committed_offsets(
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.NONE,
    ) -> KafkaOffsetsInitializer:
        """What the group has committed; where it has not, the strategy decides, and NONE is an error."""
        return _Committed(_checked(offset_reset_strategy))

    @staticmethod
    def timestamp(timestamp: int) -> KafkaOffsetsInitializer:
        """The first records at or after a time in milliseconds; where there is none, what comes from now on."""
        if not isinstance(timestamp, int) or timestamp < 0:
            raise InvalidArgumentError(
                f"KafkaOffsetsInitializer.timestamp() takes milliseconds since 1970, got {short_repr(timestamp)}"
            )
        return _Timestamp(timestamp)

    @staticmethod
    def earliest() -> KafkaOffsetsInitializer:
        """The oldest records that are there."""
        return _Earliest()

    @staticmethod
    def latest() -> KafkaOffsetsInitializer:
        """What comes from now on; as an end: what is there now."""
        return _Latest()

    @staticmethod
    def offsets(
        offsets: Mapping[KafkaTopicPartition, int],
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.EARLIEST,
    ) -> KafkaOffsetsInitializer:
        """These offsets; other partitions have what the group has committed, or else what the strategy says."""
        for partition, offset in offsets.items():
            if not isinstance(partition, KafkaTopicPartition) or not isinstance(offset, int) or offset < 0:
                raise InvalidArgumentError(
                    "KafkaOffsetsInitializer.offsets() takes a dict of KafkaTopicPartition and offset (0 or more), got "
                    f"{short_repr(partition)}: {short_repr(offset)}"
                )
        return _Given(dict(offsets), _checked(offset_reset_strategy))


@dataclass(frozen=True)
class _Earliest(KafkaOffsetsInitializer):
    @override
    def resolve(self, partitions: Iterable[KafkaTopicPartition], cluster: OffsetQueries) -> Offsets:
        return dict.fromkeys(partitions, EARLIEST)


@dataclass(frozen=True)
class _Latest(KafkaOffsetsInitializer):
    @override
    def resolve(self, partitions: Iterable[KafkaTopicPartition], cluster: OffsetQueries) -> Offsets:
        return cluster.end_offsets(partitions)


@dataclass(frozen=True)
class _Timestamp(KafkaOffsetsInitializer):
    at: int

    @override
    def resolve(self, partitions: Iterable[KafkaTopicPartition], cluster: OffsetQueries) -> Offsets:
        return cluster.offsets_at(partitions, self.at)


@dataclass(frozen=True)
class _Committed(KafkaOffsetsInitializer):
    strategy: KafkaOffsetResetStrategy
    needs_group: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "reset", _chosen(self.strategy))

    @override
    def resolve(self, partitions: Iterable[KafkaTopicPartition], cluster: OffsetQueries) -> Offsets:
        wanted = list(partitions)
        offsets = cluster.committed_offsets(wanted)
        return offsets | _reset([each for each in wanted if each not in offsets], self.strategy, cluster)


@dataclass(frozen=True)
class _Given(KafkaOffsetsInitializer):
    offsets_given: Mapping[KafkaTopicPartition, int] = field(hash=False)
    strategy: KafkaOffsetResetStrategy

    def __post_init__(self) -> None:
        object.__setattr__(self, "reset", _chosen(self.strategy))

    @override
    def resolve(self, partitions: Iterable[KafkaTopicPartition], cluster: OffsetQueries) -> Offsets:
        wanted = list(partitions)
        offsets = {each: self.offsets_given[each] for each in wanted if each in self.offsets_given}
        others = [each for each in wanted if each not in offsets]
        if others:
            offsets |= cluster.committed_offsets(others)
        return offsets | _reset([each for each in wanted if each not in offsets], self.strategy, cluster)


def _chosen(strategy: KafkaOffsetResetStrategy) -> KafkaOffsetResetStrategy | None:
    return None if strategy is KafkaOffsetResetStrategy.NONE else strategy


def _reset(
    partitions: list[KafkaTopicPartition], strategy: KafkaOffsetResetStrategy, cluster: OffsetQueries
) -> Offsets:
    if not partitions or strategy is KafkaOffsetResetStrategy.EARLIEST:
        return dict.fromkeys(partitions, EARLIEST)
    if strategy is KafkaOffsetResetStrategy.LATEST:
        return cluster.end_offsets(partitions)
    first = partitions[0]
    raise JobExecutionError(
        f"the group has committed no offset for partition {first.partition} of topic {first.topic!r}"
        f"{f' and {len(partitions) - 1} others' if len(partitions) > 1 else ''}, and the Kafka source is to begin at committed "
        "offsets only; commit some, or say where to begin without them: "
        "KafkaOffsetsInitializer.committed_offsets(KafkaOffsetResetStrategy.EARLIEST)"
    )


def _checked(strategy: KafkaOffsetResetStrategy) -> KafkaOffsetResetStrategy:
    if not isinstance(strategy, KafkaOffsetResetStrategy):
        raise WrongArgumentError(
            f"the offset reset strategy is a KafkaOffsetResetStrategy, got {short_repr(strategy)} ({type(strategy).__name__})"
        )
    return strategy
