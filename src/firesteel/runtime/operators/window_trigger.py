"""Triggers at work: timers and state per key and window, behind the context that triggers see."""

from __future__ import annotations

from typing import Any

from firesteel.common.errors import UnsupportedOperationError
from firesteel.common.time import to_millis
from firesteel.contracts.evictors import Evictor
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
from firesteel.runtime.operators.window_conversion import EVENT_TIMERS, PROCESSING_TIMERS
from firesteel.runtime.operators.window_output import WindowStates
from firesteel.state.hashmap_backend import HashMapBackend

_MERGEABLE = (ListStateDescriptor, ReducingStateDescriptor, AggregatingStateDescriptor)


class TriggerContext(Trigger.OnMergeContext, Evictor.EvictorContext, WindowAssigner.WindowAssignerContext):
    """What triggers, evictors and assigners may ask and do; one object per operator."""

    def __init__(
        self, operator: Operator, context: OperatorContext, states: WindowStates, state: HashMapBackend
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
        if self._state.tracks:
            key = self._state.current_key
            self._state.touch_pairs([(key, window) for window in old])

    def get_current_processing_time(self) -> int:
        """Time of the machine in milliseconds."""
        return to_millis(self._now())

    def get_current_watermark(self) -> int:
        """Event time up to which the input is complete."""
        return self._operator.current_watermark

    def get_metric_group(self) -> Any:
        """The operator's metrics."""
        return self._runtime.get_metrics_group()

    def get_runtime_context(self) -> RuntimeContext:
        """The operator's place in the job."""
        return self._runtime

    def register_processing_time_timer(self, time: int) -> None:
        """Have ``on_processing_time`` called."""
        self.processing_timers.add(time, self._entry)

    def register_event_time_timer(self, time: int) -> None:
        """Have ``on_event_time`` called."""
        self.event_timers.add(time, self._entry)

    def delete_processing_time_timer(self, time: int) -> None:
        """Forget a timer."""
        self.processing_timers.remove(time, self._entry)

    def delete_event_time_timer(self, time: int) -> None:
        """Forget a timer."""
        self.event_timers.remove(time, self._entry)

    def get_partitioned_state(self, state_descriptor: StateDescriptor) -> State:
        """State of this key and this window."""
        self._states.turn_to(self.window)
        state: State = self._states.get(state_descriptor)
        return state

    def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
        """Merge the state of the old windows into that of the new one."""
        if not isinstance(state_descriptor, _MERGEABLE):
            raise UnsupportedOperationError(
                f"{state_descriptor!r} cannot merge: a trigger of merging windows may only use list, reducing and "
                "aggregating state"
            )
        state = self._states.get(state_descriptor)
        state.merge_namespaces(self._state.current_key, self.window, self._merged)
