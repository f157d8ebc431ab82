"""``firesteel cluster``: a service that runs the programs of many, and shows all of their jobs at one port."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import click

from firesteel.cli.help_texts import examples
from firesteel.cli.log_lines import roll_over, write_log_lines
from firesteel.cli.running_jobs import plain_errors
from firesteel.common._private_files import open_private_log
from firesteel.common.configuration import Configuration
from firesteel.common.errors import InvalidOptionError
from firesteel.common.options import SPARK_MASTER
from firesteel.datastream._given_options import checked, configured_options
from firesteel.logs.settings import read_log_settings
from firesteel.service.cluster_service import ClusterService, end_all_drivers
from firesteel.service.folder import ServiceFolder
from firesteel.service.processes import this_machine
from firesteel.service.settings import read_service_settings, service_folder

_POLL_SECONDS = 0.05
_START_SECONDS = 60.0
_STOP_SECONDS = 30.0
_SHOWN_LINES = 30


def _options(command: Any) -> Any:
    return click.option(
        "-D", "definitions", metavar="KEY=VALUE", multiple=True, help="Any option, repeatable."
    )(command)


@click.group(
    short_help="A service that many programs are submitted to.",
    epilog=examples(
        ("firesteel cluster start", "in the background, with its page at port 8081"),
        ("firesteel cluster status", "where it is, and what runs there"),
        ("firesteel cluster stop", "end it; its jobs resume when it is started again"),
    ),
)
def cluster() -> None:
    """A service that many programs are submitted to, each of which runs in a process of its own."""


@cluster.command(short_help="Start the service.")
@click.option(
    "-m", "--master", metavar="URL", help="Spark master of its jobs; without it each has a Spark of its own."
)
@_options
@click.option("--foreground", is_flag=True, help="Stay in this terminal, for systemd or a container.")
def start(master: str | None, definitions: tuple[str, ...], foreground: bool) -> None:
    """Start the service, in the background unless told otherwise."""
    with plain_errors():
        given, configuration = given_options(master, definitions)
        settings = read_service_settings(configuration, given)
        log_settings = read_log_settings(configuration)
        folder = ServiceFolder(settings.folder)
        if foreground:
            write_log_lines(log_settings)
            roll_over(folder.log, log_settings)
            _serve(ClusterService(settings, configuration))
            return
        folder.prepare()
        if not settings.has_standby and folder.is_held():
            known = folder.service() or {}
            raise click.ClickException(
                f"a service runs in {folder.path} already: {known.get('url', 'it is starting')}"
            )
        command = [
            *(["-m", master] if master else []),
            *(word for each in definitions for word in ("-D", each)),
        ]
        _start_in_background(folder, command, settings.has_standby)


def _serve(service: ClusterService) -> None:
    def stop(number: int, frame: FrameType | None) -> None:
        service.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    service.run(lambda url: click.echo(f"The cluster service is at {url}"))


def _start_in_background(folder: ServiceFolder, command: Sequence[str], may_stand_by: bool) -> None:
    before = folder.service()
    with open_private_log(str(folder.log)) as log:
        began = log.tell()
        process = subprocess.Popen(
            [sys.executable, "-m", "firesteel.cli.main", "cluster", "start", "--foreground", *command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        service = folder.service()
        if service is not None and service["pid"] == process.pid:
            process.returncode = 0  # it runs on without us: Popen need not warn that nobody waited for it
            click.echo(
                f"The cluster service is at {service['url']}, process {process.pid}, with its log in {folder.log}."
            )
            return
        if may_stand_by and service is not None and service == before:
            process.returncode = 0
            click.echo(
                f"Process {process.pid} stands by for the service at {service['url']}, with its log in {folder.log}."
            )
            return
        if process.poll() is not None:
            raise click.ClickException(
                "\n".join(["the service has not started:", *_lines_from(folder.log, began)])
            )
        time.sleep(_POLL_SECONDS)
    raise click.ClickException(
        f"the service has not started in {_START_SECONDS:g} s; its log is {folder.log}"
    )


def _lines_from(log: Path, begin: int) -> list[str]:
    with log.open("rb") as file:
        file.seek(begin if begin <= log.stat().st_size else 0)  # it was rolled over
        return file.read().decode(errors="replace").splitlines()[-_SHOWN_LINES:]


@cluster.command(short_help="End the service.")
@_options
@click.option(
    "--keep-jobs", is_flag=True, help="Let the drivers of its jobs run on; the next service finds them."
)
def stop(definitions: tuple[str, ...], keep_jobs: bool) -> None:
    """End the service and the drivers of its jobs, which are resumed when it is started again."""
    with plain_errors():
        folder = _folder(definitions)
        service = folder.service()
        is_here = service is not None and service["machine"] == this_machine()
        if service is not None and is_here and folder.is_held():
            os.kill(service["pid"], signal.SIGTERM)
            _await_end(folder)
            click.echo(f"The cluster service at {service['url']} has ended.")
        elif service is not None and not is_here:
            raise click.ClickException(f"the service runs on {service['machine']}: end it there")
        else:
            click.echo(f"No service runs in {folder.path}.")
        if not keep_jobs and (count := end_all_drivers(folder)):
            click.echo(f"{count} drivers have ended; 'firesteel cluster start' resumes their jobs.")


def _await_end(folder: ServiceFolder) -> None:
    deadline = time.monotonic() + _STOP_SECONDS
    while folder.is_held():
        if time.monotonic() > deadline:
            raise click.ClickException(
                f"the service has not ended in {_STOP_SECONDS:g} s; its log is {folder.log}"
            )
        time.sleep(_POLL_SECONDS)


@cluster.command(short_help="Show whether the service runs, and what it does.")
@_options
@click.pass_context
def status(context: click.Context, definitions: tuple[str, ...]) -> None:
    """Show where the service is and how many jobs it has; exit code 1 when there is none."""
    with plain_errors():
        folder = _folder(definitions)
    service = folder.service()
    overview = None if service is None else _overview(service["url"])
    if service is None or overview is None:
        click.echo(f"No service runs in {folder.path}.")
        context.exit(1)
    click.echo(
        f"The cluster service is at {service['url']}, process {service['pid']} on {service['machine']}.\n"
        f"Slots: {overview['slots-available']} of {overview['slots-total']} free. Jobs: {overview['jobs-running']} running, "
        f"{overview['jobs-finished']} finished, {overview['jobs-cancelled']} cancelled, {overview['jobs-failed']} failed."
    )


def _overview(url: str) -> Any:
    with (
        contextlib.suppress(OSError, ValueError),
        urllib.request.urlopen(f"{url}/overview", timeout=10) as answer,
    ):
        return json.load(answer)
    return None


def _folder(definitions: Sequence[str]) -> ServiceFolder:
    folder = ServiceFolder(service_folder(given_options(None, definitions)[1]))
    folder.prepare()
    return folder


def given_options(master: str | None, definitions: Sequence[str]) -> tuple[dict[str, str], Configuration]:
    """What the command line says, and everything together with the configuration file."""
    given: dict[str, str] = {} if master is None else {SPARK_MASTER.key: master}
    for text in definitions:
        key, equals, value = text.partition("=")
        if not key.strip():
            raise InvalidOptionError(f"-D expects key=value, got {text!r}")
        given[key.strip()] = value if equals else "true"
    return given, configured_options().add_all(checked(Configuration.from_dict(given)))
