"""Triggers and evictors at work: timers and state per key and window, behind the context that they see; evictions."""

from __future__ import annotations

from typing import Any

from firesteel.common._override import override
from firesteel.common._type_variables import TypeVar
from firesteel.common._values import MISSING
from firesteel.common.errors import UnsupportedOperationError
from firesteel.common.time import to_millis
from firesteel.contracts.evictors import Evictor, TimestampedValue
from firesteel.contracts.runtime_context import RuntimeContext
from firesteel.contracts.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    ReducingStateDescriptor,
    State,
    StateDescriptor,
)
from firesteel.contracts.windows import Trigger, WindowAssigner
from firesteel.runtime.operator import Operator, OperatorContext
from firesteel.runtime.operators.windows.output import AggregatedContents, Contents, WindowStates
from firesteel.runtime.operators.windows.restore import EVENT_TIMERS, PROCESSING_TIMERS
from firesteel.state.keyed_backend import KeyedBackend

S = TypeVar("S", bound=State, default=Any)

Elements = list[TimestampedValue[Any]]

_MERGEABLE = (ListStateDescriptor, ReducingStateDescriptor, AggregatingStateDescriptor)


class TriggerContext(Trigger.OnMergeContext, Evictor.EvictorContext, WindowAssigner.WindowAssignerContext):
    """What triggers, evictors and assigners may ask and do; one object per operator."""

    def __init__(
        self, operator: Operator, context: OperatorContext, states: WindowStates, state: KeyedBackend
    ) -> None:
        self._operator = operator
        self._now = context.services.now
        self._runtime = context.runtime
        self._states = states
        self._state = state
        self.event_timers = state.timer_queue(EVENT_TIMERS, namespaced=True)
        self.processing_timers = state.timer_queue(PROCESSING_TIMERS, namespaced=True)
        self.window: Any = None
        self._entry: Any = None  # the current key and the window
        self._merged: list[Any] = []

    def turn_to(self, window: Any) -> None:
        """From now on ``window`` of the current key."""
        self.window = window
        self._entry = self._states.turn_to(window)

    def merging(self, result: Any, old: list[Any]) -> None:
        """From now on ``result``, which the ``old`` windows became."""
        self.turn_to(result)
        self._merged = old
        key = self._state.current_key
        self._state.announce_pairs([(key, window) for window in old])

    @override
    def get_current_processing_time(self) -> int:
        """Time of the machine in milliseconds."""
        return to_millis(self._now())

    @override
    def get_current_watermark(self) -> int:
        """Event time up to which the input is complete."""
        return self._operator.current_watermark

    @override
    def get_metric_group(self) -> Any:
        return self._runtime.get_metrics_group()

    @override
    def get_runtime_context(self) -> RuntimeContext:
        """Which operator and subtask of the job this is."""
        return self._runtime

    @override
    def register_processing_time_timer(self, time: int) -> None:
        self.processing_timers.add(time, self._entry)

    @override
    def register_event_time_timer(self, time: int) -> None:
        self.event_timers.add(time, self._entry)

    @override
    def delete_processing_time_timer(self, time: int) -> None:
        self.processing_timers.remove(time, self._entry)

    @override
    def delete_event_time_timer(self, time: int) -> None:
        self.event_timers.remove(time, self._entry)

    @override
    def get_partitioned_state(self, state_descriptor: StateDescriptor[S]) -> S:
        """State of this key and this window."""
        self._states.turn_to(self.window)
        state: S = self._states.get(state_descriptor)
        return state

    @override
    def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
        """Merge the state of the old windows into that of the new one."""
        if not isinstance(state_descriptor, _MERGEABLE):
            raise UnsupportedOperationError(
                f"{state_descriptor!r} cannot merge: a trigger of merging windows may only use list, reducing and "
                "aggregating state"
            )
        state = self._states.get(state_descriptor)
        state.merge_namespaces(self._state.current_key, self.window, self._merged)


class EvictedContents:
    """All elements with their timestamps, whatever function is applied to them, and only when the window fires.

    What an evictor removes at a firing is gone for the next one. It sees copies of elements that can change, and so does
    the function after it: what they do to them changes nothing of what the window keeps.
    """

    def __init__(
        self, contents: Contents, evictor: Evictor[Any, Any], context: Evictor.EvictorContext
    ) -> None:
        self.inner = contents
        self.evictor = evictor
        self.context = context

    def add(self, old: Any, value: Any, timestamp: int | None) -> Any:
        """The list with the element at its end."""
        element = TimestampedValue(value, timestamp)
        if old is MISSING:
            return [element]
        old.append(element)
        return old

    def merge(self, old: Any, new: Any) -> Any:
        """One list after the other."""
        old.extend(new)
        return old

    def firing(self, elements: Elements, window: Any) -> Firing:
        """A window fires."""
        return Firing(self, elements, window)


class Firing:
    """One firing of a window: first `contents`, then, when the function is through with them, what is `left`."""

    def __init__(self, contents: EvictedContents, elements: Elements, window: Any) -> None:
        self._contents = contents
        self._window = window
        private = contents.inner.private
        self._shown: Elements = []
        self._originals: dict[int, TimestampedValue[Any]] = {}  # by the identity of what is shown of them
        for element in elements:
            value = private(element.value)
            shown = element if value is element.value else TimestampedValue(value, element.timestamp)
            self._shown.append(shown)
            self._originals[id(shown)] = element
        self._all_shown = list(self._shown)  # so that no identity is given to another object

    def contents(self) -> Any:
        """Evict, and return what the window function gets."""
        contents, shown = self._contents, self._shown
        contents.evictor.evict_before(shown, len(shown), self._window, contents.context)
        return self._applied([element.value for element in shown])

    def left(self) -> Elements:
        """Evict, and return what the window keeps."""
        contents, shown = self._contents, self._shown
        contents.evictor.evict_after(shown, len(shown), self._window, contents.context)
        return [self._originals.get(id(element), element) for element in shown]

    def _applied(self, values: list[Any]) -> Any:
        """The elements, or what the aggregation makes of them."""
        inner = self._contents.inner
        if not inner.is_single:
            return values
        if not values and isinstance(inner, AggregatedContents):
            return inner.empty_result()
        if not values:
            return None
        # The function may change what it is given, and the evictor looks at the elements once more.
        contents: Any = MISSING
        for value in values:
            contents = inner.add(contents, inner.private(value))
        return inner.result(contents)
