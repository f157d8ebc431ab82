"""Commands about jobs say and do the same for a job of this machine and for one of a cluster service; both run in the simulator."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from firesteel.cli.main import main
from firesteel.jobmaster.remote.registry import entries
from firesteel.service.folder import ServiceFolder
from firesteel.service.processes import end_driver
from firesteel_support.cluster_service import SIMULATED, cluster_service

PROGRAM = textwrap.dedent(
    """
    from firesteel.common import WatermarkStrategy
    from firesteel.datastream import StreamExecutionEnvironment
    from firesteel.testing import Emit, ScriptedSource, WaitForever

    env = StreamExecutionEnvironment.get_execution_environment()
    script = ScriptedSource([Emit([1, 2, 3]), WaitForever()])
    numbers = env.from_source(script, WatermarkStrategy.no_watermarks(), "Numbers").set_parallelism(1)
    numbers.key_by(lambda number: number % 2).reduce(lambda one, other: one + other).print()
    env.execute("counting")
    """
)

Firesteel = Callable[..., str]


@pytest.fixture(params=["local", "service"])
def firesteel(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Firesteel]:
    """A command with its options, about the jobs of this machine or of a service; what it says."""
    monkeypatch.setenv("FIRESTEEL_HOME", str(tmp_path / "home"))
    for name in ("FIRESTEEL_PROGRESS", "FIRESTEEL_CONFIG"):
        monkeypatch.delenv(name, raising=False)

    def make(where: list[str]) -> Firesteel:
        def call(command: str, *words: str) -> str:
            done = CliRunner().invoke(main, [command, *where, *words])
            assert done.exit_code == 0, done.output
            return done.output

        return call

    if request.param == "local":
        yield make([])
        for entry in entries():
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                os.kill(entry.pid, signal.SIGKILL)
        return
    folder = tmp_path / "cluster"
    with cluster_service(folder) as service:
        yield make(["-m", service.url])
    for job in ServiceFolder(folder).all_jobs():
        if (report := job.report()) is not None:
            end_driver(report.process, by_force=True)


def start(firesteel: Firesteel, directory: Path) -> str:
    """Run the program in the background; the id of its job, which runs."""
    program = directory / "job.py"
    program.write_text(PROGRAM)
    options = {
        **SIMULATED,
        "rest.port": "0",
        "execution.checkpointing.interval": "1 h",
        "execution.checkpointing.dir": str(directory / "checkpoints"),
    }
    words = [word for key, value in options.items() for word in ("-D", f"{key}={value}")]
    told = firesteel("run", "-d", "-p", "1", *words, str(program))
    found = re.search(r"^Job has been submitted with JobID (\w+)$", told, re.MULTILINE)
    assert found is not None, told
    until(lambda: firesteel("list", "-r"), f"{found[1]} : counting (RUNNING)")
    return found[1]


def until(look: Callable[[], str], expected: str) -> str:
    deadline = time.monotonic() + 120
    while expected not in (seen := look()):
        assert time.monotonic() < deadline, seen
        time.sleep(0.05)
    return seen


def test_a_job_is_listed_watched_saved_rescaled_and_stopped(firesteel: Firesteel, tmp_path: Path) -> None:
    job = start(firesteel, tmp_path)
    until(lambda: firesteel("list", "--tasks"), "RUNNING      Source: Numbers (1/1)")
    assert "Source: Numbers" in until(lambda: firesteel("top", "--once", job), "counting")
    assert f"Checkpoint 1 for job {job} completed." in firesteel("checkpoint", job)
    saved = firesteel("savepoint", job, str(tmp_path / "savepoints"))
    assert f"Savepoint completed. Path: {tmp_path / 'savepoints'}" in saved
    assert f"Rescaled job {job}. Its new parallelism is 2." in firesteel("modify", "-p", "2", job[:8])
    assert "Reduce -> Sink: Print to Std. Out (2/2)" in until(lambda: firesteel("list", "--tasks"), "(2/2)")
    assert re.search(r"^DEBUG +orders$", firesteel("log-level", job, "orders", "DEBUG"), re.MULTILINE)
    assert re.search(r"^DEBUG +orders$", firesteel("log-level", job), re.MULTILINE)
    assert "orders" not in firesteel("log-level", job, "orders", "default")
    stopped = firesteel("stop", "-p", str(tmp_path / "end"), job)
    assert f"Savepoint completed. Path: {tmp_path / 'end'}" in stopped
    ended = until(lambda: firesteel("list", "-a"), f"{job} : counting (FINISHED) ended")
    assert "No running jobs." in ended


def test_a_job_is_cancelled(firesteel: Firesteel, tmp_path: Path) -> None:
    job = start(firesteel, tmp_path)
    assert f"Cancelled job {job}." in firesteel("cancel", job)
    until(lambda: firesteel("list", "-a"), f"{job} : counting (CANCELED) ended")


def test_a_job_that_is_not_there_gets_the_same_sentence(firesteel: Firesteel) -> None:
    for command in ("cancel", "stop", "savepoint", "checkpoint", "top", "log-level"):
        with pytest.raises(AssertionError, match="with id 00000000"):
            firesteel(command, "00000000")
