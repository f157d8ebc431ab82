"""Event time through the fluent API: compiler, job master and tasks together, in simulated time."""

from __future__ import annotations

from collections.abc import Iterator
from time import sleep
from typing import Any

import pytest

from firesteel.common.configuration import Configuration
from firesteel.common.errors import UnsupportedOperationError, UserCodeError
from firesteel.common.time import MAX_WATERMARK, MIN_TIMESTAMP, Duration
from firesteel.common.typeinfo import Types
from firesteel.common.watermark_strategy import (
    Watermark,
    WatermarkGenerator,
    WatermarkOutput,
    WatermarkStrategy,
)
from firesteel.datastream import DataStream, StreamExecutionEnvironment, TimeCharacteristic
from firesteel.datastream.functions import (
    CoProcessFunction,
    KeyedProcessFunction,
    ProcessFunction,
    SourceFunction,
)
from firesteel.datastream.output_tag import OutputTag
from firesteel.testing import (
    AddSplits,
    CollectSink,
    Emit,
    EmitWatermark,
    EndSplit,
    Pause,
    ScriptedSource,
    WaitForever,
    simulated_environment,
)
from firesteel.testing.manual_clock import START
from firesteel.testing.scripted_source import Step

SEEDS = range(10)


class PerRecord(WatermarkGenerator):
    """A watermark for every record, as close as can be."""

    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        output.emit_watermark(Watermark(event_timestamp - 1))

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        pass


def second(value: Any, _: int) -> int:
    return int(value[1])


PUNCTUATED = WatermarkStrategy.for_generator(PerRecord).with_timestamp_assigner(second)
MONOTONOUS = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(second)


class Clocks(ProcessFunction):
    """Shows each record with its timestamp and the clock it met."""

    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:
        yield value, ctx.timestamp(), ctx.timer_service().current_watermark()


class CoClocks(CoProcessFunction):
    def process_element1(self, value: Any, ctx: CoProcessFunction.Context) -> Iterator[Any]:
        yield value, ctx.timestamp(), ctx.timer_service().current_watermark()

    process_element2 = process_element1


def collected(stream: DataStream) -> list[Any]:
    with stream.execute_and_collect() as results:
        return list(results)


# assign_timestamps_and_watermarks -----------------------------------------------------------------------


LATE = OutputTag("late", Types.PICKLED_BYTE_ARRAY())


class DivertLate(ProcessFunction):
    """What comes at or before the watermark goes aside: B07, B39, with the boundary of M02."""

    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:
        if ctx.timestamp() <= ctx.timer_service().current_watermark():
            yield LATE, value
        else:
            yield value


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("chunk", ["1", "3", "1024"])
def test_b07_late_records_are_told_by_the_watermark_before_them(seed: int, chunk: str) -> None:
    env = simulated_environment(seed, 2, Configuration.from_dict({"firesteel.chunk.records": chunk}))
    readings = [("a", 5), ("b", 9), ("c", 9), ("d", 8), ("e", 20), ("f", 19), ("g", 20), ("h", 21)]
    sorted_out = (
        env.from_collection(readings)
        .assign_timestamps_and_watermarks(PUNCTUATED)
        .disable_chaining()
        .process(DivertLate())
        .set_parallelism(1)
    )
    good, late = CollectSink(), CollectSink()
    sorted_out.add_sink(good)
    sorted_out.get_side_output(LATE).add_sink(late)
    env.execute()
    assert sorted(name for name, _ in late.values) == ["d", "f"]
    assert sorted(name for name, _ in good.values) == ["a", "b", "c", "e", "g", "h"]
    assert sorted(late.timestamps) == [8, 19]  # type: ignore[type-var]


def test_periodic_watermarks_make_nothing_late_in_a_short_run() -> None:
    env = simulated_environment(3)
    stream = env.from_collection([("a", 50), ("b", 2)]).assign_timestamps_and_watermarks(MONOTONOUS)
    assert {clock for _, _, clock in collected(stream.process(Clocks()))} == {MIN_TIMESTAMP}


def test_an_assigner_has_the_parallelism_and_the_type_of_its_input() -> None:
    env = simulated_environment(0, 4)
    typed = Types.TUPLE([Types.STRING(), Types.LONG()])
    stream = env.from_collection([("a", 50)], typed).assign_timestamps_and_watermarks(MONOTONOUS)
    node = env._graph[stream._settable_node("test")]
    assert (node.name, node.parallelism, stream.get_type()) == ("Timestamps/Watermarks", 1, typed)


def test_l05_a_second_assigner_replaces_timestamps_and_watermarks() -> None:
    env = simulated_environment(1, 1)
    first = WatermarkStrategy.for_generator(PerRecord).with_timestamp_assigner(lambda value, _: 1000)
    stream = env.from_collection([("a", 5), ("b", 7)]).assign_timestamps_and_watermarks(first)
    again = stream.assign_timestamps_and_watermarks(PUNCTUATED)
    assert collected(again.process(Clocks())) == [(("a", 5), 5, MIN_TIMESTAMP), (("b", 7), 7, 4)]


def test_assigners_refuse_what_they_cannot_do() -> None:
    env = simulated_environment()
    stream = env.from_collection([("a", 5)])
    with pytest.raises(TypeError, match="needs a WatermarkStrategy"):
        stream.assign_timestamps_and_watermarks(lambda value: value)  # type: ignore[arg-type]
    with pytest.raises(UnsupportedOperationError, match=r"give a strategy .* to from_source\(\)"):
        stream.assign_timestamps_and_watermarks(
            MONOTONOUS.with_watermark_alignment("group", Duration.of_seconds(1))
        )


def test_an_assigner_that_fails_is_named() -> None:
    env = simulated_environment()
    stream = env.from_collection(["ab", "c"]).assign_timestamps_and_watermarks(PUNCTUATED)
    with pytest.raises(UserCodeError, match="Timestamps/Watermarks") as caught:
        collected(stream)
    assert "function second" in str(caught.value)
    assert "test_event_time_programs.py" in str(caught.value)


@pytest.mark.parametrize("seed", SEEDS)
def test_b10_timestamps_and_clocks_survive_every_kind_of_edge(seed: int) -> None:
    env = simulated_environment(seed, 2)

    def stamped(name: str, times: list[int]) -> DataStream:
        # It does not end before everything has arrived: an end would let time go on without it.
        steps: list[Step] = [Emit([(name, time) for time in times]), Pause(100)]
        source = env.from_source(ScriptedSource(steps), WatermarkStrategy.no_watermarks(), name)
        return source.set_parallelism(1).assign_timestamps_and_watermarks(PUNCTUATED)

    slow, fast = stamped("slow", [10, 20]), stamped("fast", [1000, 2000])
    united = slow.union(fast).rebalance().process(Clocks()).key_by(lambda seen: seen[0][0])
    # The second input skips stages on its way: it is relayed.
    results = collected(united.map(lambda seen: seen).shuffle().connect(fast.broadcast()).process(CoClocks()))
    firsts = [seen for seen in results if len(seen[0]) == 3]
    assert sorted(seen[0][0] for seen in firsts) == [
        ("fast", 1000),
        ("fast", 2000),
        ("slow", 10),
        ("slow", 20),
    ]
    for (value, at_first, first_clock), timestamp, clock in firsts:
        assert timestamp == at_first == value[1]
        assert first_clock <= 19
        assert clock <= 19
    assert len(results) == 4 + 2 * 2


class Alarm(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 10)
        ctx.timer_service().register_processing_time_timer(
            ctx.timer_service().current_processing_time() + 500
        )
        yield "record", ctx.timestamp()

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        clock = ctx.timer_service().current_watermark()
        yield ctx.time_domain().name, ctx.timestamp() == timestamp, clock


def test_l02_what_timers_emit_has_their_time_and_leaves_before_the_watermark() -> None:
    env = simulated_environment(4)
    steps: list[Step] = [Emit(["a"], [5]), Pause(1), Emit(["a"], [30]), EmitWatermark(20), Pause(1)]
    keyed = env.from_source(ScriptedSource(steps), WatermarkStrategy.no_watermarks(), "source").key_by(
        lambda v: v
    )
    stream = keyed.process(Alarm()).disable_chaining().process(Clocks()).set_parallelism(1)
    seen = [(what[0], timestamp, clock) for what, timestamp, clock in collected(stream)]
    processing = ("PROCESSING_TIME", None, MIN_TIMESTAMP)
    assert seen[:2] == [("record", 5, MIN_TIMESTAMP), processing]
    assert sorted(seen[2:4], key=str) == [("EVENT_TIME", 15, MIN_TIMESTAMP), ("record", 30, MIN_TIMESTAMP)]
    assert seen[4:] == [("PROCESSING_TIME", None, 20), ("EVENT_TIME", 40, 20)]


def test_batch_knows_only_the_end_of_time() -> None:
    env = simulated_environment(1, configuration=Configuration.from_dict({"execution.runtime-mode": "BATCH"}))
    stream = env.from_collection([("a", 5), ("b", 7)]).assign_timestamps_and_watermarks(PUNCTUATED)
    assert {clock for _, _, clock in collected(stream.process(Clocks()))} == {MIN_TIMESTAMP}


# from_source --------------------------------------------------------------------------------------------


def ticking(name: str, times: range, seconds: float = 1.0) -> list[Step]:
    return [step for time in times for step in (Emit([(name, time)]), Pause(seconds))]


def clocks_of(
    env: StreamExecutionEnvironment, source: ScriptedSource, strategy: WatermarkStrategy
) -> list[Any]:
    stream = env.from_source(source, strategy, "source").rebalance()
    return collected(stream.process(Clocks()).set_parallelism(1))


@pytest.mark.parametrize("seed", SEEDS)
def test_b11_one_silent_partition_freezes_time(seed: int) -> None:
    env = simulated_environment(seed, 2)
    seen = clocks_of(env, ScriptedSource(ticking("a", range(0, 100, 10)), [Pause(20)]), MONOTONOUS)
    assert {clock for _, _, clock in seen} == {MIN_TIMESTAMP}


@pytest.mark.parametrize("seed", SEEDS)
def test_l03_idle_partition_returns_without_turning_the_clock_back(seed: int) -> None:
    env = simulated_environment(seed, 2)
    silent: list[Step] = [Pause(5.5), Emit([("b", 0), ("b", 7)]), Pause(3), Emit([("b", 500)]), Pause(2)]
    source = ScriptedSource(ticking("a", range(0, 100, 10)), silent)
    seen = clocks_of(env, source, MONOTONOUS.with_idleness(Duration.of_millis(1900)))
    clocks = [clock for _, _, clock in seen]
    assert clocks == sorted(clocks)
    assert [clock for (name, _), _, clock in seen if name == "a"][:6] == [MIN_TIMESTAMP] * 2 + [9, 19, 29, 39]
    # The silent one returns far behind. It does not count before it has caught up, and so all goes on.
    returned = [(time, clock) for (name, time), _, clock in seen if name == "b"]
    assert returned == [(0, 49), (7, 49), (500, 79)]
    assert clocks[-1] == 79


def test_l04_splits_of_one_reader_have_watermarks_of_their_own() -> None:
    env = simulated_environment(5)
    steps: list[Step] = [AddSplits((0, 1))]
    for time in range(0, 50, 10):
        steps += [Emit([("fast", 10 * time)], split=0), Emit([("slow", time)], split=1), Pause(1)]
    seen = clocks_of(env, ScriptedSource([*steps, EndSplit(1), Emit([("fast", 600)], split=0)]), MONOTONOUS)
    assert [(value, clock) for value, time, clock in seen if time <= clock] == []
    assert seen[-1] == (("fast", 600), 600, 399)


def test_b17_the_auto_watermark_interval_is_honoured() -> None:
    for interval, expected in ((200, 4), (3000, 1), (0, 0)):
        env = simulated_environment(5)
        env.get_config().set_auto_watermark_interval(interval)
        seen = clocks_of(env, ScriptedSource(ticking("a", range(5))), MONOTONOUS)
        clocks = [clock for _, _, clock in seen]
        assert len(set(clocks) - {MIN_TIMESTAMP}) == expected, interval


def test_time_goes_on_at_once_when_a_stream_is_replayed() -> None:
    """B24: history at full speed, then live, with the same results."""
    past = [(name, time) for time in range(0, 1000, 10) for name in "ab"]
    env = simulated_environment(2)
    source = ScriptedSource([Emit(past), Pause(1), Emit([("a", 1000)]), Pause(1), Emit([("a", 1010)])])
    seen = clocks_of(env, source, MONOTONOUS)
    assert [value for value, time, clock in seen if time <= clock] == []
    assert [clock for _, _, clock in seen[-2:]] == [989, 999]


# Ingestion time -----------------------------------------------------------------------------------------


def test_b04_ingestion_time_stamps_at_the_source() -> None:
    env = simulated_environment(6)
    env.set_stream_time_characteristic(TimeCharacteristic.IngestionTime)
    source = ScriptedSource([Emit(["a"], [77]), Pause(1), Emit(["b"])])
    seen = clocks_of(env, source, WatermarkStrategy.no_watermarks())
    start = int(START * 1000)
    assert [(value, timestamp - start) for value, timestamp, _ in seen] == [("a", 0), ("b", 1000)]
    assert seen[0][2] == MIN_TIMESTAMP
    assert seen[1][2] - start in (799, 999)


def test_b04_a_strategy_of_the_source_itself_wins_over_ingestion_time() -> None:
    env = simulated_environment(6)
    env.set_stream_time_characteristic(TimeCharacteristic.IngestionTime)
    seen = clocks_of(env, ScriptedSource([Emit([("a", 5)])]), MONOTONOUS)
    assert seen == [(("a", 5), 5, MIN_TIMESTAMP)]


class Manual(SourceFunction):
    bounded = True

    def run(self, ctx: SourceFunction.SourceContext) -> None:
        ctx.collect_with_timestamp("a", 5)
        ctx.emit_watermark(4)
        ctx.collect_with_timestamp("b", 3)


def test_b21_source_functions_make_their_own_watermarks_unless_time_is_ingestion_time() -> None:
    env = simulated_environment(1, 1)
    assert collected(env.add_source(Manual()).process(Clocks())) == [("a", 5, MIN_TIMESTAMP), ("b", 3, 4)]
    env = simulated_environment(1)
    env.set_stream_time_characteristic(TimeCharacteristic.IngestionTime)
    seen = collected(env.add_source(Manual()).process(Clocks()))
    assert all(timestamp >= START * 1000 and clock != 4 for _, timestamp, clock in seen)


# Alignment ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_sources_of_a_group_wait_for_the_slowest(seed: int) -> None:
    env = simulated_environment(seed, 1)
    strategy = MONOTONOUS.with_watermark_alignment("g", Duration.of_millis(30), Duration.of_millis(100))
    fast = env.from_source(ScriptedSource(ticking("fast", range(0, 1000, 10), 0.1)), strategy, "fast")
    slow = env.from_source(ScriptedSource(ticking("slow", range(0, 100, 10), 1.0)), strategy, "slow")
    sink = CollectSink()
    fast.union(slow).add_sink(sink).set_parallelism(1)
    env.execute()
    latest = {"fast": 0, "slow": 0}
    for name, time in sink.values:
        latest[name] = time
        if latest["slow"] < 90:  # after its last record the slow one ends, and holds nobody back
            assert latest["fast"] <= latest["slow"] + 30 + 20
    assert latest == {"fast": 990, "slow": 90}


def test_a_silent_member_of_a_group_holds_nobody_back_when_it_is_idle() -> None:
    env = simulated_environment(2, 1)
    strategy = MONOTONOUS.with_watermark_alignment("g", Duration.of_millis(30), Duration.of_millis(100))
    strategy = strategy.with_idleness(Duration.of_seconds(2))
    fast = env.from_source(ScriptedSource(ticking("fast", range(0, 1000, 10), 0.1)), strategy, "fast")
    silent = ScriptedSource([Emit([("silent", 0)]), Pause(60), Emit([("silent", 5)])])
    sink = CollectSink()
    fast.union(env.from_source(silent, strategy, "silent")).add_sink(sink).set_parallelism(1)
    env.execute()
    assert [name for name, _ in sink.values][-1] == "silent"
    assert len(sink.values) == 102


def test_the_end_is_the_greatest_watermark() -> None:
    class Last(KeyedProcessFunction):
        def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
            ctx.timer_service().register_event_time_timer(MAX_WATERMARK)

        def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
            yield ctx.get_current_key()

    env = simulated_environment(2, 2)
    stream = env.from_collection([("a", 5), ("b", 5)]).assign_timestamps_and_watermarks(MONOTONOUS)
    assert sorted(collected(stream.key_by(lambda v: v[0]).process(Last()))) == ["a", "b"]


def test_jobs_with_watermarks_can_be_stopped() -> None:
    env = simulated_environment(2)
    source = ScriptedSource([Emit([("a", 5)]), WaitForever()])
    sink = CollectSink()
    env.from_source(source, MONOTONOUS.with_idleness(Duration.of_seconds(1)), "source").add_sink(sink)
    client = env.execute_async()
    while not sink.values:  # a task that is not open yet does not hear that it is to stop
        sleep(0.001)
    client.stop()  # type: ignore[attr-defined]
    client.get_job_execution_result().result(timeout=20)
