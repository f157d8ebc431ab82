"""Every keyed operator resumes from a snapshot as if nothing had happened.

A random stream runs through an operator while snapshots, full and incremental, are taken bit by bit between batches.
From each of them new subtasks go on - on either backend, as many as one likes - with what came after the snapshot, and
give together what the first one gave.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firesteel.common.time import MIN_TIMESTAMP
from firesteel.common.typeinfo import Types
from firesteel.contracts.functions import (
    AggregateFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    FilterFunction,
    FlatMapFunction,
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessWindowFunction,
    merges_exactly,
)
from firesteel.contracts.joins import ProcessJoinFunction
from firesteel.contracts.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from firesteel.datastream.window import (
    ContinuousEventTimeTrigger,
    CountEvictor,
    CountSlidingWindowAssigner,
    CountTrigger,
    CountTumblingWindowAssigner,
    EventTimeSessionWindows,
    EventTimeTrigger,
    ProcessingTimeSessionWindows,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from firesteel.plan import operator_specs as specs
from firesteel.plan.key_groups import key_group_of, subtask_of_group
from firesteel.plan.shipped import Shipped
from firesteel.plan.state_handles import StateMeta
from firesteel.state.hashmap_backend import HashMapBackend
from firesteel.testing._operator_harness import OperatorHarness
from firesteel.testing.manual_clock import ManualClock
from firesteel_support.effort import cases

CASES = cases(40, 1_000)
GROUPS = 128  # as in the harness
KEYS: list[Any] = ["a", "b", "c", "d", -1, -2]
OPTIONS = {
    "hashmap": {"state.backend.type": "hashmap"},
    "disk": {"state.backend.type": "disk", "state.backend.disk.cache-entries": "2"},
}

# A record is (key, number).
Record = tuple[Any, int]


def key_of(record: Record) -> Any:
    return record[0]


# Functions --------------------------------------------------------------------------------------------


class Remember(KeyedProcessFunction):
    """Value, list and map state, and timers of both clocks that look at them."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))
        self.numbers = runtime_context.get_list_state(ListStateDescriptor("numbers", Types.INT()))
        self.by_number = runtime_context.get_map_state(
            MapStateDescriptor("by number", Types.INT(), Types.INT())
        )

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        self.count.update((self.count.value() or 0) + 1)
        self.numbers.add(value[1])
        self.by_number.put(value[1] % 3, value[1])
        timers = ctx.timer_service()
        if ctx.timestamp() > timers.current_watermark():
            timers.register_event_time_timer(ctx.timestamp() + 3)
            timers.delete_event_time_timer(ctx.timestamp() + 4)
        timers.register_processing_time_timer(timers.current_processing_time() + 2000)
        yield value[0], self.count.value(), list(self.numbers)[-3:]

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[Any]:
        yield ctx.get_current_key(), "timer", timestamp, self.count.value(), sorted(self.by_number.items())
        if timestamp % 2:
            self.numbers.clear()
            self.by_number.remove(0)


class Both(CoProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.INT()))

    def process_element1(self, value: Any, ctx: Any) -> Iterable[Any]:
        self.seen.add(value[1])
        yield value[0], sorted(self.seen)

    def process_element2(self, value: Any, ctx: Any) -> Iterable[Any]:
        yield value[0], "second", sorted(self.seen)
        self.seen.update(list(self.seen)[1:])


class Numbered(MapFunction):
    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def map(self, value: Any) -> Any:
        self.count.update((self.count.value() or 0) + 1)
        return (*value, self.count.value())


class Expanded(FlatMapFunction):
    def open(self, runtime_context: Any) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.INT()))

    def flat_map(self, value: Any) -> Iterable[Any]:
        if self.last.value() is not None:
            yield (*value, self.last.value())
        self.last.update(value[1])


class Seldom(FilterFunction):
    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def filter(self, value: Any) -> bool:
        self.count.update((self.count.value() or 0) + 1)
        return bool(self.count.value() % 3 == 0)


class BothNumbered(CoMapFunction):
    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def map1(self, value: Any) -> Any:
        self.count.update((self.count.value() or 0) + 1)
        return (*value, self.count.value())

    def map2(self, value: Any) -> Any:
        self.count.update((self.count.value() or 0) + 10)
        return (*value, self.count.value())


class BothExpanded(CoFlatMapFunction):
    def open(self, runtime_context: Any) -> None:
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.INT()))

    def flat_map1(self, value: Any) -> Iterable[Any]:
        self.seen.add(value[1])
        return [(*value, len(list(self.seen)))]

    def flat_map2(self, value: Any) -> Iterable[Any]:
        found = [(*value, each) for each in self.seen]
        self.seen.clear()
        return found


class Joined(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: Any) -> Iterable[Any]:
        yield left, right


class Told(KeyedBroadcastProcessFunction):  # type: ignore[type-arg]
    RULES = MapStateDescriptor("rules", Types.INT(), Types.INT())
    SEEN = ListStateDescriptor("seen", Types.INT())

    def open(self, runtime_context: Any) -> None:
        self.seen = runtime_context.get_list_state(self.SEEN)

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        self.seen.add(value[1])
        yield value, sorted(ctx.get_broadcast_state(self.RULES).items()), list(self.seen)

    def process_broadcast_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        ctx.get_broadcast_state(self.RULES).put(value[1] % 3, value[1])
        ctx.apply_to_keyed_state(self.SEEN, lambda key, state: state.add(value[1]))
        return ()


class Gather(AggregateFunction):
    def create_accumulator(self) -> Any:
        return []

    def add(self, value: Any, accumulator: Any) -> Any:
        accumulator.append(value)
        return accumulator

    def get_result(self, accumulator: Any) -> Any:
        return sorted(accumulator, key=str)

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a + acc_b


@merges_exactly
class GatherExactly(Gather):
    """Has windows share their panes."""


class InOrder(Gather):
    """Shows in which order records came."""

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        raise AssertionError("only windows that merge may do that")


class Listed(ProcessWindowFunction):  # type: ignore[type-arg]
    """Uses state of the key and, when windows do not merge, of the window."""

    def __init__(self, per_window: bool = True) -> None:
        self.per_window = per_window

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        count = context.global_state().get_state(ValueStateDescriptor("count", Types.INT()))
        count.update((count.value() or 0) + 1)
        firings = 0
        if self.per_window:
            state = context.window_state().get_list_state(ListStateDescriptor("firings", Types.INT()))
            state.add(1)
            firings = len(list(state))
        yield key, str(context.window()), count.value(), firings, sorted(map(str, elements))

    def clear(self, context: Any) -> None:
        context.global_state().get_state(ValueStateDescriptor("count", Types.INT())).update(100)


def running(value: Any, state: Any) -> tuple[Any, Any]:
    total = (state or 0) + value[1]
    return [(value[0], total)], None if total % 5 == 0 else total


def window(assigner: Any, function: Any, trigger: Any = None, lateness: int = 0, **more: Any) -> Any:
    aggregator = more.get("aggregator")
    evictor = more.get("evictor")
    return specs.WindowSpec(
        shipped(assigner),
        shipped(trigger or assigner.get_default_trigger(None)),
        None if aggregator is None else shipped(aggregator),
        None if function is None else shipped(function),
        None if evictor is None else shipped(evictor),
        lateness,
        "late",
    )


def shipped(thing: Any) -> Shipped:
    return Shipped.of(thing, "test")


def longer(a: Record, b: Record) -> Record:
    return a[0], a[1] * 31 % 1009 + b[1]


class OwnTrigger(EventTimeTrigger):
    """Makes the general operator do the work."""


SPECS: dict[str, Callable[[], specs.OperatorSpec]] = {
    "reduce": lambda: specs.ReduceSpec(shipped(longer)),
    "process": lambda: specs.ProcessSpec(shipped(Remember())),
    "co-process": lambda: specs.CoProcessSpec(shipped(Both())),
    "map": lambda: specs.MapSpec(shipped(Numbered())),
    "flat map": lambda: specs.FlatMapSpec(shipped(Expanded())),
    "filter": lambda: specs.FilterSpec(shipped(Seldom())),
    "co-map": lambda: specs.CoMapSpec(shipped(BothNumbered())),
    "co-flat map": lambda: specs.CoFlatMapSpec(shipped(BothExpanded())),
    "with state": lambda: specs.WithStateSpec(shipped(running), specs.WithStateKind.FLAT_MAP),
    "interval join": lambda: specs.IntervalJoinSpec(shipped(Joined()), -3, 4, "left", "right"),
    "broadcast": lambda: specs.BroadcastProcessSpec(shipped(Told()), (Told.RULES,)),
    "tumbling": lambda: window(TumblingEventTimeWindows(5), None, aggregator=longer),
    "tumbling, lists": lambda: window(TumblingEventTimeWindows(2), Listed()),
    "tumbling, late": lambda: window(TumblingEventTimeWindows(5), Listed(), lateness=6),
    "tumbling, general": lambda: window(TumblingEventTimeWindows(5), Listed(), OwnTrigger(), 6),
    "sliding": lambda: window(SlidingEventTimeWindows(6, 2), None, aggregator=Gather(), lateness=3),
    "sliding, many panes": lambda: window(SlidingEventTimeWindows(8, 1), None, aggregator=Gather()),
    "sliding, in order": lambda: window(
        SlidingEventTimeWindows(7, 2), None, aggregator=InOrder(), lateness=3
    ),
    "sliding, 40 windows": lambda: window(SlidingEventTimeWindows(40, 1), None, aggregator=InOrder()),
    "sliding, exact": lambda: window(
        SlidingEventTimeWindows(6, 2), None, aggregator=GatherExactly(), lateness=3
    ),
    "sliding, exact, many panes": lambda: window(
        SlidingEventTimeWindows(8, 1), None, aggregator=GatherExactly()
    ),
    "sliding, gaps": lambda: window(SlidingEventTimeWindows(4, 6), None, aggregator=InOrder(), lateness=3),
    "sliding, lists": lambda: window(SlidingEventTimeWindows(6, 4), Listed()),
    "sessions": lambda: window(EventTimeSessionWindows(3), None, aggregator=Gather(), lateness=4),
    "sessions, lists": lambda: window(EventTimeSessionWindows(3), Listed(False)),
    "sessions, general": lambda: window(EventTimeSessionWindows(3), Listed(False), OwnTrigger(), 4),
    "sessions, continuous": lambda: window(
        EventTimeSessionWindows(3), Listed(False), ContinuousEventTimeTrigger(2)
    ),
    "counts": lambda: window(CountTumblingWindowAssigner(3), Listed()),
    "sliding counts": lambda: window(CountSlidingWindowAssigner(4, 2), None, aggregator=Gather()),
    "continuous": lambda: window(TumblingEventTimeWindows(9), Listed(), ContinuousEventTimeTrigger(2)),
    "purging": lambda: window(TumblingEventTimeWindows(9), Listed(), PurgingTrigger(CountTrigger(2))),
    "evicting": lambda: window(SlidingEventTimeWindows(6, 3), Listed(), evictor=CountEvictor(2)),
    "processing time": lambda: window(TumblingProcessingTimeWindows(3000), None, aggregator=Gather()),
    "processing-time sessions": lambda: window(ProcessingTimeSessionWindows(2000), Listed(False)),
}
TWO_INPUTS = ("co-process", "co-map", "co-flat map", "interval join", "broadcast")


# Running ----------------------------------------------------------------------------------------------

Event = tuple[str, Any]


def stream(rng: random.Random, name: str) -> list[Event]:
    events: list[Event] = []
    clock, watermark = 0, -5
    for _ in range(rng.randint(3, 14)):
        clock += rng.randint(0, 3)
        kind = rng.choice(("records", "records", "records", "watermark", "time"))
        if kind == "watermark":
            watermark = max(watermark, clock - rng.randint(0, 4))
            events.append(("watermark", watermark))
        elif kind == "time":
            events.append(("time", rng.choice((0.5, 1, 3))))
        else:
            second = name in TWO_INPUTS and rng.random() < 0.4
            events.append(("second" if second else "records", batch(rng, clock)))
    return events


def batch(rng: random.Random, clock: int) -> list[tuple[Record, int]]:
    return [
        ((rng.choice(KEYS), rng.randint(0, 99)), clock - rng.choice((0, 0, 1, 2, 6)))
        for _ in range(rng.randint(1, 4))
    ]


def push(harness: OperatorHarness, name: str, event: Event, accepts: Callable[[Any], bool]) -> None:
    kind, what = event
    if kind == "watermark":
        harness.watermark(what)
    elif kind == "time":
        harness.advance(what)
    else:
        broadcast = kind == "second" and name == "broadcast"
        mine = [each for each in what if broadcast or accepts(each[0][0])]
        if mine:
            call = harness.process_second if kind == "second" else harness.process
            call([record for record, _ in mine], [timestamp for _, timestamp in mine])
    harness.on_time()


def outputs(harness: OperatorHarness) -> Counter[str]:
    """All that came out, in any order, each with its timestamp."""
    out = harness.output
    found = Counter(map(repr, zip(out.values, out.timestamps, strict=True)))
    for tag, values in out.sides.items():
        found.update(repr((tag, value)) for value in values)
    return found


@dataclass
class Taken:
    """A snapshot on its way."""

    snapshot: Any
    lists: list[bytes]
    states: tuple[StateMeta, ...]
    at: int  # how many events came before it
    clock: float
    watermark: int
    before: Counter[str]
    blocks: list[bytes] = field(default_factory=list)


@dataclass
class Share:
    """What one of the new subtasks gets."""

    chain: list[list[bytes]]
    taken: Taken
    accepts: Callable[[Any], bool] | None

    def restore(self, keyed: Any, operator: Any) -> None:
        for number, blocks in enumerate(self.chain, 1):
            for block in blocks:
                keyed.restore_block(block, self.accepts, is_newest=number == len(self.chain))
        keyed.expect(self.taken.states)
        operator.restore([self.taken.lists], 0, 1)
        operator.expect(self.taken.states)


def run(rng: random.Random, name: str, options: dict[str, str], events: list[Event]) -> tuple[Any, ...]:
    """Run a stream; returns the harness and the snapshots that were completed."""
    keys = (key_of, None) if name == "broadcast" else (key_of, key_of)[: 2 if name in TWO_INPUTS else 1]
    harness = OperatorHarness(SPECS[name](), keys=keys, options=options)
    taken: dict[int, Taken] = {}
    for at, event in enumerate(events):
        if rng.random() < 0.3 and not has_overdue_timers(harness):
            taken[at + 1] = begin(harness, at)
        for number, each in taken.items():
            if not each.snapshot.done and rng.random() < 0.6:
                each.blocks += each.snapshot.step(rng.randint(1, 3))
            if each.snapshot.done and rng.random() < 0.5:
                harness.state.checkpoint_completed(number)
            elif rng.random() < 0.1:
                harness.state.discard(number)
        push(harness, name, event, lambda key: True)
    for each in taken.values():
        while not each.snapshot.done:
            each.blocks += each.snapshot.step()
    return harness, taken, keys


def has_overdue_timers(harness: OperatorHarness) -> bool:
    """Timers that wait for the next watermark; after a restart they fire with the first one, which is the old one."""
    return any(
        time <= harness.operator.current_watermark
        for queue_id, queue in harness.state.timers()
        if queue_id.name.endswith("event-time")
        for time, _ in queue.entries()
    )


def begin(harness: OperatorHarness, at: int) -> Taken:
    state, operator_state = harness.state, harness.operator_state
    snapshot = state.begin_snapshot(at + 1)
    return Taken(
        snapshot,
        operator_state.snapshot(),
        (*state.metas(), *operator_state.metas()),
        at,
        harness.services.now(),
        harness.operator.current_watermark,
        outputs(harness),
    )


def chain(taken: dict[int, Taken], number: int) -> list[list[bytes]] | None:
    """The blocks of the snapshots that one builds on, and its own; None when one of them was aborted."""
    each = taken[number]
    if each.snapshot.cancelled:
        return None
    if each.snapshot.base is None:
        return [each.blocks]
    before = chain(taken, each.snapshot.base)
    return None if before is None else [*before, each.blocks]


@pytest.mark.parametrize("kind", OPTIONS)
@pytest.mark.parametrize("name", SPECS)
@settings(max_examples=CASES, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_an_operator_goes_on_from_a_snapshot(name: str, kind: str, seed: int) -> None:
    rng = random.Random(seed)
    events = stream(rng, name)
    incremental = {"execution.checkpointing.incremental": rng.choice(("true", "false"))}
    harness, taken, keys = run(rng, name, OPTIONS[kind] | incremental, events)
    every = outputs(harness)
    for number, each in taken.items():
        blocks = chain(taken, number)
        if blocks is None:
            continue
        parallelism = rng.choice((1, 1, 2))
        found: Counter[str] = Counter()
        for subtask in range(parallelism):
            accepts = share(subtask, parallelism)
            begun = Share(blocks, each, None if parallelism == 1 else accepts)
            again = restarted(rng, name, keys, begun, each.clock, each.watermark)
            for event in events[each.at :]:
                push(again, name, event, accepts)
                if rng.random() < 0.2 and not has_overdue_timers(again):
                    found += outputs(again)
                    again = restarted(
                        rng,
                        name,
                        keys,
                        again.snapshot(),
                        again.services.now(),
                        again.operator.current_watermark,
                    )
            found += outputs(again)
            again.state.close()
        assert found == every - each.before
    harness.state.close()


def restarted(
    rng: random.Random, name: str, keys: Any, snapshot: Any, clock: float, watermark: int
) -> OperatorHarness:
    """The operator as it resumes, on some backend."""
    options = OPTIONS[rng.choice(list(OPTIONS))]
    harness = OperatorHarness(
        SPECS[name](), keys=keys, options=options, clock=ManualClock(clock), snapshot=snapshot
    )
    assert harness.state.unregistered() == []
    if watermark > MIN_TIMESTAMP:
        harness.watermark(watermark)
    return harness


def share(subtask: int, parallelism: int) -> Callable[[Any], bool]:
    return lambda key: subtask_of_group(key_group_of(key, GROUPS), GROUPS, parallelism) == subtask


def test_what_a_window_function_does_when_its_window_goes_is_in_the_next_delta() -> None:
    options = {"execution.checkpointing.incremental": "true"}
    harness = OperatorHarness(SPECS["tumbling, late"](), keys=(key_of,), options=options)
    harness.process([("a", 1), *(("b", n) for n in range(50))], [1] * 51)
    harness.watermark(4)
    blocks = []
    for number, watermark in ((1, 5), (2, 20)):
        harness.watermark(watermark)
        snapshot = harness.state.begin_snapshot(number)
        while not snapshot.done:
            blocks += snapshot.step()
        harness.state.checkpoint_completed(number)
    assert not snapshot.is_full
    again = HashMapBackend()
    for block in blocks:
        again.restore_block(block)
    assert again.table("count") == {"a": 100, "b": 100}
