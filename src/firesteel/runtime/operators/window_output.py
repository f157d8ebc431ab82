"""What leaves a window operator: the results of windows that fire, and records that come too late.

Results carry the last timestamp of their window, so that windows can follow windows of the same size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from firesteel.common.errors import UnsupportedOperationError, short_repr
from firesteel.common.time import to_millis
from firesteel.contracts.functions import (
    AllWindowFunction,
    KeyedStateStore,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from firesteel.contracts.output_tag import OutputTag
from firesteel.contracts.state import StateDescriptor
from firesteel.runtime.operator import Operator, OperatorContext, Output
from firesteel.runtime.operators.side_outputs import Aside, emit_sorted
from firesteel.runtime.user_function import UserFunction
from firesteel.state.hashmap_backend import HashMapBackend
from firesteel.state.key_context import NamespaceScope

EMIT_AT = 1024  # results that leave together
LATE_DROPPED = "numLateRecordsDropped"

_NO_WINDOW_STATE = (
    "per-window state is not available with merging windows such as sessions: when windows merge, nobody could "
    "tell how to merge it; use context.global_state(), or keep it in the accumulator"
)


class WindowStates(KeyedStateStore):
    """State of the key and the window at hand, for triggers and window functions; forgotten with the window."""

    def __init__(self, state: HashMapBackend) -> None:
        self._backend = state
        self._scope: NamespaceScope = state.scope()
        self._names: dict[str, None] = {}

    def turn_to(self, window: Any) -> tuple[Any, Any]:
        """From now on the state of ``window`` and the current key: the pair that it is stored under."""
        self._scope.set_namespace(window)
        entry: tuple[Any, Any] = self._scope.current_key
        if self._backend.tracks:
            self._backend.touch_pairs((entry,))
        return entry

    def get(self, state_descriptor: StateDescriptor) -> Any:
        """State of the kind that the descriptor describes."""
        self._names[state_descriptor.get_name()] = None
        return self._backend.namespaced(state_descriptor, self._scope)

    def forget(self, key: Any, window: Any) -> None:
        """The window is over: whatever was not cleared goes now."""
        if self._names and self._backend.tracks:
            self._backend.touch_pairs(((key, window),))
        self._backend.clear_namespace(key, window, self._names)

    get_state = get_list_state = get_map_state = get_reducing_state = get_aggregating_state = get


class _NoWindowStates(KeyedStateStore):
    def _refuse(self, state_descriptor: StateDescriptor) -> Any:
        raise UnsupportedOperationError(_NO_WINDOW_STATE)

    get_state = get_list_state = get_map_state = get_reducing_state = get_aggregating_state = _refuse


class WindowContext(ProcessWindowFunction.Context[Any]):
    """The context of all window functions; one object per operator, turned to one window after the other."""

    def __init__(
        self, operator: Operator, context: OperatorContext, states: WindowStates, is_merging: bool
    ) -> None:
        self._operator = operator
        self._now = context.services.now
        self._global = context.runtime
        self._states: KeyedStateStore = _NoWindowStates() if is_merging else states
        self.current: Any = None
        self.results: list[Any] = []
        self.asides: list[Aside] = []

    def window(self) -> Any:
        """The window."""
        return self.current

    def current_processing_time(self) -> int:
        """Time of the machine in milliseconds."""
        return to_millis(self._now())

    def current_watermark(self) -> int:
        """Event time up to which the input is complete."""
        return self._operator.current_watermark

    def window_state(self) -> KeyedStateStore:
        """State of this key and this window."""
        return self._states

    def global_state(self) -> KeyedStateStore:
        """State of this key, across windows."""
        return self._global

    def output(self, output_tag: OutputTag, value: Any) -> None:
        """Send ``value`` to a side output."""
        at = self.current.max_timestamp()
        self.asides.append(Aside(len(self.results), output_tag.tag_id, value, at))


class WindowResults:
    """Calls the window function, if there is one, and hands its results on in batches."""

    def __init__(
        self,
        output: Output,
        function: UserFunction | None,
        is_single: bool,
        context: WindowContext,
        states: WindowStates,
        state: HashMapBackend,
    ) -> None:
        self._output = output
        self._context = context
        self._states = states
        self._state = state
        self._stamps: list[int | None] = []
        self._call = None if function is None else _window_call(function.instance, context, is_single)
        self._clear = None if function is None else _clear_call(function.instance, context)

    @property
    def has_function(self) -> bool:
        """Whether there is a function to call per key."""
        return self._call is not None

    @property
    def needs_clear(self) -> bool:
        """Whether the function wants to know when a window goes."""
        return self._clear is not None

    def fire(self, key: Any, window: Any, contents: Any) -> None:
        """The result of one window of one key, which must be the current key of the state."""
        if contents is None:
            return
        context, stamps = self._context, self._stamps
        if self._call is None:
            context.results.append(contents)
        else:
            self._run(self._call, key, window, contents)
        stamps += [window.max_timestamp()] * (len(context.results) - len(stamps))
        if len(stamps) >= EMIT_AT:
            self.flush()

    def _run(self, call: Callable[..., Any], key: Any, window: Any, contents: Any) -> None:
        context = self._context
        context.current = window
        self._states.turn_to(window)
        try:
            found = call(key, window, contents)
            if found is not None:
                context.results.extend(found)
        except Exception as error:
            error.add_note(f"in the window function, for key {short_repr(key)} and {window!r}")
            raise

    def fire_all(self, window: Any, keys: Iterable[Any], contents: list[Any]) -> None:
        """The results of one window of many keys."""
        if self._call is None:
            found = [each for each in contents if each is not None]
            self._context.results += found
            self._stamps += [window.max_timestamp()] * len(found)
            if len(self._stamps) >= EMIT_AT:
                self.flush()
            return
        for key, each in zip(keys, contents, strict=True):
            if self._state.tracks:
                self._state.touch((key,))
            self._state.current_key = key
            self.fire(key, window, each)

    def clear(self, key: Any, window: Any) -> None:
        """The window of the current key is over."""
        if self._clear is not None:
            self._context.current = window
            self._states.turn_to(window)
            try:
                self._clear(self._context)
            except Exception as error:
                error.add_note(f"in clear of the window function, for key {short_repr(key)} and {window!r}")
                raise
        self._states.forget(key, window)

    def flush(self) -> None:
        """Hand on what there is."""
        context = self._context
        results, stamps, asides = context.results, self._stamps, context.asides
        if not results and not asides:
            return
        context.results, context.asides, self._stamps = [], [], []
        if asides or len(results) <= EMIT_AT:
            emit_sorted(self._output, results, stamps, asides)
            return
        for start in range(0, len(results), EMIT_AT):
            end = start + EMIT_AT
            emit_sorted(self._output, results[start:end], stamps[start:end], [])


class LateRecords:
    """Records of which all windows are over: to a side output when the program has one, counted otherwise."""

    def __init__(self, context: OperatorContext, tag: str | None) -> None:
        self._output = context.output
        self._tag = tag
        self._dropped = context.runtime.get_metrics_group().counter(LATE_DROPPED)
        self._values: list[Any] = []
        self._stamps: list[int | None] = []

    def add(self, value: Any, timestamp: int | None) -> None:
        """One such record."""
        if self._tag is None:
            self._dropped.inc()
        else:
            self._values.append(value)
            self._stamps.append(timestamp)

    def flush(self) -> None:
        """Hand on what there is."""
        if self._values and self._tag is not None:
            values, stamps = self._values, self._stamps
            self._values, self._stamps = [], []
            self._output.emit_side(self._tag, values, stamps)


def _window_call(function: Any, context: WindowContext, is_single: bool) -> Callable[[Any, Any, Any], Any]:
    """One call for all kinds of window functions, with and without a key."""
    call = _with_list(function, context)
    if not is_single:
        return call
    return lambda key, window, contents: call(key, window, [contents])


def _with_list(function: Any, context: WindowContext) -> Callable[[Any, Any, Any], Any]:
    if isinstance(function, WindowFunction):
        return function.apply
    if isinstance(function, AllWindowFunction):
        apply = function.apply
        return lambda key, window, elements: apply(window, elements)
    process = function.process
    if isinstance(function, ProcessAllWindowFunction):
        return lambda key, window, elements: process(context, elements)
    return lambda key, window, elements: process(key, context, elements)


def _clear_call(function: Any, context: WindowContext) -> Callable[[Any], None] | None:
    """The function's own ``clear``, when it has one."""
    for kind in (ProcessWindowFunction, ProcessAllWindowFunction):
        if isinstance(function, kind) and type(function).clear is not kind.clear:
            clear: Callable[[Any], None] = function.clear
            return clear
    return None
