"""The triggers that Flink brings along."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from firesteel.common._override import override
from firesteel.common.errors import ProgramError, short_repr
from firesteel.common.time import MAX_TIMESTAMP, AnyLength, millis_of
from firesteel.common.typeinfo import TypeInformation, Types
from firesteel.contracts.state import ReducingState, ReducingStateDescriptor, ValueStateDescriptor
from firesteel.contracts.windows import TimeWindow, Trigger, TriggerResult

__all__ = [
    "ContinuousEventTimeTrigger",
    "ContinuousProcessingTimeTrigger",
    "CountTrigger",
    "DeltaFunction",
    "DeltaTrigger",
    "EndOfStreamTrigger",
    "EventTimeTrigger",
    "NeverTrigger",
    "ProcessingTimeTrigger",
    "ProcessingTimeoutTrigger",
    "PurgingTrigger",
]

_CONTINUE = TriggerResult.CONTINUE
_FIRE = TriggerResult.FIRE
_FIRE_AND_PURGE = TriggerResult.FIRE_AND_PURGE


class _PatientTrigger(Trigger[Any, Any]):
    """Does nothing at all; the others override what they care about."""

    @override
    def on_element(
        self, element: Any, timestamp: int, window: Any, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        return _CONTINUE

    @override
    def on_processing_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return _CONTINUE

    @override
    def on_event_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return _CONTINUE

    @override
    def on_merge(self, window: Any, ctx: Trigger.OnMergeContext) -> None:
        """Nothing to carry over."""

    @override
    def clear(self, window: Any, ctx: Trigger.TriggerContext) -> None:
        """Nothing to forget."""

    @override
    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class NeverTrigger(_PatientTrigger):
    """Never fires: the default of global windows."""


class EndOfStreamTrigger(_PatientTrigger):
    """Fires when the input has ended, and at no other time: for global windows. Not in PyFlink."""

    @override
    def on_element(
        self, element: Any, timestamp: int, window: Any, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """Wait for the end of all time, which comes with the end of the input."""
        ctx.register_event_time_timer(window.max_timestamp())
        return _CONTINUE

    @override
    def on_event_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return _FIRE if time == window.max_timestamp() else _CONTINUE


class EventTimeTrigger(_PatientTrigger):
    """Fires when the watermark passes the end of the window, and at once for what comes later than that."""

    @staticmethod
    def create() -> EventTimeTrigger:
        """The same as calling the class, which has no settings."""
        return EventTimeTrigger()

    @override
    def on_element(
        self, element: Any, timestamp: int, window: TimeWindow, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """Fire when the window's end has passed, otherwise wait for it."""
        end = window.max_timestamp()
        if end <= ctx.get_current_watermark():
            return _FIRE
        ctx.register_event_time_timer(end)
        return _CONTINUE

    @override
    def on_event_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Fire at the end of the window."""
        return _FIRE if time == window.max_timestamp() else _CONTINUE

    @override
    def can_merge(self) -> bool:
        return True

    @override
    def on_merge(self, window: TimeWindow, ctx: Trigger.OnMergeContext) -> None:
        """Wait for the new end."""
        end = window.max_timestamp()
        if end > ctx.get_current_watermark():
            ctx.register_event_time_timer(end)

    @override
    def clear(self, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
        ctx.delete_event_time_timer(window.max_timestamp())


class ProcessingTimeTrigger(_PatientTrigger):
    """Fires when the machine's time passes the end of the window."""

    @staticmethod
    def create() -> ProcessingTimeTrigger:
        """The same as calling the class, which has no settings."""
        return ProcessingTimeTrigger()

    @override
    def on_element(
        self, element: Any, timestamp: int, window: TimeWindow, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """Wait for the end of the window."""
        ctx.register_processing_time_timer(window.max_timestamp())
        return _CONTINUE

    @override
    def on_processing_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return _FIRE

    @override
    def can_merge(self) -> bool:
        return True

    @override
    def on_merge(self, window: TimeWindow, ctx: Trigger.OnMergeContext) -> None:
        """Wait for the new end."""
        end = window.max_timestamp()
        if end > ctx.get_current_processing_time():
            ctx.register_processing_time_timer(end)

    @override
    def clear(self, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
        ctx.delete_processing_time_timer(window.max_timestamp())


class _ContinuousTrigger(_PatientTrigger):
    """What both continuous triggers share: the next time to fire, kept per window."""

    def __init__(self, interval: int) -> None:
        if interval <= 0:
            raise ProgramError(f"{type(self).__name__} needs an interval above 0 ms, got {interval}")
        self.interval = interval
        self.state_desc = ReducingStateDescriptor("fire-time", min, Types.LONG())

    @override
    def can_merge(self) -> bool:
        return True

    def _next_fire(self, ctx: Trigger.TriggerContext) -> ReducingState[int]:
        return ctx.get_partitioned_state(self.state_desc)

    @abstractmethod
    def _set_timer(self, time: int, ctx: Trigger.TriggerContext) -> None:
        """Fire at a time of the trigger's clock."""

    @abstractmethod
    def _delete_timer(self, time: int, ctx: Trigger.TriggerContext) -> None:
        """Do not fire then."""

    def _on_multiple(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Fire, if this is the next time to do so, and wait for the one after it."""
        next_fire = self._next_fire(ctx)
        if next_fire.get() != time:
            return _CONTINUE
        next_fire.clear()
        self._arm(time, window, ctx)
        return _FIRE

    def _arm(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
        """Fire an interval after ``time``, and no later than at the end of the window."""
        following = min(time + self.interval, window.max_timestamp())
        if window.max_timestamp() == MAX_TIMESTAMP and self._is_at_end(ctx):
            following = (
                MAX_TIMESTAMP  # between the end of input and that of a global window lie 10 ** 18 intervals
            )
        self._next_fire(ctx).add(following)
        self._set_timer(following, ctx)

    @override
    def on_merge(self, window: TimeWindow, ctx: Trigger.OnMergeContext) -> None:
        """Wait for the earliest of the next times."""
        ctx.merge_partitioned_state(self.state_desc)
        time = self._next_fire(ctx).get()
        if time is not None:
            self._set_timer(time, ctx)

    @override
    def clear(self, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
        next_fire = self._next_fire(ctx)
        time = next_fire.get()
        if time is not None:
            self._delete_timer(time, ctx)
            next_fire.clear()

    def _is_at_end(self, ctx: Trigger.TriggerContext) -> bool:
        """Whether the input has ended, so that all intervals are over at once."""
        return False

    @override
    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.interval})"


class ContinuousEventTimeTrigger(_ContinuousTrigger):
    """Fires whenever the watermark passes a multiple of an interval, and at the end of the window."""

    @staticmethod
    def of(interval: AnyLength) -> ContinuousEventTimeTrigger:
        """Fire every ``interval`` of event time."""
        return ContinuousEventTimeTrigger(millis_of(interval))

    @override
    def _is_at_end(self, ctx: Trigger.TriggerContext) -> bool:
        return ctx.get_current_watermark() == MAX_TIMESTAMP

    @override
    def on_element(
        self, element: Any, timestamp: int, window: TimeWindow, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """Fire when the window's end has passed, otherwise wait for it and for the next multiple."""
        end = window.max_timestamp()
        if end <= ctx.get_current_watermark():
            return _FIRE
        ctx.register_event_time_timer(end)
        if self._next_fire(ctx).get() is None:
            self._arm(timestamp - timestamp % self.interval, window, ctx)
        return _CONTINUE

    @override
    def on_event_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Fire at the end and at the multiples."""
        if time == window.max_timestamp():
            return _FIRE
        return self._on_multiple(time, window, ctx)

    @override
    def _set_timer(self, time: int, ctx: Trigger.TriggerContext) -> None:
        ctx.register_event_time_timer(time)

    @override
    def _delete_timer(self, time: int, ctx: Trigger.TriggerContext) -> None:
        ctx.delete_event_time_timer(time)


class ContinuousProcessingTimeTrigger(_ContinuousTrigger):
    """Fires whenever the machine's time passes a multiple of an interval."""

    @staticmethod
    def of(interval: AnyLength) -> ContinuousProcessingTimeTrigger:
        """Fire every ``interval`` of processing time."""
        return ContinuousProcessingTimeTrigger(millis_of(interval))

    @override
    def on_element(
        self, element: Any, timestamp: int, window: TimeWindow, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """Wait for the next multiple."""
        if self._next_fire(ctx).get() is None:
            now = ctx.get_current_processing_time()
            self._arm(now - now % self.interval, window, ctx)
        return _CONTINUE

    @override
    def on_processing_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return self._on_multiple(time, window, ctx)

    @override
    def _set_timer(self, time: int, ctx: Trigger.TriggerContext) -> None:
        ctx.register_processing_time_timer(time)

    @override
    def _delete_timer(self, time: int, ctx: Trigger.TriggerContext) -> None:
        ctx.delete_processing_time_timer(time)


class CountTrigger(_PatientTrigger):
    """Fires with every n-th element; keeps them, unless wrapped in a `PurgingTrigger`."""

    def __init__(self, window_size: int) -> None:
        if window_size <= 0:
            raise ProgramError(f"CountTrigger needs at least 1 element, got {window_size}")
        self._window_size = window_size
        self._count_state_descriptor = ReducingStateDescriptor("count", operator.add, Types.LONG())

    @staticmethod
    def of(window_size: int) -> CountTrigger:
        """Fire with every ``window_size`` elements."""
        return CountTrigger(window_size)

    @override
    def on_element(
        self, element: Any, timestamp: int, window: Any, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """Count, and fire when there are enough."""
        count = ctx.get_partitioned_state(self._count_state_descriptor)
        count.add(1)
        if (count.get() or 0) < self._window_size:
            return _CONTINUE
        count.clear()
        return _FIRE

    @override
    def can_merge(self) -> bool:
        return True

    @override
    def on_merge(self, window: Any, ctx: Trigger.OnMergeContext) -> None:
        ctx.merge_partitioned_state(self._count_state_descriptor)

    @override
    def clear(self, window: Any, ctx: Trigger.TriggerContext) -> None:
        ctx.get_partitioned_state(self._count_state_descriptor).clear()

    @override
    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._window_size == self._window_size

    @override
    def __hash__(self) -> int:
        return hash(self._window_size)

    @override
    def __repr__(self) -> str:
        return f"CountTrigger({self._window_size})"


class PurgingTrigger(Trigger[Any, Any]):
    """Makes another trigger drop the elements of the window whenever it fires."""

    def __init__(self, nested_trigger: Trigger[Any, Any]) -> None:
        self.nested_trigger = nested_trigger

    @staticmethod
    def of(nested_trigger: Trigger[Any, Any]) -> PurgingTrigger:
        """Fire and purge when ``nested_trigger`` fires."""
        return PurgingTrigger(nested_trigger)

    @override
    def on_element(
        self, element: Any, timestamp: int, window: Any, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """As the other trigger, and purge when it fires."""
        result = self.nested_trigger.on_element(element, timestamp, window, ctx)
        return self._purging(result, "on_element")

    @override
    def on_processing_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        """As the other trigger, and purge when it fires."""
        result = self.nested_trigger.on_processing_time(time, window, ctx)
        return self._purging(result, "on_processing_time")

    @override
    def on_event_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        """As the other trigger, and purge when it fires."""
        result = self.nested_trigger.on_event_time(time, window, ctx)
        return self._purging(result, "on_event_time")

    def _purging(self, result: TriggerResult, method: str) -> TriggerResult:
        if result is _CONTINUE:
            return result
        return _FIRE_AND_PURGE if _of(self.nested_trigger, method, result).is_fire() else result

    @override
    def can_merge(self) -> bool:
        """Whether the other trigger can."""
        return self.nested_trigger.can_merge()

    @override
    def on_merge(self, window: Any, ctx: Trigger.OnMergeContext) -> None:
        self.nested_trigger.on_merge(window, ctx)

    @override
    def clear(self, window: Any, ctx: Trigger.TriggerContext) -> None:
        self.nested_trigger.clear(window, ctx)

    @override
    def __repr__(self) -> str:
        return f"PurgingTrigger({self.nested_trigger!r})"


def wrong_result(trigger: Trigger[Any, Any], method: str, got: object) -> ProgramError:
    """The error for a trigger whose ``method`` has returned something else than a decision."""
    return ProgramError(
        f"{type(trigger).__name__}.{method}() returned {short_repr(got)}, expected a TriggerResult; return "
        "TriggerResult.CONTINUE when nothing is to be done"
    )


def _of(trigger: Trigger[Any, Any], method: str, result: TriggerResult) -> TriggerResult:
    """What a nested trigger has decided, if it has."""
    if type(result) is not TriggerResult:
        raise wrong_result(trigger, method, result)
    return result


# Not in PyFlink -------------------------------------------------------------------------------------


class DeltaFunction(ABC):
    """The distance between two elements, for `DeltaTrigger` and `DeltaEvictor`; a plain function does as well."""

    @abstractmethod
    def get_delta(self, old_data_point: Any, new_data_point: Any) -> float:
        """The distance from the old to the new element."""


def delta_call(function: DeltaFunction | Callable[[Any, Any], float]) -> Callable[[Any, Any], float]:
    """The callable behind a delta function."""
    if isinstance(function, DeltaFunction):
        return function.get_delta
    if callable(function):
        return function
    raise ProgramError(f"expected a DeltaFunction or a function of two elements, got {function!r}")


class DeltaTrigger(_PatientTrigger):
    """Fires when an element is further than a threshold from the one at which it fired last."""

    def __init__(
        self,
        threshold: float,
        delta_function: DeltaFunction | Callable[[Any, Any], float],
        state_type: TypeInformation | None = None,
    ) -> None:
        self._threshold = threshold
        self._delta = delta_call(delta_function)
        self._state_desc = ValueStateDescriptor("last-element", state_type or Types.PICKLED_BYTE_ARRAY())

    @staticmethod
    def of(
        threshold: float,
        delta_function: DeltaFunction | Callable[[Any, Any], float],
        state_type: TypeInformation | None = None,
    ) -> DeltaTrigger:
        """Fire when ``delta_function(last, element)`` exceeds ``threshold``."""
        return DeltaTrigger(threshold, delta_function, state_type)

    @override
    def on_element(
        self, element: Any, timestamp: int, window: Any, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """Compare with the last one."""
        state = ctx.get_partitioned_state(self._state_desc)
        last = state.value()
        if last is None:
            state.update(element)
        elif self._delta(last, element) > self._threshold:
            state.update(element)
            return _FIRE
        return _CONTINUE

    @override
    def clear(self, window: Any, ctx: Trigger.TriggerContext) -> None:
        ctx.get_partitioned_state(self._state_desc).clear()

    @override
    def __repr__(self) -> str:
        return f"DeltaTrigger({self._threshold})"


class ProcessingTimeoutTrigger(Trigger[Any, Any]):
    """Fires when another trigger does, or when that has not happened for some processing time."""

    def __init__(
        self,
        nested_trigger: Trigger[Any, Any],
        timeout: int,
        reset_timer_on_new_record: bool = False,
        should_clear_on_timeout: bool = True,
    ) -> None:
        self._nested = nested_trigger
        self._timeout = timeout
        self._resets = reset_timer_on_new_record
        self._clears = should_clear_on_timeout
        self._state_desc = ValueStateDescriptor("timeout", Types.LONG())

    @staticmethod
    def of(
        nested_trigger: Trigger[Any, Any],
        timeout: AnyLength,
        reset_timer_on_new_record: bool = False,
        should_clear_on_timeout: bool = True,
    ) -> ProcessingTimeoutTrigger:
        """Fire with ``nested_trigger``, or ``timeout`` after the first (or, when reset, the last) element."""
        millis = millis_of(timeout)
        return ProcessingTimeoutTrigger(
            nested_trigger, millis, reset_timer_on_new_record, should_clear_on_timeout
        )

    @override
    def on_element(
        self, element: Any, timestamp: int, window: Any, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """Fire with the other trigger, otherwise see to it that the time-out is running."""
        result = self._nested.on_element(element, timestamp, window, ctx)
        if _of(self._nested, "on_element", result).is_fire():
            self.clear(window, ctx)
            return result
        state = ctx.get_partitioned_state(self._state_desc)
        running = state.value()
        if running is not None and self._resets:
            ctx.delete_processing_time_timer(running)
        if running is None or self._resets:
            due = ctx.get_current_processing_time() + self._timeout
            state.update(due)
            ctx.register_processing_time_timer(due)
        return result

    @override
    def on_processing_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        result = self._nested.on_processing_time(time, window, ctx)
        return self._timed_out(_of(self._nested, "on_processing_time", result), window, ctx)

    @override
    def on_event_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        result = self._nested.on_event_time(time, window, ctx)
        return self._timed_out(_of(self._nested, "on_event_time", result), window, ctx)

    def _timed_out(self, result: TriggerResult, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        if self._clears:
            self.clear(window, ctx)
        return _FIRE_AND_PURGE if result.is_purge() else _FIRE

    @override
    def on_merge(self, window: Any, ctx: Trigger.OnMergeContext) -> None:
        """Never called: it cannot merge."""

    @override
    def clear(self, window: Any, ctx: Trigger.TriggerContext) -> None:
        """Stop the time-out, and clear the other trigger."""
        state = ctx.get_partitioned_state(self._state_desc)
        running = state.value()
        if running is not None:
            ctx.delete_processing_time_timer(running)
            state.clear()
        self._nested.clear(window, ctx)

    @override
    def __repr__(self) -> str:
        return f"ProcessingTimeoutTrigger({self._nested!r})"
