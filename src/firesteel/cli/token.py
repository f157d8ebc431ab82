"""``firesteel token``: makes a token for the REST interface and writes its hash into the file of those that are let in."""

from __future__ import annotations

import os
from pathlib import Path

import click

from firesteel.cli.help_texts import examples
from firesteel.cli.running_jobs import plain_errors
from firesteel.common._private_files import create_secret
from firesteel.common.options import REST_TOKENS_FILE
from firesteel.rest.access import Role, hashed, new_token, read_tokens


@click.command(
    short_help="Make a token for the REST interface.",
    epilog=examples(
        (
            "firesteel token tokens",
            "one that may do everything; it is printed, and its hash added to the file",
        ),
        ("firesteel token tokens --role read-only --name grafana", "one that may only look"),
    ),
)
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--role",
    type=click.Choice([role.value for role in Role]),
    default=Role.OPERATOR.value,
    show_default=True,
    help="What who has it may do.",
)
@click.option("--name", default="", metavar="NAME", help="Whose it is: a note for people who read the file.")
def token(file: Path, role: str, name: str) -> None:
    """Make a token, print it, and add its hash to FILE, which is made if it is not there.

    It is printed this once: the file does not have it. To take it back, delete its line; drivers notice.
    """
    if "\n" in name or "\r" in name:
        raise click.BadParameter("expected one line", param_hint="--name")
    made = new_token()
    line = f"{role} {hashed(made)} {name}".rstrip() + "\n"
    with plain_errors():
        if file.exists():
            read_tokens(str(file))  # what is wrong with it is said now, not by a driver
            with file.open("a", encoding="utf-8") as appended:
                appended.write(line if _ends_a_line(file) else f"\n{line}")
        else:
            with create_secret(str(file)) as created:
                created.write(
                    f"# {REST_TOKENS_FILE.key}: role, SHA-256 of the token, whose it is\n{line}".encode()
                )
    click.echo(made)


def _ends_a_line(file: Path) -> bool:
    with file.open("rb") as content:
        if content.seek(0, os.SEEK_END) == 0:
            return True
        content.seek(-1, os.SEEK_END)
        return content.read(1) == b"\n"
