"""The timer service of an operator: both clocks, and timers per key."""

from __future__ import annotations

import math
from typing import NoReturn, Protocol

from firesteel.common._override import override
from firesteel.common.errors import UnsupportedOperationError
from firesteel.common.time import MAX_TIMESTAMP, to_millis
from firesteel.contracts.timers import TimerService
from firesteel.runtime.services import TaskServices
from firesteel.state.keyed_backend import KeyedBackend


class EventClock(Protocol):
    """Knows how far event time has come."""

    current_watermark: int


class ClockOnly(TimerService):
    """Tells both times and refuses timers: a stream without keys has nowhere to keep them."""

    def __init__(self, clock: EventClock, services: TaskServices) -> None:
        self._clock = clock
        self._now = services.now

    @override
    def current_processing_time(self) -> int:
        """Time of the machine in milliseconds."""
        return to_millis(self._now())

    @override
    def current_watermark(self) -> int:
        """Event time up to which the input is complete."""
        return self._clock.current_watermark

    @override
    def register_processing_time_timer(self, timestamp: int) -> None:
        _refuse()

    @override
    def register_event_time_timer(self, timestamp: int) -> None:
        _refuse()

    @override
    def delete_processing_time_timer(self, timestamp: int) -> None:
        _refuse()

    @override
    def delete_event_time_timer(self, timestamp: int) -> None:
        _refuse()


class KeyedTimers(ClockOnly):
    """Timers that belong to the key in context."""

    def __init__(self, clock: EventClock, services: TaskServices, state: KeyedBackend) -> None:
        super().__init__(clock, services)
        self._keys = state
        self.event_time = state.timer_queue("event-time")
        self.processing_time = state.timer_queue("processing-time")

    def awaits_event_time(self) -> bool:
        """Whether a timer waits for the watermark, and not just for the end of time."""
        return self.event_time.next_time() < MAX_TIMESTAMP

    @override
    def register_processing_time_timer(self, timestamp: int) -> None:
        """Fire when the machine's time reaches ``timestamp``; at once when it has passed."""
        self.processing_time.add(timestamp, self._keys.current_key)

    @override
    def register_event_time_timer(self, timestamp: int) -> None:
        """Fire when the watermark reaches ``timestamp``; with the next one when it has passed."""
        self.event_time.add(timestamp, self._keys.current_key)

    @override
    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Forget a timer, if it is there."""
        self.processing_time.remove(timestamp, self._keys.current_key)

    @override
    def delete_event_time_timer(self, timestamp: int) -> None:
        """Forget a timer, if it is there."""
        self.event_time.remove(timestamp, self._keys.current_key)

    def ignore_new(self) -> None:
        """From now on take no more timers: in BATCH those that fire at the end must not start a new life."""
        self.register_event_time_timer = _ignore  # type: ignore[method-assign]
        self.register_processing_time_timer = _ignore  # type: ignore[method-assign]

    def accept_new(self) -> None:
        """Take timers again: the next key begins."""
        del self.register_event_time_timer, self.register_processing_time_timer
        self.event_time.restart()
        self.processing_time.restart()

    def next_deadline(self) -> float:
        """When the next processing-time timer is due, in seconds since the epoch."""
        time = self.processing_time.next_time()
        return math.inf if time == MAX_TIMESTAMP else time / 1000


def _ignore(timestamp: int) -> None:
    """What registering a timer does at the end of a BATCH job."""


def _refuse() -> NoReturn:
    raise UnsupportedOperationError("timers need a keyed stream: call key_by() first")
