"""The static files of the web interface: complete, nothing inline, nothing from elsewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from firesteel.web import CONTENT_SECURITY_POLICY, INDEX, directory

FILES = sorted(path for path in directory().rglob("*") if path.is_file())
SCRIPTS = [path for path in FILES if path.suffix == ".js"]
NAMES = [str(path.relative_to(directory())) for path in FILES]


def test_everything_that_the_first_page_names_is_there() -> None:
    text = (directory() / INDEX).read_text()
    named = re.findall(r'(?:href|src)="([^"#]+)"', text)
    assert len(named) > 5
    assert [name for name in named if not (directory() / name).is_file()] == []


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_every_import_is_of_a_file_that_is_there_and_has_the_names(script: Path) -> None:
    for names, source in re.findall(r'^import (.+?) from "(.+?)";$', script.read_text(), re.MULTILINE):
        target = (script.parent / source).resolve()
        assert target.is_file(), source
        exported = set(
            re.findall(r"^export (?:async )?(?:function|class|const) (\w+)", target.read_text(), re.MULTILINE)
        )
        wanted = set(re.findall(r"\w+", names)) if names.startswith("{") else set()
        assert wanted <= exported, source


def test_all_modules_are_loaded_at_once_instead_of_one_behind_the_other() -> None:
    text = (directory() / INDEX).read_text()
    named = re.findall(r'rel="modulepreload" href="([^"]+)"', text)
    assert sorted(named) == sorted(
        set(NAMES) & {str(path.relative_to(directory())) for path in SCRIPTS} - {"js/early.js"}
    )


def test_every_script_is_used() -> None:
    text = "".join(path.read_text() for path in [*SCRIPTS, directory() / INDEX])
    assert [path.name for path in SCRIPTS if f"/{path.name}" not in text] == []


@pytest.mark.parametrize("name", NAMES)
def test_nothing_comes_from_elsewhere_and_nothing_is_inline(name: str) -> None:
    text = (directory() / name).read_text()
    addresses = set(re.findall(r"https?://[^\s\"')]+", text)) - {"http://www.w3.org/2000/svg"}
    assert addresses == set()
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text
    )
    if name.endswith(".html"):
        assert not re.search(r"<style|style=|\son\w+=|<script(?![^>]*\ssrc=)", text)


def test_the_policy_allows_nothing_inline_and_nothing_from_elsewhere() -> None:
    assert "unsafe" not in CONTENT_SECURITY_POLICY
    assert "default-src 'none'" in CONTENT_SECURITY_POLICY
    assert not re.search(r"https?:|\*", CONTENT_SECURITY_POLICY)
