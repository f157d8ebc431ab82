"""The operator protocol and its life cycle: open, process batches, finish, close.

Operators take whole batches: a list of values and, when the stream has event time, a parallel list of
timestamps. They hand whole batches on through their `OperatorOutput`. No object is made per record, and no call
crosses operators per record.

An operator passes its part in checkpoints on to its user functions (`FunctionState`): they get their states before ``open``,
bring them up to date, and hear how a checkpoint ended.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from firesteel.common._override import override
from firesteel.common.errors import ProgramError, UnsupportedOperationError, describe_function
from firesteel.common.typeinfo import Types
from firesteel.contracts.checkpointing import (
    CheckpointedFunction,
    CheckpointListener,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    ListCheckpointed,
    Wrapping,
)
from firesteel.contracts.runtime_context import KeyedStateStore, RuntimeContext
from firesteel.contracts.state import ListState, ListStateDescriptor, OperatorStateStore
from firesteel.metrics import MetricGroup
from firesteel.plan.operator_specs import RuntimeMode
from firesteel.plan.state_handles import CheckpointOrder
from firesteel.runtime.blame import NO_RECORD
from firesteel.runtime.elements import LatencyMarker
from firesteel.runtime.pace import Pace
from firesteel.runtime.services import TaskServices
from firesteel.state.operator_state import OperatorStateBackend

Timestamps = list[int | None] | None

#: The list of a `ListCheckpointed` function.
FUNCTION_LIST = "\0function"


class Receiver(Protocol):
    """Whatever takes a batch and the signals between batches: a chained operator or a router."""

    def receive(self, values: list[Any], timestamps: Timestamps) -> None:
        """Take a batch; it may keep the lists."""
        ...

    def watermark(self, timestamp: int) -> None:
        """Event time has come to ``timestamp``."""
        ...

    def status(self, active: bool) -> None:
        """The input became idle or active again."""
        ...

    def barrier(self, order: CheckpointOrder) -> None:
        """What came so far belongs before a checkpoint, what follows behind it."""
        ...

    def latency_marker(self, marker: LatencyMarker) -> None:
        """A marker that tells when its source was here in the stream."""
        ...

    def end(self) -> None:
        """Nothing but barriers follows."""
        ...


class OperatorOutput(Protocol):
    """Where an operator's results go."""

    def emit(self, values: list[Any], timestamps: Timestamps) -> None:
        """Hand on a batch; empty ones are dropped here, so operators need not check."""
        ...

    def emit_side(self, tag_id: str, values: list[Any], timestamps: Timestamps) -> None:
        """Hand on a batch of a side output; without a consumer it is dropped."""
        ...

    def watermark(self, timestamp: int) -> None:
        """Pass a watermark on."""
        ...

    def is_settled(self) -> bool:
        """Whether nobody behind the main output changes what is emitted, or nobody can."""
        ...

    def status(self, active: bool) -> None:
        """Pass idleness on."""
        ...


@dataclass(frozen=True, slots=True)
class OperatorContext:
    """What an operator is given when it opens; ``watermark_interval`` is in milliseconds, 0 for never.

    ``operator_state`` are the states of the subtask, with what was restored in them; ``keyed_state`` those of its keys.
    ``restored_checkpoint_id`` is None at a first start. ``checkpointing`` says whether checkpoints will come: without
    them, what waits for one is done at the end of the input. ``protects`` says whether what user code emits has to be
    made a value (`firesteel.common._values.private`); it is false with object reuse. ``ended_in_order``: see `TaskRestore`.
    """

    output: OperatorOutput
    runtime: RuntimeContext
    services: TaskServices
    mode: RuntimeMode
    watermark_interval: int = 200
    operator_state: OperatorStateBackend = field(default_factory=OperatorStateBackend)
    keyed_state: KeyedStateStore | None = None
    restored_checkpoint_id: int | None = None
    checkpointing: bool = False
    protects: bool = True
    pace: Pace = field(default_factory=Pace)
    #: Metrics that the operator itself keeps, apart from those of user code.
    system_metrics: MetricGroup = field(default_factory=lambda: MetricGroup("system"))
    ended_in_order: bool = False


class Operator:
    """Base of all operators; a subclass overrides what it needs.

    ``cursor`` is the iterator over the batch at hand: when user code raises, what it has not consumed
    tells which record was the culprit, at no cost per record. ``left`` is how many records at the end of the last batch
    were not processed, because it took too long (see `firesteel.runtime.pace`): whoever gave the batch gives them again.
    """

    #: Whether it wants the keys of a batch before it begins with the first record.
    reads_keys_first = False
    cursor: Iterator[Any] | None = None
    left = 0
    #: The record whose processing has raised, where that is not the one at the cursor.
    culprit: Any = NO_RECORD
    current_watermark: int = -(2**63)
    output: OperatorOutput
    #: The part of its user functions in checkpoints.
    function_states: Sequence[FunctionState] = ()

    def open(self, context: OperatorContext) -> None:
        """Prepare; user functions are opened here."""

    def process(self, values: list[Any], timestamps: Timestamps) -> None:
        """A batch of the (first) input."""
        raise NotImplementedError(f"{type(self).__name__} has no input")

    def process_second(self, values: list[Any], timestamps: Timestamps) -> None:
        """A batch of the second input."""
        raise NotImplementedError(f"{type(self).__name__} has no second input")

    def leaves_alone(self) -> bool:
        """Whether neither this operator nor anybody behind it keeps or changes what it gets; asked after `open`."""
        return False

    def awaits_event_time(self) -> bool:
        """Whether something here happens only when the watermark advances: a window, a timer, the end of a join."""
        return False

    def on_watermark(self, timestamp: int) -> None:
        """Event time advanced: do what is due, then pass the watermark on."""
        self.current_watermark = timestamp
        self.output.watermark(timestamp)

    #: In BATCH, where input is sorted by key: whether `end_keys` has to be called behind every single key.
    one_key_at_a_time = False
    #: Whether nothing is to be kept of a key behind `end_keys`: its state is dropped then.
    forgets_keys = False

    def end_keys(self) -> None:
        """In BATCH, where input is sorted by key: nothing follows for the keys so far. Do what is due at their end."""

    def on_status(self, active: bool) -> None:
        """Idleness of the input changed."""
        self.output.status(active)

    def next_deadline(self) -> float:
        """When `on_time` wants to be called, in seconds since the epoch; infinity for never."""
        return math.inf

    def on_time(self, now: float) -> None:
        """The machine's time has come to the deadline: do what is due."""

    def on_latency_marker(self, marker: LatencyMarker) -> None:
        """A latency marker passes; whoever calls this sends it on."""

    def finish(self) -> None:
        """All input has been processed: emit what was held back."""

    # Checkpoints: prepare_barrier, then the barrier leaves, then snapshot; nothing is processed in between.

    def prepare_barrier(self, order: CheckpointOrder) -> None:
        """A barrier is about to leave: emit now what has to be before it."""

    def initialize_functions(self, context: OperatorContext) -> None:
        """Let the user functions ask for their states, with what was restored in them; before they are opened."""
        for function_state in self.function_states:
            function_state.initialize(context)

    def snapshot(self, order: CheckpointOrder) -> None:
        """Bring the states of the subtask up to date: what they hold now belongs to the checkpoint."""
        for function_state in self.function_states:
            function_state.snapshot(order)

    def notify_complete(self, checkpoint_id: int) -> None:
        """The checkpoint is durable, and with it every earlier one."""
        for function_state in self.function_states:
            function_state.notify_complete(checkpoint_id)

    def notify_aborted(self, checkpoint_id: int) -> None:
        """The checkpoint was aborted."""
        for function_state in self.function_states:
            function_state.notify_aborted(checkpoint_id)

    def close(self) -> None:
        """Release resources; called once, also after a failure."""


# A user function's part in checkpoints ----------------------------------------------------------------


def internal_list(name: str) -> ListStateDescriptor:
    """The descriptor of a list that an operator keeps for itself."""
    return ListStateDescriptor(name, Types.PICKLED_BYTE_ARRAY())


class _SnapshotContext(FunctionSnapshotContext):
    def __init__(self, order: CheckpointOrder) -> None:
        self._order = order

    @override
    def get_checkpoint_id(self) -> int:
        return self._order.id

    @override
    def get_checkpoint_timestamp(self) -> int:
        return self._order.timestamp


class _InitializationContext(FunctionInitializationContext):
    def __init__(self, context: OperatorContext) -> None:
        self._context = context

    @override
    def is_restored(self) -> bool:
        return self._context.restored_checkpoint_id is not None

    @override
    def get_restored_checkpoint_id(self) -> int | None:
        return self._context.restored_checkpoint_id

    @override
    def get_operator_state_store(self) -> OperatorStateStore:
        return self._context.operator_state

    @override
    def get_keyed_state_store(self) -> KeyedStateStore:
        if self._context.keyed_state is None:
            raise UnsupportedOperationError(
                f"{self._context.runtime.get_task_name()!r} asks for keyed state in initialize_state(), but its input "
                "has no keys: call key_by() first, or use get_operator_state_store()"
            )
        return self._context.keyed_state


class FunctionState:
    """Calls what a user's object has of `CheckpointedFunction`, `ListCheckpointed` and `CheckpointListener`.

    ``list_name`` tells the lists of several functions of one operator apart.
    """

    def __init__(self, instance: Any, list_name: str = FUNCTION_LIST) -> None:
        while isinstance(instance, Wrapping):
            instance = instance.wrapped
        self._list_name = list_name
        self._function = instance if isinstance(instance, CheckpointedFunction) else None
        self._list_function = instance if isinstance(instance, ListCheckpointed) else None
        self._listener = instance if isinstance(instance, CheckpointListener) else None
        self._list: ListState[Any]
        if self._function is not None and self._list_function is not None:
            raise ProgramError(
                f"{describe_function(instance)} is a CheckpointedFunction and ListCheckpointed, whose snapshot_state() "
                "mean different things; choose one"
            )

    @property
    def takes_part(self) -> bool:
        """Whether the function has state of its own."""
        return self._function is not None or self._list_function is not None

    @property
    def listens(self) -> bool:
        """Whether the function wants to hear how checkpoints end."""
        return self._listener is not None

    def initialize(self, context: OperatorContext) -> None:
        """Let the function ask for its states; what was restored is in them. Before ``open``."""
        if self._function is not None:
            self._function.initialize_state(_InitializationContext(context))
        if self._list_function is not None:
            self._list = context.operator_state.get_list_state(internal_list(self._list_name))
            self._list_function.restore_state(list(self._list.get()))

    def snapshot(self, order: CheckpointOrder) -> None:
        """Let the function bring its states up to date."""
        if self._function is not None:
            self._function.snapshot_state(_SnapshotContext(order))
        if self._list_function is not None:
            self._list.update(list(self._list_function.snapshot_state(order.id, order.timestamp) or ()))

    def notify_complete(self, checkpoint_id: int) -> None:
        """The checkpoint is durable."""
        if self._listener is not None:
            self._listener.notify_checkpoint_complete(checkpoint_id)

    def notify_aborted(self, checkpoint_id: int) -> None:
        """The checkpoint was aborted."""
        if self._listener is not None:
            self._listener.notify_checkpoint_aborted(checkpoint_id)
