"""The page on the cluster service, followed on Spark: start, submit by HTTP and by command line, watch, savepoint, kill, cancel, stop."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import until

from firesteel.service.folder import ServiceFolder
from firesteel.service.processes import is_alive
from firesteel_support.cluster_service import ServiceClient

pytestmark = pytest.mark.spark

#: Numbers for ever, slowly; their sums by key, with state that checkpoints hold.
PROGRAM = textwrap.dedent(
    """
    import sys, time
    from firesteel.common import WatermarkStrategy
    from firesteel.datastream import StreamExecutionEnvironment
    from firesteel.datastream.connectors.number_seq import NumberSequenceSource

    env = StreamExecutionEnvironment.get_execution_environment()
    last = 10 if "--short" in sys.argv else 10**9
    source = env.from_source(NumberSequenceSource(1, last), WatermarkStrategy.no_watermarks(), "Numbers")
    slowly = source.map(lambda number: time.sleep(0.001) or number)
    slowly.key_by(lambda number: number % 3).reduce(lambda one, other: one + other).print()
    env.execute("sums")
    """
)


def command(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "firesteel.cli.main", *words], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServiceClient]:
    """A service as a user starts it, with a spare driver."""
    monkeypatch.setenv("FIRESTEEL_HOME", str(tmp_path / "home"))
    told = command(
        "cluster", "start", "-D", "rest.port=0", "-D", f"jobmanager.archive.fs.dir={tmp_path / 'archive'}"
    )
    url = re.search(r"http://[\w.]+:\d+", told)
    assert url is not None, told
    yield ServiceClient(url[0])
    command("cluster", "stop")


def test_the_page_of_the_service(service: ServiceClient, tmp_path: Path) -> None:
    folder = ServiceFolder(tmp_path / "home" / "cluster")
    program = tmp_path / "job.py"
    program.write_text(PROGRAM)
    # Plain HTTP: upload, run, watch.
    jar = service.upload("job.py", PROGRAM)
    checkpoints = {
        "execution.checkpointing.interval": "200 ms",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
    }
    job = service.run(jar, parallelism=1, flinkConfiguration=checkpoints)
    service.await_state(job, "RUNNING")
    service.wait_for(f"/jobs/{job}/checkpoints", lambda answer: answer["counts"]["completed"] > 0)
    # The command line, while the first job runs: a job that ends, with what it prints.
    assert "1 running" in command("cluster", "status")
    output = command("run", "-m", service.url, "-p", "1", str(program), "--short")
    assert "has finished" in output
    assert sorted(set(re.findall(r"^\d+$", output, re.MULTILINE)) & {"22", "15", "18"}) == ["15", "18", "22"]
    # A driver that is killed comes back with what its newest checkpoint had.
    report = folder.job(job).report()
    assert report is not None
    os.kill(report.process.pid, signal.SIGKILL)

    def restored() -> bool:
        status, answer = service.call("GET", f"/jobs/{job}/checkpoints")
        return status == 200 and answer["latest"]["restored"] is not None

    until(restored, "the job resumes")
    # A savepoint, and the end.
    service.await_state(job, "RUNNING")
    status, trigger = service.call(
        "POST", f"/jobs/{job}/savepoints", {"target-directory": str(tmp_path / "savepoints")}
    )
    assert status == 202, trigger
    assert "savepoints" in service.outcome(f"/jobs/{job}/savepoints", trigger)["location"]
    assert service.call("PATCH", f"/jobs/{job}")[0] == 202
    service.await_state(job, "CANCELED")
    until(lambda: len(list((tmp_path / "archive").iterdir())) == 2, "both jobs are archived")
    until(lambda: not any(is_alive(each.report().process) for each in folder.all_jobs()), "drivers end")  # type: ignore[union-attr]
