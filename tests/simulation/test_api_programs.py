"""Programs of the fluent API in the simulator: compiler, job master and tasks together, without a JVM."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from firesteel.common.accumulators import IntCounter
from firesteel.common.configuration import Configuration
from firesteel.common.errors import UserCodeError
from firesteel.common.job_status import JobStatus
from firesteel.common.typeinfo import Types
from firesteel.common.watermark_strategy import WatermarkStrategy
from firesteel.contracts.source import Boundedness
from firesteel.datastream import StreamExecutionEnvironment
from firesteel.datastream.functions import (
    KeyedProcessFunction,
    MapFunction,
    ProcessFunction,
    RuntimeContext,
    SourceFunction,
)
from firesteel.datastream.output_tag import OutputTag
from firesteel.datastream.state import ValueStateDescriptor
from firesteel.testing import CollectSink, Emit, Pause, ScriptedSource, simulated_environment

LINES = ["to be or not to be", "that is the question", "to sleep"]


def words(env: StreamExecutionEnvironment) -> Any:
    return (
        env.from_collection(LINES)
        .flat_map(lambda line: line.split(), output_type=Types.STRING())
        .map(lambda word: (word, 1), output_type=Types.TUPLE([Types.STRING(), Types.INT()]))
        .key_by(lambda pair: pair[0])
        .reduce(lambda a, b: (a[0], a[1] + b[1]))
    )


@pytest.mark.parametrize("seed", range(5))
def test_collecting_keeps_the_order_of_a_source(seed: int) -> None:
    env = simulated_environment(seed, parallelism=3)
    numbers = env.from_collection(list(range(50)))
    assert list(numbers.execute_and_collect()) == list(range(50))
    pairs = list(numbers.key_by(lambda n: n % 7).execute_and_collect())
    assert [(key, n) for key, n in pairs] == [(n % 7, n) for n in range(50)]
    united = numbers.union(env.from_collection(list(range(50, 100)))).key_by(lambda n: n % 7)
    mixed = [n for _, n in united.execute_and_collect()]
    assert [n for n in mixed if n < 50] == list(range(50))
    assert [n for n in mixed if n >= 50] == list(range(50, 100))


@pytest.mark.parametrize("seed", range(5))
def test_collecting_keeps_the_order_of_every_subtask(seed: int) -> None:
    env = simulated_environment(seed, parallelism=3)
    spread = env.from_collection(list(range(60))).rebalance().map(lambda n: n)
    collected = list(spread.rebalance().execute_and_collect())
    assert sorted(collected) == list(range(60))
    for subtask in range(3):
        assert [n for n in collected if n % 3 == subtask] == list(range(subtask, 60, 3))


def test_a_broadcast_stream_is_collected_once() -> None:
    env = simulated_environment(parallelism=3)
    assert sorted(env.from_collection([1, 2, 3]).map(lambda n: n).broadcast().execute_and_collect()) == [
        1,
        2,
        3,
    ]


@pytest.mark.parametrize("seed", range(20))
def test_word_count_in_any_order(seed: int) -> None:
    env = simulated_environment(seed, parallelism=3)
    with words(env).execute_and_collect() as results:
        counts = list(results)
    expected = Counter(word for line in LINES for word in line.split())
    assert Counter(word for word, _ in counts) == expected
    for word, total in expected.items():
        assert [count for found, count in counts if found == word] == list(range(1, total + 1))


def test_batch_gives_the_final_counts() -> None:
    env = simulated_environment(configuration=Configuration.from_dict({"execution.runtime-mode": "BATCH"}))
    with words(env).execute_and_collect() as results:
        assert dict(results) == Counter(word for line in LINES for word in line.split())


class Sort(ProcessFunction):
    odd = OutputTag("odd", Types.INT())

    def process_element(self, value: int, ctx: ProcessFunction.Context) -> Iterator[Any]:
        if value % 2:
            yield self.odd, value
        else:
            yield value


@pytest.mark.parametrize("seed", range(5))
def test_side_outputs_unions_and_connects(seed: int) -> None:
    env = simulated_environment(seed, parallelism=2)
    numbers = env.from_collection(list(range(10)), type_info=Types.INT()).rebalance()
    even = numbers.process(Sort(), output_type=Types.INT())
    odd = even.get_side_output(Sort.odd)
    sink = CollectSink()
    even.map(lambda v: -v).union(odd).add_sink(sink)
    env.execute("sides")
    assert sorted(sink.values) == sorted([-v for v in range(0, 10, 2)] + list(range(1, 10, 2)))


class CountPerKey(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield ctx.get_current_key(), count


def test_keyed_state() -> None:
    env = simulated_environment(parallelism=2)
    stream = env.from_collection(list("abacab")).key_by(lambda v: v).process(CountPerKey())
    with stream.execute_and_collect() as results:
        assert sorted(results) == [("a", 1), ("a", 2), ("a", 3), ("b", 1), ("b", 2), ("c", 1)]


def test_an_error_reaches_the_caller_with_operator_record_and_seed() -> None:
    env = simulated_environment(seed=42)
    env.from_collection([1, 0]).map(lambda v: 1 // v).name("divide").print()
    with pytest.raises(UserCodeError, match="ZeroDivisionError") as caught:
        env.execute()
    assert (caught.value.operator, caught.value.record) == ("divide", "0")
    assert "simulator seed: 42" in "".join(caught.value.__notes__)


def test_print_writes_to_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    env = simulated_environment(parallelism=2)
    env.from_collection([1, 2]).rebalance().print()
    env.execute()
    assert sorted(capsys.readouterr().out.splitlines()) == ["1> 1", "2> 2"]


class Ticks(SourceFunction):
    def __init__(self) -> None:
        self.stopped = threading.Event()

    def __reduce__(self) -> Any:
        return Ticks, ()

    def run(self, ctx: SourceFunction.SourceContext) -> None:
        number = 0
        while not self.stopped.wait(0.001):
            ctx.collect(number)
            number += 1

    def cancel(self) -> None:
        self.stopped.set()


def test_an_endless_job_is_read_while_it_runs_and_cancelled() -> None:
    env = simulated_environment(parallelism=2)
    stream = env.add_source(Ticks()).map(lambda v: v * 2)
    with stream.execute_and_collect() as results:
        # Two maps work side by side, so among the first ten results some may be later than others that are missing.
        missing, seen = {v * 2 for v in range(10)}, []
        while missing:
            seen.append(next(results))
            missing.discard(seen[-1])
    assert len(set(seen)) == len(seen)


def test_a_job_client_cancels() -> None:
    env = simulated_environment()
    env.add_source(Ticks()).add_sink(CollectSink())
    client = env.execute_async()
    client.cancel().result(10)
    assert client.get_job_status().result(10) == JobStatus.CANCELED


class Measured(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = IntCounter()
        runtime_context.add_accumulator("seen", self.seen)

    def map(self, value: Any) -> Any:
        self.seen.add(1)
        return value


def test_accumulators_are_merged_over_subtasks() -> None:
    env = simulated_environment(parallelism=3)
    env.from_collection(list(range(100))).rebalance().map(Measured()).add_sink(CollectSink())
    assert env.execute().get_accumulator_result("seen") == 100


def test_a_scripted_source_drives_a_program_through_simulated_hours() -> None:
    env = simulated_environment()
    source = ScriptedSource(
        [Emit([1]), Pause(7200.0), Emit([2])], boundedness=Boundedness.CONTINUOUS_UNBOUNDED
    )
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "scripted")
    with stream.execute_and_collect() as results:
        assert list(results) == [1, 2]
