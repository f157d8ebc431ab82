"""Chooses the operator for a window operation: a fast one where the assigner and its default trigger allow it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

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
from firesteel.plan.keys import KeyOf
from firesteel.plan.operator_specs import WindowSpec
from firesteel.runtime.operator import Operator
from firesteel.runtime.operators.windows.base import WindowDefinition
from firesteel.runtime.operators.windows.count_operator import CountWindowOperator
from firesteel.runtime.operators.windows.general_operator import WindowOperator
from firesteel.runtime.operators.windows.pane_operator import PaneWindowOperator
from firesteel.runtime.operators.windows.panes import PaneGrid
from firesteel.runtime.operators.windows.restore import (
    PANES,
    OpenWindow,
    from_panes,
    from_sessions,
    were_panes_shared,
)
from firesteel.runtime.operators.windows.session_operator import SessionWindowOperator
from firesteel.state.keyed_backend import KeyedBackend

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


def create_window_operator(spec: WindowSpec, key_of: KeyOf, state: KeyedBackend) -> Operator:
    """The live operator of one subtask."""
    definition = WindowDefinition.of(spec, key_of, state)
    # By exact type: a subclass may do something else.
    assigner, trigger = type(definition.assigner), type(definition.trigger)
    if definition.evictor is not None:
        return WindowOperator(definition)
    # The fast ones know no current key while they add records, and most keep all contents in memory beside the state.
    has_key_context = _uses_key_context(definition)
    is_fast = state.is_in_memory and not has_key_context
    if (
        not has_key_context
        and assigner in _COUNTS
        and definition.trigger == CountTrigger(_grid(definition)[0])
    ):
        return CountWindowOperator(definition, *_grid(definition))
    if _TIME_GRIDS.get(assigner) is trigger:
        grid = PaneGrid(*_grid(definition))
        were_shared = were_panes_shared(definition, grid)
        if is_fast:
            return PaneWindowOperator(definition, grid, were_shared)
        return _instead_of_panes(definition, grid, were_shared)
    if _SESSIONS.get(assigner) is trigger:
        return (
            SessionWindowOperator(definition)
            if is_fast
            else WindowOperator(definition, lambda: from_sessions(state))
        )
    return WindowOperator(definition)


def _instead_of_panes(definition: WindowDefinition, grid: PaneGrid, were_shared: bool) -> WindowOperator:
    """The general operator, which can resume from what the fast one has written."""

    def restored() -> Iterable[OpenWindow]:
        entries = definition.state.pop_restored_entries(PANES)
        return from_panes(entries, grid, were_shared, definition.allowed_lateness, definition.contents)

    return WindowOperator(definition, restored)


def _grid(definition: WindowDefinition) -> Any:
    assigner: Any = definition.assigner
    return assigner.grid


def _uses_key_context(definition: WindowDefinition) -> bool:
    """A reduce or aggregate function with an ``open`` of its own may use state of the record's key."""
    return definition.aggregator is not None and definition.aggregator.is_rich
