"""Firesteel against PyFlink: how many times faster the same unchanged program runs.

The programs in ``programs/`` import ``pyflink`` and know nothing of Firesteel. PyFlink's own interpreter runs
them as they are; ``firesteel run --pyflink`` runs them on Spark. Each runs at two sizes, and the rate is the
difference in records over the difference in seconds: starting up costs nothing here on either side.

PyFlink is measured with its defaults and tuned. It lives in a virtual environment of its own, made on first
use; FIRESTEEL_PYFLINK_PYTHON names the interpreter of an existing one.
"""

from __future__ import annotations

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
    rows: list[list[str]] = []
    for contest in QUICK if arguments.quick else CONTESTS:
        rows += compare(contest, interpreter, arguments.repeat, arguments.threads)
    table(["program", "engine", "records/s", "Firesteel is", "target"], rows)


def compare(contest: Contest, interpreter: Path, repeat: int, threads: bool) -> list[list[str]]:
    """All engines on one program, in turns."""
    peers = {"PyFlink, defaults": (contest.defaults, (), contest.target)}
    peers["PyFlink, tuned"] = (contest.tuned, TUNED, contest.target_tuned)
    if threads:
        peers["PyFlink, tuned, thread mode"] = (contest.tuned, THREADS, contest.target_tuned)
    ours: list[float] = []
    theirs: dict[str, list[float]] = {name: [] for name in peers}
    for _ in range(repeat):
        ours.append(rate(_firesteel_command(contest.program), contest.ours, ()))
        for name, (sizes, options, _target) in peers.items():
            theirs[name].append(rate(_pyflink_command(contest.program, interpreter), sizes, options))
    rows = [[contest.program, "Firesteel", rate_text(median(ours)), "", ""]]
    for name, (_sizes, _options, target) in peers.items():
        ratio = median(ours) / median(theirs[name])
        row = ["", name, rate_text(median(theirs[name])), f"{ratio_text(ratio)}x"]
        rows.append([*row, at_least(ratio, target)])
    return rows


def rate(command: list[str], sizes: tuple[int, int], options: tuple[str, ...]) -> float:
    """Records per second between the two sizes."""
    small, large = (seconds(command, size, options) for size in sizes)
    found = (sizes[1] - sizes[0]) / (large - small)
    note(
        f"{' '.join(map(_short, command))} {' '.join(options)}: {small:.1f} s, {large:.1f} s, {rate_text(found)}"
    )
    return found


def seconds(command: list[str], size: int, options: tuple[str, ...]) -> float:
    """How long ``env.execute`` took, as the program itself measured it; its result is checked."""
    path = os.pathsep.join([str(Path(command[0]).parent), os.environ.get("PATH", "")])
    done = subprocess.run(
        [*command, str(size), *options],
        env={
            **os.environ,
            "PATH": path,
        },  # as in an activated environment: PyFlink starts its workers as "python"
        capture_output=True,
        text=True,
        check=False,
    )
    elapsed = re.search(r"^seconds ([\d.]+)$", done.stdout, re.MULTILINE)
    if done.returncode or elapsed is None or "result " not in done.stdout:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    return float(elapsed[1])


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


def _arguments():
    found = parser(__doc__)
    found.add_argument("--repeat", type=int, default=1, help="repetitions of everything; medians are shown")
    found.add_argument("--threads", action="store_true", help="also PyFlink's thread mode, its fastest")
    return found.parse_args()


def _short(word: str) -> str:
    return Path(word).name if os.sep in word else word


if __name__ == "__main__":
    main()
