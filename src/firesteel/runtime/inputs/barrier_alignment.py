"""When a subtask takes its snapshot: the barriers of its channels.

With aligned barriers (EXACTLY_ONCE) a channel that has delivered the barrier is *blocked*: what comes on it belongs
after the snapshot and waits until all other channels have delivered theirs. Without (AT_LEAST_ONCE) nothing
waits, and the state may contain records of the next checkpoint already.

A newer barrier ends the wait for an older one, as an abort by the job master does: somebody before this subtask
has declined the older one. Barriers of checkpoints that are over are ignored.
"""

from __future__ import annotations

from firesteel.plan.state_handles import CheckpointOrder

__all__ = ["BarrierAlignment"]


class BarrierAlignment:
    """The barriers of one subtask's channels; a pure machine. Channels are numbered from 0."""

    def __init__(self, channels: int, exactly_once: bool) -> None:
        self._channels = channels
        self._exactly_once = exactly_once
        self._arrived: dict[int, set[int]] = {}  # checkpoint -> channels that delivered its barrier
        self._completed = 0  # the newest checkpoint of which all barriers have come
        self._aborted: set[int] = set()  # newer ones of which the barriers that still come are ignored
        #: One and the same set all the time.
        self.blocked: set[int] = set()
        self._declined: list[int] = []

    def barrier(self, channel: int, order: CheckpointOrder) -> bool:
        """A channel has delivered a barrier; whether it was the last one, so that the snapshot is due now."""
        if order.id <= self._completed or order.id in self._aborted:
            return False
        if self._exactly_once:
            self._decline_before(order.id)
        arrived = self._arrived.setdefault(order.id, set())
        arrived.add(channel)
        if len(arrived) < self._channels:
            if self._exactly_once:
                self.blocked.add(channel)
            return False
        self._decline_before(order.id)
        del self._arrived[order.id]
        self._completed = order.id
        self._aborted = {aborted for aborted in self._aborted if aborted > order.id}
        self.blocked.clear()
        return True

    def abort(self, checkpoint_id: int) -> None:
        """The job master has aborted a checkpoint."""
        if checkpoint_id > self._completed:
            self._aborted.add(checkpoint_id)
        if self._arrived.pop(checkpoint_id, None) is not None:
            self.blocked.clear()

    def decline(self) -> None:
        """Too much waits: the checkpoint whose barriers are missing is over, and the channels are free."""
        for waiting in self._arrived:
            self._aborted.add(waiting)
            self._declined.append(waiting)
        self._arrived.clear()
        self.blocked.clear()

    def take_declined(self) -> list[int]:
        """The checkpoints that this subtask has declined since the last time."""
        declined, self._declined = self._declined, []
        return declined

    def _decline_before(self, checkpoint_id: int) -> None:
        for older in [waiting for waiting in self._arrived if waiting < checkpoint_id]:
            del self._arrived[older]
            self._declined.append(older)
            self.blocked.clear()
