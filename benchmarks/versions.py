"""Versions: what a record costs now against an earlier commit, in processor time.

    scripts/bench versions --against REVISION [--only NAME ...] [--repeat N]
    scripts/bench versions --against REVISION --instructions [--only NAME ...]

The earlier version is checked out beside this one. Each of the two has a process with a warm Spark of its own, and they
take turns at the same program with the same records, so that a machine that becomes slow is slow for both. The ratio is
processor time per record of this version over that of the other: above 1 is slower now.

On a machine whose speed changes by half from minute to minute that says little. With ``--instructions`` valgrind counts the
machine instructions of each record instead, which are the same every time: the programs run in the simulator, with
batches that are not cut, so everything that tasks do is counted and nothing of Spark's. They are counted once more with
object reuse: what is missing then is what protecting records costs.

- chain, keyed, json: the programs of `efficiency`
- dicts, dataclasses: records that can change, through functions of classes and a keyed reduce; once more with object reuse
- value_state, timers, tumbling, sliding, sessions: the programs of `state` and `windows`
"""

from __future__ import annotations

import importlib
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from _harness import (
    ROOT,
    cycling,
    environment,
    median,
    note,
    parser,
    ratio_text,
    slope,
    spread,
)
from _results import begin
from firesteel.datastream.functions import DiscardingSink, MapFunction

BATCH = 1024


# Records that can change -----------------------------------------------------------------------------


def readings(subtask: int) -> list[Any]:
    """Tuples (sensor, value, number)."""
    draw = random.Random(subtask)
    return [(draw.randrange(10_000), draw.random() + 0.5, n) for n in range(20 * BATCH)]


class Doubled(MapFunction):
    """A new dict, by a method of a class, as most programs are written."""

    def map(self, value: Any) -> Any:
        """The reading with twice its value."""
        return {**value, "value": value["value"] * 2}


@dataclass
class Reading:
    """What changes."""

    sensor: int
    value: float
    number: int


class DoubledReading(MapFunction):
    """A new object, by a method of a class."""

    def map(self, value: Any) -> Any:
        """The reading with twice its value."""
        return Reading(value.sensor, value.value * 2, value.number)


def dicts(stream: Any) -> Any:
    """Dicts all the way."""
    records = stream.map(lambda r: {"sensor": r[0], "value": r[1], "number": r[2]}).map(Doubled())
    return records.key_by(lambda r: r["sensor"]).reduce(lambda a, b: {**b, "value": a["value"] + b["value"]})


def dataclasses(stream: Any) -> Any:
    """Objects all the way."""
    records = stream.map(lambda r: Reading(r[0], r[1], r[2])).map(DoubledReading())
    return records.key_by(lambda r: r.sensor).reduce(lambda a, b: replace(b, value=a.value + b.value))


def run_stream(program: Callable[[Any], Any], make: Any, reuse: bool, count: int) -> None:
    """One of the programs above, to its end."""
    env = environment()
    if reuse:
        env.get_config().enable_object_reuse()
    program(cycling(env, make, count)).add_sink(DiscardingSink())
    env.execute()


def run_efficiency(name: str, count: int) -> None:
    """A program of `efficiency`."""
    efficiency = importlib.import_module("efficiency")
    case = next(case for case in efficiency.CASES if case.name == name)
    efficiency.run(case, count)


def run_pyflink(module: str, *arguments: Any) -> None:
    """A program of ``programs/``."""
    import cloudpickle

    from firesteel import pyflink_alias

    pyflink_alias.install()
    program = importlib.import_module(f"programs.{module}")
    cloudpickle.register_pickle_by_value(program)
    program.run(*arguments, [])


#: Name: (what to call with a number of records, small size, large size).
CASES: dict[str, tuple[Callable[[int], None], int, int]] = {
    "chain": (lambda n: run_efficiency("chain", n), 500_000, 4_500_000),
    "keyed": (lambda n: run_efficiency("keyed", n), 500_000, 3_500_000),
    "json": (lambda n: run_efficiency("json", n), 100_000, 900_000),
    "dicts": (lambda n: run_stream(dicts, readings, False, n), 200_000, 1_400_000),
    "dicts, reuse": (lambda n: run_stream(dicts, readings, True, n), 200_000, 1_400_000),
    "dataclasses": (lambda n: run_stream(dataclasses, readings, False, n), 200_000, 1_200_000),
    "dataclasses, reuse": (lambda n: run_stream(dataclasses, readings, True, n), 200_000, 1_200_000),
    "value_state": (lambda n: run_pyflink("value_state", 1000, n), 300_000, 2_300_000),
    "timers": (lambda n: run_pyflink("timers", n), 200_000, 1_600_000),
    "tumbling": (lambda n: run_pyflink("windows", "tumbling", n), 300_000, 2_300_000),
    "sliding": (lambda n: run_pyflink("windows", "sliding", n), 100_000, 900_000),
    "sessions": (lambda n: run_pyflink("windows", "sessions", n), 200_000, 1_600_000),
}


# Instructions ----------------------------------------------------------------------------------------

_COUNTED = 40_000, 60_000  # records; what both sizes have in common is the start, and most keys


def count_instructions(case: str, source: Path, *, reuse: bool = False) -> float:
    """Machine instructions of a record, in the version whose sources are given."""
    small, large = (_instructions_of_run(case, records, source, reuse) for records in _COUNTED)
    return (large - small) / (_COUNTED[1] - _COUNTED[0])


def _instructions_of_run(case: str, records: int, source: Path, reuse: bool) -> int:
    with tempfile.TemporaryDirectory(prefix="firesteel-versions-") as directory:
        log = Path(directory) / "log"
        counting = ["valgrind", "--tool=cachegrind", "--cache-sim=no"]
        counting += [f"--log-file={log}", f"--cachegrind-out-file={directory}/out"]
        program = [sys.executable, __file__, "--simulate", case, str(records), *["--reuse"] * reuse]
        finished = subprocess.run(
            [*counting, *program],
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(map(str, [source, ROOT / "benchmarks"])),
                "PYTHONHASHSEED": "0",
            },
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        total = re.search(r"I +refs: +([\d,]+)", log.read_text()) if finished.returncode == 0 else None
        if total is None:
            raise SystemExit(f"{case!r} failed under valgrind:\n{finished.stderr}")
        return int(total[1].replace(",", ""))


def simulate(case: str, records: int, *, reuse: bool) -> None:
    """Run a program once in the simulator, which neither cuts batches nor sends them before they are full."""
    from firesteel import launch
    from firesteel.datastream import StreamExecutionEnvironment
    from firesteel.testing import SimulatorExecutor, simulator

    if reuse:
        execute = StreamExecutionEnvironment.execute

        def execute_with_reuse(env: Any, *arguments: Any) -> Any:
            env.get_config().enable_object_reuse()
            return execute(env, *arguments)

        StreamExecutionEnvironment.execute = execute_with_reuse  # type: ignore[method-assign]
    simulator._Temper.drawn = lambda rng, plan: simulator._Temper(capacity=None, idle_chance=0.02, burst=32)  # type: ignore[method-assign]
    pace = _simulated_pace()
    if pace is not None:
        whole = importlib.import_module("firesteel.runtime.pace").Pace
        for name in ("create_slices", "step", "begin", "end", "taken_out_of"):
            setattr(pace, name, getattr(whole, name))
    with launch.use_executor(lambda configuration: SimulatorExecutor(configuration, seed=1)):
        CASES[case][0](records)


def _simulated_pace() -> Any:
    """What cuts batches in the simulator, whatever its module is called; early versions have none."""
    for name in ("_simulated_pace", "simulated_pace"):
        with suppress(ModuleNotFoundError):
            return importlib.import_module(f"firesteel.testing.{name}").SimulatedPace
    return None


def compare_instructions(case: str, before: Path) -> list[str]:
    """One row of the table."""
    now = ROOT / "src"
    old, new, unprotected = (
        count_instructions(case, before),
        count_instructions(case, now),
        count_instructions(case, now, reuse=True),
    )
    note(f"{case}: before {old:,.0f}, now {new:,.0f}, with object reuse {unprotected:,.0f}")
    counts = [f"{count:,.0f}" for count in (old, new, unprotected)]
    return [case, *counts, f"{new / old:.3f}", f"{new / unprotected:.3f}"]


# Two processes that take turns -----------------------------------------------------------------------


class Runner:
    """A process with one version and a warm Spark."""

    def __init__(self, source: Path) -> None:
        paths = [source, ROOT / "benchmarks"]
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--runner"],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def measure(self, case: str) -> float:
        """Processor seconds of a record."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(case, file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit(f"the process that ran {case!r} ended; its own message is above")
        return float(answer)

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def serve() -> None:
    """The life of a runner: a name of a case on each line of the input, its cost on each line of the output."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # programs print their results
    warm: set[str] = set()
    for line in sys.stdin:
        case = line.strip()
        run, small, large = CASES[case]
        if case not in warm:
            warm.add(case)
            run(small)
        print(slope(run, small, large).cpu, file=answers, flush=True)


@contextmanager
def checked_out(revision: str) -> Iterator[Path]:
    """The sources of an earlier version."""
    with tempfile.TemporaryDirectory(prefix="firesteel-versions-") as directory:
        tree = Path(directory) / "tree"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(tree), revision], check=True)
        try:
            yield tree / "src"
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)


def measure(case: str, now: Runner, before: Runner, repetitions: int) -> list[str]:
    """One row of the table; who goes first changes."""
    costs: dict[Runner, list[float]] = {now: [], before: []}
    for turn in range(repetitions):
        for runner in (now, before) if turn % 2 else (before, now):
            costs[runner].append(runner.measure(case))
        note(f"{case}: now {costs[now][-1] * 1e6:.2f} us, before {costs[before][-1] * 1e6:.2f} us")
    ratios = [new / old for new, old in zip(costs[now], costs[before], strict=True)]
    shown = [f"{median(costs[runner]) * 1e6:.2f} us" for runner in (before, now)]
    return [case, *shown, ratio_text(median(costs[now]) / median(costs[before])), spread(ratios)]


def main() -> None:
    found = parser(__doc__)
    found.add_argument("--against", metavar="REVISION", help="the earlier version, as git knows it")
    found.add_argument("--only", action="append", choices=list(CASES))
    found.add_argument("--repeat", type=int, help="repetitions; medians are shown")
    found.add_argument("--instructions", action="store_true", help="count them, with valgrind")
    found.add_argument("--simulate", nargs=2, metavar=("NAME", "RECORDS"), help="for the processes it counts")
    found.add_argument("--reuse", action="store_true", help="for these, too")
    found.add_argument("--runner", action="store_true", help="for the processes that this one starts")
    arguments = found.parse_args()
    if arguments.runner:
        serve()
        return
    if arguments.simulate:
        simulate(arguments.simulate[0], int(arguments.simulate[1]), reuse=arguments.reuse)
        return
    if arguments.against is None:
        found.error("--against is missing: which version to compare with, such as HEAD~1")
    if arguments.instructions:
        if shutil.which("valgrind") is None:
            found.error("--instructions needs valgrind, which is not installed here")
        results = begin(
            __file__, f"Instructions per record, this version against {arguments.against}", arguments
        )
        with checked_out(arguments.against) as source:
            cases = arguments.only or [case for case in CASES if not case.endswith(", reuse")]
            rows = [compare_instructions(case, source) for case in cases]
        results.table(["program", "before", "now", "with reuse", "now / before", "now / with reuse"], rows)
        return
    results = begin(
        __file__, f"Processor time per record, this version against {arguments.against}", arguments
    )
    repetitions = arguments.repeat or (1 if arguments.quick else 5)
    with checked_out(arguments.against) as source:
        now, before = Runner(ROOT / "src"), Runner(source)
        try:
            rows = [measure(case, now, before, repetitions) for case in arguments.only or CASES]
        finally:
            now.close()
            before.close()
    results.table(["program", "before", "now", "now / before", "spread"], rows)


if __name__ == "__main__":
    main()
