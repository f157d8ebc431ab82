r"""Windows that one kind of operator has written and another kind reads.

In memory, tumbling, sliding and session windows with their own trigger have operators that keep contents in their own
way (`pane_operator`, `session_operator`); on disk, or when the aggregate function uses state, `general_operator` does
the work. A savepoint may pass from one to the other: what it holds is turned into `OpenWindow`\ s, which
every operator can adopt.
"""

from __future__ import annotations

import dis
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from firesteel.common._values import MISSING, private
from firesteel.common.errors import IncompatibleStateError
from firesteel.contracts.evictors import TimestampedValue
from firesteel.contracts.functions import AggregateFunction
from firesteel.contracts.windows import TimeWindow
from firesteel.runtime.operators.windows.base import WindowDefinition
from firesteel.runtime.operators.windows.output import Contents
from firesteel.runtime.operators.windows.panes import BY_WINDOW, PaneGrid
from firesteel.state.keyed_backend import KeyedBackend

#: Names in snapshots: of the store of panes, of the tables of sessions, contents and windows that may merge, and of
#: the timer queues of the general operator.
PANES = "\0panes"
SESSIONS = "\0sessions"
CONTENTS = "\0window-contents"
MERGING = "\0merging-windows"
EVENT_TIMERS = "window-event-time"
PROCESSING_TIMERS = "window-processing-time"

PaneEntries = tuple[list[Any], list[Any], Any]


class OpenWindow(NamedTuple):
    """A window of a key, its contents, and whether it has fired and waits for late records."""

    key: Any
    window: TimeWindow
    contents: Any
    has_fired: bool


def from_general(state: KeyedBackend, is_event_time: bool) -> list[OpenWindow]:
    """The windows that the general operator has written; it has them no more."""
    timers = set(state.pop_restored_timers(EVENT_TIMERS if is_event_time else PROCESSING_TIMERS, True))
    state.pop_restored_timers(PROCESSING_TIMERS if is_event_time else EVENT_TIMERS, True)
    contents = dict(state.pop_restored_table(CONTENTS, True))
    for elements in contents.values():
        if isinstance(elements, list) and elements and isinstance(elements[0], TimestampedValue):
            raise IncompatibleStateError(
                "the windows were saved with an evictor, which keeps all elements with their times, and the program "
                "has none any more; keep the evictor, or start these windows from the beginning under another uid"
            )
    merging = dict(state.pop_restored_table(MERGING, False))
    # Under what the contents of a window are stored: the key and, where windows have merged, a state window.
    stored_under = (
        [
            ((key, window), (key, state_window))
            for key, state_windows in merging.items()
            for window, state_window in state_windows.items()
        ]
        if merging
        else [(entry, entry) for entry in contents]
    )
    # The trigger has a timer for the end of a window until it fires.
    return [
        OpenWindow(key, window, contents[entry], (window.max_timestamp(), (key, window)) not in timers)
        for (key, window), entry in stored_under
        if entry in contents
    ]


def from_sessions(state: KeyedBackend) -> Iterator[OpenWindow]:
    """The sessions that `session_operator` has written; it has them no more."""
    for key, sessions in state.pop_restored_table(SESSIONS, False):
        for start, end, contents, has_fired in sessions:
            yield OpenWindow(key, TimeWindow(start, end), contents, has_fired)


def from_panes(
    entries: Iterable[PaneEntries], grid: PaneGrid, are_shared: bool, lateness: int, contents: Contents
) -> Iterator[OpenWindow]:
    """The windows that `pane_operator` has written; panes that windows share become part of each of them."""
    windows: dict[tuple[Any, int], tuple[Any, bool]] = {}
    for (start, is_pane, key), (value, fired_until) in sorted(_latest(entries).items(), key=_start):
        for window in grid.windows_of(start) if are_shared and is_pane else (start,):
            last = window + grid.size - 1
            if last + lateness <= fired_until:
                continue  # the pane is there for the windows after this one
            old, _ = windows.get((key, window), (MISSING, False))
            merged = private(value) if old is MISSING else contents.merge(old, private(value))
            windows[key, window] = (merged, last <= fired_until)
    for (key, start), (merged, has_fired) in windows.items():
        yield OpenWindow(key, TimeWindow(start, start + grid.size), merged, has_fired)


def _latest(entries: Iterable[PaneEntries]) -> dict[tuple[int, bool, Any], tuple[Any, int]]:
    """What each key has in each pane (True) or window, once: a snapshot may hold an entry twice."""
    latest: dict[tuple[int, bool, Any], tuple[Any, int]] = {}
    for keys, values, extra in entries:
        start, fired_until, *form = extra or (0, 0)
        for key, value in zip(keys, values, strict=True):
            if form == [BY_WINDOW]:
                for window, contents in value.items():
                    latest[window, False, key] = (contents, fired_until)
            else:
                latest[start, not form, key] = (value, fired_until)
    return latest


def _start(entry: Any) -> int:
    start: int = entry[0][0]
    return start


# Saved state of earlier versions


def were_panes_shared(definition: WindowDefinition, grid: PaneGrid) -> bool:
    """Whether contents that were saved by start, with no word of what starts there, are those of panes.

    They are when the function says that merging is exact. Earlier versions shared the panes of every function that
    seemed to be able to merge, and kept all others by window. They did not save which of both they did, so what seemed
    so to them must seem so here.
    """
    if definition.aggregator is None:
        return grid.size == grid.slide
    function = definition.aggregator.instance
    can_merge = not isinstance(function, AggregateFunction) or _returns_something(function.merge)
    return grid.size == grid.slide or definition.merges_exactly or can_merge


def _returns_something(method: Any) -> bool:
    """Whether a Python function has a return with a value: programs without sessions often leave merge() empty.

    A guess from the bytecode, for old savepoints only: nothing that is written today depends on it.
    """
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
