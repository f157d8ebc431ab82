"""map, filter and flat_map: hop 3 of a record's journey, whole batches at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import compress
from typing import Any

from firesteel.common._override import override
from firesteel.runtime.few_results import gives_few
from firesteel.runtime.keeps_nothing import keeps_nothing
from firesteel.runtime.operator import OperatorContext, Timestamps
from firesteel.runtime.operators.announced import KeyedBatches
from firesteel.runtime.operators.emission import Emission, Watch, protects
from firesteel.runtime.operators.function_operator import FunctionOperator
from firesteel.runtime.user_function import UserFunction

_MOST_CLASSES = 64  # of records that are told apart


class StatelessOperator(FunctionOperator):
    """What they share: batches that may be cut short, and results that are values.

    A function that provably keeps nothing cannot change what it returned: its results need no protection.
    """

    def __init__(self, function: UserFunction, method: str, batches: KeyedBatches | None = None) -> None:
        super().__init__(function)
        self._call = function.method(method)
        self._batches = batches
        self._harmless_for: dict[type, bool] = {}

    @override
    def open(self, context: OperatorContext) -> None:
        """Find out whether results have to be protected, then open the user's function."""
        self._pace = context.pace
        self._emission = Emission(context)
        super().open(context)
        self._settled = context.output.is_settled()
        self._protects = self._needs_protection(context)
        self._watch = Watch(context)

    def _needs_protection(self, context: OperatorContext) -> bool:
        if not context.protects or keeps_nothing(self._call, may_change_arguments=True):
            return False
        return protects(context, self._call)

    def _guards(self, values: list[Any]) -> bool:
        """Whether results have to be made values. Of attributes it is known what they are once the class is known."""
        if not self._protects and not self._watch.finds():
            return False
        kinds = set(map(type, values))
        if len(kinds) != 1:
            return True
        (kind,) = kinds
        harmless = self._harmless_for.get(kind)
        if harmless is None:
            if len(self._harmless_for) >= _MOST_CLASSES:
                return True
            harmless = keeps_nothing(self._call, kind, may_change_arguments=True)
            self._harmless_for[kind] = harmless
        return not harmless

    @override
    def leaves_alone(self) -> bool:
        """Whether neither the function nor anybody behind changes what it gets."""
        return self._settled and keeps_nothing(self._call)

    def _begin(self, values: list[Any]) -> Iterator[Any]:
        if self._batches is not None:
            self._batches.announce(self, values)
        self.cursor = cursor = self._pace.begin(values)
        return cursor

    def _end(self, timestamps: Timestamps) -> Timestamps:
        """The timestamps of the records that were processed."""
        self.left = self._pace.end()
        return timestamps if not self.left or timestamps is None else timestamps[: -self.left]


class MapOperator(StatelessOperator):
    """One output for each input."""

    def __init__(self, function: UserFunction, batches: KeyedBatches | None = None) -> None:
        super().__init__(function, "map", batches)

    @override
    def process(self, values: list[Any], timestamps: Timestamps) -> None:
        """Apply the function to every value."""
        cursor = self._begin(values)
        results = map(self._call, cursor)
        mapped = self._emission.values_of(results) if self._guards(values) else list(results)
        stamps = self._end(timestamps)
        if len(mapped) != len(values) - self.left:
            # map() takes a StopIteration out of the user's function for its own end.
            raise RuntimeError("the function raised StopIteration; return a value or raise another error")
        self.output.emit(mapped, stamps)


class FilterOperator(StatelessOperator):
    """Keeps the values for which the function is true."""

    def __init__(self, function: UserFunction, batches: KeyedBatches | None = None) -> None:
        super().__init__(function, "filter", batches)

    @override
    def process(self, values: list[Any], timestamps: Timestamps) -> None:
        """Ask the function about every value."""
        guards = self._guards(values)
        keep, cursor = self._call, self._begin(values)
        if timestamps is None:
            passed = (
                self._emission.values_of(value for value in cursor if keep(value))
                if guards
                else [value for value in cursor if keep(value)]
            )
            stamps: Timestamps = None
        else:
            verdicts: list[Any] = []
            if guards:
                passed = self._emission.values_of(_judged(keep, cursor, verdicts))
            else:
                verdicts += [keep(value) for value in cursor]
                passed = list(compress(values, verdicts))
            stamps = list(compress(timestamps, verdicts))
        self._end(None)
        self.output.emit(passed, stamps)


def _judged(keep: Callable[[Any], Any], values: Iterator[Any], verdicts: list[Any]) -> Iterator[Any]:
    """The values that are kept; ``verdicts`` gets the answers for all."""
    for value in values:
        verdict = keep(value)
        verdicts.append(verdict)
        if verdict:
            yield value


class FlatMapOperator(StatelessOperator):
    """Any number of outputs for each input."""

    def __init__(self, function: UserFunction, batches: KeyedBatches | None = None) -> None:
        super().__init__(function, "flat_map", batches)

    @override
    def process(self, values: list[Any], timestamps: Timestamps) -> None:
        cursor = self._begin(values)
        guarded = self._protects or self._watch.finds()
        self._emission.call_each(cursor, timestamps, self._call, guarded=guarded, few=self._few)
        self._end(None)

    @override
    def _needs_protection(self, context: OperatorContext) -> bool:
        self._few = gives_few(self._call)
        # That the function keeps nothing is not enough: one object may be among its results more than once.
        return protects(context, self._call)
