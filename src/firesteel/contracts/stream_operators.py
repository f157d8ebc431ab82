"""Operators that users write whole: they get records, watermarks, timers and checkpoints, and decide what goes on.

A function is called by an operator that the library has; ``stream.transform(name, operator)`` attaches an operator
itself. It may emit at any time, hold records and watermarks back, handle whole batches, and - with two inputs -
choose which one is read next (`InputSelectable`). Most programs need no more than a process function.

The life of an operator in a subtask: ``setup``, ``initialize_state``, ``open``; then records, watermarks, timers and
checkpoints; ``finish`` when all input has ended; ``close``, which is also called after a failure.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import Enum
from typing import Any

from firesteel.common._override import override
from firesteel.contracts.checkpointing import (
    CheckpointedFunction,
    CheckpointListener,
    FunctionInitializationContext,
    FunctionSnapshotContext,
)
from firesteel.contracts.functions import Function
from firesteel.contracts.output_tag import OutputTag
from firesteel.contracts.runtime_context import RuntimeContext
from firesteel.contracts.timers import TimerService

__all__ = [
    "InputSelectable",
    "InputSelection",
    "OneInputStreamOperator",
    "Output",
    "StreamOperator",
    "StreamOperatorContext",
    "TwoInputStreamOperator",
]

#: The event times of a batch, one for each record, or None when no record of it has one.
Timestamps = list[int | None] | None


class Output(ABC):
    """Where an operator's results go. They leave in the order in which they were given, in batches."""

    @abstractmethod
    def collect(self, value: Any, timestamp: int | None = None) -> None:
        """Emit a record; without a timestamp it gets that of the record or event-time timer at hand."""

    @abstractmethod
    def collect_side(self, output_tag: OutputTag, value: Any, timestamp: int | None = None) -> None:
        """Emit a record to a side output."""

    @abstractmethod
    def emit_watermark(self, timestamp: int) -> None:
        """Say that event time has come to ``timestamp``, behind what was emitted before; it never goes back."""


class StreamOperatorContext(ABC):
    """What an operator can reach in its subtask."""

    @property
    @abstractmethod
    def output(self) -> Output:
        """Where results go."""

    @property
    @abstractmethod
    def runtime_context(self) -> RuntimeContext:
        """Name, subtask, parameters, metrics, and keyed state on a keyed stream."""

    @property
    @abstractmethod
    def timer_service(self) -> TimerService:
        """Both times; timers on a keyed stream."""

    @property
    @abstractmethod
    def current_key(self) -> Any:
        """The key of the record or timer at hand."""

    @abstractmethod
    def for_each(
        self, values: list[Any], timestamps: Timestamps, function: Callable[[Any, int | None], None]
    ) -> None:
        """Call ``function`` with each record and its time, each being the record at hand with its key in its turn."""


class StreamOperator(Function, CheckpointedFunction, CheckpointListener):
    """Base of all operators; override what you need.

    It travels to its subtasks by pickling, as functions do. Make connections and ask for states in ``open``.
    """

    _context: StreamOperatorContext | None = None

    # What it can reach --------------------------------------------------------------------------------

    def setup(self, context: StreamOperatorContext) -> None:
        """Take the context, first of all; one that overrides it calls ``super().setup(context)``."""
        self._context = context

    @property
    def context(self) -> StreamOperatorContext:
        """What ``setup`` was given; raises RuntimeError before that."""
        if self._context is None:
            raise RuntimeError(
                f"{type(self).__name__} has no context: it gets one from setup() in its subtask, after __init__; "
                "an operator that overrides setup() has to call super().setup(context)"
            )
        return self._context

    @property
    def output(self) -> Output:
        """Where results go; raises RuntimeError before ``setup``, as `context` does."""
        return self.context.output

    def get_runtime_context(self) -> RuntimeContext:
        """Name, subtask, parameters, metrics, and keyed state on a keyed stream."""
        return self.context.runtime_context

    def get_timer_service(self) -> TimerService:
        """Both times; timers on a keyed stream, which call `on_event_time` and `on_processing_time`."""
        return self.context.timer_service

    def get_current_key(self) -> Any:
        """The key of the record or timer at hand."""
        return self.context.current_key

    # Time ---------------------------------------------------------------------------------------------

    def process_watermark(self, timestamp: int) -> None:
        """Event time has come to ``timestamp`` on all inputs, and the timers that were due have fired.

        As it is, the watermark goes on. One that overrides it may hold it back or emit another; the operators behind
        learn of no time that is not emitted, not even of the end of time.
        """
        self.output.emit_watermark(timestamp)

    def process_latency_marker(self, marked_time: int, source_id: str, source_subtask: int) -> None:
        """A latency marker passes, made at ``marked_time`` (milliseconds since 1970) by a subtask of a source.

        Its latency is taken and it is sent on, whatever happens here.
        """

    def on_event_time(self, timestamp: int) -> None:
        """An event-time timer is due; its key is in context."""

    def on_processing_time(self, timestamp: int) -> None:
        """A processing-time timer is due; its key is in context."""

    # Checkpoints --------------------------------------------------------------------------------------

    @override
    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Ask for the states of the subtask, before ``open``; they hold what was restored."""

    def prepare_snapshot_pre_barrier(self, checkpoint_id: int) -> None:
        """A checkpoint is about to be taken: the last chance to emit what shall not be in its state."""

    @override
    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Bring the states up to date. Nothing can be emitted here: the barrier has been sent on already."""

    @override
    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """The checkpoint, and with it every earlier one, will never be undone."""

    # The end ------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """All input has ended: emit what was held back. Nothing can be emitted later."""


class OneInputStreamOperator(StreamOperator):
    """An operator for ``stream.transform``."""

    @abstractmethod
    def process_element(self, value: Any, timestamp: int | None) -> None:
        """Handle a record; ``timestamp`` is its event time in milliseconds, None when it has none."""

    def process_batch(self, values: list[Any], timestamps: Timestamps) -> None:
        """Handle some records at once; as it is, each goes to `process_element`.

        One that overrides it gives results their timestamps itself, since there is no record at hand, and on a keyed
        stream no key either: ``self.context.for_each(values, timestamps, method)`` goes through records with both.
        How records are divided into batches differs from run to run.
        """
        self.context.for_each(values, timestamps, self.process_element)


class TwoInputStreamOperator(StreamOperator):
    """An operator for ``connected.transform``."""

    @abstractmethod
    def process_element1(self, value: Any, timestamp: int | None) -> None:
        """Handle a record of the first input."""

    @abstractmethod
    def process_element2(self, value: Any, timestamp: int | None) -> None:
        """Handle a record of the second input."""

    def process_batch1(self, values: list[Any], timestamps: Timestamps) -> None:
        """Handle some records of the first input at once; see `OneInputStreamOperator.process_batch`."""
        self.context.for_each(values, timestamps, self.process_element1)

    def process_batch2(self, values: list[Any], timestamps: Timestamps) -> None:
        """Handle some records of the second input at once."""
        self.context.for_each(values, timestamps, self.process_element2)


class InputSelection(Enum):
    """Which inputs an operator wants to read next."""

    FIRST = 1
    SECOND = 2
    ALL = 3


class InputSelectable(ABC):
    """Mixed into a `TwoInputStreamOperator` that chooses which of its inputs is read next.

    What comes on the other input - records, watermarks and its end - is kept by the subtask, in memory and then in
    a temporary file. Since it cannot be part of a checkpoint, a program with such an operator and with checkpoints
    is refused.
    """

    @abstractmethod
    def next_selection(self) -> InputSelection:
        """The input to read next; asked before the first record, and again after each record.

        It is also asked after a watermark, a change of idleness, the end of a channel or a timer: each may have
        changed the choice. When the chosen input has ended, the other one is read.
        """
