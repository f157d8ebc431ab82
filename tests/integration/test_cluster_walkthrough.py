"""The walkthrough of docs/cluster_walkthrough.md does what it says: on one service, in a real browser, by commands, by curl.

Its steps in the browser are read from the page itself: **bold** is clicked, *slanted* has to be seen (… is anything), and code is
opened if it is an address, chosen if it is a file, and otherwise written into the field that was clicked last.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from walks import ROOT, Walk, blocks_of

from firesteel_support.servers.chromium import Page, chromium

pytestmark = pytest.mark.spark

#: The address that the page has; the service of the test listens wherever there is room.
SHOWN = "localhost:8081"
STEP = re.compile(r"\*\*(?P<click>.+?)\*\*|\*(?P<see>.+?)\*|`(?P<code>.+?)`")
CLICKABLE = "button, a, label.field > span"
#: What a page has to draw besides its texts.
DRAWN = {
    "Plan": "document.querySelectorAll('.graph .vertex').length === 2",
    "Metrics": "[...document.querySelectorAll('.chart .line')].some(e => e.getAttribute('d').split('L').length > 2)",
    "Dataflow": "document.querySelectorAll('.graph .vertex').length === 2",
}


class User(Walk):
    """Follows the page, at a terminal and in a browser."""

    def __init__(self, directory: Path) -> None:
        super().__init__(
            directory,
            {
                "JAR": (r'"filename":"[^"]*/([^"/]+)"', lambda: self.printed),
                "JOB_ID": (r'(?:JobID |"jobid":")(\w+)', lambda: self.printed),
                "VERTEX": (r'"vertices":\[\{"id":"(\w+)"', lambda: self.printed),
                "REQUEST": (r'"request-id":"(\w+)"', lambda: self.printed),
            },
        )
        self.address = SHOWN

    def told(self) -> str:
        folder = self.directory / "home" / "cluster"
        return "\n".join(
            log.read_text()[-3000:] for log in [*folder.glob("*.log"), *folder.glob("jobs/*/*.log")]
        )

    def filled_in(self, command: str) -> str:
        return super().filled_in(command).replace(SHOWN, self.address)

    def as_on_the_page(self, printed: str) -> str:
        found = re.search(r"is at http://([\w.]+:\d+)", printed)
        self.address = found[1] if found else self.address
        whole_line = (
            printed if printed.endswith("\n") else f"{printed}\n"
        )  # curl adds nothing to what it gets
        return whole_line.replace(self.address, SHOWN)

    def watch(self, command: str, expected: str) -> None:
        super().watch(command, super().filled_in(expected))

    def do(self, page: Page, step: str) -> None:
        """One step in the browser."""
        for found in STEP.finditer(step):
            if found["click"]:
                page.click(CLICKABLE, found["click"])
                if found["click"] in DRAWN:
                    page.wait(DRAWN[found["click"]])
            elif found["see"]:
                self._see(page, found["see"])
            elif found["code"].startswith("http"):
                page.open(found["code"].replace(SHOWN, self.address))
            elif (self.directory / found["code"]).is_file():
                page.choose_file("input[type=file]", self.directory / found["code"])
            else:
                page.run("document.activeElement.select()")
                page.type(found["code"])

    def _see(self, page: Page, text: str) -> None:
        pattern = ".*".join(re.escape(part) for part in text.split("…"))
        page.wait(
            f"[...document.querySelectorAll('main *, dialog *')].some(e => new RegExp({json.dumps(f'^{pattern}$')})"
            ".test(e.textContent.trim()))"
        )


@pytest.fixture
def user(tmp_path: Path) -> Iterator[User]:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "config.yaml").write_text("rest.port: 0\n")
    user = User(tmp_path)
    yield user
    user.run("firesteel cluster stop")  # what a walk that failed has left


def steps_of(text: str) -> list[str]:
    """The items of a numbered list, each in one line."""
    found = re.findall(r"^\d+\. (.*(?:\n   .*)*)", text, re.MULTILINE)
    return [re.sub(r"\s+", " ", each) for each in found]


def test_the_walkthrough_does_what_it_says(user: User) -> None:
    text = (ROOT / "docs" / "cluster_walkthrough.md").read_text(encoding="utf-8")
    sections = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    titles = [each.partition("\n")[0] for each in sections]
    assert titles == ["Start", "By the page", "By commands", "By plain HTTP", "End"]
    for title, section in zip(titles, sections, strict=True):
        if title == "By the page":
            _follow_in_a_browser(user, steps_of(section))
        for info, block, expected in blocks_of(section):
            user.follow(info, block, expected)


def _follow_in_a_browser(user: User, steps: list[str]) -> None:
    assert len(steps) == 11
    with chromium() as browser:
        page = browser.page()
        for number, step in enumerate(steps):
            user.do(page, step)
            if number == 0:  # a page asks every three seconds, which is long for who waits
                page.run("import('./js/poll.js').then(poll => poll.setInterval(300))")
        assert page.mistakes == []
        page.close()
