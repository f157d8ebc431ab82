"""The programs for Structured Streaming in docs/from_structured_streaming.md run on Spark, and give what the page says."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "from_structured_streaming.md"

#: Few partitions, because the page's defaults (200 of them) take minutes on a small machine.
SETTINGS = {"spark.master": "local[2]", "spark.sql.shuffle.partitions": "2", "spark.ui.enabled": "false"}

BORDER = "=" * 20


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def rows(console: str) -> list[tuple[str, ...]]:
    """The rows of all tables that the console sink has printed, without their headers."""
    tables = re.findall(r"^\+[-+]+\+\n\|.*\|\n\+[-+]+\+\n((?:\|.*\|\n)*)", console, re.MULTILINE)
    lines = [line for table in tables for line in table.splitlines()]
    return sorted(tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines)


@pytest.mark.slow
def test_programs_side_by_side_give_the_same(tmp_path: Path) -> None:
    input_files = next(block for block in blocks("python") if 'Path("orders").mkdir()' in block)
    made = re.findall(r'^Path\(.*?(?:\)|"""\))$', input_files, re.MULTILINE | re.DOTALL)
    program = f"\nprint({BORDER!r}, flush=True)\n".join(blocks("py structured-streaming"))
    (tmp_path / "program.py").write_text("\n".join(["from pathlib import Path", *made, program]))
    arguments = [argument for name, value in SETTINGS.items() for argument in ("--conf", f"{name}={value}")]
    done = subprocess.run(
        [sys.executable, "program.py"],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_SUBMIT_ARGS": f"{' '.join(arguments)} pyspark-shell",
            "TZ": "UTC",
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    _, sums, once, _, quiet, paid = done.stdout.split(BORDER)
    assert rows(sums) == [
        ("1970-01-01 00:00:00", "ada", "40"),
        ("1970-01-01 00:00:00", "alan", "30"),
        ("1970-01-01 00:00:10", "ada", "5"),
    ]
    assert rows(once) == [
        ("1", "ada", "20"),
        ("2", "alan", "30"),
        ("3", "ada", "5"),
        ("4", "grace", "10"),
    ]
    with sqlite3.connect(tmp_path / "spark.db") as db:
        orders = db.execute("SELECT * FROM orders").fetchall()
    db.close()
    assert orders == [(1, "ada", 20), (2, "alan", 30), (3, "ada", 5), (4, "grace", 10)]
    assert rows(quiet) == [("ada", "45"), ("alan", "30")], (
        "Spark's query ends before it is late enough for grace"
    )
    assert rows(paid) == [("1", "ada"), ("4", "grace")]
