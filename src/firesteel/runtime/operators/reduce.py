"""reduce on a keyed stream, and with it the rolling aggregates.

What the function returns is both the state of the key and a result. Results that can change are copied: the function
may change its first argument in place the next time, and an operator further down may change what it gets.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from firesteel.common._override import override
from firesteel.common._values import ATOMIC, MISSING, private, private_all
from firesteel.plan.keys import KeyOf
from firesteel.plan.operator_specs import RuntimeMode
from firesteel.runtime.operator import OperatorContext, Timestamps
from firesteel.runtime.operators.announced import batch_keys
from firesteel.runtime.operators.emission import EMIT_AT, Watch, protects
from firesteel.runtime.operators.function_operator import FunctionOperator
from firesteel.runtime.user_function import UserFunction
from firesteel.state.keyed_backend import KeyedBackend

#: Name of the table with the reduced values; no state of a user can be called so.
REDUCED = "\0reduced"


class ReduceOperator(FunctionOperator):
    """Combines each value with what its key has so far, and emits the result.

    In STREAMING every input gives an updated output; in BATCH only the last value of each key is emitted.
    """

    reads_keys_first = True

    def __init__(self, function: UserFunction, key_of: KeyOf, state: KeyedBackend) -> None:
        super().__init__(function)
        self._reduce = function.method("reduce")
        self._key_of = key_of
        self._state = state
        self._reduced = state.table(REDUCED)
        self._in_key_context = function.is_rich
        self._only_last = False

    @override
    def open(self, context: OperatorContext) -> None:
        """Learn which mode the job runs in."""
        self._pace = context.pace
        self._only_last = context.mode is RuntimeMode.BATCH
        super().open(context)
        self._protects = protects(context, self._reduce)
        self._watch = Watch(context)

    @override
    def process(self, values: list[Any], timestamps: Timestamps) -> None:
        """Reduce every value into its key."""
        self._protects = self._protects or self._watch.finds()
        keys = iter(batch_keys(self, values, self._key_of, self._state))
        self.cursor = cursor = self._pace.begin(values)
        results = self._reduce_all(cursor, self._in_context(keys) if self._in_key_context else keys)
        self.left = left = self._pace.end()
        if not self._only_last:
            self.output.emit(results, timestamps if not left or timestamps is None else timestamps[:-left])

    def _in_context(self, keys: Iterator[Any]) -> Iterator[Any]:
        """The keys, each one made the current one: the function may have got hold of state."""
        state = self._state
        for state.current_key in keys:  # announced with the batch; a call would be one more for every record
            yield state.current_key

    def _reduce_all(self, values: Iterator[Any], keys: Iterator[Any]) -> list[Any]:
        reduced, reduce, atomic, guarded = self._reduced, self._reduce, ATOMIC, self._protects
        get = reduced.get
        results: list[Any] = []
        append = results.append
        # The cursor comes first: when it ends early, nothing has been done for the record behind.
        for value, key in zip(values, keys, strict=False):
            old = get(key, MISSING)
            if old is not MISSING:
                value = reduce(old, value)
            reduced[key] = value
            if guarded:  # `private` written out for what is most common
                kind = type(value)
                if kind is tuple:
                    for item in value:
                        if type(item) not in atomic:
                            value = private(value)
                            break
                elif kind not in atomic:
                    value = private(value)
            append(value)
        return results

    forgets_keys = True

    @override
    def end_keys(self) -> None:
        """Emit the last value of each key, in BATCH; what cannot be forgotten is emitted at the end."""
        if self._state.can_forget_keys:
            self.finish()

    @override
    def finish(self) -> None:
        """Emit the last value of each key that is still there, in BATCH."""
        if self._only_last:
            for values in self._state.values_of(REDUCED):
                for begin in range(0, len(values), EMIT_AT):
                    batch = values[begin : begin + EMIT_AT]
                    self.output.emit(private_all(batch) if self._protects else batch, None)
