"""Several ``firesteel run`` of one job: who runs it, who waits, and how they end."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from firesteel.cli.main import main

Programs = Callable[..., str]
JOB_ID = r"[0-9a-f]{32}"


class Drivers:
    """Processes that run the same program."""

    def __init__(self, program: str, directory: Path) -> None:
        options = {
            "high-availability.type": "filesystem",
            "high-availability.filesystem.lease-timeout": "2 s",
            "execution.checkpointing.interval": "1 h",
            "execution.checkpointing.dir": str(directory),
        }
        definitions = [word for key, value in options.items() for word in ("-D", f"{key}={value}")]
        self.arguments = ["run", "-p", "1", *definitions, program]
        self.started: list[Any] = []

    def start(self) -> Any:
        command = [sys.executable, "-m", "firesteel.cli.main", *self.arguments]
        self.started.append(
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        )
        return self.started[-1]

    def start_leader(self) -> Any:
        leader = self.start()
        assert leader.stdout.readline() == "waiting\n"
        return leader

    def start_standby(self, leader: Any) -> Any:
        standby = self.start()
        said = standby.stderr.readline()
        assert re.fullmatch(
            rf"standing by for job 'wait' \({JOB_ID}\): .*, process {leader.pid} leads it\n", said
        )
        return standby


@pytest.fixture
def drivers(program: Programs, tmp_path: Path) -> Iterator[Drivers]:
    found = Drivers(
        program("import engine; engine.execute('wait'); print('after')"), tmp_path / "checkpoints"
    )
    yield found
    for process in found.started:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_standby_goes_on_when_the_leader_is_killed(drivers: Drivers, number: int) -> None:
    leader = drivers.start_leader()
    standby = drivers.start_standby(leader)
    leader.send_signal(number)
    output, errors = leader.communicate(timeout=20)
    if number == signal.SIGTERM:
        assert leader.returncode == 143
        assert re.fullmatch(rf"job wait \({JOB_ID}\) was left to another driver\n", errors)
    assert "after" not in output
    said = standby.stderr.readline()
    assert re.fullmatch(rf"this driver takes job 'wait' \({JOB_ID}\) over, as leader 2\n", said)
    assert standby.stdout.readline() == "waiting\n"


def test_standby_ends_well_when_the_job_is_cancelled(drivers: Drivers) -> None:
    leader = drivers.start_leader()
    standby = drivers.start_standby(leader)
    leader.send_signal(signal.SIGINT)
    output, errors = standby.communicate(timeout=20)
    assert re.fullmatch(
        rf"job 'wait' \({JOB_ID}\) is CANCELED in the driver that led it, so this standby driver ends\n",
        errors,
    )
    assert (standby.returncode, output) == (0, ""), "what follows execute() is not done by a standby"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_waiting_can_be_interrupted(drivers: Drivers, number: int, code: int) -> None:
    standby = drivers.start_standby(drivers.start_leader())
    standby.send_signal(number)
    assert standby.communicate(timeout=20) == ("", "interrupted\n")
    assert standby.returncode == code


def test_standby_in_the_background_is_announced(drivers: Drivers) -> None:
    leader = drivers.start_leader()
    result = CliRunner().invoke(main, ["run", "-d", *drivers.arguments[1:]])
    found = re.match(
        rf"Job has been submitted with JobID {JOB_ID}\nProcess (\d+) stands by for it, with output to ",
        result.stdout,
    )
    assert found, result.output
    leader.send_signal(signal.SIGINT)
    _, status = os.waitpid(int(found[1]), 0)
    assert os.waitstatus_to_exitcode(status) == 0
