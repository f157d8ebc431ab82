"""``firesteel list``, ``cancel``, ``savepoint`` and ``stop``: with a scripted job, and with one in another process."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from firesteel.cli.main import main
from firesteel.common.completable_future import CompletableFuture
from firesteel.common.errors import CheckpointError
from firesteel.common.job_client import JobClient
from firesteel.common.job_id import JobID
from firesteel.common.job_status import JobStatus
from firesteel.common.typeinfo import Types
from firesteel.contracts.state import ValueStateDescriptor
from firesteel.jobmaster.remote.endpoint import JobEndpoint
from firesteel.jobmaster.task_states import ExecutionState, TaskStatus
from firesteel.metrics import JobMetrics, MetricKind, MetricValue
from firesteel.state_processor import SavepointWriter

Programs = Callable[..., str]
MOMENT = r"\d\d\.\d\d\.\d{4} \d\d:\d\d:\d\d"
SPAN = r"[\d.]+ .*?"
SIMULATED = """
from firesteel.testing import simulated_environment
env = simulated_environment()
env.from_elements(1).print()
env.execute()
"""
RESUMING = "A program resumes from here with: firesteel run -s PATH PROGRAM\n"


class ScriptedJob(JobClient):
    """Says yes to everything, and remembers it."""

    def __init__(self, job_id: str = "ab" * 16) -> None:
        self.job_id = JobID(job_id)
        self.status = JobStatus.RUNNING
        self.asked: list[object] = []
        self.answer = CompletableFuture.completed("/savepoints/one")

    def get_job_id(self) -> JobID:
        return self.job_id

    def get_job_status(self) -> CompletableFuture:
        return CompletableFuture.completed(self.status)

    def task_statuses(self) -> list[TaskStatus]:
        return [
            TaskStatus("Source: words -> Map (1/2)", ExecutionState.RUNNING, 1, "on host, process 7"),
            TaskStatus("Sink: out (1/1)", ExecutionState.DEPLOYING, 1),
        ]

    def metrics(self) -> JobMetrics:
        return JobMetrics(
            tuple(
                MetricValue("Map", "0a", subtask, ("cache",), "hits", MetricKind.COUNTER, subtask + 3)
                for subtask in range(2)
            )
        )

    def cancel(self) -> CompletableFuture:
        if self.status is JobStatus.RUNNING:
            self.status = JobStatus.CANCELED
        return CompletableFuture.completed(None)

    def stop_with_savepoint(
        self, advance_to_end_of_event_time: bool, savepoint_directory: str | None = None
    ) -> CompletableFuture:
        self.asked.append((advance_to_end_of_event_time, savepoint_directory))
        return self.answer

    def trigger_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture:
        self.asked.append(savepoint_directory)
        return self.answer

    def get_accumulators(self) -> CompletableFuture:
        raise AssertionError("nobody asks for accumulators")

    def get_job_execution_result(self) -> CompletableFuture:
        raise AssertionError("nobody asks for the result")


@pytest.fixture
def job() -> Iterator[ScriptedJob]:
    job = ScriptedJob()
    endpoint = JobEndpoint(job, "word count")
    yield job
    endpoint.close()


def firesteel(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def test_tasks_of_jobs_are_listed(job: ScriptedJob) -> None:
    assert firesteel("list", "--tasks").stdout == (
        firesteel("list").stdout.replace(
            "(RUNNING)\n",
            "(RUNNING)\n"
            "  RUNNING      Source: words -> Map (1/2) on host, process 7\n"
            "  DEPLOYING    Sink: out (1/1)\n",
        )
    )
    assert "Sink: out" not in firesteel("list").stdout


def test_running_jobs_are_listed(job: ScriptedJob) -> None:
    result = firesteel("list")
    pattern = rf"Running jobs:\n\d\d\.\d\d\.\d{{4}} \d\d:\d\d:\d\d : {job.job_id} : word count \(RUNNING\)\nNo scheduled jobs\.\n"
    assert re.fullmatch(pattern, result.stdout)


def test_scheduled_jobs_are_listed(job: ScriptedJob) -> None:
    job.status = JobStatus.CREATED
    assert firesteel("list", "-r").stdout == "No running jobs.\n"
    assert f"{job.job_id} : word count (CREATED)" in firesteel("list", "-s").stdout


def test_no_jobs() -> None:
    assert firesteel("list", "--all").stdout == "No running jobs.\nNo scheduled jobs.\nNo ended jobs.\n"


def test_cancel(job: ScriptedJob) -> None:
    result = firesteel("cancel", str(job.job_id))
    assert (result.exit_code, result.stdout) == (0, f"Cancelled job {job.job_id}.\n")
    assert job.status is JobStatus.CANCELED


def test_cancelling_a_job_that_has_just_ended_is_an_error(job: ScriptedJob) -> None:
    job.status = JobStatus.FINISHED
    result = firesteel("cancel", str(job.job_id))
    assert result.exit_code == 1
    assert "had ended before it could be cancelled: FINISHED" in result.stderr


def test_savepoint_in_the_configured_directory(job: ScriptedJob) -> None:
    result = firesteel("savepoint", str(job.job_id))
    assert result.exit_code == 0
    assert result.stdout == (
        f"Triggering savepoint for job {job.job_id}.\nSavepoint completed. Path: /savepoints/one\n{RESUMING}"
    )
    assert job.asked == [None]


def test_directories_are_those_of_the_caller(
    job: ScriptedJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    firesteel("savepoint", str(job.job_id), "here")
    firesteel("stop", "-p", "there", str(job.job_id))
    assert job.asked == [f"{tmp_path}/here", (False, f"{tmp_path}/there")]


def test_stop_with_drain(job: ScriptedJob) -> None:
    result = firesteel("stop", "--drain", "--savepointPath", "/data", str(job.job_id))
    assert result.exit_code == 0
    assert result.stdout.splitlines()[:2] == [
        f'Stopping job "{job.job_id}" draining it, with a savepoint.',
        "Savepoint completed. Path: /savepoints/one",
    ]
    assert job.asked == [(True, "/data")]


@pytest.mark.parametrize(("options", "directory"), [(["-s"], None), (["-s", "/data"], "/data")])
def test_cancel_with_savepoint(job: ScriptedJob, options: list[str], directory: str | None) -> None:
    result = firesteel("cancel", *options, str(job.job_id))
    assert result.exit_code == 0, result.output
    assert f"Cancelled job {job.job_id}.\nSavepoint completed. Path: /savepoints/one\n" in result.stdout
    assert job.asked == [(False, directory)]


@pytest.mark.parametrize("command", ["savepoint", "stop"])
def test_a_failure_is_a_message(job: ScriptedJob, command: str) -> None:
    job.answer = CompletableFuture.failed(CheckpointError("no directory was given"))
    result = firesteel(command, str(job.job_id))
    assert result.exit_code == 1
    assert result.stderr == "Error: no directory was given\n"


def test_the_beginning_of_an_id_will_do(job: ScriptedJob) -> None:
    assert firesteel("savepoint", str(job.job_id)[:6]).exit_code == 0


def test_the_beginning_of_two_ids_will_not_do(job: ScriptedJob) -> None:
    other = JobEndpoint(ScriptedJob("ab" + "0" * 30), "other")
    try:
        result = firesteel("cancel", "ab")
    finally:
        other.close()
    assert result.exit_code == 1
    assert "2 jobs have ids that begin with ab" in result.stderr
    assert "word count (RUNNING)" in result.stderr
    assert "other (RUNNING)" in result.stderr


@pytest.mark.parametrize("command", ["savepoint", "stop", "cancel"])
def test_an_unknown_id_lists_what_runs(job: ScriptedJob, command: str) -> None:
    result = firesteel(command, "00" * 16)
    assert result.exit_code == 1
    assert f"no job runs on this machine with id {'00' * 16}\nrunning jobs:\n" in result.stderr
    assert f"{job.job_id} : word count (RUNNING)" in result.stderr


def test_no_id_says_what_to_give() -> None:
    result = firesteel("stop")
    assert result.exit_code == 2
    assert "which job? give its id\nno job is running" in result.stderr


def test_savepoints_are_disposed_of(tmp_path: Path) -> None:
    path = tmp_path / "one"
    writer = SavepointWriter.new_savepoint()
    writer.with_keyed_state("op", ValueStateDescriptor("x", Types.INT()), {"a": 1}).write(str(path))
    result = firesteel("savepoint", "-d", str(path))
    assert (result.exit_code, result.stdout) == (0, f"Savepoint '{path}' disposed.\n")
    assert not path.exists()
    again = firesteel("savepoint", "-d", str(path))
    assert (again.exit_code, "there is no checkpoint or savepoint" in again.stderr) == (1, True)


def test_dispose_takes_no_job() -> None:
    assert "no job; what is 'ab'?" in firesteel("savepoint", "-d", "/x", "ab").stderr


def test_jobs_of_run_are_found_by_other_processes(program: Programs) -> None:
    started = firesteel("run", "-d", "-p", "1", program("import engine; engine.execute('wait')"))
    pid = int(re.findall(r"Process (\d+)", started.stdout)[0])
    job_id = re.findall(r"JobID (\w+)", started.stdout)[0]
    assert f"{job_id} : wait (RUNNING)" in firesteel("list").stdout
    assert firesteel("cancel", job_id).stdout == f"Cancelled job {job_id}.\n"
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 1
    log = re.findall(r"output to (.*)\.\n", started.stdout)[0]
    assert f"WARNING firesteel.run: job wait ({job_id}) was cancelled\n" in Path(log).read_text()
    assert firesteel("list").stdout == "No running jobs.\nNo scheduled jobs.\n"
    (ended,) = firesteel("list", "-a").stdout.splitlines()[3:]
    assert re.fullmatch(
        rf"{MOMENT} : {job_id} : wait \(CANCELED\) ended {MOMENT} after {SPAN}: by 'firesteel cancel'",
        ended,
    )
    again = firesteel("cancel", job_id)
    assert (again.exit_code, f"it has ended:\n  {ended}\nno job is running" in again.stderr) == (1, True)


def test_plain_programs_are_found(program: Programs) -> None:
    command = [sys.executable, program("import engine; engine.execute('wait')")]
    # One task: with two the job does not run yet when the first of them says something.
    options = json.dumps({"parallelism.default": 1})
    environment = {**os.environ, "FIRESTEEL_CONFIG": options, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "waiting\n"
    listed = firesteel("list").stdout
    job_id = re.findall(r" : (\w{32}) : wait \(RUNNING\)", listed)[0]
    assert firesteel("cancel", job_id).exit_code == 0
    _, errors = process.communicate(timeout=600)
    assert "JobCancelledError" in errors
    assert firesteel("list", "-r").stdout == "No running jobs.\n"
    assert f" : {job_id} : wait (CANCELED) ended " in firesteel("list", "-a").stdout


@pytest.mark.parametrize(
    ("text", "variables"),
    [
        ("import engine; engine.execute('hello')", {"FIRESTEEL_REGISTER": "0"}),
        ("import pytest, engine; engine.execute('hello')", {}),
        (SIMULATED, {}),
    ],
    ids=["not wanted", "a test", "simulated"],
)
def test_programs_that_are_not_registered(
    program: Programs, tmp_path: Path, text: str, variables: dict[str, str]
) -> None:
    command = [sys.executable, program(text)]
    subprocess.run(command, check=True, capture_output=True, timeout=600, env={**os.environ, **variables})
    assert not (tmp_path / "home").exists()


def test_a_program_whose_home_cannot_be_written_runs_without_a_word(
    program: Programs, tmp_path: Path
) -> None:
    (tmp_path / "home").write_text("no directory")
    command = [sys.executable, program("import engine; engine.execute('hello')")]
    done = subprocess.run(command, check=True, capture_output=True, timeout=600, text=True)
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("text", "how", "code"),
    [
        ("engine.execute('hello')", r"\(FINISHED\) ended {moment} after {span}", 0),
        (
            "engine.execute('fail')",
            r"\(FAILED\) ended {moment} after {span}: UserCodeError: ValueError: boom.*",
            1,
        ),
        (
            "engine.submit('wait')",
            r"\(LOST\) ended {moment} after {span}: its process has ended before it",
            0,
        ),
        (
            "engine.submit('wait'); import os; os._exit(0)",
            r"\(LOST\) ended {moment} after {span}: its process, \d+, has ended without a word",
            0,
        ),
    ],
)
def test_what_became_of_the_jobs_of_plain_programs(program: Programs, text: str, how: str, code: int) -> None:
    done = subprocess.run(
        [sys.executable, program(f"import engine; {text}")], check=False, capture_output=True, timeout=600
    )
    assert done.returncode == code, done.stderr
    lines = firesteel("list", "-a").stdout.splitlines()
    assert lines[:3] == ["No running jobs.", "No scheduled jobs.", "Ended jobs:"]
    (line,) = lines[3:]
    assert re.fullmatch(rf"{MOMENT} : \w+ : \w+ {how.format(moment=MOMENT, span=SPAN)}", line)


def test_a_child_that_a_program_forks_does_not_end_its_jobs(program: Programs) -> None:
    text = """
        import os, sys, warnings
        import engine
        from firesteel.jobmaster.remote.running_job import running_jobs

        warnings.simplefilter("ignore")
        engine.submit("wait")
        child = os.fork()
        if not child:
            sys.exit()
        os.waitpid(child, 0)
        print(len(running_jobs()))
        """
    done = subprocess.run(
        [sys.executable, program(text)], check=True, capture_output=True, timeout=600, text=True
    )
    assert done.stdout.splitlines()[-1] == "1"


def test_metrics_of_running_jobs_are_listed(job: ScriptedJob) -> None:
    assert firesteel("list", "--metrics").stdout == (
        firesteel("list").stdout.replace("(RUNNING)\n", "(RUNNING)\n  Map: cache.hits 7\n")
    )
