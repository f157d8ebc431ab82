"""Programs written for PyFlink run unchanged."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support import PROGRAMS, Driver, start_driver

pytestmark = pytest.mark.spark

EXPECTED = {
    "pyflink_operations.py": [
        "doubled> 2", "doubled> 4", "doubled> 6", "flat> a", "flat> b", "flat> c", "keyed> (1,aa)", "keyed> (2,b)", "kept> 3",
    ],
    "pyflink_json.py": [
        '{"id": 1, "tel": 135, "country": "de"}', '{"id": 2, "tel": 136, "country": "fr"}', '{"id": 3, "tel": 137, "country": "de"}',
    ],
    "pyflink_windows.py": [
        "count> (blue,12)", "count> (red,14)", "count> (red,3)", "dynamic> (blue,12,36,1)", "dynamic> (blue,2,6,1)",
        "dynamic> (red,1,42,4)",
        "session> (blue,12,17,1)", "session> (blue,2,7,1)", "session> (red,1,8,2)", "session> (red,9,19,2)",
        "sliding> (blue,-5,5,1)", "sliding> (blue,0,10,1)", "sliding> (blue,10,20,1)", "sliding> (blue,5,15,1)",
        "sliding> (red,-5,5,2)", "sliding> (red,0,10,3)", "sliding> (red,10,20,1)", "sliding> (red,5,15,2)",
        "tumbling> (blue,0,10,1)", "tumbling> (blue,10,20,1)", "tumbling> (red,0,10,3)", "tumbling> (red,10,20,1)",
    ],
    "pyflink_state_and_timers.py": [
        "('north', 2)", "('south', 2)", "north has 3.5 at 3000", "north has 3.5 at 4000", "south has 4.25 at 5000", "south has 4.25 at 8000",
    ],
    "pyflink_word_count.py": ["(be,1)", "(be,2)", "(not,1)", "(or,1)", "(to,1)", "(to,2)"],
}  # fmt: skip


@pytest.fixture(scope="module")
def run_of_all(tmp_path_factory: pytest.TempPathFactory) -> Driver:
    programs = [str(PROGRAMS / program) for program in EXPECTED]
    run = start_driver(tmp_path_factory.mktemp("all"), [str(PROGRAMS / "run_many.py"), *programs])
    try:
        assert run.wait() == 0, run.stderr()
    finally:
        run.kill_family()
    return run


def part(text: str, program: str) -> list[str]:
    """The lines of one program in the output of all."""
    lines = text.splitlines()
    begin = lines.index(f"begin {PROGRAMS / program}")
    end = next(n for n, line in enumerate(lines) if n > begin and line.startswith("end "))
    assert lines[end] == "end 0", text
    return lines[begin + 1 : end]


@pytest.mark.parametrize("program", EXPECTED)
def test_pyflink_program_runs_unchanged(program: str, run_of_all: Driver) -> None:
    assert sorted(part(run_of_all.stdout(), program)) == sorted(EXPECTED[program])
    assert part(run_of_all.stderr(), program) == []


def test_alias_module_runs_a_pyflink_program_without_the_command(driver: Callable[..., Driver]) -> None:
    program = "pyflink_word_count.py"
    run = driver("-m", "firesteel.pyflink_alias", str(PROGRAMS / program))
    assert run.wait() == 0, run.stderr()
    assert sorted(run.stdout().splitlines()) == sorted(EXPECTED[program])
    assert run.stderr() == ""
