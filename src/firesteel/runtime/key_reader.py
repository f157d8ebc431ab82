"""The key of a record, inside a task: the user's selector, opened and closed, and the rule for keys on top of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from firesteel.contracts.runtime_context import RuntimeContext
from firesteel.plan.keys import AsksOthers, KeyForm, KeyOf, KeyRule, fast_reader
from firesteel.plan.shipped import Shipped
from firesteel.runtime.asked import asked
from firesteel.runtime.runtime_context import without_state
from firesteel.runtime.user_function import UserFunction

__all__ = ["KeyReader"]


class KeyReader:
    """One selector in one subtask, whether it routes records there or finds their state.

    What the selector does to the record nobody sees; ``protects`` is false with object reuse.
    """

    def __init__(self, shipped: Shipped, protects: bool = True) -> None:
        self._function = UserFunction(shipped)
        self._rule = KeyRule.of(self._function.instance)
        self._function.instance = self._rule.selector
        #: What the selector returns for a record, as it is.
        self.selected: Callable[[Any], Any] = self._selected(protects)
        #: The key of a record, as state knows it.
        self.key_of: KeyOf = fast_reader(self.selected, self._rule)

    def _selected(self, protects: bool) -> Callable[[Any], Any]:
        selector, select = self._rule.selector, self._function.method("get_key")
        if not protects:
            return select
        if isinstance(selector, AsksOthers):
            selector.asks = tuple(map(asked, selector.asks))
            return select
        return asked(select)

    def form(self) -> KeyForm:
        """What makes keys of what the selector returns."""
        return KeyForm(self._rule.type)

    def open(self, runtime: RuntimeContext) -> None:
        """Open the selector, which has no state: its keys must be the same whenever and wherever it is asked."""
        self._function.open(without_state(runtime))

    def close(self) -> None:
        """Close the selector, when it was opened."""
        self._function.close()
