"""Count windows with their default trigger: each fires when it is full, and then it is gone.

The general operator, as PyFlink's, would keep the contents of full windows for ever.
"""

from __future__ import annotations

from typing import Any

from firesteel.contracts.windows import CountWindow
from firesteel.runtime.operator import OperatorContext, Timestamps
from firesteel.runtime.operators.announced import announced_keys
from firesteel.runtime.operators.window_base import WindowingOperator
from firesteel.runtime.operators.window_contents import MISSING
from firesteel.runtime.operators.window_output import WindowContext, WindowResults, WindowStates
from firesteel.runtime.operators.window_parts import WindowParts


class CountWindowOperator(WindowingOperator):
    """Windows of so many records of a key, one starting every so many.

    A key's entry in the table is the number of its records so far and the contents of its open windows, oldest
    first.
    """

    def __init__(self, parts: WindowParts, size: int, slide: int) -> None:
        super().__init__(parts)
        self._size = size
        self._slide = slide
        self._table = parts.state.table("\0count-windows")

    def open(self, context: OperatorContext) -> None:
        """Open the user's functions, then make the contexts."""
        self._open_functions(context)
        parts = self._parts
        self.output = context.output
        states = WindowStates(parts.state)
        window_context = WindowContext(self, context, states, is_merging=False)
        self._results = WindowResults(
            context.output, parts.function, parts.contents.is_single, window_context, states, parts.state
        )

    def process(self, values: list[Any], timestamps: Timestamps) -> None:
        """Count every record, add it to the open windows of its key, and fire the one that is full."""
        if self._parts.state.tracks:
            announced_keys(self, values, self._parts.key_of, self._parts.state)
        self.cursor = cursor = iter(values)
        table, size, slide = self._table, self._size, self._slide
        key_of, add = self._parts.key_of, self._parts.contents.add
        for value in cursor:
            key = key_of(value)
            entry = table.get(key)
            if entry is None:
                entry = table[key] = [0, []]
            number, opened = entry
            if number % slide == 0:
                opened.append(MISSING)
            for index, kept in enumerate(opened):
                opened[index] = add(kept, value)
            entry[0] = number = number + 1
            if number >= size and (number - size) % slide == 0:
                self._fire(key, (number - size) // slide, opened.pop(0))
        self._results.flush()

    def _fire(self, key: Any, id: int, kept: Any) -> None:
        self._parts.state.current_key = key
        window = CountWindow(id)
        self._results.fire(key, window, self._parts.contents.result(kept))
        if self._results.has_function:
            self._results.clear(key, window)
