"""reduce on a keyed stream, and with it the rolling aggregates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from firesteel.plan.operator_specs import RuntimeMode
from firesteel.runtime.operator import OperatorContext, Timestamps
from firesteel.runtime.operators.function_operator import FunctionOperator
from firesteel.runtime.user_function import UserFunction
from firesteel.state.hashmap_backend import HashMapBackend

_MISSING = object()


class ReduceOperator(FunctionOperator):
    """Combines each value with what its key has so far, and emits the result.

    In STREAMING every input gives an updated output; in BATCH only the last value of each key is emitted.
    """

    def __init__(self, function: UserFunction, key_of: Callable[[Any], Any], state: HashMapBackend) -> None:
        super().__init__(function)
        self._reduce = function.method("reduce")
        self._key_of = key_of
        self._state = state
        self._reduced = state.table("_reduce")
        self._in_key_context = function.is_rich
        self._only_last = False

    def open(self, context: OperatorContext) -> None:
        """Learn which mode the job runs in."""
        self._only_last = context.mode is RuntimeMode.BATCH
        super().open(context)

    def process(self, values: list[Any], timestamps: Timestamps) -> None:
        """Reduce every value into its key."""
        self.cursor = cursor = iter(values)
        reduce_all = self._reduce_in_key_context if self._in_key_context else self._reduce_all
        results = reduce_all(cursor)
        if not self._only_last:
            self.output.emit(results, timestamps)

    def _reduce_all(self, values: Iterator[Any]) -> list[Any]:
        reduced, reduce, key_of = self._reduced, self._reduce, self._key_of
        get = reduced.get
        results: list[Any] = []
        append = results.append
        for value in values:
            key = key_of(value)
            old = get(key, _MISSING)
            if old is not _MISSING:
                value = reduce(old, value)
            reduced[key] = value
            append(value)
        return results

    def _reduce_in_key_context(self, values: Iterable[Any]) -> list[Any]:
        results = []
        for value in values:
            key = self._state.current_key = self._key_of(value)
            old = self._reduced.get(key, _MISSING)
            self._reduced[key] = result = value if old is _MISSING else self._reduce(old, value)
            results.append(result)
        return results

    def finish(self) -> None:
        """Emit the last value of each key, in BATCH."""
        if self._only_last:
            self.output.emit(list(self._reduced.values()), None)
