"""The spec of the operator that a program would have for a function, a source or a sink."""

from __future__ import annotations

from typing import Any

from firesteel.contracts import functions as kinds
from firesteel.contracts.sink import Sink, SinkFunction
from firesteel.contracts.source import Boundedness, ParallelSourceFunction, Source, SourceFunction
from firesteel.contracts.stream_operators import OneInputStreamOperator, TwoInputStreamOperator
from firesteel.contracts.write_ahead import GenericWriteAheadSink
from firesteel.plan import operator_specs as specs
from firesteel.plan.shipped import Shipped

__all__ = ["spec_of_connector", "spec_of_function"]

_SPECS: list[tuple[type[kinds.Function], Any]] = [
    (kinds.ProcessFunction, specs.ProcessSpec),
    (kinds.KeyedProcessFunction, specs.ProcessSpec),
    (kinds.CoProcessFunction, specs.CoProcessSpec),
    (kinds.KeyedCoProcessFunction, specs.CoProcessSpec),
    (kinds.MapFunction, specs.MapSpec),
    (kinds.FlatMapFunction, specs.FlatMapSpec),
    (kinds.FilterFunction, specs.FilterSpec),
    (kinds.ReduceFunction, specs.ReduceSpec),
    (kinds.CoMapFunction, specs.CoMapSpec),
    (kinds.CoFlatMapFunction, specs.CoFlatMapSpec),
    (OneInputStreamOperator, specs.TransformSpec),
    (TwoInputStreamOperator, specs.TwoInputTransformSpec),
]


def spec_of_function(function: Any, context: str) -> specs.OperatorSpec | None:
    """For a function that one record after the other goes through; None when it is something else."""
    for kind, make in _SPECS:
        if isinstance(function, kind):
            spec: specs.OperatorSpec = make(Shipped.of(function, context))
            return spec
    return None


def spec_of_connector(thing: Any, context: str) -> specs.OperatorSpec | None:
    """For a source or a sink; None when it is something else."""
    match thing:
        case Source():
            bounded = thing.boundedness is Boundedness.BOUNDED
            shipped = Shipped.of(thing, context)
            return specs.SourceSpec(
                shipped, bounded, thing.max_subtasks, enumerated=thing.has_enumerator, decodes=thing.decodes
            )
        case SourceFunction():
            most = None if isinstance(thing, ParallelSourceFunction) else 1
            return specs.SourceSpec(Shipped.of(thing, context), thing.bounded, most)
        case Sink():
            return specs.WriterSinkSpec(Shipped.of(thing, context))
        case SinkFunction() | GenericWriteAheadSink():
            return specs.SinkSpec(Shipped.of(thing, context))
        case _:
            return None
