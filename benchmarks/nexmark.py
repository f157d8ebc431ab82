"""Nexmark: ten queries over an auction house, the same unchanged programs on Firesteel and on PyFlink.

Queries 0 to 5, 7, 8, 11 and 12 in ``programs/nexmark_queries.py``. One process per engine runs all of them, each at a
small and a large size; the rate is the difference in events over the difference in seconds. PyFlink is tuned as in
``vs_pyflink``. Where results do not depend on the order of arrival or on the clock, both must print the same.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace

from _contest import (
    TUNED,
    Outcome,
    each_job,
    firesteel_command,
    must_agree,
    pyflink_command,
    rate_of,
    run_jobs,
)
from _harness import note, parser, rate_text, ratio_text
from _results import begin


@dataclass(frozen=True, slots=True)
class Query:
    """One query, the sizes for both engines, and whether what it prints can be compared."""

    name: str
    what: str
    ours: tuple[int, int]
    theirs: tuple[int, int]
    is_certain: bool = True

    def shrunk(self) -> Query:
        """With less to do between the small and the large size."""
        return replace(self, ours=_shrunk(self.ours), theirs=_shrunk(self.theirs))


def _shrunk(sizes: tuple[int, int]) -> tuple[int, int]:
    small, large = sizes
    return small, small + (large - small) * 2 // 5


_STATELESS = (500_000, 7_500_000)
_STATEFUL = (200_000, 3_200_000)
QUERIES = (
    Query("q0", "every bid as it is", _STATELESS, (12_000, 312_000)),
    Query("q1", "a map", _STATELESS, (12_000, 312_000)),
    Query("q2", "a filter", _STATELESS, (12_000, 312_000)),
    Query("q3", "join of two streams, state", _STATELESS, (12_000, 212_000)),
    Query("q4", "join, timers, average", _STATEFUL, (12_000, 92_000), is_certain=False),
    Query("q5", "sliding windows, hottest", _STATEFUL, (12_000, 37_000)),
    Query("q7", "tumbling windows, highest", _STATEFUL, (12_000, 112_000)),
    Query("q8", "window over a union", _STATEFUL, (12_000, 212_000)),
    Query("q11", "sessions", _STATEFUL, (12_000, 37_000)),
    Query("q12", "processing-time windows", _STATEFUL, (12_000, 112_000), is_certain=False),
)


def main() -> None:
    arguments = _arguments()
    results = begin(
        __file__,
        "Nexmark: Firesteel against PyFlink, the same unchanged programs, parallelism 2 on both",
        arguments,
    )
    names = arguments.only.split(",") if arguments.only else [query.name for query in QUERIES]
    queries = [query.shrunk() if arguments.quick else query for query in QUERIES if query.name in names]
    ours = {query.name: query.ours for query in queries}
    theirs = {query.name: query.theirs for query in queries}
    our_rates, our_results = rates(firesteel_command("nexmark"), ours, (), arguments.repeat)
    their_rates, their_results = rates(pyflink_command("nexmark"), theirs, TUNED, arguments.repeat)
    for query in queries:
        if query.is_certain:
            must_agree(query.name, our_results[query.name], their_results[query.name])
    rows = [
        [
            f"{query.name}  {query.what}",
            rate_text(our_rates[query.name]),
            rate_text(their_rates[query.name]),
            f"{ratio_text(our_rates[query.name] / their_rates[query.name])}x",
        ]
        for query in queries
    ]
    results.table(["query", "Firesteel events/s", "PyFlink tuned events/s", "Firesteel is"], rows)


def rates(
    command: list[str], sizes: dict[str, tuple[int, int]], options: tuple[str, ...], repeat: int
) -> tuple[dict[str, float], dict[str, list[str]]]:
    """Events per second of every query, and the results that each of its jobs printed."""
    first = next(iter(sizes))
    warm_up = f"{first}:{sizes[first][0]}"
    plan = [(name, size) for name, both in sizes.items() for size in both * repeat]
    outcome = run_jobs(command, [warm_up, *(f"{name}:{size}" for name, size in plan)], options)
    found, printed = {}, {}
    for index, (name, both) in enumerate(sizes.items()):
        note(f"{name} {' '.join(options)}")
        start = 1 + index * 2 * repeat
        found[name] = rate_of(both, outcome.seconds[start : start + 2 * repeat])
        jobs = 2 * repeat + (name == first)
        printed[name] = each_job(results_of(outcome, name), jobs)
    return found, printed


def results_of(outcome: Outcome, name: str) -> list[str]:
    """What the jobs of one query printed."""
    return [line for line in outcome.results if line.split(" ", 1)[0] == name]


def _arguments() -> argparse.Namespace:
    found = parser(__doc__)
    found.add_argument("--repeat", type=int, default=1, help="repetitions of everything; medians are shown")
    found.add_argument("--only", help="some queries, separated by commas: q0,q5")
    return found.parse_args()


if __name__ == "__main__":
    main()
