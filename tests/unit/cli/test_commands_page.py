"""The pages name every command with all of its options, and no others."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from firesteel.cli.main import main

DOCS = Path(__file__).parents[3] / "docs"
TABLE_ROW = re.compile(r"^\| (`-.*?) \|", re.MULTILINE)
OPTION = re.compile(r"(?<![\w`-])--?[A-Za-z][\w-]*")


def commands(group: click.Group, prefix: str = "") -> dict[str, click.Command]:
    """All commands by their whole names; a group of commands stands for those in it."""
    found: dict[str, click.Command] = {}
    for name, command in group.commands.items():
        whole = f"{prefix}{name}"
        found |= commands(command, f"{whole} ") if isinstance(command, click.Group) else {whole: command}
    return found


COMMANDS = commands(main)


def sections(name: str) -> list[str]:
    """What the pages say below the heading of a command."""
    heading = re.compile(rf"^##+ firesteel {name}$(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
    return [text for page in DOCS.glob("*.md") for text in heading.findall(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_a_command_has_a_section_with_its_options(name: str) -> None:
    (text,) = sections(name)
    rows = " ".join(TABLE_ROW.findall(text)).replace("`", " ")
    options = {
        word
        for parameter in COMMANDS[name].params
        if isinstance(parameter, click.Option) and not parameter.hidden
        for word in parameter.opts
    }
    if name == "info":  # those of run, as far as they have a meaning
        assert "--format" in text
        return
    assert set(OPTION.findall(rows)) == options


@pytest.mark.parametrize("name", sorted({name.split()[0] for name in COMMANDS}))
def test_the_page_of_commands_has_all(name: str) -> None:
    assert re.search(rf"\b{name}`\]", (DOCS / "commands.md").read_text(encoding="utf-8"))
