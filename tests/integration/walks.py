"""Following a page of the documentation: its blocks are run in order, and print what it shows.

Blocks marked ``sh`` are run and must print what the next ``text`` block shows, where ``...`` stands for anything;
``sh watch`` is repeated until it does. Words in capitals stand for what earlier commands have printed.
"""

from __future__ import annotations

import doctest
import itertools
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from support import PATIENCE, until

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)

#: What a word in capitals stands for: the newest text that a pattern finds in what this gives.
Words = Mapping[str, tuple[str, Callable[[], str]]]


class Walk:
    """A user at a terminal, in ``directory``. ``variables`` are added to the environment."""

    def __init__(self, directory: Path, words: Words, variables: Mapping[str, str] | None = None) -> None:
        self.directory = directory
        self._words = words
        self._environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "FIRESTEEL_HOME": str(directory / "home"),
            **(variables or {}),
        }
        self.printed = ""

    @property
    def where(self) -> Path:
        """In which directory the next block is run."""
        return self.directory

    def told(self) -> str:
        """What helps whoever reads why a walk has failed."""
        return ""

    def run(self, command: str) -> str:
        """Run a block."""
        done = subprocess.run(
            ["bash", "-e", "-c", self.filled_in(command)],
            cwd=self.where,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode in (0, 1), f"{command}\n{done.stdout}{done.stderr}\n{self.told()}"
        self.printed += done.stdout
        return done.stdout + done.stderr

    def watch(self, command: str, expected: str) -> None:
        """Run a block again and again until it prints what it should."""
        printed: list[str] = []

        def is_there() -> bool:
            printed[:] = [self.run(command)]
            return as_shown(expected, self.as_on_the_page(printed[0]))

        try:
            until(is_there)
        except AssertionError:
            pytest.fail(f"{command}should print\n{expected}but prints\n{printed[0]}\n{self.told()}")

    def follow(self, info: str, text: str, expected: str | None) -> None:
        """Do what a block says."""
        if info == "sh watch":
            assert expected is not None
            self.watch(text, expected)
        elif info == "sh":
            printed = self.as_on_the_page(self.run(text))
            is_so = expected is None or as_shown(expected, printed)
            assert is_so, f"{text}should print\n{expected}but printed\n{printed}\n{self.told()}"

    def filled_in(self, command: str) -> str:
        """A command with what its words in capitals stand for."""
        for word, (pattern, source) in self._words.items():
            if re.search(rf"\b{word}\b", command):
                found = re.findall(pattern, source())
                assert found, f"what is {word} in {command!r}? nothing was printed that says it"
                command = re.sub(rf"\b{word}\b", found[-1], command)
        return command

    def as_on_the_page(self, printed: str) -> str:
        """What was printed, as the page shows it."""
        return printed


def as_shown(shown: str, printed: str) -> bool:
    """Whether a page shows what was printed."""
    return doctest.OutputChecker().check_output(shown, printed, doctest.ELLIPSIS)


def blocks_of(text: str) -> list[tuple[str, str, str | None]]:
    """Every block of a page, with how it is marked and what it should print."""
    found = [(match["info"], match["text"]) for match in FENCE.finditer(text)]
    return [
        (info, block, shown if next_info == "text" else None)
        for (info, block), (next_info, shown) in itertools.pairwise([*found, ("", "")])
    ]
