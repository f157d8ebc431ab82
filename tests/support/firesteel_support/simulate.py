"""``python -m firesteel_support.simulate``: many seeds of the crash simulations, on all cores, until one fails.

scripts/simulate --seeds 5000             seeds 0 to 4999 of the engine, and a fifth as many of each connector
scripts/simulate --of kafka --seeds 5000  seeds 0 to 4999 of the Kafka sink; also: engine, database, files
scripts/simulate --of kafka --first 12345 --seeds 1  the seed that a failure named, once more
scripts/simulate --minutes 60             as many as there is time for, from a random one on
"""

from __future__ import annotations

import argparse
import gc
import itertools
import logging
import multiprocessing
import os
import random
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import FrameType
from typing import NamedTuple, NoReturn

from firesteel_support import (
    crash_simulation,
    database_simulation,
    file_sink_simulation,
    kafka_sink_simulation,
)

__all__ = ["SIMULATIONS", "main"]

_CHUNK = 20
#: What is run where all are: so many seeds of the engine for one of each connector.
_ENGINE_SEEDS = 5


class _Run(NamedTuple):
    """One history of one of the simulations."""

    of: str
    seed: int


def main(given: Sequence[str] | None = None) -> int:
    """Run the seeds; the exit code says whether all held."""
    arguments = _arguments(given)
    signal.signal(signal.SIGTERM, _terminate)
    began = time.monotonic()
    first, rounds = _rounds(arguments, began)
    totals: dict[str, Counter[str]] = {}
    context = multiprocessing.get_context("spawn")
    with context.Pool(arguments.jobs, _begin_process) as pool:
        for run, outcome in itertools.chain.from_iterable(
            pool.imap_unordered(_run, runs, _CHUNK) for runs in rounds
        ):
            if isinstance(outcome, str):
                print(outcome, file=sys.stderr)
                return 1
            totals.setdefault(run.of, Counter()).update(outcome)
    for of in sorted(totals, key=list(SIMULATIONS).index):
        shown = ", ".join(f"{count:,} {what}" for what, count in totals[of].items())
        print(f"{of}: exactly once held in {shown}")
    print(f"in {time.monotonic() - began:.0f} s; first seed {first}")
    return 0


def _arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--of", choices=[*SIMULATIONS, "all"], default="all", help="what is simulated (default all)"
    )
    parser.add_argument("--seeds", type=int, default=5000, help="how many (default 5000)")
    parser.add_argument("--first", type=int, help="the first one; default 0, or a random one with --minutes")
    parser.add_argument("--minutes", type=float, help="go on for so long instead of counting seeds")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="processes; default: one per core"
    )
    return parser.parse_args(given)


def _begin_process() -> None:
    """Troubles are what is simulated: only the end counts. Looking for cycles of objects would take a tenth of the time."""
    logging.getLogger("firesteel").setLevel(logging.ERROR)
    gc.freeze()
    gc.set_threshold(50_000, *gc.get_threshold()[1:])


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    sys.exit(128 + number)  # not at once: the processes of the pool have to end, too


def _rounds(arguments: argparse.Namespace, began: float) -> tuple[int, Iterable[list[_Run]]]:
    """The first seed, and what is to be run."""
    first = arguments.first
    if arguments.minutes is None:
        first = first or 0
        return first, [_runs(arguments.of, first, arguments.seeds)]
    if first is None:
        first = random.randrange(2**31)
    size = _ENGINE_SEEDS * _CHUNK * arguments.jobs
    return first, _until(began + 60 * arguments.minutes, arguments.of, first, size)


def _until(deadline: float, of: str, first: int, size: int) -> Iterator[list[_Run]]:
    """Rounds of seeds until the time is over; the pool takes in at once whatever it is given, so not all together."""
    while time.monotonic() < deadline:
        yield _runs(of, first, size)
        first += size


def _runs(of: str, first: int, count: int) -> list[_Run]:
    counts = {of: count}
    if of == "all":
        counts = dict.fromkeys(SIMULATIONS, count // _ENGINE_SEEDS) | {"engine": count}
    return [_Run(of, seed) for of, count in counts.items() for seed in range(first, first + count)]


def _run(run: _Run) -> tuple[_Run, Counter[str] | str]:
    try:
        return run, Counter(runs=1) + SIMULATIONS[run.of](run.seed)
    except BaseException:  # noqa: BLE001 - the text says everything, and need not be pickled
        again = f"scripts/simulate --of {run.of} --first {run.seed} --seeds 1"
        return run, f"{traceback.format_exc()}\nto repeat it: {again}"


def _engine(seed: int) -> Counter[str]:
    outcome = crash_simulation.simulate(seed)
    return Counter(
        {
            "checkpoints": outcome.checkpoints,
            "savepoints": outcome.savepoints,
            "attempts": outcome.attempts,
            "drivers": outcome.masters,
            "segments restored from local copies": outcome.local_reads,
            "faults": len(outcome.faults),
        }
    )


def _kafka(seed: int) -> Counter[str]:
    happened = kafka_sink_simulation.simulate(seed)
    return Counter({"crashes": happened["crash"], "failures": happened["failure"]})


def _database(seed: int) -> Counter[str]:
    history = database_simulation.simulate_sink(seed)
    faults = history.trouble.total()
    return Counter({"attempts": history.attempts, "zombies": history.zombies, "faults": faults})


def _files(seed: int) -> Counter[str]:
    """Files or objects, compacted or not: each has a fourth of the seeds."""
    in_objects, compacts = bool(seed & 1), bool(seed & 2)
    file_sink_simulation.simulate(seed, in_objects=in_objects, compacts=compacts)
    return Counter({"of them on an object store": in_objects, "of them compacting": compacts})


#: What can be simulated: a function of the seed, which raises unless exactly once held, and counts what happened.
SIMULATIONS: dict[str, Callable[[int], Counter[str]]] = {
    "engine": _engine,
    "kafka": _kafka,
    "database": _database,
    "files": _files,
}


if __name__ == "__main__":
    sys.exit(main())
