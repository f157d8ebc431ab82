"""Chooses the operator for a window operation: a fast one where the assigner and its default trigger allow it."""

from __future__ import annotations

import dis
from collections.abc import Iterable
from typing import Any

from firesteel.contracts.functions import AggregateFunction
from firesteel.contracts.session_windows import (
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
    EventTimeSessionWindows,
    ProcessingTimeSessionWindows,
)
from firesteel.contracts.triggers import CountTrigger, EventTimeTrigger, ProcessingTimeTrigger
from firesteel.contracts.window_assigners import (
    CountSlidingWindowAssigner,
    CountTumblingWindowAssigner,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from firesteel.plan.operator_specs import WindowSpec
from firesteel.runtime.operator import Operator
from firesteel.runtime.operators.count_windows import CountWindowOperator
from firesteel.runtime.operators.pane_windows import PaneWindowOperator
from firesteel.runtime.operators.panes import PaneGrid
from firesteel.runtime.operators.session_windows import SessionWindowOperator
from firesteel.runtime.operators.window import WindowOperator
from firesteel.runtime.operators.window_contents import KeyOf
from firesteel.runtime.operators.window_conversion import PANES, OpenWindow, from_panes, from_sessions
from firesteel.runtime.operators.window_parts import WindowParts
from firesteel.state.hashmap_backend import HashMapBackend

_TIME_GRIDS: dict[type, type] = {
    TumblingEventTimeWindows: EventTimeTrigger,
    SlidingEventTimeWindows: EventTimeTrigger,
    TumblingProcessingTimeWindows: ProcessingTimeTrigger,
    SlidingProcessingTimeWindows: ProcessingTimeTrigger,
}

_SESSIONS: dict[type, type] = {
    EventTimeSessionWindows: EventTimeTrigger,
    DynamicEventTimeSessionWindows: EventTimeTrigger,
    ProcessingTimeSessionWindows: ProcessingTimeTrigger,
    DynamicProcessingTimeSessionWindows: ProcessingTimeTrigger,
}
_COUNTS = (CountTumblingWindowAssigner, CountSlidingWindowAssigner)


def create_window_operator(spec: WindowSpec, key_of: KeyOf, state: HashMapBackend) -> Operator:
    """The live operator of one subtask."""
    parts = WindowParts.of(spec, key_of, state)
    # By exact type: a subclass may do something else.
    assigner, trigger = type(parts.assigner), type(parts.trigger)
    if parts.evictor is not None:
        return WindowOperator(parts)
    # The fast ones know no current key while they add records, and most keep all contents in memory beside the state.
    has_key_context = _uses_key_context(parts)
    is_fast = state.is_in_memory and not has_key_context
    if not has_key_context and assigner in _COUNTS and parts.trigger == CountTrigger(_grid(parts)[0]):
        return CountWindowOperator(parts, *_grid(parts))
    if _TIME_GRIDS.get(assigner) is trigger:
        grid, shares = PaneGrid(*_grid(parts)), can_merge(parts)
        return PaneWindowOperator(parts, grid, shares) if is_fast else _instead_of_panes(parts, grid, shares)
    if _SESSIONS.get(assigner) is trigger:
        return (
            SessionWindowOperator(parts) if is_fast else WindowOperator(parts, lambda: from_sessions(state))
        )
    return WindowOperator(parts)


def _instead_of_panes(parts: WindowParts, grid: PaneGrid, shares_panes: bool) -> WindowOperator:
    """The general operator, which can go on with what the fast one has written."""

    def restored() -> Iterable[OpenWindow]:
        entries = parts.state.take_restored_entries(PANES)
        are_shared = shares_panes or grid.size == grid.slide
        return from_panes(entries, grid, are_shared, parts.allowed_lateness, parts.contents)

    return WindowOperator(parts, restored)


def _grid(parts: WindowParts) -> Any:
    assigner: Any = parts.assigner
    return assigner.grid


def _uses_key_context(parts: WindowParts) -> bool:
    """A reduce or aggregate function with an ``open`` of its own may use state of the record's key."""
    return parts.aggregator is not None and parts.aggregator.is_rich


def can_merge(parts: WindowParts) -> bool:
    """Whether two contents can be merged without the order of records being lost or merge() being a stub."""
    if parts.aggregator is None:
        return False  # lists are in the order of arrival
    function = parts.aggregator.instance
    return not isinstance(function, AggregateFunction) or _returns_something(function.merge)


def _returns_something(method: Any) -> bool:
    """Whether a Python function has a return with a value: programs without sessions often leave merge() empty."""
    code = getattr(method, "__code__", None)
    if code is None:
        return True
    previous = None
    for instruction in dis.get_instructions(code):
        if instruction.opname == "RETURN_CONST" and instruction.argval is not None:
            return True
        if instruction.opname == "RETURN_VALUE":
            is_none = previous is not None and previous.opname == "LOAD_CONST" and previous.argval is None
            if not is_none:
                return True
        previous = instruction
    return False
