"""The pure machine of a task: payloads and polls in, rows for the next stage out.

It has no threads, sockets or clock of its own. A shell drives it - Spark's or the simulator's:

    task.open()
    while not task.finished:
        task.receive(payload)        for every row that arrives
        task.poll()                  when there is nothing to receive: let sources produce
        task.take(idle=...)          rows to send on; idle = nothing more to do right now
        task.take_messages()         for the job master
        task.work_on_snapshots()     a slice of what checkpoints need; then take_snapshots() to write it
    task.close()

A task hosts one subtask of every vertex of its stage that is wide enough to reach it, and relays payloads
of edges that only pass through the stage.
"""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

from firesteel.checkpoint.state_pickle import load_program_classes
from firesteel.common.errors import DataLossError
from firesteel.plan.job_plan import JobPlan, VertexPlan
from firesteel.plan.messages import (
    AlignmentUpdate,
    CheckpointAborted,
    CheckpointCompleted,
    EnumeratorEvent,
    MasterMessage,
    SnapshotDeclined,
    SplitsAssigned,
    StopSources,
    SubtaskEnded,
    TaskId,
    TaskMessage,
    TaskReport,
    TriggerCheckpoint,
    WatermarkReport,
)
from firesteel.plan.operator_specs import RuntimeMode
from firesteel.plan.state_handles import CheckpointOrder, Restore
from firesteel.runtime.elements import Barrier, Chunk, EndOfInput, StreamStatus, Watermark
from firesteel.runtime.operators.source import SourceOperator
from firesteel.runtime.outbox import Outbox
from firesteel.runtime.router import create_router
from firesteel.runtime.services import TaskServices
from firesteel.runtime.snapshot_writer import segment_reader
from firesteel.runtime.subtask_snapshot import SubtaskSnapshot
from firesteel.runtime.vertex import InputChannel, VertexSubtask
from firesteel.runtime.wire_format import Header, decode, read_header

CHUNK_RECORDS = "firesteel.chunk.records"
SOURCE_BATCH = "firesteel.source.batch"

_HELD_AT_ONCE = 16
_ENTRIES_AT_ONCE = 2048


class StageTask:
    """One task of one stage."""

    def __init__(
        self, plan: JobPlan, task: TaskId, services: TaskServices, *, checkpointing: bool = False
    ) -> None:
        load_program_classes(plan.program_classes)
        self._plan = plan
        self._checkpointing = checkpointing and plan.mode is RuntimeMode.STREAMING
        self._released = False  # the job is over: a last checkpoint is complete
        self._ended_said: set[int] = set()
        self._snapshots: list[SubtaskSnapshot] = []
        self._messages: list[TaskMessage] = []
        self._stage = plan.stages[task.stage]
        self._task = task
        self._services = services
        self._outbox = Outbox()
        self._chunk_records = int(plan.options.get(CHUNK_RECORDS, 1024))
        self._source_batch = int(plan.options.get(SOURCE_BATCH, 1024))
        self._vertices = [
            self._create(plan.vertices[v]) for v in self._stage.vertices if self._hosts(plan.vertices[v])
        ]
        self._sources = [vertex for vertex in self._vertices if vertex.source is not None]
        self._holding = [vertex for vertex in self._vertices if vertex.held is not None]
        self._selecting = [vertex for vertex in self._vertices if vertex.selected is not None]
        self._input_over = False
        self._channels = {
            (channel.edge.id, channel.sender): channel
            for vertex in self._vertices
            for channel in vertex.channels
        }
        # A vertex without buffer timeout sends only full chunks, whatever its neighbours do.
        self._flushing = [vertex for vertex in self._vertices if vertex.plan.buffer_timeout_ms >= 0]
        timeouts = [vertex.plan.buffer_timeout_ms / 1000 for vertex in self._flushing]
        self._buffer_timeout = min(timeouts, default=math.inf)
        self._flushed_at = 0.0

    @property
    def names(self) -> list[str]:
        """Names of the subtasks in this task, as in ``Map (1/4)``."""
        return [f"{v.plan.name} ({v.subtask + 1}/{v.plan.parallelism})" for v in self._vertices]

    @property
    def finished(self) -> bool:
        """Whether every subtask here has done everything. Relaying ends with the input itself.

        In a job with checkpoints subtasks that have processed all input stay for the one that ends the job.
        """
        if self._released:
            return True
        return not self._checkpointing and all(vertex.finished for vertex in self._vertices)

    @property
    def has_sources(self) -> bool:
        """Whether `poll` can ever produce anything again."""
        return any(not vertex.finished for vertex in self._sources)

    # Life cycle ---------------------------------------------------------------------------------------

    def open(self, restore: Restore | None = None) -> None:
        """Open all operators, with the state of an earlier run when there is one."""
        self._flushed_at = self._services.now()
        for vertex in self._vertices:
            if restore is not None:
                vertex.restore(restore, segment_reader(restore.root, self._services))
            vertex.open()

    def stop_sources(self) -> None:
        """End all sources as if their input had ended."""
        for vertex in self._sources:
            vertex.head.stop()

    def close(self) -> list[Exception]:
        """Close all operators; returns what went wrong in that."""
        return [error for vertex in self._vertices for error in vertex.close()]

    def input_ended(self) -> None:
        """The shell has delivered everything there was; anything still missing is lost."""
        self._input_over = True
        if self.reads_held or self._reads_waiting or self._released:
            return  # looked at again when all that was held has been read; after a stop nothing announces an end
        open_channels = [c for c in self._channels.values() if not c.ended]
        if open_channels:
            first = open_channels[0]
            raise DataLossError(
                f"the input of {first.vertex.plan.name!r} stopped before its end was announced on "
                f"{len(open_channels)} of {len(self._channels)} channels, first on edge {first.edge.id} from "
                f"subtask {first.sender + 1}: an upstream task ended early"
            )

    # Input --------------------------------------------------------------------------------------------

    def receive(self, payload: bytes | memoryview) -> None:
        """Process one payload; an empty one is a flush row and means nothing here."""
        if not payload:
            return
        header = read_header(payload)
        channel = self._channels.get((header.edge, header.sender))
        if channel is None or channel.vertex.subtask != header.target:
            self._relay(header, payload)
        elif channel.held is not None:
            channel.held.add(payload)
        elif channel.vertex.selected is not None:
            channel.vertex.selected.add(channel.edge.input_index, payload)
            self._read_selected(channel.vertex)
        elif channel.vertex.waiting.is_due:
            channel.vertex.waiting.queue_up(payload)
        else:
            self._process_or_hold(channel, header, payload)

    def _process_or_hold(self, channel: InputChannel, header: Header, payload: bytes | memoryview) -> None:
        if channel.valve_index in channel.vertex.alignment.blocked:
            channel.vertex.waiting.hold(payload)
        else:
            self._process(channel, header, payload)

    def _process(self, channel: InputChannel, header: Header, payload: bytes | memoryview) -> None:
        channel.check(header)
        match decode(header.kind, payload):
            case Chunk(values, timestamps):
                channel.receive(values, timestamps)
            case Watermark(timestamp):
                channel.vertex.watermark(channel, timestamp)
            case StreamStatus(active):
                channel.vertex.status(channel, active)
            case Barrier(order):
                self._barrier(channel, order)
            case EndOfInput():
                channel.vertex.end(channel)
            case other:
                raise NotImplementedError(f"{type(other).__name__} elements are not part of this version")

    def _relay(self, header: Header, payload: bytes | memoryview) -> None:
        target = self._plan.vertices[self._plan.edges[header.edge].target]
        if target.stage <= self._stage.index:
            raise DataLossError(
                f"a payload of edge {header.edge} for {target.name!r} arrived at the wrong task: {header}"
            )
        tasks = self._plan.stages[self._stage.index + 1].tasks
        self._outbox.add((target.first_task + header.target) % tasks, bytes(payload))

    def poll(self) -> bool:
        """Let every source that is ready produce one batch and every timer that is due fire.

        False when there was nothing to do.
        """
        now = self._services.now()
        did_something = self._read_held() | self._read_waiting()
        for vertex in self._vertices:
            if not vertex.finished and vertex.next_deadline() <= now:
                vertex.on_time(now)
                did_something = True
        for vertex in self._sources:
            source = vertex.source
            if source is not None and source.ready(now):
                did_something |= vertex.poll(self._source_batch)
        return did_something

    @property
    def reads_held(self) -> bool:
        """Whether payloads that were held back are being read by `poll`."""
        return any(vertex.held is not None and vertex.held.is_open for vertex in self._holding) or any(
            vertex.selected is not None and vertex.selected.may_read for vertex in self._selecting
        )

    def _read_held(self) -> bool:
        if not self.reads_held:
            return False
        for vertex in self._selecting:
            self._read_selected(vertex)
        for vertex in self._holding:
            if vertex.held is not None and vertex.held.is_open:
                for payload in vertex.held.take(_HELD_AT_ONCE):
                    header = read_header(payload)
                    self._process(self._channels[header.edge, header.sender], header, payload)
                if vertex.held.empty:
                    vertex.stop_holding()
        self._holding = [vertex for vertex in self._holding if vertex.held is not None]
        if self._input_over:
            self.input_ended()
        return True

    def _read_selected(self, vertex: VertexSubtask) -> None:
        """Read from the input that the operator has chosen."""
        assert vertex.selected is not None
        for _ in range(_HELD_AT_ONCE):
            payload = vertex.selected.take()
            if payload is None:
                break
            header = read_header(payload)
            self._process(self._channels[header.edge, header.sender], header, payload)

    @property
    def _reads_waiting(self) -> bool:
        return any(vertex.waiting.is_due for vertex in self._vertices)

    def _read_waiting(self) -> bool:
        """Read payloads that waited for an alignment to end."""
        did_something = False
        for vertex in self._vertices:
            for _ in range(_HELD_AT_ONCE):
                if not vertex.waiting.is_due:
                    break
                payload = vertex.waiting.take()
                header = read_header(payload)
                self._process_or_hold(self._channels[header.edge, header.sender], header, payload)
                did_something = True
        if did_something and self._input_over:
            self.input_ended()
        return did_something

    # Checkpoints --------------------------------------------------------------------------------------

    def _trigger(self, order: CheckpointOrder) -> None:
        """The job master wants a checkpoint: begin it at the sources here."""
        for vertex in self._sources:
            self._snapshots.append(vertex.trigger(order))

    def _barrier(self, channel: InputChannel, order: CheckpointOrder) -> None:
        vertex = channel.vertex
        snapshot = vertex.barrier(channel, order)
        if snapshot is not None:
            self._snapshots.append(snapshot)
        for given_up in vertex.alignment.given_up:
            reason = f"checkpoint {order.id} began before all barriers of {given_up} had come"
            self._messages.append(SnapshotDeclined(given_up, vertex.plan.id, vertex.subtask, reason))
        vertex.alignment.given_up.clear()

    def _checkpoint_complete(self, checkpoint_id: int, final: bool) -> None:
        """A checkpoint is durable; a final one ends the task."""
        for vertex in self._vertices:
            vertex.checkpoint_complete(checkpoint_id)
        self._released |= final

    def _checkpoint_aborted(self, checkpoint_id: int) -> None:
        """A checkpoint was given up."""
        self._snapshots = [pending for pending in self._snapshots if pending.order.id != checkpoint_id]
        for vertex in self._vertices:
            vertex.checkpoint_aborted(checkpoint_id)

    @property
    def has_snapshots(self) -> bool:
        """Whether snapshots are still to be serialised or handed over."""
        return bool(self._snapshots)

    def work_on_snapshots(self) -> SubtaskSnapshot | None:
        """Serialise a slice of the oldest snapshot under way; it has pieces to be written then.

        A snapshot that is serialised to its end is returned for the last time.
        """
        if not self._snapshots:
            return None
        snapshot = self._snapshots[0]
        snapshot.step(_ENTRIES_AT_ONCE)
        if snapshot.is_serialised:
            self._snapshots.pop(0)
        return snapshot

    # Messages -----------------------------------------------------------------------------------------

    def take_messages(self) -> list[TaskMessage]:
        """What the job master has to know by now."""
        messages, self._messages = self._messages, []
        messages += self._watermark_reports()
        for vertex in self._sources:
            if vertex.source is not None:
                messages += vertex.source.take_messages()
        if self._checkpointing and not self._released:
            for vertex in self._vertices:
                if vertex.finished and vertex.plan.id not in self._ended_said:
                    self._ended_said.add(vertex.plan.id)
                    messages.append(SubtaskEnded(vertex.plan.id, vertex.subtask))
        return messages

    def obey(self, message: MasterMessage) -> None:
        """Do what the job master wants. Cancelling is the shell's business."""
        match message:
            case StopSources():
                self.stop_sources()
            case AlignmentUpdate():
                self._align(message)
            case TriggerCheckpoint(order):
                self._trigger(order)
            case CheckpointCompleted(checkpoint_id, final):
                self._checkpoint_complete(checkpoint_id, final)
            case CheckpointAborted(checkpoint_id):
                self._checkpoint_aborted(checkpoint_id)
            case SplitsAssigned(operator_id, subtask, splits, no_more):
                for source in self._sources_of(operator_id, subtask):
                    source.assign(pickle.loads(splits), no_more)
            case EnumeratorEvent(operator_id, subtask, event):
                for source in self._sources_of(operator_id, subtask):
                    source.handle_event(pickle.loads(event))

    def _sources_of(self, operator_id: str, subtask: int) -> list[SourceOperator]:
        return [
            vertex.source
            for vertex in self._sources
            if vertex.source is not None
            and vertex.plan.operators[0].id == operator_id
            and vertex.subtask == subtask
        ]

    def _align(self, update: AlignmentUpdate) -> None:
        """A group of sources has moved on, or has to wait."""
        for vertex in self._sources:
            alignment = None if vertex.source is None else vertex.source.alignment
            if alignment is not None and alignment.group == update.group:
                alignment.update(update.watermark)

    def _watermark_reports(self) -> list[WatermarkReport]:
        """What sources of alignment groups have to tell the job master."""
        found: list[WatermarkReport] = []
        for vertex in self._sources:
            alignment = None if vertex.source is None else vertex.source.alignment
            if alignment is not None and (watermark := alignment.take()) is not None:
                operator_id = vertex.plan.operators[0].id
                found.append(WatermarkReport(alignment.group, operator_id, vertex.subtask, watermark))
        return found

    def ready(self) -> bool:
        """Whether some source could produce, or some timer could fire, right now."""
        now = self._services.now()
        if (
            self.reads_held
            or self._reads_waiting
            or any(v.source.ready(now) for v in self._sources if v.source is not None)
        ):
            return True
        return self._next_deadline() <= now

    def next_poll(self) -> float:
        """When a source or a timer wants `poll` to be called; infinity when only a wake-up will tell."""
        waiting = [v.source.retry_at for v in self._sources if v.source is not None and not v.source.ended]
        return min([*waiting, self._next_deadline()])

    def _next_deadline(self) -> float:
        return min((v.next_deadline() for v in self._vertices if not v.finished), default=math.inf)

    # Output -------------------------------------------------------------------------------------------

    def take(self, idle: bool) -> list[tuple[int, bytes]]:
        """Rows for the next stage.

        When the task is idle, or the buffer timeout is over, partly filled chunks leave too: an idle
        pipeline answers at once, a busy one sends big chunks.
        """
        flush = idle or self._timed_out()
        if flush:
            for vertex in self._flushing:
                vertex.flush()
        return self._outbox.take(flush=flush)

    def _timed_out(self) -> bool:
        now = self._services.now()
        if now - self._flushed_at < self._buffer_timeout:
            return False
        self._flushed_at = now
        return True

    def report(self) -> TaskReport:
        """Counters, accumulators and metrics so far."""
        contexts = [context for vertex in self._vertices for context in vertex.contexts]
        metrics: dict[str, Any] = {}
        accumulators: dict[str, Any] = {}
        for context in contexts:
            metrics.update(context.metrics.snapshot())
            for name, accumulator in context.accumulators.items():
                if name in accumulators:
                    accumulators[name].merge(accumulator)
                else:
                    accumulators[name] = copy.deepcopy(accumulator)
        statistics = [entry for vertex in self._vertices for entry in vertex.statistics()]
        return TaskReport(tuple(statistics), accumulators, metrics)

    # Construction -------------------------------------------------------------------------------------

    def _hosts(self, vertex: VertexPlan) -> bool:
        return vertex.first_task <= self._task.index < vertex.first_task + vertex.parallelism

    def _create(self, vertex: VertexPlan) -> VertexSubtask:
        subtask = self._task.index - vertex.first_task
        routers = {
            edge.id: create_router(
                self._plan, edge, subtask, self._outbox, self._chunk_records, self._services.random
            )
            for edge in self._plan.edges_from(vertex.id)
        }
        return VertexSubtask(self._plan, vertex, subtask, routers, self._services, self._checkpointing)
