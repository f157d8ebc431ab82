"""Firesteel against PyFlink: how many times faster the same unchanged program runs.

The programs in ``programs/`` import ``pyflink`` and know nothing of Firesteel. PyFlink's own interpreter runs
them as they are; ``firesteel run --pyflink`` runs them on Spark. One process runs the job at a small size to
warm up, then at a small and a large size in turns. The rate is the difference in records over the difference in
seconds: starting up costs nothing here on either side.

PyFlink is measured with its defaults and tuned. It lives in a virtual environment of its own, made on first
use; FIRESTEEL_PYFLINK_PYTHON names the interpreter of an existing one.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from _harness import ROOT, at_least, headline, median, note, parser, rate_text, ratio_text, table

PYFLINK = "2.3.0"
PROGRAMS = ROOT / "benchmarks" / "programs"
TUNED = ("python.fn-execution.bundle.size=100000", "python.state.cache-size=1000000")
THREADS = (*TUNED, "python.execution-mode=thread")


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
    headline("Firesteel against PyFlink, the same unchanged program, parallelism 2 on both")
    interpreter = pyflink_python()
    repeat = arguments.repeat or (1 if arguments.quick else 3)
    rows: list[list[str]] = []
    for contest in QUICK if arguments.quick else CONTESTS:
        rows += compare(contest, interpreter, repeat, arguments.threads)
    table(["program", "engine", "records/s", "Firesteel is", "target"], rows)


def compare(contest: Contest, interpreter: Path, repeat: int, threads: bool) -> list[list[str]]:
    """All engines on one program, one after the other."""
    peers = {"PyFlink, defaults": (contest.defaults, (), contest.target)}
    peers["PyFlink, tuned"] = (contest.tuned, TUNED, contest.target_tuned)
    if threads:
        peers["PyFlink, tuned, thread mode"] = (contest.tuned, THREADS, contest.target_tuned)
    ours = rate(_firesteel_command(contest.program), contest.ours, (), repeat)
    rows = [[contest.program, "Firesteel", rate_text(ours), "", ""]]
    for name, (sizes, options, target) in peers.items():
        theirs = rate(_pyflink_command(contest.program, interpreter), sizes, options, repeat)
        row = ["", name, rate_text(theirs), f"{ratio_text(ours / theirs)}x"]
        rows.append([*row, at_least(ours / theirs, target)])
    return rows


def rate(command: list[str], sizes: tuple[int, int], options: tuple[str, ...], repeat: int) -> float:
    """Records per second between the two sizes; the median of the repetitions."""
    small, large = sizes
    _warm_up, *measured = seconds(command, [small, *sizes * repeat], options)
    pairs = list(zip(measured[::2], measured[1::2], strict=True))
    rates = [(large - small) / (second - first) for first, second in pairs]
    note(f"{' '.join(map(_short, command))} {' '.join(options)}")
    for (first, second), found in zip(pairs, rates, strict=True):
        note(f"  {small:,} in {first:.1f} s, {large:,} in {second:.1f} s: {rate_text(found)}")
    return median(rates)


def seconds(command: list[str], sizes: list[int], options: tuple[str, ...]) -> list[float]:
    """How long each ``env.execute`` took, as the program itself measured it; its results are checked."""
    path = os.pathsep.join([str(Path(command[0]).parent), os.environ.get("PATH", "")])
    done = subprocess.run(
        [*command, ",".join(map(str, sizes)), *options],
        env={**os.environ, "PATH": path},  # as if activated: PyFlink starts its workers as "python"
        capture_output=True,
        text=True,
        check=False,
    )
    elapsed = re.findall(r"^seconds ([\d.]+)$", done.stdout, re.MULTILINE)
    if done.returncode or len(elapsed) != len(sizes) or done.stdout.count("result ") < len(sizes):
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    return list(map(float, elapsed))


def _firesteel_command(program: str) -> list[str]:
    run = [sys.executable, "-m", "firesteel.cli.main", "run", "--pyflink", "--no-progress"]
    return [*run, str(PROGRAMS / f"{program}.py")]


def _pyflink_command(program: str, interpreter: Path) -> list[str]:
    return [str(interpreter), str(PROGRAMS / f"{program}.py")]


def pyflink_python() -> Path:
    """The interpreter of an environment with PyFlink, made when there is none."""
    given = os.environ.get("FIRESTEEL_PYFLINK_PYTHON")
    if given:
        return Path(given)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    directory = cache / "firesteel" / f"pyflink-{PYFLINK}"
    interpreter = directory / "bin" / "python"
    if not (directory / "complete").exists():
        note(f"installing apache-flink {PYFLINK} into {directory} (once; some minutes)")
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(directory)], check=True)
        install = [str(interpreter), "-m", "pip", "install", "--quiet", f"apache-flink=={PYFLINK}"]
        subprocess.run(install, check=True)
        (directory / "complete").touch()
    return interpreter


def _arguments() -> argparse.Namespace:
    found = parser(__doc__)
    found.add_argument("--repeat", type=int, help="repetitions of everything; medians are shown")
    found.add_argument("--threads", action="store_true", help="also PyFlink's thread mode, its fastest")
    return found.parse_args()


def _short(word: str) -> str:
    return Path(word).name if os.sep in word else word


if __name__ == "__main__":
    main()
