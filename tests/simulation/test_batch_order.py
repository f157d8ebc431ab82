"""BATCH hands keyed operators their input key by key and in the order of time, and a key ends before the next begins."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

import pytest

from firesteel.common import Types, WatermarkStrategy
from firesteel.common.configuration import Configuration
from firesteel.common.errors import FiresteelError
from firesteel.common.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from firesteel.common.watermark_strategy import TimestampAssigner
from firesteel.datastream import (
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from firesteel.datastream.state import MapStateDescriptor, ValueStateDescriptor
from firesteel.datastream.time_domain import TimeDomain
from firesteel.testing import simulated_environment

SEEDS = range(5)
FAR = 4_102_444_800_000  # the year 2100: no clock comes that far


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[1])


def environment(seed: int, parallelism: int = 2, **options: str) -> StreamExecutionEnvironment:
    given = {"execution.runtime-mode": "BATCH", **{k.replace("__", "."): v for k, v in options.items()}}
    return simulated_environment(seed, parallelism, Configuration.from_dict(given))


RECORDS = [(f"k{n * 7 % 5}", n * 37 % 50, n) for n in range(200)]


def timed(env: StreamExecutionEnvironment, records: list[Any] = RECORDS) -> Any:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
    # Through several senders, so that what arrives is in no order at all.
    spread = env.from_collection(records).assign_timestamps_and_watermarks(strategy)
    return spread.rebalance().map(lambda record: record)


class Journal(KeyedProcessFunction):
    """Says everything it sees: records and timers, the state of the key, the watermark."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        count = (self._count.value() or 0) + 1
        self._count.update(count)
        timers = ctx.timer_service()
        timers.register_event_time_timer(100 - value[1])
        timers.register_processing_time_timer(FAR + value[1])
        timers.register_processing_time_timer(1)  # long past, and yet only at the end of the key
        assert timers.current_watermark() == MIN_TIMESTAMP
        yield ctx.get_current_key(), "record", value[1], count

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        timers = ctx.timer_service()
        assert timers.current_watermark() == MAX_TIMESTAMP
        timers.register_event_time_timer(timestamp + 1)  # the key is over: it is ignored
        timers.register_processing_time_timer(timestamp + 1)
        kind = "event" if ctx.time_domain() is TimeDomain.EVENT_TIME else "processing"
        yield ctx.get_current_key(), kind, timestamp, self._count.value()


def expected_journal(key: str) -> list[Any]:
    times = sorted(time for k, time, _ in RECORDS if k == key)
    seen = [(key, "record", time, count) for count, time in enumerate(times, 1)]
    events = [(key, "event", time, len(times)) for time in sorted({100 - time for time in times})]
    late = [(key, "processing", time, len(times)) for time in [1, *sorted({FAR + t for t in times})]]
    return seen + events + late


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("backend", ["hashmap", "disk"])
def test_a_key_is_seen_from_its_first_record_to_its_last_timer(seed: int, backend: str) -> None:
    env = environment(seed, 1 if seed == 0 else 3, state__backend__type=backend)
    found = list(timed(env).key_by(lambda record: record[0]).process(Journal()).execute_and_collect())
    keys = [key for key, _ in groupby(found, lambda entry: entry[0])]
    if env.get_parallelism() == 1:
        assert len(keys) == 5, "one key after the other"
    for key in {record[0] for record in RECORDS}:
        assert [entry for entry in found if entry[0] == key] == expected_journal(key)


class OneAtATime(KeyedProcessFunction):
    """Its own variable is good for one key: nothing of another key comes in between."""

    def __init__(self) -> None:
        self._records: list[int] = []

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        self._records.append(value[1])
        ctx.timer_service().register_event_time_timer(MAX_TIMESTAMP)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        yield ctx.get_current_key(), tuple(self._records)
        self._records = []


@pytest.mark.parametrize("seed", SEEDS)
def test_keys_do_not_mix(seed: int) -> None:
    found = timed(environment(seed)).key_by(lambda r: r[0]).process(OneAtATime()).execute_and_collect()
    assert dict(found) == {
        key: tuple(sorted(time for k, time, _ in RECORDS if k == key)) for key in {r[0] for r in RECORDS}
    }


class Both(KeyedCoProcessFunction):
    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterator[Any]:
        ctx.timer_service().register_event_time_timer(value[1])
        yield ctx.get_current_key(), value[1], 1

    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterator[Any]:
        yield ctx.get_current_key(), value[1], 2

    def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext) -> Iterator[Any]:
        yield ctx.get_current_key(), timestamp, "timer"


@pytest.mark.parametrize("seed", SEEDS)
def test_both_inputs_of_a_keyed_connect_are_merged_by_time(seed: int) -> None:
    env = environment(seed)
    others = [(f"k{n % 6}", n * 11 % 60, n) for n in range(60)]
    connected = timed(env).connect(timed(env, others)).key_by(lambda r: r[0], lambda r: r[0])
    found = list(connected.process(Both()).execute_and_collect())
    for key in {record[0] for record in RECORDS + others}:
        first = [(key, time, 1) for k, time, _ in RECORDS if k == key]
        second = [(key, time, 2) for k, time, _ in others if k == key]
        timers = [(key, time, "timer") for time in sorted({time for _, time, _ in first})]
        assert [entry for entry in found if entry[0] == key] == sorted(first + second) + timers


RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())


class WithRules(KeyedBroadcastProcessFunction):
    def process_element(
        self, value: Any, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext
    ) -> Iterator[Any]:
        yield value[0], value[1], ctx.get_broadcast_state(RULES).get("rule")

    def process_broadcast_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.Context) -> None:
        ctx.get_broadcast_state(RULES).put("rule", value)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_broadcast_comes_before_the_sorted_side(seed: int) -> None:
    env = environment(seed)
    rules = env.from_collection([1, 2, 3]).broadcast(RULES)
    found = list(timed(env).key_by(lambda r: r[0]).connect(rules).process(WithRules()).execute_and_collect())
    for key in {record[0] for record in RECORDS}:
        mine = [entry for entry in found if entry[0] == key]
        assert mine == [(key, time, 3) for time in sorted(time for k, time, _ in RECORDS if k == key)]


@pytest.mark.parametrize("seed", SEEDS)
def test_reduce_folds_in_the_order_of_time(seed: int) -> None:
    reduced = timed(environment(seed)).key_by(lambda r: r[0]).reduce(lambda a, b: (a[0], a[1], b[1]))
    found = sorted(reduced.execute_and_collect())
    times = {key: sorted(time for k, time, _ in RECORDS if k == key) for key in {r[0] for r in RECORDS}}
    assert found == sorted((key, mine[0], mine[-1]) for key, mine in times.items())


@pytest.mark.parametrize("seed", SEEDS)
def test_records_without_time_keep_the_order_of_their_sender(seed: int) -> None:
    env = environment(seed, 3)
    pairs = env.from_collection([(n % 4, n) for n in range(100)])
    found = list(pairs.key_by(lambda pair: pair[0]).map(lambda pair: pair).execute_and_collect())
    for key in range(4):
        assert [n for k, n in found if k == key] == list(range(key, 100, 4))


def test_a_key_selector_that_fails_is_named_with_its_record() -> None:
    env = environment(1)
    with pytest.raises(FiresteelError, match=r"\('b', 1\)"):
        list(
            env.from_collection([("a", 1), ("b", 1)])
            .key_by(lambda pair: {"a": 1}[pair[0]])
            .process(OneAtATime())
            .execute_and_collect()
        )


@pytest.mark.parametrize("chunk", ["1", "7", "1024"])
def test_more_keys_and_records_than_fit_into_one_run(chunk: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firesteel.runtime.inputs.record_sorter._IN_MEMORY", 10_000)
    env = environment(2, firesteel__chunk__records=chunk)
    pairs = env.from_collection([(n * 13 % 1500, n) for n in range(4500)])
    summed = pairs.key_by(lambda pair: pair[0]).reduce(lambda a, b: (a[0], a[1] + b[1]))
    expected: dict[int, int] = {}
    for n in range(4500):
        expected[n * 13 % 1500] = expected.get(n * 13 % 1500, 0) + n
    assert sorted(summed.execute_and_collect()) == sorted(expected.items())
