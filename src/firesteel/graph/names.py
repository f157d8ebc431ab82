"""How steps are called in plans, logs and messages: Flink's ``Source: a -> Map -> Sink: Print``."""

from __future__ import annotations

from typing import Any

from firesteel.graph.stream_graph import Node
from firesteel.plan.operator_specs import (
    CollectSpec,
    OperatorSpec,
    PrintSpec,
    SinkSpec,
    SourceSpec,
    WriterSinkSpec,
)

SINKS = (SinkSpec, WriterSinkSpec, PrintSpec, CollectSpec)


def is_source(spec: OperatorSpec) -> bool:
    """Whether the operator brings records into the job."""
    return isinstance(spec, SourceSpec)


def is_sink(spec: OperatorSpec) -> bool:
    """Whether records leave the job in this operator."""
    return isinstance(spec, SINKS)


def default_name(code: Any) -> str:
    """What a step is called that nobody has named: the class of the user's source or sink.

    >>> class _Orders: ...
    >>> default_name(_Orders())
    'Orders'

    Operator ids do not depend on names: see `firesteel.graph.operator_ids`.
    """
    name = type(code).__name__
    return name.lstrip("_") or name


def operator_name(node: Node) -> str:
    """The node's name with Flink's prefix for sources and sinks."""
    prefix = "Source: " if is_source(node.spec) else "Sink: " if is_sink(node.spec) else ""
    return node.name if node.name.startswith(prefix) else prefix + node.name


def step_of(node: Node) -> str:
    """The step as a message names it: its name, its uid, and the user's function with file and line.

    The name is only as telling as the user made it; file and line find the step in any case.
    """
    details = [f"uid {node.uid!r}"] if node.uid is not None else []
    if node.spec.user_code is not None:
        details.append(node.spec.user_code.description)
    return f"step {operator_name(node)!r}" + (f" ({', '.join(details)})" if details else "")
