"""Connects the operators of a vertex: hop 3 of a record's journey.

Each operator sits in a `ChainLink`, which counts its records and puts its name on errors. Its output
calls the next links (and routers) directly, batch by batch. Within a chain nothing is serialised.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from firesteel.common.errors import JobExecutionError, StateError, TypeMismatchError
from firesteel.common.time import MIN_TIMESTAMP
from firesteel.contracts.stream_operators import InputSelection
from firesteel.plan.messages import OperatorStatistics
from firesteel.plan.shipped import Shipped
from firesteel.plan.state_handles import CheckpointOrder
from firesteel.runtime.blame import (
    NO_RECORD,
    RAISED_BY_USERS,
    Blame,
    explain_key,
    failing_record,
    is_unhashable,
    mismatched_record,
)
from firesteel.runtime.operator import Operator, OperatorContext, Receiver, Timestamps
from firesteel.runtime.user_function import UserFunction
from firesteel.state.hashmap_backend import HashMapBackend

Converter = Callable[[list[Any]], list[Any]]


class Branch:
    """One output of an operator: converts values to the declared type, hands them to all consumers."""

    def __init__(self, converter: Converter | None, consumers: Sequence[Receiver]) -> None:
        self._converter = converter
        self.consumers = list(consumers)

    def emit(self, values: list[Any], timestamps: Timestamps) -> None:
        """Hand on a batch. Consumers may keep the lists, so all but the last get copies."""
        if self._converter is not None:
            values = self._converter(values)
        consumers = self.consumers
        for consumer in consumers[:-1]:
            consumer.receive(values.copy(), None if timestamps is None else timestamps.copy())
        if consumers:
            consumers[-1].receive(values, timestamps)


class ChainOutput:
    """Where an operator of a chain sends its results: the main branch and one branch per side output."""

    def __init__(self, main: Branch, sides: Mapping[str, Branch]) -> None:
        self._main = main
        self._sides = sides
        self.records_out = 0
        self.current_watermark = MIN_TIMESTAMP
        self.blame: Blame

    def emit(self, values: list[Any], timestamps: Timestamps) -> None:
        """Hand on a batch of the main output."""
        if values:
            self.records_out += len(values)
            self._emit(self._main, values, timestamps)

    def emit_side(self, tag_id: str, values: list[Any], timestamps: Timestamps) -> None:
        """Hand on a batch of a side output; dropped when nobody asked for it."""
        branch = self._sides.get(tag_id)
        if branch is not None and values:
            self.records_out += len(values)
            self._emit(branch, values, timestamps)

    def _emit(self, branch: Branch, values: list[Any], timestamps: Timestamps) -> None:
        try:
            branch.emit(values, timestamps)
        except TypeMismatchError as error:
            raise self.blame.error(error, mismatched_record(values, error)) from error

    def watermark(self, timestamp: int) -> None:
        """Pass a watermark to all consumers."""
        self.current_watermark = timestamp
        for consumer in self._all():
            consumer.watermark(timestamp)

    def status(self, active: bool) -> None:
        """Pass idleness to all consumers."""
        for consumer in self._all():
            consumer.status(active)

    def barrier(self, order: CheckpointOrder) -> None:
        """Send a barrier into the exchanges; the operators of the chain are told by their subtask."""
        for consumer in self._all():
            if not isinstance(consumer, ChainLink):
                consumer.barrier(order)

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
        state: HashMapBackend,
        key_selectors: Sequence[Shipped | None] = (),
    ) -> None:
        self.operator = operator
        self.output = output
        self.records_in = 0
        self.current_watermark = MIN_TIMESTAMP
        self._id = operator_id
        self._blame = blame
        self._state = state
        self._key_selectors = key_selectors
        output.blame = blame
        self._opened = False

    def open(self, context: OperatorContext) -> None:
        """Open the operator."""
        self._opened = True
        self._guarded(lambda: self.operator.open(context))

    def receive(self, values: list[Any], timestamps: Timestamps) -> None:
        """A batch of the first input."""
        self.records_in += len(values)
        try:
            self.operator.process(values, timestamps)
            self._state.records_passed(len(values))
        except JobExecutionError:  # explained further down the chain
            raise
        except RAISED_BY_USERS as error:
            raise self._failure(error, values, 0) from error

    def receive_second(self, values: list[Any], timestamps: Timestamps) -> None:
        """A batch of the second input."""
        self.records_in += len(values)
        try:
            self.operator.process_second(values, timestamps)
            self._state.records_passed(len(values))
        except JobExecutionError:
            raise
        except RAISED_BY_USERS as error:
            raise self._failure(error, values, 1) from error

    def _failure(self, error: Exception | SystemExit, values: list[Any], index: int) -> JobExecutionError:
        """The error to end the job with, for a batch of input ``index``."""
        record = failing_record(values, self.operator.cursor)
        selector = self._key_selectors[index] if index < len(self._key_selectors) else None
        if selector is not None and record is not NO_RECORD and is_unhashable(error):
            error = explain_key(error, record, UserFunction(selector).method("get_key"))
        return self._blame.error(error, record)

    def watermark(self, timestamp: int) -> None:
        """Event time advanced."""
        self.current_watermark = timestamp
        self._guarded(lambda: self.operator.on_watermark(timestamp))

    def status(self, active: bool) -> None:
        """The input became idle or active again."""
        self._guarded(lambda: self.operator.on_status(active))

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
        """A checkpoint was given up."""
        self._guarded(lambda: self.operator.notify_aborted(checkpoint_id))

    def next_selection(self) -> InputSelection:
        """Which input the operator wants to read next; only for one that chooses."""
        operator: Any = self.operator
        found: InputSelection = self._guarded(operator.next_selection)
        return found

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
            raise self._blame.error(error, failing_record(source.batch, source.cursor)) from error
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
            self._guarded(self.operator.close)

    def statistics(self) -> OperatorStatistics:
        """The counters so far."""
        return OperatorStatistics(self._id, self._blame.subtask, self.records_in, self.output.records_out)

    def _guarded(self, action: Callable[[], Any]) -> Any:
        try:
            return action()
        except (JobExecutionError, StateError):  # both say what is wrong, and where
            raise
        except RAISED_BY_USERS as error:
            raise self._blame.error(error, NO_RECORD) from error
