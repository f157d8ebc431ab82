"""``firesteel init``: makes a small project to begin with."""

from __future__ import annotations

import re
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from string import Template

import click

from firesteel import __version__
from firesteel.cli.help_texts import examples
from firesteel.cli.origin import is_in_index, requirement

_SUFFIX = ".tmpl"
_HIDDEN = {"gitignore": ".gitignore"}  # files that tools would mistake for their own where the templates are
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")


@click.command(
    "init",
    short_help="Make a project to begin with: two jobs and their tests.",
    epilog=examples(("firesteel init my-project", "then read my-project/README.md")),
)
@click.argument("directory", metavar="NAME", type=click.Path(path_type=Path))
def init(directory: Path) -> None:
    """Make a project: a streaming job, a batch job, tests of both, and how to run them."""
    name = directory.resolve().name
    if not _NAME.fullmatch(name):
        raise click.BadParameter(
            f"{name!r} cannot be the name of a project; use letters, digits, '-', '_' and '.'",
            param_hint="NAME",
        )
    if directory.exists() and not (directory.is_dir() and not any(directory.iterdir())):
        raise click.BadParameter(
            f"{directory} exists and is no empty directory; choose another name", param_hint="NAME"
        )
    paths = _fill(files("firesteel.cli").joinpath("templates"), directory, _words(name))
    click.echo("\n".join([f"made {directory} with", *(f"  {path}" for path in sorted(paths))]))
    click.echo(
        f"next: cd {directory} && firesteel run --simulate batch_job.py; README.md has the other commands"
    )


def _words(name: str) -> dict[str, str]:
    """What the templates leave open."""
    words = {"name": name, "version": __version__, "java": requirement("java")}
    if is_in_index():
        return {**words, "firesteel": "", "origin": ""}
    note = (
        f"\nFiresteel {__version__} was installed from a place of its own here, not from an index of packages, so the line "
        "above\nnames that place. Another machine needs one that it can reach: a checkout, a wheel, an address.\n"
    )
    return {**words, "firesteel": f"{requirement()} ", "origin": note}


def _fill(templates: Traversable, directory: Path, words: dict[str, str], inside: str = "") -> list[str]:
    """Write all ``templates`` with their ``words``; returns the paths of the files."""
    directory.mkdir(parents=True, exist_ok=True)
    paths: list[str] = []
    for template in templates.iterdir():
        if template.is_dir():
            paths += _fill(template, directory / template.name, words, f"{inside}{template.name}/")
        elif template.name.endswith(_SUFFIX):
            name = template.name.removesuffix(_SUFFIX)
            name = _HIDDEN.get(name, name)
            text = Template(template.read_text(encoding="utf-8")).substitute(words)
            (directory / name).write_text(text, encoding="utf-8")
            paths.append(inside + name)
    return paths
