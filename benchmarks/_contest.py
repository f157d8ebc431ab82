"""The same program on Firesteel and on its peers: how to start it, how fast it is, whether all agree.

The programs in ``programs/`` import ``pyflink`` and know nothing of Firesteel. They take their jobs - sizes, mostly -
as one argument, run them one after the other in one process, and print for each the seconds of ``env.execute`` and
some results. PyFlink lives in a virtual environment of its own, made on first use; FIRESTEEL_PYFLINK_PYTHON names the
interpreter of an existing one.
"""

from __future__ import annotations

import math
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _harness import ROOT, at_least, median, note, rate_text, ratio_text

PYFLINK = "2.3.0"
PROGRAMS = ROOT / "benchmarks" / "programs"
TUNED = ("python.fn-execution.bundle.size=100000", "python.state.cache-size=1000000")
#: The name of PyFlink in tables when it has a process for each slot.
PER_SLOT = "PyFlink, tuned, a process per slot"
THREADS = (*TUNED, "python.execution-mode=thread")


class ContestError(SystemExit):
    """Ends a benchmark with a sentence - unless it is about one of several peers, and the others go on."""


def firesteel_command(program: str, *arguments: str) -> list[str]:
    """The beginning of the command that runs a program on Firesteel; its jobs follow."""
    run = [sys.executable, "-m", "firesteel.cli.main", "run", "--pyflink", "--no-progress"]
    return [*run, str(PROGRAMS / f"{program}.py"), *arguments]


def pyflink_command(program: str, *arguments: str) -> list[str]:
    """The beginning of the command that runs a program on PyFlink; its jobs follow."""
    return [str(pyflink_python()), str(PROGRAMS / f"{program}.py"), *arguments]


# Running ---------------------------------------------------------------------------------------------

#: On a cluster each slot of PyFlink has a Python process of its own, as the tasks of other engines have.
_AS_ON_A_CLUSTER = {"_python_worker_execution_mode": "process"}
#: Run as a program (`python job.py`), PyFlink has the functions of all subtasks in that one process. The same program run in the
#: same way is what targets are for; whoever compares clusters reads the other row.
AS_A_PROGRAM = {"_python_worker_execution_mode": "loopback"}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the jobs of one process took and printed."""

    seconds: list[float]
    results: list[str]


def run_jobs(
    command: list[str],
    jobs: Iterable[str],
    options: Iterable[str] = (),
    timeout: float | None = None,
    environment: Mapping[str, str] | None = None,
) -> Outcome:
    """Run a program with some jobs; it must end well and have measured each of them."""
    jobs = list(jobs)
    output = output_of([*command, ",".join(jobs), *options], environment, timeout)
    seconds = [float(found) for found in re.findall(r"^seconds ([\d.]+)$", output, re.MULTILINE)]
    if len(seconds) != len(jobs):
        raise ContestError(f"{_named(command)} ran {len(seconds)} of {len(jobs)} jobs:\n{output[-2000:]}")
    # PyFlink prints the number of the task first.
    return Outcome(seconds, re.findall(r"^(?:\d+> )?result (.*)$", output, re.MULTILINE))


def output_of(
    command: list[str], environment: Mapping[str, str] | None = None, timeout: float | None = None
) -> str:
    """What a program prints; it must end well, and in time."""
    path = os.pathsep.join([str(Path(command[0]).parent), os.environ.get("PATH", "")])
    with ExitStack() as ending:
        with _end_held_back():  # nobody would end a process that has begun, but is not known here yet
            process = subprocess.Popen(
                command,
                # As if activated: for the engines' workers.
                env={**os.environ, **_AS_ON_A_CLUSTER, "PATH": path, **(environment or {})},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,  # so that it can be ended with all that it started
            )
            ending.enter_context(process)
            ending.callback(end_group, process)
        try:
            printed, complaints = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            raise ContestError(f"{_named(command)} took more than {timeout:.0f} s") from None
    if process.returncode:
        raise ContestError(f"{_named(command)} failed:\n{printed[-2000:]}\n{complaints[-4000:]}")
    return printed


@contextmanager
def _end_held_back() -> Iterator[None]:
    """Whoever ends this process with SIGTERM meanwhile ends it afterwards."""
    came: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        if came:
            os.kill(os.getpid(), signal.SIGTERM)


def end_group(process: subprocess.Popen[Any]) -> None:
    """End a process that has a session of its own, if it still runs, and what it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


# Rates and results -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Measured:
    """Records per second of one program on one engine, and what so many jobs printed."""

    rate: float
    results: list[str]
    jobs: int


@dataclass(frozen=True, slots=True)
class Duel:
    """A program with its arguments, the sizes for each engine, and how many times faster we want to be."""

    program: str
    ours: tuple[int, int]
    theirs: tuple[int, int]
    target: float = 50


def measure(
    command: list[str],
    sizes: tuple[int, int],
    options: Sequence[str] = (),
    repeat: int = 1,
    timeout: float | None = None,
    environment: Mapping[str, str] | None = None,
) -> Measured:
    """The rate between two sizes, the median of the repetitions; once the small size before, to warm up."""
    note(f"{_named(command)} {' '.join(options)}")
    jobs = [sizes[0], *sizes * repeat]
    outcome = run_jobs(command, map(str, jobs), options, timeout, environment)
    if len(outcome.results) < len(jobs):
        raise ContestError(f"{_named(command)} printed {len(outcome.results)} results in {len(jobs)} jobs")
    return Measured(rate_of(sizes, outcome.seconds[1:]), outcome.results, len(jobs))


def rate_of(sizes: tuple[int, int], seconds: Sequence[float]) -> float:
    """Records per second from the times of the small and the large size in turns."""
    small, large = sizes
    rates: list[float] = []
    for first, second in zip(seconds[::2], seconds[1::2], strict=True):
        # When noise makes the larger job the quicker one, the pair says nothing.
        rates.append((large - small) / (second - first) if second > first else math.nan)
        note(f"  {small:,} in {first:.1f} s, {large:,} in {second:.1f} s: {rate_text(rates[-1])}")
    return median([rate for rate in rates if rate == rate] or [math.nan])


def each_job(results: Iterable[str], jobs: int) -> list[str]:
    """The results of one of several jobs that must all print the same."""
    counts = Counter(results)
    odd = [line for line, count in counts.items() if count % jobs]
    if odd:
        raise ContestError(
            f"not every one of {jobs} runs printed the result {odd[0]!r}: {counts[odd[0]]} did"
        )
    return sorted(line for line, count in counts.items() for _ in range(count // jobs))


def duel(contest: Duel, repeat: int) -> tuple[float, list[list[str]]]:
    """One program on Firesteel and on a tuned PyFlink, with the same results: our rate, and rows of a table."""
    words = contest.program.split()
    ours = measure(firesteel_command(*words), contest.ours, (), repeat)
    rows = [[contest.program, "Firesteel", rate_text(ours.rate), "", ""]]
    for name, environment in {"PyFlink, tuned": AS_A_PROGRAM, PER_SLOT: None}.items():
        theirs = measure(pyflink_command(*words), contest.theirs, TUNED, repeat, environment=environment)
        must_agree(contest.program, each_job(ours.results, ours.jobs), each_job(theirs.results, theirs.jobs))
        ratio = ours.rate / theirs.rate
        target = at_least(ratio, contest.target) if environment else ""
        rows.append(["", name, rate_text(theirs.rate), f"{ratio_text(ratio)}x", target])
    return ours.rate, rows


def must_agree(program: str, ours: Iterable[str], theirs: Iterable[str]) -> None:
    """Both engines must have printed the same results."""
    ours, theirs = Counter(ours), Counter(theirs)
    if ours != theirs:
        raise ContestError(
            f"{program}: the engines disagree\n  only Firesteel: {sorted(ours - theirs)[:10]}\n"
            f"  only PyFlink: {sorted(theirs - ours)[:10]}"
        )


def _named(command: Sequence[str]) -> str:
    return " ".join(map(_short, command))


def _short(word: str) -> str:
    return Path(word).name if word.startswith(os.sep) else word


# Environments ----------------------------------------------------------------------------------------


def pyflink_python() -> Path:
    """The interpreter of an environment with PyFlink, made when there is none."""
    given = os.environ.get("FIRESTEEL_PYFLINK_PYTHON")
    return Path(given) if given else made_environment(f"pyflink-{PYFLINK}", f"apache-flink=={PYFLINK}")


def made_environment(name: str, requirement: str) -> Path:
    """The interpreter of an environment with one package in it, made on first use."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    directory = cache / "firesteel" / name
    interpreter = directory / "bin" / "python"
    if not (directory / "complete").exists():
        note(f"installing {requirement} into {directory} (once; some minutes)")
        output_of([sys.executable, "-m", "venv", "--clear", str(directory)])
        output_of([str(interpreter), "-m", "pip", "install", "--quiet", requirement])
        (directory / "complete").touch()
    return interpreter
