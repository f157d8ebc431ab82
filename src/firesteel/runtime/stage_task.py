"""The pure machine of a task, hop 4 of a checkpoint's life: payloads and polls in, rows for the next stage out.

It has no threads, sockets or clock of its own. A shell drives it - Spark's or the simulator's:

    task.open()
    while not task.finished:
        task.receive(payload)        for every row that arrives, while task.may_receive
        task.poll()                  when there is nothing to receive: let sources produce
        task.resume()                while task.unread: the rest of the payload, slice by slice
        task.take(idle=...)          rows to send on; idle = nothing more to do right now
        task.take_messages()         for the job master
        task.work_on_snapshots()     a slice of what checkpoints need, to be written by the shell
    task.close()

Each of these calls may end with ``task.paused``: so much was made that it has to leave before the call resumes. Then
there is nothing to do but ``take`` and ``resume``.

A task hosts one subtask of every vertex of its stage that is wide enough to reach it. A payload goes to the gate of the
subtask it is for; those of edges that only pass through the stage are relayed, unopened.
"""

from __future__ import annotations

import contextvars
import copy
import math
import pickle
import time
from collections.abc import Callable
from typing import Any

from greenlet import GreenletExit, getcurrent, greenlet  # type: ignore[import-untyped]

from firesteel.checkpoint.state_pickle import load_program_classes
from firesteel.common._metric_values import MetricValue
from firesteel.common.errors import DataLossError, UpstreamLostError
from firesteel.plan.job_plan import JobPlan, VertexPlan
from firesteel.plan.messages import (
    CheckpointAborted,
    CheckpointCompleted,
    EnumeratorEvent,
    ExplainWatermark,
    MasterMessage,
    MayEnd,
    QueryState,
    SnapshotDeclined,
    SplitsAssigned,
    StayForSavepoint,
    StopSources,
    SubtaskEnded,
    TaskId,
    TaskMessage,
    TaskReport,
    TaskStays,
    TriggerCheckpoint,
    WatermarkAlignmentUpdate,
    WatermarkExplained,
    WatermarkReport,
)
from firesteel.plan.operator_specs import RuntimeMode
from firesteel.plan.state_handles import CheckpointOrder, TaskRestore
from firesteel.runtime.operators.source import SourceOperator
from firesteel.runtime.queryable_states import TaskQueryableStates
from firesteel.runtime.router import Outbox, create_router
from firesteel.runtime.services import TaskServices
from firesteel.runtime.settings import TaskSettings
from firesteel.runtime.subtask_snapshot import SubtaskSnapshot, segment_reader
from firesteel.runtime.vertex import VertexSubtask
from firesteel.runtime.watermark_stalls import explain, watches_of
from firesteel.runtime.wire_format import BARRIER, Header, read_header

_ENTRIES_AT_ONCE = 2048
#: Of the buffer time-out: when partly filled chunks leave at the next look. A task looks up about every tenth of it, and what has
#: left is still to arrive.
_SHARE_OF_TIMEOUT = 0.75
_LOOK_SECONDS = 0.001


class StageTask:
    """One task of one stage."""

    def __init__(
        self, plan: JobPlan, task: TaskId, services: TaskServices, *, checkpointing: bool = False
    ) -> None:
        load_program_classes(plan.program_classes)
        self._plan = plan
        self._checkpointing = checkpointing and plan.mode is RuntimeMode.STREAMING
        #: Whether the task does not end by itself when everything is processed: a checkpoint may be to come.
        self.stays = self._checkpointing
        self._released = False  # the job is over: a last checkpoint is complete
        self._ended_said: set[int] = set()
        self._snapshots: list[SubtaskSnapshot] = []
        self._messages: list[TaskMessage] = []
        self._stage = plan.stages[task.stage]
        self._task = task
        self._services = services
        self._pauses = Pauses()
        self._pace = services.pace
        self._pace.pause = self._pauses.pause
        self._pace.wait = self._pauses.wait
        self._outbox = Outbox(self._pauses.pause)
        self._polled = False
        self._settings = TaskSettings.of(plan)
        self._vertices = [
            self._create(plan.vertices[v]) for v in self._stage.vertices if self._hosts(plan.vertices[v])
        ]
        self._sources = [vertex for vertex in self._vertices if vertex.source is not None]
        self._gates = [vertex.gate for vertex in self._vertices if vertex.gate.channels]
        streaming = plan.mode is RuntimeMode.STREAMING
        self._watches = [
            watch
            for vertex in (self._vertices if streaming else [])
            for watch in watches_of(vertex, self._settings.stall_warning_seconds)
        ]
        #: States that others may ask for.
        self.queryable = self._watch_queryable_states()
        self._input_over = False
        self._channels = {
            (channel.edge.id, channel.sender, vertex.subtask): (vertex.gate, channel)
            for vertex in self._vertices
            for channel in vertex.gate.channels
        }
        # A vertex without buffer timeout sends only full chunks, whatever its neighbours do.
        self._flushing = [vertex for vertex in self._vertices if vertex.plan.buffer_timeout_ms >= 0]
        timeouts = [vertex.plan.buffer_timeout_ms / 1000 for vertex in self._flushing]
        self._flush_after = _SHARE_OF_TIMEOUT * min(timeouts, default=math.inf)
        self._flushed_at = self._opened_at = 0.0

    def _watch_queryable_states(self) -> TaskQueryableStates:
        states = TaskQueryableStates()
        if self._settings.queryable_state and self._plan.mode is RuntimeMode.STREAMING:
            for vertex in self._vertices:
                for operator in vertex.chain:
                    if operator.is_keyed:
                        states.watch(operator.keyed_state, vertex.plan.id, vertex.subtask, operator.plan.id)
        return states

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
        return not self.stays and all(vertex.finished for vertex in self._vertices)

    @property
    def has_sources(self) -> bool:
        """Whether `poll` can ever produce anything again."""
        return any(not vertex.finished for vertex in self._sources)

    # Life cycle ---------------------------------------------------------------------------------------

    def open(self, restore: TaskRestore | None = None) -> None:
        """Open all operators, with the state of an earlier run when there is one."""
        self._flushed_at = self._opened_at = self._services.now()
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
        self._pauses.abandon()
        self._pace.close()
        return [error for vertex in self._vertices for error in vertex.close()]

    def input_ended(self) -> None:
        """The shell has delivered everything there was; anything still missing is lost."""
        self._input_over = True
        self._check_ends()

    def _check_ends(self) -> None:
        if not self.may_receive or self._released:
            return  # looked at again when all that waited has been read; after a stop nothing announces an end
        missing = [(gate, channel) for gate, channel in self._channels.values() if not channel.ended]
        if missing:
            gate, channel = missing[0]
            raise UpstreamLostError(
                f"the input of {gate.vertex.name!r} stopped before its end was announced on "
                f"{len(missing)} of {len(self._channels)} channels, first on edge {channel.edge.id} from "
                f"subtask {channel.sender + 1}: an upstream task ended early"
            )

    # Input --------------------------------------------------------------------------------------------

    @property
    def paused(self) -> bool:
        """Whether a call waits for the rows made so far to leave."""
        return self._pauses.paused

    @property
    def waits(self) -> bool:
        """Whether the call that has paused waits for something else as well, and cannot resume before that is there."""
        return self._pauses.waits

    @property
    def unread(self) -> bool:
        """Whether records of the last payload are still to be processed, before the next one is received."""
        return any(gate.has_rest for gate in self._gates)

    @property
    def may_receive(self) -> bool:
        """Whether the task can take another payload: nothing that came before is still to be read.

        The back pressure of a task. What has been taken in and waits - for barriers, for another input - is read by
        `poll`, and as long as that has something to read, the shell leaves new payloads where they are.
        """
        return not any(gate.may_read for gate in self._gates)

    def resume(self) -> None:
        """Resume the call that has paused, or read the next slice of what is unread."""
        self._pace.step()
        if self._pauses.paused:
            self._pauses.resume()
        elif self.unread:
            self._pauses.run(self._read_rest)

    def receive(self, payload: bytes | memoryview) -> None:
        """Process one payload; an empty one is a flush row and means nothing here."""
        if payload:
            assert self.may_receive, "what came before has not been read to its end"
            self._pace.step()
            self._pauses.run(self._receive, payload)

    def _receive(self, payload: bytes | memoryview) -> None:
        header = read_header(payload)
        at = self._channels.get((header.edge, header.sender, header.target))
        if at is None:
            self._relay(header, payload)
        else:
            gate, channel = at
            gate.receive(channel, header, payload)

    def _read_rest(self) -> None:
        next(gate for gate in self._gates if gate.has_rest).read_next()
        if self._input_over:
            self._check_ends()

    def _read_waiting(self) -> bool:
        """Read some of what waited; whether there was any. Only one gate is in the middle of a chunk at a time."""
        did_something = False
        for gate in self._gates:
            if not self.unread:
                did_something |= gate.read()
        if self._input_over:
            self._check_ends()
        return did_something

    def _relay(self, header: Header, payload: bytes | memoryview) -> None:
        target = self._plan.vertices[self._plan.edges[header.edge].target]
        if target.stage <= self._stage.index:
            raise DataLossError(
                f"a payload of edge {header.edge} for {target.name!r} arrived at the wrong task: {header}"
            )
        tasks = self._plan.stages[self._stage.index + 1].tasks
        self._outbox.add((target.first_task + header.target) % tasks, bytes(payload))
        if header.kind == BARRIER:
            self._outbox.hurry()

    def poll(self) -> bool:
        """Let every source that is ready produce one batch and every timer that is due fire.

        False when there was nothing to do.
        """
        self._pace.step()
        self._polled = True  # what pauses has done something
        self._pauses.run(self._poll)
        return self._polled

    def _poll(self) -> None:
        now = self._services.now()
        did_something = self._read_waiting()
        for vertex in self._vertices:
            if not vertex.finished and vertex.next_deadline() <= now:
                vertex.on_time(now)
                did_something = True
        for vertex in self._sources:
            source = vertex.source
            if source is not None and source.ready(now):
                did_something |= self._poll_source(vertex, source)
        self._polled = did_something

    def _poll_source(self, vertex: VertexSubtask, source: SourceOperator) -> bool:
        slices, now, output = vertex.source_slices, self._pace.now, vertex.head.output
        began, before = now(), output.records_out
        produced = vertex.head.poll(slices.next_size(self._settings.source_batch))
        slices.took(output.records_out - before, now() - began)
        vertex.finished = source.ended
        return produced

    # Checkpoints --------------------------------------------------------------------------------------

    def _trigger(self, order: CheckpointOrder) -> None:
        """The job master wants a checkpoint: begin it at the sources here."""
        for vertex in self._sources:
            self._snapshots.append(vertex.trigger(order))

    def _on_barriers(self, outcome: SubtaskSnapshot | SnapshotDeclined) -> None:
        if isinstance(outcome, SubtaskSnapshot):
            self._snapshots.append(outcome)
        else:
            self._messages.append(outcome)

    def _checkpoint_completed(self, checkpoint_id: int, final: bool) -> None:
        """A checkpoint is durable; a final one ends the task."""
        for vertex in self._vertices:
            vertex.checkpoint_completed(checkpoint_id)
        self._released |= final

    def _checkpoint_aborted(self, checkpoint_id: int) -> None:
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
        messages += self.queryable.take_new()
        messages += self._watermark_reports()
        for watch in self._watches:
            if (stalled := watch.look(self._services.now)) is not None:
                messages.append(stalled)
        for vertex in self._sources:
            if vertex.source is not None:
                messages += vertex.source.take_messages()
        if self.stays and not self._released:
            for vertex in self._vertices:
                if vertex.finished and vertex.plan.id not in self._ended_said:
                    self._ended_said.add(vertex.plan.id)
                    messages.append(SubtaskEnded(vertex.plan.id, vertex.subtask))
        return messages

    def obey(self, message: MasterMessage) -> None:
        """Do what the job master wants. Cancelling is the shell's business."""
        self._pace.step()
        self._pauses.run(self._obey, message)

    def _obey(self, message: MasterMessage) -> None:
        match message:
            case StopSources():
                self.stop_sources()
            case StayForSavepoint():
                self.stays = True
                self._messages.append(TaskStays())
            case MayEnd():
                self.stays = False
            case WatermarkAlignmentUpdate():
                self._align(message)
            case ExplainWatermark(question, vertex_id, operator):
                for vertex in self._vertices:
                    if vertex.plan.id == vertex_id:
                        self._messages.append(WatermarkExplained(question, explain(vertex, operator)))
            case QueryState():
                self._messages.append(self.queryable.answer(message))
            case TriggerCheckpoint(order):
                self._trigger(order)
            case CheckpointCompleted(checkpoint_id, final):
                self._checkpoint_completed(checkpoint_id, final)
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

    def _align(self, update: WatermarkAlignmentUpdate) -> None:
        """A group of sources has moved on, or has to wait."""
        for vertex in self._sources:
            alignment = None if vertex.source is None else vertex.source.watermark_alignment
            if alignment is not None and alignment.group == update.group:
                alignment.update(update.watermark)

    def _watermark_reports(self) -> list[WatermarkReport]:
        """What sources of alignment groups have to tell the job master."""
        reports: list[WatermarkReport] = []
        for vertex in self._sources:
            alignment = None if vertex.source is None else vertex.source.watermark_alignment
            if alignment is not None and (watermark := alignment.take()) is not None:
                operator_id = vertex.plan.operators[0].id
                reports.append(WatermarkReport(alignment.group, operator_id, vertex.subtask, watermark))
        return reports

    def ready(self) -> bool:
        """Whether some source could produce, or some timer could fire, right now."""
        now = self._services.now()
        if not self.may_receive or any(v.source.ready(now) for v in self._sources if v.source is not None):
            return True
        return self._next_deadline() <= now

    def next_poll(self, sources_from: float = -math.inf) -> float:
        """When a source or a timer wants `poll` to be called; infinity when only a wake-up will tell.

        Sources want it from ``sources_from`` on, when what they make before that could not leave anyway. While a call waits,
        when that has to be looked at.
        """
        if self._pauses.waits:
            return self._pauses.deadline
        waiting = [v.source.retry_at for v in self._sources if v.source is not None and not v.source.ended]
        return min(max(min(waiting, default=math.inf), sources_from), self._next_deadline())

    def _next_deadline(self) -> float:
        return min((v.next_deadline() for v in self._vertices if not v.finished), default=math.inf)

    # Output -------------------------------------------------------------------------------------------

    def take(self, idle: bool) -> list[tuple[int, bytes]]:
        """Rows for the next stage.

        When the task is idle, or the buffer timeout would be over at the next look, partly filled chunks leave too: an
        idle pipeline answers at once, a busy one sends big chunks.
        """
        flush = idle
        if self.flush_is_due:
            flush, self._flushed_at = True, self._services.now()
        if flush:
            for vertex in self._flushing:
                vertex.flush()
        return self._outbox.take(flush=flush)

    @property
    def has_much_to_send(self) -> bool:
        """Whether there are enough rows for it to be worth sending them, or somebody waits for one of them."""
        return self._outbox.has_much

    @property
    def records_sent(self) -> int:
        """How many records have left so far, those of relayed payloads not counted."""
        return sum(vertex.records_sent for vertex in self._vertices)

    @property
    def flush_is_due(self) -> bool:
        """Whether partly filled chunks have waited for so long that the next look may come when their time is over."""
        return self._services.now() - self._flushed_at >= self._flush_after

    def report(self) -> TaskReport:
        """Counters, accumulators and metrics so far."""
        metrics: list[MetricValue] = []
        system: list[MetricValue] = []
        accumulators: dict[str, Any] = {}
        for operator, subtask in ((each, v.subtask) for v in self._vertices for each in v.chain):
            plan = operator.plan
            metrics += [
                MetricValue(plan.name, plan.id, subtask, *reading)
                for reading in operator.context.metrics.readings()
            ]
            system += [
                MetricValue(plan.name, plan.id, subtask, *reading)
                for reading in operator.context.system_metrics.readings()
            ]
            for name, accumulator in operator.context.accumulators.items():
                if name in accumulators:
                    accumulators[name].merge(accumulator)
                else:
                    accumulators[name] = copy.deepcopy(accumulator)
        statistics = [entry for vertex in self._vertices for entry in vertex.statistics()]
        return TaskReport(
            tuple(statistics),
            accumulators,
            tuple(metrics),
            system=tuple(system),
            subtasks=tuple(vertex.subtask_statistics() for vertex in self._vertices),
            began=self._opened_at,
            at=self._services.now(),
        )

    def describe_memory(self) -> str:
        """What is known to take memory in this task, for whoever finds that it takes too much."""
        return "; ".join(vertex.describe_memory() for vertex in self._vertices)

    # Construction -------------------------------------------------------------------------------------

    def _hosts(self, vertex: VertexPlan) -> bool:
        return vertex.first_task <= self._task.index < vertex.first_task + vertex.parallelism

    def _create(self, vertex: VertexPlan) -> VertexSubtask:
        subtask = self._task.index - vertex.first_task
        routers = {
            edge.id: create_router(
                self._plan,
                edge,
                subtask,
                self._outbox,
                self._settings,
                self._services.random,
                self._services.pace,
            )
            for edge in self._plan.edges_from(vertex.id)
        }
        return VertexSubtask(
            self._plan,
            vertex,
            subtask,
            routers,
            self._services,
            self._settings,
            self._checkpointing,
            self._on_barriers,
        )


# Pauses -----------------------------------------------------------------------------------------------
# A task's work can stop in the middle of a call and resume later, so that what it made can leave first. User code may give
# any number of results in one call, and results have to leave while they are made. So the work runs in a greenlet:
# `pause`, called from anywhere inside, hands control back to whoever drives the task; `resume` continues behind it.
# Nothing else of the task runs in between: a pause is a place to send, not to process.


class Pauses:
    """Runs calls that may pause, one at a time, all of them in one greenlet: a new one costs as much as ten records."""

    def __init__(self) -> None:
        self._worker: greenlet | None = None
        #: What drives the task: where the worker hands control to.
        self._driver: greenlet | None = None
        self._is_paused = False
        # User code sees one context in all its calls, as if they came from one thread.
        self._context: contextvars.Context | None = None
        self._until: Callable[[], bool] | None = None
        self._deadline: Callable[[], float] = lambda: math.inf

    @property
    def paused(self) -> bool:
        """Whether a call has been begun and waits for `resume`."""
        return self._is_paused

    def run(self, call: Callable[..., Any], *arguments: Any) -> None:
        """Call it; returns when the call has returned or paused. What it raises is raised here."""
        assert not self._is_paused, "the last call has not ended yet"
        worker = self._worker
        if worker is None or worker.dead:
            if self._context is None:  # not "or": a context without variables counts as false
                self._context = contextvars.copy_context()
            worker = self._worker = greenlet(self._work)
            worker.gr_context = self._context
            self._switch(worker)  # to where it waits for calls
        self._switch(worker, call, arguments)

    def resume(self) -> None:
        """Go on behind the pause; returns when the call has returned or paused again."""
        assert self._worker is not None
        self._switch(self._worker)

    def pause(self) -> None:
        """Hand control to whoever drives the task, from inside a call; does nothing outside of one."""
        if getcurrent() is self._worker:
            self._is_paused = True
            self._hand_control()

    def wait(self, until: Callable[[], bool], deadline: Callable[[], float]) -> None:
        """Pause until something is so, from inside a call; ``deadline`` tells when to look again."""
        self._until, self._deadline = until, deadline
        try:
            while not until():
                if getcurrent() is self._worker:
                    self.pause()
                else:
                    time.sleep(_LOOK_SECONDS)  # nobody drives the task at the moment
        finally:
            self._until = None

    @property
    def waits(self) -> bool:
        """Whether a call has paused until something is so, and it is not."""
        return self._is_paused and self._until is not None and not self._until()

    @property
    def deadline(self) -> float:
        """When to look again at what a call waits for."""
        return self._deadline()

    def abandon(self) -> None:
        """End a call that waits; its ``finally`` blocks run, and it may not pause in them.

        Nothing of the thread is kept: whoever ends one to whose first greenlet somebody still refers has greenlet import
        modules in the middle of whatever the main thread does, and that fails in generated code without builtins.
        """
        worker, self._worker = self._worker, None
        self._driver = None
        if self._is_paused and worker is not None:
            self._is_paused = False
            worker.parent = getcurrent()
            worker.throw(GreenletExit)

    def _switch(self, worker: greenlet, *arguments: Any) -> None:
        # What a call raises ends the worker and is raised in its parent.
        worker.parent = self._driver = getcurrent()
        self._is_paused = False
        worker.switch(*arguments)

    def _hand_control(self) -> Any:
        driver = self._driver
        assert driver is not None
        return driver.switch()

    def _work(self) -> None:
        """The body of the greenlet: one call after the other."""
        while True:
            call, arguments = self._hand_control()
            call(*arguments)
            del call, arguments  # nothing is kept alive until the next one
