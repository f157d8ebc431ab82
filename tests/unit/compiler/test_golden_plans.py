"""Plans of small programs as text, compared with tests/golden/plans; ``UPDATE_GOLDEN=1`` rewrites them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from firesteel.graph.stream_graph import Chaining, Edge
from firesteel.plan.exchange import (
    Auto,
    Broadcast,
    Custom,
    Forward,
    Global,
    KeyGroups,
    Rebalance,
    Rescale,
    Shuffle,
)
from firesteel.plan.render import to_text
from firesteel.plan.shipped import Shipped

GOLDEN = Path(__file__).parents[2] / "golden" / "plans"
PROGRAMS: dict[str, Callable[..., dict[str, Any] | None]] = {}


def program(build: Callable[..., dict[str, Any] | None]) -> Callable[..., dict[str, Any] | None]:
    """Register a program; it returns arguments for ``plan`` when it needs any."""
    PROGRAMS[build.__name__] = build
    return build


@program
def chain(p):
    p.print(p.filter(p.map(p.source())))


@program
def keyed_reduce(p):
    p.print(p.reduce(p.flat_map(p.source("lines", limit=1)), name="Count"))


@program
def union_of_three(p):
    streams = [p.source("a"), p.map(p.source("b", bounded=False)), p.source("c", limit=1)]
    union = p.builder.add("Map", p.builder[streams[1]].spec, tuple(Edge(s, Auto()) for s in streams))
    p.print(union)


@program
def connect_keyed(p):
    orders, payments = p.map(p.source("orders"), "Parse"), p.source("payments")
    by_key = KeyGroups(p.key)
    matched = p.connect(
        Edge(orders, by_key, 0), Edge(payments, by_key, 1), "Match", key_selectors=(p.key, p.key)
    )
    p.sink(matched)


@program
def diamond(p):
    source = p.source()
    left, right = p.map(source, "Left"), p.filter(source, "Right")
    p.print(p.connect(Edge(left, Auto(), 0), Edge(right, Auto(), 1)))


@program
def edge_that_skips_a_stage(p):
    clicks, users = p.source("clicks"), p.source("users")
    counts = p.reduce(p.reduce(clicks, name="per user"), name="per page")
    by_key = KeyGroups(p.key)
    joined = p.connect(Edge(counts, by_key, 0), Edge(users, by_key, 1), "Join", key_selectors=(p.key, p.key))
    p.print(joined)


@program
def several_sinks(p):
    mapped = p.map(p.source())
    p.print(mapped)
    p.sink(p.filter(mapped))
    p.sink(p.reduce(mapped), "totals", parallelism=1)


@program
def side_outputs(p):
    split = p.process(p.source(), "Split")
    p.print(split)
    p.sink(split, "late", tag="late-data")
    p.sink(p.reduce(split, name="Count errors", tag="errors"), "errors")


@program
def different_parallelism(p):
    source = p.source("sensors")
    p.sink(p.map(source, "Convert", parallelism=32), parallelism=2)
    return {"parallelism": 16}


@program
def slot_sharing_groups(p):
    light = p.map(p.source())
    heavy = p.map(light, "Model", slot_sharing_group="gpu")
    p.print(p.map(heavy, "Round"))
    both = p.connect(Edge(light, Rebalance(), 0), Edge(heavy, Rebalance(), 1), "Both")
    p.sink(both)
    p.sink(p.reduce(light, name="Sum"))
    p.sink(p.reduce(heavy, name="Sum of scores", parallelism=3), "scores")


@program
def chaining_disabled_and_new_chain(p):
    alone = p.map(p.map(p.source(), "Before"), "Alone", chaining=Chaining.NEVER)
    head = p.map(p.map(alone, "After"), "New chain", chaining=Chaining.HEAD)
    p.print(head)


@program
def chaining_off_everywhere(p):
    p.print(p.map(p.source()))
    return {"pipeline.operator-chaining": "false"}


@program
def broadcast(p):
    readings, rules = p.source("readings", bounded=False), p.source("rules", bounded=False, limit=1)
    checked = p.connect(Edge(readings, Forward(), 0), Edge(rules, Broadcast(), 1), "Check")
    p.print(checked)
    return {"parallelism": 4}


@program
def every_distribution(p):
    source = p.source()
    partitioner = Shipped(b"partitioner", "lambda at job.py:9")
    for distribution in (Shuffle(), Rescale(), Global(), Broadcast(), Custom(partitioner, p.key), Forward()):
        p.map(source, distribution.label.title(), by=distribution, chaining=Chaining.HEAD)


@program
def batch_mode(p):
    p.print(p.reduce(p.map(p.source("numbers"))), parallelism=1)
    return {"execution.runtime-mode": "AUTOMATIC", "name": "totals of the day", "parallelism": 4}


@pytest.mark.parametrize("name", PROGRAMS)
def test_plan_is_as_stored(name, new_program):
    p = new_program()
    arguments = PROGRAMS[name](p) or {}
    text = to_text(p.plan(**arguments))
    stored = GOLDEN / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        stored.write_text(text, encoding="utf-8")
    assert text == stored.read_text(encoding="utf-8")


def test_no_stored_plan_is_left_over():
    assert {path.stem for path in GOLDEN.glob("*.txt")} == set(PROGRAMS)
