"""``firesteel run`` while Spark starts: what it says, and how it ends. A Java that never gets ready stands for Spark."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from firesteel.cli.main import main
from firesteel.spark.class_archive import SWITCH_VARIABLE
from firesteel.spark.jvm_process import _SCRIPT_VARIABLES
from firesteel_support.fake_java import NEVER_LISTENS, make_java

Programs = Callable[..., str]
COMMAND = [sys.executable, "-m", "firesteel.cli.main", "run"]
JOB_ID = r"[0-9a-f]{32}"
JOB = """
    from firesteel.datastream import StreamExecutionEnvironment
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_collection([1]).print()
    env.execute("slow")
"""


@pytest.fixture(autouse=True)
def slow_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(make_java(tmp_path, NEVER_LISTENS)))
    monkeypatch.setenv(SWITCH_VARIABLE, "0")
    for name in (*_SCRIPT_VARIABLES, "PYSPARK_GATEWAY_PORT"):
        monkeypatch.delenv(name, raising=False)


def started(tmp_path: Path) -> list[int]:
    """The JVMs that were started; the signal may have come before the first one."""
    if not (tmp_path / "started").exists():
        return []
    return [int(line.split()[0]) for line in (tmp_path / "started").read_text().splitlines()]


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupt_while_spark_starts_ends_it_at_once(
    program: Programs, tmp_path: Path, number: int, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIRESTEEL_PROGRESS", "1")
    command = [*COMMAND, "-p", "1", program(JOB)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "starting Spark ...\n"
        process.send_signal(number)
        output, errors = process.communicate(timeout=600)
    assert process.returncode == code
    assert output == ""
    assert "Traceback" not in errors
    assert not any(map(is_running, started(tmp_path)))


def test_job_that_waits_for_spark_is_cancelled_at_once(
    program: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"""
        import threading
        {JOB.strip().replace('env.execute("slow")', "")}
        from firesteel import launch
        class Watch(launch.JobObserver):
            def job_submitted(self, client):
                self.client = client
            def engine_starting(self, job_id):
                print("cancelling", flush=True)
                threading.Thread(target=self.client.cancel).start()
        with launch.observe_jobs(Watch()):
            env.execute("slow")
    """.replace("\n    env", "\n        env")
    done = subprocess.run(
        [*COMMAND, "-p", "1", program(text)], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.stdout == "cancelling\n"
    assert re.fullmatch(rf"job slow \({JOB_ID}\) was cancelled\n", done.stderr)
    assert not any(map(is_running, started(tmp_path)))


def test_detached_run_returns_when_the_job_is_known_and_only_spark_is_missing(
    program: Programs, tmp_path: Path
) -> None:
    result = CliRunner().invoke(main, ["run", "-d", "-p", "1", program(JOB)])
    found = re.fullmatch(
        rf"Job has been submitted with JobID ({JOB_ID})\nProcess (\d+) runs it, with output to .*\.\n"
        rf"Spark is starting; 'firesteel list' shows when the job runs\.\n'firesteel cancel \1' cancels it\.\n",
        result.stdout,
    )
    assert found, result.output
    cancelled = CliRunner().invoke(main, ["cancel", found[1]])
    assert cancelled.exit_code == 0, cancelled.output
    os.waitpid(int(found[2]), 0)
    assert not any(map(is_running, started(tmp_path)))


def test_detached_run_still_tells_what_is_wrong_before_spark_starts(
    program: Programs, tmp_path: Path
) -> None:
    result = CliRunner().invoke(main, ["run", "-d", "-p", "7", "-m", "local[1]", program(JOB)])
    assert result.exit_code == 1
    assert "needs 8 slots" in result.stderr or "needs 7 slots" in result.stderr
    assert "-m 'local[" in result.stderr
    assert not (tmp_path / "started").exists(), "a JVM was started for nothing"


@pytest.mark.parametrize("master", ["sparky://host:7077", "spark://host"])
def test_url_that_no_spark_understands_is_a_mistake_of_the_command_line(
    program: Programs, tmp_path: Path, master: str
) -> None:
    result = CliRunner().invoke(main, ["run", "-m", master, program("raise AssertionError")])
    assert result.exit_code == 2
    assert f"no Spark master has the URL '{master}'" in result.stderr
    assert not (tmp_path / "started").exists(), "a JVM was started for nothing"
