"""The walkthrough of docs/savepoints.md does what it says: its commands are run here, in order, with its changes.

Blocks marked ``sh`` are run and must print what the next ``text`` block shows, where ``...`` stands for anything;
``sh watch`` is repeated until it does. Words in capitals stand for what earlier commands have printed.
"""

from __future__ import annotations

import contextlib
import doctest
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import PATIENCE, until

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
COUNTED = re.compile(r"visitor (\d+) is number (\d+) at the (\w+) door")
DOORS = ["north", "east", "south", "west"]


class Walk:
    """A user at a terminal who follows the page."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "FIRESTEEL_HOME": str(directory / "home"),
        }
        self.museum = directory / "museum"
        self.printed = ""

    @property
    def log(self) -> str:
        return (self.museum / "visitors.log").read_text()

    def run(self, command: str) -> str:
        """Run a block, in the directory in which the one before it ended."""
        where = self.museum if self.museum.exists() else self._directory
        done = subprocess.run(
            ["bash", "-e", "-c", self._filled_in(command)],
            cwd=where,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode in (0, 1), f"{command}\n{done.stdout}{done.stderr}\n{self.log}"
        self.printed += done.stdout
        return done.stdout + done.stderr

    def watch(self, command: str, expected: str) -> None:
        """Run a block again and again until it prints what it should."""
        printed: list[str] = []

        def is_there() -> bool:
            printed[:] = [self.run(command)]
            return as_shown(expected, printed[0])

        try:
            until(is_there)
        except AssertionError:
            pytest.fail(f"{command}should print\n{expected}but prints\n{printed[0]}\n{self.log}")

    def _filled_in(self, command: str) -> str:
        sources = {
            "TASK": (r"is in process (\d+)", lambda: self.log),
            "PROCESS": (r"Process (\d+) runs it", lambda: self.printed),
            "JOB_ID": (r"JobID (\w+)", lambda: self.printed),
            "SAVEPOINT": (r"Savepoint completed\. Path: (.*)", lambda: self.printed),
        }
        for word, (pattern, source) in sources.items():
            if re.search(rf"\b{word}\b", command):
                command = re.sub(rf"\b{word}\b", re.findall(pattern, source())[-1], command)
        return command

    def save(self, name: str, text: str) -> None:
        (self.museum / name).write_text(text)

    def change(self, diff: str) -> None:
        """Replace lines of the program, as the page shows them."""
        path = self.museum / "visitors.py"
        text = path.read_text()
        for old, new in re.findall(r"((?:^-.*\n)+)((?:^\+.*\n)+)", diff, re.MULTILINE):
            before, after = (re.sub(r"^[-+]", "", part, flags=re.MULTILINE) for part in (old, new))
            assert text.count(before) == 1, before
            text = text.replace(before, after)
        path.write_text(text)

    def drivers(self) -> Iterator[int]:
        """Processes that a test that failed may have left."""
        for found in re.findall(r"Process (\d+) runs it", self.printed):
            yield int(found)


@pytest.fixture
def walk(tmp_path: Path) -> Iterator[Walk]:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    walk = Walk(tmp_path)
    yield walk
    for pid in walk.drivers():
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)


def as_shown(shown: str, printed: str) -> bool:
    return doctest.OutputChecker().check_output(shown, printed, doctest.ELLIPSIS)


def blocks() -> list[tuple[str, str]]:
    text = (ROOT / "docs" / "savepoints.md").read_text(encoding="utf-8")
    return [(match["info"], match["text"]) for match in FENCE.finditer(text)]


def test_the_walkthrough_does_what_it_says(walk: Walk) -> None:
    page = blocks()
    for (info, text), (next_info, shown) in zip(page, [*page[1:], ("", "")], strict=True):
        expected = shown if next_info == "text" else None
        if info == "sh watch":
            assert expected is not None
            walk.watch(text, expected)
        elif info == "sh":
            printed = walk.run(text)
            assert expected is None or as_shown(expected, printed), f"{text}printed\n{printed}\n{walk.log}"
        elif info == "diff":
            walk.change(text)
        elif info.startswith("py save="):
            walk.save(info.removeprefix("py save="), text)
    counted = [(int(n), int(count), door) for n, count, door in COUNTED.findall(walk.log)]
    assert [each for each in counted if each != (each[0], each[0] // 4 + 1, DOORS[each[0] % 4])] == []
    seen = {number for number, _, _ in counted}
    missing = set(range(max(seen))) - seen
    assert all(number > max(seen) - 40 for number in missing)  # subtasks do not end at the same visitor
    assert re.search(r"door, after \d", walk.log)
