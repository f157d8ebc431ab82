"""The commands about running jobs, over REST: with a simulated job of this process, and with jobs of other processes."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from firesteel import launch
from firesteel.cli.main import main
from firesteel.common import Configuration, WatermarkStrategy
from firesteel.common.job_status import JobStatus
from firesteel.common.typeinfo import Types
from firesteel.contracts.state import ValueStateDescriptor
from firesteel.datastream.functions import DiscardingSink, MapFunction, RuntimeContext
from firesteel.jobmaster.job_client import MasterJobClient
from firesteel.jobmaster.remote.history import ended_jobs
from firesteel.jobmaster.remote.registry import RegistryEntry, register
from firesteel.state_processor import SavepointWriter
from firesteel.testing import Emit, ScriptedSource, WaitForever, simulated_environment
from firesteel_support.scripted_server import ScriptedServer

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


class Counting(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self._hits = runtime_context.get_metrics_group().add_group("cache").counter("hits")

    def map(self, value: int) -> int:
        self._hits.inc()
        return value


def start(name: str, tmp_path: Path, **options: str) -> MasterJobClient:
    """A job of the simulator that waits for ever; it has the REST interface, because it is registered."""
    given = {
        "rest.port": "0",
        "execution.checkpointing.interval": "1 h",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "execution.checkpointing.savepoint-dir": str(tmp_path / "savepoints"),
        **{key.replace("_", "."): value for key, value in options.items()},
    }
    env = simulated_environment(parallelism=2, configuration=Configuration.from_dict(given))
    source = env.from_source(
        ScriptedSource([Emit([1, 2, 3]), WaitForever()]), WatermarkStrategy.no_watermarks(), "Numbers"
    )
    source.key_by(lambda value: value % 2).map(Counting()).name("Count").add_sink(DiscardingSink())
    client = env.execute_async(name)
    assert isinstance(client, MasterJobClient)
    return client


@pytest.fixture
def job(tmp_path: Path) -> Iterator[MasterJobClient]:
    with launch.register_jobs():
        client = start("word count", tmp_path)
        until(lambda: status_of(client).name, "RUNNING")
        yield client
        client.cancel().result()


def firesteel(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def id_of(job: MasterJobClient) -> str:
    return str(job.get_job_id())


def status_of(job: MasterJobClient) -> JobStatus:
    status: JobStatus = job.get_job_status().result()
    return status


def until(look: Callable[[], str], expected: str) -> str:
    """Look again and again; tasks report by themselves."""
    while expected not in (seen := look()):
        pass
    return seen


# Lists.


def test_running_jobs_are_listed_with_their_address(job: MasterJobClient) -> None:
    result = firesteel("list")
    line = rf"{MOMENT} : {id_of(job)} : word count \(RUNNING\) {job.rest_url}"
    assert re.fullmatch(rf"Running jobs:\n{line}\nNo scheduled jobs\.\n", result.stdout)
    assert firesteel("list", "-s").stdout == "No scheduled jobs.\n"


def test_the_jobs_of_a_service_are_listed(job: MasterJobClient) -> None:
    address = job.rest_url.removeprefix("http://")
    listed = firesteel("list", "-m", address, "-r").stdout
    assert re.search(rf"{MOMENT} : {id_of(job)} : word count \(RUNNING\)\n", listed)
    port = address.rpartition(":")[2]
    assert firesteel("list", "-r", "-D", f"rest.port={port}").stdout == listed
    firesteel("cancel", "-m", address, id_of(job))
    over = until(
        lambda: firesteel("list", "-m", address, "-a").stdout, f"{id_of(job)} : word count (CANCELED) ended "
    )
    line = rf"^{MOMENT} : {id_of(job)} : word count \(CANCELED\) ended {MOMENT} after {SPAN}$"
    assert re.search(line, over.partition("Ended jobs:\n")[2], re.MULTILINE)


def test_tasks_of_jobs_are_listed(job: MasterJobClient) -> None:
    listed = until(lambda: firesteel("list", "--tasks").stdout, "RUNNING      Count")
    assert len(re.findall(r"^  [A-Z]+ +Source: Numbers \([12]/2\)", listed, re.MULTILINE)) == 2
    assert len(re.findall(r"^  RUNNING +Count -> Sink: DiscardingSink \([12]/2\)", listed, re.MULTILINE)) == 2
    assert "Count ->" not in firesteel("list").stdout


def test_metrics_of_functions_are_listed(job: MasterJobClient) -> None:
    listed = until(lambda: firesteel("list", "--metrics").stdout, "cache.hits 3 ")
    assert re.findall(r"^  (.*)$", listed, re.MULTILINE) == ["Count: cache.hits 3 (0..3)"]


def test_no_jobs() -> None:
    assert firesteel("list", "--all").stdout == "No running jobs.\nNo scheduled jobs.\nNo ended jobs.\n"


# Jobs that cannot be spoken to.


def test_a_job_without_a_rest_interface_is_found_and_cannot_be_commanded(tmp_path: Path) -> None:
    with launch.register_jobs():
        job = start("alone", tmp_path, rest_port="-1")
        listed = firesteel("list").stdout
        refused = firesteel("cancel", id_of(job))
        job.cancel().result()
    sentence = (
        "its driver has no REST interface ('rest.port' is -1, or no port was free); "
        f"'kill {os.getpid()}' ends it and keeps what it has saved"
    )
    assert f"{id_of(job)} : alone (UNKNOWN)\n  {sentence}\n" in listed
    assert (refused.exit_code, refused.stderr) == (
        1,
        f"Error: job {id_of(job)} cannot be commanded: {sentence}\n",
    )


def test_a_job_whose_driver_does_not_answer_is_listed(job: MasterJobClient) -> None:
    with ScriptedServer((200, {})) as server:
        gone = server.url
    silent = register(RegistryEntry("ab" * 16, "silent", os.getpid(), socket.gethostname(), 1, gone))
    listed = firesteel("list").stdout
    refused = firesteel("savepoint", "abababab")
    silent.withdraw()
    assert f"silent (NOT ANSWERING) {gone}\n" in listed
    assert "word count (RUNNING)" in listed
    assert (refused.exit_code, f"Error: nothing listens at {gone}" in refused.stderr) == (1, True)


def test_a_job_that_its_driver_does_not_show_is_listed(job: MasterJobClient) -> None:
    hidden = register(RegistryEntry("ab" * 16, "hidden", os.getpid(), socket.gethostname(), 1, job.rest_url))
    listed = firesteel("list").stdout
    hidden.withdraw()
    assert f"hidden (UNKNOWN) {job.rest_url}\n  {job.rest_url} does not show it\n" in listed


def test_who_wants_a_token_says_so_for_every_job(job: MasterJobClient) -> None:
    with ScriptedServer((401, {"errors": ["a token is needed"]})) as server:
        result = firesteel("list", "-m", server.url)
    assert (result.exit_code, result.stderr) == (1, "Error: a token is needed\n")


def test_a_token_is_sent_from_its_file(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("very-secret\n")
    token.chmod(0o600)
    with ScriptedServer((200, {"jobs": []})) as server:
        result = firesteel("list", "-m", server.url, "-D", f"firesteel.rest.token-file={token}")
    assert result.stdout == "No running jobs.\nNo scheduled jobs.\n", result.output
    assert [each["Authorization"] for each in server.headers] == ["Bearer very-secret"]


@pytest.mark.parametrize("address", ["spark://host:7077", "host:port"])
def test_a_wrong_address_is_a_mistake_of_the_command_line(address: str) -> None:
    result = firesteel("list", "-m", address)
    assert (result.exit_code, "expected the address of a REST interface" in result.stderr) == (2, True)


# Commands.


def test_cancel(job: MasterJobClient) -> None:
    result = firesteel("cancel", id_of(job))
    assert (result.exit_code, result.stdout) == (0, f"Cancelled job {id_of(job)}.\n")
    assert status_of(job) is JobStatus.CANCELED
    assert [(each.status, each.reason) for each in ended_jobs()] == [("CANCELED", "asked for over REST")]


def test_cancelling_a_job_that_has_ended_is_an_error(job: MasterJobClient) -> None:
    job.stop_with_savepoint(False).result()
    result = firesteel("cancel", "-m", job.rest_url, id_of(job))
    assert (result.exit_code, result.stderr) == (1, f"Error: job {id_of(job)} has ended before: FINISHED\n")


def test_savepoint_in_the_configured_directory(job: MasterJobClient, tmp_path: Path) -> None:
    result = firesteel("savepoint", id_of(job))
    assert result.exit_code == 0, result.output
    first, second, third = result.stdout.splitlines(keepends=True)
    assert first == f"Triggering savepoint for job {id_of(job)}.\n"
    path = second.removeprefix("Savepoint completed. Path: ").strip()
    assert Path(path).parent == tmp_path / "savepoints"
    assert (Path(path) / "_metadata").exists() or any(Path(path).iterdir())
    assert third == RESUMING
    assert status_of(job) is JobStatus.RUNNING


def test_directories_are_those_of_the_caller(
    job: MasterJobClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert f"Path: {tmp_path}/here/" in firesteel("savepoint", id_of(job), "here").stdout
    assert f"Path: {tmp_path}/there/" in firesteel("stop", "-p", "there", id_of(job)).stdout


def test_stop_with_drain(job: MasterJobClient, tmp_path: Path) -> None:
    result = firesteel("stop", "--drain", "--savepointPath", str(tmp_path / "data"), id_of(job))
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(
        f'Stopping job "{id_of(job)}" draining it, with a savepoint.\nSavepoint completed. Path: {tmp_path}/data/'
    )
    assert status_of(job) is JobStatus.FINISHED
    assert [(each.status, each.reason) for each in ended_jobs()] == [("FINISHED", "stopped with a savepoint")]


@pytest.mark.parametrize("command", [("stop", "-p"), ("cancel", "-s")])
@pytest.mark.parametrize("with_directory", [False, True])
def test_the_directory_of_the_last_savepoint_may_be_left_out(
    job: MasterJobClient, tmp_path: Path, command: tuple[str, str], with_directory: bool
) -> None:
    directory = tmp_path / ("data" if with_directory else "savepoints")
    result = firesteel(*command, *([str(directory)] if with_directory else []), id_of(job))
    assert result.exit_code == 0, result.output
    assert f"Savepoint completed. Path: {directory}/" in result.stdout
    assert status_of(job) is JobStatus.FINISHED


def test_a_flag_may_stand_behind_the_job(job: MasterJobClient) -> None:
    result = firesteel("cancel", id_of(job), "-s")
    assert f"Cancelled job {id_of(job)}.\nSavepoint completed. Path: " in result.stdout


@pytest.mark.parametrize("command", ["savepoint", "stop"])
def test_who_does_not_wait_gets_a_trigger_id(job: MasterJobClient, command: str) -> None:
    result = firesteel(command, "-detached", id_of(job))
    address = re.findall(r"curl (\S+)/jobs/\w+/savepoints/\w{32}\n", result.stdout)
    assert (result.exit_code, address) == (0, [job.rest_url])


def test_a_checkpoint_is_taken_now(job: MasterJobClient, tmp_path: Path) -> None:
    result = firesteel("checkpoint", id_of(job))
    assert result.exit_code == 0, result.output
    done = rf"Checkpoint (\d+) for job {id_of(job)} completed\. Path: {tmp_path}/checkpoints/\S+\n"
    assert re.fullmatch(f"Triggering checkpoint for job {id_of(job)}\\.\n{done}", result.stdout)
    full = firesteel("checkpoint", "-full", id_of(job)).stdout
    assert re.search(rf"Checkpoint\(FULL\) \d+ for job {id_of(job)} completed\.", full)


def test_kinds_of_checkpoints_exclude_each_other(job: MasterJobClient) -> None:
    assert firesteel("checkpoint", "-full", "--incremental", id_of(job)).exit_code == 2
    refused = firesteel("checkpoint", "--incremental", id_of(job))
    assert (refused.exit_code, "execution.checkpointing.incremental" in refused.stderr) == (1, True)


LINE = {
    "jid": "ab" * 16,
    "name": "n",
    "state": "RUNNING",
    "start-time": 1,
    "end-time": -1,
    "duration": 1,
}


def test_another_parallelism_is_refused_with_the_sentence_of_the_service() -> None:
    answers = [(200, {"jobs": [LINE]}), (501, {"errors": ["a job keeps its parallelism"]})]
    with ScriptedServer(*answers) as server:
        result = firesteel("modify", "-m", server.url, "ab", "-p", "4")
    assert (result.exit_code, result.stderr) == (1, "Error: a job keeps its parallelism\n")


def test_a_change_of_the_parallelism_that_fails_says_why() -> None:
    cause = {"class": "a.RescaleError", "stack-trace": "RescaleError: too few slots"}
    failed = {"status": {"id": "COMPLETED"}, "operation": {"failure-cause": cause}}
    answers = [(200, {"jobs": [LINE]}), (202, {"request-id": "0f"}), (200, failed)]
    with ScriptedServer(*answers) as server:
        result = firesteel("modify", "-m", server.url, "ab", "-p", "4")
    assert (result.exit_code, result.stderr) == (1, "Error: too few slots\n")


def test_another_parallelism_is_asked_for_and_waited_for() -> None:
    done = {"status": {"id": "COMPLETED"}, "operation": {}}
    answers = [(200, {"jobs": [LINE]}), (202, {"request-id": "0f"}), (200, done)]
    with ScriptedServer(*answers) as server:
        result = firesteel("modify", "-m", server.url, "ab", "-p", "4")
    assert result.stdout == (
        f"Modifying job {'ab' * 16}.\nRescaled job {'ab' * 16}. Its new parallelism is 4.\n"
    ), result.output
    assert [path for _, path, _ in server.asked[1:]] == [
        f"/jobs/{'ab' * 16}/rescaling?parallelism=4",
        f"/jobs/{'ab' * 16}/rescaling/0f",
    ]


@pytest.mark.parametrize("command", ["savepoint", "stop"])
def test_a_failure_is_a_message(job: MasterJobClient, tmp_path: Path, command: str) -> None:
    (tmp_path / "file").write_text("no directory")
    directory = str(tmp_path / "file")
    arguments = (
        ["savepoint", id_of(job), directory]
        if command == "savepoint"
        else ["stop", "-p", directory, id_of(job)]
    )
    result = firesteel(*arguments)
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: ")
    assert "Traceback" not in result.stderr
    assert directory in result.stderr
    assert status_of(job) is JobStatus.RUNNING


def test_a_format_that_is_not_there_is_refused_by_the_service(job: MasterJobClient) -> None:
    result = firesteel("savepoint", "-type", "native", id_of(job))
    assert (result.exit_code, "savepoints have one format, CANONICAL" in result.stderr) == (1, True)
    assert firesteel("savepoint", "--type", "canonical", id_of(job)).exit_code == 0


# Which job.


def test_the_beginning_of_an_id_will_do(job: MasterJobClient) -> None:
    assert firesteel("savepoint", id_of(job)[:6].upper()).exit_code == 0


def test_the_beginning_of_two_ids_will_not_do() -> None:
    entry = RegistryEntry("ab" * 16, "word count", os.getpid(), socket.gethostname(), 1)
    registrations = [register(entry), register(replace(entry, job_id="ab" + "0" * 30, name="other"))]
    result = firesteel("cancel", "ab")
    for registration in registrations:
        registration.withdraw()
    assert result.exit_code == 1
    assert "2 jobs have ids that begin with ab\nrunning jobs:\n" in result.stderr
    assert "word count (UNKNOWN)" in result.stderr
    assert "other (UNKNOWN)" in result.stderr


@pytest.mark.parametrize("command", ["savepoint", "stop", "cancel", "checkpoint", "top"])
def test_an_unknown_id_lists_what_runs(job: MasterJobClient, command: str) -> None:
    result = firesteel(command, "00" * 16)
    assert result.exit_code == 1
    assert f"no job runs on this machine with id {'00' * 16}\nrunning jobs:\n" in result.stderr
    assert f"{id_of(job)} : word count (RUNNING)" in result.stderr
    there = firesteel(command, "-m", job.rest_url, "00" * 16)
    assert f"{job.rest_url} has no job with id {'00' * 16}\nrunning jobs:\n" in there.stderr


def test_no_id_says_what_to_give() -> None:
    result = firesteel("stop")
    assert result.exit_code == 2
    assert "which job? give its id\nno job is running" in result.stderr


# Deleting savepoints.


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "one"
    writer = SavepointWriter.new_savepoint()
    writer.with_keyed_state("op", ValueStateDescriptor("x", Types.INT()), {"a": 1}).write(str(path))
    return path


def test_savepoints_are_disposed_of_without_any_job(saved: Path) -> None:
    result = firesteel("savepoint", "-d", str(saved))
    assert (result.exit_code, result.stdout) == (0, f"Savepoint '{saved}' disposed.\n")
    assert not saved.exists()
    again = firesteel("savepoint", "-d", str(saved))
    assert (again.exit_code, "there is no checkpoint or savepoint" in again.stderr) == (1, True)


def test_savepoints_are_disposed_of_by_a_service(
    job: MasterJobClient, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(saved.parent)
    result = firesteel("savepoint", "-m", job.rest_url, "--dispose", "one")
    assert (result.exit_code, result.stdout) == (0, "Savepoint 'one' disposed.\n")
    assert not saved.exists()
    again = firesteel("savepoint", "-m", job.rest_url, "-d", "one")
    assert (again.exit_code, "there is no checkpoint or savepoint" in again.stderr) == (1, True)


def test_dispose_takes_no_job() -> None:
    assert "no job; what is 'ab'?" in firesteel("savepoint", "-d", "/x", "ab").stderr


# Jobs of other processes.


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
        rf"{MOMENT} : {job_id} : wait \(CANCELED\) ended {MOMENT} after {SPAN}: asked for over REST",
        ended,
    )
    again = firesteel("cancel", job_id)
    assert (again.exit_code, f"it has ended:\n  {ended}\nno job is running" in again.stderr) == (1, True)


def test_a_program_that_is_tried_out_is_found_and_cancelled(program: Programs) -> None:
    text = """
        from firesteel.common import WatermarkStrategy
        from firesteel.datastream import StreamExecutionEnvironment
        from firesteel.testing import Emit, ScriptedSource, WaitForever

        env = StreamExecutionEnvironment.get_execution_environment()
        source = ScriptedSource([Emit([1]), WaitForever()])
        env.from_source(source, WatermarkStrategy.no_watermarks(), "Numbers").print()
        env.execute("tried out")
        """
    command = [sys.executable, "-m", "firesteel.cli.main", "run", "--simulate", program(text)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        listed = until(lambda: firesteel("list").stdout, ": tried out (RUNNING)")
        job_id = re.findall(r" : (\w{32}) : tried out \(RUNNING\) http://localhost:\d+\n", listed)[0]
        assert firesteel("cancel", job_id).stdout == f"Cancelled job {job_id}.\n"
        _, errors = process.communicate(timeout=600)
    assert (process.returncode, f"job tried out ({job_id}) was cancelled" in errors) == (1, True)


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
        from firesteel.jobmaster.remote.registry import entries

        warnings.simplefilter("ignore")
        engine.submit("wait")
        child = os.fork()
        if not child:
            sys.exit()
        os.waitpid(child, 0)
        print(len(entries()))
        """
    done = subprocess.run(
        [sys.executable, program(text)], check=True, capture_output=True, timeout=600, text=True
    )
    assert done.stdout.splitlines()[-1] == "1"
