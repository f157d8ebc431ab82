"""``on_error``: functions that may raise, for single records, without failing the job.

The function is wrapped once, when its operator opens; operators without ``on_error`` know nothing of this. What the
wrapper gives is what the function would give if its body stood in a ``try``: results from before the error count, and so
does what it did to state. Nothing else of the batch is concerned: the loop continues with the next record.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from firesteel.common._override import override
from firesteel.common.accumulators import IntCounter
from firesteel.common.errors import (
    DeserializationError,
    FiresteelError,
    InvalidKeyError,
    TypeMismatchError,
    short_repr,
)
from firesteel.contracts.dead_letter import DeadLetter
from firesteel.plan.on_error import OnError, count_name
from firesteel.runtime.blame import user_traceback
from firesteel.runtime.operator import OperatorContext, Timestamps
from firesteel.runtime.operators.announced import KeyedBatches
from firesteel.runtime.operators.emission import Emission, protects
from firesteel.runtime.operators.stateless import StatelessOperator
from firesteel.runtime.user_function import UserFunction

__all__ = ["Tolerance", "TolerantFilterOperator", "TolerantFlatMapOperator", "TolerantMapOperator"]

_LOG = logging.getLogger(__name__)

Call = Callable[..., Any]


class Tolerance:
    """What an operator does with records whose function raises: it counts them, and sends them aside if it has a tag."""

    def __init__(self, operator: str, on_error: OnError) -> None:
        self._operator = operator
        self._tag = on_error.dead_letter
        self._count = IntCounter()
        self._has_told = False

    def open(self, context: OperatorContext, emission: Emission) -> None:
        """Begin to count; ``emission`` is the operator's own, so that records keep their order."""
        self._emission = emission
        self._subtask = context.runtime.get_task_name_with_subtasks()
        context.runtime.add_accumulator(count_name(self._operator), self._count)
        context.runtime.get_metrics_group().gauge("badRecords", self._count.get_local_value)
        context.system_metrics.gauge("numRecordsInErrors", self._count.get_local_value)

    def around(self, call: Call) -> Call:
        """A function of record and context that gives what ``call`` gives, as far as it comes."""

        def tolerant(value: Any, *context: Any) -> Any:
            try:
                outcome = call(value, *context)
            except Exception as error:  # noqa: BLE001 - whatever a record leads to
                letter = self._letter(value, error)
            else:
                if type(outcome) is tuple or type(outcome) is list or not hasattr(outcome, "__iter__"):
                    return outcome
                return self._as_far_as_it_comes(value, outcome)
            self._put_aside(letter)
            return None

        return tolerant

    def _as_far_as_it_comes(self, value: Any, results: Iterable[Any]) -> Iterator[Any]:
        try:
            yield from results
            return
        except Exception as error:  # noqa: BLE001 - whatever a record leads to
            letter = self._letter(value, error)
        self._put_aside(letter)

    def _letter(self, value: Any, error: Exception) -> DeadLetter[Any]:
        """What is to be known of the failure; raises the error again when it is not the record's."""
        if not _is_about_record(error):
            raise error
        return DeadLetter(
            value,
            _class_name(type(error)),
            _text(error),
            user_traceback(error) + "".join(traceback.format_exception_only(error)),
            self._operator,
            self._emission.now_at,
            error.where if isinstance(error, DeserializationError) else {},
        )

    def _put_aside(self, letter: DeadLetter[Any]) -> None:
        self._count.add(1)
        if self._tag is not None:
            self._emission.add_aside(self._tag, letter)
        elif not self._has_told:
            # One tells what is wrong; a million would hide it.
            self._has_told = True
            _LOG.warning(
                "%s drops a record because its function raised (on_error); further ones are only counted\n  record:   %s\n%s",
                self._subtask,
                short_repr(letter.value),
                letter.traceback.rstrip(),
            )


def _is_about_record(error: Exception) -> bool:
    """Whether leaving out the record helps. It does not when memory is short, storage fails or the program is wrong."""
    if isinstance(error, FiresteelError):
        return isinstance(error, (DeserializationError, TypeMismatchError, InvalidKeyError))
    return not isinstance(error, MemoryError)


def _text(error: Exception) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - an error that cannot tell what is wrong must not be worse than one that can
        return "<an error without text: its __str__() raised>"


def _class_name(kind: type[BaseException]) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


class TolerantFlatMapOperator(StatelessOperator):
    """Any number of outputs for each input, as far as the function comes."""

    _method = "flat_map"

    def __init__(self, function: UserFunction, batches: KeyedBatches | None, tolerance: Tolerance) -> None:
        super().__init__(function, self._method, batches)
        self._tolerance = tolerance

    @override
    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._tolerance.open(context, self._emission)
        self._tolerant_call = self._tolerance.around(self._expanding(self._call))

    @override
    def process(self, values: list[Any], timestamps: Timestamps) -> None:
        """One record after the other, so that the outputs of those that succeed stay in their order."""
        cursor = self._begin(values)
        guarded = self._protects or self._watch.finds()
        self._emission.call_each(cursor, timestamps, self._tolerant_call, guarded=guarded)
        self._end(None)

    @override
    def _needs_protection(self, context: OperatorContext) -> bool:
        return protects(context, self._call)

    def _expanding(self, call: Call) -> Call:
        """A function that gives any number of results."""
        return call


class TolerantMapOperator(TolerantFlatMapOperator):
    """One output for each input, none where the function raises."""

    _method = "map"

    @override
    def _expanding(self, call: Call) -> Call:
        return lambda value: (call(value),)


class TolerantFilterOperator(TolerantFlatMapOperator):
    """Keeps the values for which the function is true and does not raise."""

    _method = "filter"

    @override
    def _expanding(self, call: Call) -> Call:
        return lambda value: (value,) if call(value) else ()
