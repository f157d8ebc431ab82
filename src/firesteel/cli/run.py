"""``firesteel run``: runs a program and stays with its jobs until they end."""

from __future__ import annotations

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
from firesteel.cli import detached
from firesteel.cli.client_executable import switch_interpreter
from firesteel.cli.program import Program
from firesteel.cli.program_command import (
    OWN_ARGUMENTS,
    PROGRAM_ARGUMENTS,
    ProgramCommand,
    options_of,
    program_of,
    program_options,
)
from firesteel.cli.tracebacks import format_error
from firesteel.common.errors import JobCancelledError
from firesteel.common.job_id import JobID
from firesteel.common.job_status import JobStatus
from firesteel.jobmaster.job_client import MasterJobClient, ProcessTerminated

_INTERRUPTED = 128 + signal.SIGINT


@click.command(cls=ProgramCommand)
@program_options
@click.option(
    "-d", "--detached", "is_detached", is_flag=True, help="Run in the background; print the job id."
)
@click.option(
    "--log-file", type=click.Path(path_type=Path), help="Write all output there instead of the terminal."
)
@click.option("--no-progress", is_flag=True, help="Do not show states and rates on the terminal.")
@click.option("--status-file", type=click.Path(path_type=Path), hidden=True)
@click.pass_context
def run(
    context: click.Context,
    /,
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
    options = options_of(**settings)
    switch_interpreter(context, options, in_client_executable)
    program = program_of(script, module, pyflink, arguments, settings["python_files"])
    if is_detached:
        context.exit(_detach(context, program, log_file))
    if log_file is not None:
        _redirect_output(log_file)
    _choose_progress(no_progress)
    context.exit(run_program(program, options, status_file))


def run_program(program: Program, options: dict[str, Any], status_file: Path | None = None) -> int:
    """Run the program and wait for all its jobs; returns the exit code."""
    jobs = Jobs(status_file)
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
        click.echo("; ".join([*jobs.cancelled(), *jobs.handed_over()]) or "interrupted", err=True)
        return getattr(interrupt, "exit_code", _INTERRUPTED)
    except JobCancelledError as error:  # by somebody else: 'firesteel cancel'
        click.echo("; ".join(jobs.cancelled()) or str(error), err=True)
        return 1
    except BrokenPipeError:
        # Nobody reads what the job prints (firesteel run ... | head); Python must not complain when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:  # noqa: BLE001 - whatever the program raises is shown in the end
        click.echo(format_error(error), err=True, nl=False)
        return 1
    return 0


class Jobs(launch.JobObserver):
    """The jobs of one program."""

    def __init__(self, status_file: Path | None = None) -> None:
        self._clients: list[MasterJobClient] = []
        self._status_file = status_file

    def job_submitted(self, client: MasterJobClient) -> None:
        """Remember it."""
        self._clients.append(client)

    def status_changed(self, job: Any, status: JobStatus) -> None:
        """Tell the command that started this process in the background, the first time it matters."""
        if status is JobStatus.RUNNING or status.is_terminal_state():
            self._tell_starter(job.job_id, status.name)

    def standing_by(self, job_id: JobID) -> None:
        """Tell it that the job runs elsewhere."""
        self._tell_starter(job_id, detached.STANDBY)

    def wait(self) -> None:
        """Wait for the jobs that the program left running (``execute_async``); raises errors it has not seen."""
        for client in self._clients:
            if not (client.is_over() and client.outcome_requested):
                client.wait()

    def cancel(self) -> None:
        """Cancel what still runs, all at once, and wait for it."""
        for future in [client.cancel() for client in self._running()]:
            future.result()

    def cancelled(self) -> Iterator[str]:
        """A sentence for each job that was cancelled."""
        for client in self._clients:
            if client.get_job_status().result() is JobStatus.CANCELED:
                yield f"job {client.get_job_name()} ({client.get_job_id()}) was cancelled"

    def interrupt(self, reason: KeyboardInterrupt) -> None:
        """End what still runs in this process, as the signal wants it, and wait; a second Ctrl-C does not wait."""
        is_kill = isinstance(reason, ProcessTerminated)
        to_end = [client for client in self._running() if is_kill or not client.is_interrupted]
        for future in [client.interrupt(reason) for client in to_end]:
            future.result()

    def handed_over(self) -> Iterator[str]:
        """A sentence for each job that another driver goes on with."""
        for client in self._clients:
            if client.is_handed_over:
                yield f"job {client.get_job_name()} ({client.get_job_id()}) was left to another driver"

    def _tell_starter(self, job_id: JobID, status: str) -> None:
        if self._status_file is not None:
            detached.write_status(self._status_file, str(job_id), status)
            self._status_file = None

    def _running(self) -> list[MasterJobClient]:
        return [client for client in self._clients if not client.is_over()]


@contextmanager
def _termination_as_interrupt() -> Iterator[None]:
    """A polite ``kill`` ends jobs as cleanly as Ctrl-C does."""

    def terminate(number: int, frame: FrameType | None) -> None:
        raise ProcessTerminated

    try:
        before = signal.signal(signal.SIGTERM, terminate)
    except ValueError:  # not in the main thread: somebody else's process, and somebody else's signals
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _detach(context: click.Context, program: Program, log_file: Path | None) -> int:
    own = [word for word in context.meta[OWN_ARGUMENTS] if word not in ("-d", "--detached")]
    arguments = [*own, "--", *context.meta[PROGRAM_ARGUMENTS]]
    return detached.start(arguments, log_file or detached.default_log_file(program.name))


def _choose_progress(no_progress: bool) -> None:
    if no_progress:
        os.environ[launch.PROGRESS_VARIABLE] = "0"
    elif sys.stderr.isatty():
        os.environ.setdefault(launch.PROGRESS_VARIABLE, "1")


def _redirect_output(log_file: Path) -> None:
    # The descriptors, not the Python objects: what the Java side writes belongs there too.
    log_file.parent.mkdir(parents=True, exist_ok=True)
    with log_file.open("ab") as log:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
            os.dup2(log.fileno(), stream.fileno())
