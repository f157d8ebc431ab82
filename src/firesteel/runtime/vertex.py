"""One subtask of a vertex inside a task: hop 12 of a record's journey and hop 6 of a checkpoint's life.

It has its gate, its chain of live operators, its routers, and its side of checkpoints.

The steps of a checkpoint, once its barrier has come on all channels (or, for a source, when the job master asks):

1. the operators emit what has to be before the barrier (`prepare_barrier`),
2. the barrier goes into every exchange behind the chain,
3. the operators bring their list states up to date (`snapshot`), and these are serialised,
4. the keyed backends freeze what is to be written; serialising that goes on between batches.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from firesteel.common.errors import IncompatibleStateError
from firesteel.common.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from firesteel.common.typeinfo import Types
from firesteel.contracts.state import ListState, ListStateDescriptor
from firesteel.plan.job_plan import JobPlan, VertexPlan
from firesteel.plan.messages import OperatorStatistics, SnapshotDeclined, SubtaskStatistics
from firesteel.plan.operator_specs import RuntimeMode
from firesteel.plan.state_handles import CheckpointOrder, Segment, TaskRestore
from firesteel.runtime.chain_builder import ChainBuilder, close_backends
from firesteel.runtime.inputs.gate import InputGate
from firesteel.runtime.latency import MarkerPace
from firesteel.runtime.operator import OperatorContext
from firesteel.runtime.operator_chain import ChainLink, OperatorSubtask
from firesteel.runtime.operators.source import SourceOperator
from firesteel.runtime.restore import SegmentReader, restore_operator
from firesteel.runtime.router import Router
from firesteel.runtime.services import TaskServices
from firesteel.runtime.settings import TaskSettings
from firesteel.runtime.subtask_snapshot import OperatorSection, SubtaskSnapshot

#: Name of the list in which the head of a chain keeps how far event time had come.
CLOCK = "\0clock"

CheckpointReport = Callable[[SubtaskSnapshot | SnapshotDeclined], None]


class VertexSubtask:
    """A chain at work. Input arrives through its gate, output leaves through its routers.

    ``report`` is told of the snapshots that barriers lead to, and of those that were declined.
    """

    def __init__(
        self,
        plan: JobPlan,
        vertex: VertexPlan,
        subtask: int,
        routers: Mapping[int, Router],
        services: TaskServices,
        settings: TaskSettings,
        checkpointing: bool = False,
        report: CheckpointReport = lambda outcome: None,
    ) -> None:
        self.plan = vertex
        self.subtask = subtask
        self.settings = settings
        self.finished = False
        self._mode = plan.mode
        self._services = services
        self._checkpointing = checkpointing
        self._report = report
        self._routers = dict(routers)
        self._routed_by = {edge.id: edge.source_operator for edge in plan.edges_from(vertex.id)}
        self._restored: TaskRestore | None = None
        self.chain = ChainBuilder(plan, vertex, subtask, routers, services, settings).build()
        self.head = self.chain[0].link
        self.gate = InputGate(plan, vertex, subtask, self.head, services, settings, self)
        self.source_slices = services.pace.create_slices()  # how much a source gives at once
        # Processing-time timers of sorted input fire where their key ends, as in Flink, and not when it is their time.
        self._timed = [
            operator.link
            for operator in self.chain
            if operator.link.is_timed and not (operator.link is self.head and self.gate.sorts)
        ]
        self._marks = self._create_marks()
        self._alignment_ms: float | None = None
        self._start_delay_ms: float | None = None
        self._suspended_by: int | None = None  # the checkpoint for which the source pauses
        self._checkpoints = SubtaskCheckpoints(vertex, subtask, self.chain, services.now)

    @property
    def source(self) -> SourceOperator | None:
        """The source at the head of the chain, when there is one."""
        operator = self.head.operator
        return operator if isinstance(operator, SourceOperator) else None

    def _create_marks(self) -> MarkerPace | None:
        """What sends latency markers; None without a source, and where nobody wants them."""
        seconds = self.settings.latency_interval_seconds
        if self.source is None or seconds <= 0 or self._mode is not RuntimeMode.STREAMING:
            return None
        return MarkerPace(self.plan.operators[0].id, self.subtask, seconds, self.head.output)

    # Life cycle ---------------------------------------------------------------------------------------

    def open(self) -> None:
        """Open routers, then operators, last one first: whoever receives is ready before anyone sends."""
        for edge_id, router in self._routers.items():
            router.open(self.chain[self._routed_by[edge_id]].context)
        for operator in reversed(self.chain):
            operator.link.open(self._context_of(operator))
            operator.keyed_state.opened()
        if self._restored is not None and self._restored.changed_program:
            self._checkpoints.check_unregistered(drop=self.settings.drops_unregistered_state)
        if self.gate.clock > MIN_TIMESTAMP:
            self.head.watermark(self.gate.clock)

    def _context_of(self, operator: OperatorSubtask) -> OperatorContext:
        return OperatorContext(
            operator.link.output,
            operator.context,
            self._services,
            self._mode,
            self.settings.watermark_interval_ms,
            operator.operator_state,
            operator.keyed_state if operator.is_keyed else None,
            None if self._restored is None else self._restored.checkpoint_id,
            self._checkpointing,
            protects=not self.settings.object_reuse,
            pace=self._services.pace,
            system_metrics=operator.context.system_metrics,
            ended_in_order=self._restored is not None and self._restored.ended_in_order,
        )

    def restore(self, restore: TaskRestore, reader: SegmentReader) -> None:
        """Start from a checkpoint; before `open`."""
        self._restored = restore
        self.gate.restore_clock(self._checkpoints.restore(restore, reader))

    def close(self) -> list[Exception]:
        """Close all operators; what goes wrong with one does not keep the others open."""
        self.gate.close()
        for operator in self.chain:
            if operator.state_figures is not None:
                operator.state_figures.settle()
        errors: list[Exception] = []
        parts: list[ChainLink | Router] = [
            *(operator.link for operator in self.chain),
            *self._routers.values(),
        ]
        for part in parts:
            try:
                part.close()
            except Exception as error:  # noqa: BLE001 - collected for the caller to decide
                errors.append(error)
        return errors + close_backends(operator.keyed_state for operator in self.chain)

    # What the gate says -------------------------------------------------------------------------------

    def barriers_complete(self, order: CheckpointOrder, waited: float) -> None:
        """The barrier has come on all channels: take the snapshot."""
        self._note_checkpoint(order, waited)
        self._report(self._checkpoints.snapshot(order, self.gate.clock, waited))

    def barriers_declined(self, checkpoint_id: int, reason: str) -> None:
        """The gate waits for the barriers of a checkpoint no longer."""
        self._report(SnapshotDeclined(checkpoint_id, self.plan.id, self.subtask, reason))

    def input_ended(self) -> None:
        """All input has been read: the subtask ends with it."""
        self.head.end()
        self.finished = True

    # Checkpoints --------------------------------------------------------------------------------------

    def trigger(self, order: CheckpointOrder) -> SubtaskSnapshot:
        """Begin a checkpoint here, at a source."""
        self._note_checkpoint(order, 0.0)
        snapshot = self._checkpoints.snapshot(order, MIN_TIMESTAMP)
        if order.kind.suspends_sources and self.source is not None:
            self._suspended_by = order.id
            self.source.suspend()
        return snapshot

    def _note_checkpoint(self, order: CheckpointOrder, waited: float) -> None:
        self._alignment_ms = waited * 1000
        first_barrier_ms = (self._services.now() - waited) * 1000
        self._start_delay_ms = max(0.0, first_barrier_ms - order.timestamp)  # clocks of machines may disagree

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        """A checkpoint is durable."""
        self._checkpoints.checkpoint_completed(checkpoint_id)

    def checkpoint_aborted(self, checkpoint_id: int) -> None:
        """A checkpoint was aborted: nobody waits for its barriers any more."""
        self.gate.abort_checkpoint(checkpoint_id)
        if self.source is not None and checkpoint_id == self._suspended_by:
            self._suspended_by = None
            self.source.resume()
        self._checkpoints.checkpoint_aborted(checkpoint_id)

    # Time and output ----------------------------------------------------------------------------------

    def next_deadline(self) -> float:
        """When one of the operators waits for the machine's time; infinity when none does."""
        deadline = min((link.operator.next_deadline() for link in self._timed), default=math.inf)
        if self._marks is not None and self._suspended_by is None:
            return min(deadline, self._marks.due_at)
        return deadline

    def on_time(self, now: float) -> None:
        """Let the operators do what is due."""
        if self._marks is not None and self._suspended_by is None:
            self._marks.on_time(now)
        for link in self._timed:
            if link.operator.next_deadline() <= now:
                link.on_time(now)
        self.gate.ask_again()

    def flush(self) -> None:
        """Turn all buffered output into payloads."""
        for router in self._routers.values():
            router.channels.flush()

    @property
    def records_sent(self) -> int:
        """How many records have left in payloads so far."""
        return sum(router.channels.records_out for router in self._routers.values())

    def statistics(self) -> list[OperatorStatistics]:
        """The counters of all operators."""
        return [operator.link.statistics() for operator in self.chain]

    def subtask_statistics(self) -> SubtaskStatistics:
        """What came through the gate and left through the routers."""
        writers = [router.channels for router in self._routers.values()]
        return SubtaskStatistics(
            self.plan.id,
            self.subtask,
            self.head.records_in,
            self.records_sent,
            self.gate.bytes_in,
            sum(writer.bytes_out for writer in writers),
            self.gate.chunks_in,
            sum(writer.chunks_out for writer in writers),
            self._alignment_ms,
            self._start_delay_ms,
        )

    def describe_memory(self) -> str:
        """What is known to take memory here: the state of each operator, and input that waits."""
        subtask = f"({self.subtask + 1}/{self.plan.parallelism})"
        parts = []
        for operator in self.chain:
            entries, size = operator.keyed_state.in_memory()
            state = (
                f"{entries:,} entries of state, about {in_megabytes(size)}" if entries else "no keyed state"
            )
            parts.append(f"'{operator.plan.name}' {subtask} has {state}")
        if self.gate.waiting_bytes:
            parts.append(f"{in_megabytes(self.gate.waiting_bytes)} of its input wait")
        return ", ".join(parts)


# Checkpoints ----------------------------------------------------------------------------------------


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
        self._bases: dict[str, tuple[Segment, ...]] = {}  # of the last completed checkpoint, by operator
        self._uncompleted: dict[int, SubtaskSnapshot] = {}

    # Taking -------------------------------------------------------------------------------------------

    def snapshot(self, order: CheckpointOrder, clock: int, waited: float = 0.0) -> SubtaskSnapshot:
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
        self._uncompleted[order.id] = snapshot
        return snapshot

    def _section(self, operator: OperatorSubtask, order: CheckpointOrder) -> OperatorSection:
        keyed, lists = operator.keyed_state, operator.operator_state
        operator.link.snapshot(order)
        snapshot = keyed.begin_snapshot(order.id, order.wants_full)
        base = () if snapshot.is_full else self._bases.get(operator.plan.id, ())
        return OperatorSection(
            operator.plan.id, lists.snapshot(), snapshot, base, (*keyed.metas(), *lists.metas())
        )

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        """A checkpoint is durable: later deltas build on it, and operators commit what belongs to it."""
        self._build_on(checkpoint_id)
        for operator in self._chain:
            operator.link.notify_complete(checkpoint_id)

    def _build_on(self, checkpoint_id: int) -> None:
        """Let later deltas build on a checkpoint that is complete, when it is one of this attempt.

        Never on a savepoint, which may be deleted at any time. A checkpoint that is older than the base is not known
        any more, so that news of it that comes late changes nothing. Older savepoints may still be under way.
        """
        snapshot = self._uncompleted.pop(checkpoint_id, None)
        if snapshot is None:
            return
        if snapshot.order.kind.is_savepoint or snapshot.handles is None:
            self._discard(checkpoint_id)
            return
        self._bases = {handle.operator_id: handle.keyed for handle in snapshot.handles}
        for operator in self._chain:
            operator.keyed_state.checkpoint_completed(checkpoint_id)
        self._uncompleted = {
            number: pending
            for number, pending in self._uncompleted.items()
            if number > checkpoint_id or pending.order.kind.is_savepoint
        }

    def checkpoint_aborted(self, checkpoint_id: int) -> None:
        """A checkpoint was aborted."""
        self._uncompleted.pop(checkpoint_id, None)
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

    def check_unregistered(self, drop: bool) -> None:
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


def in_megabytes(size: int) -> str:
    """A number of bytes for people.

    >>> in_megabytes(1_234_567)
    '1.2 MB'
    """
    return f"{size / 1e6:,.1f} MB"
