"""Connects the operators of a vertex: hop 3 of a record's journey.

Each operator sits in a `ChainLink`, which counts its records and puts its name on errors. Its output
calls the next links (and routers) directly, batch by batch. Within a chain nothing is serialised.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

from firesteel.common._values import private_all
from firesteel.common.errors import JobExecutionError, StateError, TypeMismatchError
from firesteel.common.time import MIN_TIMESTAMP
from firesteel.contracts.stream_operators import InputSelection
from firesteel.plan.job_plan import OperatorPlan
from firesteel.plan.messages import OperatorStatistics
from firesteel.plan.state_handles import CheckpointOrder
from firesteel.runtime.blame import (
    NO_RECORD,
    RAISED_BY_USERS,
    Blame,
    failing_record,
    mismatched_record,
)
from firesteel.runtime.elements import LatencyMarker
from firesteel.runtime.key_reader import KeyReader
from firesteel.runtime.latency import Latencies
from firesteel.runtime.operator import Operator, OperatorContext, Receiver, Timestamps
from firesteel.runtime.operators.announced import wants_keys_first
from firesteel.runtime.pace import Pace
from firesteel.runtime.runtime_context import TaskRuntimeContext
from firesteel.runtime.state_figures import StateFigures
from firesteel.state.keyed_backend import KeyedBackend
from firesteel.state.operator_state import OperatorStateBackend

Converter = Callable[[list[Any]], list[Any]]
Emit = Callable[[list[Any], Timestamps], None]
Process = Callable[[list[Any], Timestamps], None]
ReceiveSome = Callable[[list[Any], Timestamps], int]


class Branch:
    """One output of an operator: converts values to the declared type, hands them to all consumers."""

    def __init__(
        self,
        converter: Converter | None,
        consumers: Sequence[Receiver],
        blame: Blame,
        protects: bool = True,
        gives_immutable: bool = False,
    ) -> None:
        self._converter = converter
        self.consumers = list(consumers)
        self._blame = blame
        self._protects = protects
        self._gives_immutable = gives_immutable
        #: Hands on a batch. Where nothing is left to do but that, a single consumer is called directly.
        self.emit: Emit = self._emit
        if converter is None and len(self.consumers) == 1:
            self.emit = self.consumers[0].receive

    def is_settled(self) -> bool:
        """Whether nobody changes what is emitted here, or nobody can."""
        return self._gives_immutable or all(
            isinstance(consumer, ChainLink) and consumer.operator.leaves_alone()
            for consumer in self.consumers
        )

    def _emit(self, values: list[Any], timestamps: Timestamps) -> None:
        """Consumers may keep lists and change records, so all but the last get copies."""
        if self._converter is not None:
            try:
                values = self._converter(values)
            except TypeMismatchError as error:
                raise self._blame.error(error, mismatched_record(values, error)) from error
        consumers = self.consumers
        for consumer in consumers[:-1]:
            copied = private_all(values) if self._protects and not self._gives_immutable else values.copy()
            consumer.receive(copied, None if timestamps is None else timestamps.copy())
        if consumers:
            consumers[-1].receive(values, timestamps)


class ChainOutput:
    """Where an operator of a chain sends its results: the main branch and one branch per side output."""

    def __init__(self, main: Branch, sides: Mapping[str, Branch]) -> None:
        self._main = main
        self._sides = sides
        self.records_out = 0
        self.current_watermark = MIN_TIMESTAMP
        self.is_active = True
        self._markers_sent = 0

    def emit(self, values: list[Any], timestamps: Timestamps) -> None:
        """Hand on a batch of the main output."""
        if values:
            self.records_out += len(values)
            self._main.emit(values, timestamps)

    def emit_side(self, tag_id: str, values: list[Any], timestamps: Timestamps) -> None:
        """Hand on a batch of a side output; dropped when nobody asked for it."""
        branch = self._sides.get(tag_id)
        if branch is not None and values:
            self.records_out += len(values)
            branch.emit(values, timestamps)

    @property
    def has_consumers(self) -> bool:
        """Whether anything that leaves here arrives somewhere."""
        return bool(self._all())

    def is_settled(self) -> bool:
        """Whether nobody behind the main branch changes what is emitted, or nobody can."""
        return self._main.is_settled()

    def watermark(self, timestamp: int) -> None:
        """Pass a watermark to all consumers."""
        self.current_watermark = timestamp
        for consumer in self._all():
            consumer.watermark(timestamp)

    def status(self, active: bool) -> None:
        """Pass idleness to all consumers."""
        self.is_active = active
        for consumer in self._all():
            consumer.status(active)

    def barrier(self, order: CheckpointOrder) -> None:
        """Send a barrier into the exchanges; the operators of the chain are told by their subtask."""
        for consumer in self._all():
            if not isinstance(consumer, ChainLink):
                consumer.barrier(order)

    def latency_marker(self, marker: LatencyMarker) -> None:
        """Pass a marker to one consumer, each time to the next one: so one never becomes many."""
        consumers = self._all()
        if consumers:
            consumers[self._markers_sent % len(consumers)].latency_marker(marker)
            self._markers_sent += 1

    def end(self) -> None:
        """Tell all consumers that nothing follows."""
        for consumer in self._all():
            consumer.end()

    def _all(self) -> list[Receiver]:
        branches = [self._main, *self._sides.values()]
        return [consumer for branch in branches for consumer in branch.consumers]


class ChainLink:
    """An operator in its place in the chain; also the receiver of its (first) input."""

    def __init__(
        self,
        operator_id: str,
        operator: Operator,
        output: ChainOutput,
        blame: Blame,
        state: KeyedBackend,
        keys: Sequence[KeyReader | None] = (),
        pace: Pace | None = None,
    ) -> None:
        self.operator = operator
        self.output = output
        self.records_in = 0
        self.current_watermark = MIN_TIMESTAMP
        self._is_active = True
        self._id = operator_id
        self._blame = blame
        self._state = state
        self.key_readers = keys  # of each input; None for one without keys
        self._keys = [key for key in keys if key is not None]
        # Of the first and of the second input.
        self._slow_keys = [None if key is None or key.is_quick else key for key in (*keys, None, None)]
        self._pace = Pace() if pace is None else pace
        self._opened = False
        #: Takes the latency of every marker that comes here; None where nobody wants that.
        self.latencies: Latencies | None = None

    def open(self, context: OperatorContext) -> None:
        """Open what computes the keys, then the operator."""
        self._opened = True
        for key in self._keys:
            self._guarded(partial(key.open, context.runtime))
        self._guarded(lambda: self.operator.open(context))

    def receive(self, values: list[Any], timestamps: Timestamps) -> None:
        """A batch of the first input, to its end."""
        left = self.receive_some(values, timestamps)
        if left:
            self._process_rest(self.receive_some, values, timestamps, left)

    def receive_second(self, values: list[Any], timestamps: Timestamps) -> None:
        """A batch of the second input, to its end."""
        left = self.receive_some_second(values, timestamps)
        if left:
            self._process_rest(self.receive_some_second, values, timestamps, left)

    def _process_rest(
        self, receive_some: ReceiveSome, values: list[Any], timestamps: Timestamps, left: int
    ) -> None:
        while left:
            values, timestamps = values[-left:], None if timestamps is None else timestamps[-left:]
            self._pace.breathe()
            left = receive_some(values, timestamps)

    def receive_some(self, values: list[Any], timestamps: Timestamps) -> int:
        """A batch of the first input, or a part of it: returns how many records are left at its end."""
        reader = self._slow_keys[0]
        if reader is None:
            return self._process(self.operator.process, values, timestamps)
        return self._process_with_keys(reader, self.operator.process, values, timestamps)

    def receive_some_second(self, values: list[Any], timestamps: Timestamps) -> int:
        """The same for the second input."""
        reader = self._slow_keys[1]
        if reader is None:
            return self._process(self.operator.process_second, values, timestamps)
        return self._process_with_keys(reader, self.operator.process_second, values, timestamps)

    def _process_with_keys(
        self, reader: KeyReader, process: Process, values: list[Any], timestamps: Timestamps
    ) -> int:
        """Where all keys of a batch are wanted first: those that take too long to read are left, with their records."""
        if not wants_keys_first(self.operator, self._state):
            return self._process(process, values, timestamps)
        self.operator.cursor = iter(values)  # at no record
        first = reader.read_ahead(values, self._pace)
        left = len(values) - len(first)
        if left and timestamps is not None:
            timestamps = timestamps[:-left]
        left += self._process(process, first, timestamps)
        reader.forget()
        return left

    def _process(self, process: Process, values: list[Any], timestamps: Timestamps) -> int:
        operator = self.operator
        try:
            process(values, timestamps)
            left = operator.left
            if left:
                operator.left = 0
            self.records_in += len(values) - left
            self._state.records_passed(len(values) - left)
            return left
        except JobExecutionError:  # explained further down the chain
            raise
        except RAISED_BY_USERS as error:
            raise self._failure(error, values) from error

    def _failure(self, error: Exception | SystemExit, values: list[Any]) -> JobExecutionError:
        """The error to end the job with, for a batch of input."""
        cursor, record = self.operator.cursor, self.operator.culprit
        if record is NO_RECORD:
            record = failing_record(values, cursor, self._pace.taken_out_of(cursor))
        return self._blame.error(error, record)

    def keys_of(self, index: int, values: list[Any]) -> list[Any]:
        """The keys of a batch of input ``index`` that is to be sorted before it is processed."""
        reader = self.key_readers[index]
        assert reader is not None
        key_of = reader.key_of
        keys: list[Any] = []
        while len(keys) < len(values):
            rest = values[len(keys) :] if keys else values
            self.operator.cursor = cursor = self._pace.begin(rest)
            try:
                keys += [key_of(value) for value in cursor]
            except RAISED_BY_USERS as error:
                raise self._failure(error, rest) from error
            if self._pace.end():
                self._pace.breathe()
        return keys

    def end_keys(self) -> None:
        """Nothing follows for the keys so far."""
        self._guarded(self.operator.end_keys)
        if self.operator.forgets_keys:
            self._state.forget_keys()

    def watermark(self, timestamp: int) -> None:
        """Event time advanced."""
        self.current_watermark = timestamp
        self._guarded(lambda: self.operator.on_watermark(timestamp))

    def status(self, active: bool) -> None:
        """The input became idle or active again."""
        self._is_active = active
        self._guarded(lambda: self.operator.on_status(active))

    def latency_marker(self, marker: LatencyMarker) -> None:
        """Take a marker's latency, tell the operator, and send it on."""
        if self.latencies is not None:
            self.latencies.record(marker)
        self._guarded(lambda: self.operator.on_latency_marker(marker))
        self.output.latency_marker(marker)

    @property
    def is_timed(self) -> bool:
        """Whether the operator ever waits for a time."""
        return type(self.operator).next_deadline is not Operator.next_deadline

    def on_time(self, now: float) -> None:
        """The machine's time has come to the operator's deadline."""
        self._guarded(lambda: self.operator.on_time(now))

    # Checkpoints.

    def barrier(self, order: CheckpointOrder) -> None:
        """Never called: within a chain there are no channels, and the subtask takes the snapshots of all links."""
        raise AssertionError("barriers do not pass through chains")

    def prepare_barrier(self, order: CheckpointOrder) -> None:
        """Let the operator emit what has to be before a barrier."""
        self._guarded(lambda: self.operator.prepare_barrier(order))

    def snapshot(self, order: CheckpointOrder) -> None:
        """Let the operator bring its states up to date."""
        self._guarded(lambda: self.operator.snapshot(order))

    def notify_complete(self, checkpoint_id: int) -> None:
        """A checkpoint is durable."""
        self._guarded(lambda: self.operator.notify_complete(checkpoint_id))

    def notify_aborted(self, checkpoint_id: int) -> None:
        """A checkpoint was aborted."""
        self._guarded(lambda: self.operator.notify_aborted(checkpoint_id))

    def next_selection(self) -> InputSelection:
        """Which input the operator wants to read next; only for one that chooses."""
        operator: Any = self.operator
        selection: InputSelection = self._guarded(operator.next_selection)
        return selection

    def end(self) -> None:
        """All input is there: let the operator emit what it held back, then tell the next ones."""
        self._guarded(self.operator.finish)
        self.output.end()

    def poll(self, limit: int) -> bool:
        """Let a source produce a batch; tell the next ones when it has ended."""
        source: Any = self.operator
        try:
            produced: bool = source.poll(limit)
        except JobExecutionError:
            raise
        except RAISED_BY_USERS as error:
            taken_out = self._pace.taken_out_of(source.cursor)
            raise self._blame.error(error, failing_record(source.batch, source.cursor, taken_out)) from error
        if source.ended:
            self.output.end()
        return produced

    def stop(self) -> None:
        """Let a source end as if its input had ended."""
        source: Any = self.operator
        self._guarded(source.stop)

    def close(self) -> None:
        """Close the operator, once, and only when it was opened."""
        if self._opened:
            self._opened = False
            with ExitStack() as last:
                for key in self._keys:
                    last.callback(self._guarded, key.close)
                self._guarded(self.operator.close)

    def statistics(self) -> OperatorStatistics:
        """The counters so far."""
        return OperatorStatistics(
            self._id, self._blame.subtask, self.records_in, self.output.records_out, self._shown_watermark()
        )

    def _shown_watermark(self) -> int | None:
        output = self.output
        if output.has_consumers:
            watermark, active = output.current_watermark, output.is_active
        else:
            watermark, active = self.current_watermark, self._is_active
        return watermark if active and watermark > MIN_TIMESTAMP else None

    def _guarded(self, action: Callable[[], Any]) -> Any:
        try:
            return action()
        except (JobExecutionError, StateError):  # both say what is wrong, and where
            raise
        except RAISED_BY_USERS as error:
            raise self._blame.error(error, self.operator.culprit) from error


@dataclass(frozen=True, slots=True)
class OperatorSubtask:
    """One operator of a chain: what was planned, and what there is of it in one subtask."""

    plan: OperatorPlan
    link: ChainLink
    context: TaskRuntimeContext
    keyed_state: KeyedBackend
    operator_state: OperatorStateBackend
    state_figures: StateFigures | None = None

    @property
    def is_keyed(self) -> bool:
        """Whether it has keys, and so may have keyed state."""
        return any(self.plan.key_selectors)
