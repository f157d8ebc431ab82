"""Help of all commands: whole sentences, examples, and no line that is too long for a terminal."""

from __future__ import annotations

import re
import shlex

import click
import pytest
from click.testing import CliRunner

from firesteel.cli.main import main

COMMANDS = sorted(main.commands)


def help_of(*command: str) -> str:
    result = CliRunner().invoke(main, [*command, "--help"], terminal_width=80)
    assert result.exit_code == 0
    return result.stdout


def test_no_description_of_a_command_is_cut() -> None:
    text = help_of()
    for name in COMMANDS:
        (line,) = re.findall(rf"^  {name} +(.*)$", text, re.MULTILINE)
        assert line == main.commands[name].short_help
        assert line.endswith(".")
        assert not line.endswith("...")


@pytest.mark.parametrize(
    "command", [[], *([name] for name in COMMANDS)], ids=lambda words: " ".join(words) or "firesteel"
)
def test_every_help_has_examples_and_fits(command: list[str]) -> None:
    text = help_of(*command)
    assert "\n  Examples:\n    # " in text
    assert max(map(len, text.splitlines())) <= 80
    assert "..." not in text.replace("[ARGUMENTS]...", "").replace("COMMAND [ARGS]...", "")


@pytest.mark.parametrize("name", COMMANDS)
def test_options_have_help(name: str) -> None:
    options = [
        each for each in main.commands[name].params if isinstance(each, click.Option) and not each.hidden
    ]
    assert [option.name for option in options if not option.help] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_are_understood(name: str) -> None:
    commands = re.findall(r"^    (firesteel .*)$", help_of(name), re.MULTILINE)
    assert commands
    for text in commands:
        words = shlex.split(text.partition(" > ")[0])
        assert words[1] == name
        command = main.commands[name]
        command.make_context(name, words[2:])  # parsed as the command itself would
