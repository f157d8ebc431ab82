"""Engines: records per second of the same four programs on Firesteel and on what else one might use.

- stateless: map, filter and flat_map; keyed_reduce: a running sum per key; value_state: a count per key by a keyed
  process function; tumbling: counts per key and ten seconds of event time.
- Firesteel and PyFlink run the same unchanged file in ``programs/``. Flink's Java engine runs the same program in Java, from
  ``programs/java/``, with the jar files of PyFlink; a Java compiler must be there. Bytewax runs the dataflows of
  ``programs/bytewax_flows.py``. Bare Python is the loop that one would write by hand, ``programs/bare.py``.

Two tasks, workers or processes for everybody; PyFlink is measured twice: started as a program, which has the functions of both
subtasks in one Python process, and with a process for each slot, as on a cluster. A process runs the job at a small size to warm up, then at a small and a
large size in turns; the rate is the difference in records over the difference in seconds, and every engine must give
the same results. A peer that cannot be measured is named, and the others go on.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from _contest import (
    AS_A_PROGRAM,
    PER_SLOT,
    PROGRAMS,
    PYFLINK,
    TUNED,
    ContestError,
    firesteel_command,
    made_environment,
    measure,
    output_of,
    pyflink_command,
    pyflink_python,
)
from _harness import at_least, parser, rate_text, ratio_text
from _results import Results, begin

BYTEWAX = "0.21.1"
OURS = "Firesteel"

#: Program: how Firesteel and PyFlink are told, the class in Java, and how many times faster than a tuned PyFlink we want to be.
ARGUMENTS = {
    "stateless": ("stateless", "Stateless", 10),
    "keyed_reduce": ("keyed_reduce", "KeyedReduce", 50),
    "value_state": ("value_state 1000", "ValueState 1000", 50),
    "tumbling": ("windows tumbling", "TumblingWindows", 50),
}

#: What --quick leaves out: much like keyed_reduce.
QUICK_WITHOUT = ("value_state",)

#: What a job over so many numbers prints; `bare.py` gives the same.
EXPECTED: dict[str, Callable[[int], list[str]]] = {
    "stateless": lambda count: [f"{count * 3 // 2}", f"{count * 3 - count * 3 // 2}"],
    "keyed_reduce": lambda count: [f"{count // 1000}"],
    "value_state": lambda count: [f"{key} {seen}" for key in range(5) for seen in range(1, 5)],
    "tumbling": lambda count: [f"{key} 10000 10" for key in range(3)],
}


@dataclass(frozen=True, slots=True)
class Engine:
    """Who runs the programs: the beginning of its command for each of them, and the sizes that suit its speed."""

    command: Callable[[str], list[str]]
    sizes: Mapping[str, tuple[int, int]]
    options: tuple[str, ...] = ()
    environment: Mapping[str, str] | None = None

    def sizes_of(self, program: str, quick: bool) -> tuple[int, int]:
        """The small and the large size."""
        small, large = self.sizes[program]
        return (small, small + (large - small) // 3) if quick else (small, large)


# Commands --------------------------------------------------------------------------------------------


def on_firesteel(program: str) -> list[str]:
    return firesteel_command(*ARGUMENTS[program][0].split())


def on_pyflink(program: str) -> list[str]:
    return pyflink_command(*ARGUMENTS[program][0].split())


def on_bytewax(program: str) -> list[str]:
    return [str(bytewax_python()), str(PROGRAMS / "bytewax_flows.py"), program]


def bytewax_python() -> Path:
    """The interpreter of an environment with Bytewax, made when there is none."""
    return made_environment(f"bytewax-{BYTEWAX}", f"bytewax=={BYTEWAX}")


def on_bare_python(program: str) -> list[str]:
    return [sys.executable, str(PROGRAMS / "bare.py"), program]


class FlinkInJava:
    """Compiles the programs on first use, into a directory that somebody else removes."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._jars = ""

    def __call__(self, program: str) -> list[str]:
        """The command for a program."""
        compiler = java_tool("javac")
        if not self._jars:
            jars = flink_jars(pyflink_python())
            sources = sorted(str(path) for path in (PROGRAMS / "java").glob("*.java"))
            output_of([compiler, "-nowarn", "-cp", jars, "-d", str(self._directory), *sources])
            self._jars = jars
        # Flink looks into classes of Java that are closed otherwise, as its own scripts allow it to.
        opened = [
            f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in ("lang", "util", "time", "io", "nio")
        ]
        classes = os.pathsep.join([str(self._directory), self._jars])
        return [java_tool("java"), *opened, "-cp", classes, *ARGUMENTS[program][1].split()]


def java_tool(name: str) -> str:
    """The path of a tool of the machine's JDK."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(name, path=os.path.join(home, "bin")) if home else None
    found = found or shutil.which(name)
    if found is None:
        raise ContestError(
            f"no {name} on this machine: the programs in Java need a JDK, in JAVA_HOME or on the PATH"
        )
    return found


def java_version() -> str:
    """As the runtime says it."""
    done = subprocess.run([java_tool("java"), "-version"], capture_output=True, text=True, check=True)
    found = re.search(r'version "([^"]+)"', done.stderr)
    return found[1] if found else "unknown"


def flink_jars(interpreter: Path) -> str:
    """What the programs in Java are compiled and run with."""
    where = "import pyflink, pathlib; print(pathlib.Path(pyflink.__file__).parent / 'lib' / '*')"
    return output_of([str(interpreter), "-c", where]).strip()


# The engines -----------------------------------------------------------------------------------------


@contextmanager
def engines(quick: bool) -> Iterator[dict[str, Engine]]:
    """All of them by name, ours first; quick leaves out PyFlink's defaults, which take long."""
    tuned = _sizes((0.1, 1), (0.02, 0.2), (0.02, 0.26), (0.02, 0.12))
    with tempfile.TemporaryDirectory(prefix="firesteel-engines-") as directory:
        found = {
            OURS: Engine(on_firesteel, _sizes((2, 14), (2, 14), (1, 9), (1, 7))),
            "Flink, Java": Engine(FlinkInJava(Path(directory)), _sizes((5, 35), (3, 18), (3, 18), (2, 10))),
            "PyFlink, tuned": Engine(on_pyflink, tuned, TUNED, AS_A_PROGRAM),
            PER_SLOT: Engine(on_pyflink, tuned, TUNED),
            "PyFlink, defaults": Engine(
                on_pyflink, _sizes((0.1, 1), (0.005, 0.045), None, None), environment=AS_A_PROGRAM
            ),
            "Bytewax": Engine(on_bytewax, _sizes((1, 7), (0.1, 0.9), None, (0.01, 0.07))),
            "bare Python": Engine(on_bare_python, _sizes((1, 13), (1, 13), (1, 13), (1, 13))),
        }
        if quick:
            del found["PyFlink, defaults"]
        yield found


def _sizes(*millions: tuple[float, float] | None) -> dict[str, tuple[int, int]]:
    """Small and large size of each program, in the order of the programs; None for one that an engine does not run."""
    both = zip(ARGUMENTS, millions, strict=True)
    return {name: (round(pair[0] * 1e6), round(pair[1] * 1e6)) for name, pair in both if pair is not None}


# Measuring -------------------------------------------------------------------------------------------


def compare(results: Results, program: str, them: Mapping[str, Engine], repeat: int, timeout: float) -> None:
    """All engines on one program, one after the other: a table, and points of the plot."""
    rates: dict[str, float] = {}
    for name, engine in them.items():
        if program not in engine.sizes:
            continue
        try:
            sizes = engine.sizes_of(program, results.quick)
            measured = measure(
                engine.command(program), sizes, engine.options, repeat, timeout, engine.environment
            )
            must_be_right(program, measured.results, [sizes[0], *sizes * repeat])
        except ContestError as error:
            results.problem(f"{program} on {name}: {error}")
            continue
        if measured.rate != measured.rate:
            results.problem(f"{program} on {name}: the larger size was not slower than the small one")
            continue
        rates[name] = measured.rate
        results.point("throughput", name, program, measured.rate)
    results.table([program, "records/s", "Firesteel over it", "target"], _rows(program, rates))


def must_be_right(program: str, printed: Sequence[str], counts: Sequence[int]) -> None:
    """What jobs of these sizes printed must be what the program gives."""
    expected = Counter(line for count in counts for line in EXPECTED[program](count))
    if Counter(printed) != expected:
        found = "; ".join(sorted(printed)[:5])
        raise ContestError(f"gave wrong results: {found} instead of {'; '.join(sorted(expected)[:5])}")


def _rows(program: str, rates: Mapping[str, float]) -> list[list[str]]:
    rows = []
    for name, rate in rates.items():
        ratio = rates[OURS] / rate if OURS in rates and name != OURS else None
        target = at_least(ratio, ARGUMENTS[program][2]) if ratio and name == "PyFlink, tuned" else ""
        rows.append([name, rate_text(rate), f"{ratio_text(ratio)}x" if ratio else "", target])
    return rows


def main() -> None:
    found = parser(__doc__)
    found.add_argument("--repeat", type=int, help="repetitions of everything; medians are shown")
    found.add_argument("--only", action="append", choices=list(ARGUMENTS), help="some programs only")
    found.add_argument("--engine", action="append", help="some engines only, such as Bytewax")
    arguments = found.parse_args()
    results = begin(
        __file__, "The same programs on several engines, two tasks or processes on each", arguments
    )
    results.versions |= {"Flink and PyFlink": PYFLINK, "Bytewax": BYTEWAX}
    with suppress(ContestError):  # no Java: said for every program
        results.versions["Java"] = java_version()
    repeat = arguments.repeat or (1 if arguments.quick else 2)
    programs = arguments.only or [
        name for name in ARGUMENTS if name not in QUICK_WITHOUT or not arguments.quick
    ]
    with engines(arguments.quick) as them:
        unknown = set(arguments.engine or ()) - set(them)
        if unknown:
            found.error(f"no engine called {', '.join(sorted(unknown))}; there are: {'; '.join(them)}")
        chosen = {name: them[name] for name in arguments.engine or them}
        for program in programs:
            compare(results, program, chosen, repeat, timeout=180 if arguments.quick else 900)


if __name__ == "__main__":
    main()
