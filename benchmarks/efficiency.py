"""Efficiency: how much of what bare Python can do is left when Firesteel runs the same functions.

The peer is the least a Python program can do: list loops over the same records with the same function
objects, one process per core, no exchange, no framework. The ratio is Firesteel's records per second over
theirs, on the same cores, in alternating repetitions. Sources hand out slices of a pre-built list.

The second ratio compares CPU seconds per record, of all processes on either side. On an idle machine both
agree; on a busy one the second is the one to trust, because Firesteel has more processes than the loops and
so gets a larger share of a contended machine.

- chain: map, filter, flat_map in one task
- keyed: trivial lambdas and a running sum per key around one exchange
- json: the functions parse text, as real ones do; then a running sum per key
"""

from __future__ import annotations

import json
import multiprocessing
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from _harness import (
    PARALLELISM,
    at_least,
    cores,
    cycling,
    environment,
    median,
    note,
    parser,
    rate_text,
    ratio_text,
    slope,
    spread,
)
from _results import begin
from firesteel.datastream.functions import DiscardingSink

KEYS = 10_000
BATCH = 1024


# The user's functions ---------------------------------------------------------------------------------


def readings(subtask: int) -> list[Any]:
    """Tuples (sensor, value, number)."""
    draw = random.Random(subtask)
    return [(draw.randrange(KEYS), draw.random() + 0.5, n) for n in range(100 * BATCH)]


def lines(subtask: int) -> list[str]:
    """The same as JSON text with some more fields."""
    return [
        json.dumps({"sensor": s, "value": v, "n": n, "unit": "celsius", "tags": ["a", "b"]})
        for s, v, n in readings(subtask)[: 20 * BATCH]
    ]


double = lambda r: (r[0], r[1] * 2.0, r[2])  # noqa: E731 - lambdas are what users write
positive = lambda r: r[1] > 0  # noqa: E731
pieces = lambda r: (r, (r[0], -r[1], r[2])) if r[2] % 2 else (r,)  # noqa: E731
sensor = lambda r: r[0]  # noqa: E731
add = lambda a, b: (a[0], a[1] + b[1], b[2])  # noqa: E731
add_two = lambda a, b: (a[0], a[1] + b[1])  # noqa: E731


def parse(line: str) -> tuple[int, float]:
    """The fields that matter."""
    found = json.loads(line)
    return found["sensor"], found["value"]


# The same three programs, bare and on Firesteel --------------------------------------------------------


def bare_chain(batch: list[Any], state: dict[Any, Any]) -> list[Any]:
    batch = [double(r) for r in batch]
    batch = [r for r in batch if positive(r)]
    return [piece for r in batch for piece in pieces(r)]


def bare_keyed(batch: list[Any], state: dict[Any, Any]) -> list[Any]:
    batch = [double(r) for r in batch]
    batch = [r for r in batch if positive(r)]
    return bare_sums(batch, state, add)


def bare_json(batch: list[Any], state: dict[Any, Any]) -> list[Any]:
    batch = [parse(line) for line in batch]
    batch = [r for r in batch if positive(r)]
    return bare_sums(batch, state, add_two)


def bare_sums(batch: list[Any], state: dict[Any, Any], reduce: Callable[[Any, Any], Any]) -> list[Any]:
    results = []
    for record in batch:
        key = sensor(record)
        record = reduce(state[key], record) if key in state else record
        state[key] = record
        results.append(record)
    return results


def chain(stream: Any) -> Any:
    return stream.map(double).filter(positive).flat_map(pieces)


def keyed(stream: Any) -> Any:
    return stream.map(double).filter(positive).key_by(sensor).reduce(add)


def keyed_json(stream: Any) -> Any:
    return stream.map(parse).filter(positive).key_by(sensor).reduce(add_two)


@dataclass(frozen=True, slots=True)
class Case:
    """One question: the records, both programs, sizes per repetition, and the ratio wanted."""

    name: str
    make: Callable[[int], list[Any]]
    bare: Callable[[list[Any], dict[Any, Any]], list[Any]]
    program: Callable[[Any], Any]
    small: int
    large: int
    target: float


CASES = (
    Case("chain", readings, bare_chain, chain, 1_000_000, 9_000_000, 0.5),
    Case("keyed", readings, bare_keyed, keyed, 1_000_000, 7_000_000, 0.25),
    Case("json", lines, bare_json, keyed_json, 200_000, 1_800_000, 0.5),
)


# Measuring ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Speed:
    """Records per second, and CPU seconds per record."""

    rate: float
    cpu: float


def bare_speed(case: Case, records: int) -> Speed:
    """The loops, on all cores at once."""
    context = multiprocessing.get_context("spawn")
    start = context.Barrier(PARALLELISM)
    results = context.Queue()
    workers = [
        context.Process(target=_bare_worker, args=(case.name, records // PARALLELISM, start, results, n))
        for n in range(PARALLELISM)
    ]
    for worker in workers:
        worker.start()
    speeds = [results.get() for _ in workers]
    for worker in workers:
        worker.join()
    return Speed(sum(speed.rate for speed in speeds), sum(speed.cpu for speed in speeds) / len(speeds))


def _bare_worker(name: str, records: int, start: Any, results: Any, number: int) -> None:
    case = next(case for case in CASES if case.name == name)
    data, state = case.make(number), {}
    _bare_loop(case, data, state, 10 * BATCH)  # warm up
    start.wait()
    wall, cpu = time.perf_counter(), time.process_time()
    done = _bare_loop(case, data, state, records)
    results.put(Speed(done / (time.perf_counter() - wall), (time.process_time() - cpu) / done))


def _bare_loop(case: Case, data: list[Any], state: dict[Any, Any], records: int) -> int:
    done, bare = 0, case.bare
    while done < records:
        position = done % len(data)
        batch = data[position : position + BATCH]
        bare(batch, state)
        done += len(batch)
    return done


def run(case: Case, records: int) -> None:
    """The program on Firesteel, to its end."""
    env = environment()
    case.program(cycling(env, case.make, records)).add_sink(DiscardingSink())
    env.execute(case.name)


def firesteel_speed(case: Case, small: int, large: int) -> Speed:
    """Between the two sizes."""
    cost = slope(lambda records: run(case, records), small, large)
    return Speed(1 / cost.wall, cost.cpu)


def measure(case: Case, repetitions: int, shrink: int) -> list[str]:
    """Both sides in turns; one row of the table."""
    small, large = case.small // shrink, case.large // shrink
    run(case, small)  # warm up: class loading, code generation, worker start
    bare, ours = [], []
    for _ in range(repetitions):
        bare.append(bare_speed(case, large))
        ours.append(firesteel_speed(case, small, large))
        note(f"{case.name}: bare {_text(bare[-1])}, Firesteel {_text(ours[-1])}")
    ratios = [mine.rate / theirs.rate for mine, theirs in zip(ours, bare, strict=True)]
    by_cpu = median(s.cpu for s in bare) / median(s.cpu for s in ours)
    shown = [rate_text(median(s.rate for s in speeds)) for speeds in (bare, ours)]
    ratio = median(ratios)
    return [
        case.name,
        *shown,
        ratio_text(ratio),
        spread(ratios),
        ratio_text(by_cpu),
        at_least(ratio, case.target),
    ]


def _text(speed: Speed) -> str:
    return f"{rate_text(speed.rate)} ({speed.cpu * 1e6:.2f} us CPU)"


def main() -> None:
    found = parser(__doc__)
    found.add_argument("--only", choices=[case.name for case in CASES])
    found.add_argument("--repeat", type=int, help="repetitions; medians are shown")
    arguments = found.parse_args()
    results = begin(
        __file__,
        f"Firesteel against bare list loops in {PARALLELISM} processes, on the same cores",
        arguments,
    )
    if cores() < PARALLELISM:
        note(f"only {cores()} core: the loops cannot run side by side")
    repetitions = arguments.repeat or (1 if arguments.quick else 5)
    cases = [case for case in CASES if arguments.only in (None, case.name)]
    rows = [measure(case, repetitions, 4 if arguments.quick else 1) for case in cases]
    results.table(["case", "bare loops", "Firesteel", "ratio", "range", "ratio by CPU", "target"], rows)


if __name__ == "__main__":
    main()
