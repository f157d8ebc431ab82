"""Firesteel against PyFlink: how many times faster the same unchanged program runs.

The programs in ``programs/`` import ``pyflink`` and know nothing of Firesteel. PyFlink's own interpreter runs
them as they are; ``firesteel run --pyflink`` runs them on Spark. One process runs the job at a small size to
warm up, then at a small and a large size in turns. The rate is the difference in records over the difference in
seconds: starting up costs nothing here on either side.

PyFlink is measured with its defaults and tuned, as its users start it; and once more with a Python process for each slot, as on
a cluster. It lives in a virtual environment of its own, made on first
use; FIRESTEEL_PYFLINK_PYTHON names the interpreter of an existing one.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from _contest import AS_A_PROGRAM, PER_SLOT, THREADS, TUNED, firesteel_command, measure, pyflink_command
from _harness import at_least, parser, rate_text, ratio_text
from _results import begin


@dataclass(frozen=True, slots=True)
class Contest:
    """One program, the sizes for each engine, and how many times faster we want to be."""

    program: str
    ours: tuple[int, int]
    defaults: tuple[int, int]
    tuned: tuple[int, int]
    target: float
    target_tuned: float


CONTESTS = (
    Contest("stateless", (2_000_000, 14_000_000), (100_000, 1_000_000), (100_000, 1_000_000), 10, 10),
    Contest("keyed_reduce", (2_000_000, 14_000_000), (5_000, 45_000), (20_000, 200_000), 100, 50),
)
QUICK = (
    Contest("stateless", (1_000_000, 5_000_000), (100_000, 500_000), (100_000, 500_000), 10, 10),
    Contest("keyed_reduce", (1_000_000, 5_000_000), (5_000, 20_000), (20_000, 100_000), 100, 50),
)


def main() -> None:
    arguments = _arguments()
    results = begin(
        __file__, "Firesteel against PyFlink, the same unchanged program, parallelism 2 on both", arguments
    )
    repeat = arguments.repeat or (1 if arguments.quick else 3)
    rows: list[list[str]] = []
    for contest in QUICK if arguments.quick else CONTESTS:
        rows += compare(contest, repeat, arguments.threads)
    results.table(["program", "engine", "records/s", "Firesteel is", "target"], rows)


def compare(contest: Contest, repeat: int, threads: bool) -> list[list[str]]:
    """All engines on one program, one after the other."""
    peers = {"PyFlink, defaults": (contest.defaults, (), contest.target)}
    peers["PyFlink, tuned"] = (contest.tuned, TUNED, contest.target_tuned)
    if threads:
        peers["PyFlink, tuned, thread mode"] = (contest.tuned, THREADS, contest.target_tuned)
    ours = measure(firesteel_command(contest.program), contest.ours, (), repeat).rate
    rows = [[contest.program, "Firesteel", rate_text(ours), "", ""]]
    for name, (sizes, options, target) in peers.items():
        theirs = measure(
            pyflink_command(contest.program), sizes, options, repeat, environment=AS_A_PROGRAM
        ).rate
        row = ["", name, rate_text(theirs), f"{ratio_text(ours / theirs)}x"]
        rows.append([*row, at_least(ours / theirs, target)])
    theirs = measure(pyflink_command(contest.program), contest.tuned, TUNED, repeat).rate
    return [*rows, ["", PER_SLOT, rate_text(theirs), f"{ratio_text(ours / theirs)}x", ""]]


def _arguments() -> argparse.Namespace:
    found = parser(__doc__)
    found.add_argument("--repeat", type=int, help="repetitions of everything; medians are shown")
    found.add_argument("--threads", action="store_true", help="also PyFlink's thread mode, its fastest")
    return found.parse_args()


if __name__ == "__main__":
    main()
