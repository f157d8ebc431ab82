"""What windows hold, and what leaves their operator: results of windows that fire, and records that come too late.

Results carry the last timestamp of their window, so that windows can follow windows of the same size. They are made
values at once, and leave while they are made: see `emission`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import repeat
from typing import Any, Protocol

from firesteel.common._override import override
from firesteel.common._values import MISSING, private, private_all
from firesteel.common.errors import JobExecutionError, ProgramError, UnsupportedOperationError, short_repr
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
from firesteel.plan.value_key import shown
from firesteel.runtime.blame import RAISED_BY_USERS
from firesteel.runtime.operator import Operator, OperatorContext
from firesteel.runtime.operators.emission import EMIT_AT, Emission
from firesteel.runtime.operators.private_values import Private, as_it_is
from firesteel.runtime.user_function import UserFunction
from firesteel.state.key_context import NamespaceScope
from firesteel.state.keyed_backend import KeyedBackend

LATE_DROPPED = "numLateRecordsDropped"

_NO_WINDOW_STATE = (
    "per-window state is not available with merging windows such as sessions: when windows merge, nobody could "
    "tell how to merge it; use context.global_state(), or keep it in the accumulator"
)


class WindowStates(KeyedStateStore):
    """State of the key and the window at hand, for triggers and window functions; forgotten with the window."""

    def __init__(self, state: KeyedBackend) -> None:
        self._backend = state
        self._scope: NamespaceScope = state.scope()
        self._names: dict[str, None] = {}
        #: From now on the state of a window and the current key; returns the pair that it is stored under.
        self.turn_to = self._scope.turn_to

    def get(self, state_descriptor: StateDescriptor) -> Any:
        """State of the kind that the descriptor describes."""
        self._names[state_descriptor.get_name()] = None
        return self._backend.namespaced(state_descriptor, self._scope)

    @property
    def are_used(self) -> bool:
        """Whether anybody has asked for state of a window."""
        return bool(self._names)

    def forget(self, key: Any, window: Any) -> None:
        """The window is over: whatever was not cleared goes now."""
        if self._names:
            self._backend.announce_pairs(((key, window),))
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
        self.emission = Emission(context)
        self.emission.begin(timed=True)
        self.current: Any = None

    @override
    def window(self) -> Any:
        return self.current

    @override
    def current_processing_time(self) -> int:
        """Time of the machine in milliseconds."""
        return to_millis(self._now())

    @override
    def current_watermark(self) -> int:
        """Event time up to which the input is complete."""
        return self._operator.current_watermark

    @override
    def window_state(self) -> KeyedStateStore:
        """State of this key and this window."""
        return self._states

    @override
    def global_state(self) -> KeyedStateStore:
        """State of this key, across windows."""
        return self._global

    @override
    def output(self, output_tag: OutputTag, value: Any) -> None:
        """Send ``value`` to a side output."""
        self.emission.add_aside(output_tag.tag_id, value)


class WindowResults:
    """Calls the window function, if there is one, and emits its results."""

    def __init__(
        self,
        function: UserFunction | None,
        contents: Contents,
        context: WindowContext,
        states: WindowStates,
        state: KeyedBackend,
    ) -> None:
        self._contents = contents
        self._context = context
        self._emission = context.emission
        self._states = states
        self._state = state
        instance = None if function is None else function.instance
        self._call = None if function is None else _window_call(instance, context, contents.is_single)
        self._clear = None if function is None else _clear_call(instance, context)
        #: Whether the function wants to know when a window goes.
        self.needs_clear = self._clear is not None

    def fire(self, key: Any, window: Any, contents: Any, is_kept: bool) -> None:
        """The result of one window of one key, which must be the current key of the state.

        ``is_kept``: the window, or another one, keeps what ``contents`` are made of.
        """
        if contents is None:
            return
        self._emission.now_at = window.max_timestamp()
        if self._call is None:
            self._emission.add_all(((contents,),), tagged=False)
        else:
            self._add_results(self._called(self._call, window, ((key, contents),), is_kept), window)

    def fire_all(self, window: Any, by_key: Iterable[tuple[Any, Any]], is_kept: bool) -> None:
        """The results of one window of many keys, from what it has for each of them."""
        self._emission.now_at = window.max_timestamp()
        result = self._contents.result
        if self._call is None:
            results = (result(contents) for _, contents in by_key)
            self._emission.add_all((filter(_is_something, results),), tagged=False)
        else:
            self._add_results(self._called(self._call, window, self._in_context(by_key), is_kept), window)

    def _in_context(self, by_key: Iterable[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
        """Keys and results, each with its key in context."""
        state, result = self._state, self._contents.result
        for key, contents in by_key:
            state.turn_to(key)
            yield key, result(contents)

    def _called(
        self, call: Callable[..., Any], window: Any, by_key: Iterable[tuple[Any, Any]], is_kept: bool
    ) -> Iterator[Any]:
        """What the function gives for each key."""
        self._context.current = window
        turn_to, handed_out = self._states.turn_to, self._contents.handed_out
        for key, contents in by_key:
            if contents is not None:
                turn_to(window)
                yield call(shown(key), window, handed_out(contents) if is_kept else contents)

    def _add_results(self, calls: Iterator[Any], window: Any) -> None:
        try:
            self._emission.add_all(calls)
        except JobExecutionError:  # of an operator further down
            raise
        except RAISED_BY_USERS as error:
            key = short_repr(self._state.current_key)
            error.add_note(f"in the window function, for key {key} and {window!r}")
            raise

    @property
    def must_clear(self) -> bool:
        """Whether there is anything to do when a window goes."""
        return self.needs_clear or self._states.are_used

    def clear(self, key: Any, window: Any) -> None:
        """The window of the current key is over."""
        if self._clear is not None:
            self._context.current = window
            self._emission.now_at = window.max_timestamp()
            self._states.turn_to(window)
            try:
                self._clear(self._context)
            except Exception as error:
                error.add_note(f"in clear of the window function, for key {short_repr(key)} and {window!r}")
                raise
        self._states.forget(key, window)

    def flush(self) -> None:
        """Hand on what there is."""
        self._emission.flush()


def _is_something(result: Any) -> bool:
    return result is not None


class LateRecords:
    """Records of which all windows are over: to a side output when the program has one, counted otherwise."""

    def __init__(self, context: OperatorContext, tag: str | None) -> None:
        self._output = context.output
        self._tag = tag
        self._dropped = context.runtime.get_metrics_group().counter(LATE_DROPPED)
        self._values: list[Any] = []
        self._stamps: list[int | None] = []

    def add(self, value: Any, timestamp: int | None) -> None:
        """Divert a late record, or count it."""
        if self._tag is None:
            self._dropped.inc()
        else:
            self._values.append(value)
            self._stamps.append(timestamp)
            if len(self._values) >= EMIT_AT:
                self.flush()

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


# What windows hold ------------------------------------------------------------------------------------
# All kinds have the same face, so the window operators need not know which one they keep. Only the loops of panes do: where
# a call per record would cost as much as the work itself, what `add` does is written into the loop.
#
# Records are folded in the order in which they come. A record that goes into several windows must not be shared by them
# when it can change: functions may change what they are given, or keep it. Each window gets a copy then; lists share
# the record, and give copies to whoever looks at them.


Table = dict[Any, Any]


class Contents(Protocol):
    """One kind of window contents.

    ``private`` makes a value private, or leaves it as it is; the operator sets it when it opens. ``functions`` are the
    user's, which `add` calls.
    """

    is_single: bool
    private: Private
    functions: tuple[Callable[..., Any], ...]

    def add(self, old: Any, value: Any) -> Any:
        """What to keep once ``value`` has come; ``old`` is MISSING for the first one."""
        ...

    def copies(self, value: Any, count: int) -> Iterable[Any]:
        """``value`` for ``count`` windows, of which each may keep it."""
        ...

    def merge(self, old: Any, new: Any) -> Any:
        """What to keep for two windows (or panes) that become one; both may be used up."""
        ...

    def result(self, stored: Any) -> Any:
        """What the window function gets, or what is emitted without one; None for nothing."""
        ...

    def handed_out(self, result: Any) -> Any:
        """A result that the window function may change while the window stays as it is."""
        ...


class _SingleContents:
    """One value for all records."""

    is_single = True
    private: Private = staticmethod(private)

    def copies(self, value: Any, count: int) -> Iterable[Any]:
        """The value itself when it cannot change."""
        if count == 1 or self.private(value) is value:
            return repeat(value, count)
        return [self.private(value) for _ in range(count)]

    def handed_out(self, result: Any) -> Any:
        """A copy when it can change."""
        return self.private(result)


class ReducedContents(_SingleContents):
    """One value, combined with each that comes."""

    def __init__(self, reduce: Callable[[Any, Any], Any]) -> None:
        self._reduce = reduce
        self.functions: tuple[Callable[..., Any], ...] = (reduce,)

    def add(self, old: Any, value: Any) -> Any:
        """The combination of both; the first value is kept as it is."""
        return value if old is MISSING else self._reduce(old, value)

    def merge(self, old: Any, new: Any) -> Any:
        """The combination of both."""
        return self._reduce(old, new)

    def result(self, stored: Any) -> Any:
        """The combined value itself; `handed_out` copies it when it can change."""
        return stored


class AggregatedContents(_SingleContents):
    """An accumulator."""

    def __init__(self, function: Any) -> None:
        self._create = function.create_accumulator
        self._add = function.add
        self._merge = function.merge
        self._get_result = function.get_result
        self.functions: tuple[Callable[..., Any], ...] = (self._create, self._add)

    def add(self, old: Any, value: Any) -> Any:
        """The accumulator with the value in it."""
        return self._add(value, self._create() if old is MISSING else old)

    def merge(self, old: Any, new: Any) -> Any:
        """One accumulator for both."""
        merged = self._merge(old, new)
        if merged is None and old is not None:
            raise ProgramError(
                f"{type(self._merge.__self__).__name__}.merge() returned None; windows that merge need one "
                "accumulator for two: implement merge(), and return what it makes"
            )
        return merged

    def empty_result(self) -> Any:
        """The result of no value at all."""
        return self._get_result(self._create())

    def result(self, stored: Any) -> Any:
        """The result of the accumulator."""
        return self._get_result(stored)


class ListedContents:
    """All elements, in the order they came."""

    is_single = False
    private: Private = staticmethod(private)
    functions: tuple[Callable[..., Any], ...] = ()

    def add(self, old: Any, value: Any) -> Any:
        """The list with the value at its end."""
        if old is MISSING:
            return [value]
        old.append(value)
        return old

    def copies(self, value: Any, count: int) -> Iterable[Any]:
        """The value itself: whoever gets it from the list gets a copy."""
        return repeat(value, count)

    def merge(self, old: Any, new: Any) -> Any:
        """One list after the other."""
        old.extend(new)
        return old

    def result(self, stored: Any) -> Any:
        """A copy: the function may keep it, while more elements come into the window."""
        return list(stored) or None

    def handed_out(self, result: Any) -> Any:
        """Copies of elements that can change."""
        return result if result is None or self.private is as_it_is else private_all(result)


def merged_tables(contents: Contents, tables: Iterable[Mapping[Any, Any]]) -> Table:
    """One table for several, which stay as they are."""
    merged: Table = {}
    merge = contents.merge
    get = merged.get
    for table in tables:
        # Merging may use up what it is given.
        for key, new in zip(table, private_all(table.values()), strict=True):
            old = get(key, MISSING)
            merged[key] = new if old is MISSING else merge(old, new)
    return merged


def merged_key(contents: Contents, key: Any, tables: Iterable[Mapping[Any, Any]]) -> Any:
    """What one key has in several tables, which stay as they are; MISSING for nothing."""
    merged: Any = MISSING
    for table in tables:
        new = table.get(key, MISSING)
        if new is not MISSING:
            merged = private(new) if merged is MISSING else contents.merge(merged, private(new))
    return merged
