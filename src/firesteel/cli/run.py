"""``firesteel run``: runs a program and stays with its jobs until they end."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import click

from firesteel import launch
from firesteel.cli import detached_run, remote_run
from firesteel.cli.client_executable import switch_interpreter
from firesteel.cli.help_texts import examples
from firesteel.cli.log_lines import write_log_lines
from firesteel.cli.program import Program
from firesteel.cli.program_command import (
    OWN_ARGUMENTS,
    PROGRAM_ARGUMENTS,
    ProgramCommand,
    options_of,
    program_of,
    program_options,
)
from firesteel.cli.simulated_run import simulated_options
from firesteel.cli.tracebacks import format_error
from firesteel.common._override import override
from firesteel.common._private_files import open_private_log
from firesteel.common.configuration import Configuration
from firesteel.common.errors import InvalidOptionError, JobCancelledError
from firesteel.common.job_id import JobID
from firesteel.common.job_status import JobStatus
from firesteel.datastream._given_options import configured_options
from firesteel.jobmaster.job_client import MasterJobClient, ProcessTerminated
from firesteel.jobmaster.terminal.progress_lines import summary_lines
from firesteel.logs.settings import LogSettings, read_log_settings

_LOG = logging.getLogger("firesteel.run")
_INTERRUPTED = 128 + signal.SIGINT


@click.command(
    cls=ProgramCommand,
    short_help="Run a program and stay with its jobs until they end.",
    epilog=examples(
        ("firesteel run job.py --input data.txt", "words after the program are its own"),
        ("firesteel run --simulate job.py", "try it out in seconds, without Java and Spark"),
        ("firesteel run -p 4 -m spark://host:7077 job.py", "on a Spark cluster"),
        ("firesteel run -m localhost:8081 job.py", "on a cluster service: see 'firesteel cluster'"),
        ("firesteel run -d job.py", "in the background: see 'firesteel list'"),
        ("firesteel run --resume job.py", "from the newest checkpoint, if there is one"),
        ("firesteel run -s /savepoints/savepoint-1 job.py", "from a savepoint"),
        ("firesteel run -D execution.checkpointing.interval='10 s' job.py", "with any option"),
        ("firesteel run --pyflink job.py", "a program written for PyFlink"),
    ),
)
@program_options
@click.option(
    "--simulate",
    is_flag=True,
    help="Run in this process without Java and Spark, in simulated time: to try a program out.",
)
@click.option(
    "-d", "--detached", "is_detached", is_flag=True, help="Run in the background; print the job id."
)
@click.option(
    "--log-file",
    type=click.Path(path_type=Path),
    help="Write all output there instead of the terminal, log messages with time and level.",
)
@click.option("--no-progress", is_flag=True, help="Do not show states and rates on the terminal.")
@click.option("--status-file", type=click.Path(path_type=Path), hidden=True)
@click.pass_context
def run(
    context: click.Context,
    /,
    simulate: bool,
    is_detached: bool,
    log_file: Path | None,
    no_progress: bool,
    status_file: Path | None,
    script: str | None,
    module: str | None,
    pyflink: bool,
    in_client_executable: bool,
    arguments: tuple[str, ...],
    **settings: Any,
) -> None:
    """Run a program: a Python file, or a module with -pym."""
    if remote_run.is_service(service := settings["master"]):
        if simulate:
            raise click.UsageError(
                "--simulate runs in this process, and -m names a service: leave one of them out"
            )
        program = program_of(script, module, pyflink, arguments, settings["python_files"])
        context.exit(
            remote_run.submit(service, program, options_of(**{**settings, "master": None}), is_detached)
        )
    options = options_of(**settings)
    if simulate:
        options = simulated_options(options, is_detached)
    switch_interpreter(context, options, in_client_executable)
    program = program_of(script, module, pyflink, arguments, settings["python_files"])
    if is_detached:
        context.exit(_detach(context, program, log_file or _log_file_in_directory(program, options)))
    if log_file is not None:
        _redirect_output(log_file)
    # The process of a detached run has a status file, and its output is a log.
    is_logged = log_file is not None or status_file is not None
    if is_logged:
        # With a directory for logs, what is told at INFO is in a file there that is rolled over; this one is not.
        settings_of_log = _log_settings(options)
        least = logging.INFO if settings_of_log.directory is None else logging.WARNING
        write_log_lines(settings_of_log, least)
    _choose_progress(no_progress, simulate)
    context.exit(run_program(program, options, status_file, is_logged))


def run_program(
    program: Program, options: dict[str, Any], status_file: Path | None = None, is_logged: bool = False
) -> int:
    """Run the program and wait for all its jobs; returns the exit code. ``is_logged``: messages are lines of a log."""
    jobs = Jobs(status_file)

    def tell(text: str, level: int = logging.WARNING) -> None:
        if is_logged:
            _LOG.log(level, "%s", text.rstrip("\n"))
        else:
            click.echo(text, err=True, nl=not text.endswith("\n"))

    try:
        with launch.register_jobs(), launch.observe_jobs(jobs), _termination_as_interrupt():
            try:
                program.run(options)
                jobs.wait()
            except KeyboardInterrupt as interrupt:
                jobs.interrupt(interrupt)
                raise
            except BaseException:
                jobs.cancel()
                raise
    except KeyboardInterrupt as interrupt:
        tell("; ".join([*jobs.cancelled(), *jobs.handed_over()]) or "interrupted")
        return getattr(interrupt, "exit_code", _INTERRUPTED)
    except JobCancelledError as error:  # by somebody else: 'firesteel cancel'
        tell("; ".join(jobs.cancelled()) or str(error))
        return 1
    except BrokenPipeError:
        # Nobody reads what the job prints (firesteel run ... | head); Python must not complain when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:  # noqa: BLE001 - whatever the program raises is shown in the end
        tell(format_error(error), logging.ERROR)
        return 1
    return 0


class Jobs(launch.JobObserver):
    """The jobs of one program."""

    def __init__(self, status_file: Path | None = None) -> None:
        self._clients: list[MasterJobClient] = []
        self._status_file = status_file

    @override
    def job_submitted(self, client: MasterJobClient) -> None:
        self._clients.append(client)

    @override
    def status_changed(self, job: Any, status: JobStatus) -> None:
        """Tell the log, and the command that started this process in the background, the first time it matters."""
        summary = summary_lines(job.statistics()) if status.is_terminal_state() else []
        first = f"job {job.name} ({job.job_id}) switched to {status.name}"
        _LOG.info("%s", "\n".join([first, *summary]))
        if status is JobStatus.RUNNING or status.is_terminal_state():
            self._tell_starter(job.job_id, status.name)

    @override
    def standing_by(self, job_id: JobID) -> None:
        """Tell it that the job runs elsewhere."""
        self._tell_starter(job_id, detached_run.STANDBY)

    @override
    def engine_starting(self, job_id: JobID) -> None:
        """Tell it that the job is known, and that the rest takes a while."""
        self._tell_starter(job_id, detached_run.STARTING)

    def wait(self) -> None:
        """Wait for the jobs that the program left running (``execute_async``); raises errors it has not seen."""
        for client in self._clients:
            if not (client.is_over() and client.outcome_requested):
                client.wait()

    def cancel(self) -> None:
        """End what still runs, all at once, and wait for it; what it has saved stays: nobody has asked for the end."""
        self._end(self._running(), KeyboardInterrupt())

    def cancelled(self) -> Iterator[str]:
        """A sentence for each job that was cancelled."""
        for client in self._clients:
            if client.get_job_status().result() is JobStatus.CANCELED:
                addition = "; its checkpoints are kept" if client.keeps_checkpoints else ""
                yield f"job {client.get_job_name()} ({client.get_job_id()}) was cancelled{addition}"

    def interrupt(self, reason: KeyboardInterrupt) -> None:
        """End what still runs in this process, as the signal wants it, and wait; a second Ctrl-C does not wait."""
        is_kill = isinstance(reason, ProcessTerminated)
        self._end([client for client in self._running() if is_kill or not client.is_interrupted], reason)

    def _end(self, clients: list[MasterJobClient], reason: KeyboardInterrupt) -> None:
        for client in clients:
            client.interrupt(reason)
        for client in clients:
            client.wait_until_over()

    def handed_over(self) -> Iterator[str]:
        """A sentence for each job that another driver resumes."""
        for client in self._clients:
            if client.is_handed_over:
                yield f"job {client.get_job_name()} ({client.get_job_id()}) was left to another driver"

    def _tell_starter(self, job_id: JobID, status: str) -> None:
        if self._status_file is not None:
            detached_run.write_status(self._status_file, str(job_id), status)
            self._status_file = None

    def _running(self) -> list[MasterJobClient]:
        return [client for client in self._clients if not client.is_over()]


@contextmanager
def _termination_as_interrupt() -> Iterator[None]:
    """A polite ``kill``, or a terminal that is closed, ends jobs as cleanly as Ctrl-C does."""

    def terminate(number: int, frame: FrameType | None) -> None:
        raise ProcessTerminated(number)

    before: dict[int, Any] = {}
    try:
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup firesteel run ...
                before[number] = signal.signal(number, terminate)
    except ValueError:  # not in the main thread: somebody else's process, and somebody else's signals
        yield
        return
    try:
        yield
    finally:
        for caught, handler in before.items():
            signal.signal(caught, handler)


def _detach(context: click.Context, program: Program, log_file: Path | None) -> int:
    own = [word for word in context.meta[OWN_ARGUMENTS] if word not in ("-d", "--detached")]
    arguments = [*own, "--", *context.meta[PROGRAM_ARGUMENTS]]
    return detached_run.start(arguments, log_file or detached_run.default_log_file(program.name))


def _log_file_in_directory(program: Program, options: dict[str, Any]) -> Path | None:
    """A new log file where ``env.log.dir`` says; None when nobody does."""
    directory = _log_settings(options).directory
    return None if directory is None else directory / detached_run.default_log_file(program.name).name


def _log_settings(options: dict[str, Any]) -> LogSettings:
    try:
        return read_log_settings(configured_options().add_all(Configuration.from_dict(options)))
    except InvalidOptionError as error:
        raise click.UsageError(str(error)) from error


def _choose_progress(no_progress: bool, simulate: bool) -> None:
    if no_progress:
        os.environ[launch.PROGRESS_VARIABLE] = "0"
    elif sys.stderr.isatty():
        # What simulated tasks print goes straight to the terminal: nothing may be drawn there meanwhile.
        os.environ.setdefault(launch.PROGRESS_VARIABLE, "lines" if simulate else "1")


def _redirect_output(log_file: Path) -> None:
    # The descriptors, not the Python objects: what the Java side writes belongs there too.
    with open_private_log(str(log_file)) as log:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
            os.dup2(log.fileno(), stream.fileno())
