"""Count windows with their default trigger: each fires when it is full, and then it is gone.

The general operator, as PyFlink's, would keep the contents of full windows for ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from firesteel.common._override import override
from firesteel.common._values import MISSING
from firesteel.contracts.windows import CountWindow
from firesteel.runtime.operators.windows.base import WindowDefinition, WindowingOperator


class CountWindowOperator(WindowingOperator):
    """Windows of ``size`` records of a key, one starting every ``slide`` records.

    A key's entry in the table is the number of its records so far and the contents of its open windows, oldest
    first.
    """

    def __init__(self, definition: WindowDefinition, size: int, slide: int) -> None:
        super().__init__(definition)
        self._size = size
        self._slide = slide
        self._table = definition.state.table("\0count-windows")

    @override
    def _add_batch(self, timestamps: Iterable[Any], values: Iterator[Any], keys: Iterable[Any]) -> None:
        """Count every record, add it to the open windows of its key, and fire the one that is full."""
        table, size, slide = self._table, self._size, self._slide
        add, copies = self._definition.contents.add, self._definition.contents.copies
        for _, value, key in zip(timestamps, values, keys, strict=False):
            entry = table.get(key)
            if entry is None:
                entry = table[key] = [0, []]
            number, opened = entry
            if number % slide == 0:
                opened.append(MISSING)
            # Its latest window first, as it is for all windows.
            for index, copy in zip(reversed(range(len(opened))), copies(value, len(opened)), strict=True):
                opened[index] = add(opened[index], copy)
            entry[0] = number = number + 1
            if number >= size and (number - size) % slide == 0:
                self._fire(key, (number - size) // slide, opened.pop(0))

    def _fire(self, key: Any, id: int, contents: Any) -> None:
        self._state.turn_to_announced(key)  # with the batch
        window = CountWindow(id)
        # Lists of windows that overlap share their elements.
        is_kept = self._size > self._slide and not self._definition.contents.is_single
        self._results.fire(key, window, self._definition.contents.result(contents), is_kept)
        if self._results.must_clear:
            self._results.clear(key, window)
