"""What was emitted is a value: whoever changes the object later, a record stays what it was."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from firesteel.common.configuration import Configuration
from firesteel.common.typeinfo import Types
from firesteel.common.types import Row
from firesteel.common.watermark_strategy import WatermarkStrategy
from firesteel.contracts.source import Polled, Source, SourceReader, SourceReaderContext
from firesteel.datastream import StreamExecutionEnvironment
from firesteel.datastream.functions import (
    FlatMapFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessFunction,
    ReduceFunction,
    RuntimeContext,
    SinkFunction,
    SourceFunction,
)
from firesteel.datastream.output_tag import OutputTag
from firesteel.datastream.state import ValueStateDescriptor
from firesteel.testing import simulated_environment

SEEDS = range(6)


def environment(seed: int, parallelism: int = 1, **options: str) -> StreamExecutionEnvironment:
    return simulated_environment(
        seed, parallelism=parallelism, configuration=Configuration.from_dict(dict(options))
    )


def collected(stream: Any) -> list[Any]:
    with stream.execute_and_collect() as results:
        return list(results)


class GrowingState(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        seen = self.seen.value() or []
        seen.append(value)
        self.seen.update(seen)
        yield seen


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_state_that_is_emitted_and_changed_later(seed: int, backend: str) -> None:
    env = environment(seed, **{"state.backend.type": backend})
    stream = env.from_collection([0, 1, 2]).key_by(lambda n: 0).process(GrowingState())
    assert collected(stream) == [[0], [0, 1], [0, 1, 2]]


class Buffering(ProcessFunction):
    def __init__(self) -> None:
        self.buffer: list[int] = []

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.buffer.append(value)
        if len(self.buffer) == 2:
            yield self.buffer
            self.buffer.clear()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_buffer_that_is_emitted_and_emptied(seed: int) -> None:
    stream = environment(seed).from_collection(list(range(6))).process(Buffering())
    assert collected(stream) == [[0, 1], [2, 3], [4, 5]]


class OneRow(MapFunction):
    def __init__(self, row: Any) -> None:
        self.row = row

    def map(self, value: Any) -> Any:
        self.row["n"] = value
        return self.row


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("row", [Row(n=0), {"n": 0}])
def test_one_row_for_every_record(seed: int, row: Any) -> None:
    stream = environment(seed).from_collection([1, 2, 3]).map(OneRow(row))
    assert [record["n"] for record in collected(stream)] == [1, 2, 3]


class Keeping(SinkFunction):
    kept: list[Any] = []

    def invoke(self, value: Any, context: Any = None) -> None:
        Keeping.kept.append(value)


def spoil(record: dict[str, int]) -> dict[str, int]:
    record["n"] = -1
    return record


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("first", [True, False])
def test_siblings_do_not_see_each_others_changes(seed: int, first: bool) -> None:
    Keeping.kept = []
    source = environment(seed).from_collection([{"n": 1}, {"n": 2}])
    if first:
        source.map(spoil).print()
        source.map(lambda record: record["n"]).add_sink(Keeping())
    else:
        source.map(lambda record: record["n"]).add_sink(Keeping())
        source.map(spoil).print()
    source._env.execute()
    assert Keeping.kept == [1, 2]


class Twice(ProcessFunction):
    def __init__(self, tag: OutputTag) -> None:
        self.tag = tag

    def process_element(self, value: Any, ctx: Any) -> Any:
        ctx.output(self.tag, value)
        value.append("main")
        yield value
        value.append("late")
        yield self.tag, value


@pytest.mark.parametrize("seed", SEEDS)
def test_main_and_side_output_of_one_object(seed: int) -> None:
    Keeping.kept = []
    tag = OutputTag("aside")
    stream = environment(seed).from_collection([["a"], ["b"]]).process(Twice(tag))
    stream.get_side_output(tag).add_sink(Keeping())
    assert collected(stream) == [["a", "main"], ["b", "main"]]
    assert Keeping.kept == [["a"], ["a", "main", "late"], ["b"], ["b", "main", "late"]]


class LateChanges(ReduceFunction):
    """Changes its first argument from the hundredth call on."""

    def __init__(self) -> None:
        self.calls = 0

    def reduce(self, value1: Any, value2: Any) -> Any:
        self.calls += 1
        if self.calls < 100:
            return {"n": value1["n"] + value2["n"]}
        value1["n"] += value2["n"]
        return value1


@pytest.mark.parametrize("seed", SEEDS)
def test_a_reduce_that_begins_to_change_its_argument(seed: int) -> None:
    numbers = [{"n": 1} for _ in range(150)]
    stream = environment(seed).from_collection(numbers).key_by(lambda record: 0).reduce(LateChanges())
    assert [record["n"] for record in collected(stream)] == list(range(1, 151))


class YieldsAgain(FlatMapFunction):
    def flat_map(self, value: Any) -> Any:
        yield value
        value.append(1)
        yield value


@pytest.mark.parametrize("seed", SEEDS)
def test_a_generator_that_changes_what_it_yielded(seed: int) -> None:
    stream = environment(seed).from_collection([[0]]).flat_map(YieldsAgain()).map(lambda v: [*v, "x"])
    assert collected(stream) == [[0, "x"], [0, 1, "x"]]


@dataclass
class Order:
    items: list[str]


@pytest.mark.parametrize("seed", SEEDS)
def test_one_object_that_is_in_a_collection_twice(seed: int) -> None:
    order = Order(["a"])

    def add(found: Order) -> Order:
        found.items.append("b")
        return found

    stream = environment(seed).from_collection([order, order]).map(add)
    assert [found.items for found in collected(stream)] == [["a", "b"], ["a", "b"]]


class Reusing(SourceFunction):
    def run(self, ctx: Any) -> None:
        record: dict[str, int] = {}
        for n in range(3):
            record["n"] = n
            ctx.collect(record)

    def cancel(self) -> None:
        pass


@pytest.mark.parametrize("seed", SEEDS)
def test_a_source_that_reuses_its_record(seed: int) -> None:
    assert collected(environment(seed).add_source(Reusing())) == [{"n": 0}, {"n": 1}, {"n": 2}]


class OneRecord(Source):
    """Polls one and the same dict, which it changes before each poll."""

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        return OneRecordReader()


class OneRecordReader(SourceReader):
    def __init__(self) -> None:
        self._record: dict[str, Any] = {"n": 0}

    def poll(self, limit: int) -> Polled:
        self._record["n"] += 1
        return Polled([self._record, self._record], ended=self._record["n"] == 3)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_reader_that_reuses_its_record(seed: int) -> None:
    def spoilt(record: dict[str, Any]) -> int:
        record["n"] += 10
        return int(record["n"])

    stream = environment(seed).from_source(OneRecord(), WatermarkStrategy.no_watermarks(), "one record")
    assert collected(stream.map(spoilt)) == [11, 11, 12, 12, 13, 13]


class Seen(MapFunction):
    seen: list[int] = []

    def map(self, value: Any) -> Any:
        Seen.seen.append(id(value))
        return value


@pytest.mark.parametrize("reuse", ["true", "false"])
def test_object_reuse_switches_the_protection_off(reuse: str) -> None:
    Seen.seen = []
    env = environment(0, **{"pipeline.object-reuse": reuse})
    env.from_collection([["a"]]).map(Seen()).map(Seen()).print()
    env.execute()
    first, second = Seen.seen
    assert (first == second) == (reuse == "true")
