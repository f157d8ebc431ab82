"""The documentation is true: its programs run and print what it shows, its links lead somewhere, its table is current.

Fenced blocks of README and docs are marked:

- ``python``: runs in the simulator; the blocks of a page share their names, in order.
- ``python raises``: must raise; an ``output`` block after it shows the error's name and message.
- ``output``: what the block before it prints; ``output unordered`` leaves the order of lines open.
  ``...`` stands for anything.
"""

from __future__ import annotations

import contextlib
import doctest
import importlib.util
import io
import linecache
import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from click.testing import CliRunner

from firesteel import pyflink_alias
from firesteel.cli.main import main as firesteel_command

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")


@dataclass
class Block:
    """A program of a page and what it should print."""

    page: Path
    line: int
    text: str
    raises: bool
    output: str | None = None
    unordered: bool = False
    names: dict = field(default_factory=dict)


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    found: list[Block] = []
    for match in FENCE.finditer(text):
        kind, *marks = match["info"].split() or [""]
        line = text.count("\n", 0, match.start()) + 2
        if kind == "python":
            found.append(Block(page, line, match["text"], "raises" in marks))
        elif kind == "output":
            found[-1].output, found[-1].unordered = match["text"], "unordered" in marks
    return found


def run(block: Block, names: dict) -> str:
    """Run the program; its output, or what it raised."""
    name = f"{block.page.name}:{block.line}"
    linecache.cache[name] = (len(block.text), None, block.text.splitlines(keepends=True), name)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            exec(compile(block.text, name, "exec"), names)
        except Exception as error:
            if not block.raises:
                raise
            return f"{type(error).__name__}: {error}\n"
    assert not block.raises, f"{name} should raise"
    return printed.getvalue()


def agrees(found: str, block: Block) -> bool:
    shown = block.output
    if block.unordered:
        found, shown = ("".join(sorted(text.splitlines(keepends=True))) for text in (found, shown))
    return doctest.OutputChecker().check_output(shown, found, doctest.ELLIPSIS)


WITH_PROGRAMS = [page for page in PAGES if blocks_of(page)]


@pytest.fixture
def in_simulator(simulator):
    """In the simulator, and with no alias left behind."""
    yield
    pyflink_alias.uninstall()


@pytest.mark.usefixtures("in_simulator")
@pytest.mark.parametrize("page", WITH_PROGRAMS, ids=lambda page: page.name)
def test_programs_of_the_page_run_and_print_what_is_shown(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # pages may read and write files by relative names
    names = {"__name__": "__main__"}
    for block in blocks_of(page):
        if "pyflink" in block.text:
            pyflink_alias.install()
        found = run(block, names)
        if block.output is not None:
            assert agrees(found, block), f"{page.name}, line {block.line}, gives:\n{found}"


def test_first_program_of_the_readme_fits_on_the_first_screen():
    first = blocks_of(ROOT / "README.md")[0]
    lines = [line for line in first.text.splitlines() if line.strip()]
    assert len(lines) <= 10
    assert first.output is not None
    assert first.line < 40


# Links ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_that_exist(page):
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    targets = [target for target in LINK.findall(text) if "://" not in target]
    missing = [
        target
        for target in targets
        if target.partition("#")[0] and not (page.parent / target.partition("#")[0]).exists()
    ]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_headings_that_exist(page):
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for target in LINK.findall(text):
        file, _, heading = target.partition("#")
        if heading and "://" not in target:
            there = (page.parent / file) if file else page
            assert heading in headings(there), target


def headings(page: Path) -> set[str]:
    """The names under which headings can be linked, as most renderers make them."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_every_hop_of_the_journey_is_a_file_that_says_so():
    page = ROOT / "docs" / "journey_of_a_record.md"
    hops = re.findall(r"^\| (\d+) \| \[[^\]]*\]\(([^)]+)\)", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert [int(number) for number, _ in hops] == list(range(1, len(hops) + 1))
    assert len(hops) >= 8


def test_every_page_is_reachable_from_the_readme():
    seen: set[Path] = set()
    waiting = [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in seen or page.suffix != ".md" or not page.exists():
            continue
        seen.add(page)
        text = FENCE.sub("", page.read_text(encoding="utf-8"))
        links = [link.partition("#")[0] for link in LINK.findall(text) if "://" not in link]
        waiting += [(page.parent / link).resolve() for link in links if link]
    assert {page.name for page in PAGES if page not in seen} == set()


# Generated parts --------------------------------------------------------------------------------------


def test_options_table_is_current():
    script = ROOT / "docs" / "options_table.py"
    spec = importlib.util.spec_from_file_location("options_table", script)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text = module.PAGE.read_text(encoding="utf-8")
    assert module.updated(text) == text, "run: python docs/options_table.py"


def test_plan_on_the_page_is_the_plan_of_the_example(monkeypatch):
    monkeypatch.chdir(ROOT)
    page = (ROOT / "docs" / "distribution_and_parallelism.md").read_text(encoding="utf-8")
    (command, shown), *_ = re.findall(
        r"^\$ firesteel (info [^\n]*)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL
    )
    result = CliRunner().invoke(firesteel_command, command.split())
    assert result.output == shown


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_have_the_options_that_pages_give_them(page):
    text = page.read_text(encoding="utf-8")
    for command, rest in re.findall(r"firesteel (run|info)((?: +-{1,2}\w+)*)", text):
        known = {name for option in firesteel_command.commands[command].params for name in option.opts}
        assert set(rest.split()) <= known


def test_errors_page_names_every_error():
    from firesteel.common import errors

    text = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    names = [name for name in errors.__all__ if name.endswith("Error")]
    assert [name for name in names if f"`{name}`" not in text] == []


def test_every_example_is_listed():
    text = (ROOT / "docs" / "examples.md").read_text(encoding="utf-8")
    programs = [
        path.name
        for path in sorted((ROOT / "examples").glob("*.py"))
        if "__main__" in path.read_text(encoding="utf-8")
    ]
    assert [name for name in programs if f"({Path('..') / 'examples' / name})" not in text] == []
