"""Programs written for PyFlink run unchanged."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support import PROGRAMS, Driver

pytestmark = pytest.mark.spark

EXPECTED = {
    "pyflink_operations.py": [
        "doubled> 2", "doubled> 4", "doubled> 6", "flat> a", "flat> b", "flat> c", "keyed> (1,aa)", "keyed> (2,b)", "kept> 3",
    ],
    "pyflink_json.py": [
        '{"id": 1, "tel": 135, "country": "de"}', '{"id": 2, "tel": 136, "country": "fr"}', '{"id": 3, "tel": 137, "country": "de"}',
    ],
    "pyflink_word_count.py": ["(be,1)", "(be,2)", "(not,1)", "(or,1)", "(to,1)", "(to,2)"],
}  # fmt: skip


@pytest.mark.parametrize("program", EXPECTED)
def test_pyflink_program_runs_unchanged(program: str, driver: Callable[..., Driver]) -> None:
    check(driver("-m", "firesteel.cli.main", "run", "--pyflink", str(PROGRAMS / program)), program)


def test_alias_module_runs_a_pyflink_program_without_the_command(driver: Callable[..., Driver]) -> None:
    program = "pyflink_word_count.py"
    check(driver("-m", "firesteel.pyflink_alias", str(PROGRAMS / program)), program)


def check(run: Driver, program: str) -> None:
    assert run.wait() == 0, run.stderr()
    assert sorted(run.stdout().splitlines()) == sorted(EXPECTED[program])
    assert run.stderr() == ""
