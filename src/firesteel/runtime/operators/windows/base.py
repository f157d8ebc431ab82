"""What all window operators share: their definition, and a base that opens, feeds and closes them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import Any, cast

from firesteel.common._override import override
from firesteel.common.time import MAX_TIMESTAMP, MIN_TIMESTAMP, to_millis
from firesteel.contracts.evictors import Evictor
from firesteel.contracts.functions import AggregateFunction
from firesteel.contracts.runtime_context import RuntimeContext
from firesteel.contracts.window_assigners import checked_timestamp
from firesteel.contracts.windows import MergingWindowAssigner, Trigger, WindowAssigner
from firesteel.plan.keys import KeyOf, keys_of
from firesteel.plan.operator_specs import RuntimeMode, WindowSpec
from firesteel.runtime.operator import FUNCTION_LIST, FunctionState, Operator, OperatorContext, Timestamps
from firesteel.runtime.operators.announced import announce_batch
from firesteel.runtime.operators.private_values import protection
from firesteel.runtime.operators.windows.output import (
    AggregatedContents,
    Contents,
    LateRecords,
    ListedContents,
    ReducedContents,
    WindowContext,
    WindowResults,
    WindowStates,
)
from firesteel.runtime.user_function import UserFunction
from firesteel.state.keyed_backend import KeyedBackend


@dataclass(frozen=True, slots=True)
class WindowDefinition:
    """A window operation, unpacked from its spec: everything an operator needs to know."""

    assigner: WindowAssigner[Any, Any]
    trigger: Trigger[Any, Any]
    evictor: Evictor[Any, Any] | None
    contents: Contents
    aggregator: UserFunction | None
    function: UserFunction | None
    allowed_lateness: int
    late_tag: str | None
    key_of: KeyOf
    state: KeyedBackend

    @classmethod
    def of(cls, spec: WindowSpec, key_of: KeyOf, state: KeyedBackend) -> WindowDefinition:
        """Unpack a spec for one subtask."""
        aggregator = None if spec.aggregator is None else UserFunction(spec.aggregator)
        assigner = spec.assigner.load()
        return cls(
            assigner=assigner,
            trigger=spec.trigger.load(),
            evictor=None if spec.evictor is None else spec.evictor.load(),
            contents=_contents(aggregator),
            aggregator=aggregator,
            function=None if spec.window_function is None else UserFunction(spec.window_function),
            # Processing time knows no late records.
            allowed_lateness=spec.allowed_lateness if assigner.is_event_time() else 0,
            late_tag=spec.late_tag,
            key_of=key_of,
            state=state,
        )

    @property
    def is_merging(self) -> bool:
        """Whether windows may merge."""
        return isinstance(self.assigner, MergingWindowAssigner)

    @property
    def merges_exactly(self) -> bool:
        """Whether the reduce or aggregate function says that merging accumulators is exactly what adding one by one is."""
        return self.aggregator is not None and bool(
            getattr(self.aggregator.instance, "merges_exactly", False)
        )

    def cleanup_time(self, window: Any) -> int:
        """When the window goes: its last timestamp plus the allowed lateness."""
        time: int = window.max_timestamp() + self.allowed_lateness
        return time if time < MAX_TIMESTAMP else MAX_TIMESTAMP

    def open(self, runtime: RuntimeContext) -> None:
        """Open the user's functions, and expect them and triggers to ask for states at any time."""
        self.state.registers_late = True
        for function in (self.aggregator, self.function):
            if function is not None:
                function.open(runtime)

    def close(self) -> None:
        """Close the user's functions, the second one also when the first one fails."""
        try:
            if self.aggregator is not None:
                self.aggregator.close()
        finally:
            if self.function is not None:
                self.function.close()


def _contents(aggregator: UserFunction | None) -> Contents:
    if aggregator is None:
        return ListedContents()
    if isinstance(aggregator.instance, AggregateFunction):
        return AggregatedContents(aggregator.instance)
    return ReducedContents(aggregator.method("reduce"))


#: The list of a `ListCheckpointed` reduce or aggregate function, beside which there may be a window function.
AGGREGATOR_LIST = "\0aggregator"


class WindowingOperator(Operator):
    """Base of all window operators: the user's functions, the way of a batch, and the two clocks.

    A subclass says where windows are kept and what is restored of them (`_open_windows`), how records are added
    (`_add_batch`), and what happens as time advances (`_advance`, `_next_time`).
    """

    reads_keys_first = True

    def __init__(self, definition: WindowDefinition) -> None:
        self._definition = definition
        self._state = definition.state
        self._is_event_time = definition.assigner.is_event_time()
        self.function_states = [
            FunctionState(function.instance, list_name)
            for function, list_name in (
                (definition.aggregator, AGGREGATOR_LIST),
                (definition.function, FUNCTION_LIST),
            )
            if function is not None
        ]

    # Opening ------------------------------------------------------------------------------------------

    @override
    def open(self, context: OperatorContext) -> None:
        """Open the user's functions, make the contexts, adopt what was restored."""
        definition, state = self._definition, self._state
        self.output = context.output
        self._pace = context.pace
        self._now = context.services.now
        self._fires_all_at_end = context.mode is RuntimeMode.BATCH
        self.initialize_functions(context)
        definition.contents.private = protection(context.protects)
        definition.open(context.runtime)
        self._states = WindowStates(state)
        window_context = WindowContext(self, context, self._states, definition.is_merging)
        self._results = WindowResults(
            definition.function, definition.contents, window_context, self._states, state
        )
        self._late = LateRecords(context, definition.late_tag)
        self._open_windows(context)

    def _open_windows(self, context: OperatorContext) -> None:
        """Make ready what keeps windows, with what was restored; functions are open, for windows may have to merge."""

    # Records ------------------------------------------------------------------------------------------

    @override
    def process(self, values: list[Any], timestamps: Timestamps) -> None:
        """Put every record into its windows."""
        stamps = self._stamps(timestamps)
        self._announce(stamps, values)
        self.cursor = cursor = self._pace.begin(values)
        self._add_batch(stamps, cursor, keys_of(self._definition.key_of, values))
        self.left = self._pace.end()
        self._results.flush()
        self._late.flush()

    def _stamps(self, timestamps: Timestamps) -> Iterable[Any]:
        """The time of each record, None for one that has none."""
        return repeat(None) if timestamps is None else timestamps

    def _announce(self, timestamps: Iterable[Any], values: list[Any]) -> None:
        """Tell a snapshot in progress what is about to change."""
        announce_batch(self, values, self._definition.key_of, self._state)

    def _add_batch(self, timestamps: Iterable[Any], values: Iterator[Any], keys: Iterable[Any]) -> None:
        """Add records, and fire what they make fire."""
        raise NotImplementedError

    # Time ---------------------------------------------------------------------------------------------

    @override
    def on_watermark(self, timestamp: int) -> None:
        """Let windows fire and go, then pass the watermark on."""
        self.current_watermark = timestamp
        self._advance(timestamp, is_event_time=True)
        self.output.watermark(timestamp)

    @override
    def awaits_event_time(self) -> bool:
        """Whether windows end by event time."""
        return self._is_event_time

    @override
    def next_deadline(self) -> float:
        """One millisecond after the next processing time at which something happens: then it has passed."""
        time = self._next_time()
        return math.inf if time is None or time == MAX_TIMESTAMP else (time + 1) / 1000

    @override
    def on_time(self, now: float) -> None:
        """Let windows fire and go."""
        self._advance(to_millis(now) - 1, is_event_time=False)

    @override
    def finish(self) -> None:
        """In BATCH all windows fire at the end; in STREAMING processing-time windows die with the job."""
        if self._fires_all_at_end:
            self._advance(MAX_TIMESTAMP, is_event_time=False)

    def _advance(self, clock: int, is_event_time: bool) -> None:
        """One of the two clocks has come to ``clock``: let windows fire and go."""

    def _next_time(self) -> int | None:
        """The next processing time at which something happens."""
        return None

    @override
    def close(self) -> None:
        self._definition.close()


class DefaultTriggerOperator(WindowingOperator):
    """Base of the operators for time windows with their default trigger, which know but one clock: the assigner's."""

    def __init__(self, definition: WindowDefinition) -> None:
        super().__init__(definition)
        self._clock = MIN_TIMESTAMP

    @override
    def process(self, values: list[Any], timestamps: Timestamps) -> None:
        """Put every record into its windows; in event time each needs a timestamp."""
        try:
            super().process(values, timestamps)
        except TypeError:
            # No record is asked whether it has a timestamp: one that has none cannot be compared.
            if timestamps is not None and self._is_event_time and None in timestamps:
                checked_timestamp(None)
            raise

    @override
    def _stamps(self, timestamps: Timestamps) -> Iterable[int]:
        if not self._is_event_time:
            # One time for the whole batch, and never one whose windows have fired already.
            return repeat(max(to_millis(self._now()), self._clock + 1))
        if timestamps is None:
            return repeat(checked_timestamp(None))
        return cast("list[int]", timestamps)

    @override
    def _advance(self, clock: int, is_event_time: bool) -> None:
        if is_event_time == self._is_event_time:
            self._clock = clock
            self._fire_until(clock)
            self._results.flush()

    def _fire_until(self, clock: int) -> None:
        """Let windows fire and go whose time has come."""
        raise NotImplementedError
