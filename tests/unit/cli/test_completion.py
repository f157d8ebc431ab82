"""Shell completion: commands, options, values and job ids, as shells ask for them."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from firesteel.cli.main import main
from firesteel.jobmaster.remote.registry import RegistryEntry, register

JOB = "ab" * 16


def completed(*words: str) -> list[str]:
    """What the last word may become."""
    complete = ShellComplete(main, {}, "firesteel", "_FIRESTEEL_COMPLETE")
    return [item.value for item in complete.get_completions(list(words[:-1]), words[-1])]


def test_commands_are_completed() -> None:
    assert sorted(completed("c")) == sorted(name for name in main.commands if name.startswith("c"))
    assert set(completed("")) == set(main.commands)


@pytest.mark.parametrize("name", sorted(main.commands))
def test_all_options_of_a_command_are_completed(name: str) -> None:
    options = {
        word
        for parameter in main.commands[name].params
        for word in parameter.opts
        if parameter.param_type_name == "option" and not parameter.hidden  # type: ignore[attr-defined]
    }
    assert options <= set(completed(name, "-"))


def test_values_are_completed() -> None:
    assert completed("completion", "") == ["bash", "zsh", "fish"]
    assert completed("savepoint", "-type", "n") == ["native"]


@pytest.mark.parametrize("command", ["cancel", "stop", "savepoint", "checkpoint", "modify", "top"])
def test_ids_of_running_jobs_are_completed(command: str) -> None:
    registration = register(RegistryEntry(JOB, "orders", os.getpid(), socket.gethostname(), 1))
    try:
        assert completed(command, "a") == [JOB]
        assert completed(command, "-m", "host:1", "") == [JOB]
        assert completed(command, "b") == []
    finally:
        registration.withdraw()


@pytest.mark.parametrize("command", ["run", "info"])
def test_programs_are_completed_as_files(command: str) -> None:
    complete = ShellComplete(main, {}, "firesteel", "_FIRESTEEL_COMPLETE")
    assert [item.type for item in complete.get_completions([command, "-p", "2"], "jo")] == ["file"]
    assert complete.get_completions([command, "--no-such-option"], "") is not None


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_one_for_its_shell(shell: str) -> None:
    result = CliRunner().invoke(main, ["completion", shell])
    assert result.exit_code == 0, result.output
    assert f"_FIRESTEEL_COMPLETE={shell}_complete" in result.stdout
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=result.stdout, text=True, check=True)


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_completes_with_the_script(tmp_path: Path) -> None:
    script = CliRunner().invoke(main, ["completion", "bash"]).stdout
    command = tmp_path / "firesteel"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m firesteel.cli.main "$@"\n')
    command.chmod(0o755)
    asked = f"""
        {script}
        COMP_WORDS=(firesteel ch); COMP_CWORD=1
        _firesteel_completion firesteel
        echo "${{COMPREPLY[@]}}"
        complete -p firesteel
    """
    done = subprocess.run(
        ["bash", "--norc", "-c", asked],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )
    first, second = done.stdout.splitlines()
    assert first == "checkpoint"
    assert "-F _firesteel_completion firesteel" in second


def test_another_shell_is_a_mistake() -> None:
    result = CliRunner().invoke(main, ["completion", "tcsh"])
    assert (result.exit_code, "'bash', 'zsh', 'fish'" in result.stderr) == (2, True)
