"""The report: runs benchmarks one after the other and makes tables and plots of what they saved.

    scripts/bench --report              all that fits into half an hour, into docs/benchmarks.md
    scripts/bench --report --quick      the most important ones at small sizes, in six to eight minutes
    scripts/bench --report --no-run     from what was saved before
    scripts/bench --report --only service --only queryable_state
                                        these two; what the page says of the others stays

Every benchmark saves its results in a file of ``--results DIR``; the report is made from all files there, and from what
the page says of benchmarks without one, so it can be made in steps and by several machines. ``scripts/bench service --json
FILE`` writes such a file, too. A benchmark that fails, or for which there is no time, is named in the report. Nothing is left
out: targets that are missed are listed first.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from _contest import ContestError, end_group, pyflink_python
from _harness import ROOT, cores, note
from _results import Point, Results, Table, here_and_now, how_busy, loaded
from _svg import curves, marks
from engines import bytewax_python

PAGE = ROOT / "docs" / "benchmarks.md"
PICTURES = ROOT / "docs" / "benchmarks"
PROGRAMS = ROOT / "benchmarks"
RESULTS = PROGRAMS / "results"
BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"
QUIET = 0.2  # cores that other programs may use before figures are called those of a busy machine


@dataclass(frozen=True, slots=True)
class Step:
    """A benchmark, its heading in the report, and the minutes it takes on two quiet cores; None: not when it is quick."""

    name: str
    heading: str
    quick: float | None
    full: float
    peers: tuple[str, ...] = ()


PEERS: dict[str, Callable[[], Path]] = {"PyFlink": pyflink_python, "Bytewax": bytewax_python}

STEPS = (
    Step("engines", "Throughput", 4.0, 14.0, ("PyFlink", "Bytewax")),
    Step("latency", "Latency", 1.0, 2.5),
    Step("scaling", "Cost of a record as things grow", 1.2, 6.0),
    Step("efficiency", "What is left of bare Python's speed", 0.6, 2.5),
    Step("startup", "Start-up", None, 2.0),
    Step("checkpoint", "Checkpoints and recovery", None, 6.0, ("PyFlink",)),
    Step("state", "Keyed state and timers", None, 5.0, ("PyFlink",)),
    Step("windows", "Windows", None, 10.0, ("PyFlink",)),
    Step("slow_function", "Slow functions", None, 4.0),
    Step("metrics", "What metrics cost", None, 5.0),
    Step("queryable_state", "Look-ups in the state of a running job", None, 2.0),
    Step("service", "The cluster service", None, 4.0),
    Step("nexmark", "Nexmark", None, 8.0, ("PyFlink",)),
)


# Running ---------------------------------------------------------------------------------------------


def prepare_peers(makers: Mapping[str, Callable[[], Path]]) -> None:
    """Install what benchmarks would install on first use, before their time begins."""
    for name, make in makers.items():
        try:
            make()
        except ContestError as error:
            note(f"{name} cannot be installed, its figures will be missing: {error}")


def peers_of(steps: Iterable[Step], quick: bool) -> dict[str, Callable[[], Path]]:
    """Those that some of the steps need: what is measured alone does not wait for the peers of others."""
    needed = {peer for step in steps if not quick or step.quick is not None for peer in step.peers}
    return {name: make for name, make in PEERS.items() if name in needed}


def run_steps(
    steps: Iterable[Step], directory: Path, quick: bool, minutes: float, programs: Path = PROGRAMS
) -> list[str]:
    """Run those for which there is time; the names of the others. Whatever one of them does, the next one runs."""
    started, left_out = time.monotonic(), []
    for step in steps:
        expected = step.quick if quick else step.full
        if expected is None:
            continue
        left = minutes - (time.monotonic() - started) / 60
        if expected > left:
            note(
                f"{step.name}: left out, {left:.1f} of {minutes:g} minutes are left and it takes {expected:g}"
            )
            left_out.append(step.name)
            continue
        note(f"{step.name}: about {expected:g} minutes")
        run_step(step, directory, quick, 60 * (2 * expected + 2), programs)
    return left_out


def run_step(step: Step, directory: Path, quick: bool, timeout: float, programs: Path = PROGRAMS) -> None:
    """Run a benchmark; if it ends badly or not in time, its file says so."""
    path = directory / f"{step.name}.json"
    path.unlink(missing_ok=True)  # what an earlier run found is not what this one found
    command = [sys.executable, str(programs / f"{step.name}.py"), "--json", str(path)]
    problem = ""
    # A session of its own: what a benchmark has started ends with it.
    with subprocess.Popen([*command, *["--quick"] * quick], start_new_session=True) as process:
        try:
            if process.wait(timeout):
                problem = f"`{step.name}` ended with exit status {process.returncode}"
        except subprocess.TimeoutExpired:
            problem = f"`{step.name}` was ended because it took more than {timeout / 60:.0f} minutes"
        finally:
            _end(process)
    if problem:
        found = loaded(path) if path.exists() else here_and_now(step.name, step.heading, quick, path)
        found.problem(problem)


def _end(process: subprocess.Popen[bytes]) -> None:
    """A benchmark ends its peers by itself when it is asked; nobody else knows them."""
    if process.poll() is None:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(30)
    end_group(process)


# The page --------------------------------------------------------------------------------------------


def page_with(page: str, report: str) -> str:
    """The page with a new report between its markers."""
    before, begin, rest = page.partition(BEGIN)
    _old, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(
            f"the page has no place for the report: {BEGIN} and {END} must be in it, in this order"
        )
    return f"{before}{BEGIN}\n{report}{END}{after}"


def report_of(
    found: Sequence[Results], left_out: Sequence[str] = (), sections: Mapping[str, str] | None = None
) -> str:
    """Everything as Markdown: what it was measured on, missed targets, then a section for each benchmark.

    ``sections`` has those that are there already, by benchmark.
    """
    parts = ["", "## Results", "", *_warnings(found), *_machines(found), *_targets(found)]
    if left_out:
        names = ", ".join(f"`{name}`" for name in left_out)
        parts += [f"Not measured this time, because the time was over: {names}.", ""]
    for results in found:
        there = (sections or {}).get(results.benchmark)
        parts += _section(results) if there is None else [there]
    return "\n".join(parts) + "\n"


def _warnings(found: Sequence[Results]) -> Iterator[str]:
    quick = [results.benchmark for results in found if results.quick]
    if quick:
        yield f"**Small sizes (`--quick`), a smoke test whose figures mean little: {', '.join(quick)}.**"
        yield ""
    busy = [f"{results.benchmark} ({how_busy(results)})" for results in found if is_busy(results)]
    if busy:
        yield f"**The machine was busy with other programs before these began: {'; '.join(busy)}.** Trust ratios by CPU time only."
        yield ""


def is_busy(results: Results) -> bool:
    """Whether something else ran; where nobody tells, the load average does, which also has what ran before."""
    if results.others is None:
        return results.load[0] > cores() / 2
    return results.others > QUIET


def _machines(found: Sequence[Results]) -> Iterator[str]:
    """Machine and versions, once for all that share them: none of their versions differ."""
    groups: list[tuple[str, dict[str, str], list[str]]] = []
    for results in found:
        for machine, versions, names in groups:
            if machine == results.machine and versions | results.versions == results.versions | versions:
                versions.update(results.versions)
                names.append(results.benchmark)
                break
        else:
            groups.append((results.machine, dict(results.versions), [results.benchmark]))
    for machine, versions, names in groups:
        of = f" ({', '.join(names)})" if len(groups) > 1 else ""
        yield f"Machine{of}: {machine}."
        yield f"Versions: {', '.join(f'{name} {version}' for name, version in versions.items())}."
        yield ""


def _targets(found: Sequence[Results]) -> Iterator[str]:
    """How many hold, and each that does not."""
    verdicts = [verdict for results in found for verdict in verdicts_of(results)]
    missed = [text for text, holds in verdicts if not holds]
    if verdicts:
        end = ":" if missed else "."
        yield f"Targets: {len(verdicts)} measured, {len(verdicts) - len(missed)} hold, {len(missed)} missed{end}"
        yield ""
        yield from (f"- {text}" for text in missed)
        if missed:
            yield ""


def verdicts_of(results: Results) -> Iterator[tuple[str, bool]]:
    """Every target of its tables: what it is about, and whether it holds."""
    for table in results.tables:
        subject = ""
        for row in table.rows:
            subject = row[0].strip() or subject
            for cell in row[1:]:
                for part in re.findall(r"[^,]*\b(?:holds|MISSED)\b[^,]*", cell):
                    about = [subject, *(other for other in row[1:] if other and other != cell)]
                    yield f"{results.benchmark}: {', '.join(about)}: {part.strip()}", "MISSED" not in part


def _section(results: Results) -> Iterator[str]:
    heading = next((step.heading for step in STEPS if step.name == results.benchmark), results.benchmark)
    yield from [
        f"### {heading}",
        "",
        f"{results.question}. Measured by `{results.benchmark}`, {results.started}, {how_busy(results)}.",
        "",
    ]
    for problem in results.problems:
        yield from [f"**Not measured**: {problem}", ""]
    for name, (title, _) in pictures_of(results).items():
        yield from [f"![{title}](benchmarks/{name})", ""]
    for table in results.tables:
        yield from [*_markdown(table), ""]


def _markdown(table: Table) -> Iterator[str]:
    yield f"| {' | '.join(map(_cell, table.header))} |"
    yield f"|---{'|--:' * (len(table.header) - 1)}|"
    for row in table.rows:
        yield f"| {' | '.join(map(_cell, row))} |"


def _cell(text: str) -> str:
    return text.strip().replace("|", "\\|").replace("MISSED", "**MISSED**")


# What the page says already --------------------------------------------------------------------------


_MACHINE = re.compile(r"^Machine(?: \(([\w, ]+)\))?: (.*)\.\nVersions: (.*)\.$", re.MULTILINE)
_MEASURED = re.compile(
    r"^(?P<question>.*)\. Measured by `(?P<name>\w+)`, (?P<started>\S+ \S+), "
    r"(?:other programs used (?P<others>[\d.]+) cores, )?load average (?P<load>.*)\.$",
    re.MULTILINE,
)
_SMALL = re.compile(r"^\*\*Small sizes .*: ([\w, ]+)\.\*\*$", re.MULTILINE)


def read_back(page: str) -> dict[str, tuple[Results, str]]:
    """The sections of a page's report, by benchmark: what each found, without the points of its plots, and its text."""
    report = page.partition(BEGIN)[2].partition(END)[0]
    head, *sections = re.split(r"^(?=### )", report, flags=re.MULTILINE)
    small = _SMALL.search(head)
    quick = small[1].split(", ") if small else []
    machines = [
        (names.split(", "), machine, dict(tuple(each.rsplit(" ", 1)) for each in versions.split(", ")))
        for names, machine, versions in _MACHINE.findall(head)
    ]
    found = {}
    for section in sections:
        measured = _MEASURED.search(section)
        if measured is None:
            continue
        name, others = measured["name"], measured["others"]
        machine, versions = next(
            (each[1:] for each in machines if each[0] == [""] or name in each[0]), ("unknown", {})
        )
        results = Results(
            benchmark=name,
            question=measured["question"],
            quick=name in quick,
            started=measured["started"],
            machine=machine,
            versions=versions,
            load=[float(value) for value in measured["load"].split()],
            others=None if others is None else float(others),
            tables=[_table(lines) for lines in re.findall(r"(?:^\|.*\n)+", section, re.MULTILINE)],
        )
        found[name] = results, section.rstrip("\n") + "\n"
    return found


def _table(lines: str) -> Table:
    """The opposite of `_markdown`."""
    rows = [
        [
            cell.strip().replace("\\|", "|").replace("**MISSED**", "MISSED")
            for cell in re.split(r"(?<!\\)\|", line)[1:-1]
        ]
        for line in lines.splitlines()
    ]
    return Table(rows[0], rows[2:])


# Pictures --------------------------------------------------------------------------------------------


#: What grows: the title of its plot, that of its axis, and whether that one is logarithmic.
COSTS = {
    "parallelism": ("Cost of a record against parallelism: flat is good", "tasks of an operator", False),
    "stages": ("Cost of a record and exchange against the number of stages: flat is good", "stages", False),
    "keys": ("Cost of a record against the number of keys with state: flat is good", "keys", True),
    "size": ("Cost of a record against its size", "bytes", True),
}


def pictures_of(results: Results) -> dict[str, tuple[str, str]]:
    """The plots of a benchmark: name of the file, and what it shows with its picture."""
    found = {}
    for plot in dict.fromkeys(point.plot for point in results.points):
        points = [point for point in results.points if point.plot == plot]
        name = re.sub(r"\W+", "-", plot).strip("-") + ".svg"
        title = plot[0].upper() + plot[1:]
        if plot == "throughput":
            title = "Records per second of the same programs, more is better"
            found[name] = title, marks(title, "records/s, logarithmic", _grouped(points))
        elif plot.startswith("latency"):
            title = f"{title}: milliseconds from source to sink, less is better"
            found[name] = title, curves(title, "percentile", "ms, logarithmic", _series(points), log_y=True)
        else:
            title, label, is_wide = COSTS[plot.rpartition(" ")[2]]
            found[name] = title, curves(title, label, "µs", _series(points), log_x=is_wide)
    return found


def _grouped(points: Iterable[Point]) -> dict[str, dict[str, float]]:
    groups: dict[str, dict[str, float]] = {}
    for point in points:
        groups.setdefault(str(point.x), {})[point.series] = point.y
    return groups


def _series(points: Iterable[Point]) -> dict[str, list[tuple[float | str, float]]]:
    series: dict[str, list[tuple[float | str, float]]] = {}
    for point in points:
        series.setdefault(point.series, []).append((point.x, point.y))
    return series


# Main ------------------------------------------------------------------------------------------------


def write_report(
    directory: Path, page: Path, pictures: Path, left_out: Sequence[str] = (), only: Sequence[str] = ()
) -> None:
    """From all saved results, or some, to the page and its pictures. What the page says of other benchmarks stays."""
    order = [step.name for step in STEPS]
    saved = {path.stem: loaded(path) for path in sorted(directory.glob("*.json"))}
    if only:
        saved = {name: results for name, results in saved.items() if name in only}
    if not saved:
        of = f" of {', '.join(only)}" if only else ""
        raise SystemExit(f"no results{of} in {directory}: run scripts/bench --report without --no-run first")
    before = page.read_text(encoding="utf-8")
    kept = {name: section for name, section in read_back(before).items() if name not in saved}
    every = saved | {name: results for name, (results, _) in kept.items()}
    found = [every[name] for name in [*order, *sorted(set(every) - set(order))] if name in every]
    sections = {name: text for name, (_, text) in kept.items()}
    text = page_with(before, report_of(found, left_out, sections))
    drawn = {name: svg for results in saved.values() for name, (_, svg) in pictures_of(results).items()}
    pictures.mkdir(parents=True, exist_ok=True)
    for old in pictures.glob("*.svg"):
        if not any(f"/{old.name})" in section for section in sections.values()):
            old.unlink()
    for name, svg in drawn.items():
        (pictures / name).write_text(svg, encoding="utf-8")
    page.write_text(text, encoding="utf-8")
    note(f"{page} has the results of {', '.join(results.benchmark for results in found)}")


def main() -> None:
    arguments = _arguments()
    directory = Path(arguments.results)
    left_out: list[str] = []
    if not arguments.no_run:
        chosen = [step for step in STEPS if not arguments.only or step.name in arguments.only]
        prepare_peers(peers_of(chosen, arguments.quick))
        minutes = arguments.minutes or (8 if arguments.quick else 30)
        left_out = run_steps(chosen, directory, arguments.quick, minutes)
    write_report(directory, Path(arguments.page), Path(arguments.pictures), left_out, arguments.only or ())


def _arguments() -> argparse.Namespace:
    found = argparse.ArgumentParser(
        prog="scripts/bench --report",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    found.add_argument(
        "--quick", action="store_true", help="small sizes of the most important ones: a smoke test"
    )
    found.add_argument("--minutes", type=float, help="time to spend; 30, or 8 when it is quick")
    found.add_argument(
        "--only", action="append", choices=[step.name for step in STEPS], help="run and write these only"
    )
    found.add_argument("--no-run", action="store_true", help="measure nothing, use what was saved")
    found.add_argument("--results", default=str(RESULTS), metavar="DIR", help="where results are saved")
    found.add_argument("--page", default=str(PAGE), metavar="FILE", help="the page to write into")
    found.add_argument("--pictures", default=str(PICTURES), metavar="DIR", help="where plots go")
    return found.parse_args()


if __name__ == "__main__":
    main()
