"""Somebody sets the machine's clock while a task runs: nothing stops, nothing goes back, nothing floods."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firesteel.common.time import Duration
from firesteel.common.watermark_strategy import WatermarkStrategy
from firesteel.connectors.datagen import DataGeneratorSource
from firesteel.connectors.rate_limit import RateLimiterStrategy
from firesteel.contracts.functions import KeyedProcessFunction
from firesteel.contracts.sink import CommitRequest, Committer
from firesteel.contracts.source import SourceReaderContext
from firesteel.plan.operator_specs import ProcessSpec, TimestampsSpec
from firesteel.plan.shipped import Shipped
from firesteel.runtime.operators.sink import CommitQueue
from firesteel.runtime.task_clock import SLOW, TaskClock
from firesteel.testing._operator_harness import OperatorHarness
from firesteel.testing.manual_clock import START, ManualClock

HOUR = 3600.0
JUMPS = pytest.mark.parametrize("jump", [-HOUR, HOUR], ids=["back", "forward"])


class Machine(ManualClock):
    """A machine with two clocks, of which people set one; what a task sees of them is the time of the harness."""

    def __init__(self) -> None:
        super().__init__()
        self.wall = START
        self.monotonic = 0.0
        self.task = TaskClock(lambda: self.wall, lambda: self.monotonic)

    def now(self) -> float:
        return self.task.now()

    def tick(self, seconds: float) -> None:
        """Real time passes."""
        self.wall += seconds
        self.monotonic += seconds

    def set(self, seconds: float) -> None:
        """Somebody sets the clock forward, or back."""
        self.wall += seconds


@pytest.fixture
def machine() -> Machine:
    return Machine()


def seconds_until(machine: Machine, condition: Any, limit: float = 30.0) -> float:
    """How much real time passes until something has happened, in steps of 50 milliseconds."""
    began = machine.monotonic
    while not condition():
        assert machine.monotonic - began < limit, "it waits for the clock"
        machine.tick(0.05)
    return machine.monotonic - began


def test_follows_the_machine_and_its_jumps_forward(machine: Machine) -> None:
    machine.tick(5.0)
    assert machine.now() == START + 5.0
    machine.set(HOUR)
    assert machine.now() == START + 5.0 + HOUR


def test_goes_on_slowly_after_a_jump_back_until_the_machine_has_caught_up(machine: Machine) -> None:
    machine.set(-10.0)
    assert machine.now() == START
    machine.tick(20.0)
    assert machine.now() == pytest.approx(START + 20.0 * SLOW)
    machine.tick(80.0)
    assert machine.now() == pytest.approx(START + 90.0), "100 s slow, or 90 s behind"
    machine.tick(50.0)
    assert machine.now() == machine.wall


def test_second_jump_back_after_the_first_was_made_up_for_begins_anew(machine: Machine) -> None:
    machine.set(-1.0)
    machine.now()
    machine.tick(1000.0)
    assert machine.now() == machine.wall
    machine.tick(1000.0)
    seen = machine.now()
    machine.set(-HOUR)
    assert machine.now() == seen
    machine.tick(10.0)
    assert machine.now() == pytest.approx(seen + 10.0 * SLOW)


@given(
    st.lists(
        st.tuples(st.booleans(), st.floats(-1e5, 1e5, allow_nan=False), st.floats(0, 1e4, allow_nan=False))
    )
)
def test_never_goes_back_and_never_stands_still(moves: list[tuple[bool, float, float]]) -> None:
    machine = Machine()
    last = machine.now()
    for sets, jump, seconds in moves:
        if sets:
            machine.set(jump)
            assert machine.now() >= last
            last = machine.now()
        machine.tick(seconds)
        assert machine.now() >= last + seconds * SLOW - 1e-6
        last = machine.now()


@JUMPS
def test_periodic_watermarks_go_on(machine: Machine, jump: float) -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value)
    spec = TimestampsSpec(Shipped.of(strategy, "test"))
    op = OperatorHarness(spec, options={"pipeline.auto-watermark-interval": "200 ms"}, clock=machine)

    def has_watermark() -> bool:
        op.on_time()
        return op.output.watermarks[-1:] == [999]

    machine.set(jump)
    op.process([1000])
    assert seconds_until(machine, has_watermark) <= 0.5
    machine.set(jump)
    op.process([2000])
    assert seconds_until(machine, lambda: op.on_time() or op.output.watermarks[-1] == 1999) <= 0.5


@JUMPS
def test_idleness_is_not_mistaken(machine: Machine, jump: float) -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_idleness(Duration.of_seconds(5))
    spec = TimestampsSpec(Shipped.of(strategy.with_timestamp_assigner(lambda value, _: value), "test"))
    op = OperatorHarness(spec, clock=machine)
    op.process([1000])
    machine.set(jump)
    machine.tick(1.0)
    op.on_time()
    assert op.output.statuses == []
    waited = seconds_until(machine, lambda: op.on_time() or op.output.statuses == [False])
    assert 3.0 <= waited <= 7.0


class Alarm(KeyedProcessFunction):
    """Five seconds after a record."""

    def process_element(self, value: Any, ctx: Any) -> None:
        ctx.timer_service().register_processing_time_timer(
            ctx.timer_service().current_processing_time() + 5000
        )

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield timestamp


@pytest.mark.parametrize(
    ("jump", "least", "most"), [(-HOUR, 4.9, 6.0), (HOUR, 0.0, 0.1)], ids=["back", "forward"]
)
def test_processing_time_timers_fire(machine: Machine, jump: float, least: float, most: float) -> None:
    op = OperatorHarness(ProcessSpec(Shipped.of(Alarm(), "test")), keys=(lambda value: value,), clock=machine)
    op.process(["a"])
    machine.set(jump)
    assert least <= seconds_until(machine, lambda: op.on_time() or op.output.values) <= most


@JUMPS
def test_commits_are_tried_again(machine: Machine, jump: float) -> None:
    tries: list[float] = []

    class Stubborn(Committer):
        def commit(self, requests: Sequence[CommitRequest]) -> None:
            tries.append(machine.monotonic)
            if len(tries) < 3:
                for request in requests:
                    request.retry_later()

    queue = CommitQueue(Stubborn())
    queue.add(1, ["x"])
    queue.commit(1, machine.now())
    machine.set(jump)
    for _ in range(100):
        machine.tick(0.05)
        queue.retry(machine.now())
    assert len(tries) == 3
    assert queue.retry_at == math.inf


@JUMPS
def test_rate_of_a_source_holds(machine: Machine, jump: float) -> None:
    source = DataGeneratorSource(lambda n: n, None, RateLimiterStrategy.per_second(10))
    reader = source.create_reader(SourceReaderContext(0, 1, machine.now, lambda: None))
    reader.open()
    reader.add_splits([range(10**9)])
    counts = []
    for step in range(400):
        if step == 200:
            machine.set(jump)
        machine.tick(0.05)
        counts.append(len(reader.poll(1000).values))
    assert 95 <= sum(counts[:200]) <= 105
    assert 85 <= sum(counts[200:]) <= 105
    assert max(counts) <= 20, "an hour's worth at once"
