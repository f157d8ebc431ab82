"""Messages that a source could not deserialize: they fail the job, or are counted and left out or sent aside.

The counterpart of `tolerance` for sources, which have no function that is called with a record.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from firesteel.common.accumulators import IntCounter
from firesteel.common.errors import DeserializationError
from firesteel.contracts.dead_letter import DeadLetter
from firesteel.plan.on_error import OnError, count_name, ignored_name
from firesteel.runtime.operator import OperatorContext, OperatorOutput

__all__ = ["BadMessages"]

_LOG = logging.getLogger(__name__)


class BadMessages:
    """What a source does with messages that do not fit; ``on_error`` None: the first one fails the job."""

    def __init__(self, operator: str, on_error: OnError | None) -> None:
        self._operator = operator
        self._on_error = on_error
        self._bad = IntCounter()
        self._ignored = IntCounter()

    def open(self, context: OperatorContext, output: OperatorOutput) -> None:
        """Begin to count."""
        self._output = output
        self._subtask = context.runtime.get_task_name_with_subtasks()
        self._runtime = context.runtime
        context.system_metrics.gauge(
            "numRecordsInErrors", lambda: self._bad.get_local_value() + self._ignored.get_local_value()
        )
        if self._on_error is not None:
            context.runtime.add_accumulator(count_name(self._operator), self._bad)
            context.runtime.get_metrics_group().gauge("badRecords", self._bad.get_local_value)

    def add(self, bad: Sequence[DeserializationError]) -> None:
        """Count messages and put them aside, or raise the error of the first one."""
        if self._on_error is None:
            raise bad[0]
        is_first = not self._bad.get_local_value()
        self._bad.add(len(bad))
        if self._on_error.dead_letter is not None:
            letters = [self._letter(error) for error in bad]
            self._output.emit_side(self._on_error.dead_letter, letters, None)
        elif is_first:
            # One tells what is wrong; a million would hide it.
            _LOG.warning(
                "%s drops a message (on_error); further ones are only counted: %s", self._subtask, bad[0]
            )

    def ignore(self, count: int) -> None:
        """Count errors that the schema has passed over because the program wants that."""
        if not self._ignored.get_local_value():  # most sources never have one, and so no counter
            self._runtime.add_accumulator(ignored_name(self._operator), self._ignored)
            self._runtime.get_metrics_group().gauge("ignoredParseErrors", self._ignored.get_local_value)
        self._ignored.add(count)

    def _letter(self, error: DeserializationError) -> DeadLetter[bytes]:
        kind = type(error)
        timestamp = error.where.get("timestamp")
        return DeadLetter(
            error.message,
            f"{kind.__module__}.{kind.__qualname__}",
            str(error),
            "",
            self._operator,
            timestamp if isinstance(timestamp, int) else None,
            dict(error.where),
        )
