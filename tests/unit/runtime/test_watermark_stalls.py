"""The watch over one operator, by a manual clock: when it speaks, and when not."""

from __future__ import annotations

from typing import Any

import pytest

from firesteel.common.configuration import Configuration
from firesteel.contracts.functions import KeyedProcessFunction
from firesteel.plan.messages import WatermarkStalled
from firesteel.plan.operator_specs import MapSpec, ProcessSpec
from firesteel.plan.shipped import Shipped
from firesteel.runtime.inputs.watermark_valve import WatermarkValve
from firesteel.runtime.watermark_stalls import StallWatch, watches_of
from firesteel.testing._operator_harness import OperatorHarness

SECONDS = 60.0


class Timers(KeyedProcessFunction):
    """Registers a timer for what is not "none"."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        if value != "none":
            ctx.timer_service().register_event_time_timer(10_000)


class Watched:
    """An operator and its watch."""

    def __init__(self) -> None:
        shipped = Shipped.of(Timers(), "test")
        self.operator = OperatorHarness(ProcessSpec(shipped), keys=(lambda value: value,))
        (self.watch,) = watches_of(self.operator.vertex, SECONDS)
        assert isinstance(self.watch, StallWatch)

    def after(self, seconds: float, *records: str) -> WatermarkStalled | None:
        """Time passes, then records come, then the task looks."""
        self.operator.services.clock.advance(seconds)
        if records:
            self.operator.process(list(records), [1] * len(records))
        return self.watch.look(self.operator.services.now)


def test_it_speaks_once_when_records_have_come_for_long_enough() -> None:
    watched = Watched()
    assert [watched.after(seconds, "a") for seconds in (0, 30, 29)] == [None] * 3
    said = watched.after(1, "a")
    assert said is not None
    assert (said.operator, said.subtask, said.parallelism, said.seconds) == ("Operator", 0, 1, 60.0)
    assert [watched.after(seconds, "a") for seconds in (0, 60, 600)] == [None] * 3


def test_a_watermark_that_moves_begins_the_wait_anew() -> None:
    watched = Watched()
    watched.after(0, "a")
    watched.operator.watermark(5)
    assert watched.after(100) is None
    assert [watched.after(seconds, "a") for seconds in (0, 59)] == [None] * 2
    assert watched.after(1, "a") is not None
    watched.operator.watermark(6)
    assert [watched.after(0), watched.after(0, "a"), watched.after(59, "a")] == [None] * 3
    assert watched.after(1, "a") is not None


def test_it_does_not_speak_before_another_record_comes() -> None:
    watched = Watched()
    watched.after(0, "a")
    assert watched.after(1000) is None
    assert watched.after(0, "a") is not None


def test_it_does_not_speak_while_nothing_waits() -> None:
    watched = Watched()
    assert [watched.after(seconds, "none") for seconds in (0, 100, 100)] == [None] * 3
    assert watched.after(0, "a") is not None


def test_it_does_not_speak_at_the_end_of_time() -> None:
    watched = Watched()
    watched.operator.watermark(2**63 - 1)
    assert [watched.after(seconds, "a") for seconds in (0, 100, 100)] == [None] * 3


def test_operators_that_never_wait_are_not_watched() -> None:
    plain = OperatorHarness(MapSpec(Shipped.of(str, "test")))
    assert watches_of(plain.vertex, SECONDS) == []


@pytest.mark.parametrize(("text", "seconds"), [("0", 0.0), ("-1", -0.001), ("2 min", 120.0)])
def test_the_option_can_switch_it_off(text: str, seconds: float) -> None:
    options = Configuration.from_dict({"firesteel.watermark.stall-warning": text}).to_dict()
    operator = OperatorHarness(
        ProcessSpec(Shipped.of(Timers(), "test")), keys=(lambda value: value,), options=options
    )
    assert operator.vertex.settings.stall_warning_seconds == seconds
    assert len(watches_of(operator.vertex, seconds)) == (1 if seconds > 0 else 0)


def test_the_valve_knows_the_channel_that_holds_it_back() -> None:
    valve = WatermarkValve(3)
    assert valve.slowest() == 0
    valve.watermark(0, 10)
    valve.watermark(1, 5)
    assert valve.slowest() == 2
    valve.status(2, False)
    assert valve.slowest() == 1
    valve.status(0, False)
    valve.status(1, False)
    assert valve.slowest() is None
