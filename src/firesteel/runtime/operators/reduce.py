"""reduce on a keyed stream, and with it the rolling aggregates.

Results of a batch leave together, so a function that changes its first argument in place and returns it
would change results that were emitted before. Functions are watched for that at the start: one that never
does it in its first calls runs without any check, one that does gets its results copied.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from typing import Any

from firesteel.plan.operator_specs import RuntimeMode
from firesteel.runtime.operator import OperatorContext, Timestamps
from firesteel.runtime.operators.announced import announced_keys
from firesteel.runtime.operators.function_operator import FunctionOperator
from firesteel.runtime.user_function import UserFunction
from firesteel.state.hashmap_backend import HashMapBackend

_MISSING = object()
_WATCHED_CALLS = 64

#: Name of the table with the reduced values; no state of a user can be called so.
REDUCED = "\0reduced"


class ReduceOperator(FunctionOperator):
    """Combines each value with what its key has so far, and emits the result.

    In STREAMING every input gives an updated output; in BATCH only the last value of each key is emitted.
    """

    def __init__(self, function: UserFunction, key_of: Callable[[Any], Any], state: HashMapBackend) -> None:
        super().__init__(function)
        self._reduce = function.method("reduce")
        self._key_of = key_of
        self._state = state
        self._reduced = state.table(REDUCED)
        self._in_key_context = function.is_rich
        self._only_last = False
        self._left_to_watch = _WATCHED_CALLS
        self._changes_in_place = False

    def open(self, context: OperatorContext) -> None:
        """Learn which mode the job runs in."""
        self._only_last = context.mode is RuntimeMode.BATCH
        super().open(context)

    def process(self, values: list[Any], timestamps: Timestamps) -> None:
        """Reduce every value into its key."""
        keys = announced_keys(self, values, self._key_of, self._state) if self._state.tracks else None
        self.cursor = cursor = iter(values)
        if self._in_key_context or self._left_to_watch or self._changes_in_place:
            results = self._reduce_carefully(cursor)
        elif keys is not None:
            results = self._reduce_announced(keys, cursor)
        else:
            results = self._reduce_all(cursor)
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

    def _reduce_announced(self, keys: list[Any], values: Iterator[Any]) -> list[Any]:
        """The same with keys that are known already."""
        reduced, reduce = self._reduced, self._reduce
        get = reduced.get
        results: list[Any] = []
        append = results.append
        for key, value in zip(keys, values, strict=False):
            old = get(key, _MISSING)
            if old is not _MISSING:
                value = reduce(old, value)
            reduced[key] = value
            append(value)
        return results

    def _reduce_carefully(self, values: Iterator[Any]) -> list[Any]:
        """The same with the key in context, watching for changes in place, copying where they happen."""
        results = []
        for value in values:
            key = self._state.current_key = self._key_of(value)
            old = self._reduced.get(key, _MISSING)
            if old is not _MISSING:
                value = self._watched(old, value) if self._left_to_watch else self._reduce(old, value)
            self._reduced[key] = value
            results.append(copy.deepcopy(value) if self._left_to_watch or self._changes_in_place else value)
        return results

    def _watched(self, old: Any, value: Any) -> Any:
        self._left_to_watch -= 1
        before = _image(old)
        result = self._reduce(old, value)
        if _image(old) != before:
            self._changes_in_place = True
            self._left_to_watch = 0
        return result

    def finish(self) -> None:
        """Emit the last value of each key, in BATCH."""
        if self._only_last:
            for values in self._state.values_of(REDUCED):
                self.output.emit(values, None)


def _image(value: Any) -> Any:
    """Something that differs when the value has changed inside."""
    try:
        return pickle.dumps(value, protocol=5)
    except Exception:  # noqa: BLE001 - what cannot be pickled cannot leave the task either
        return copy.deepcopy(value)
