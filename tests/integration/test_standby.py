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
        "high-availability.filesystem.lease-timeout": "10 s",
    }
    definitions = [word for key, value in options.items() for word in ("-D", f"{key}={value}")]
    run = ["-m", "firesteel.cli.main", "run", "-p", "2", *definitions]
    return [*run, str(PROGRAMS / "recovering.py"), str(directory), "1000"]


def await_error_output(driver: Driver, text: str) -> None:
    def said() -> bool:
        assert text in driver.stderr() or driver.popen.poll() is None, driver.stderr()
        return text in driver.stderr()

    until(said, f"{text!r} on the standard error")


def await_more(driver: Driver, directory: Path, than: int) -> int:
    def more() -> bool:
        assert driver.popen.poll() is None, driver.stderr()
        return len(shown(directory)) > than

    until(more, "output")
    return len(shown(directory))


@pytest.mark.spark
@pytest.mark.slow
def test_standby_drivers_take_over_from_leaders_that_are_held_up_or_die(
    driver: Start, tmp_path: Path
) -> None:
    first = driver(*command(tmp_path))
    await_more(first, tmp_path, 0)
    second = driver(*command(tmp_path))
    await_error_output(second, f"process {first.popen.pid} leads it")
    assert not any(map(is_jvm, second.family())), "nothing is started before it leads"

    os.kill(first.popen.pid, signal.SIGSTOP)
    await_error_output(second, "this driver takes job 'recovering'")
    await_more(second, tmp_path, len(shown(tmp_path)))
    os.kill(first.popen.pid, signal.SIGCONT)
    assert first.wait() == 1
    assert "JobTakenOverError" in first.stderr()

    third = driver(*command(tmp_path))
    await_error_output(third, f"process {second.popen.pid} leads it")
    await_more(second, tmp_path, len(shown(tmp_path)))
    os.kill(second.popen.pid, signal.SIGKILL)
    await_error_output(third, "this driver takes job 'recovering'")
    until(lambda: not second.family(), "everything of the second driver is gone")
    seen = await_more(third, tmp_path, len(shown(tmp_path)))

    fourth, superfluous = driver(*command(tmp_path)), driver(*command(tmp_path))
    for waiting in (fourth, superfluous):
        await_error_output(waiting, f"process {third.popen.pid} leads it")
    superfluous.popen.terminate()
    assert superfluous.wait() == 128 + signal.SIGTERM
    tell_to_end(tmp_path)
    assert third.wait() == 0, third.stderr()
    assert fourth.wait() == 0, fourth.stderr()
    assert "is FINISHED in the driver that led it, so this standby driver ends" in fourth.stderr()
    assert check(tmp_path) >= seen
