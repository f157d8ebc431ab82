"""Scaling: what a record costs as parallelism, stages, keys and records grow.

Flat is good: twice the tasks or keys must not make a record dearer. One dimension changes at a time, the others
stay at the first row of "parallelism 2". The cost is CPU microseconds per record of all processes together (and
wall microseconds, where the CPU is not the limit), between two sizes, so that starting up does not count, nor the
first sight of a key, which every sender hashes once. The last
column is the ratio to the cheapest fair comparison in the same run: the first row of the dimension, per exchange
where stages grow and per byte where records are big.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from _harness import Cost, cycling, environment, median, note, parser, slope
from _results import Results, begin
from firesteel.datastream.functions import DiscardingSink

BIG = 1000  # bytes from which a record's bytes are what it costs


@dataclass(frozen=True, slots=True)
class Shape:
    """A pipeline: source, then ``stages - 1`` times key_by and map, then a sink."""

    parallelism: int = 2
    stages: int = 2
    keys: int = 10_000
    size: int = 10

    @property
    def records(self) -> int:
        """How many records make about a second of work."""
        return max(20_000, min(1_000_000, 300_000_000 // max(self.size, 300)) // (self.stages - 1))


class MakeRecords:
    """Builds the records of a subtask: (key, payload), all keys equally often."""

    def __init__(self, keys: int, size: int) -> None:
        self.keys = keys
        self.size = size

    def __call__(self, subtask: int) -> list[Any]:
        """As many as there are keys, within reason; every payload is an object of its own."""
        count = max(1024, min(self.keys, 50_000_000 // max(self.size, 50)))
        return [((n * 7919 + subtask) % self.keys, os.urandom(self.size)) for n in range(count)]


def later(a: Any, b: Any) -> Any:
    """Keep the newer record: keyed state of the size of the key set."""
    return b


def run(shape: Shape, records: int) -> None:
    """The pipeline, to its end."""
    env = environment(shape.parallelism)
    stream = cycling(env, MakeRecords(shape.keys, shape.size), records)
    for _ in range(shape.stages - 1):
        stream = stream.key_by(operator.itemgetter(0)).reduce(later)
    stream.add_sink(DiscardingSink())
    env.execute("scaling")


def cost(shape: Shape, repetitions: int, shrink: int) -> Cost:
    """Per record, in seconds."""
    # Every sender has seen every key before the measured part: the first sight of a key costs a stable hash.
    small = max(shape.records // 8, shape.parallelism * shape.keys)
    large = small + 4 * shape.records // shrink
    run(shape, shape.records // shrink)  # warm up: Python workers for every task, code generation
    found = [slope(lambda n: run(shape, n), small, large) for _ in range(repetitions)]
    return Cost(median([c.wall for c in found]), median([c.cpu for c in found]))


DIMENSIONS: dict[str, tuple[str, list[Any], list[Any]]] = {
    "parallelism": ("parallelism", [1, 2, 4, 8], [1, 2, 4]),
    "stages": ("stages", [2, 3, 4, 6, 8], [2, 4]),
    "keys": ("keys", [10, 1_000, 100_000, 1_000_000], [10, 100_000]),
    "size": ("bytes per record", [10, 100, 1_000, 10_000], [10, 1_000]),
}


def unit_of(dimension: str, shape: Shape) -> tuple[float, str]:
    """What a row's cost is divided by before it is compared."""
    if dimension == "stages":
        return shape.stages - 1, "per exchange"
    if dimension == "size" and shape.size >= BIG:
        return shape.size / BIG, "per KB"
    return 1, "per record"


def dimension_rows(
    results: Results, name: str, values: list[Any], measure: Callable[[Shape], Cost]
) -> list[list[str]]:
    """One row for each value; compared with the first row of the same unit."""
    rows: list[list[str]] = []
    base: dict[str, float] = {}
    for value in values:
        shape = replace(Shape(), **{name: value})
        found = measure(shape)
        unit, label = unit_of(name, shape)
        each = (found.cpu or found.wall) / unit
        # A difference of two noisy runs can come out below zero; that says nothing about the cost.
        ratio = each / base.setdefault(label, each) if each > 0 else float("nan")
        note(f"{DIMENSIONS[name][0]} {value:,}: {found.cpu * 1e6:.2f} us CPU, {found.wall * 1e6:.2f} us wall")
        per = (
            unit if name == "stages" else 1
        )  # a record in a longer line has more to do; an exchange should not
        results.point(f"cost against {name}", "CPU time of all processes", value, found.cpu / per * 1e6)
        results.point(f"cost against {name}", "time on the clock", value, found.wall / per * 1e6)
        shown = [
            f"{found.cpu * 1e6:.2f}",
            f"{found.wall * 1e6:.2f}",
            f"{each * 1e6:.2f} {label}",
            f"{ratio:.2f}",
        ]
        rows.append([f"{DIMENSIONS[name][0]} {value:,}", *shown])
    return rows


def main() -> None:
    found = parser(__doc__)
    found.add_argument("--only", choices=DIMENSIONS)
    found.add_argument("--repeat", type=int, help="repetitions; medians are shown")
    arguments = found.parse_args()
    results = begin(
        __file__,
        "Cost of a record as one dimension grows; the rest: parallelism 2, 2 stages, 10,000 keys, 10 bytes",
        arguments,
    )
    repetitions = arguments.repeat or (1 if arguments.quick else 3)
    shrink = 2 if arguments.quick else 1
    run(Shape(), 200_000)  # warm up: class loading, code generation, worker start
    rows: list[list[str]] = []
    for name, (_label, values, few) in DIMENSIONS.items():
        if arguments.only in (None, name):
            chosen = few if arguments.quick else values
            rows += dimension_rows(results, name, chosen, lambda shape: cost(shape, repetitions, shrink))
    results.table(["what grows", "CPU us/record", "wall us/record", "CPU us", "to the first"], rows)


if __name__ == "__main__":
    main()
