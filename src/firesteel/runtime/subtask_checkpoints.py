"""A subtask's side of checkpoints: snapshots of its chain, their confirmation, and the way back.

The steps of a checkpoint, once its barrier has come on all channels (or, for a source, when the job master asks):

1. the operators emit what has to be before the barrier (`prepare_barrier`),
2. the barrier goes into every exchange behind the chain,
3. the operators bring their list states up to date (`snapshot`), and these are serialised,
4. the keyed backends freeze what is to be written; serialising that goes on between batches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from firesteel.common.errors import IncompatibleStateError
from firesteel.common.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from firesteel.common.typeinfo import Types
from firesteel.contracts.state import ListState, ListStateDescriptor
from firesteel.plan.job_plan import VertexPlan
from firesteel.plan.state_handles import CheckpointOrder, Segment, TaskRestore
from firesteel.runtime.operator_chain import OperatorSubtask
from firesteel.runtime.restore import SegmentReader, restore_operator
from firesteel.runtime.subtask_snapshot import OperatorSection, SubtaskSnapshot

#: Name of the list in which the head of a chain keeps how far event time had come.
CLOCK = "\0clock"


class SubtaskCheckpoints:
    """Takes and restores the snapshots of one subtask's chain."""

    def __init__(
        self,
        plan: VertexPlan,
        subtask: int,
        chain: Sequence[OperatorSubtask],
        now: Callable[[], float],
    ) -> None:
        self._plan = plan
        self._subtask = subtask
        self._chain = chain
        self._now = now
        self._bases: dict[str, tuple[Segment, ...]] = {}  # of the last confirmed checkpoint, by operator
        self._unconfirmed: dict[int, SubtaskSnapshot] = {}

    # Taking -------------------------------------------------------------------------------------------

    def take(self, order: CheckpointOrder, clock: int, waited: float = 0.0) -> SubtaskSnapshot:
        """The snapshot of all operators, with the barrier sent on; ``waited``: seconds of alignment."""
        began = self._now()
        self._build_on(order.completed)
        for operator in self._chain:
            operator.link.prepare_barrier(order)
        for operator in self._chain:
            operator.link.output.barrier(order)
        _clock_of(self._chain[0]).update([clock] if MIN_TIMESTAMP < clock < MAX_TIMESTAMP else [])
        sections = [self._section(operator, order) for operator in self._chain]
        snapshot = SubtaskSnapshot(
            order,
            self._plan.id,
            self._subtask,
            sections,
            began=began,
            alignment_ms=waited * 1000,
            pause_ms=(self._now() - began) * 1000,
        )
        self._unconfirmed[order.id] = snapshot
        return snapshot

    def _section(self, operator: OperatorSubtask, order: CheckpointOrder) -> OperatorSection:
        keyed, lists = operator.keyed_state, operator.operator_state
        operator.link.snapshot(order)
        snapshot = keyed.begin_snapshot(order.id, order.wants_full)
        base = () if snapshot.is_full else self._bases.get(operator.plan.id, ())
        return OperatorSection(
            operator.plan.id, lists.snapshot(), snapshot, base, (*keyed.metas(), *lists.metas())
        )

    def confirm(self, checkpoint_id: int) -> None:
        """A checkpoint is durable: later deltas build on it, and operators commit what belongs to it."""
        self._build_on(checkpoint_id)
        for operator in self._chain:
            operator.link.notify_complete(checkpoint_id)

    def _build_on(self, checkpoint_id: int) -> None:
        """Let later deltas build on a checkpoint that is complete, when it is one of this attempt.

        Never on a savepoint, which may be deleted at any time. A checkpoint that is older than the base is not known
        any more, so that news of it that comes late changes nothing. Older savepoints may still be under way.
        """
        snapshot = self._unconfirmed.pop(checkpoint_id, None)
        if snapshot is None:
            return
        if snapshot.order.kind.is_savepoint or snapshot.handles is None:
            self._discard(checkpoint_id)
            return
        self._bases = {handle.operator_id: handle.keyed for handle in snapshot.handles}
        for operator in self._chain:
            operator.keyed_state.checkpoint_completed(checkpoint_id)
        self._unconfirmed = {
            number: pending
            for number, pending in self._unconfirmed.items()
            if number > checkpoint_id or pending.order.kind.is_savepoint
        }

    def abort(self, checkpoint_id: int) -> None:
        """A checkpoint was given up."""
        self._unconfirmed.pop(checkpoint_id, None)
        self._discard(checkpoint_id)
        for operator in self._chain:
            operator.link.notify_aborted(checkpoint_id)

    def _discard(self, checkpoint_id: int) -> None:
        """Nothing will build on it; when it is still being serialised, that ends too."""
        for operator in self._chain:
            operator.keyed_state.discard(checkpoint_id)

    # Restoring ----------------------------------------------------------------------------------------

    def restore(self, restore: TaskRestore, reader: SegmentReader) -> int:
        """Fill the states of all operators; returns how far event time had come, at least."""
        for operator in self._chain:
            saved = restore.operators.get(operator.plan.id)
            if saved is None:
                continue
            keyed, lists = operator.keyed_state, operator.operator_state
            try:
                restore_operator(saved, self._plan, self._subtask, keyed, lists, reader)
            except IncompatibleStateError as error:
                raise IncompatibleStateError(f"operator {operator.plan.name!r}: {error}") from error
        head, *others = self._chain
        for operator in others:
            _clock_of(operator).clear()  # it was the head of a chain when the state was written
        return min(_clock_of(head).get(), default=MIN_TIMESTAMP)

    def check_unclaimed(self, drop: bool) -> None:
        """After the operators were opened: state that none of them asked for is refused, or dropped."""
        for operator in self._chain:
            keyed, lists = operator.keyed_state, operator.operator_state
            if drop:
                keyed.drop_unregistered()
                lists.drop_unregistered()
            elif names := [*keyed.unregistered(), *lists.unregistered()]:
                raise IncompatibleStateError(
                    f"{operator.plan.name!r} was restored with state that it does not ask for: "
                    f"{', '.join(map(repr, names))}; ask for it in open(), say what it is called now with "
                    "descriptor.renamed_from(), or allow it to be dropped (-n, --allowNonRestoredState)"
                )


def _clock_of(operator: OperatorSubtask) -> ListState[int]:
    return operator.operator_state.get_union_list_state(ListStateDescriptor(CLOCK, Types.LONG()))
