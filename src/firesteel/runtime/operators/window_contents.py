"""What a window holds per key - a reduced value, an accumulator or a list - and how records get into it.

All kinds have the same face, so the window operators need not know which one they keep. The batch loops at
the heart of tumbling and sliding windows are here, too, one per kind: a call per record for choosing the
kind would cost as much as the work itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

from firesteel.common.errors import ProgramError
from firesteel.runtime.operators.detached import detached, detached_all

MISSING: Any = object()

Table = dict[Any, Any]
KeyOf = Callable[[Any], Any]
PaneAt = Callable[[int], tuple[int, int, Table | None]]
OneByOne = Callable[[Any, Any, int], None]


class Contents(Protocol):
    """One kind of window contents."""

    is_single: bool

    def add(self, old: Any, value: Any) -> Any:
        """What to keep once ``value`` has come; ``old`` is MISSING for the first one."""
        ...

    def merge(self, old: Any, new: Any) -> Any:
        """What to keep for two windows (or panes) that become one; both may be used up."""
        ...

    def result(self, kept: Any) -> Any:
        """What the window function gets, or what is emitted without one; None for nothing."""
        ...

    def results(self, kept: Iterable[Any]) -> list[Any]:
        """`result` of many."""
        ...

    def add_batch(
        self,
        pane_at: PaneAt,
        one_by_one: OneByOne,
        key_of: KeyOf,
        timestamps: Iterable[int],
        values: Iterator[Any],
    ) -> None:
        """Add records to the panes of their timestamps.

        ``pane_at`` tells first and last timestamp (exclusive) of a pane and its table. Without a table, records
        go to ``one_by_one``.
        """
        ...


class ReducedContents:
    """One value, combined with each that comes."""

    is_single = True

    def __init__(self, reduce: Callable[[Any, Any], Any]) -> None:
        self._reduce = reduce

    def add(self, old: Any, value: Any) -> Any:
        """The combination of both."""
        return value if old is MISSING else self._reduce(old, value)

    def merge(self, old: Any, new: Any) -> Any:
        """The combination of both."""
        return self._reduce(old, new)

    def result(self, kept: Any) -> Any:
        """The value."""
        return kept

    def results(self, kept: Iterable[Any]) -> list[Any]:
        """The values."""
        return list(kept)

    def add_batch(
        self,
        pane_at: PaneAt,
        one_by_one: OneByOne,
        key_of: KeyOf,
        timestamps: Iterable[int],
        values: Iterator[Any],
    ) -> None:
        """Reduce each record into its key and pane."""
        reduce = self._reduce
        low = high = 0
        table: Table | None = None
        # The cursor comes last: zip asks its first iterable once more at the end.
        for timestamp, value in zip(timestamps, values, strict=False):
            if not low <= timestamp < high:
                low, high, table = pane_at(timestamp)
                if table is None:
                    one_by_one(key_of(value), value, timestamp)
                    high = low
                    continue
                get = table.get
            key = key_of(value)
            old = get(key, MISSING)
            table[key] = value if old is MISSING else reduce(old, value)  # type: ignore[index]


class AggregatedContents:
    """An accumulator."""

    is_single = True

    def __init__(self, function: Any) -> None:
        self._create = function.create_accumulator
        self._add = function.add
        self._merge = function.merge
        self._get_result = function.get_result

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

    def result(self, kept: Any) -> Any:
        """The result of the accumulator."""
        return self._get_result(kept)

    def results(self, kept: Iterable[Any]) -> list[Any]:
        """The results of the accumulators."""
        return list(map(self._get_result, kept))

    def add_batch(
        self,
        pane_at: PaneAt,
        one_by_one: OneByOne,
        key_of: KeyOf,
        timestamps: Iterable[int],
        values: Iterator[Any],
    ) -> None:
        """Add each record to the accumulator of its key and pane."""
        add, create = self._add, self._create
        low = high = 0
        table: Table | None = None
        for timestamp, value in zip(timestamps, values, strict=False):
            if not low <= timestamp < high:
                low, high, table = pane_at(timestamp)
                if table is None:
                    one_by_one(key_of(value), value, timestamp)
                    high = low
                    continue
                get = table.get
            key = key_of(value)
            old = get(key, MISSING)
            table[key] = add(value, create() if old is MISSING else old)  # type: ignore[index]


class ListedContents:
    """All elements, in the order they came."""

    is_single = False

    def add(self, old: Any, value: Any) -> Any:
        """The list with the value at its end."""
        if old is MISSING:
            return [value]
        old.append(value)
        return old

    def merge(self, old: Any, new: Any) -> Any:
        """One list after the other."""
        old.extend(new)
        return old

    def result(self, kept: Any) -> Any:
        """A copy: the function may keep it, while the window takes more elements."""
        return list(kept) or None

    def results(self, kept: Iterable[Any]) -> list[Any]:
        """Copies."""
        return list(map(self.result, kept))

    def add_batch(
        self,
        pane_at: PaneAt,
        one_by_one: OneByOne,
        key_of: KeyOf,
        timestamps: Iterable[int],
        values: Iterator[Any],
    ) -> None:
        """Append each record to the list of its key and pane."""
        low = high = 0
        table: Table | None = None
        for timestamp, value in zip(timestamps, values, strict=False):
            if not low <= timestamp < high:
                low, high, table = pane_at(timestamp)
                if table is None:
                    one_by_one(key_of(value), value, timestamp)
                    high = low
                    continue
                get = table.get
            key = key_of(value)
            elements = get(key)
            if elements is None:
                table[key] = [value]  # type: ignore[index]
            else:
                elements.append(value)


def merged_tables(contents: Contents, tables: Iterable[Mapping[Any, Any]]) -> Table:
    """One table for several, which stay as they are."""
    merged: Table = {}
    merge = contents.merge
    get = merged.get
    for table in tables:
        # Merging may use up what it is given.
        for key, kept in zip(table, detached_all(list(table.values())), strict=True):
            old = get(key, MISSING)
            merged[key] = kept if old is MISSING else merge(old, kept)
    return merged


def merged_key(contents: Contents, key: Any, tables: Iterable[Mapping[Any, Any]]) -> Any:
    """What one key has in several tables, which stay as they are; MISSING for nothing."""
    merged: Any = MISSING
    for table in tables:
        kept = table.get(key, MISSING)
        if kept is not MISSING:
            merged = detached(kept) if merged is MISSING else contents.merge(merged, detached(kept))
    return merged
