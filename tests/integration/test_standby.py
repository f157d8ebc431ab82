"""Several drivers of one job on real Spark: one leads, another one takes over, and the output is exactly once."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from recovery_job import OPTIONS, check, shown, tell_to_end
from support import PROGRAMS, Driver, is_jvm, until

Start = Callable[..., Driver]


def command(directory: Path) -> list[str]:
    options = {
        **OPTIONS,
        "execution.checkpointing.dir": str(directory / "checkpoints"),
        "high-availability.type": "filesystem",
        "high-availability.filesystem.lease-timeout": "2 s",
    }
    definitions = [word for key, value in options.items() for word in ("-D", f"{key}={value}")]
    run = ["-m", "firesteel.cli.main", "run", "-p", "2", *definitions]
    return [*run, str(PROGRAMS / "recovering.py"), str(directory), "1000"]


def await_error_output(driver: Driver, text: str) -> None:
    def said() -> bool:
        assert text in driver.stderr() or driver.popen.poll() is None, driver.stderr()
        return text in driver.stderr()

    until(said, 60, f"{text!r} on the standard error")


def await_more(driver: Driver, directory: Path, than: int) -> int:
    def more() -> bool:
        assert driver.popen.poll() is None, driver.stderr()
        return len(shown(directory)) > than

    until(more, 60, "output")
    return len(shown(directory))


@pytest.mark.spark
@pytest.mark.slow
def test_standby_goes_on_after_the_death_of_the_leader_and_ends_with_the_job(
    driver: Start, tmp_path: Path
) -> None:
    leader = driver(*command(tmp_path))
    await_more(leader, tmp_path, 0)
    standby = driver(*command(tmp_path))
    await_error_output(standby, f"process {leader.popen.pid} leads it")
    assert not any(map(is_jvm, standby.family())), "nothing is started before it leads"
    os.kill(leader.popen.pid, signal.SIGKILL)
    await_error_output(standby, "this driver takes job 'recovering'")
    until(lambda: not leader.family(), 30, "everything of the first driver is gone")
    seen = await_more(standby, tmp_path, len(shown(tmp_path)))
    another, superfluous = driver(*command(tmp_path)), driver(*command(tmp_path))
    for waiting in (another, superfluous):
        await_error_output(waiting, f"process {standby.popen.pid} leads it")
    superfluous.popen.terminate()
    assert superfluous.wait() == 128 + signal.SIGTERM
    tell_to_end(tmp_path)
    assert standby.wait() == 0, standby.stderr()
    assert another.wait() == 0, another.stderr()
    assert "is FINISHED in the driver that led it, so this standby driver ends" in another.stderr()
    assert check(tmp_path) >= seen


@pytest.mark.spark
@pytest.mark.slow
def test_leader_that_was_held_up_gives_way(driver: Start, tmp_path: Path) -> None:
    leader = driver(*command(tmp_path))
    await_more(leader, tmp_path, 0)
    standby = driver(*command(tmp_path))
    await_error_output(standby, f"process {leader.popen.pid} leads it")
    os.kill(leader.popen.pid, signal.SIGSTOP)
    await_error_output(standby, "this driver takes job 'recovering'")
    await_more(standby, tmp_path, len(shown(tmp_path)))
    os.kill(leader.popen.pid, signal.SIGCONT)
    assert leader.wait() == 1
    assert "JobTakenOverError" in leader.stderr()
    seen = await_more(standby, tmp_path, len(shown(tmp_path)))
    tell_to_end(tmp_path)
    assert standby.wait() == 0, standby.stderr()
    assert check(tmp_path) >= seen
