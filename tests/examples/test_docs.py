"""The documentation is true: its programs run and print what it shows, its links lead somewhere, its table is current.

Fenced blocks of README and docs are marked:

- ``python``: runs in the simulator; the blocks of a page share their names, in order.
- ``py``: is only shown; it has to be Python. ``py structured-streaming`` needs a Spark of its own to run
  (tests/integration/test_structured_streaming_page.py).
- ``python spark``: does not run in the simulator, but on Spark, in ``tests/integration/test_values.py`` and
  ``tests/integration/test_spark_neighbour.py``.
- ``python raises``: must raise; an ``output`` block after it shows the error's name and message.
- ``output``: what the block before it prints; ``output unordered`` leaves the order of lines open.
  ``...`` stands for anything.
"""

from __future__ import annotations

import ast
import contextlib
import doctest
import importlib.util
import io
import linecache
import logging
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
    needs_spark: bool = False
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
            found.append(Block(page, line, match["text"], "raises" in marks, "spark" in marks))
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
            exec(
                compile(block.text, name, "exec", dont_inherit=True), names
            )  # annotations as a page has them
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
    """In the simulator, and with no alias and no configuration of logging left behind."""
    root, own = logging.getLogger(), logging.getLogger("firesteel")
    handlers, levels = root.handlers[:], (root.level, own.level)
    yield
    pyflink_alias.uninstall()
    root.handlers = handlers
    root.setLevel(levels[0])
    own.setLevel(levels[1])


@pytest.mark.usefixtures("in_simulator")
@pytest.mark.parametrize("page", WITH_PROGRAMS, ids=lambda page: page.name)
def test_programs_of_the_page_run_and_print_what_is_shown(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # pages may read and write files by relative names
    names = {"__name__": "__main__"}
    for block in blocks_of(page):
        if block.needs_spark:
            continue
        if "pyflink" in block.text:
            pyflink_alias.install()
        found = run(block, names)
        if block.output is not None:
            assert agrees(found, block), f"{page.name}, line {block.line}, gives:\n{found}"


def test_programs_that_need_spark_are_on_the_pages_whose_programs_run_there():
    with_them = [page.name for page in WITH_PROGRAMS if any(block.needs_spark for block in blocks_of(page))]
    assert with_them == ["spark_dataframes.md", "values.md"]


def test_programs_that_are_only_shown_are_python():
    shown = [
        (page, match)
        for page in PAGES
        for match in FENCE.finditer(page.read_text(encoding="utf-8"))
        if match["info"].split()[:1] == ["py"]
    ]
    assert len(shown) >= 6
    for page, match in shown:
        compile(match["text"], f"{page.name}: {match['info']}", "exec")


def test_first_program_of_the_readme_fits_on_the_first_screen():
    first = blocks_of(ROOT / "README.md")[0]
    lines = [line for line in first.text.splitlines() if line.strip()]
    assert len(lines) <= 10
    assert first.output is not None
    assert first.line < 40


# Links ------------------------------------------------------------------------------------------------


def links_of(page: Path) -> list[tuple[str, str]]:
    """The links of a page to this repository: file, empty for the page itself, and heading, empty for the whole file."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    parts = [target.partition("#") for target in LINK.findall(text) if "://" not in target]
    return [(file, heading) for file, _, heading in parts]


def test_links_lead_to_files_that_exist():
    missing = [
        f"{page.relative_to(ROOT)}: {file}"
        for page in PAGES
        for file, _ in links_of(page)
        if not (page.parent / file).exists()
    ]
    assert missing == []


def test_links_lead_to_headings_that_exist():
    missing = [
        f"{page.relative_to(ROOT)}: {file}#{heading}"
        for page in PAGES
        for file, heading in links_of(page)
        if heading and heading not in headings(page.parent / file if file else page)
    ]
    assert missing == []


def headings(page: Path) -> set[str]:
    """The names under which headings can be linked, as most renderers make them."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("name", ["journey_of_a_record.md", "life_of_a_checkpoint.md"])
def test_hops_are_counted_and_each_is_the_file_that_its_link_says(name):
    page = ROOT / "docs" / name
    hops = re.findall(r"^\| (\d+) \| \[([^\]]*)\]\(([^)]+)\)", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert [int(number) for number, _, _ in hops] == list(range(1, len(hops) + 1))
    assert len(hops) >= 8
    assert [file for _, shown, file in hops if file != f"../src/firesteel/{shown}"] == []


@pytest.mark.parametrize(
    ("name", "journey"),
    [("journey_of_a_record.md", "a record's journey"), ("life_of_a_checkpoint.md", "a checkpoint's life")],
)
def test_the_first_sentence_of_the_file_of_a_hop_says_which_hop_it_is(name, journey):
    page = ROOT / "docs" / name
    hops = re.findall(r"^\| (\d+) \| \[[^\]]*\]\(([^)]+)\)", page.read_text(encoding="utf-8"), re.MULTILINE)
    sentences = {number: first_sentence(page.parent / file) for number, file in hops}
    assert hops
    assert {n: says for n, says in sentences.items() if f"hop {n} of {journey}" not in says} == {}


def first_sentence(file: Path) -> str:
    """That of the module's docstring, in one line."""
    first, _, _ = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))).partition("\n\n")
    return " ".join(first.split()).split(". ")[0]


def test_paths_between_backticks_exist():
    path = re.compile(r"`((?:src|tests|docs|examples|scripts|benchmarks)/[\w./-]+)`")
    missing = [
        f"{page.relative_to(ROOT)}: {found}"
        for page in PAGES
        for found in path.findall(FENCE.sub("", page.read_text(encoding="utf-8")))
        if not (ROOT / found).exists()
    ]
    assert missing == []


def test_every_page_is_reachable_from_the_readme():
    seen: set[Path] = set()
    waiting = [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in seen or page.suffix != ".md" or not page.exists():
            continue
        seen.add(page)
        waiting += [(page.parent / file).resolve() for file, _ in links_of(page) if file]
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


def test_commands_have_the_options_that_pages_give_them():
    commands = firesteel_command.commands
    known = {
        name: {each for option in commands[name].params for each in option.opts} for name in ("run", "info")
    }
    unknown = [
        f"{page.relative_to(ROOT)}: firesteel {command} {option}"
        for page in PAGES
        for command, options in re.findall(r"firesteel (run|info)((?: +-{1,2}\w+)*)", page.read_text("utf-8"))
        for option in options.split()
        if option not in known[command]
    ]
    assert unknown == []


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
