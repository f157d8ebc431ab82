"""What one operator's subtask has to get back to go on: its state tables and its timers, as plain data.

The unit of snapshots. It is addressed by table and key (`TableId` says where in an entry the key is), so that
a checkpoint can cut it by key group.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import cloudpickle

from firesteel.state.hashmap_backend import HashMapBackend, Table, TableId
from firesteel.state.operator_state import OperatorStateBackend

__all__ = ["OperatorSnapshot"]


@dataclass(frozen=True, slots=True)
class OperatorSnapshot:
    """A copy of state and timers at one moment; restoring copies again, so it can be used many times."""

    tables: dict[TableId, Table] = field(default_factory=dict)
    timers: dict[TableId, list[tuple[int, Any]]] = field(default_factory=dict)
    broadcast: dict[str, Table] = field(default_factory=dict)

    @classmethod
    def take(cls, keyed: HashMapBackend, operator: OperatorStateBackend | None = None) -> OperatorSnapshot:
        """Copy what there is now."""
        keyed.before_full_snapshot()
        timers = {timers_id: list(queue.entries()) for timers_id, queue in keyed.timers()}
        broadcast = {} if operator is None else operator.tables
        return cls(dict(keyed.tables()), timers, broadcast)._copied()

    def restore(self, keyed: HashMapBackend, operator: OperatorStateBackend | None = None) -> None:
        """Put a copy into a new subtask."""
        copy = self._copied()
        keyed.restore(copy.tables, copy.timers)
        if operator is not None:
            for name in operator.tables.keys() & copy.broadcast.keys():
                operator.tables[name].update(copy.broadcast[name])

    def _copied(self) -> OperatorSnapshot:
        # Pickled, as in a checkpoint: what cannot be pickled shows in the first test.
        copied: OperatorSnapshot = cloudpickle.loads(cloudpickle.dumps(self))
        return copied
