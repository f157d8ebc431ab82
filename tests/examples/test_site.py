"""The documentation site can be built, has every page in its navigation, no dead link, and loads nothing from elsewhere.

``scripts/docs build`` reports what mkdocs finds: links in pages, anchors, pages that the navigation leaves out. The rest
is read from the HTML as a browser would: also what hooks, theme and API reference have made.
"""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from firesteel.common._override import override

ROOT = Path(__file__).parents[2]
SECTIONS = ["Learn", "How-to", "Reference", "Internals"]


@dataclass
class Html(HTMLParser):
    """What a page refers to, what in it can be referred to, and its paragraphs."""

    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)
    paragraphs: list[str] = field(default_factory=list)
    _in_paragraph: bool = False

    def __post_init__(self) -> None:
        super().__init__()

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if "id" in given:
            self.ids.add(given["id"])
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if "src" in given:
            self.loaded.append(given["src"])
        if tag == "link" and given.get("rel") not in ("canonical", "prev", "next"):
            self.loaded.append(given["href"])
        if tag == "p":
            self._in_paragraph = True
            self.paragraphs.append("")

    @override
    def handle_endtag(self, tag: str) -> None:
        if tag == "p":
            self._in_paragraph = False

    @override
    def handle_data(self, data: str) -> None:
        if self._in_paragraph:
            self.paragraphs[-1] += data


def parsed(text: str) -> Html:
    page = Html()
    page.feed(text)
    return page


def target_of(address: str, page: Path) -> Path:
    """The file that an address on a page means."""
    path = unquote(urlsplit(address).path)
    return (page.parent / path).resolve() if path else page


def dead(pages: dict[Path, Html]) -> list[str]:
    """Addresses on pages, and what they load, that lead to no file or to no place in it."""
    found = []
    for path, page in pages.items():
        for address in [*page.links, *page.loaded]:
            parts = urlsplit(address)
            target = target_of(address, path)
            is_missing = not target.is_file()
            is_without_place = (
                target in pages and bool(parts.fragment) and unquote(parts.fragment) not in pages[target].ids
            )
            if not parts.scheme and (is_missing or is_without_place):
                found.append(f"{path.name}: {address}")
    return found


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site."""
    directory = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [ROOT / "scripts" / "docs", "build", directory], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return directory.resolve()


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Html]:
    """All pages but the one for addresses that do not exist, whose links begin at the server's root."""
    files = [path for path in site.rglob("*.html") if path.name != "404.html"]
    return {path: parsed(path.read_text(encoding="utf-8")) for path in files}


def test_no_link_is_dead(pages):
    assert len(pages) > 100
    assert dead(pages) == []


def test_a_dead_link_is_noticed(tmp_path):
    text = '<a href="b.html"></a><a href="#there"></a><a href="#not"></a><img src="c.png"><p id="there">'
    page = tmp_path.resolve() / "a.html"
    page.write_text(text)
    assert dead({page: parsed(text)}) == ["a.html: b.html", "a.html: #not", "a.html: c.png"]


def test_nothing_is_loaded_from_elsewhere(site, pages):
    assert [address for page in pages.values() for address in page.loaded if urlsplit(address).scheme] == []
    sheets = [path.read_text(encoding="utf-8") for path in site.rglob("*.css")]
    assert len(sheets) > 0
    assert [found for sheet in sheets for found in re.findall(r"url\(\s*['\"]?(https?:[^)]*)", sheet)] == []


def test_every_page_of_docs_is_in_the_site_and_in_the_navigation(site, pages):
    made = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").glob("*.md")}
    assert {name for name in made if not (site / name).with_suffix(".html").is_file()} == set()
    index = pages[site / "index.html"]
    assert {name for name in made if name.removesuffix(".md") + ".html" not in index.links} == set()


def test_search_knows_pages_and_programs_but_no_source_files(site):
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    found = {entry["location"].partition("#")[0] for entry in index["docs"]}
    assert {"index.html", "windows.html", "api/firesteel.datastream.data_stream.html"} <= found
    assert [location for location in found if location.startswith("source/")] == []


def test_reference_describes_every_exported_name_once(pages):
    from firesteel import datastream

    places = [
        anchor for page in pages.values() for anchor in page.ids if anchor.startswith("firesteel.datastream.")
    ]
    described = {anchor.rpartition(".")[2] for anchor in places}
    assert set(datastream.__all__) - described == set()
    assert len(places) == len(set(places))


def test_examples_of_docstrings_are_shown_as_programs(site):
    page = (site / "api" / "firesteel.datastream.html").read_text(encoding="utf-8")
    assert '<span class="gp">' in page  # a prompt, in colour
    nested = re.compile(r"<blockquote>\s*<blockquote>")
    assert [path.name for path in site.glob("api/*.html") if nested.search(path.read_text("utf-8"))] == []


def test_lists_and_tables_are_not_run_into_paragraphs(pages):
    # Repository browsers begin a list or a table anywhere; on the site there has to be an empty line before it.
    lost = re.compile(r"::$|^(?:- |\d+\. |\|)|(?<!\w)\*\*\w|```", re.MULTILINE)
    found = [
        (path.name, text)
        for path, page in pages.items()
        if "source" not in path.parts
        for text in page.paragraphs
        if lost.search(text)
    ]
    assert found == []


# The order of pages -----------------------------------------------------------------------------------


def navigation() -> dict[str, list[str]]:
    """The sections of mkdocs.yml with their files."""
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    block = re.search(r"^nav:\n(.*?)^\S", text, re.MULTILINE | re.DOTALL)[1]
    sections = re.findall(r"^  - ([\w-]+):\n((?:      - .*\n)+)", block, re.MULTILINE)
    return {name: re.findall(r"- (\S+)", files) for name, files in sections}


def test_navigation_has_its_sections_and_each_page_once():
    assert list(navigation()) == SECTIONS
    listed = [file for files in navigation().values() for file in files]
    assert sorted(listed) == sorted(set(listed))


def test_table_of_the_readme_has_the_pages_of_the_navigation():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    table = readme.partition("## Documentation")[2].partition("\n## ")[0]
    linked = re.findall(r"\]\((?:docs/)?([\w./]+)\)", table)
    listed = [file for files in navigation().values() for file in files]
    assert sorted(linked) == sorted("CHANGELOG.md" if file == "changelog.md" else file for file in listed)
