"""What operators around one user function share: opening and closing it, its states in checkpoints, and its timers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from firesteel.common._override import override
from firesteel.common.time import MAX_TIMESTAMP, MIN_TIMESTAMP, to_millis
from firesteel.contracts.timers import TimeDomain
from firesteel.runtime.operator import FunctionState, Operator, OperatorContext
from firesteel.runtime.timers import ClockOnly, KeyedTimers
from firesteel.runtime.user_function import UserFunction


class FunctionOperator(Operator):
    """Owns a user function for the life of the subtask."""

    def __init__(self, function: UserFunction) -> None:
        self.function = function
        self.function_states = (FunctionState(function.instance),)

    @override
    def open(self, context: OperatorContext) -> None:
        """Remember the output; give the user's function its states, then open it."""
        self.output = context.output
        self.initialize_functions(context)
        self.function.open(context.runtime)

    @override
    def close(self) -> None:
        self.function.close()


class TimerOperator(FunctionOperator):
    """Base of operators whose function may set timers, if its input has keys: says when they fire.

    In BATCH all of them fire: those of event time at the end of the input, or of their key where input comes key by key,
    those of processing time behind them. A subclass says what firing is (`_fire`), and sets these two as it opens.
    """

    _timers: ClockOnly
    _fires_all_at_end: bool

    one_key_at_a_time = forgets_keys = True

    def _fire(self, due: Iterator[tuple[int, Any]], domain: TimeDomain) -> None:
        """Call the function for each timer of a clock, with its key in context."""
        raise NotImplementedError

    @override
    def awaits_event_time(self) -> bool:
        return isinstance(self._timers, KeyedTimers) and self._timers.awaits_event_time()

    def _fire_event_time(self, timestamp: int) -> None:
        """The watermark has come to ``timestamp``."""
        if isinstance(self._timers, KeyedTimers):
            if self._fires_all_at_end and timestamp == MAX_TIMESTAMP:
                self._timers.ignore_new()
            self._fire(self._timers.event_time.due(timestamp), TimeDomain.EVENT_TIME)

    @override
    def end_keys(self) -> None:
        """All timers of the key fire, in a time in which everything has happened; the next key begins before all time."""
        if isinstance(self._timers, KeyedTimers):
            self.current_watermark = MAX_TIMESTAMP
            self._timers.ignore_new()
            self._fire(self._timers.event_time.due(MAX_TIMESTAMP), TimeDomain.EVENT_TIME)
            self._fire(self._timers.processing_time.due(MAX_TIMESTAMP), TimeDomain.PROCESSING_TIME)
            self._timers.accept_new()
            self.current_watermark = MIN_TIMESTAMP

    @override
    def next_deadline(self) -> float:
        """The time of the next processing-time timer."""
        return self._timers.next_deadline() if isinstance(self._timers, KeyedTimers) else math.inf

    @override
    def on_time(self, now: float) -> None:
        """Fire the processing-time timers that are due."""
        assert isinstance(self._timers, KeyedTimers)
        self._fire(self._timers.processing_time.due(to_millis(now)), TimeDomain.PROCESSING_TIME)

    @override
    def finish(self) -> None:
        """In BATCH every timer fires at the end; in STREAMING processing-time timers die with the job."""
        if self._fires_all_at_end and isinstance(self._timers, KeyedTimers):
            self._timers.ignore_new()
            self._fire(self._timers.processing_time.due(MAX_TIMESTAMP), TimeDomain.PROCESSING_TIME)
