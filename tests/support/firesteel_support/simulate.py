"""``python -m firesteel_support.simulate``: many seeds of the crash simulation, on all cores, until one fails.

scripts/simulate --seeds 5000             seeds 0 to 4999
scripts/simulate --first 12345 --seeds 1  the seed that a failure named, once more
scripts/simulate --minutes 60             as many as there is time for, from a random one on
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import random
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator
from types import FrameType
from typing import NoReturn

from firesteel_support.crash_simulation import Outcome, simulate

_CHUNK = 20


def main() -> int:
    """Run the seeds; the exit code says whether all held."""
    arguments = _arguments()
    signal.signal(signal.SIGTERM, _terminate)
    began = time.monotonic()
    deadline = began + 60 * arguments.minutes if arguments.minutes else None
    first = arguments.first
    if first is None:
        first = 0 if deadline is None else random.randrange(2**31)
    rounds: Iterable[Iterable[int]] = [range(first, first + arguments.seeds)]
    if deadline is not None:
        rounds = _until(deadline, first, 5 * _CHUNK * arguments.jobs)
    totals: Counter[str] = Counter()
    context = multiprocessing.get_context("spawn")
    with context.Pool(arguments.jobs) as pool:
        for outcome in itertools.chain.from_iterable(
            pool.imap_unordered(_run, seeds, _CHUNK) for seeds in rounds
        ):
            if isinstance(outcome, str):
                print(outcome, file=sys.stderr)
                return 1
            _add(totals, outcome)
    seconds = time.monotonic() - began
    shown = ", ".join(f"{count:,} {what}" for what, count in totals.items())
    print(f"exactly once held in {shown}, in {seconds:.0f} s; first seed {first}")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=5000, help="how many (default 5000)")
    parser.add_argument("--first", type=int, help="the first one; default 0, or a random one with --minutes")
    parser.add_argument("--minutes", type=float, help="go on for so long instead of counting seeds")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="processes; default: one per core"
    )
    return parser.parse_args()


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    sys.exit(128 + number)  # not at once: the processes of the pool have to end, too


def _until(deadline: float, first: int, size: int) -> Iterator[range]:
    """Rounds of seeds until the time is over; the pool takes in at once whatever it is given, so not all together."""
    while time.monotonic() < deadline:
        yield range(first, first + size)
        first += size


def _run(seed: int) -> Outcome | str:
    try:
        return simulate(seed)
    except BaseException:  # noqa: BLE001 - the text says everything, and need not be pickled
        return f"{traceback.format_exc()}\nto repeat it: scripts/simulate --first {seed} --seeds 1"


def _add(totals: Counter[str], outcome: Outcome) -> None:
    totals["runs"] += 1
    totals["checkpoints"] += outcome.checkpoints
    totals["savepoints"] += outcome.savepoints
    totals["attempts"] += outcome.attempts
    totals["drivers"] += outcome.masters
    totals["segments restored from local copies"] += outcome.local_reads
    totals["faults"] += len(outcome.faults)


if __name__ == "__main__":
    sys.exit(main())
