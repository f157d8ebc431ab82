"""The key of a record, inside a task: the user's selector, opened and closed, and the rule for keys on top of it."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any

from firesteel.contracts.runtime_context import RuntimeContext
from firesteel.plan.keys import AsksOthers, KeyForm, KeyOf, KeyRule, fast_reader, subscript
from firesteel.plan.shipped import Shipped
from firesteel.runtime.asked import asked
from firesteel.runtime.blame import RAISED_BY_USERS
from firesteel.runtime.pace import Pace
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
        #: Whether a key is had in no time, because no code of the user is called for it.
        self.is_quick = (
            self.key_of is self.selected
            or type(self.selected) is itemgetter
            or subscript(self.selected) is not None
        )
        self._ahead: tuple[Any, list[Any]] = (None, [])
        if not self.is_quick:
            self._of_batch = getattr(self.key_of, "of_batch", None)
            self.key_of.of_batch = self._keys_of  # type: ignore[attr-defined]

    def _selected(self, protects: bool) -> Callable[[Any], Any]:
        selector, select = self._rule.selector, self._function.method("get_key")
        if not protects:
            return select
        if isinstance(selector, AsksOthers):
            selector.asks = tuple(map(asked, selector.asks))
            return select
        return asked(select)

    def read_ahead(self, values: list[Any], pace: Pace) -> list[Any]:
        """Read the keys of a batch that is to be processed: gives the batch, or the beginning for which there was time.

        `keys_of` has the keys then. Where one cannot be read, all are left to it: it finds the record to blame.
        """
        cursor, of_batch = pace.begin(values), self._of_batch
        try:
            keys = list(map(self.key_of, cursor)) if of_batch is None else of_batch(cursor)
        except RAISED_BY_USERS:  # it is raised again by the record that is to blame
            pace.end()
            return values
        left = pace.end()
        if left:
            values = values[:-left]
        self._ahead = (values, keys)
        return values

    def forget(self) -> None:
        """The batch has been processed."""
        self._ahead = (None, [])

    def _keys_of(self, records: list[Any]) -> list[Any] | None:
        """The keys of a batch, when they have been read or can be read together."""
        values, keys = self._ahead
        if records is values:
            return keys
        return None if self._of_batch is None else self._of_batch(records)

    def form(self) -> KeyForm:
        """What makes keys of what the selector returns."""
        return KeyForm(self._rule.type)

    def open(self, runtime: RuntimeContext) -> None:
        """Open the selector, which has no state: its keys must be the same whenever and wherever it is asked."""
        self._function.open(without_state(runtime))

    def close(self) -> None:
        """Close the selector, when it was opened."""
        self._function.close()
