"""Sinks: hop 10 of a record's journey. User sinks, printing, and results that go back to the driver."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

from firesteel.common.java_format import print_to_string
from firesteel.common.typeinfo import TypeInformation
from firesteel.contracts.sink import SinkFunction
from firesteel.runtime.operator import Operator, OperatorContext, Timestamps
from firesteel.runtime.operators.announced import KeyedBatches, KeyOf
from firesteel.runtime.operators.function_operator import FunctionOperator
from firesteel.runtime.services import TaskServices
from firesteel.runtime.user_function import UserFunction
from firesteel.runtime.wire_format import pickle_values
from firesteel.state.hashmap_backend import HashMapBackend


class RecordContext(SinkFunction.Context):
    """The ``context`` argument of sinks; one object per operator, updated per record."""

    def __init__(self, operator: Operator, services: TaskServices) -> None:
        self._operator = operator
        self._services = services
        self.now_at: int | None = None

    def timestamp(self) -> int | None:
        """Event time of the record."""
        return self.now_at

    def current_processing_time(self) -> int:
        """Time of the machine."""
        return int(self._services.now() * 1000)

    def current_watermark(self) -> int:
        """Event time up to which the input is complete."""
        return self._operator.current_watermark


def hand_over(
    write: Callable[[Any, SinkFunction.Context], Any],
    values: Iterator[Any],
    timestamps: Timestamps,
    context: RecordContext,
) -> None:
    """Call ``write`` for every record, with a context that knows its timestamp."""
    if timestamps is None:
        context.now_at = None
        for value in values:
            write(value, context)
    else:
        for timestamp, value in zip(timestamps, values, strict=False):
            context.now_at = timestamp
            write(value, context)


class SinkOperator(FunctionOperator):
    """Calls ``invoke`` for every record; ``invoke(value)`` without a context is accepted too.

    On a keyed stream a function that can have got hold of state sees that of the record's key.
    """

    def __init__(
        self, function: UserFunction, key_of: KeyOf | None = None, state: HashMapBackend | None = None
    ) -> None:
        super().__init__(function)
        self._invoke = function.method("invoke")
        self._wants_context = _takes_two(self._invoke)
        self._batches: KeyedBatches | None = None
        if key_of is not None and state is not None and function.is_rich:
            self._invoke = _in_key_context(self._invoke, key_of, state)
            self._batches = KeyedBatches(key_of, state)

    def open(self, context: OperatorContext) -> None:
        """Make the context object, then open the user's function."""
        self._context = RecordContext(self, context.services)
        super().open(context)

    def process(self, values: list[Any], timestamps: Timestamps) -> None:
        """Write every record."""
        invoke = self._invoke
        if self._batches is not None:
            self._batches.announce(self, values)
        self.cursor = cursor = iter(values)
        if self._wants_context:
            hand_over(invoke, cursor, timestamps, self._context)
        else:
            for value in cursor:
                invoke(value)


class DiscardOperator(FunctionOperator):
    """A `DiscardingSink` without the call per record that does nothing."""

    def process(self, values: list[Any], timestamps: Timestamps) -> None:
        """Forget the batch."""


class PrintOperator(Operator):
    """Lines as Flink prints them: ``2> value`` with the number of the subtask when there are several."""

    def __init__(self, identifier: str, to_stderr: bool, input_type: TypeInformation | None) -> None:
        self._identifier = identifier
        self._to_stderr = to_stderr
        self._input_type = input_type

    def open(self, context: OperatorContext) -> None:
        """Work out the prefix."""
        self.output = context.output
        self._services = context.services
        number = context.runtime.get_index_of_this_subtask() + 1
        several = context.runtime.get_number_of_parallel_subtasks() > 1
        parts = [self._identifier] if self._identifier else []
        parts += [str(number)] if several else []
        self._prefix = ":".join(parts) + "> " if parts else ""

    def process(self, values: list[Any], timestamps: Timestamps) -> None:
        """Print the batch as one text."""
        self.cursor = cursor = iter(values)
        prefix, kind = self._prefix, self._input_type
        text = "".join([f"{prefix}{print_to_string(value, kind)}\n" for value in cursor])
        self._services.write_text(text, self._to_stderr)


class CollectOperator(Operator):
    """Sends records to the driver, for ``execute_and_collect``."""

    def __init__(self, collect_id: str) -> None:
        self._collect_id = collect_id

    def open(self, context: OperatorContext) -> None:
        """Remember the way back."""
        self.output = context.output
        self._services = context.services

    def process(self, values: list[Any], timestamps: Timestamps) -> None:
        """Send the batch as one pickle."""
        self._services.collect(self._collect_id, pickle_values(values))


def _in_key_context(invoke: Callable[..., Any], key_of: KeyOf, state: HashMapBackend) -> Callable[..., Any]:
    def call(value: Any, *context: Any) -> Any:
        state.current_key = key_of(value)
        return invoke(value, *context)

    return call


def _takes_two(invoke: Any) -> bool:
    try:
        inspect.signature(invoke).bind(None, None)
    except TypeError:
        return False
    except ValueError:  # a builtin that does not tell its signature, such as list.append
        return False
    return True
