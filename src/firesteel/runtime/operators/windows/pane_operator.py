"""Tumbling and sliding windows with their default trigger: what most programs use, and the fast way to do it.

The same results as `general_operator`, from tables of panes or blocks instead of state and timers per key and
window. The property tests compare both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from typing import Any

from firesteel.common._override import override
from firesteel.common._values import ATOMIC, MISSING
from firesteel.common.time import MIN_TIMESTAMP
from firesteel.contracts.windows import TimeWindow
from firesteel.runtime.operator import OperatorContext
from firesteel.runtime.operators.loops import indented
from firesteel.runtime.operators.windows.base import DefaultTriggerOperator, WindowDefinition
from firesteel.runtime.operators.windows.output import (
    AggregatedContents,
    Contents,
    ListedContents,
    ReducedContents,
    merged_key,
    merged_tables,
)
from firesteel.runtime.operators.windows.panes import PaneGrid, PaneStore, WindowBlocks
from firesteel.runtime.operators.windows.restore import PANES, from_general, from_panes
from firesteel.runtime.operators.windows.sliding_merge import SlidingMerge

_MANY_PANES = 4  # per window, from which on it pays to keep merged contents between windows


class PaneWindowOperator(DefaultTriggerOperator):
    """Tumbling and sliding windows, by event time or processing time.

    Contents are in panes or in blocks, never in both; see `panes`. ``were_shared``: earlier versions have saved panes
    for a function like this one, which windows share.
    """

    def __init__(self, definition: WindowDefinition, grid: PaneGrid, were_shared: bool) -> None:
        super().__init__(definition)
        self._grid = grid
        self._were_shared = were_shared
        self._sliding: SlidingMerge | None = None

    @override
    def _open_windows(self, context: OperatorContext) -> None:
        """Adopt what was restored, whichever operator has written it; then it is known how contents are kept."""
        state, definition, grid = self._state, self._definition, self._grid
        windows = from_general(state, self._is_event_time)
        entries = state.pop_restored_entries(PANES)
        # What was saved by window can be told apart by pane no more.
        are_panes = not windows and all(len(extra) == 2 for keys, _, extra in entries if keys)
        self._shares = grid.overlaps and definition.merges_exactly and are_panes
        self._panes: PaneStore | None = None
        self._blocks: WindowBlocks | None = None
        self._store: PaneStore | WindowBlocks
        if grid.overlaps and not self._shares:
            self._store = self._blocks = WindowBlocks(grid, definition.allowed_lateness)
        else:
            self._store = self._panes = PaneStore(grid, definition.allowed_lateness)
        if self._panes is not None and are_panes and (self._shares or grid.size == grid.slide):
            for keys, values, extra in entries:
                self._panes.restore(keys, values, extra)
        else:
            windows += from_panes(
                entries, grid, self._were_shared, definition.allowed_lateness, definition.contents
            )
        for key, window, contents, has_fired in windows:
            fired_until = window.max_timestamp() if has_fired else MIN_TIMESTAMP
            self._store.restore_window(key, window.start, contents, fired_until)
        state.add_store(PANES, self._store)
        if self._shares and self._panes is not None and len(grid.panes_of(0)) >= _MANY_PANES:
            self._sliding = SlidingMerge(definition.contents, self._panes)
        self._loop = create_pane_loop(definition.contents, self._store, self._add_one)

    # Records ------------------------------------------------------------------------------------------

    @override
    def _add_batch(self, timestamps: Iterable[Any], values: Iterator[Any], keys: Iterable[Any]) -> None:
        self._loop(timestamps, values, keys)

    @override
    def _announce(self, timestamps: Iterable[Any], values: list[Any]) -> None:
        if not self._store.is_frozen:
            return
        self.cursor = cursor = iter(values)
        key_of = self._definition.key_of
        changing: dict[int, list[Any]] = {}
        for timestamp, value in zip(timestamps, cursor, strict=False):
            key = key_of(value)
            hash(key)
            for start in self._store.starts_at(timestamp):
                changing.setdefault(start, []).append(key)
        for start, keys in changing.items():
            self._store.save(start, keys)

    def _add_one(self, key: Any, value: Any, timestamp: int) -> None:
        """A record of which some windows have fired or gone."""
        store, pane = self._store, self._grid.pane_of(timestamp)
        windows = [window for window in self._grid.windows_of(pane) if not store.is_over(window)]
        if not windows:
            if timestamp + self._definition.allowed_lateness <= store.clock:
                self._late.add(value, timestamp)
            return
        contents = self._definition.contents
        if self._panes is not None:
            start = self._panes.bounds(timestamp)[0]
            table = self._panes.table(start)
            table[key] = contents.add(table.get(key, MISSING), value)
            if self._sliding is not None:
                self._sliding.changed(start, key)
        for window, copy in zip(windows, contents.copies(value, len(windows)), strict=True):
            if self._blocks is not None:
                row, slot = self._blocks.row(window, key)
                row[slot] = contents.add(row[slot], copy)
            if store.has_fired(window):
                self._fire_key(window, key)

    # Firing -------------------------------------------------------------------------------------------

    def _fire_key(self, window: int, key: Any) -> None:
        """A late record: the whole result of its window again, for its key."""
        self._state.turn_to(key)
        result = self._definition.contents.result(self._contents_of(window, key))
        self._results.fire(key, self._window(window), result, is_kept=True)

    def _contents_of(self, window: int, key: Any) -> Any:
        """What a key has in a window."""
        if self._blocks is not None:
            row, slot = self._blocks.row(window, key)
            return row[slot]
        assert self._panes is not None
        tables = self._panes.tables_of(window)
        return tables[0][key] if len(tables) == 1 else merged_key(self._definition.contents, key, tables)

    def _fire(self, window: int) -> None:
        """The end of a window: the results of all its keys."""
        contents, is_kept = self._definition.contents, self._definition.allowed_lateness > 0
        by_key: Iterable[tuple[Any, Any]]
        if self._blocks is not None:
            by_key = self._blocks.contents(window)
            is_kept = is_kept or not contents.is_single  # lists of several windows share their elements
        elif self._sliding is not None:
            by_key, is_kept = self._sliding.window(window).items(), False
        else:
            assert self._panes is not None
            tables = self._panes.tables_of(window)
            if len(tables) == 1:
                by_key, is_kept = tables[0].items(), is_kept or self._shares
            else:
                by_key, is_kept = merged_tables(contents, tables).items(), False
        self._results.fire_all(self._window(window), by_key, is_kept)

    def _remove(self, window: int) -> None:
        """The window is over: tell the window function, drop the contents."""
        if self._results.must_clear:
            time_window = self._window(window)
            for key in self._keys_of(window):
                self._state.turn_to(key)
                self._results.clear(key, time_window)
        self._store.drop(window)

    def _keys_of(self, window: int) -> Iterable[Any]:
        if self._blocks is not None:
            return (key for key, _ in self._blocks.contents(window))
        assert self._panes is not None
        return dict.fromkeys(key for table in self._panes.tables_of(window) for key in table)

    def _window(self, start: int) -> TimeWindow:
        return TimeWindow(start, start + self._grid.size)

    # Time ---------------------------------------------------------------------------------------------

    @override
    def _next_time(self) -> int | None:
        """The end of the next window."""
        return None if self._is_event_time else self._store.next_time()

    @override
    def _fire_until(self, clock: int) -> None:
        for window, fires in self._store.advance(clock):
            if fires:
                self._fire(window)
            else:
                self._remove(window)


# The loops at the heart of it: one for each kind of contents and of store -----------------------------
# A call per record for adding it to whatever its window holds would cost as much as the work itself, so the few lines that
# do it are written into the loop. All loops have one frame, `_FRAME`; it is filled once per kind, as the loops for user
# functions are (`firesteel.runtime.operators.loops`).


# Records that follow each other are mostly of one pane: the store is asked again where to add when one is not. The
# cursor, ``values``, does not come first: zip asks its first iterable once more at the end. Nor does it come last: when
# a key cannot be read, its record is the last one that the cursor gave.
_FRAME = """
def loop(pane_at, add_one, slots, private, {functions}timestamps, values, keys):
    missing, all_atomic = MISSING, ATOMIC.issuperset
    low = high = 0
    for timestamp, value, key in zip(timestamps, values, keys):
        if not low <= timestamp < high:
            low, high, target = pane_at(timestamp)
            if target is None:
                add_one(key, value, timestamp)
                high = low
                continue
            {enter}
        {add}
"""

# Into the one table of a pane.
_ENTER_TABLE = "get = target.get"
_REDUCE = """
old = get(key, missing)
target[key] = value if old is missing else reduce(old, value)
"""
_AGGREGATE = """
old = get(key, missing)
target[key] = add(value, create() if old is missing else old)
"""
_APPEND = """
elements = get(key)
if elements is None:
    target[key] = [value]
else:
    elements.append(value)
"""

# Into all slots of a pane's windows, in their order.
_SPREAD = """
{look}
for table, first, end in target:
    row = table.get(key)
    if row is None:
        row = table[key] = [missing] * slots
    {add}
"""
# Each window gets a copy of a record that can change. What most records are, without a call; then what any record is.
_LOOK = """is_value = (type(value) is tuple and all_atomic(map(type, value))) or private(value) is value"""
_REDUCE_ALL = """
if is_value:
    row[first:end] = [value if old is missing else reduce(old, value) for old in row[first:end]]
else:
    row[first:end] = [
        private(value) if old is missing else reduce(old, private(value)) for old in row[first:end]
    ]
"""
_AGGREGATE_ALL = """
if is_value:
    row[first:end] = [add(value, create() if old is missing else old) for old in row[first:end]]
else:
    row[first:end] = [add(private(value), create() if old is missing else old) for old in row[first:end]]
"""
_APPEND_ALL = """
for slot in range(first, end):
    elements = row[slot]
    if elements is missing:
        row[slot] = [value]
    else:
        elements.append(value)
"""

#: By kind of contents: what its functions are called in the loop, how a record gets into a table, and how into slots.
_KINDS: dict[type, tuple[str, str, str]] = {
    ReducedContents: ("reduce, ", _REDUCE, _REDUCE_ALL),
    AggregatedContents: ("create, add, ", _AGGREGATE, _AGGREGATE_ALL),
    ListedContents: ("", _APPEND, _APPEND_ALL),
}

#: Takes timestamps, a cursor over the records, and their keys.
PaneLoop = Callable[[Iterable[int], Iterator[Any], Iterable[Any]], None]


def create_pane_loop(
    contents: Contents, store: PaneStore | WindowBlocks, add_one: Callable[[Any, Any, int], None]
) -> PaneLoop:
    """The loop that adds a batch to a store; records that cannot simply be added go to ``add_one``.

    To be called when the contents know whether they make values private.
    """
    loop = _compiled(type(contents), isinstance(store, WindowBlocks))
    return partial(loop, store.pane_at, add_one, store.slots, contents.private, *contents.functions)


@cache
def _compiled(kind: type, spreads: bool) -> Callable[..., None]:
    functions, add, add_all = _KINDS[kind]
    spread = _SPREAD.format(look="pass" if kind is ListedContents else _LOOK, add=indented(add_all, 4))
    source = _FRAME.format(
        functions=functions,
        enter="pass" if spreads else _ENTER_TABLE,
        add=indented(spread if spreads else add, 8),
    )
    names: dict[str, Any] = {"__name__": __name__, "ATOMIC": ATOMIC, "MISSING": MISSING}
    exec(compile(source, f"<{__name__}>", "exec"), names)
    loop: Callable[..., None] = names["loop"]
    return loop
