"""The pure machine of a task: payloads and polls in, rows for the next stage out.

It has no threads, sockets or clock of its own. A shell drives it - Spark's or the simulator's:

    task.open()
    while not task.finished:
        task.receive(payload)        for every row that arrives
        task.poll()                  when there is nothing to receive: let sources produce
        task.take(idle=...)          rows to send on; idle = nothing more to do right now
    task.close()

A task hosts one subtask of every vertex of its stage that is wide enough to reach it, and relays payloads
of edges that only pass through the stage.
"""

from __future__ import annotations

import copy
import math
from typing import Any

from firesteel.common.errors import DataLossError
from firesteel.plan.job_plan import JobPlan, VertexPlan
from firesteel.plan.messages import AlignmentUpdate, TaskId, TaskReport, WatermarkReport
from firesteel.runtime.elements import Chunk, EndOfInput, StreamStatus, Watermark
from firesteel.runtime.outbox import Outbox
from firesteel.runtime.router import create_router
from firesteel.runtime.services import TaskServices
from firesteel.runtime.vertex import VertexSubtask
from firesteel.runtime.wire_format import Header, decode, read_header

CHUNK_RECORDS = "firesteel.chunk.records"
SOURCE_BATCH = "firesteel.source.batch"


class StageTask:
    """One task of one stage."""

    def __init__(self, plan: JobPlan, task: TaskId, services: TaskServices) -> None:
        self._plan = plan
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
        """Whether every subtask here has processed all its input. Relaying ends with the input itself."""
        return all(vertex.finished for vertex in self._vertices)

    @property
    def has_sources(self) -> bool:
        """Whether `poll` can ever produce anything again."""
        return any(not vertex.finished for vertex in self._sources)

    # Life cycle ---------------------------------------------------------------------------------------

    def open(self) -> None:
        """Open all operators."""
        self._flushed_at = self._services.now()
        for vertex in self._vertices:
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
            return
        channel.check(header.sequence)
        match decode(header.kind, payload):
            case Chunk(values, timestamps):
                channel.receive(values, timestamps)
            case Watermark(timestamp):
                channel.vertex.watermark(channel, timestamp)
            case StreamStatus(active):
                channel.vertex.status(channel, active)
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
        did_something = False
        for vertex in self._vertices:
            if not vertex.finished and vertex.next_deadline() <= now:
                vertex.on_time(now)
                did_something = True
        for vertex in self._sources:
            source = vertex.source
            if source is not None and source.ready(now):
                did_something |= vertex.poll(self._source_batch)
        return did_something

    def align(self, update: AlignmentUpdate) -> None:
        """A group of sources has moved on, or has to wait."""
        for vertex in self._sources:
            alignment = None if vertex.source is None else vertex.source.alignment
            if alignment is not None and alignment.group == update.group:
                alignment.update(update.watermark)

    def take_watermark_reports(self) -> list[WatermarkReport]:
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
        if any(v.source.ready(now) for v in self._sources if v.source is not None):
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
        return VertexSubtask(self._plan, vertex, subtask, routers, self._services)
