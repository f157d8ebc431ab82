"""When a subtask takes its snapshot: the barriers of its channels, and what waits for them.

With aligned barriers (EXACTLY_ONCE) a channel that has delivered the barrier is *blocked*: what comes on it belongs
after the snapshot and waits until all other channels have delivered theirs. Without (AT_LEAST_ONCE) nothing
waits, and the state may contain records of the next checkpoint already.

A newer barrier ends the wait for an older one, as an abort by the job master does: somebody before this subtask
has given the older one up. Barriers of checkpoints that are over are ignored.
"""

from __future__ import annotations

from collections import deque

from firesteel.plan.state_handles import CheckpointOrder
from firesteel.runtime.payload_queue import PayloadQueue


class Alignment:
    """The barriers of one subtask's channels; a pure machine. Channels are numbered from 0."""

    def __init__(self, channels: int, exactly_once: bool) -> None:
        self._channels = channels
        self._exactly_once = exactly_once
        self._arrived: dict[int, set[int]] = {}  # checkpoint -> channels that delivered its barrier
        self._completed = 0  # the newest checkpoint of which all barriers have come
        self._aborted: set[int] = set()  # newer ones of which the barriers that still come are ignored
        self.blocked: set[int] = set()
        self.given_up: list[int] = []  # checkpoints that a newer one has overtaken; taken by the subtask

    def barrier(self, channel: int, order: CheckpointOrder) -> bool:
        """A channel has delivered a barrier; whether it was the last one, so that the snapshot is due now."""
        if order.id <= self._completed or order.id in self._aborted:
            return False
        if self._exactly_once:
            self._give_up_before(order.id)
        arrived = self._arrived.setdefault(order.id, set())
        arrived.add(channel)
        if len(arrived) < self._channels:
            if self._exactly_once:
                self.blocked.add(channel)
            return False
        self._give_up_before(order.id)
        del self._arrived[order.id]
        self._completed = order.id
        self._aborted = {aborted for aborted in self._aborted if aborted > order.id}
        self.blocked.clear()
        return True

    def abort(self, checkpoint_id: int) -> None:
        """The job master has given a checkpoint up."""
        if checkpoint_id > self._completed:
            self._aborted.add(checkpoint_id)
        if self._arrived.pop(checkpoint_id, None) is not None:
            self.blocked.clear()

    def _give_up_before(self, checkpoint_id: int) -> None:
        for older in [waiting for waiting in self._arrived if waiting < checkpoint_id]:
            del self._arrived[older]
            self.given_up.append(older)
            self.blocked.clear()


class WaitingInput:
    """Payloads that wait for an alignment to end, and those that came behind them.

    Payloads of blocked channels are kept. When the channels are free again they are read before anything new, a few
    at a time so that what they lead to can leave in between; meanwhile everything that arrives queues up
    behind them. A barrier among them may block channels once more: then only the others are read.
    """

    def __init__(self) -> None:
        self._blocked = PayloadQueue()
        self._due: deque[PayloadQueue] = deque()

    @property
    def is_due(self) -> bool:
        """Whether payloads that have waited are to be read before new ones."""
        return bool(self._due)

    def hold(self, payload: bytes | memoryview) -> None:
        """A payload of a blocked channel."""
        self._blocked.add(payload)

    def queue_up(self, payload: bytes | memoryview) -> None:
        """A payload that arrived while earlier ones are still to be read."""
        self._due[-1].add(payload)

    def release(self) -> None:
        """The channels are free: what waited comes before what is still to be read."""
        if len(self._blocked):
            self._due.appendleft(self._blocked)
            self._blocked = PayloadQueue()

    def take(self) -> bytes:
        """The next payload to read; `is_due` says whether there is one."""
        payload = self._due[0].take()
        if not len(self._due[0]):
            self._due.popleft()
        return payload

    def close(self) -> None:
        """Forget everything."""
        for queue in (self._blocked, *self._due):
            queue.close()
