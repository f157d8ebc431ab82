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
from firesteel.plan.state_handles import CheckpointOrder, Restore, Segment
from firesteel.runtime.operator_chain import ChainLink
from firesteel.runtime.restore import SegmentReader, restore_operator
from firesteel.runtime.subtask_snapshot import OperatorPart, SubtaskSnapshot
from firesteel.state.hashmap_backend import HashMapBackend
from firesteel.state.operator_state import OperatorStateBackend

#: Name of the list in which the head of a chain keeps how far event time had come.
CLOCK = "\0clock"


class SubtaskCheckpoints:
    """Takes and restores the snapshots of one subtask's chain."""

    def __init__(
        self,
        plan: VertexPlan,
        subtask: int,
        links: Sequence[ChainLink],
        keyed: Sequence[HashMapBackend],
        lists: Sequence[OperatorStateBackend],
        now: Callable[[], float],
    ) -> None:
        self._plan = plan
        self._subtask = subtask
        self._links = links
        self._keyed = keyed
        self._lists = lists
        self._now = now
        self._bases: dict[str, tuple[Segment, ...]] = {}  # of the last confirmed checkpoint, by operator
        self._unconfirmed: dict[int, SubtaskSnapshot] = {}

    # Taking -------------------------------------------------------------------------------------------

    def take(self, order: CheckpointOrder, clock: int, waited: float = 0.0) -> SubtaskSnapshot:
        """The snapshot of all operators, with the barrier sent on; ``waited``: seconds of alignment."""
        began = self._now()
        self._build_on(order.completed)
        for link in self._links:
            link.prepare_barrier(order)
        for link in self._links:
            link.output.barrier(order)
        self._clock().update([clock] if MIN_TIMESTAMP < clock < MAX_TIMESTAMP else [])
        parts = [self._part(index, order) for index in range(len(self._links))]
        snapshot = SubtaskSnapshot(
            order,
            self._plan.id,
            self._subtask,
            parts,
            began=began,
            alignment_ms=waited * 1000,
            pause_ms=(self._now() - began) * 1000,
        )
        self._unconfirmed[order.id] = snapshot
        return snapshot

    def _part(self, index: int, order: CheckpointOrder) -> OperatorPart:
        keyed, lists = self._keyed[index], self._lists[index]
        self._links[index].snapshot(order)
        operator_id = self._plan.operators[index].id
        snapshot = keyed.begin_snapshot(order.id, order.wants_full)
        base = () if snapshot.is_full else self._bases.get(operator_id, ())
        return OperatorPart(operator_id, lists.snapshot(), snapshot, base, (*keyed.metas(), *lists.metas()))

    def confirm(self, checkpoint_id: int) -> None:
        """A checkpoint is durable: later deltas build on it, and operators commit what belongs to it."""
        self._build_on(checkpoint_id)
        for link in self._links:
            link.notify_complete(checkpoint_id)

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
        for keyed in self._keyed:
            keyed.confirm(checkpoint_id)
        self._unconfirmed = {
            number: pending
            for number, pending in self._unconfirmed.items()
            if number > checkpoint_id or pending.order.kind.is_savepoint
        }

    def abort(self, checkpoint_id: int) -> None:
        """A checkpoint was given up."""
        self._unconfirmed.pop(checkpoint_id, None)
        self._discard(checkpoint_id)
        for link in self._links:
            link.notify_aborted(checkpoint_id)

    def _discard(self, checkpoint_id: int) -> None:
        """Nothing will build on it; when it is still being serialised, that ends too."""
        for keyed in self._keyed:
            keyed.discard(checkpoint_id)

    # Restoring ----------------------------------------------------------------------------------------

    def restore(self, restore: Restore, reader: SegmentReader) -> int:
        """Fill the states of all operators; returns how far event time had come, at least."""
        for index, operator in enumerate(self._plan.operators):
            found = restore.operators.get(operator.id)
            if found is None:
                continue
            try:
                restore_operator(
                    found, self._plan, self._subtask, self._keyed[index], self._lists[index], reader
                )
            except IncompatibleStateError as error:
                raise IncompatibleStateError(f"operator {operator.name!r}: {error}") from error
        for index in range(1, len(self._links)):
            self._clock(index).clear()  # it was the head of a chain when the state was written
        return min(self._clock().get(), default=MIN_TIMESTAMP)

    def check_unclaimed(self, drop: bool) -> None:
        """After the operators were opened: state that none of them asked for is refused, or dropped."""
        for index, operator in enumerate(self._plan.operators):
            keyed, lists = self._keyed[index], self._lists[index]
            if drop:
                keyed.drop_unclaimed()
                lists.drop_unclaimed()
            elif names := [*keyed.unclaimed(), *lists.unclaimed()]:
                raise IncompatibleStateError(
                    f"{operator.name!r} was restored with state that it does not ask for: "
                    f"{', '.join(map(repr, names))}; ask for it in open(), say what it is called now with "
                    "descriptor.renamed_from(), or allow it to be dropped (-n, --allowNonRestoredState)"
                )

    def _clock(self, index: int = 0) -> ListState[int]:
        return self._lists[index].get_union_list_state(ListStateDescriptor(CLOCK, Types.LONG()))
