"""``firesteel history``: shows jobs that have ended, from the archive that they were written to."""

from __future__ import annotations

import signal
import threading

import click

from firesteel.cli.cluster import given_options
from firesteel.cli.help_texts import examples
from firesteel.cli.log_lines import write_log_lines
from firesteel.cli.running_jobs import plain_errors
from firesteel.logs.settings import read_log_settings
from firesteel.service.history_server import HistoryServer, read_history_settings


@click.group(
    short_help="Show jobs that have ended, from their archive.",
    epilog=examples(
        ("firesteel history start -D historyserver.archive.fs.dir=/archive", "at port 8082, until Ctrl-C"),
    ),
)
def history() -> None:
    """Show jobs that have ended, from the archive that 'jobmanager.archive.fs.dir' names."""


@history.command(short_help="Serve the archive until Ctrl-C.")
@click.option("-D", "definitions", metavar="KEY=VALUE", multiple=True, help="Any option, repeatable.")
def start(definitions: tuple[str, ...]) -> None:
    """Serve the archive at the port of 'historyserver.web.port', in this terminal, until Ctrl-C."""
    with plain_errors():
        configuration = given_options(None, definitions)[1]
        log_settings = read_log_settings(configuration)
        server = HistoryServer(*read_history_settings(configuration))
    write_log_lines(log_settings)
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, frame: ended.set())
    click.echo(f"The history server is at {server.url}")
    ended.wait()
    server.close()
