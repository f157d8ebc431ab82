"""What a benchmark found, printed as it is found and saved as JSON for the report.

A benchmark begins with `begin`, which tells the question, the machine and how busy it is, and gives its tables,
the points of its plots and what went wrong to the `Results`. With ``--json FILE`` they are written after every table, so
that a run which is ended early leaves what it had. ``_report.py`` makes pages and pictures from such files.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import signal
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from _harness import cores, note, print_table, version_of


@dataclass(frozen=True, slots=True)
class Table:
    """What was printed, as texts."""

    header: list[str]
    rows: list[list[str]]


@dataclass(frozen=True, slots=True)
class Point:
    """One mark of a plot: a value of a series, at a place that is a number or a name."""

    plot: str
    series: str
    x: float | str
    y: float


@dataclass(slots=True)
class Results:
    """All that one run of a benchmark found, and where."""

    benchmark: str
    question: str
    quick: bool
    started: str
    machine: str
    versions: dict[str, str]
    load: list[float]
    others: float | None
    tables: list[Table] = field(default_factory=list)
    points: list[Point] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    path: Path | None = None

    def table(self, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Print a table and keep it."""
        print_table(header, rows)
        self.tables.append(Table(list(header), [list(row) for row in rows]))
        self.save()

    def point(self, plot: str, series: str, x: float | str, y: float) -> None:
        """Keep a mark for a plot; what could not be measured (nan) is left out."""
        if y == y:
            self.points.append(Point(plot, series, x, y))

    def problem(self, text: str) -> None:
        """Say what could not be measured; the report says it, too, in one line."""
        note(f"NOT MEASURED: {text}")
        self.problems.append(brief(text))
        self.save()

    def save(self) -> None:
        """Write the file, if one is wanted; there is a whole file at any time."""
        if self.path is None:
            return
        content = asdict(self)
        del content["path"]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        draft = self.path.with_suffix(".tmp")
        draft.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        draft.replace(self.path)


def brief(problem: str) -> str:
    """First and last line, without the places where things are on the machine."""
    lines = [line.strip() for line in problem.splitlines() if line.strip()]
    text = lines[0] if len(lines) == 1 else f"{lines[0]} {lines[-1]}"
    text = re.sub(r"(?:/[\w.+@-]+)+/", "", text)
    return text if len(text) <= 300 else f"{text[:300]}..."


def loaded(path: Path) -> Results:
    """The results in a file."""
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    content["tables"] = [Table(**table) for table in content["tables"]]
    content["points"] = [Point(**point) for point in content["points"]]
    return Results(**content, path=path)


def begin(benchmark: str, question: str, arguments: argparse.Namespace) -> Results:
    """Say what is asked, where and when."""
    signal.signal(signal.SIGTERM, _leave)
    path = None if arguments.json is None else Path(arguments.json)
    found = here_and_now(benchmark, question, arguments.quick, path)
    print(question)
    print(where_and_when(found), flush=True)
    return found


def _leave(number: int, frame: object) -> None:
    """End as if by an error, so that peers in processes of their own are ended, too."""
    raise SystemExit(128 + number)


def here_and_now(benchmark: str, question: str, quick: bool, path: Path | None) -> Results:
    """Results without anything in them yet."""
    versions = {name: version_of(package) for name, package in _PACKAGES.items()}
    return Results(
        benchmark=Path(benchmark).stem,
        question=question,
        quick=quick,
        started=f"{datetime.now():%Y-%m-%d %H:%M}",
        machine=_machine(),
        versions={**versions, "Python": platform.python_version()},
        load=[round(value, 2) for value in os.getloadavg()],
        others=_busy_cores(),
        path=path,
    )


_PACKAGES = {"Firesteel": "firesteel", "Spark": "pyspark"}


def where_and_when(results: Results) -> str:
    """Date, machine, versions and how busy the machine was when it began."""
    versions = ", ".join(f"{name} {version}" for name, version in results.versions.items())
    return f"{results.started}, {results.machine}, {versions}, {how_busy(results)}"


def how_busy(results: Results) -> str:
    """What else the machine did just before; the load average also has the benchmark before this one."""
    load = f"load average {' '.join(f'{value:.2f}' for value in results.load)}"
    return load if results.others is None else f"other programs used {results.others:.2f} cores, {load}"


def _machine() -> str:
    return f"{cores()} cores ({_processor()}), {_memory()}{platform.system()} {platform.machine()}"


def _processor() -> str:
    described = Path("/proc/cpuinfo")
    if described.exists():
        for line in described.read_text().splitlines():
            if line.startswith("model name"):
                return " ".join(line.partition(":")[2].split())
    return platform.processor() or "processor unknown"


def _memory() -> str:
    try:
        size = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return ""
    return f"{size / 2**30:.0f} GB, "


def _busy_cores(seconds: float = 1.0) -> float | None:
    """How many cores were busy for a second in which this program slept; None where nobody tells."""
    if not Path("/proc/stat").exists():
        return None
    before, started = _busy_seconds(), time.perf_counter()
    time.sleep(seconds)
    return round(max(0.0, (_busy_seconds() - before) / (time.perf_counter() - started)), 2)


def _busy_seconds() -> float:
    user, nice, system, _idle, _waiting, *rest = map(
        int, Path("/proc/stat").read_text().split("\n")[0].split()[1:]
    )
    # The last two, guests, are in user and nice already; the one before them is time that other machines took.
    return (user + nice + system + sum(rest[:3])) / os.sysconf("SC_CLK_TCK")
