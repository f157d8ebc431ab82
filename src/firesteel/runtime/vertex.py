"""One subtask of a vertex inside a task: its chain of live operators, its inputs, its event-time clock."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from firesteel.common.configuration import Configuration
from firesteel.common.errors import DataLossError
from firesteel.common.options import (
    AUTO_WATERMARK_INTERVAL,
    CHECKPOINTING_MODE,
    SAVEPOINT_IGNORE_UNCLAIMED,
)
from firesteel.common.time import MIN_TIMESTAMP
from firesteel.common.typeinfo import TypeInformation
from firesteel.plan.job_plan import EdgePlan, JobPlan, OperatorPlan, VertexPlan
from firesteel.plan.messages import OperatorStatistics
from firesteel.plan.operator_specs import RuntimeMode, TwoInputTransformSpec
from firesteel.plan.state_handles import CheckpointKind, CheckpointOrder, Restore
from firesteel.runtime.alignment import Alignment, WaitingInput
from firesteel.runtime.blame import RAISED_BY_USERS, Blame
from firesteel.runtime.held_input import HeldInput
from firesteel.runtime.operator import OperatorContext, Receiver
from firesteel.runtime.operator_chain import Branch, ChainLink, ChainOutput
from firesteel.runtime.operator_factory import create_operator
from firesteel.runtime.operators.source import SourceOperator
from firesteel.runtime.restore import SegmentReader
from firesteel.runtime.router import Router
from firesteel.runtime.runtime_context import TaskRuntimeContext
from firesteel.runtime.selected_input import Receive, SelectedInput
from firesteel.runtime.services import TaskServices
from firesteel.runtime.subtask_checkpoints import SubtaskCheckpoints
from firesteel.runtime.subtask_snapshot import SubtaskSnapshot
from firesteel.runtime.watermark_valve import WatermarkValve
from firesteel.runtime.wire_format import BARRIER, Header
from firesteel.state.backends import create_backend
from firesteel.state.hashmap_backend import HashMapBackend
from firesteel.state.operator_state import OperatorStateBackend


class InputChannel:
    """The receiving end of one channel: checks the sequence, knows its input and its place in the valve."""

    __slots__ = ("edge", "ended", "expected", "held", "receive", "sender", "valve_index", "vertex")

    def __init__(self, vertex: VertexSubtask, edge: EdgePlan, sender: int, valve_index: int) -> None:
        self.vertex = vertex
        self.edge = edge
        self.sender = sender
        self.valve_index = valve_index
        self.receive: Receive = vertex.head.receive if edge.input_index == 0 else vertex.head.receive_second
        self.expected = 0
        self.ended = False
        self.held: HeldInput | None = None  # where payloads wait for another input to end

    def check(self, header: Header) -> None:
        """Refuse a payload that is not the next one; after the end only barriers may come."""
        sequence = header.sequence
        if sequence != self.expected or (self.ended and header.kind != BARRIER):
            raise DataLossError(
                f"payload {sequence} arrived on edge {self.edge.id} from subtask {self.sender + 1} at "
                f"{self.vertex.plan.name!r} ({self.vertex.subtask + 1}/{self.vertex.plan.parallelism}), expected "
                f"{'nothing after the end' if self.ended else self.expected}: records were lost, repeated or reordered"
            )
        self.expected = sequence + 1


class VertexSubtask:
    """A chain at work. Input arrives through its channels, output leaves through its routers."""

    def __init__(
        self,
        plan: JobPlan,
        vertex: VertexPlan,
        subtask: int,
        routers: Mapping[int, Router],
        services: TaskServices,
        checkpointing: bool = False,
    ) -> None:
        self.plan = vertex
        self.subtask = subtask
        self.finished = False
        self._mode = plan.mode
        self._configuration = Configuration.from_dict(dict(plan.options))
        self._chosen_backend = plan.state_backend
        self._watermark_interval = watermark_interval(plan)
        self._job_parameters = plan.job_parameters
        self._services = services
        self._routers = list(routers.values())
        self.contexts: list[TaskRuntimeContext] = []
        self.backends: list[HashMapBackend] = []  # the keyed state of each operator
        self.operator_states: list[OperatorStateBackend] = []  # its list states
        self._checkpointing = checkpointing
        self._restored: Restore | None = None
        self.links = self._build_links(plan, routers)
        self.head = self.links[0]
        self._timed = [link for link in self.links if link.is_timed]
        self.channels = self._build_channels(plan)
        self._open_channels = len(self.channels)
        self._valve = WatermarkValve(len(self.channels))
        self.held = self._hold_inputs()
        self.selected = self._select_inputs()
        exactly_once = self._configuration.get(CHECKPOINTING_MODE) == "EXACTLY_ONCE"
        self.alignment = Alignment(len(self.channels), exactly_once)
        self.waiting = WaitingInput()
        self._aligning_since = 0.0
        self._suspended_by: int | None = None  # the STOP checkpoint for which the source pauses
        self._checkpoints = SubtaskCheckpoints(
            vertex, subtask, self.links, self.backends, self.operator_states, services.now
        )

    @property
    def source(self) -> SourceOperator | None:
        """The source at the head of the chain, when there is one."""
        operator = self.head.operator
        return operator if isinstance(operator, SourceOperator) else None

    # Life cycle ---------------------------------------------------------------------------------------

    def open(self) -> None:
        """Open the operators, last one first: whoever receives is ready before anyone sends."""
        for index, link in reversed(list(enumerate(self.links))):
            keyed = any(self.plan.operators[index].key_selectors)
            link.open(
                OperatorContext(
                    link.output,
                    self.contexts[index],
                    self._services,
                    self._mode,
                    self._watermark_interval,
                    self.operator_states[index],
                    self.backends[index] if keyed else None,
                    None if self._restored is None else self._restored.checkpoint_id,
                    self._checkpointing,
                )
            )
            self.backends[index].opened()
        if self._restored is not None and self._restored.changed_program:
            self._checkpoints.check_unclaimed(drop=self._configuration.get(SAVEPOINT_IGNORE_UNCLAIMED))
        if self._valve.clock > MIN_TIMESTAMP:
            self.head.watermark(self._valve.clock)

    def restore(self, restore: Restore, reader: SegmentReader) -> None:
        """Go on from a checkpoint; before `open`."""
        self._restored = restore
        clock = self._checkpoints.restore(restore, reader)
        if self.channels:
            self._valve.resume(clock)

    def poll(self, limit: int) -> bool:
        """Let the source produce a batch."""
        produced = self.head.poll(limit)
        self.finished = self.source is not None and self.source.ended
        return produced

    def close(self) -> list[Exception]:
        """Close all operators; what goes wrong with one does not keep the others open."""
        self.stop_holding()
        if self.selected is not None:
            self.selected.close()
        self.waiting.close()
        errors: list[Exception] = []
        for link in self.links:
            try:
                link.close()
            except Exception as error:  # noqa: BLE001 - collected for the caller to decide
                errors.append(error)
        return errors + self._close_backends()

    def _close_backends(self) -> list[Exception]:
        errors: list[Exception] = []
        for backend in self.backends:
            try:
                backend.close()
            except Exception as error:  # noqa: BLE001 - a store of the user's own may raise, too
                errors.append(error)
        return errors

    # Input --------------------------------------------------------------------------------------------

    def watermark(self, channel: InputChannel, timestamp: int) -> None:
        """A watermark on one channel."""
        clock = self._valve.watermark(channel.valve_index, timestamp)
        if clock is not None:
            self.head.watermark(clock)

    def status(self, channel: InputChannel, active: bool) -> None:
        """Idleness of one channel."""
        clock, status = self._valve.status(channel.valve_index, active)
        if clock is not None:
            self.head.watermark(clock)
        if status is not None:
            self.head.status(status)

    def end(self, channel: InputChannel) -> None:
        """The end of one channel; the last one ends the subtask."""
        channel.ended = True
        if self.held is not None and channel.held is None:
            self.held.awaited_ended()
        if self.selected is not None:
            self.selected.channel_ended(channel.edge.input_index)
        self._open_channels -= 1
        if self._open_channels == 0:
            self.head.end()
            self.finished = True

    # Checkpoints --------------------------------------------------------------------------------------

    def trigger(self, order: CheckpointOrder) -> SubtaskSnapshot:
        """Begin a checkpoint here, at a source."""
        snapshot = self._checkpoints.take(order, MIN_TIMESTAMP)
        if order.kind is CheckpointKind.STOP and self.source is not None:
            self._suspended_by = order.id
            self.source.suspend()
        return snapshot

    def barrier(self, channel: InputChannel, order: CheckpointOrder) -> SubtaskSnapshot | None:
        """A barrier on one channel; with the last one comes the snapshot."""
        if not self.alignment.blocked:
            self._aligning_since = self._services.now()
        if not self.alignment.barrier(channel.valve_index, order):
            return None
        snapshot = self._checkpoints.take(
            order, self._valve.clock, self._services.now() - self._aligning_since
        )
        self.waiting.release()
        return snapshot

    def checkpoint_complete(self, checkpoint_id: int) -> None:
        """A checkpoint is durable."""
        self._checkpoints.confirm(checkpoint_id)

    def checkpoint_aborted(self, checkpoint_id: int) -> None:
        """A checkpoint was given up: nobody waits for its barriers any more."""
        self.alignment.abort(checkpoint_id)
        if not self.alignment.blocked:
            self.waiting.release()
        if self.source is not None and checkpoint_id == self._suspended_by:
            self._suspended_by = None
            self.source.resume()
        self._checkpoints.abort(checkpoint_id)

    # Inputs that wait in BATCH ------------------------------------------------------------------------

    def stop_holding(self) -> None:
        """From now on input is processed as it arrives."""
        if self.held is not None:
            self.held.close()
            self.held = None
            for channel in self.channels:
                channel.held = None

    # Output -------------------------------------------------------------------------------------------

    def next_deadline(self) -> float:
        """When one of the operators waits for the machine's time; infinity when none does."""
        return min((link.operator.next_deadline() for link in self._timed), default=math.inf)

    def on_time(self, now: float) -> None:
        """Let the operators do what is due."""
        for link in self._timed:
            if link.operator.next_deadline() <= now:
                link.on_time(now)
        if self.selected is not None:
            self.selected.ask_again()

    def flush(self) -> None:
        """Turn all buffered output into payloads."""
        for router in self._routers:
            router.channels.flush()

    def statistics(self) -> list[OperatorStatistics]:
        """The counters of all operators."""
        return [link.statistics() for link in self.links]

    # Construction -------------------------------------------------------------------------------------

    def _build_links(self, plan: JobPlan, routers: Mapping[int, Router]) -> list[ChainLink]:
        """The chain's links; built from the last operator, because an output needs its consumers."""
        operators = self.plan.operators
        links: dict[int, ChainLink] = {}
        try:
            for index in reversed(range(len(operators))):
                consumers = self._consumers(index, links, plan, routers)
                links[index] = self._build_link(operators[index], consumers)
        except BaseException as error:
            for failure in self._close_backends():  # nobody else knows them yet
                error.add_note(f"closing state failed, too: {type(failure).__name__}: {failure}")
            raise
        self.contexts.reverse()
        self.backends.reverse()
        self.operator_states.reverse()
        return [links[index] for index in range(len(operators))]

    def _consumers(
        self, index: int, links: Mapping[int, ChainLink], plan: JobPlan, routers: Mapping[int, Router]
    ) -> dict[str | None, list[Receiver]]:
        found: dict[str | None, list[Receiver]] = {}
        for child, operator in enumerate(self.plan.operators):
            if operator.parent == index:
                found.setdefault(operator.parent_tag, []).append(links[child])
        for edge in plan.edges_from(self.plan.id):
            if edge.source_operator == index:
                found.setdefault(edge.side_output, []).append(routers[edge.id])
        return found

    def _build_link(
        self, operator: OperatorPlan, consumers: Mapping[str | None, list[Receiver]]
    ) -> ChainLink:
        state = self._create_backend(operator)
        self.backends.append(state)
        operator_state = OperatorStateBackend(operator=operator.name)
        main = Branch(_converter(operator.output_type), consumers.get(None, []))
        sides = {
            tag: Branch(_converter(operator.side_types.get(tag)), receivers)
            for tag, receivers in consumers.items()
            if tag is not None
        }
        user_code = operator.spec.user_code
        blame = Blame(
            operator.name,
            self.subtask,
            self.plan.parallelism,
            "" if user_code is None else user_code.description,
        )
        try:
            live = create_operator(operator, state, operator_state)
        except RAISED_BY_USERS as error:
            raise blame.error(error) from error
        self.operator_states.append(operator_state)
        link = ChainLink(operator.id, live, ChainOutput(main, sides), blame, state, operator.key_selectors)
        context = TaskRuntimeContext(
            operator.name,
            self.plan,
            self.subtask,
            self._services,
            self._job_parameters,
            state if any(operator.key_selectors) else None,
        )
        if not isinstance(live, SourceOperator):
            context.metrics.gauge("currentInputWatermark", lambda: link.current_watermark)
        context.metrics.gauge("currentOutputWatermark", lambda: link.output.current_watermark)
        self.contexts.append(context)
        return link

    def _create_backend(self, operator: OperatorPlan) -> HashMapBackend:
        if not any(operator.key_selectors):
            return HashMapBackend(self._services.now)
        return create_backend(
            self._configuration, self._services.now, operator.name, self.subtask, self._chosen_backend
        )

    def _build_channels(self, plan: JobPlan) -> list[InputChannel]:
        found: list[InputChannel] = []
        for edge in plan.edges_into(self.plan.id):
            senders = plan.vertices[edge.source].parallelism
            for sender in edge.distribution.sources(self.subtask, senders, self.plan.parallelism):
                found.append(InputChannel(self, edge, sender, len(found)))
        return found

    def _hold_inputs(self) -> HeldInput | None:
        """Where some inputs wait for another one to end; None when all are processed as they arrive."""
        first = self.plan.operators[0].spec.reads_first
        if first is None or self._mode is not RuntimeMode.BATCH:
            return None
        waiting = [channel for channel in self.channels if channel.edge.input_index != first]
        held = HeldInput(awaited=len(self.channels) - len(waiting))
        for channel in waiting:
            channel.held = held
        return held

    def _select_inputs(self) -> SelectedInput | None:
        """Where inputs wait that the operator does not want to read yet; None when it wants all at any time."""
        spec = self.plan.operators[0].spec
        if not isinstance(spec, TwoInputTransformSpec) or not spec.selects:
            return None
        head, indexes = self.head, [channel.edge.input_index for channel in self.channels]
        selected = SelectedInput(
            head.next_selection, (head.receive, head.receive_second), (indexes.count(0), indexes.count(1))
        )
        for channel in self.channels:
            channel.receive = selected.receiver(channel.edge.input_index)
        return selected


def watermark_interval(plan: JobPlan) -> int:
    """How often periodic watermarks are made in this job, in milliseconds; 0 for never."""
    return Configuration.from_dict(dict(plan.options)).get(AUTO_WATERMARK_INTERVAL).to_millis()


def _converter(type_info: TypeInformation | None) -> Any:
    return None if type_info is None else type_info.batch_converter()
