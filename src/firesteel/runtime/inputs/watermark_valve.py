"""One event-time clock out of many channels: the minimum over those that take part.

Follows Flink's rules. A channel's watermark never goes back. An idle channel leaves the minimum. When it
returns with a watermark behind the clock, it is *unaligned* and stays out until it has caught up, so the
clock never runs backwards. When the last active channel becomes idle, the clock may jump to the furthest
watermark seen, because nobody is left to hold it back.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from firesteel.common.time import MIN_TIMESTAMP


@dataclass(slots=True)
class _Channel:
    watermark: int = MIN_TIMESTAMP
    active: bool = True
    aligned: bool = True


class WatermarkValve:
    """Takes watermarks and statuses by channel; tells what to pass on."""

    def __init__(self, channels: int) -> None:
        self._channels = [_Channel() for _ in range(channels)]
        self._clock = MIN_TIMESTAMP
        self._active = True

    @property
    def clock(self) -> int:
        """How far event time has come."""
        return self._clock

    def slowest(self) -> int | None:
        """The channel that holds the clock back, the first of several; None when nobody takes part."""
        part = [(state.watermark, number) for number, state in enumerate(self._channels) if state.aligned]
        return min(part)[1] if part else None

    def resume(self, clock: int) -> None:
        """Event time had come to ``clock`` when the job resumed from a checkpoint; it never goes back."""
        self._clock = clock

    def watermark(self, channel: int, timestamp: int) -> int | None:
        """A watermark on a channel; the new clock, or None when it does not advance."""
        state = self._channels[channel]
        if not self._active or not state.active or timestamp <= state.watermark:
            return None
        state.watermark = timestamp
        if timestamp >= self._clock:
            state.aligned = True
        return self._advance(c.watermark for c in self._channels if c.aligned)

    def status(self, channel: int, active: bool) -> tuple[int | None, bool | None]:
        """A status on a channel; a new clock to pass on first, and a change of the whole's status."""
        state = self._channels[channel]
        if state.active == active:
            return None, None
        state.active = active
        return self._return(state) if active else self._leave(state)

    def _return(self, state: _Channel) -> tuple[int | None, bool | None]:
        state.aligned = state.watermark >= self._clock
        if self._active:
            return None, None
        self._active = True
        return None, True

    def _leave(self, state: _Channel) -> tuple[int | None, bool | None]:
        state.aligned = False
        if any(c.active for c in self._channels):
            return self._advance(c.watermark for c in self._channels if c.aligned), None
        clock = None
        if state.watermark == self._clock:
            clock = self._advance([max(c.watermark for c in self._channels)])
        self._active = False
        return clock, False

    def _advance(self, watermarks: Iterable[int]) -> int | None:
        lowest = min(watermarks, default=MIN_TIMESTAMP)
        if lowest <= self._clock:
            return None
        self._clock = lowest
        return lowest
