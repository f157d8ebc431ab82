"""Sources: hop 2 of a record's journey. Polls a reader for batches and sends them into the chain."""

from __future__ import annotations

import math
from collections.abc import Callable

from firesteel.common.time import MAX_WATERMARK
from firesteel.contracts.source import Source, SourceContext, SourceFunction, SourceReader
from firesteel.runtime.operator import Operator, OperatorContext
from firesteel.runtime.source_thread import SourceFunctionReader
from firesteel.runtime.user_function import UserFunction


class SourceOperator(Operator):
    """Head of a chain without input; the task polls it when it has time.

    ``retry_at`` tells the task when polling again makes sense; ``ended`` that it never will. A wake-up
    from another thread only raises a flag, which `poll` lowers before it looks: none can be lost.
    """

    def __init__(self, function: UserFunction) -> None:
        self._function = function
        self.retry_at = 0.0
        self.ended = False
        self._woken = False
        self._idle = False
        self._reader: SourceReader | None = None

    def open(self, context: OperatorContext) -> None:
        """Create and open the subtask's reader."""
        self.output = context.output
        runtime = context.runtime
        place = SourceContext(
            runtime.get_index_of_this_subtask(),
            runtime.get_number_of_parallel_subtasks(),
            context.services.now,
            self._wake_with(context.services.wake),
        )
        self._function.open(runtime)
        self._reader = self._create_reader(self._function.instance, place)
        self._reader.open()

    def _wake_with(self, wake: Callable[[], None]) -> Callable[[], None]:
        def wake_source() -> None:
            self._woken = True
            wake()

        return wake_source

    @staticmethod
    def _create_reader(source: Source | SourceFunction, place: SourceContext) -> SourceReader:
        if isinstance(source, SourceFunction):
            return SourceFunctionReader(source, place)
        return source.create_reader(place)

    def ready(self, now: float) -> bool:
        """Whether polling makes sense at the time ``now``."""
        return not self.ended and (self._woken or self.retry_at <= now)

    def poll(self, limit: int) -> bool:
        """Send one batch into the chain; False when there was nothing to send."""
        assert self._reader is not None
        self._woken = False
        polled = self._reader.poll(limit)
        self.retry_at = polled.retry_at
        if polled.values:
            self._set_idle(False)
            self.output.emit(polled.values, polled.timestamps)
        if polled.watermark is not None:
            self.on_watermark(polled.watermark)
        if polled.idle:
            self._set_idle(True)
        if polled.ended:
            self._end()
        return bool(polled.values) or polled.ended

    def stop(self) -> None:
        """End as if the input had ended."""
        if self._reader is not None and not self.ended:
            self.retry_at = 0.0
            self._reader.stop()

    def close(self) -> None:
        """Close the reader and, when the source is one, the user's function."""
        try:
            if self._reader is not None:
                self._reader.close()
        finally:
            self._function.close()

    def _set_idle(self, idle: bool) -> None:
        if idle != self._idle:
            self._idle = idle
            self.output.status(not idle)

    def _end(self) -> None:
        self.ended = True
        self.retry_at = math.inf
        self._set_idle(False)
        self.on_watermark(MAX_WATERMARK)
