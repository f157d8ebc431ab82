"""What one operator's subtask needs to resume, as the blocks of a checkpoint: for harnesses in tests."""

from __future__ import annotations

from dataclasses import dataclass

from firesteel.plan.state_handles import StateMeta
from firesteel.state.keyed_backend import KeyedBackend
from firesteel.state.operator_state import OperatorStateBackend

__all__ = ["OperatorSnapshot"]

_NO_CHECKPOINT = 0  # their numbers begin with 1


@dataclass(frozen=True, slots=True)
class OperatorSnapshot:
    """State and timers at one moment, serialised as in a checkpoint; can be used many times."""

    keyed: tuple[bytes, ...] = ()
    lists: tuple[bytes, ...] = ()
    states: tuple[StateMeta, ...] = ()

    @classmethod
    def of(cls, keyed: KeyedBackend, operator: OperatorStateBackend | None = None) -> OperatorSnapshot:
        """Serialise what there is now."""
        snapshot = keyed.begin_snapshot(_NO_CHECKPOINT, full=True)
        blocks: list[bytes] = []
        while not snapshot.done:
            blocks += snapshot.step()
        keyed.discard(_NO_CHECKPOINT)
        lists = () if operator is None else tuple(operator.snapshot())
        states = () if operator is None else operator.metas()
        return cls(tuple(blocks), lists, (*keyed.metas(), *states))

    def restore(self, keyed: KeyedBackend, operator: OperatorStateBackend | None = None) -> None:
        """Put it into a new subtask, before its operator is opened."""
        keyed.expect(self.states)
        for block in self.keyed:
            keyed.restore_block(block)
        if operator is not None:
            operator.restore([self.lists], 0, 1)
            operator.expect(self.states)
