"""The ``firesteel`` command itself: the group that the subcommands hang on."""

from __future__ import annotations

import sys

import click

from firesteel import __version__
from firesteel.cli.cancel import cancel
from firesteel.cli.certificates import certificates
from firesteel.cli.checkpoint import checkpoint
from firesteel.cli.cluster import cluster
from firesteel.cli.completion import completion
from firesteel.cli.help_texts import examples
from firesteel.cli.history import history
from firesteel.cli.info import info
from firesteel.cli.init import init
from firesteel.cli.list import list_jobs
from firesteel.cli.log_level import log_level
from firesteel.cli.modify import modify
from firesteel.cli.process_list import hide_secrets
from firesteel.cli.run import run
from firesteel.cli.savepoint import savepoint
from firesteel.cli.stop import stop
from firesteel.cli.token import token
from firesteel.cli.top import top


@click.group(
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=examples(
        ("firesteel init my-project", "begin with a project that works"),
        ("firesteel run --simulate job.py", "try a program out, without Java and Spark"),
        ("firesteel run job.py", "run it on a Spark inside this process"),
        ("firesteel run --help", "everything about a command"),
    ),
)
@click.version_option(__version__, "--version", "-v", prog_name="firesteel")
def main() -> None:
    """Apache Flink's DataStream model in Python, executed by Apache Spark."""
    hide_secrets(sys.argv[1:])


main.add_command(init)
main.add_command(run)
main.add_command(info)
main.add_command(list_jobs)
main.add_command(top)
main.add_command(savepoint)
main.add_command(checkpoint)
main.add_command(modify)
main.add_command(stop)
main.add_command(cancel)
main.add_command(completion)
main.add_command(log_level)
main.add_command(certificates)
main.add_command(token)
main.add_command(cluster)
main.add_command(history)

if __name__ == "__main__":
    main(prog_name="firesteel")
