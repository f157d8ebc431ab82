"""Every kind of user code takes part in checkpoints when it says so, or is refused when the program is built."""

from __future__ import annotations

import contextlib
import operator
import random
from collections.abc import Callable
from typing import Any

import pytest

from firesteel.common.configuration import Configuration
from firesteel.common.errors import WrongArgumentError
from firesteel.common.time import Time
from firesteel.common.typeinfo import Types
from firesteel.common.watermark_strategy import TimestampAssigner, WatermarkGenerator, WatermarkStrategy
from firesteel.compiler.compile import compile_job
from firesteel.contracts import evictors, joins, session_windows, sink, source, triggers, windows
from firesteel.contracts.checkpointing import CheckpointedFunction, CheckpointListener, ListCheckpointed
from firesteel.contracts.functions import Function
from firesteel.contracts.state import MapStateDescriptor
from firesteel.contracts.two_phase_commit import TwoPhaseCommitSinkFunction
from firesteel.contracts.write_ahead import CheckpointCommitter, GenericWriteAheadSink
from firesteel.datastream import StreamExecutionEnvironment, functions
from firesteel.datastream._split_stream import OutputSelector
from firesteel.datastream._stream import DataStream
from firesteel.datastream.window import (
    CountTrigger,
    EventTimeSessionWindows,
    GlobalWindows,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from firesteel.launch import Submission, intercept
from firesteel.plan.job_plan import JobPlan
from firesteel.plan.state_handles import CheckpointKind, CheckpointOrder
from firesteel.runtime.router import Outbox, create_router
from firesteel.runtime.settings import TaskSettings
from firesteel.runtime.vertex import VertexSubtask
from firesteel.testing._operator_harness import RecordingServices

CALLS: list[Any] = []


@pytest.fixture(autouse=True)
def _no_calls() -> None:
    CALLS.clear()


class Listening(CheckpointListener):
    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        CALLS.append(("complete", checkpoint_id))

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        CALLS.append(("aborted", checkpoint_id))


class General(CheckpointedFunction, Listening):
    def initialize_state(self, context: Any) -> None:
        CALLS.append("starts")

    def snapshot_state(self, context: Any) -> None:
        CALLS.append(("snapshot", context.get_checkpoint_id()))


class Short(ListCheckpointed, Listening):
    def restore_state(self, state: list[Any]) -> None:
        CALLS.append("starts")

    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> list[Any]:
        CALLS.append(("snapshot", checkpoint_id))
        return [checkpoint_id]


ALL_CALLS = ["starts", ("snapshot", 1), ("complete", 1), ("snapshot", 2), ("aborted", 2)]


def made(kind: type, mixin: type, *arguments: Any) -> Any:
    """An object of ``kind`` that takes part in checkpoints; what it must implement does nothing."""
    methods = dict.fromkeys(getattr(kind, "__abstractmethods__", ()), _nothing)
    return type(f"Test{kind.__name__}", (mixin, kind), methods)(*arguments)


def _nothing(self: Any, *arguments: Any) -> Any:
    return None


class Plain:
    """A function that is an object with a call."""

    def __call__(self, *arguments: Any) -> Any:
        return None


# Running -----------------------------------------------------------------------------------------------


def numbers(env: StreamExecutionEnvironment) -> DataStream:
    return env.from_collection([1, 2, 3])


def keyed(env: StreamExecutionEnvironment) -> Any:
    return numbers(env).key_by(_identity)


def _identity(value: Any) -> Any:
    return value


def windowed(env: StreamExecutionEnvironment, assigner: Any = None) -> Any:
    return keyed(env).window(assigner or TumblingEventTimeWindows.of(Time.seconds(1)))


def all_windowed(env: StreamExecutionEnvironment) -> Any:
    return numbers(env).window_all(TumblingEventTimeWindows.of(Time.seconds(1)))


def broadcast(env: StreamExecutionEnvironment) -> Any:
    return env.from_collection([1]).broadcast(MapStateDescriptor("rules", Types.LONG(), Types.LONG()))


def joined(env: StreamExecutionEnvironment, way: str) -> Any:
    pair = getattr(numbers(env), way)(numbers(env)).where(_identity).equal_to(_identity)
    return pair.window(TumblingEventTimeWindows.of(Time.seconds(1)))


def compiled(build: Callable[[StreamExecutionEnvironment], Any]) -> JobPlan:
    caught: list[Submission] = []

    class Caught(Exception):
        pass

    def catch(submission: Submission) -> None:
        caught.append(submission)
        raise Caught

    options = {"parallelism.default": 1, "execution.runtime-mode": "STREAMING"}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
    built = build(env)
    if isinstance(built, DataStream):
        built.add_sink(sink.DiscardingSink())
    with intercept(catch), contextlib.suppress(Caught):
        env.execute("checkpointed functions")
    return compile_job(caught[0].graph, caught[0].configuration, caught[0].job_name)


def take_checkpoints(plan: JobPlan) -> None:
    """Every subtask of the plan lives through a complete checkpoint and one that is aborted."""
    settings = TaskSettings.of(plan)
    for vertex in plan.vertices:
        routers = {
            edge.id: create_router(plan, edge, 0, Outbox(), settings, random.Random(0))
            for edge in plan.edges_from(vertex.id)
        }
        subtask = VertexSubtask(plan, vertex, 0, routers, RecordingServices(), settings, checkpointing=True)
        subtask.open()
        for number in (1, 2):
            subtask.trigger(CheckpointOrder(number, 0, CheckpointKind.CHECKPOINT))
            (subtask.checkpoint_completed if number == 1 else subtask.checkpoint_aborted)(number)
        assert subtask.close() == []


# Kinds that take part ----------------------------------------------------------------------------------

Build = Callable[[StreamExecutionEnvironment, Any], Any]

TAKE_PART: dict[str, tuple[type, Build]] = {
    "map": (functions.MapFunction, lambda env, f: numbers(env).map(f)),
    "map, keyed": (functions.MapFunction, lambda env, f: keyed(env).map(f)),
    "map, a callable object": (Plain, lambda env, f: numbers(env).map(f)),
    "flat_map": (functions.FlatMapFunction, lambda env, f: numbers(env).flat_map(f)),
    "filter": (functions.FilterFunction, lambda env, f: numbers(env).filter(f)),
    "map_with_state": (Plain, lambda env, f: keyed(env).map_with_state(f)),
    "process": (functions.ProcessFunction, lambda env, f: numbers(env).process(f)),
    "process, keyed": (functions.KeyedProcessFunction, lambda env, f: keyed(env).process(f)),
    "split": (OutputSelector, lambda env, f: numbers(env).split(f).select("a")),
    "reduce": (functions.ReduceFunction, lambda env, f: keyed(env).reduce(f)),
    "map, connected": (functions.CoMapFunction, lambda env, f: numbers(env).connect(numbers(env)).map(f)),
    "flat_map, connected": (
        functions.CoFlatMapFunction,
        lambda env, f: numbers(env).connect(numbers(env)).flat_map(f),
    ),
    "process, connected": (
        functions.CoProcessFunction,
        lambda env, f: numbers(env).connect(numbers(env)).process(f),
    ),
    "process, connected and keyed": (
        functions.KeyedCoProcessFunction,
        lambda env, f: keyed(env).connect(keyed(env)).process(f),
    ),
    "broadcast": (
        functions.BroadcastProcessFunction,
        lambda env, f: numbers(env).connect(broadcast(env)).process(f),
    ),
    "broadcast, keyed": (
        functions.KeyedBroadcastProcessFunction,
        lambda env, f: keyed(env).connect(broadcast(env)).process(f),
    ),
    "interval join": (
        joins.ProcessJoinFunction,
        lambda env, f: (
            keyed(env).interval_join(keyed(env)).between(Time.seconds(0), Time.seconds(1)).process(f)
        ),
    ),
    "window join": (joins.JoinFunction, lambda env, f: joined(env, "join").apply(f)),
    "window join, flat": (joins.FlatJoinFunction, lambda env, f: joined(env, "join").apply(f)),
    "window join, a callable object": (Plain, lambda env, f: joined(env, "join").apply(f)),
    "co-group": (joins.CoGroupFunction, lambda env, f: joined(env, "co_group").apply(f)),
    "window function, tumbling": (functions.WindowFunction, lambda env, f: windowed(env).apply(f)),
    "window function, sliding": (
        functions.WindowFunction,
        lambda env, f: windowed(env, SlidingEventTimeWindows.of(Time.seconds(9), Time.seconds(1))).apply(f),
    ),
    "process window function, tumbling": (
        functions.ProcessWindowFunction,
        lambda env, f: windowed(env).process(f),
    ),
    "process window function, sessions": (
        functions.ProcessWindowFunction,
        lambda env, f: windowed(env, EventTimeSessionWindows.with_gap(Time.seconds(1))).process(f),
    ),
    "process window function, counts": (
        functions.ProcessWindowFunction,
        lambda env, f: keyed(env).count_window(2).process(f),
    ),
    "process window function, any windows": (
        functions.ProcessWindowFunction,
        lambda env, f: windowed(env, GlobalWindows.create()).trigger(CountTrigger.of(2)).process(f),
    ),
    "window function, all": (functions.AllWindowFunction, lambda env, f: all_windowed(env).apply(f)),
    "process window function, all": (
        functions.ProcessAllWindowFunction,
        lambda env, f: all_windowed(env).process(f),
    ),
    "reduce, windows": (functions.ReduceFunction, lambda env, f: windowed(env).reduce(f)),
    "reduce, sessions": (
        functions.ReduceFunction,
        lambda env, f: windowed(env, EventTimeSessionWindows.with_gap(Time.seconds(1))).reduce(f),
    ),
    "reduce, windows, a callable object": (Plain, lambda env, f: windowed(env).reduce(f)),
    "aggregate, windows": (functions.AggregateFunction, lambda env, f: windowed(env).aggregate(f)),
    "aggregate, counts": (
        functions.AggregateFunction,
        lambda env, f: keyed(env).count_window(2).aggregate(f),
    ),
    "process window function, after a reduce": (
        functions.ProcessWindowFunction,
        lambda env, f: windowed(env).reduce(operator.add, f),
    ),
    "sink function": (sink.SinkFunction, lambda env, f: numbers(env).add_sink(f)),
    "sink that forgets": (sink.DiscardingSink, lambda env, f: numbers(env).add_sink(f)),
    "sink with transactions": (TwoPhaseCommitSinkFunction, lambda env, f: numbers(env).add_sink(f)),
    "sink with a log": (GenericWriteAheadSink, lambda env, f: numbers(env).add_sink(f)),
    "source function": (source.SourceFunction, lambda env, f: env.add_source(f)),
    "source function, parallel": (source.ParallelSourceFunction, lambda env, f: env.add_source(f)),
}


class NoNotes(CheckpointCommitter):
    """Remembers nothing."""

    def commit_checkpoint(self, subtask: int, checkpoint_id: int) -> None:
        pass

    def is_checkpoint_committed(self, subtask: int, checkpoint_id: int) -> bool:
        return False


ARGUMENTS: dict[type, tuple[Any, ...]] = {GenericWriteAheadSink: (NoNotes(),)}


@pytest.mark.parametrize("mixin", [General, Short], ids=["CheckpointedFunction", "ListCheckpointed"])
@pytest.mark.parametrize("name", TAKE_PART)
def test_a_function_is_asked_for_its_state_and_told_how_checkpoints_end(name: str, mixin: type) -> None:
    kind, build = TAKE_PART[name]
    function = made(kind, mixin, *ARGUMENTS.get(kind, ()))
    take_checkpoints(compiled(lambda env: build(env, function)))
    assert CALLS == ALL_CALLS


@pytest.mark.parametrize("mixin", [General, Short], ids=["CheckpointedFunction", "ListCheckpointed"])
@pytest.mark.parametrize("aggregator", [functions.ReduceFunction, functions.AggregateFunction])
def test_both_functions_of_a_window_take_part(aggregator: type, mixin: type) -> None:
    first, second = made(aggregator, mixin), made(functions.ProcessWindowFunction, mixin)
    way = "reduce" if aggregator is functions.ReduceFunction else "aggregate"
    take_checkpoints(compiled(lambda env: getattr(windowed(env), way)(first, second)))
    assert [call for call in ALL_CALLS for _ in range(2)] == CALLS


# Kinds that cannot -------------------------------------------------------------------------------------


def with_strategy(env: StreamExecutionEnvironment, strategy: WatermarkStrategy) -> DataStream:
    return numbers(env).assign_timestamps_and_watermarks(strategy)


REFUSED: dict[str, tuple[type, Build]] = {
    "key selector": (functions.KeySelector, lambda env, f: numbers(env).key_by(f)),
    "key selector, several": (functions.KeySelector, lambda env, f: numbers(env).key_by(_identity, f)),
    "key selector, a callable object": (Plain, lambda env, f: numbers(env).key_by(f)),
    "key selector of a join": (functions.KeySelector, lambda env, f: _join_where(env, f)),
    "partitioner": (functions.Partitioner, lambda env, f: numbers(env).partition_custom(f, _identity)),
    "timestamp assigner": (
        TimestampAssigner,
        lambda env, f: with_strategy(
            env, WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(f)
        ),
    ),
    "watermark generator": (
        WatermarkGenerator,
        lambda env, f: with_strategy(env, WatermarkStrategy.for_generator(type(f))),
    ),
    "window assigner": (windows.WindowAssigner, lambda env, f: _reduced(windowed(env, f).trigger(_COUNT))),
    "trigger": (windows.Trigger, lambda env, f: _reduced(windowed(env).trigger(f))),
    "trigger in a trigger": (
        windows.Trigger,
        lambda env, f: _reduced(windowed(env).trigger(PurgingTrigger.of(PurgingTrigger.of(f)))),
    ),
    "evictor": (evictors.Evictor, lambda env, f: _reduced(windowed(env).evictor(f))),
    "distance of a trigger": (
        triggers.DeltaFunction,
        lambda env, f: _reduced(windowed(env).trigger(triggers.DeltaTrigger.of(1.0, f, Types.LONG()))),
    ),
    "gap of sessions": (
        session_windows.SessionWindowTimeGapExtractor,
        lambda env, f: _reduced(windowed(env, EventTimeSessionWindows.with_dynamic_gap(f))),
    ),
    "source": (source.Source, lambda env, f: env.from_source(f, WatermarkStrategy.no_watermarks(), "s")),
    "sink": (sink.Sink, lambda env, f: numbers(env).sink_to(f)),
    "generator function": (functions.MapFunction, lambda env, f: env.from_data_gen(f, 3)),
}

_COUNT = CountTrigger.of(2)


def _reduced(stream: Any) -> Any:
    return stream.reduce(operator.add)


def _join_where(env: StreamExecutionEnvironment, selector: Any) -> Any:
    pair = numbers(env).join(numbers(env)).where(selector).equal_to(_identity)
    return pair.window(TumblingEventTimeWindows.of(Time.seconds(1))).apply(operator.add)


@pytest.mark.parametrize("mixin", [General, Short, Listening])
@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_take_part_is_refused_when_the_program_is_built(name: str, mixin: type) -> None:
    kind, build = REFUSED[name]
    env = StreamExecutionEnvironment.get_execution_environment()
    with pytest.raises(WrongArgumentError, match=r"no part in checkpoints here: its \w+\(\) would never be"):
        build(env, made(kind, mixin))


# Completeness ------------------------------------------------------------------------------------------

BASES = {functions.BaseBroadcastProcessFunction, source.SourceFunctionOfSource}
NOT_THERE_YET = {functions.AsyncFunction}


def test_every_kind_of_function_is_in_one_of_the_lists() -> None:
    known = {kind for kind, _ in (*TAKE_PART.values(), *REFUSED.values())} | BASES | NOT_THERE_YET
    kinds = {
        thing
        for module in (functions, joins, sink, source)
        for thing in vars(module).values()
        if isinstance(thing, type) and issubclass(thing, Function) and thing is not Function
    }
    assert kinds - known == set()
