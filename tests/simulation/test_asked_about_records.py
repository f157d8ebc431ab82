"""Code that says something about records - selectors, partitioners, assigners, generators - leaves no trace in them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from firesteel.common.configuration import Configuration
from firesteel.common.time import Time
from firesteel.common.types import Row
from firesteel.common.watermark_strategy import (
    TimestampAssigner,
    WatermarkGenerator,
    WatermarkOutput,
    WatermarkStrategy,
)
from firesteel.datastream import StreamExecutionEnvironment
from firesteel.datastream.functions import (
    CoMapFunction,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    Partitioner,
    ProcessJoinFunction,
    ProcessWindowFunction,
    RuntimeContext,
)
from firesteel.datastream.window import (
    CountTrigger,
    EventTimeSessionWindows,
    GlobalWindows,
    PurgingTrigger,
    SessionWindowTimeGapExtractor,
    TumblingEventTimeWindows,
)
from firesteel.testing import simulated_environment
from firesteel.testing.scripted_source import Emit, ScriptedSource

SEEDS = range(4)
BACKENDS = ("hashmap", "rocksdb")


def environment(seed: int, parallelism: int = 1, **options: str) -> StreamExecutionEnvironment:
    return simulated_environment(
        seed, parallelism=parallelism, configuration=Configuration.from_dict(dict(options))
    )


def orders(env: StreamExecutionEnvironment, count: int = 4) -> Any:
    return env.from_collection([{"user": "ab"[n % 2], "n": n} for n in range(count)])


def collected(stream: Any) -> list[Any]:
    with stream.execute_and_collect() as results:
        return sorted(results, key=lambda record: (record["n"], str(record)))


EXPECTED = [{"user": "ab"[n % 2], "n": n} for n in range(4)]


# Key selectors ------------------------------------------------------------------------------------------


def popped(order: Any) -> Any:
    return order.pop("user")


def counted(order: Any) -> Any:
    order["c"] = order.get("c", 0) + 1
    return order["user"]


class Completes(KeySelector):
    """Keeps the record before, and changes it later."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.before: Any = None

    def get_key(self, value: Any) -> Any:
        if self.before is not None:
            self.before["next"] = value["n"]
        self.before = value
        return value["user"]


class Compares(KeySelector):
    """Keeps the record before, changes nothing, and believes that nobody else changes it."""

    def __init__(self) -> None:
        self.before: Any = None

    def get_key(self, value: Any) -> Any:
        if self.before is not None and self.before["n"] < 0:
            return "spoilt"
        self.before = value
        return value["user"]


class Same(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value


def spoilt_later(record: Any) -> Any:
    number = record["n"]
    record["n"] = -1
    return {"user": record["user"], "n": number}


SELECTORS = [
    popped,
    counted,
    Completes(),
    lambda order: order.setdefault("user", "none") and order.pop("user"),
]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("selector", SELECTORS)
def test_what_a_selector_does_to_its_record_nobody_sees(
    seed: int, backend: str, parallelism: int, selector: Any
) -> None:
    env = environment(seed, parallelism, **{"state.backend.type": backend})
    assert collected(orders(env).key_by(selector).process(Same())) == EXPECTED


@pytest.mark.parametrize("parallelism", [1, 2])
def test_what_others_do_to_a_record_a_selector_does_not_see(parallelism: int) -> None:
    class Key(KeyedProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> Any:
            value["key"] = ctx.get_current_key()
            yield value
            value["n"] = -1

    for backend in BACKENDS:
        env = environment(1, parallelism, **{"state.backend.type": backend})
        found = collected(orders(env, 20).key_by(Compares()).process(Key()))
        assert [record["key"] for record in found] == ["ab"[n % 2] for n in range(20)]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_selectors_of_other_operators(seed: int, backend: str) -> None:
    def of(n: int = 4) -> Any:
        return orders(environment(seed, 2, **{"state.backend.type": backend}), n)

    def timed(stream: Any) -> Any:
        return stream.assign_timestamps_and_watermarks(
            WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda order, _: order["n"])
        )

    class All(ProcessWindowFunction):
        def process(self, key: Any, context: Any, elements: Any) -> Any:
            yield from elements

    class Sides(CoMapFunction):
        def map1(self, value: Any) -> Any:
            return value

        def map2(self, value: Any) -> Any:
            return value

    class Left(ProcessJoinFunction):
        def process_element(self, left: Any, right: Any, ctx: Any) -> Any:
            yield left if left == right else {"n": left["n"], "wrong": right}

    window = TumblingEventTimeWindows.of(Time.milliseconds(1))
    assert collected(of().key_by(counted).reduce(lambda first, second: second)) == EXPECTED
    assert collected(of().key_by(counted).map(lambda order: order)) == EXPECTED
    assert collected(timed(of()).key_by(counted).window(window).process(All())) == EXPECTED
    first = timed(of())
    joined = first.join(first).where(counted).equal_to(popped).window(window)
    assert collected(joined.apply(lambda left, right: left if left == right else {"n": -1})) == EXPECTED
    first = timed(of()).key_by(counted)
    assert collected(first.interval_join(first).between(Time.milliseconds(0), Time.milliseconds(0)).process(Left())) == EXPECTED  # fmt: skip
    first = of()
    assert collected(first.connect(first).key_by(counted, popped).map(Sides())) == sorted(
        [*EXPECTED, *EXPECTED], key=lambda order: order["n"]
    )
    assert [row[1] for row in of().key_by(popped).execute_and_collect()] == EXPECTED


def test_with_object_reuse_a_selector_gets_the_record_itself() -> None:
    env = environment(1, **{"pipeline.object-reuse": "true"})
    assert all("c" in order for order in collected(orders(env).key_by(counted).process(Same())))


@dataclass
class Order:
    user: str
    n: int
    seen: int = field(default=0, compare=False)

    @property
    def buyer(self) -> str:
        self.seen += 1
        return self.user


@pytest.mark.parametrize("selector", [lambda order: order.user, lambda order: order.buyer])
def test_attributes_of_records(selector: Any) -> None:
    env = environment(1, 2, **{"state.backend.type": "rocksdb"})
    stream = env.from_collection([Order("a", 1), Order("b", 2)]).key_by(selector).process(Same())
    with stream.execute_and_collect() as results:
        assert sorted((order.n, order.seen) for order in results) == [(1, 0), (2, 0)]


# Partitioners -------------------------------------------------------------------------------------------


class KeepsKeys(Partitioner):
    """Its keys are parts of the records."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.kept: list[Any] = []

    def partition(self, key: Any, num_partitions: int) -> int:
        for other in self.kept:
            other.append("later")
        self.kept.append(key)
        return 0


def test_partitioners_that_keep_their_keys() -> None:
    records = [{"n": n, "tags": [n]} for n in range(4)]
    for selector in (lambda order: order["tags"], "tags"):
        env = environment(1, 2)
        stream = env.from_collection([dict(record) for record in records])
        found = collected(stream.partition_custom(KeepsKeys(), selector).map(lambda order: order))
        assert found == records


def test_selectors_of_partitioners() -> None:
    env = environment(1, 2)
    assert collected(orders(env).partition_custom(lambda key, count: 0, popped).map(Pass())) == EXPECTED


class Pass(MapFunction):
    def map(self, value: Any) -> Any:
        return value


# Timestamp assigners and watermark generators -------------------------------------------------------------


class Gap(TimestampAssigner):
    """Completes the record before."""

    def __init__(self) -> None:
        self.before: Any = None

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        if self.before is not None:
            self.before["next"] = value["n"]
        self.before = value
        return int(value["n"])


def marks(value: Any, record_timestamp: int) -> int:
    value["marked"] = True
    return int(value["n"])


class Marks(TimestampAssigner):
    """Computes a field, which is seen, and keeps the record."""

    def __init__(self) -> None:
        self.kept: list[Any] = []

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        for other in self.kept:
            other["marked"] = "again"
        value["marked"] = True
        self.kept.append(value)
        return int(value["n"])


class Late(WatermarkGenerator):
    """Changes the events that it has seen, in the next call and at every interval."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        event["now"] = True
        self._spoil()
        self.seen.append(event)

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        self._spoil()

    def _spoil(self) -> None:
        for event in self.seen:
            event["late"] = True


MONOTONOUS = WatermarkStrategy.for_monotonous_timestamps()
GENERATED = WatermarkStrategy.for_generator(Late)
MARKED = [{**order, "marked": True} for order in EXPECTED]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        (MONOTONOUS.with_timestamp_assigner(Gap()), EXPECTED),
        (WatermarkStrategy.no_watermarks().with_timestamp_assigner(Gap()), EXPECTED),
        (MONOTONOUS.with_timestamp_assigner(marks), MARKED),
        (MONOTONOUS.with_timestamp_assigner(Marks()), MARKED),
        (GENERATED, EXPECTED),
        (GENERATED.with_timestamp_assigner(lambda order, _: order["n"]), EXPECTED),
        (GENERATED.with_timestamp_assigner(Marks()), MARKED),
        (GENERATED.with_timestamp_assigner(marks), MARKED),
    ],
)
def test_what_assigners_and_generators_do_later_nobody_sees(seed: int, strategy: Any, expected: Any) -> None:
    stream = orders(environment(seed)).assign_timestamps_and_watermarks(strategy)
    assert collected(stream.map(Pass())) == expected


def test_assigners_at_a_source() -> None:
    env = environment(1)
    source = ScriptedSource([Emit([dict(order) for order in EXPECTED], [7] * 4)])
    stream = env.from_source(source, MONOTONOUS.with_timestamp_assigner(Gap()), "orders")
    assert collected(stream.map(Pass())) == EXPECTED


class Both(TimestampAssigner, WatermarkGenerator):
    """Assigner and generator know of each other: they are asked record by record."""

    def __init__(self) -> None:
        self.current: Any = None
        self.wrong = 0

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        self.current = value["n"]
        return int(value["n"])

    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        if self.current != event["n"]:
            raise AssertionError(f"asked about {event} after {self.current}")

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        pass


@pytest.mark.parametrize("seed", SEEDS)
def test_assigner_and_generator_are_asked_record_by_record(seed: int) -> None:
    both = Both()
    strategy = WatermarkStrategy.for_generator(lambda: both).with_timestamp_assigner(both)
    assert collected(orders(environment(seed)).assign_timestamps_and_watermarks(strategy)) == EXPECTED


# Windows --------------------------------------------------------------------------------------------------


class Spoils:
    """Keeps what it sees, and changes it later."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def see(self, record: Any) -> None:
        for other in self.seen:
            other["late"] = True
        self.seen.append(record)


class SpoilingTrigger(CountTrigger):
    def __init__(self) -> None:
        super().__init__(3)
        self.spoils = Spoils()

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> Any:
        self.spoils.see(element)
        return super().on_element(element, timestamp, window, ctx)


class SpoilingGap(SessionWindowTimeGapExtractor):
    def __init__(self) -> None:
        self.spoils = Spoils()

    def extract(self, element: Any) -> int:
        element["gap"] = 100
        self.spoils.see(element)
        return 100


class Contents(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        yield from elements


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("purging", [True, False])
def test_triggers_and_gaps_of_sessions(seed: int, backend: str, purging: bool) -> None:
    def keyed() -> Any:
        env = environment(seed, **{"state.backend.type": backend, "state.backend.disk.cache-entries": "2"})
        times = MONOTONOUS.with_timestamp_assigner(lambda order, _: order["n"])
        return orders(env, 6).assign_timestamps_and_watermarks(times).key_by(lambda order: order["user"])

    trigger = PurgingTrigger.of(SpoilingTrigger()) if purging else SpoilingTrigger()
    found = collected(keyed().window(GlobalWindows.create()).trigger(trigger).process(Contents()))
    expected = [{"user": "ab"[n % 2], "n": n} for n in range(6)]
    assert found == expected
    sessions = EventTimeSessionWindows.with_dynamic_gap(SpoilingGap())
    found = collected(keyed().window(sessions).process(Contents()))
    assert found == [{**order, "gap": 100} for order in expected]


def test_with_object_reuse_an_assigner_gets_the_record_that_goes_on() -> None:
    env = environment(1, **{"pipeline.object-reuse": "true"})
    stream = orders(env).assign_timestamps_and_watermarks(MONOTONOUS.with_timestamp_assigner(Gap()))
    assert any("next" in order for order in collected(stream.map(Pass())))


def test_rows() -> None:
    def take(row: Any) -> Any:
        key = row["user"]
        row["user"] = None
        return key

    env = environment(1, 2)
    stream = env.from_collection([Row(user="a", n=0), Row(user="b", n=1)]).key_by(take).process(Same())
    assert collected(stream) == [Row(user="a", n=0), Row(user="b", n=1)]
