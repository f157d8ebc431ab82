"""The web interface where a token is needed: it asks for one, and shows the buttons that the token's role allows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from firesteel import launch
from firesteel.common import WatermarkStrategy
from firesteel.rest.access import hashed, new_token
from firesteel.rest.service import RestService
from firesteel.rest.settings import RestSettings
from firesteel.testing import ScriptedSource, WaitForever, simulated_environment
from firesteel_support.servers.chromium import Browser, Page, chromium

OPERATOR, READER = new_token(), new_token()


@pytest.fixture
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


def test_a_token_opens_the_pages_and_its_role_says_which_buttons_there_are(
    browser: Browser, tmp_path: Path
) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(f"operator {hashed(OPERATOR)}\nread-only {hashed(READER)}\n")
    tokens.chmod(0o600)
    service = RestService(RestSettings(tokens_file=str(tokens)))
    env = simulated_environment()
    env.from_source(ScriptedSource([WaitForever()]), WatermarkStrategy.no_watermarks(), "Waiting").print()
    with launch.observe_jobs(service):
        client = env.execute_async("a job that waits")
        page = browser.page()
        page.open(f"{service.url}/#/jobs/{client.get_job_id()}")
        page.wait_for_text("wants to know who asks", "#banner")
        _give(page, READER)
        page.wait_for_text("a job that waits", "main")
        page.wait("!document.querySelector('#banner').textContent.trim()")
        page.wait(f"({_BUTTONS}).length === 0")
        page.click("#top button", "Forget token")
        page.wait_for_text("wants to know who asks", "#banner")
        _give(page, OPERATOR)
        page.wait(f"({_BUTTONS}).includes('Cancel')")
        page.click("main button", "Cancel")
        page.click("dialog button", "Cancel the job")
        page.wait_for_text("canceled", "main .badge")
        addresses = [*page.requested, page.run("location.href"), page.run("JSON.stringify(localStorage)")]
        assert not any(token in address for token in (OPERATOR, READER) for address in addresses)
        assert all(mistake.startswith("401 ") for mistake in page.mistakes), page.mistakes
        page.close()
    service.close()
    assert client.is_over()  # type: ignore[attr-defined]


_BUTTONS = "[...document.querySelectorAll('main button')].map(e => e.textContent.trim()).filter(t => ['Cancel', 'Stop', 'Savepoint'].includes(t))"


def _give(page: Page, token: str) -> None:
    page.click("#banner button", "Enter a token")
    page.wait("document.activeElement.type === 'password'")
    page.type(token)
    page.click("dialog button", "Use it")
    page.wait_for_text("ask with this token now", "dialog")
    page.click("dialog button", "Close")
    page.wait("document.querySelector('dialog') === null")
