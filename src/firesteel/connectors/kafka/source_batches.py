"""Takes a batch of messages apart by partition, in the order of each."""

from __future__ import annotations

from typing import Any

from firesteel.connectors.kafka.source_splits import KafkaTopicPartition

__all__ = ["Share", "shares_of"]

_END_OF_PARTITION = -191


class Share:
    """The messages of one partition in a batch, and how far behind them reading has come, where the client says so."""

    __slots__ = ("_behind", "_messages", "_taken", "partition", "position")

    def __init__(self, partition: KafkaTopicPartition) -> None:
        self.partition = partition
        self.position = 0  # the offset to resume at, after what was taken
        self._messages: list[Any] = []
        self._behind = 0
        self._taken = 0

    @property
    def left(self) -> bool:
        """Whether there is something to take."""
        return self._taken < len(self._messages)

    def take(self, limit: int) -> list[Any]:
        """The next messages, at most ``limit``."""
        if self._taken == 0 and len(self._messages) <= limit:
            taken = self._messages
        else:
            taken = self._messages[self._taken : self._taken + limit]
        self._taken += len(taken)
        if taken:
            self.position = taken[-1].offset() + 1
        if not self.left:
            # There are no records up to here: those of the log may be markers of transactions, or compacted away.
            self.position = max(self.position, self._behind)
        return taken


def shares_of(batch: list[Any]) -> tuple[list[Share], list[Any]]:
    """What each partition has in a batch, and the messages that are errors."""
    shares: dict[tuple[str, int], Share] = {}
    failed: list[Any] = []
    for message in batch:
        error = message.error()
        if error is not None and error.code() != _END_OF_PARTITION:
            failed.append(message)
            continue
        key = (message.topic(), message.partition())
        share = shares.get(key)
        if share is None:
            share = shares[key] = Share(KafkaTopicPartition(*key))
        if error is None:
            share._messages.append(message)
        else:
            share._behind = max(share._behind, message.offset())
    return list(shares.values()), failed
