"""The state of one vertex's subtask at a barrier, on its way into storage.

What is small - the list states of the operators - is serialised at the barrier itself. Keyed state is serialised in
slices, by `step`, while processing goes on; the backends see to it that it is the state of the barrier. The pieces are
taken by whoever writes them (`snapshot_writer`), and when the last one is durable its handles are left here:
the next delta builds on them once the checkpoint is confirmed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from firesteel.plan.state_handles import CheckpointOrder, OperatorHandle, Segment, StateMeta

if TYPE_CHECKING:
    from firesteel.state.snapshot.keyed_snapshot import KeyedSnapshot


@dataclass(slots=True)
class OperatorSection:
    """One operator's share. ``base`` are the segments that a delta builds on."""

    operator_id: str
    lists: list[bytes]
    keyed: KeyedSnapshot | None
    base: tuple[Segment, ...] = ()
    states: tuple[StateMeta, ...] = ()


@dataclass(frozen=True, slots=True)
class Piece:
    """A serialised block and where it belongs: an operator of the chain, its keyed state or its lists."""

    operator: int
    is_keyed: bool
    payload: bytes


class SubtaskSnapshot:
    """What one subtask writes for one checkpoint: a section for each operator of its chain."""

    def __init__(
        self,
        order: CheckpointOrder,
        vertex: int,
        subtask: int,
        sections: Sequence[OperatorSection],
        *,
        began: float,
        alignment_ms: float,
        pause_ms: float,
    ) -> None:
        self.order = order
        self.vertex = vertex
        self.subtask = subtask
        self.sections = sections
        self.began = began
        self.alignment_ms = alignment_ms
        self.pause_ms = pause_ms
        #: Why it cannot be completed: a value that cannot be serialised fails the checkpoint, not the job.
        self.failure: Exception | None = None
        #: Set by the writer when everything is durable.
        self.handles: tuple[OperatorHandle, ...] | None = None
        self._pieces = deque(
            Piece(index, False, payload)
            for index, section in enumerate(sections)
            for payload in section.lists
        )
        self._open = deque(index for index, section in enumerate(sections) if section.keyed is not None)

    @property
    def is_serialised(self) -> bool:
        """Whether `step` has nothing left to do."""
        return not self._open

    def step(self, entries: int) -> None:
        """Serialise some more entries."""
        if not self._open:
            return
        index = self._open[0]
        keyed = self.sections[index].keyed
        assert keyed is not None
        try:
            self._pieces.extend(Piece(index, True, payload) for payload in keyed.step(entries))
        except Exception as error:  # noqa: BLE001 - raised again by whoever writes the snapshot
            self.failure = error
            self._open.clear()
            return
        if keyed.done:
            self._open.popleft()

    def drain(self) -> list[Piece]:
        """The pieces since the last time; of one operator, those of one kind come in order."""
        pieces = list(self._pieces)
        self._pieces.clear()
        return pieces
