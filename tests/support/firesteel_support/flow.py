"""Programs one level below the fluent API, for tests of the engine: every call adds one operator.

>>> flow = Flow()
>>> numbers = flow.source([1, 2, 3])
>>> flow.collect(flow.map(numbers, lambda x: x + 1), "out")
>>> flow.run().collected["out"]
[2, 3, 4]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from firesteel.common.configuration import Configuration
from firesteel.compiler.compile import compile_job
from firesteel.connectors.collection import CollectionSource
from firesteel.contracts.sink import Sink
from firesteel.contracts.source import Boundedness, Source
from firesteel.graph.stream_graph import Edge, GraphBuilder
from firesteel.plan import operator_specs as specs
from firesteel.plan.exchange import Auto, EdgeDistribution, KeyGroups
from firesteel.plan.job_plan import JobPlan
from firesteel.plan.shipped import Shipped
from firesteel_support.local_master import SimulatedResult, run_plan

__all__ = ["Flow"]

_AUTO = Auto()


class Flow:
    """Builds a graph. Streams are node ids; every method takes settings of the node, such as ``parallelism``.

    ``by`` is how the input is distributed, ``tag`` the side output to read, ``key`` a key selector.
    """

    def __init__(self, parallelism: int = 1) -> None:
        self.parallelism = parallelism
        self.graph = GraphBuilder()

    # Sources and sinks --------------------------------------------------------------------------------

    def source(
        self, source: Source | Sequence[Any], timestamps: Sequence[int] | None = None, **more: Any
    ) -> int:
        """Read a source, or a list by one subtask."""
        if not isinstance(source, Source):
            source = CollectionSource(source, timestamps)
            more.setdefault("parallelism", 1)
        bounded = source.boundedness is Boundedness.BOUNDED
        shipped = Shipped.of(source, "from_source")
        spec = specs.SourceSpec(shipped, bounded, source.max_subtasks, enumerated=source.has_enumerator)
        return self.graph.add("numbers", spec, (), **more)

    def function_source(self, function: Any, **more: Any) -> int:
        """Read a `SourceFunction`."""
        spec = specs.SourceSpec(Shipped.of(function, "add_source"), function.bounded, 1)
        return self.graph.add("Custom Source", spec, (), **{"parallelism": 1, **more})

    def collect(self, stream: int, collect_id: str, **more: Any) -> None:
        """Send everything to the driver."""
        self._add("Collect", specs.CollectSpec(collect_id), [stream], **more)

    def print(self, stream: int, identifier: str = "", to_stderr: bool = False, **more: Any) -> None:
        """Print everything."""
        self._add("Print", specs.PrintSpec(identifier, to_stderr), [stream], **more)

    def sink(self, stream: int, sink: Any, **more: Any) -> None:
        """Give everything to a `SinkFunction` or to a `Sink`."""
        spec = specs.WriterSinkSpec if isinstance(sink, Sink) else specs.SinkSpec
        self._add("Sink", spec(Shipped.of(sink, "add_sink")), [stream], **more)

    # Operators ----------------------------------------------------------------------------------------

    def map(self, stream: int | list[int], function: Any, **more: Any) -> int:
        """Add a map."""
        return self._function("Map", specs.MapSpec, stream, function, **more)

    def filter(self, stream: int | list[int], function: Any, **more: Any) -> int:
        """Add a filter."""
        return self._function("Filter", specs.FilterSpec, stream, function, **more)

    def flat_map(self, stream: int | list[int], function: Any, **more: Any) -> int:
        """Add a flat_map."""
        return self._function("Flat Map", specs.FlatMapSpec, stream, function, **more)

    def process(self, stream: int | list[int], function: Any, **more: Any) -> int:
        """Add a process function, keyed when there is a ``key``."""
        return self._function("Process", specs.ProcessSpec, stream, function, **more)

    def reduce(self, stream: int | list[int], function: Any, key: Any, **more: Any) -> int:
        """Add a keyed reduce."""
        return self._function("Reduce", specs.ReduceSpec, stream, function, key=key, **more)

    def connect(
        self, kind: type[specs.OperatorSpec], first: int, second: int, function: Any, **more: Any
    ) -> int:
        """Add an operator with two inputs: ``kind`` is its spec's class, ``keys`` two key selectors."""
        keys = [Shipped.of(key, "key_by") for key in more.pop("keys", ())]
        ways: list[EdgeDistribution] = [KeyGroups(key) for key in keys] or [more.pop("by", _AUTO)] * 2
        edges = tuple(Edge(stream, ways[side], side) for side, stream in enumerate((first, second)))
        make: Any = kind
        return self.graph.add(
            "Connect", make(Shipped.of(function, "connect")), edges, key_selectors=tuple(keys), **more
        )

    def _function(self, name: str, make: Any, stream: int | list[int], function: Any, **more: Any) -> int:
        streams = [stream] if isinstance(stream, int) else stream
        return self._add(name, make(Shipped.of(function, name)), streams, **more)

    def _add(
        self,
        name: str,
        spec: specs.OperatorSpec,
        streams: Sequence[int],
        *,
        by: EdgeDistribution = _AUTO,
        tag: str | None = None,
        key: Any = None,
        **more: Any,
    ) -> int:
        if key is not None:
            selector = Shipped.of(key, "key_by")
            by, more["key_selectors"] = KeyGroups(selector), (selector,)
        return self.graph.add(name, spec, tuple(Edge(s, by, 0, tag) for s in streams), **more)

    # Running ------------------------------------------------------------------------------------------

    def plan(self, **options: Any) -> JobPlan:
        """Compile; options with dots are given as ``**{"a.b": value}``."""
        keys = {"parallelism.default": self.parallelism, **options}
        return compile_job(self.graph.build(), Configuration.from_dict(keys), "test")

    def run(self, seed: int = 0, **options: Any) -> SimulatedResult:
        """Compile and run in the simulator."""
        return run_plan(self.plan(**options), seed)
