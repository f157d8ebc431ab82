"""The report: from what benchmarks have saved to Markdown and pictures, without running any of them."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
import time
from argparse import Namespace
from collections import Counter
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
PAGE = "# Benchmarks\n\nbefore\n\n<!-- results: begin -->\nold\n<!-- results: end -->\n\nafter\n"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module


@pytest.fixture
def report(load) -> ModuleType:
    return load("_report")


def results_of(load, name: str = "latency", path: Path | None = None, **values):
    """Results of a quiet machine."""
    given = {
        "benchmark": name,
        "question": "How long",
        "quick": False,
        "started": "2026-01-02 03:04",
        "machine": "2 cores (some processor), 8 GB, Linux x86_64",
        "versions": {"Firesteel": "1.2", "Python": "3.11.7"},
        "load": [0.1, 0.2, 0.3],
        "others": 0.05,
        "path": path,
    }
    return load("_results").Results(**{**given, **values})


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


# Results ----------------------------------------------------------------------------------------------


def test_results_come_back_from_their_file(load, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = results_of(load, path=tmp_path / "new" / "latency.json")
    found.point("latency at 1,000/s", "since made", "p50", 1.25)
    found.problem("a peer was not there")
    found.table(["load", "p50"], [["1,000/s", "1.3"]])
    assert load("_results").loaded(tmp_path / "new" / "latency.json") == found
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["latency.json"]
    printed = capsys.readouterr()
    assert "1,000/s  1.3" in printed.out
    assert "NOT MEASURED: a peer was not there" in printed.err


def test_what_could_not_be_measured_is_no_point(load) -> None:
    found = results_of(load)
    found.point("throughput", "Firesteel", "keyed", float("nan"))
    assert found.points == []


def test_every_benchmark_says_where_it_ran_and_how_busy_that_was(
    load, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    results = load("_results")
    monkeypatch.setattr(results.signal, "signal", lambda *arguments: None)  # pytest's own stays
    found = results.begin("/somewhere/scaling.py", "Is it flat?", Namespace(json=None, quick=True))
    printed = capsys.readouterr().out
    assert found.benchmark == "scaling"
    assert found.quick
    assert printed.startswith("Is it flat?\n")
    assert re.search(r"\d cores .*Firesteel \d.*Spark \d.*Python 3.*load average \d", printed)


# Pictures ---------------------------------------------------------------------------------------------


def test_marks_have_a_row_for_every_engine_of_every_program_in_the_order_of_their_values(load) -> None:
    groups = {
        "keyed": {"Firesteel": 1_500_000.0, "PyFlink": 20_000.0},
        "stateless": {"Firesteel": 2_000_000.0},
    }
    svg = load("_svg").marks("Records per second", "records/s", groups)
    shown = texts(svg)
    assert shown[0] == "Records per second"
    assert [text for text in shown if text in ("keyed", "stateless", "Firesteel", "PyFlink")] == [
        "keyed",
        "Firesteel",
        "PyFlink",
        "stateless",
        "Firesteel",
    ]
    assert {"1.5 M", "20,000", "2 M"} < set(shown)
    at = [float(found) for found in re.findall(r'<path class="m\d" transform="translate\((\S+) ', svg)]
    assert at[1] < at[0] < at[2]


def test_curve_has_a_mark_for_every_percentile_above_another_where_it_is_larger(load) -> None:
    points = [("p50", 1.0), ("p99", 10.0), ("max", 100.0)]
    svg = load("_svg").curves("Latency", "percentile", "ms", {"since made": points}, log_y=True)
    line = re.search(r'<polyline[^>]* points="([^"]+)"', svg)
    assert line is not None
    places = [tuple(map(float, pair.split(","))) for pair in line[1].split()]
    assert [x for x, _ in places] == sorted(x for x, _ in places)
    assert [y for _, y in places] == sorted((y for _, y in places), reverse=True)  # up is small in SVG
    gaps = [places[0][1] - places[1][1], places[1][1] - places[2][1]]
    assert gaps[0] == pytest.approx(gaps[1], abs=0.2)
    assert {"p50", "p99", "max", "since made", "1", "10", "100"} <= set(texts(svg))


def test_linear_scale_begins_at_zero_and_reaches_the_largest_value(load) -> None:
    ticks = load("_svg")._ticks
    assert ticks([3.1, 4.2], False) == [0, 1, 2, 3, 4, 5]
    assert ticks([0.7], False)[0] == 0
    assert ticks([0.7], False)[-1] >= 0.7
    assert ticks([20.0, 130.0], True) == [10, 100, 1000]


@pytest.mark.parametrize("points", [[(2, 1.5)], [(2, 0.0), (4, 0.0)], [(10, 1.0), (1_000_000, 2.0)]])
def test_few_or_far_points_can_be_drawn(load, points) -> None:
    for log_x in (False, True):
        svg = load("_svg").curves("Cost", "stages", "us", {"CPU": points}, log_x=log_x)
        assert svg.count('class="m0"') == len(points) + 1  # and one in the legend
        assert "nan" not in svg


def test_names_cannot_break_a_picture(load) -> None:
    svg = load("_svg").marks("a < b & c", "records/s", {'"q"': {"<x>": 5.0}})
    assert {"a < b & c", '"q"', "<x>"} < set(texts(svg))


def test_picture_has_colours_for_light_and_dark_and_a_ground_of_its_own(load) -> None:
    svg = load("_svg").marks("t", "u", {"g": {"s": 5.0}})
    assert "prefers-color-scheme: dark" in svg
    assert '<rect class="paper"' in svg


@pytest.mark.parametrize(
    ("value", "text"),
    [(1_234_567, "1.23 M"), (45_678, "45,700"), (999.9, "1,000"), (3.14159, "3.14"), (0.05, "0.05")],
)
def test_numbers_have_three_digits(load, value: float, text: str) -> None:
    assert load("_svg").number(value) == text


# Markdown ---------------------------------------------------------------------------------------------


def table(load, header: list[str], *rows: list[str]):
    return load("_results").Table(header, list(rows))


def test_missed_targets_come_first_and_are_bold_in_their_table(load, report: ModuleType) -> None:
    rows = table(
        load,
        ["load", "measured", "p50", "target"],
        ["1,000/s", "bare", "0.1", ""],
        ["", "Firesteel", "4.0", "p50 MISSED (<= 3 ms), p99 holds (<= 10 ms)"],
    )
    text = report.report_of([results_of(load, tables=[rows])])
    assert "Targets: 2 measured, 1 hold, 1 missed:\n\n- " in text
    assert "- latency: 1,000/s, Firesteel, 4.0: p50 MISSED (<= 3 ms)\n" in text
    assert text.index("- latency") < text.index("### Latency")
    assert "|  | Firesteel | 4.0 | p50 **MISSED** (<= 3 ms), p99 holds (<= 10 ms) |" in text


def test_report_tells_date_machine_versions_and_load(load, report: ModuleType) -> None:
    text = report.report_of([results_of(load), results_of(load, "engines", versions={"Bytewax": "0.21.1"})])
    assert text.count("Machine: 2 cores (some processor), 8 GB, Linux x86_64.") == 1
    assert "Versions: Firesteel 1.2, Python 3.11.7, Bytewax 0.21.1." in text
    assert "2026-01-02 03:04, other programs used 0.05 cores, load average 0.10 0.20 0.30" in text
    assert "busy" not in text
    assert "smoke" not in text


def test_report_of_two_machines_says_which_measured_what(load, report: ModuleType) -> None:
    text = report.report_of([results_of(load), results_of(load, "engines", machine="8 cores")])
    assert "Machine (latency): 2 cores" in text
    assert "Machine (engines): 8 cores." in text


def test_report_warns_of_small_sizes_and_of_a_busy_machine(load, report: ModuleType) -> None:
    text = report.report_of([results_of(load, quick=True, others=1.9), results_of(load, "engines")])
    assert "**Small sizes (`--quick`), a smoke test whose figures mean little: latency.**" in text
    assert "busy with other programs before these began: latency (other programs used 1.90 cores" in text


def test_report_names_what_was_not_measured_without_paths_of_the_machine(load, report: ModuleType) -> None:
    problem = "keyed on Bytewax: /home/me/.cache/x/bin/python flows.py failed:\n\nTraceback\nValueError: no\n"
    results = results_of(load)
    results.problem(problem)
    text = report.report_of([results], left_out=["nexmark"])
    assert "**Not measured**: keyed on Bytewax: python flows.py failed: ValueError: no\n" in text
    assert "Not measured this time, because the time was over: `nexmark`." in text


def test_page_keeps_what_is_around_the_report(report: ModuleType) -> None:
    page = report.page_with(PAGE, "new\n")
    assert page == PAGE.replace("old", "new")
    with pytest.raises(SystemExit, match="no place for the report"):
        report.page_with("# Benchmarks", "new\n")


def test_the_page_of_this_repository_has_a_place_for_the_report(report: ModuleType) -> None:
    report.page_with(report.PAGE.read_text(encoding="utf-8"), "new\n")


def test_report_is_written_from_saved_results_the_same_each_time(
    load, report: ModuleType, tmp_path: Path
) -> None:
    page, pictures, saved = tmp_path / "benchmarks.md", tmp_path / "benchmarks", tmp_path / "results"
    page.write_text(PAGE)
    pictures.mkdir()
    (pictures / "of-an-earlier-report.svg").write_text("<svg/>")
    point = load("_results").Point
    points = [
        point("throughput", "Firesteel", "keyed", 2e6),
        point("throughput", "PyFlink, tuned", "keyed", 2e4),
    ]
    results_of(load, "engines", saved / "engines.json", points=points).save()
    points = [point("cost against keys", "CPU", 10, 1.5), point("cost against keys", "CPU", 1_000_000, 2.5)]
    points += [point("latency at 1,000/s", "since made", "p50", 1.5)]
    results_of(load, "scaling", saved / "scaling.json", points=points).save()
    report.write_report(saved, page, pictures)
    first = page.read_text()
    assert sorted(path.name for path in pictures.iterdir()) == [
        "cost-against-keys.svg",
        "latency-at-1-000-s.svg",
        "throughput.svg",
    ]
    links = re.findall(r"!\[[^\]]+\]\((\S+)\)", first)
    assert len(links) == 3
    assert all((tmp_path / link).exists() for link in links)
    for path in pictures.iterdir():
        ElementTree.parse(path)
    report.write_report(saved, page, pictures)
    assert page.read_text() == first
    assert first.endswith("<!-- results: end -->\n\nafter\n")


def test_results_of_one_benchmark_are_added_and_those_of_others_stay(
    load, report: ModuleType, tmp_path: Path
) -> None:
    """Their files are gone: whoever measured them did it elsewhere."""
    page, pictures = tmp_path / "benchmarks.md", tmp_path / "benchmarks"
    page.write_text(PAGE)
    before, after = tmp_path / "before", tmp_path / "after"
    rows = table(load, ["load", "p50"], ["a|b", "4.0 ms MISSED (<= 3 ms)"], ["c", "1 ms holds (<= 3 ms)"])
    points = [load("_results").Point("latency at 1,000/s", "since made", "p50", 1.5)]
    results_of(load, path=before / "latency.json", tables=[rows], points=points, quick=True).save()
    old_service = results_of(load, "service", before / "service.json", question="Old", others=3.0)
    old_service.save()
    report.write_report(before, page, pictures)
    first = page.read_text()
    latency = first[first.index("### Latency") : first.index("### The cluster service")]
    rows = table(load, ["what", "target"], ["first record", "0.5 s holds (<= 1 s)"])
    results_of(load, "service", after / "service.json", tables=[rows], question="New").save()
    results_of(load, "engines", after / "engines.json", question="Not asked for").save()
    report.write_report(after, page, pictures, only=["service"])
    second = page.read_text()
    assert latency in second
    assert ("Old. Measured by" in second, "New. Measured by" in second) == (False, True)
    assert "Not asked for" not in second
    assert "Targets: 3 measured, 2 hold, 1 missed:\n\n- latency: a|b: 4.0 ms MISSED (<= 3 ms)\n" in second
    assert "figures mean little: latency.**" in second
    assert "busy" not in second
    assert [path.name for path in pictures.iterdir()] == ["latency-at-1-000-s.svg"]
    report.write_report(after, page, pictures, only=["service"])
    assert page.read_text() == second
    with pytest.raises(SystemExit, match="no results of nexmark in"):
        report.write_report(after, page, pictures, only=["nexmark"])


def test_versions_that_differ_are_not_mixed(load, report: ModuleType) -> None:
    newer = results_of(load, "service", versions={"Firesteel": "1.3"})
    text = report.report_of([results_of(load), newer, results_of(load, "engines", versions={"Spark": "4.3"})])
    assert "Machine (latency, engines): 2 cores" in text
    assert "Versions: Firesteel 1.2, Python 3.11.7, Spark 4.3.\n" in text
    assert (
        "Machine (service): 2 cores (some processor), 8 GB, Linux x86_64.\nVersions: Firesteel 1.3.\n" in text
    )


def test_the_page_of_this_repository_can_be_read_back(report: ModuleType) -> None:
    page = report.PAGE.read_text(encoding="utf-8")
    found = report.read_back(page)
    assert len(found) == page.count("Measured by `") > 0
    every = [results for results, _ in found.values()]
    assert "unknown" not in {results.machine for results in every}
    text = report.report_of(every, sections={name: section for name, (_, section) in found.items()})
    left_out = r"Not measured this time, .*\n\n"
    assert re.sub(left_out, "", report.page_with(page, text)) == re.sub(left_out, "", page)


def test_only_peers_that_are_needed_are_prepared(report: ModuleType) -> None:
    steps = {step.name: step for step in report.STEPS}
    assert report.peers_of([steps["service"], steps["queryable_state"]], False) == {}
    assert list(report.peers_of([steps["windows"]], False)) == ["PyFlink"]
    assert report.peers_of([steps["windows"]], True) == {}  # it does not run then
    assert list(report.peers_of(report.STEPS, True)) == ["PyFlink", "Bytewax"]


def test_no_results_are_said_and_change_nothing(report: ModuleType, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    with pytest.raises(SystemExit, match="no results in"):
        report.write_report(tmp_path, page, tmp_path / "pictures")
    assert page.read_text() == PAGE


# Running ----------------------------------------------------------------------------------------------

SAVES = """
import sys
sys.path.insert(0, {benchmarks!r})
from argparse import Namespace
from collections import Counter
from _results import begin
results = begin(__file__, "What?", Namespace(json=sys.argv[2], quick="--quick" in sys.argv))
results.table(["a", "b"], [["1", "2"]])
"""


def program(directory: Path, name: str, end: str = "") -> None:
    (directory / f"{name}.py").write_text(SAVES.format(benchmarks=str(BENCHMARKS)) + end)


def test_benchmark_that_fails_is_named_and_the_next_one_runs(
    load, report: ModuleType, tmp_path: Path
) -> None:
    program(tmp_path, "first", "raise SystemExit('no peer')")
    (tmp_path / "second.py").write_text("raise SystemExit('not even begun')")
    program(tmp_path, "third")
    steps = [report.Step(name, name, 0.1, 0.1) for name in ("first", "second", "third")]
    assert report.run_steps(steps, tmp_path, quick=True, minutes=10, programs=tmp_path) == []
    first, second, third = (load("_results").loaded(tmp_path / f"{step.name}.json") for step in steps)
    assert first.problems == ["`first` ended with exit status 1"]
    assert [each.rows for each in first.tables] == [[["1", "2"]]]  # what it had is kept
    assert second.problems == ["`second` ended with exit status 1"]
    assert (third.problems, third.quick) == ([], True)


def test_result_of_an_earlier_run_is_not_shown_as_one_of_a_run_that_failed(
    load, report: ModuleType, tmp_path: Path
) -> None:
    results_of(load, "first", tmp_path / "first.json", tables=[table(load, ["a"], ["old"])]).save()
    (tmp_path / "first.py").write_text("raise SystemExit('no')")
    report.run_steps([report.Step("first", "First", 0.1, 0.1)], tmp_path, True, 10, tmp_path)
    assert load("_results").loaded(tmp_path / "first.json").tables == []


def test_benchmark_that_hangs_is_ended(load, report: ModuleType, tmp_path: Path) -> None:
    program(tmp_path, "first", "import threading; threading.Event().wait()")
    report.run_step(report.Step("first", "First", 0.1, 0.1), tmp_path, True, 0.2, tmp_path)
    (problem,) = load("_results").loaded(tmp_path / "first.json").problems
    assert "was ended because it took more than" in problem


def test_benchmark_that_is_ended_ends_its_peers(tmp_path: Path) -> None:
    """They have sessions of their own, which nobody else knows."""
    pid_file = tmp_path / "pid"
    peer = (
        f"import os, pathlib, threading\npathlib.Path({str(pid_file)!r}).write_text(f'{{os.getpid()}}\\n')\n"
    )
    peer += "threading.Event().wait()"
    program(tmp_path, "first", f"import _contest\n_contest.output_of([sys.executable, '-c', {peer!r}])\n")
    with subprocess.Popen([sys.executable, tmp_path / "first.py", "--json", tmp_path / "x.json"]) as process:
        while not pid_file.exists() or not pid_file.read_text().endswith("\n"):
            assert process.poll() is None
            time.sleep(0.02)
        process.terminate()
        assert process.wait() != 0
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()), 0)


def test_benchmarks_without_time_are_left_out(report: ModuleType, tmp_path: Path) -> None:
    steps = [report.Step("first", "First", 5, 5), report.Step("second", "Second", None, 1)]
    assert report.run_steps(steps, tmp_path, quick=True, minutes=4, programs=tmp_path) == ["first"]
    assert list(tmp_path.iterdir()) == []


def test_peer_that_cannot_be_installed_is_no_reason_to_stop(
    report: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken() -> Path:
        raise report.ContestError("no network")

    made = []
    report.prepare_peers({"PyFlink": broken, "Bytewax": lambda: made.append(1)})
    assert made
    assert "PyFlink cannot be installed, its figures will be missing: no network" in capsys.readouterr().err


def test_what_grows_in_a_benchmark_has_a_plot(load, report: ModuleType) -> None:
    assert set(load("scaling").DIMENSIONS) == set(report.COSTS)


def test_points_of_stages_are_costs_of_an_exchange_and_others_those_of_a_record(load) -> None:
    scaling, cost = load("scaling"), load("_harness").Cost
    results = results_of(load, "scaling")
    scaling.dimension_rows(
        results, "stages", [2, 4], lambda shape: cost(3e-6 * (shape.stages - 1), 6e-6 * (shape.stages - 1))
    )
    rows = scaling.dimension_rows(results, "keys", [10, 1000], lambda shape: cost(1e-6, 2e-6))
    assert [row[-1] for row in rows] == ["1.00", "1.00"]
    found = [(point.plot, point.series, point.x, round(point.y, 6)) for point in results.points]
    assert found == [
        (f"cost against {what}", series, x, y)
        for what, places, cpu, wall in [("stages", (2, 4), 6.0, 3.0), ("keys", (10, 1000), 2.0, 1.0)]
        for x in places
        for series, y in [("CPU time of all processes", cpu), ("time on the clock", wall)]
    ]


def test_points_of_latency_are_its_percentiles(load) -> None:
    latency, results = load("latency"), results_of(load)
    histogram = latency.Histogram(Counter({99: 50, 199: 40, 299: 9, 999: 1}))
    latency.add_curve(results, "latency at 1,000/s", "Firesteel", histogram)
    assert [(point.x, round(point.y, 6)) for point in results.points] == [
        ("p50", 1.0),
        ("p90", 2.0),
        ("p99", 3.0),
        ("p99.9", 10.0),
        ("max", 10.0),
    ]


def test_every_step_is_a_benchmark(report: ModuleType) -> None:
    assert [step.name for step in report.STEPS if not (BENCHMARKS / f"{step.name}.py").exists()] == []


# Engines ----------------------------------------------------------------------------------------------

ENGINE = """
import sys
for size in sys.argv[1].split(","):
    print("result", {result})
    print("seconds", int(size) / 1000 * {slowness})
"""


@pytest.fixture
def engines(load) -> ModuleType:
    return load("engines")


def engine(engines: ModuleType, slowness: int, result: str = "int(size) // 1000"):
    code = ENGINE.format(slowness=slowness, result=result)
    return engines.Engine(lambda program: [sys.executable, "-c", code], {"keyed_reduce": (1000, 4000)})


def test_engines_are_compared_and_a_peer_that_fails_is_only_named(
    load, engines: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(program: str) -> list[str]:
        raise engines.ContestError("no javac on this machine")

    them = {
        "Firesteel": engine(engines, 1),
        "Flink, Java": engines.Engine(missing, {"keyed_reduce": (1, 2)}),
        "Bytewax": engine(engines, 2, result="7"),
        "PyFlink, tuned": engine(engines, 60),
        "bare Python": engines.Engine(
            lambda program: [sys.executable, "-c", "1/0"], {"keyed_reduce": (1, 2)}
        ),
        "other": engines.Engine(missing, {}),
    }
    results = results_of(load, "engines")
    engines.compare(results, "keyed_reduce", them, repeat=1, timeout=60)
    (found,) = results.tables
    assert found.rows == [
        ["Firesteel", "1,000/s", "", ""],
        ["PyFlink, tuned", "17/s", "60x", "holds (>= 50)"],
    ]
    assert [(point.series, point.x) for point in results.points] == [
        ("Firesteel", "keyed_reduce"),
        ("PyFlink, tuned", "keyed_reduce"),
    ]
    java, bytewax, bare = results.problems
    assert java == "keyed_reduce on Flink, Java: no javac on this machine"
    assert bytewax.startswith("keyed_reduce on Bytewax: gave wrong results: 7; 7; 7 instead of 1; 4")
    assert "ZeroDivisionError" in bare


def test_peers_are_shown_without_firesteel(load, engines: ModuleType) -> None:
    results = results_of(load, "engines")
    engines.compare(results, "keyed_reduce", {"bare Python": engine(engines, 1)}, repeat=1, timeout=60)
    assert results.tables[0].rows == [["bare Python", "1,000/s", "", ""]]


def test_peer_that_hangs_is_ended(load, engines: ModuleType) -> None:
    hangs = engines.Engine(
        lambda program: [sys.executable, "-c", "import threading; threading.Event().wait()"],
        {"keyed_reduce": (1, 2)},
    )
    results = results_of(load, "engines")
    engines.compare(results, "keyed_reduce", {"Bytewax": hangs}, repeat=1, timeout=0.5)
    assert "took more than" in results.problems[0]


def test_bare_loops_give_what_every_engine_must_give(
    engines: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS / "programs"))
    bare = importlib.import_module("bare")
    assert set(bare.PROGRAMS) == set(engines.ARGUMENTS)
    for name, run in bare.PROGRAMS.items():
        for count in (10_000, 24_000):
            printed = [line for part in range(bare.PROCESSES) for line in run(count, part)]
            engines.must_be_right(name, printed, [count])


def test_quick_sizes_are_smaller_and_warm_up_is_the_same(engines: ModuleType) -> None:
    with engines.engines(quick=True) as them:
        ours = them["Firesteel"]
        assert ours.sizes_of("stateless", quick=True) == (2_000_000, 6_000_000)
        assert ours.sizes_of("stateless", quick=False) == (2_000_000, 14_000_000)
        assert "value_state" not in them["Bytewax"].sizes


def test_machine_without_a_java_compiler_is_told_what_to_do(
    engines: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(SystemExit, match="no javac on this machine: the programs in Java need a JDK"):
        engines.java_tool("javac")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "javac").touch(mode=0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert engines.java_tool("javac") == str(tmp_path / "bin" / "javac")
