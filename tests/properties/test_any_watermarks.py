"""The valve against a model that looks at all channels anew at every event."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from firesteel.runtime.inputs.watermark_valve import WatermarkValve

MIN = -(2**63)
CHANNELS = 3
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.integers(0, CHANNELS - 1), st.integers(0, 30)),
        st.tuples(st.integers(0, CHANNELS - 1), st.booleans()),
    ),
    max_size=40,
)


@dataclass
class Channel:
    watermark: int = MIN
    active: bool = True
    behind: bool = False


class Model:
    """Flink's rules in their plainest form."""

    def __init__(self) -> None:
        self.channels = [Channel() for _ in range(CHANNELS)]
        self.clock = MIN

    def apply(self, index: int, event: int | bool) -> None:
        channel = self.channels[index]
        if isinstance(event, bool):
            self._status(channel, event)
        elif channel.active and event > channel.watermark:
            channel.watermark = event
        for each in self.channels:
            if each.active and each.watermark >= self.clock:
                each.behind = False
        counting = [c.watermark for c in self.channels if c.active and not c.behind]
        if counting:
            self.clock = max(self.clock, min(counting))

    def _status(self, channel: Channel, active: bool) -> None:
        last = channel.active and not active and sum(c.active for c in self.channels) == 1
        if last and channel.watermark == self.clock:
            self.clock = max(c.watermark for c in self.channels)
        if active and not channel.active:
            channel.behind = channel.watermark < self.clock
        channel.active = active

    @property
    def active(self) -> bool:
        return any(c.active for c in self.channels)


@given(events=EVENTS)
def test_valve_agrees_with_the_model(events: list[tuple[int, int | bool]]) -> None:
    valve, model = WatermarkValve(CHANNELS), Model()
    clock, active = MIN, True
    for index, event in events:
        if isinstance(event, bool):
            advanced, status = valve.status(index, event)
            active = active if status is None else status
        else:
            advanced = valve.watermark(index, event)
        if advanced is not None:
            assert advanced > clock
            clock = advanced
        model.apply(index, event)
        assert (clock, active) == (model.clock, model.active)
