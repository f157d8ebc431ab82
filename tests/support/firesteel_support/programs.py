"""Small programs as data: random tests draw them, the engine runs them, `program_model` says what they must give.

A program is a list of steps. A step reads from earlier ones, in a chosen way of distribution, and does one
thing with a small parameter. Every step that nobody reads from ends in a collecting sink.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from firesteel.common.configuration import Configuration
from firesteel.compiler.compile import compile_job
from firesteel.graph.stream_graph import Chaining, Edge, GraphBuilder, StreamGraph
from firesteel.plan import exchange
from firesteel.plan import operator_specs as specs
from firesteel.plan.job_plan import JobPlan
from firesteel.plan.operator_specs import OperatorSpec, RuntimeMode
from firesteel.plan.shipped import Shipped
from firesteel.testing.scripted_source import Emit, EmitWatermark, Pause, ScriptedSource, Step
from firesteel_support import program_functions as functions
from firesteel_support.program_functions import Origin, Record

__all__ = [
    "DISTRIBUTIONS",
    "KEYED_KINDS",
    "ONE_INPUT_KINDS",
    "TWO_INPUT_KINDS",
    "Input",
    "OperatorStep",
    "Program",
    "SourceStep",
    "build_graph",
    "compile_program",
    "sink_id",
]

#: Names of the distributions that an input may ask for; "forward" only where the parallelisms are equal.
DISTRIBUTIONS = ("auto", "forward", "rebalance", "rescale", "shuffle", "broadcast", "global", "custom")
ONE_INPUT_KINDS = ("map", "filter", "flat_map", "process", "count", "keyed_count")
TWO_INPUT_KINDS = ("co_map", "co_flat_map", "keyed_co_count")
#: Kinds whose inputs are distributed by key, whatever they ask for.
KEYED_KINDS = ("keyed_count", "keyed_co_count")


@dataclass(frozen=True, slots=True)
class Input:
    """What a step reads: an earlier step, or its side output, and how it is distributed."""

    step: int
    distribution: str = "auto"
    side: bool = False


@dataclass(frozen=True, slots=True)
class SourceStep:
    """A source: for each subtask the values, in order; pauses and watermarks after every ``rhythm`` of them."""

    values: tuple[tuple[int, ...], ...]
    timed: bool = False
    rhythm: int = 3
    pauses: bool = False

    @property
    def parallelism(self) -> int:
        """One subtask per tuple of values."""
        return len(self.values)


@dataclass(frozen=True, slots=True)
class OperatorStep:
    """An operation. Several inputs of a one-input kind are a union."""

    kind: str
    inputs: tuple[Input, ...]
    parallelism: int = 1
    number: int = 1
    chaining: Chaining = Chaining.ALWAYS
    second_inputs: tuple[Input, ...] = ()

    @property
    def all_inputs(self) -> tuple[Input, ...]:
        """The inputs of both sides."""
        return self.inputs + self.second_inputs


@dataclass(frozen=True, slots=True)
class Program:
    """Steps, each reading from earlier ones; and which of them have a sink although others read from them."""

    steps: tuple[SourceStep | OperatorStep, ...]
    extra_sinks: frozenset[int] = frozenset()
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def sinks(self) -> list[Input]:
        """What is collected: outputs that nobody reads, and the extra ones."""
        read = {
            (i.step, i.side) for step in self.steps if isinstance(step, OperatorStep) for i in step.all_inputs
        }
        outputs = [(index, side) for index, step in enumerate(self.steps) for side in self._outputs(step)]
        return [
            Input(index, side=side)
            for index, side in outputs
            if (index, side) not in read or index in self.extra_sinks
        ]

    @staticmethod
    def _outputs(step: SourceStep | OperatorStep) -> tuple[bool, ...]:
        return (False, True) if isinstance(step, OperatorStep) and step.kind == "process" else (False,)


def sink_id(output: Input) -> str:
    """The collect id of an output."""
    return f"{output.step}{'-side' if output.side else ''}"


def compile_program(program: Program, mode: RuntimeMode = RuntimeMode.STREAMING, **options: Any) -> JobPlan:
    """The program as a plan."""
    keys = {"execution.runtime-mode": mode.name, **program.options, **options}
    return compile_job(build_graph(program), Configuration.from_dict(keys), "random program")


def build_graph(program: Program) -> StreamGraph:
    """The program as a graph, as the fluent API would build it."""
    builder = _ProgramBuilder(program)
    for index, step in enumerate(program.steps):
        builder.add(index, step)
    for output in program.sinks:
        builder.add_sink(output)
    return builder.graph.build()


def script_of(step: SourceStep, index: int, subtask: int) -> list[Step]:
    """What subtask ``subtask`` of the source at ``index`` does."""
    origin = Origin(index, subtask, step.timed)
    values = step.values[subtask]
    script: list[Step] = []
    for start in range(0, len(values), step.rhythm):
        sequence = range(start, min(start + step.rhythm, len(values)))
        records: list[Record] = [(values[i], origin, i, ()) for i in sequence]
        script.append(Emit(records, list(sequence) if step.timed else None))
        if step.timed:
            script.append(EmitWatermark(sequence[-1]))
        if step.pauses:
            script.append(Pause(0.5))
    return script


class _ProgramBuilder:
    def __init__(self, program: Program) -> None:
        self.graph = GraphBuilder()
        self._program = program
        self._nodes: dict[int, int] = {}

    def add(self, index: int, step: SourceStep | OperatorStep) -> None:
        if isinstance(step, SourceStep):
            self._nodes[index] = self._source(index, step)
        elif step.kind == "count":
            self._nodes[index] = self._count(index, step)
        elif step.kind == "filter":
            self._nodes[index] = self._filter(index, step)
        else:
            self._nodes[index] = self._operator(index, step)

    def add_sink(self, output: Input) -> None:
        step = self._program.steps[output.step]
        function = functions.TracedPass(90 + output.step, 0)
        arrived = self.graph.add(
            "arrive",
            specs.MapSpec(Shipped.of(function, "map")),
            (Edge(self._nodes[output.step], exchange.Auto(), 0, _tag(output)),),
            parallelism=step.parallelism,
        )
        edge = Edge(arrived, exchange.Forward())
        self.graph.add("collect", specs.CollectSpec(sink_id(output)), (edge,), parallelism=step.parallelism)

    def _source(self, index: int, step: SourceStep) -> int:
        scripts = [script_of(step, index, subtask) for subtask in range(step.parallelism)]
        source = Shipped.of(ScriptedSource(*scripts), "from_source")
        return self.graph.add("source", specs.SourceSpec(source, bounded=True), parallelism=step.parallelism)

    def _operator(self, index: int, step: OperatorStep) -> int:
        function = _FUNCTIONS[step.kind](index, step.number)
        spec = _SPECS[step.kind](Shipped.of(function, step.kind))
        key = Shipped.of(functions.KeyOf(step.number), "key_by") if step.kind in KEYED_KINDS else None
        sides = [step.inputs, step.second_inputs] if step.second_inputs else [step.inputs]
        edges = [self._edge(i, step, side, key) for side, inputs in enumerate(sides) for i in inputs]
        keys = () if key is None else (key,) * len(sides)
        return self._add(step, step.kind, spec, tuple(edges), keys)

    def _filter(self, index: int, step: OperatorStep) -> int:
        """filter, and a map that notes the subtask, which a filter cannot do."""
        filtered = self._operator(index, step)
        note = specs.MapSpec(Shipped.of(functions.TracedPass(index, step.number), "map"))
        return self._add(step, "note", note, (Edge(filtered, exchange.Forward()),))

    def _count(self, index: int, step: OperatorStep) -> int:
        """key_by and reduce, with a map before and after it."""
        to_key = specs.MapSpec(Shipped.of(functions.ToKeyAndOne(index, step.number), "map"))
        prepared = self._add(step, "to key", to_key, tuple(self._edge(i, step, 0, None) for i in step.inputs))
        key = Shipped.of(functions.counting_key, "key_by")
        reduce = specs.ReduceSpec(Shipped.of(functions.add_counts, "reduce"))
        reduced = self._add(step, "reduce", reduce, (Edge(prepared, exchange.KeyGroups(key)),), (key,))
        from_key = specs.MapSpec(Shipped.of(functions.FromKeyAndCount(index, step.number), "map"))
        return self._add(step, "from key", from_key, (Edge(reduced, exchange.Forward()),))

    def _add(
        self,
        step: OperatorStep,
        name: str,
        spec: OperatorSpec,
        edges: tuple[Edge, ...],
        keys: tuple[Shipped | None, ...] = (),
    ) -> int:
        settings = {"parallelism": step.parallelism, "chaining": step.chaining, "key_selectors": keys}
        return self.graph.add(name, spec, edges, **settings)

    def _edge(self, source: Input, step: OperatorStep, side: int, key: Shipped | None) -> Edge:
        senders = self._program.steps[source.step].parallelism
        distribution = (
            exchange.KeyGroups(key)
            if key is not None
            else _distribution(source.distribution, senders, step.parallelism)
        )
        return Edge(self._nodes[source.step], distribution, side, _tag(source))


def _tag(source: Input) -> str | None:
    return functions.SIDE.tag_id if source.side else None


def _distribution(name: str, senders: int, receivers: int) -> exchange.EdgeDistribution:
    if name == "forward":
        return exchange.Forward() if senders == receivers else exchange.Rebalance()
    if name == "custom":
        return exchange.Custom(
            Shipped.of(functions.ByValue(), "partition_custom"),
            Shipped.of(functions.value_of, "partition_custom"),
        )
    return _DISTRIBUTIONS[name]


_DISTRIBUTIONS: dict[str, exchange.EdgeDistribution] = {
    "auto": exchange.Auto(),
    "rebalance": exchange.Rebalance(),
    "rescale": exchange.Rescale(),
    "shuffle": exchange.Shuffle(),
    "broadcast": exchange.Broadcast(),
    "global": exchange.Global(),
}

_FUNCTIONS: dict[str, type[functions.Traced]] = {
    "map": functions.TracedMap,
    "filter": functions.TracedFilter,
    "flat_map": functions.TracedFlatMap,
    "process": functions.TracedProcess,
    "keyed_count": functions.TracedKeyedCount,
    "co_map": functions.TracedCoMap,
    "co_flat_map": functions.TracedCoFlatMap,
    "keyed_co_count": functions.TracedKeyedCoCount,
}

_SPECS: dict[str, Any] = {
    "map": specs.MapSpec,
    "filter": specs.FilterSpec,
    "flat_map": specs.FlatMapSpec,
    "process": specs.ProcessSpec,
    "keyed_count": specs.ProcessSpec,
    "co_map": specs.CoMapSpec,
    "co_flat_map": specs.CoFlatMapSpec,
    "keyed_co_count": specs.CoProcessSpec,
}
