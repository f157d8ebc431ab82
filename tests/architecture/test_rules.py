"""Rules have ids: the page has every id that something cites, and no other; subtle rules have tests of their own."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "rules.md"
#: In text, and in names of tests.
CITED = re.compile(r"\b([A-M]\d\d)\b|\btest_([a-m]\d\d)_")
RANGE = re.compile(r"\b([A-M])(\d\d) - \1(\d\d)\b")
#: 1 to 20 are about time, timers, windows and state, 21 to 25 about checkpoints.
SUBTLE = range(1, 26)


def cited_in(text: str) -> set[str]:
    found = {upper or lower.upper() for upper, lower in CITED.findall(text)}
    for letter, first, last in RANGE.findall(text):
        found.update(f"{letter}{number:02}" for number in range(int(first), int(last) + 1))
    return found


def test_ids_are_found_in_all_their_forms() -> None:
    assert cited_in("rule L23, def test_b07_late_records, # J07 - J09") == {"L23", "B07", "J07", "J08", "J09"}


def test_every_cited_rule_is_on_the_page_and_every_rule_there_is_cited() -> None:
    folders = ["src", "tests", "docs", "examples"]
    files = [
        path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in {".py", ".md"}
    ]
    others = [path for path in files if path not in {PAGE, Path(__file__)}]
    cited = set().union(*(cited_in(path.read_text(encoding="utf-8")) for path in others))
    described = re.findall(
        r'^- <a id="(\w+)"></a>\*\*(\w+)\*\* ', PAGE.read_text(encoding="utf-8"), re.MULTILINE
    )
    ids = [rule for _, rule in described]
    assert [anchor for anchor, rule in described if anchor != rule.lower()] == []
    assert len(set(ids)) == len(ids)
    assert sorted(cited - set(ids)) == [], "describe it in docs/rules.md"
    assert sorted(set(ids) - cited) == [], "nothing cites it"


def test_every_subtle_rule_has_a_test_named_after_it() -> None:
    source = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    tested = {int(number) for number in re.findall(r"^def test_l(\d\d)_", source, flags=re.MULTILINE)}
    assert set(SUBTLE) <= tested
