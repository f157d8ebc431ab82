"""The walkthrough of docs/savepoints.md does what it says: its commands are run here, in order, with its changes."""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from walks import ROOT, Walk, blocks_of

pytestmark = [pytest.mark.spark, pytest.mark.slow]

COUNTED = re.compile(r"visitor (\d+) is number (\d+) at the (\w+) door")
DOORS = ["north", "east", "south", "west"]


class Museum(Walk):
    """A user who follows the page: everything but the first block happens in the directory that it makes."""

    def __init__(self, directory: Path) -> None:
        self.museum = directory / "museum"
        super().__init__(
            directory,
            {
                "TASK": (r"is in process (\d+)", lambda: self.log),
                "PROCESS": (r"Process (\d+) runs it", lambda: self.printed),
                "JOB_ID": (r"JobID (\w+)", lambda: self.printed),
                "SAVEPOINT": (r"Savepoint completed\. Path: (.*)", lambda: self.printed),
            },
        )

    @property
    def where(self) -> Path:
        return self.museum if self.museum.exists() else self.directory

    @property
    def log(self) -> str:
        return (self.museum / "visitors.log").read_text()

    def told(self) -> str:
        return self.log

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
def walk(tmp_path: Path) -> Iterator[Museum]:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    walk = Museum(tmp_path)
    yield walk
    for pid in walk.drivers():
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)


def test_the_walkthrough_does_what_it_says(walk: Museum) -> None:
    page = (ROOT / "docs" / "savepoints.md").read_text(encoding="utf-8")
    for info, text, expected in blocks_of(page):
        if info == "diff":
            walk.change(text)
        elif info.startswith("py save="):
            walk.save(info.removeprefix("py save="), text)
        else:
            walk.follow(info, text, expected)
    counted = [(int(n), int(count), door) for n, count, door in COUNTED.findall(walk.log)]
    assert [each for each in counted if each != (each[0], each[0] // 4 + 1, DOORS[each[0] % 4])] == []
    seen = {number for number, _, _ in counted}
    missing = set(range(max(seen))) - seen
    assert all(number > max(seen) - 40 for number in missing)  # subtasks do not end at the same visitor
    assert re.search(r"door, after \d", walk.log)
