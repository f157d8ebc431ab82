"""Timers against a model: a list of all timers, sorted again for every one that fires."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from firesteel.contracts.functions import KeyedProcessFunction
from firesteel.contracts.timers import TimeDomain
from firesteel.plan.operator_specs import ProcessSpec
from firesteel.plan.shipped import Shipped
from firesteel.testing._operator_harness import OperatorHarness
from firesteel.testing.manual_clock import ManualClock
from firesteel_support.effort import cases

KEYS, LAST = 4, 30
CASES = cases(2_000, 3_000)

EVENT, PROCESSING = 0, 1
#: What a callback does: depends on its time and key only, so that the model can do the same.
Command = tuple[bool, int, int]  # register or delete, domain, time


def then(time: int, key: int) -> list[Command]:
    """Some callbacks register and delete: earlier, at their own time, later, in both domains."""
    match (time * 7 + key) % 6:
        case 0:
            return [(True, EVENT, time + 5), (False, EVENT, time + 1)]
        case 1:
            return [(False, EVENT, time), (False, PROCESSING, time + 2)]
        case 2:
            return [(True, PROCESSING, time - 3)] if time > LAST // 2 else []
    return []


class Timed(KeyedProcessFunction):
    """A record is ``(key, commands)``."""

    def process_element(self, value: Any, ctx: Any) -> None:
        self.run(value[1], ctx.timer_service())

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        key = ctx.get_current_key()
        domain = EVENT if ctx.time_domain() is TimeDomain.EVENT_TIME else PROCESSING
        self.run(then(timestamp, key), ctx.timer_service())
        return [(domain, timestamp, key)]

    def run(self, commands: list[Command], service: Any) -> None:
        for registers, domain, time in commands:
            name = "register" if registers else "delete"
            kind = "event" if domain == EVENT else "processing"
            getattr(service, f"{name}_{kind}_time_timer")(time)


SPEC = ProcessSpec(Shipped.of(Timed(), "process"))
KEY = Shipped.of(lambda value: value[0], "key_by")


class Model:
    """All timers in the order in which they were registered, per domain."""

    def __init__(self) -> None:
        self.timers: list[list[tuple[int, int]]] = [[], []]
        self.fired: list[tuple[int, int, int]] = []

    def run(self, key: int, commands: list[Command]) -> None:
        for registers, domain, time in commands:
            timers = self.timers[domain]
            if registers and (time, key) not in timers:
                timers.append((time, key))
            elif not registers and (time, key) in timers:
                timers.remove((time, key))

    def advance(self, domain: int, until: int) -> None:
        while due := [timer for timer in self.timers[domain] if timer[0] <= until]:
            time, key = min(due, key=lambda timer: timer[0])  # the first one registered, of equal times
            self.timers[domain].remove((time, key))
            self.run(key, then(time, key))
            self.fired.append((domain, time, key))


COMMANDS = st.lists(st.tuples(st.booleans(), st.integers(0, 1), st.integers(0, LAST)), min_size=1, max_size=4)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("record"), st.integers(0, KEYS - 1), COMMANDS),
        st.tuples(st.just("record"), st.integers(0, KEYS - 1), COMMANDS),
        st.tuples(st.just("watermark"), st.integers(0, 8), st.none()),
        st.tuples(st.just("clock"), st.integers(0, 8), st.none()),
        st.tuples(st.just("restore"), st.just(0), st.none()),
    ),
    max_size=15,
)


def harness_at(clock: ManualClock, snapshot: Any = None) -> OperatorHarness:
    return OperatorHarness(SPEC, keys=(KEY,), clock=clock, snapshot=snapshot)


@given(steps=STEPS)
@settings(max_examples=CASES)
def test_timers_fire_as_the_model_says(steps: list[tuple[str, int, Any]]) -> None:
    clock, model = ManualClock(0.0), Model()
    harness = harness_at(clock)
    watermark = now = 0
    fired: list[Any] = []
    for step, number, commands in steps:
        if step == "record":
            harness.process([(number, commands)])
            model.run(number, commands)
        elif step == "watermark":
            watermark += number
            harness.watermark(watermark)
            model.advance(EVENT, watermark)
        elif step == "clock":
            now += number
            clock.advance_to(now / 1000)
        else:
            fired += harness.output.values
            harness = harness_at(clock, harness.snapshot())
        harness.on_time()
        model.advance(PROCESSING, now)
        assert fired + harness.output.values == model.fired
    queues = {table_id.name: list(queue.entries()) for table_id, queue in harness.state.timers()}
    assert sorted(queues["event-time"]) == sorted(model.timers[EVENT])
    assert sorted(queues["processing-time"]) == sorted(model.timers[PROCESSING])
