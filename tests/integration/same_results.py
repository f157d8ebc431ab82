"""Programs with the results they must have on every engine.

A program adds operators and sinks to an environment; each sink has a name. What arrives at a sink is compared
sorted, because several channels have no order among them; every program is written so that this is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

from support import FileSink, records

from firesteel.common import Row, Types
from firesteel.datastream import (
    DataStream,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    OutputTag,
    ParallelSourceFunction,
    ProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from firesteel.datastream.state import ListStateDescriptor, ValueStateDescriptor

Sinks = Callable[[str, DataStream], None]
Expected = Mapping[str, list[Any]]


@dataclass(frozen=True)
class SameProgram:
    """``expected`` by sink; in ``batch``, where that is different."""

    build: Callable[[StreamExecutionEnvironment, Sinks], None]
    expected: Expected
    batch: Expected | None = None

    def run(self, env: StreamExecutionEnvironment, directory: Path) -> dict[str, list[Any]]:
        """Run it; returns what arrived at every sink."""

        def sink(name: str, stream: DataStream) -> None:
            stream.add_sink(FileSink(directory / name)).name(name)

        self.build(env, sink)
        env.execute("same results")
        return {path.name: records(path) for path in sorted(directory.iterdir())}

    def wanted(self, batch: bool) -> dict[str, list[Any]]:
        expected = self.batch if batch and self.batch is not None else self.expected
        return {name: sorted(values, key=repr) for name, values in expected.items()}


# Functions ----------------------------------------------------------------------------------------------


class Count(KeyedProcessFunction):
    """How many there were of each key so far."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        count = (self._count.value() or 0) + 1
        self._count.update(count)
        yield ctx.get_current_key(), count


class Join(KeyedCoProcessFunction):
    """Every pair of a left and a right record with the same key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._left = runtime_context.get_list_state(ListStateDescriptor("left", Types.PICKLED_BYTE_ARRAY()))
        self._right = runtime_context.get_list_state(ListStateDescriptor("right", Types.PICKLED_BYTE_ARRAY()))

    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterator[Any]:
        self._left.add(value)
        for other in self._right.get() or []:
            yield value, other

    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterator[Any]:
        self._right.add(value)
        for other in self._left.get() or []:
            yield other, value


THREES = OutputTag("threes", Types.LONG())
FIVES = OutputTag("fives", Types.STRING())


class Sort(ProcessFunction):
    """Multiples of three aside, of five aside as text, everything else on."""

    def process_element(self, value: int, ctx: ProcessFunction.Context) -> Iterator[Any]:
        if value % 3 == 0:
            yield THREES, value
        if value % 5 == 0:
            yield FIVES, str(value)
        if value % 3 and value % 5:
            yield value


class Where(MapFunction):
    """The value and the subtask that saw it."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._subtask = runtime_context.get_index_of_this_subtask()

    def map(self, value: Any) -> Any:
        return value, self._subtask


class Numbers(ParallelSourceFunction):
    """Each subtask collects its share of the numbers below a limit, with timestamps."""

    bounded = True

    def __init__(self, limit: int) -> None:
        self._limit = limit

    def open(self, runtime_context: RuntimeContext) -> None:
        self._first = runtime_context.get_index_of_this_subtask()
        self._step = runtime_context.get_number_of_parallel_subtasks()

    def run(self, ctx: ParallelSourceFunction.SourceContext) -> None:
        for number in range(self._first, self._limit, self._step):
            ctx.collect_with_timestamp(number, number * 10)


# Programs -----------------------------------------------------------------------------------------------


def chain(env: StreamExecutionEnvironment, sink: Sinks) -> None:
    numbers = env.from_collection(range(3000), type_info=Types.LONG())
    sink("out", numbers.map(lambda x: x + 1).filter(lambda x: x % 2 == 0).flat_map(lambda x: [x, -x]))


def keyed_reduce(env: StreamExecutionEnvironment, sink: Sinks) -> None:
    pairs = env.from_collection([(n % 7, n) for n in range(700)])
    sink("sums", pairs.key_by(lambda p: p[0]).reduce(lambda a, b: (a[0], a[1] + b[1])))


def _running_sums() -> list[tuple[int, int]]:
    sums: dict[int, int] = {}
    found = []
    for n in range(700):
        sums[n % 7] = sums.get(n % 7, 0) + n
        found.append((n % 7, sums[n % 7]))
    return found


def union_and_diamond(env: StreamExecutionEnvironment, sink: Sinks) -> None:
    first, second, third = (env.from_collection(range(i, 300, 3)) for i in range(3))
    united = first.union(second, third).map(lambda x: x % 10)
    doubled = united.map(lambda x: ("double", x)).disable_chaining()
    tripled = united.map(lambda x: ("triple", x)).start_new_chain()
    counts = doubled.union(tripled).key_by(lambda pair: pair).process(Count())
    sink("counts", counts)


def connect_keyed(env: StreamExecutionEnvironment, sink: Sinks) -> None:
    orders = env.from_collection([(n % 5, f"order {n}") for n in range(30)])
    rates = env.from_collection([(k, f"rate {k}") for k in range(5)] * 2)
    pairs = orders.connect(rates).key_by(lambda o: o[0], lambda r: r[0]).process(Join())
    sink("pairs", pairs)


def side_outputs(env: StreamExecutionEnvironment, sink: Sinks) -> None:
    sorted_out = env.from_collection(range(60), type_info=Types.LONG()).process(
        Sort(), output_type=Types.LONG()
    )
    sink("rest", sorted_out)
    sink("threes", sorted_out.get_side_output(THREES))
    sink("fives", sorted_out.get_side_output(FIVES))
    split = env.from_collection(range(20)).split(lambda n: ["even" if n % 2 == 0 else "odd", "all"])
    sink("even", split.select("even"))
    sink("odd or even", split.select("even", "odd"))


def mixed_parallelism(env: StreamExecutionEnvironment, sink: Sinks) -> None:
    numbers = env.from_collection(range(200))
    wide = numbers.map(lambda x: x * 2).set_parallelism(3)
    counted = wide.key_by(lambda x: x % 4).process(Count()).set_parallelism(2)
    # The second input of this union skips the stages in between.
    everything = counted.map(lambda pair: pair[1]).set_parallelism(1).union(numbers)
    sink("everything", everything.rebalance().map(lambda x: x).set_parallelism(3))
    sink("wide", wide)


def distributions(env: StreamExecutionEnvironment, sink: Sinks) -> None:
    numbers = env.from_collection(range(60)).rebalance().map(lambda x: x).set_parallelism(2)

    def seen(name: str, stream: DataStream, parallelism: int = 3, where: bool = False) -> None:
        mapped = stream.map(Where()).set_parallelism(parallelism).name(name)
        sink(name, mapped if where else mapped.map(lambda pair: pair[0]).set_parallelism(parallelism))

    seen("forward", numbers.forward(), parallelism=2)
    seen("rebalance", numbers.rebalance())
    seen("rescale", numbers.rescale(), parallelism=4)
    seen("shuffle", numbers.shuffle())
    seen("broadcast", numbers.broadcast())
    seen("global", numbers.global_(), where=True)
    seen("custom", numbers.partition_custom(lambda key, n: key % n, lambda x: x), where=True)


def sources_and_sinks(env: StreamExecutionEnvironment, sink: Sinks) -> None:
    collected = env.add_source(Numbers(100), "numbers")
    sequence = env.from_sequence(1, 50)
    generated = env.from_data_gen(lambda i: i * i, 40)
    sink("numbers", collected)
    sink("both", collected.union(sequence).map(lambda x: x))
    sink("squares", generated.filter(lambda x: x % 2 == 0))
    sink("sequence", sequence)


PERSON = Types.ROW_NAMED(["name", "age", "born"], [Types.STRING(), Types.INT(), Types.SQL_DATE()])
MONEY = Types.TUPLE([Types.STRING(), Types.BIG_DEC(), Types.LIST(Types.DOUBLE())])


def typed(env: StreamExecutionEnvironment, sink: Sinks) -> None:
    people = env.from_collection(
        [Row("ada", 36, date(1815, 12, 10)), ("alan", 41, date(1912, 6, 23))], type_info=PERSON
    )
    sink("people", people.key_by(lambda row: row.name).map(lambda row: row, output_type=PERSON))
    sink("names", people.map(lambda row: row.name.upper(), output_type=Types.STRING()))
    money = people.map(lambda row: (row.name, Decimal(row.age), [row.age / 2]), output_type=MONEY)
    sink("money", money)
    sink("projected", money.project(0, 1))
    ages = people.map(lambda row: (1, row.age), output_type=Types.TUPLE([Types.INT(), Types.INT()]))
    sink("oldest", ages.set_parallelism(1).key_by(0).max(1))


_EVENS = [x for x in range(1, 3001) if x % 2 == 0]
_MIXED = [*range(1, 101), *range(1, 101), *range(200)]  # two keys, for doubles leave 0 or 2 when divided by 4
_PAIRS = [((n % 5, f"order {n}"), (n % 5, f"rate {n % 5}")) for n in range(30) for _ in range(2)]
_COUNTS = [((kind, k), n) for kind in ("double", "triple") for k in range(10) for n in range(1, 31)]
_TYPED: dict[str, list[Any]] = {
    "people": [
        Row(name="ada", age=36, born=date(1815, 12, 10)),
        Row(name="alan", age=41, born=date(1912, 6, 23)),
    ],
    "names": ["ADA", "ALAN"],
    "money": [("ada", Decimal(36), [18.0]), ("alan", Decimal(41), [20.5])],
    "projected": [("ada", Decimal(36)), ("alan", Decimal(41))],
}

PROGRAMS: dict[str, SameProgram] = {
    "chain": SameProgram(chain, {"out": _EVENS + [-x for x in _EVENS]}),
    "keyed reduce": SameProgram(
        keyed_reduce,
        {"sums": _running_sums()},
        batch={"sums": [(k, sum(range(k, 700, 7))) for k in range(7)]},
    ),
    "union and diamond": SameProgram(union_and_diamond, {"counts": _COUNTS}),
    "connect keyed": SameProgram(connect_keyed, {"pairs": _PAIRS}),
    "side outputs": SameProgram(
        side_outputs,
        {
            "rest": [n for n in range(60) if n % 3 and n % 5],
            "threes": list(range(0, 60, 3)),
            "fives": [str(n) for n in range(0, 60, 5)],
            "even": list(range(0, 20, 2)),
            "odd or even": list(range(20)),
        },
    ),
    "mixed parallelism": SameProgram(
        mixed_parallelism, {"everything": _MIXED, "wide": [x * 2 for x in range(200)]}
    ),
    "distributions": SameProgram(
        distributions,
        {
            **{name: list(range(60)) for name in ("forward", "rebalance", "rescale", "shuffle")},
            "broadcast": list(range(60)) * 3,
            "global": [(n, 0) for n in range(60)],
            "custom": [(n, n % 3) for n in range(60)],
        },
    ),
    "sources and sinks": SameProgram(
        sources_and_sinks,
        {
            "numbers": list(range(100)),
            "both": [*range(100), *range(1, 51)],
            "squares": [i * i for i in range(0, 40, 2)],
            "sequence": list(range(1, 51)),
        },
    ),
    "typed": SameProgram(
        typed, {**_TYPED, "oldest": [(1, 36), (1, 41)]}, batch={**_TYPED, "oldest": [(1, 41)]}
    ),
}
