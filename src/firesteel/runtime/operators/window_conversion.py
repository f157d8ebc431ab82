r"""Windows that one kind of operator has written and another kind reads.

In memory, tumbling, sliding and session windows with their own trigger have operators that keep contents in their own
way (`pane_windows`, `session_windows`); on disk, or when the aggregate function uses state, the general one
(`window`) does the work. A savepoint may pass from one to the other: what it holds is turned into `OpenWindow`\ s, which
every operator can take in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from firesteel.common.errors import IncompatibleStateError
from firesteel.contracts.evictors import TimestampedValue
from firesteel.contracts.windows import TimeWindow
from firesteel.runtime.operators.detached import detached
from firesteel.runtime.operators.panes import PaneGrid
from firesteel.runtime.operators.window_contents import MISSING, Contents
from firesteel.state.hashmap_backend import HashMapBackend

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
    kept: Any
    has_fired: bool


def from_general(state: HashMapBackend, is_event_time: bool) -> list[OpenWindow]:
    """The windows that the general operator has written; it has them no more."""
    timers = set(state.take_restored_timers(EVENT_TIMERS if is_event_time else PROCESSING_TIMERS, True))
    state.take_restored_timers(PROCESSING_TIMERS if is_event_time else EVENT_TIMERS, True)
    contents = dict(state.take_restored_table(CONTENTS, True))
    for kept in contents.values():
        if isinstance(kept, list) and kept and isinstance(kept[0], TimestampedValue):
            raise IncompatibleStateError(
                "the windows were saved with an evictor, which keeps all elements with their times, and the program "
                "has none any more; keep the evictor, or start these windows anew under another uid"
            )
    merging = dict(state.take_restored_table(MERGING, False))
    places = (
        [
            ((key, window), (key, place))
            for key, mapping in merging.items()
            for window, place in mapping.items()
        ]
        if merging
        else [(entry, entry) for entry in contents]
    )
    # The trigger has a timer for the end of a window until it fires.
    return [
        OpenWindow(entry[0], entry[1], contents[place], (entry[1].max_timestamp(), entry) not in timers)
        for entry, place in places
        if place in contents
    ]


def from_sessions(state: HashMapBackend) -> Iterator[OpenWindow]:
    """The sessions that `session_windows` has written; it has them no more."""
    for key, sessions in state.take_restored_table(SESSIONS, False):
        for start, end, kept, has_fired in sessions:
            yield OpenWindow(key, TimeWindow(start, end), kept, has_fired)


def from_panes(
    entries: Iterable[PaneEntries], grid: PaneGrid, are_shared: bool, lateness: int, contents: Contents
) -> Iterator[OpenWindow]:
    """The windows that `pane_windows` has written; panes that windows share become part of each of them."""
    found: dict[tuple[Any, int], tuple[Any, bool]] = {}
    for (start, is_shared, key), (value, fired_until) in sorted(_latest(entries).items(), key=_start):
        for window in grid.windows_of(start) if are_shared and is_shared else (start,):
            last = window + grid.size - 1
            if last + lateness <= fired_until:
                continue  # the pane is there for the windows after this one
            kept, _ = found.get((key, window), (MISSING, False))
            merged = detached(value) if kept is MISSING else contents.merge(kept, detached(value))
            found[key, window] = (merged, last <= fired_until)
    for (key, start), (kept, has_fired) in found.items():
        yield OpenWindow(key, TimeWindow(start, start + grid.size), kept, has_fired)


def _latest(entries: Iterable[PaneEntries]) -> dict[tuple[int, bool, Any], tuple[Any, int]]:
    """What each key has in each pane, once: a snapshot may hold an entry twice."""
    found: dict[tuple[int, bool, Any], tuple[Any, int]] = {}
    for keys, values, extra in entries:
        for key, value in zip(keys, values, strict=True):
            found[extra[0], len(extra) == 2, key] = (value, extra[1])
    return found


def _start(entry: Any) -> int:
    start: int = entry[0][0]
    return start
