"""Event time against naive models: whatever the disorder, the cuts into chunks, the topology and the order of steps."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from firesteel.common.time import MAX_WATERMARK, MIN_TIMESTAMP, Duration
from firesteel.common.watermark_strategy import (
    Watermark,
    WatermarkGenerator,
    WatermarkOutput,
    WatermarkStrategy,
)
from firesteel.datastream import DataStream, StreamExecutionEnvironment
from firesteel.datastream.functions import CoProcessFunction, KeyedProcessFunction, ProcessFunction
from firesteel.plan.operator_specs import SourceSpec, TimestampsSpec
from firesteel.plan.shipped import Shipped
from firesteel.runtime import elements
from firesteel.runtime.elements import Chunk, Element, StreamStatus
from firesteel.testing import (
    AddSplits,
    CollectSink,
    Emit,
    EmitWatermark,
    EndSplit,
    GoIdle,
    Pause,
    ScriptedSource,
    WaitForever,
    simulated_environment,
)
from firesteel.testing._operator_harness import OperatorHarness
from firesteel.testing.scripted_source import Step
from firesteel_support.effort import cases

MANY = cases(600, 30_000)
SOME = cases(120, 6_000)
TIMES = st.integers(-50, 300)
STEP = 0.25  # seconds; a power of two, so that sums are exact
INTERVAL = {"pipeline.auto-watermark-interval": "1 s"}


def flat(emitted: list[Element]) -> list[Any]:
    """Records and signals one by one: where chunks were cut does not show."""
    found: list[Any] = []
    for element in emitted:
        if isinstance(element, Chunk):
            assert element.timestamps is not None
            found += zip(element.values, element.timestamps, strict=True)
        else:
            found.append(element)
    return found


def cut(values: list[int], cuts: list[int]) -> Iterator[list[int]]:
    """The values in pieces of the sizes given, over and over."""
    sizes = itertools.cycle(cuts)
    start = 0
    while start < len(values):
        size = next(sizes)
        yield values[start : start + size]
        start += size


CUTS = st.lists(st.integers(1, 7), min_size=1, max_size=4)


# Punctuated generators ----------------------------------------------------------------------------------


class EveryFifth(WatermarkGenerator):
    """A watermark for multiples of five, idle for multiples of seven, both in this order for 35."""

    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        if event % 5 == 0:
            output.emit_watermark(Watermark(event_timestamp - 3))
        if event % 7 == 0:
            output.mark_idle()

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        pass


def expected_of_every_fifth(values: list[int]) -> list[Any]:
    """Record by record. An idle stream becomes active with the next record."""
    found: list[Any] = []
    clock, idle = MIN_TIMESTAMP, False
    for value in values:
        if idle:
            idle = False
            found.append(StreamStatus(True))
        found.append((value, value))
        if value % 5 == 0 and value - 3 > clock:
            clock = value - 3
            found.append(elements.WatermarkSignal(clock))
        if value % 7 == 0:
            idle = True
            found.append(StreamStatus(False))
    return found


@settings(max_examples=MANY)
@given(values=st.lists(TIMES, max_size=40), cuts=CUTS)
def test_punctuated_watermarks_take_their_places_wherever_batches_are_cut(
    values: list[int], cuts: list[int]
) -> None:
    strategy = WatermarkStrategy.for_generator(EveryFifth).with_timestamp_assigner(lambda value, _: value)
    op = OperatorHarness(TimestampsSpec(Shipped.of(strategy, "test")))
    for piece in cut(values, cuts):
        op.process(piece)
    assert flat(op.output.elements) == expected_of_every_fifth(values)


# Periodic generators ------------------------------------------------------------------------------------


@settings(max_examples=MANY)
@given(
    bursts=st.lists(st.tuples(st.lists(TIMES, max_size=9), st.integers(0, 9)), max_size=12),
    bound=st.integers(0, 60),
    cuts=CUTS,
)
def test_periodic_watermarks_do_not_depend_on_how_records_are_cut(
    bursts: list[tuple[list[int], int]], bound: int, cuts: list[int]
) -> None:
    """Each burst of records is followed by some steps of machine time; the interval is four steps."""
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(bound))
    strategy = strategy.with_timestamp_assigner(lambda value, _: value)
    op = OperatorHarness(TimestampsSpec(Shipped.of(strategy, "test")), options=INTERVAL)
    expected: list[Any] = []
    now, latest, clock = 0, None, MIN_TIMESTAMP
    for values, steps in bursts:
        for piece in cut(values, cuts):
            op.process(piece)
        op.advance(steps * STEP)
        expected += [(value, value) for value in values]
        latest = max([*values, *([] if latest is None else [latest])], default=None)
        ticked = (now + steps) // 4 > now // 4
        now += steps
        if ticked and latest is not None and latest - bound - 1 > clock:
            clock = latest - bound - 1
            expected.append(elements.WatermarkSignal(clock))
    assert flat(op.output.elements) == expected


# Splits of a source -------------------------------------------------------------------------------------


@dataclass
class ModelSplit:
    latest: int = MIN_TIMESTAMP
    claimed: int = MIN_TIMESTAMP
    idle: bool = False
    seen: int = 0


@dataclass
class SplitModel:
    """All splits looked at anew at every step of time; interval: four steps, timeout: nine and a half."""

    now: int = 0
    clock: int = MIN_TIMESTAMP
    idle: bool = False
    splits: dict[Any, ModelSplit] = field(default_factory=dict)
    out: list[Any] = field(default_factory=list)

    def flush(self) -> None:
        active = [split.claimed for split in self.splits.values() if not split.idle]
        if bool(active) == self.idle:
            self.idle = not active
            self.out.append(StreamStatus(not self.idle))
        if active and min(active) > self.clock:
            self.clock = min(active)
            self.out.append(elements.WatermarkSignal(self.clock))

    def records(self, name: str, values: list[int]) -> None:
        split = self.splits[name]
        split.seen, split.idle = self.now, False
        self.flush()
        self.out += [(value, value) for value in values]
        split.latest = max(split.latest, *values)

    def end(self, name: str) -> None:
        del self.splits[name]
        if not self.splits:
            self.splits[None] = ModelSplit(claimed=self.clock, seen=self.now)
        self.flush()

    def step(self) -> None:
        self.go_idle([s for s in self.splits.values() if not s.idle and self.now + 0.5 - s.seen >= 9.5])
        self.now += 1
        if self.now % 4 == 0:
            self.claim([split for split in self.splits.values() if not split.idle])

    def go_idle(self, quiet: list[ModelSplit]) -> None:
        self.claim(quiet)
        for split in quiet:
            split.idle = True
        self.flush()

    def claim(self, splits: list[ModelSplit]) -> None:
        for split in splits:
            if split.latest > MIN_TIMESTAMP:
                split.claimed = max(split.claimed, split.latest - 1)
        self.flush()


NAMES = ("a", "b", "c")
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(NAMES), st.lists(TIMES, min_size=1, max_size=5)),
        st.tuples(st.sampled_from(NAMES), st.just("end")),
        st.integers(1, 12),
    ),
    max_size=25,
)


@settings(max_examples=MANY)
@given(events=EVENTS, limit=st.integers(1, 6))
def test_splits_of_a_source_agree_with_the_model(events: list[Any], limit: int) -> None:
    model = SplitModel(splits={name: ModelSplit() for name in NAMES})
    steps: list[Step] = [AddSplits(NAMES)]
    for event in events:
        if isinstance(event, int):
            steps.append(Pause(event * STEP))
            for _ in range(event):
                model.step()
            continue
        name, what = event
        if name not in model.splits:
            continue
        if what == "end":
            steps.append(EndSplit(name))
            model.end(name)
        else:
            steps.append(Emit(what, split=name))
            model.records(name, what)
    assert flat(polled(steps, limit)) == model.out


def polled(steps: list[Step], limit: int) -> list[Element]:
    """What a source emits that plays the steps, before its end."""
    timeout = Duration.of_millis(int(9.5 * STEP * 1000))
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_idleness(timeout)
    strategy = strategy.with_timestamp_assigner(lambda value, _: value)
    source = Shipped.of(ScriptedSource([*steps, WaitForever()]), "source")
    spec = SourceSpec(source, True, strategy=Shipped.of(strategy, "strategy"))
    op = OperatorHarness(spec, options=INTERVAL)
    operator: Any = op.operator
    end = op.services.now() + sum(step.seconds for step in steps if isinstance(step, Pause)) + 1e-6
    while True:
        now = op.services.now()
        if operator.next_deadline() <= now:
            op.link.on_time(now)
        if operator.ready(now):
            op.link.poll(limit)
            continue
        due = min(operator.next_deadline(), operator.retry_at)
        if due > end:
            return op.output.elements
        op.services.clock.advance_to(due)


# Topologies ---------------------------------------------------------------------------------------------


class Probe:
    """Writes down the clock at which each record is seen, and whether it is late; passes everything on."""

    def __init__(self, node: int) -> None:
        self.node = node
        self.log = CollectSink()
        self.subtask = -1

    def note(self, value: Any, ctx: Any) -> Iterator[Any]:
        seen = (self.subtask, value, ctx.timestamp(), ctx.timer_service().current_watermark())
        self.log._records.append((self.subtask, seen, None))
        yield value


class PlainProbe(ProcessFunction):
    def __init__(self, probe: Probe) -> None:
        self.probe = probe

    def open(self, runtime_context: Any) -> None:
        self.probe.subtask = runtime_context.get_index_of_this_subtask()

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        return self.probe.note(value, ctx)


class KeyedProbe(KeyedProcessFunction):
    open = PlainProbe.open
    __init__ = PlainProbe.__init__
    process_element = PlainProbe.process_element


class CoProbe(CoProcessFunction):
    open = PlainProbe.open
    __init__ = PlainProbe.__init__
    process_element1 = PlainProbe.process_element
    process_element2 = PlainProbe.process_element


@dataclass(frozen=True)
class Operator:
    kind: str
    inputs: tuple[int, ...]
    parallelism: int
    distribution: str


@dataclass(frozen=True)
class Topology:
    """Sources: for each subtask its watermark of each round, rising. Operators read earlier nodes."""

    sources: tuple[tuple[tuple[int, ...], ...], ...]
    operators: tuple[Operator, ...]


ROUNDS = 3


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    rising = st.lists(st.integers(0, 1000), min_size=ROUNDS, max_size=ROUNDS).map(
        lambda ts: tuple(sorted(ts))
    )
    subtasks = st.lists(rising, min_size=1, max_size=3).map(tuple)
    sources = tuple(draw(st.lists(subtasks, min_size=1, max_size=3)))
    operators: list[Operator] = []
    for _ in range(draw(st.integers(1, 4))):
        nodes = range(len(sources) + len(operators))
        kind = draw(st.sampled_from(("process", "keyed", "connect", "side")))
        inputs = draw(st.lists(st.sampled_from(nodes[::-1]), min_size=1, max_size=2, unique=True))
        distribution = draw(st.sampled_from(("auto", "rebalance", "shuffle", "global_", "broadcast")))
        operators.append(Operator(kind, tuple(inputs), draw(st.integers(1, 3)), distribution))
    return Topology(sources, tuple(operators))


def scripts(source: tuple[tuple[int, ...], ...]) -> list[list[Step]]:
    """Each round: records after the last watermark, the next watermark, a rest for it to arrive, then probes."""
    found: list[list[Step]] = []
    for watermarks in source:
        steps: list[Step] = []
        last = -1
        for number, watermark in enumerate(watermarks):
            times = [watermark + 1, last + 1]
            steps += [Emit(["data"] * 2, times), EmitWatermark(watermark), Pause(1.0)]
            steps += [Emit([number] * 3, [watermark + 1] * 3), Pause(1.0)]
            last = watermark
        found.append(steps)
    return found


def build(env: StreamExecutionEnvironment, topology: Topology) -> list[Probe]:
    streams: list[DataStream] = []
    for source in topology.sources:
        stream = env.from_source(
            ScriptedSource(*scripts(source)), WatermarkStrategy.no_watermarks(), "source"
        )
        streams.append(stream.set_parallelism(len(source)))
    probes = [Probe(node) for node in range(len(topology.operators))]
    for operator, probe in zip(topology.operators, probes, strict=True):
        inputs = [streams[index] for index in operator.inputs]
        streams.append(connected(operator, inputs, probe).set_parallelism(operator.parallelism))
    streams[-1].add_sink(CollectSink())
    return probes


def connected(operator: Operator, inputs: list[DataStream], probe: Probe) -> DataStream:
    if operator.kind == "keyed":
        first, *others = inputs
        united = first.union(*others) if others else first
        return united.key_by(lambda value: value).process(KeyedProbe(probe))
    inputs = [distributed(stream, operator.distribution) for stream in inputs]
    if operator.kind == "connect":
        return inputs[0].connect(inputs[-1]).process(CoProbe(probe))
    first, *others = inputs
    return (first.union(*others) if others else first).process(PlainProbe(probe))


def distributed(stream: DataStream, distribution: str) -> DataStream:
    return stream if distribution == "auto" else getattr(stream, distribution)()


def clock(topology: Topology, node: int, subtask: int, number: int) -> int:
    """The naive model: a task's clock is the minimum over everybody who can send to it."""
    if node < len(topology.sources):
        return topology.sources[node][subtask][number]
    operator = topology.operators[node - len(topology.sources)]
    found = []
    for index in operator.inputs:
        senders = range(parallelism(topology, index))
        # Only a forward edge leads to one subtask; everywhere else watermarks go to all.
        if (
            operator.kind != "keyed"
            and operator.distribution == "auto"
            and len(senders) == operator.parallelism
        ):
            senders = range(subtask, subtask + 1)
        found += [clock(topology, index, sender, number) for sender in senders]
    return min(found)


def parallelism(topology: Topology, node: int) -> int:
    if node < len(topology.sources):
        return len(topology.sources[node])
    return topology.operators[node - len(topology.sources)].parallelism


@settings(max_examples=SOME)
@given(topology=topologies(), seed=st.integers(0, 2**32), chunk=st.sampled_from((1, 2, 1024)))
def test_l01_every_clock_is_the_minimum_over_all_that_can_send(
    topology: Topology, seed: int, chunk: int
) -> None:
    env = simulated_environment(seed)
    env.get_config()._configuration.set_string("firesteel.chunk.records", str(chunk))
    probes = build(env, topology)
    env.execute()
    for index, probe in enumerate(probes, len(topology.sources)):
        clocks: dict[int, int] = {}
        for subtask, value, timestamp, watermark in probe.log.values:
            assert watermark >= clocks.get(subtask, MIN_TIMESTAMP), "the clock has run backwards"
            clocks[subtask] = watermark
            assert timestamp > watermark, "a record became late on its way"
            if value != "data":
                assert watermark == clock(topology, index, subtask, value)


# Idleness -----------------------------------------------------------------------------------------------


@settings(max_examples=SOME)
@given(
    speeds=st.lists(st.integers(1, 20), min_size=1, max_size=3),
    silent=st.integers(1, 2),
    returns=st.booleans(),
    seed=st.integers(0, 2**32),
)
def test_l03_silent_partitions_that_are_idle_let_time_pass_and_never_turn_it_back(
    speeds: list[int], silent: int, returns: bool, seed: int
) -> None:
    talking = [
        [
            step
            for at in range(5)
            for step in (Emit(["data"], [at * speed]), EmitWatermark(at * speed), Pause(1.0))
        ]
        for speed in speeds
    ]
    back: list[Step] = [Emit(["late"], [0]), EmitWatermark(0)] if returns else []
    quiet: list[list[Step]] = [[GoIdle(), Pause(4.5), *back, Pause(0.7)] for _ in range(silent)]
    env = simulated_environment(seed)
    source = ScriptedSource(*talking, *quiet)
    probe = Probe(0)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "source")
    stream.set_parallelism(len(speeds) + silent).rebalance().process(PlainProbe(probe)).set_parallelism(1)
    env.execute()
    clocks = [watermark for _, _, _, watermark in probe.log.values]
    assert clocks == sorted(clocks)
    last = [watermark for _, value, _, watermark in probe.log.values if value == "late"]
    # The slowest one that talks decides, as long as anybody talks; after the last data all of them have come to 4.
    assert all(watermark == 4 * min(speeds) for watermark in last)
    assert len(last) == (silent if returns else 0)
    assert MAX_WATERMARK not in clocks
