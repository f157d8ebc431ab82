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
    """Processes that run the same program.

    A leader that gets no processor for as long as ``lease`` is replaced, and machines may be slow: so it is long, except
    where somebody waits for its end.
    """

    lease = "30 s"

    def __init__(self, program: str, directory: Path) -> None:
        self._program, self._directory = program, directory
        self.started: list[Any] = []

    @property
    def arguments(self) -> list[str]:
        options = {
            "high-availability.type": "filesystem",
            "high-availability.filesystem.lease-timeout": self.lease,
            "execution.checkpointing.interval": "1 h",
            "execution.checkpointing.dir": str(self._directory),
        }
        definitions = [word for key, value in options.items() for word in ("-D", f"{key}={value}")]
        return ["run", "-p", "1", *definitions, self._program]

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
def test_standby_resumes_when_the_leader_is_killed(drivers: Drivers, number: int) -> None:
    drivers.lease = "2 s"
    leader = drivers.start_leader()
    standby = drivers.start_standby(leader)
    leader.send_signal(number)
    output, errors = leader.communicate(timeout=600)
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
    output, errors = standby.communicate(timeout=600)
    assert re.fullmatch(
        rf"job 'wait' \({JOB_ID}\) is CANCELED in the driver that led it, so this standby driver ends\n",
        errors,
    )
    assert (standby.returncode, output) == (0, ""), "what follows execute() is not done by a standby"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_waiting_can_be_interrupted(drivers: Drivers, number: int, code: int) -> None:
    standby = drivers.start_standby(drivers.start_leader())
    standby.send_signal(number)
    assert standby.communicate(timeout=600) == ("", "interrupted\n")
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


def test_volume_that_is_away_for_longer_than_the_lease_costs_nobody_anything(
    drivers: Drivers, tmp_path: Path
) -> None:
    drivers.lease = "6 s"
    leader = drivers.start_leader()
    standby = drivers.start_standby(leader)
    (tmp_path / "checkpoints").rename(tmp_path / "away")
    (tmp_path / "checkpoints").mkdir()
    said = standby.stderr.readline()
    assert "leader 1 was there and is not any more: is a volume not mounted?" in said
    assert "leader 1 is not written down any more" in leader.stderr.readline()
    (tmp_path / "checkpoints").rename(tmp_path / "underneath")
    (tmp_path / "away").rename(tmp_path / "checkpoints")
    leader.send_signal(signal.SIGTERM)
    leader.communicate(timeout=600)
    assert leader.returncode == 143
    said = standby.stderr.readline()
    assert re.fullmatch(rf"this driver takes job 'wait' \({JOB_ID}\) over, as leader 2\n", said)
    assert standby.stdout.readline() == "waiting\n"
