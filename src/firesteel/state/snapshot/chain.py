"""Full snapshot or delta: remembers which checkpoint is the base and how much has piled up on it.

A delta holds what was touched since the last completed checkpoint, its base. Restoring reads the full snapshot and
every delta since, so after a number of deltas, or when they have outgrown the full one, the next one is full again.
"""

from __future__ import annotations

from dataclasses import dataclass

from firesteel.state.snapshot.keyed_snapshot import KeyedSnapshot

__all__ = ["MAX_DELTAS", "SnapshotChain"]

MAX_DELTAS = 16


@dataclass(frozen=True, slots=True)
class _Base:
    checkpoint_id: int
    deltas: int
    full_bytes: int
    delta_bytes: int


class SnapshotChain:
    """The snapshots that may become the base, and the one that is."""

    def __init__(self, incremental: bool, max_deltas: int = MAX_DELTAS) -> None:
        self._incremental = incremental
        self._max_deltas = max_deltas
        self._base: _Base | None = None
        self._pending: dict[int, tuple[KeyedSnapshot, _Base | None]] = {}

    @property
    def base(self) -> int | None:
        """The checkpoint that the next delta builds on, None when it has to be a full one."""
        base = self._base
        if base is None or base.deltas >= self._max_deltas or base.delta_bytes > base.full_bytes:
            return None
        return base.checkpoint_id

    @property
    def needs_changes(self) -> bool:
        """Whether some later delta may want to know what is touched now."""
        return self._incremental and (self._base is not None or bool(self._pending))

    def began(self, snapshot: KeyedSnapshot) -> None:
        """A snapshot begins whose checkpoint may be completed one day."""
        if self._incremental:
            self._pending[snapshot.checkpoint_id] = (snapshot, self._base)

    def checkpoint_completed(self, checkpoint_id: int) -> bool:
        """The checkpoint is the base from now on; False when it cannot be one."""
        pending = self._pending.pop(checkpoint_id, None)
        if pending is None:
            return False
        self._pending = {number: later for number, later in self._pending.items() if number > checkpoint_id}
        snapshot, base = pending
        if snapshot.is_full:
            self._base = _Base(checkpoint_id, 0, snapshot.bytes, 0)
        else:
            assert base is not None
            self._base = _Base(
                checkpoint_id, base.deltas + 1, base.full_bytes, base.delta_bytes + snapshot.bytes
            )
        return True

    def discard(self, checkpoint_id: int) -> None:
        """The checkpoint was aborted, or is a savepoint, on which nothing may build."""
        self._pending.pop(checkpoint_id, None)

    def reset(self) -> None:
        """No snapshot so far can be a base: the next one has to be full."""
        self._base = None
        self._pending.clear()
