"""Generators for property tests, for use with Hypothesis: values, keys, random programs.

Needs Hypothesis, which Firesteel itself does not install: ``pip install hypothesis``.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from firesteel.common.types import Row, RowKind
from firesteel.graph.stream_graph import Chaining
from firesteel_support.programs import (
    DISTRIBUTIONS,
    KEYED_KINDS,
    ONE_INPUT_KINDS,
    TWO_INPUT_KINDS,
    Input,
    OperatorStep,
    Program,
    SourceStep,
)

__all__ = ["keys", "plain_values", "programs", "rows", "values"]

_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(max_size=8),
    st.binary(max_size=8),
)


def plain_values() -> st.SearchStrategy[Any]:
    """Values made of built-in types only."""
    return st.recursive(
        _SCALARS,
        lambda inner: st.one_of(
            st.lists(inner, max_size=4),
            st.tuples(inner, inner),
            st.dictionaries(st.text(max_size=4), inner, max_size=4),
        ),
        max_leaves=8,
    )


def rows() -> st.SearchStrategy[Row]:
    """Rows, named and not, of every kind."""
    names = st.sampled_from([None, ("a", "b"), ("x", "y")])
    return st.builds(Row._make, st.tuples(plain_values(), plain_values()), names, st.sampled_from(RowKind))


def values() -> st.SearchStrategy[Any]:
    """Anything that may be a record."""
    return st.one_of(plain_values(), rows(), st.sets(st.integers(), max_size=3), st.decimals(allow_nan=False))


def keys() -> st.SearchStrategy[Any]:
    """Anything that may be a key."""
    leaves = st.one_of(
        _SCALARS,
        st.dates(),
        st.datetimes(),
        st.times(),
        st.timedeltas(),
        st.uuids(),
        st.decimals(allow_nan=False),
    )
    return st.recursive(
        leaves,
        lambda inner: st.one_of(st.tuples(inner, inner), st.frozensets(inner, max_size=3)),
        max_leaves=4,
    )


@st.composite
def programs(
    draw: st.DrawFn, max_operators: int = 6, max_parallelism: int = 3, max_values: int = 12
) -> Program:
    """Programs over several sources: chains, unions, connects, side outputs, diamonds, all distributions."""
    steps: list[SourceStep | OperatorStep] = [
        draw(_sources(max_parallelism, max_values)) for _ in range(draw(st.integers(1, 3)))
    ]
    for _ in range(draw(st.integers(1, max_operators))):
        steps.append(draw(_operators(steps, max_parallelism)))
    return Program(
        steps=tuple(steps),
        extra_sinks=draw(st.frozensets(st.integers(0, len(steps) - 1), max_size=2)),
        options=draw(_options()),
    )


@st.composite
def _sources(draw: st.DrawFn, max_parallelism: int, max_values: int) -> SourceStep:
    # Now and then a share that is longer than the first chunks, so that chunks grow.
    share = st.one_of(
        st.lists(st.integers(0, 996), max_size=max_values).map(tuple),
        st.lists(st.integers(0, 996), max_size=max_values).map(tuple),
        st.integers(150, 250).map(lambda count: tuple(range(count))),
    )
    shares = st.lists(share, min_size=1, max_size=max_parallelism).map(tuple)
    return SourceStep(
        draw(shares), draw(st.booleans()), draw(st.sampled_from((1, 3, 8, 1000))), draw(st.booleans())
    )


@st.composite
def _operators(draw: st.DrawFn, steps: list[SourceStep | OperatorStep], max_parallelism: int) -> OperatorStep:
    kind = draw(st.sampled_from(ONE_INPUT_KINDS + TWO_INPUT_KINDS))
    return OperatorStep(
        kind=kind,
        inputs=draw(_inputs(steps, kind)),
        parallelism=draw(st.integers(1, max_parallelism)),
        number=draw(st.integers(1, 4)),
        chaining=draw(st.sampled_from((Chaining.ALWAYS, Chaining.ALWAYS, Chaining.HEAD, Chaining.NEVER))),
        second_inputs=draw(_inputs(steps, kind)) if kind in TWO_INPUT_KINDS else (),
    )


@st.composite
def _inputs(draw: st.DrawFn, steps: list[SourceStep | OperatorStep], kind: str) -> tuple[Input, ...]:
    """One input, or several for a union; none twice, because between two equal ones there is no order."""
    outputs = [(index, False) for index in range(len(steps))]
    outputs += [
        (index, True)
        for index, step in enumerate(steps)
        if isinstance(step, OperatorStep) and step.kind == "process"
    ]
    # Later steps more often: it makes longer lines.
    chosen = draw(st.lists(st.sampled_from(outputs[::-1]), min_size=1, max_size=2, unique=True))
    distributions = st.just("auto") if kind in KEYED_KINDS else st.sampled_from(DISTRIBUTIONS)
    return tuple(Input(index, draw(distributions), side) for index, side in chosen)


@st.composite
def _options(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "pipeline.operator-chaining.enabled": draw(st.booleans()),
        "firesteel.chunk.records": draw(st.sampled_from((1, 2, 3, 7, 1024))),
        "firesteel.source.batch": draw(st.sampled_from((1, 2, 5, 1024))),
        "execution.buffer-timeout.interval": draw(st.sampled_from(("0 ms", "100 ms"))),
    }
