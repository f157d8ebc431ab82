"""Type checkers understand programs: they find what is wrong at its line, and nothing where nothing is wrong.

Checked by mypy, as strict as it can be, and by pyright: our examples, `good_programs` with what every stream holds,
`wrong_programs` with a mark at every mistake, and programs written for PyFlink, by the stubs of ``import pyflink``.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from firesteel_support import pyflink_stubs

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
PYFLINK = [ROOT / "benchmarks" / "programs" / f"{name}.py" for name in
           ("keyed_reduce", "stateless", "timers", "value_state", "windows")]  # fmt: skip
PROGRAMS = [
    HERE / "good_programs.py",
    HERE / "wrong_programs.py",
    *PYFLINK,
    *sorted((ROOT / "examples").glob("*.py")),
]
PAGE = ROOT / "docs" / "functions_and_types.md"
MARK = "# WRONG"

#: Examples with a mistake put in: what is replaced, and by what.
SPOILT = {
    "average_sensor_readings": ("key_by(lambda reading: reading.id)", "key_by(lambda reading: reading.name)"),
    "hashtag_count": ("key_by(lambda pair: pair[0])", "key_by(lambda pair: pair.tag)"),
    "hot_readings": (
        "flat_map(HotReadingsInParts(THRESHOLD))",
        "map(str).flat_map(HotReadingsInParts(THRESHOLD))",
    ),
    "page_views": (".window(windows).process(CountOfUser())", ".process(CountOfUser())"),
}

Place = tuple[str, int]


def section_of_the_page(title: str, kind: str) -> str:
    section = PAGE.read_text(encoding="utf-8").split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]
    return "\n".join(re.findall(rf"^```{kind}\n(.*?)^```$", section, re.MULTILINE | re.DOTALL))


@pytest.fixture
def programs(tmp_path: Path) -> list[Path]:
    """All programs; what the page shows is one of them."""
    of_the_page = tmp_path / "types_that_help.py"
    of_the_page.write_text(section_of_the_page("Types that help", "python"), encoding="utf-8")
    return [*PROGRAMS, of_the_page, *(spoilt(name, tmp_path) for name in SPOILT)]


def spoilt(name: str, folder: Path) -> Path:
    right, wrong = SPOILT[name]
    lines = (ROOT / "examples" / f"{name}.py").read_text(encoding="utf-8").splitlines()
    number = next(number for number, line in enumerate(lines) if right in line)
    lines[number] = f"{lines[number].replace(right, wrong)}  {MARK}"
    path = folder / f"spoilt_{name}.py"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def marked(programs: list[Path]) -> set[Place]:
    places = {
        (path.name, number)
        for path in programs
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if line.endswith(MARK)
    }
    assert len(places) > 30
    return places


def difference(programs: list[Path], found: dict[Place, str]) -> dict[str, list[str]]:
    """What was found and is not marked, and what is marked and was not found."""
    expected = marked(programs)
    return {
        "not wrong, but found": [f"{name}:{line}: {text}" for (name, line), text in sorted(found.items())
                                 if (name, line) not in expected],
        "wrong, but not found": [f"{name}:{line}" for name, line in sorted(expected - found.keys())],
    }  # fmt: skip


NOTHING: dict[str, list[str]] = {"not wrong, but found": [], "wrong, but not found": []}


def test_mypy_finds_the_mistakes_and_nothing_else(programs: list[Path]) -> None:
    # A cache of its own: with other options mypy would throw away that of scripts/check.
    options = ["--config-file", str(HERE / "mypy.ini"), "--cache-dir", str(ROOT / ".mypy_cache" / "programs")]
    run = subprocess.run(
        [sys.executable, "-m", "mypy", *options, "--no-error-summary", *map(str, programs)],
        capture_output=True, text=True, check=False, cwd=HERE,
    )  # fmt: skip
    assert run.returncode in (0, 1), run.stdout + run.stderr
    found = re.findall(r"^(\S+\.py):(\d+): error: (.*)$", run.stdout, re.MULTILINE)
    assert difference(programs, {(Path(path).name, int(line)): text for path, line, text in found}) == NOTHING
    of_the_page = [
        f"error: {text.rsplit('  [', 1)[0]}" for path, _, text in found if "types_that_help" in path
    ]
    assert of_the_page == section_of_the_page("Types that help", "text").splitlines()


def test_pyright_finds_the_mistakes_and_nothing_else(programs: list[Path]) -> None:
    command = [sys.executable, "-m", "basedpyright", "--project", str(HERE), "--pythonpath", sys.executable]
    run = subprocess.run(
        [*command, "--outputjson", *map(str, programs)], capture_output=True, text=True, check=False, cwd=HERE
    )
    assert run.returncode in (0, 1), run.stdout + run.stderr
    result = json.loads(run.stdout)
    assert result["summary"]["filesAnalyzed"] == len(programs)
    found = {
        (Path(each["file"]).name, each["range"]["start"]["line"] + 1): each["message"]
        for each in result["generalDiagnostics"]
    }
    assert difference(programs, found) == NOTHING


def test_stubs_of_pyflink_have_the_modules_that_there_are() -> None:
    written = {
        path.relative_to(pyflink_stubs.FOLDER): path.read_text(encoding="utf-8")
        for path in pyflink_stubs.FOLDER.rglob("*.pyi")
    }
    assert written == pyflink_stubs.stubs(), "run python -m firesteel_support.pyflink_stubs"
    assert Path("datastream", "functions.pyi") in written
    assert Path("common", "__init__.pyi") in written


def test_the_wheel_brings_the_stubs_and_says_that_it_is_typed(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {
        "firesteel/py.typed",
        *(f"pyflink-stubs/{path.as_posix()}" for path in pyflink_stubs.stubs()),
    } <= names


def test_good_programs_can_be_built() -> None:
    """Everything that is subscripted at run time can be; only what runs jobs is left out."""
    import good_programs

    from firesteel.datastream import StreamExecutionEnvironment

    env = StreamExecutionEnvironment.get_execution_environment()
    good_programs.record_by_record(env)
    good_programs.in_windows(env)
    good_programs.of_two_streams(env)
    good_programs.by_objects(env)
