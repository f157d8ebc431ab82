"""map, flat_map and filter with one value of state per key: a function of record and state, and no more.

The function takes the record and what its key has (None for nothing), and returns the result and what the key
shall have from now on (None for nothing). One look-up and one assignment per record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from firesteel.common.errors import ProgramError, short_repr
from firesteel.plan.operator_specs import WithStateKind
from firesteel.runtime.operator import Timestamps
from firesteel.runtime.operators.announced import announced_keys
from firesteel.runtime.operators.function_operator import FunctionOperator
from firesteel.runtime.operators.stateless import expand_all
from firesteel.runtime.user_function import UserFunction
from firesteel.state.hashmap_backend import HashMapBackend

#: The name of the state in snapshots.
TABLE = "\0with-state"


class WithStateOperator(FunctionOperator):
    """One result per record, or any number, or a decision whether to keep it."""

    def __init__(
        self,
        function: UserFunction,
        kind: WithStateKind,
        key_of: Callable[[Any], Any],
        state: HashMapBackend,
    ) -> None:
        super().__init__(function)
        self._call = function.method("__call__")
        self._kind = kind
        self._key_of = key_of
        self._state = state
        self._table = state.table(TABLE)

    def process(self, values: list[Any], timestamps: Timestamps) -> None:
        """Apply the function to every value and its key's state."""
        if self._state.tracks:
            announced_keys(self, values, self._key_of, self._state)
        self.cursor = cursor = iter(values)
        if self._kind is WithStateKind.MAP:
            self.output.emit(self._map(cursor), timestamps)
        elif self._kind is WithStateKind.FLAT_MAP:
            self.output.emit(*expand_all(self._call_with_state, cursor, timestamps))
        else:
            self.output.emit(*_filtered(self._map(cursor), values, timestamps))

    def _map(self, values: Iterator[Any]) -> list[Any]:
        # `_call_with_state` written out: a call less per record.
        call, key_of, table = self._call, self._key_of, self._table
        get = table.get
        results: list[Any] = []
        append = results.append
        for value in values:
            key = key_of(value)
            old = get(key)
            pair = call(value, old)
            try:
                result, new = pair
            except (TypeError, ValueError):
                raise _not_a_pair(pair) from None
            append(result)
            if new is not None:
                table[key] = new
            elif old is not None:
                del table[key]
        return results

    def _call_with_state(self, value: Any) -> Any:
        key = self._key_of(value)
        old = self._table.get(key)
        pair = self._call(value, old)
        try:
            result, new = pair
        except (TypeError, ValueError):
            raise _not_a_pair(pair) from None
        if new is not None:
            self._table[key] = new
        elif old is not None:
            del self._table[key]
        return result


def _filtered(results: list[Any], values: list[Any], timestamps: Timestamps) -> tuple[list[Any], Timestamps]:
    kept = [value for value, keep in zip(values, results, strict=True) if keep]
    if timestamps is None:
        return kept, None
    return kept, [timestamp for timestamp, keep in zip(timestamps, results, strict=True) if keep]


def _not_a_pair(got: Any) -> ProgramError:
    return ProgramError(
        f"the function must return a pair of result and new state (None to forget it), got {short_repr(got)}"
    )
