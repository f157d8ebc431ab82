"""What is not there yet: code, the page that lists it and the README say the same."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import firesteel
from firesteel.common._missing_modules import MODULES
from firesteel.datastream._not_yet import REFUSED

SOURCES = Path(firesteel.__file__).parent
ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "not_yet.md").read_text(encoding="utf-8")

#: Refused by a sentence that begins with the name of a class, or of an option.
SAID_OTHERWISE = {
    "contracts/java_classes.py": ["SourceFunction()", "SinkFunction()"],
    "datastream/_not_yet.py": [option.key for option, *_ in REFUSED],
}


def refusals() -> set[str]:
    """What the code refuses as missing, by name."""
    found = set(MODULES)
    for path in SOURCES.rglob("*.py"):
        file = path.relative_to(SOURCES).as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Raise(
                    exc=ast.Call(func=ast.Name(id="not_yet" | "MissingFeatureError"), args=[what, *_])
                ):
                    found.update(SAID_OTHERWISE[file] if file in SAID_OTHERWISE else [name_in(what)])
    return found


def name_in(what: ast.expr) -> str:
    """The name at the beginning of a sentence: of ``f"set_queryable({name!r}): ..."`` it is ``set_queryable()``."""
    match what:
        case ast.Constant(value=str(name)):
            return name
        case ast.JoinedStr(values=[ast.Constant(value=str(beginning)), *_]) if beginning.endswith("("):
            return f"{beginning})"
    raise AssertionError(f"which name does this refuse? {ast.unparse(what)}")


def rows(heading: str) -> list[list[str]]:
    """The cells of the table below a heading, without its head."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


def test_the_page_lists_what_the_code_refuses_and_nothing_else() -> None:
    listed = {name for row in (*rows("Names"), *rows("Options")) for name in re.findall(r"`([^`]+)`", row[1])}
    assert listed == refusals()


def test_the_readme_names_every_missing_feature_of_the_page_and_nothing_else() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    table = readme.split("| there | [not yet](docs/not_yet.md) |")[1].split("\n\n")[0]
    column = [line.strip("|").split("|")[1] for line in table.splitlines() if line.startswith("| ")]
    named = {feature.strip() for cell in column for feature in cell.split(";") if feature.strip()}
    sections = ("Names", "Options", "Without a name that could be refused")
    assert named == {row[0] for section in sections for row in rows(section)}


def test_what_executors_need_is_what_firesteel_needs_but_for_command_line_and_rest() -> None:
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    sentence = page.split("the executors need the same Python version")[1].split("They connect back")[0]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = {re.match(r"[\w-]+", each)[0] for each in project["dependencies"]}  # type: ignore[index]
    assert set(re.findall(r"`([\w-]+)`", sentence)) == needed - {
        "click",
        "python-multipart",
        "starlette",
        "uvicorn",
    }


def test_what_getting_started_calls_is_installed_before() -> None:
    page = (ROOT / "docs" / "getting_started.md").read_text(encoding="utf-8")
    called = page.index("\npytest\n")
    assert "\npip install pytest\n" in page[: called + 1]
