"""How records move from the subtasks of one operator to those of the next: a value of its own.

A distribution answers two questions that everything else derives from: which subtasks may send to
which (`channels`), and, in the router, which of them gets a given record.
"""

from __future__ import annotations

from dataclasses import dataclass

from firesteel.common._override import override
from firesteel.plan.shipped import Shipped


@dataclass(frozen=True, slots=True)
class EdgeDistribution:
    """Base: every sender may reach every receiver."""

    @property
    def label(self) -> str:
        """Flink's name for it, as plans show it."""
        return type(self).__name__.upper()

    def targets(self, sender: int, senders: int, receivers: int) -> range:
        """The receivers that subtask ``sender`` has a channel to."""
        return range(receivers)

    def sources(self, receiver: int, senders: int, receivers: int) -> list[int]:
        """The senders that subtask ``receiver`` has a channel from."""
        return [s for s in range(senders) if receiver in self.targets(s, senders, receivers)]


@dataclass(frozen=True, slots=True)
class Auto(EdgeDistribution):
    """Nothing asked for: becomes `Forward` between equal parallelisms and `Rebalance` otherwise."""


@dataclass(frozen=True, slots=True)
class Forward(EdgeDistribution):
    """Subtask i to subtask i."""

    @override
    def targets(self, sender: int, senders: int, receivers: int) -> range:
        """The one receiver with the same index."""
        return range(sender, sender + 1)


@dataclass(frozen=True, slots=True)
class Rebalance(EdgeDistribution):
    """Round robin over all receivers."""


@dataclass(frozen=True, slots=True)
class Rescale(EdgeDistribution):
    """Round robin over the receivers of the sender's own group; no channels between groups."""

    @override
    def targets(self, sender: int, senders: int, receivers: int) -> range:
        """The receivers of the sender's group."""
        if receivers >= senders:
            return range(sender * receivers // senders, (sender + 1) * receivers // senders)
        # Receiver r has the senders s with s * receivers // senders == r.
        target = sender * receivers // senders
        return range(target, target + 1)


@dataclass(frozen=True, slots=True)
class Shuffle(EdgeDistribution):
    """A random receiver for every record."""


@dataclass(frozen=True, slots=True)
class Broadcast(EdgeDistribution):
    """Every record to every receiver."""


@dataclass(frozen=True, slots=True)
class Global(EdgeDistribution):
    """Every record to the first receiver."""

    @override
    def targets(self, sender: int, senders: int, receivers: int) -> range:
        """All of them: data goes to the first only, but watermarks and barriers must reach every receiver."""
        return range(receivers)


@dataclass(frozen=True, slots=True)
class KeyGroups(EdgeDistribution):
    """By the key group of the record's key, so that equal keys meet at one subtask."""

    selector: Shipped

    @property
    @override
    def label(self) -> str:
        return "HASH"


@dataclass(frozen=True, slots=True)
class Custom(EdgeDistribution):
    """By a user's ``partition(key, n)`` on the user's key."""

    partitioner: Shipped
    selector: Shipped


def resolved(distribution: EdgeDistribution, senders: int, receivers: int) -> EdgeDistribution:
    """What `Auto` becomes between n senders and m receivers; any other distribution stays itself."""
    if not isinstance(distribution, Auto):
        return distribution
    return Forward() if senders == receivers else Rebalance()
