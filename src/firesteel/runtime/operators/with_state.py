"""map, flat_map and filter with one value of state per key: a function of record and state, and no more.

The function takes the record and what its key has (None for nothing), and returns the result and what the key
shall have from now on (None for nothing). One look-up and one assignment per record.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import compress
from typing import Any

from firesteel.common._override import override
from firesteel.common.errors import ProgramError, short_repr
from firesteel.plan.keys import KeyOf
from firesteel.plan.operator_specs import WithStateKind
from firesteel.runtime.operator import OperatorContext, Timestamps
from firesteel.runtime.operators.announced import announce_batch
from firesteel.runtime.operators.emission import Emission
from firesteel.runtime.operators.function_operator import FunctionOperator
from firesteel.runtime.user_function import UserFunction
from firesteel.state.keyed_backend import KeyedBackend

#: The name of the state in snapshots.
TABLE = "\0with-state"


class WithStateOperator(FunctionOperator):
    """One result per record, or any number, or a decision whether to keep it."""

    def __init__(
        self,
        function: UserFunction,
        kind: WithStateKind,
        key_of: KeyOf,
        state: KeyedBackend,
    ) -> None:
        super().__init__(function)
        self._call = function.method("__call__")
        self._kind = kind
        self._key_of = key_of
        self._state = state
        self._table = state.table(TABLE)

    @override
    def open(self, context: OperatorContext) -> None:
        """Make the emission, then open the user's function."""
        self._pace = context.pace
        self._emission = Emission(context)
        super().open(context)

    forgets_keys = True

    @override
    def process(self, values: list[Any], timestamps: Timestamps) -> None:
        """Apply the function to every value and its key's state."""
        announce_batch(self, values, self._key_of, self._state)
        self.cursor = cursor = self._pace.begin(values)
        if self._kind is WithStateKind.FLAT_MAP:
            self._emission.call_each(cursor, timestamps, self._call_with_state, guarded=True)
        elif self._kind is WithStateKind.MAP:
            results = self._emission.values_of(self._mapped(cursor))
            self.output.emit(results, None if timestamps is None else timestamps[: len(results)])
        else:
            verdicts: list[Any] = []
            results = self._emission.values_of(self._filtered(cursor, verdicts))
            self.output.emit(results, None if timestamps is None else list(compress(timestamps, verdicts)))
        self.left = self._pace.end()

    def _mapped(self, values: Iterator[Any]) -> Iterator[Any]:
        # `_call_with_state` written out: a call less per record.
        call, key_of, table = self._call, self._key_of, self._table
        get = table.get
        for value in values:
            key = key_of(value)
            old = get(key)
            pair = call(value, old)
            try:
                result, new = pair
            except (TypeError, ValueError):
                raise _not_a_pair(pair) from None
            if new is not None:
                table[key] = new
            elif old is not None:
                del table[key]
            yield result

    def _filtered(self, values: Iterator[Any], verdicts: list[Any]) -> Iterator[Any]:
        for value in values:
            verdict = self._call_with_state(value)
            verdicts.append(verdict)
            if verdict:
                yield value

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


def _not_a_pair(got: Any) -> ProgramError:
    return ProgramError(
        f"the function must return a pair of result and new state (None to forget it), got {short_repr(got)}"
    )
