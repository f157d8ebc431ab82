"""``firesteel completion``: what a shell has to read so that it completes commands, options and job ids."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from firesteel.cli.help_texts import examples

_PROGRAM = "firesteel"
_VARIABLE = "_FIRESTEEL_COMPLETE"


@click.command(
    short_help="Print what a shell needs to complete commands.",
    epilog=examples(
        ('eval "$(firesteel completion bash)"', "in ~/.bashrc"),
        ('eval "$(firesteel completion zsh)"', "in ~/.zshrc"),
        ("firesteel completion fish > ~/.config/fish/completions/firesteel.fish", "once"),
    ),
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a script for SHELL. It asks this command itself, so that it always knows what there is."""
    kind = get_completion_class(shell)
    assert kind is not None, shell
    complete = kind(context.find_root().command, {}, _PROGRAM, _VARIABLE)
    # Not source(): that starts bash to look at its version, which is none of the business of who only prints.
    click.echo(complete.source_template % complete.source_vars())
