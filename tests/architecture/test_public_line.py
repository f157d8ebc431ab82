"""What users import is what the architecture page lists, and pages and examples import nothing else."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from firesteel_support.public_line import PYFLINK, SOURCE, is_public, public_packages

ROOT = SOURCE.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PROGRAMS = [
    *sorted((ROOT / "docs").glob("*.py")),
    *sorted((ROOT / "examples").glob("*.py")),
    *sorted((SOURCE / "firesteel" / "cli" / "templates").rglob("*.tmpl")),
]
FENCE = re.compile(r"^```python[^\n`]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
IMPORT = re.compile(r"^\s*(?:from (firesteel[\w.]*) import ([^\n]*)|import (firesteel[\w.]*))", re.MULTILINE)
INTERNAL = re.compile(r"\bfiresteel\.(?:contracts|launch)\b")


def modules_of(package: str) -> set[str]:
    """The modules of a package that have no underscore; packages in it have a row of their own."""
    folder = SOURCE.joinpath(*package.split("."))
    return {path.stem for path in folder.glob("*.py") if not path.name.startswith("_")}


def imported(program: str) -> set[str]:
    """The packages and modules of Firesteel that a program imports."""
    found: set[str] = set()
    for module, names, plain in IMPORT.findall(program):
        found.add(plain or module)
        for name in re.findall(r"\w+", names):
            inner = SOURCE.joinpath(*module.split("."), name)
            if inner.is_dir() or inner.with_suffix(".py").is_file():
                found.add(f"{module}.{name}")
    return found


def test_public_packages_exist() -> None:
    assert len(public_packages()) >= 7
    missing = [package for package in public_packages() if importlib.util.find_spec(package) is None]
    assert missing == []
    assert PYFLINK.keys() <= public_packages().keys()


@pytest.mark.parametrize("package", public_packages())
def test_modules_without_underscore_are_pyflinks_or_listed(package: str) -> None:
    listed = public_packages()[package]
    assert listed & PYFLINK.get(package, set()) == set(), "PyFlink has it: no need to list it"
    others = modules_of(package) - PYFLINK.get(package, set())
    assert others == listed, "give it an underscore, or list it in docs/architecture.md"


@pytest.mark.parametrize("page", [*PAGES, *PROGRAMS], ids=lambda path: str(path.relative_to(ROOT)))
def test_pages_and_examples_import_only_what_is_public(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    programs = FENCE.findall(text) if page.suffix == ".md" else [text]
    assert sorted(name for program in programs for name in imported(program) if not is_public(name)) == []


def test_pages_send_nobody_to_internal_packages() -> None:
    found = [
        f"{page.relative_to(ROOT)}: {match}"
        for page in PAGES
        for match in INTERNAL.findall(page.read_text("utf-8"))
    ]
    assert found == []


def test_an_import_of_something_internal_is_noticed() -> None:
    program = (
        "from firesteel import launch\nfrom firesteel.common import Row, _values\nimport firesteel.plan\n"
    )
    refused = {name for name in imported(program) if not is_public(name)}
    assert refused == {"firesteel.launch", "firesteel.common._values", "firesteel.plan"}
