"""A tiny helper that builds graphs without the fluent API, so that compiler tests need nothing above the graph."""

from __future__ import annotations

from typing import Any

import pytest

from firesteel.common.configuration import Configuration
from firesteel.compiler.compile import compile_job
from firesteel.graph.stream_graph import Edge, GraphBuilder
from firesteel.plan.exchange import Auto, EdgeDistribution, KeyGroups
from firesteel.plan.job_plan import JobPlan
from firesteel.plan.operator_specs import (
    CoMapSpec,
    FilterSpec,
    FlatMapSpec,
    MapSpec,
    OperatorSpec,
    PrintSpec,
    ProcessSpec,
    ReduceSpec,
    SinkSpec,
    SourceSpec,
)
from firesteel.plan.shipped import Shipped

FUNCTION = Shipped(b"function", "lambda at job.py:7")
KEY = Shipped(b"key", "lambda at job.py:8")
AUTO = Auto()


class Program:
    """Adds steps and returns their node ids; ``plan`` compiles what was added."""

    key = KEY

    def __init__(self) -> None:
        self.builder = GraphBuilder()

    def source(
        self, name: str = "numbers", *, bounded: bool = True, limit: int | None = None, **more: Any
    ) -> int:
        return self.builder.add(name, SourceSpec(FUNCTION, bounded, limit), (), **more)

    def map(self, source: int, name: str = "Map", **more: Any) -> int:
        return self.step(name, MapSpec(FUNCTION), [source], **more)

    def filter(self, source: int, name: str = "Filter", **more: Any) -> int:
        return self.step(name, FilterSpec(FUNCTION), [source], **more)

    def flat_map(self, source: int, name: str = "Flat Map", **more: Any) -> int:
        return self.step(name, FlatMapSpec(FUNCTION), [source], **more)

    def process(self, source: int, name: str = "Process", **more: Any) -> int:
        return self.step(name, ProcessSpec(FUNCTION), [source], **more)

    def reduce(self, *sources: int, name: str = "Reduce", key: Shipped = KEY, **more: Any) -> int:
        spec = ReduceSpec(FUNCTION)
        return self.step(name, spec, list(sources), by=KeyGroups(key), key_selectors=(key,), **more)

    def connect(self, first: Edge, second: Edge, name: str = "Co-Map", **more: Any) -> int:
        return self.builder.add(name, CoMapSpec(FUNCTION), (first, second), **more)

    def print(self, source: int, name: str = "Print", **more: Any) -> int:
        return self.step(name, PrintSpec(), [source], **more)

    def sink(self, source: int, name: str = "database", **more: Any) -> int:
        return self.step(name, SinkSpec(FUNCTION), [source], **more)

    def step(
        self,
        name: str,
        spec: OperatorSpec,
        sources: list[int],
        *,
        by: EdgeDistribution = AUTO,
        tag: str | None = None,
        **more: Any,
    ) -> int:
        return self.builder.add(name, spec, tuple(Edge(s, by, 0, tag) for s in sources), **more)

    def plan(self, parallelism: int = 2, name: str = "job", **options: Any) -> JobPlan:
        keys = {"parallelism.default": parallelism, **options.pop("options", {}), **options}
        return compile_job(self.builder.build(), Configuration.from_dict(keys), name)


@pytest.fixture(scope="session")
def new_program() -> type[Program]:
    return Program
