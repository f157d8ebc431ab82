"""The web interface in a real Chromium, against the REST interface of jobs on Spark: every page, by mouse and by keyboard.

With FIRESTEEL_SCREENSHOTS=directory, pictures of the pages are written there; those of the documentation are made like this
(docs/contributing.md).
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import watched_jobs

from firesteel import launch
from firesteel.common import Configuration
from firesteel.common.job_client import JobClient
from firesteel.datastream import StreamExecutionEnvironment
from firesteel.logs.levels import levels
from firesteel.rest.service import RestService
from firesteel.rest.settings import RestSettings
from firesteel_support.servers.chromium import Browser, Page, chromium

pytestmark = pytest.mark.spark

_RENAME = """paths => {
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) for (const [from, to] of Object.entries(paths))
    if (walk.currentNode.data.includes(from)) walk.currentNode.data = walk.currentNode.data.replaceAll(from, to);
}"""


class Site:
    """Where the pages are, and the job that runs."""

    def __init__(self, url: str, directory: Path, job: JobClient) -> None:
        self.url = url
        self.directory = directory
        self.client = job
        self.job = f"{url}/#/jobs/{job.get_job_id()}"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def site(browser: Browser, spark: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The pages of a driver with three jobs, of which one runs."""
    directory = tmp_path_factory.mktemp("site")
    service = RestService(RestSettings())
    with launch.observe_jobs(service):
        watched_jobs.run_to_failure(_environment(directory))
        watched_jobs.run_to_end(_environment(directory))
        running = watched_jobs.start(
            _environment(
                directory,
                {
                    "execution.checkpointing.interval": "1 s",
                    "rest.flamegraph.num-samples": "200",
                    "rest.flamegraph.delay-between-samples": "10 ms",
                },
            )
        )
        yield Site(service.url, directory, running)
        running.cancel().result()
    service.close()


def _environment(directory: Path, options: dict[str, str] | None = None) -> StreamExecutionEnvironment:
    given = {
        "execution.checkpointing.dir": str(directory / "checkpoints"),
        "execution.checkpointing.savepoint-dir": str(directory / "savepoints"),
        "restart-strategy.type": "none",
        **(options or {}),
    }
    environment = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(given))
    return environment.set_parallelism(2)


@pytest.fixture
def page(browser: Browser, site: Site) -> Iterator[Page]:
    """A laptop's screen. Whatever the page does wrong fails the test."""
    page = browser.page()
    page.prefer("light")
    page.open(site.url)
    yield page
    page.close()
    assert page.mistakes == []


@pytest.fixture
def picture(page: Page, site: Site, tmp_path: Path) -> Callable[[str], None]:
    """Keeps what the page shows under a name, without the paths of this machine."""
    directory = Path(os.environ.get("FIRESTEEL_SCREENSHOTS", tmp_path))
    paths = {str(site.directory): "/data", str(Path(__file__).parent): "/home/me/project"}

    def keep(name: str) -> None:
        page.run(f"({_RENAME})({json.dumps(paths)})")
        page.save(directory / f"web_{name}.png")
        beyond = page.run("document.documentElement.scrollWidth - innerWidth")
        assert beyond <= 0, f"{name} is {beyond} pixels wider than the screen"

    return keep


def expected(page: Page, *paths: str) -> None:
    """Take out mistakes that are answers of the server which the page is there to show."""
    page.mistakes = [each for each in page.mistakes if not any(path in each for path in paths)]


def test_every_page_of_a_running_job_is_reached_by_mouse(
    page: Page, site: Site, picture: Callable[[str], None]
) -> None:
    page.wait_for_text("a mistake", ".panel")
    page.wait_for_text("a small one", ".panel")
    page.wait_for_text("running", ".panel .badge")
    picture("overview")
    page.click("td a", watched_jobs.NAME)
    page.wait("document.querySelectorAll('.vertex').length >= 3")
    # Rates are there, and the first checkpoint has told the size of the state.
    page.wait(
        "[...document.querySelectorAll('.vertex .figure')].some(e => /out .*[1-9].*\\/s/.test(e.textContent))"
    )
    page.wait(
        "[...document.querySelectorAll('.vertex .figure')].some(e => /state .*[1-9].*B$/.test(e.textContent))"
    )
    picture("dataflow")
    page.click('.vertex[aria-label^="Sum per customer"]')
    page.wait("document.querySelectorAll('.drawer .strip').length >= 1")
    picture("vertex")
    page.click(".drawer a", "Metrics")
    page.run("import('./js/poll.js').then(poll => poll.setInterval(500))")
    page.wait("document.querySelectorAll('.picks li').length > 3")
    page.wait(
        "[...document.querySelectorAll('.chart .line')].some(e => e.getAttribute('d').split('L').length > 6)"
    )
    picture("metrics")
    page.click(".tabs a", "Dataflow")
    page.click('.vertex[aria-label^="Sum per customer"]')
    for tab in ("Watermarks", "Back pressure", "Accumulators", "Task managers"):
        page.click(".drawer .choice button", tab)
        page.wait("document.querySelector('.drawer .table') !== null")
        page.wait(
            f"document.querySelector('.drawer .choice [aria-pressed=true]').textContent === {json.dumps(tab)}"
        )
    page.click(".drawer-head button")
    page.wait("document.querySelector('.drawer') === null")
    page.click('.vertex[aria-label^="Source: Orders"]')
    page.click(".drawer .choice button", "Accumulators")
    page.wait_for_text(watched_jobs.SEEN, ".drawer td")
    assert not page.run("Boolean(document.querySelector('main img'))"), "a name was taken for HTML"
    page.click(".drawer-head button")
    page.wait("document.querySelector('.drawer') === null")
    _click_through_tabs(page, picture)
    _look_at_executors(page, picture)
    page.click("#top nav a", "Job manager")
    page.wait_for_text("Key", "th")
    for tab in ("Environment", "Metrics", "Threads"):
        page.click(".manager-tabs button", tab)
        page.wait_for_text(tab, "main h2")
    page.wait("document.querySelectorAll('details').length > 2")
    page.click("#top nav a", "Logs")
    page.wait("document.querySelector('.log, .message') !== null")
    # A driver in a terminal has no file of what it prints, and says so.
    expected(page, "/jobmanager/stdout")


def _click_through_tabs(page: Page, picture: Callable[[str], None]) -> None:
    page.click(".tabs a", "Metrics")
    page.wait("document.querySelectorAll('.picks input:checked').length >= 1")
    before = page.run("document.querySelectorAll('.chart-card').length")
    page.click(".picks input:not(:checked)")
    page.wait(f"document.querySelectorAll('.chart-card').length === {before + 1}")
    page.click(".tabs a", "Checkpoints")
    page.wait("document.querySelectorAll('.columns a.completed').length > 1")
    picture("checkpoints")
    page.click("td a")
    page.wait_for_text("Acknowledged", "dt")
    page.click("td button.link")
    page.wait("document.querySelectorAll('.stacked').length >= 1")
    page.click(".tabs a", "Exceptions")
    page.wait_for_text("Nothing has gone wrong.")
    page.wait_for_text("A sign of life is due every", "p")
    page.wait_for_text("running", "td .badge")
    page.click(".tabs a", "Timeline")
    page.click(".timeline-row button")
    page.wait("document.querySelectorAll('.of-subtask .piece').length >= 1")
    picture("timeline")
    _look_at_flames(page, picture)
    page.click(".tabs a", "Configuration")
    page.wait_for_text("Restart strategy", "dt")


def _look_at_flames(page: Page, picture: Callable[[str], None]) -> None:
    page.click(".tabs a", "Flame graph")
    page.wait("document.querySelectorAll('.flame .frame').length > 3")
    page.run(
        "{ const field = document.querySelector('[aria-label=\"highlight frames\"]'); field.value = 'run_task';"
        " field.dispatchEvent(new Event('input', {bubbles: true})); }"
    )
    page.wait("document.querySelectorAll('.frame.found').length >= 1")
    page.wait_for_text("%", ".flame-found")
    page.click(".frame.found")
    page.wait("document.querySelector('.frame').textContent.includes('run_task')")
    page.click(".frame")
    # The whole graph again; how many frames it has changes with every look at the task.
    page.wait("!document.querySelector('.frame').textContent.includes('run_task')")
    page.click('[aria-label="samples"] button', "Waiting")
    page.wait("[...document.querySelectorAll('.frame')].some(e => e.textContent.includes('Mailbox.wait'))")
    page.click('[aria-label="samples"] button', "Working")
    page.wait("document.querySelectorAll('.flame .frame').length > 3")
    picture("flamegraph")


def _look_at_executors(page: Page, picture: Callable[[str], None]) -> None:
    page.click("#top nav a", "Task managers")
    page.click("td a")
    page.wait_for_text("Resources", "h2")
    picture("taskmanager")
    page.click(".manager-tabs button", "Threads")
    page.wait("document.querySelectorAll('details').length > 5")
    page.click(".manager-tabs button", "Metrics")
    page.wait_for_text("Status.JVM.Threads.Count", "td")
    page.click(".manager-tabs a", "Logs")
    page.wait_for_text(watched_jobs.LOGGED, ".log")


def test_a_level_is_changed_on_the_page_of_the_job_manager(page: Page) -> None:
    before = levels()
    page.click("#top nav a", "Job manager")
    page.click(".manager-tabs button", "Log levels")
    page.wait("document.querySelector('[aria-label=\"level of root\"]') !== null")
    page.run(
        "{ const field = document.querySelector('[aria-label=\"name of another logger\"]'); field.value = 'orders';"
        " field.dispatchEvent(new Event('change', {bubbles: true})); }"
    )
    page.wait("document.querySelector('[aria-label=\"level of orders\"]')?.value === 'DEBUG'")
    assert levels()["orders"] == logging.DEBUG
    page.run(
        "{ const field = document.querySelector('[aria-label=\"level of orders\"]'); field.value = '';"
        " field.dispatchEvent(new Event('change', {bubbles: true})); }"
    )
    page.wait("document.querySelector('[aria-label=\"level of orders\"]') === null")
    assert levels() == before


def test_a_failure_shows_the_operator_and_a_traceback_in_which_the_program_stands_out(
    page: Page, picture: Callable[[str], None]
) -> None:
    page.click("td a", "a mistake")
    page.click(".tabs a", "Exceptions")
    page.wait_for_text("ZeroDivisionError", ".traceback .loud")
    page.wait_for_text("share_of", ".traceback")
    picture("exceptions")


def test_the_keyboard_is_enough(page: Page, site: Site) -> None:
    page.open(site.job)
    page.wait("document.querySelectorAll('.vertex').length >= 3")
    page.run("document.querySelector('.vertex[tabindex=\"0\"]').focus()")
    first = page.run("document.activeElement.dataset.vertex")
    page.press("ArrowRight")
    assert page.run("document.activeElement.dataset.vertex") != first
    page.press("ArrowLeft")
    assert page.run("document.activeElement.dataset.vertex") == first
    page.press("Enter")
    page.wait("document.activeElement.id === 'vertex-title'")
    assert f"vertex={first}" in page.run("location.hash")
    page.press("Escape")
    page.wait("document.querySelector('.drawer') === null")
    assert page.run("document.activeElement.dataset.vertex") == first
    page.press("?")
    page.wait_for_text("Keyboard shortcuts", "dialog")
    page.press("Escape")
    page.press("3")
    page.wait("location.hash.endsWith('/checkpoints')")
    page.press("g", "t")
    page.wait("location.hash === '#/taskmanagers'")
    page.press("g", "o")
    page.wait(
        "document.activeElement.id === 'main' && document.querySelector('.tile') !== null"
    )  # it has been opened
    page.press("Tab")
    shown = "getComputedStyle(document.activeElement).outlineStyle"
    page.wait(f"document.activeElement !== document.body && {shown} !== 'none'")


def test_colours_follow_the_system_until_somebody_chooses(
    page: Page, site: Site, picture: Callable[[str], None]
) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.run(ground)
    page.prefer("dark")
    dark = page.run(ground)
    assert dark != light
    page.open(site.job)
    page.run("location.reload()")
    page.wait(
        "[...document.querySelectorAll('.vertex .figure')].some(e => /out .*[1-9].*\\/s/.test(e.textContent))"
    )
    picture("dark")
    page.press("d")
    page.wait(f"{ground} === {json.dumps(light)}")
    page.run("location.reload()")
    page.wait(f"document.readyState === 'complete' && {ground} === {json.dumps(light)}")
    page.run("localStorage.clear()")


def test_a_phone_shows_every_page_without_moving_sideways(
    page: Page, site: Site, picture: Callable[[str], None]
) -> None:
    page.resize(390, 844, mobile=True)
    page.open(site.job)
    page.run("location.reload()")
    page.wait(
        "[...document.querySelectorAll('.vertex .figure')].some(e => /out .*[1-9].*\\/s/.test(e.textContent))"
    )
    picture("phone")
    for key, what in (("2", ".picks li"), ("3", ".columns a"), ("5", ".piece"), ("7", "dt")):
        page.press(key)
        page.wait(f"document.querySelector({json.dumps(what)}) !== null")
        assert page.run("document.documentElement.scrollWidth <= innerWidth"), what


def test_a_server_that_is_gone_is_said_calmly_and_tried_again(page: Page) -> None:
    page.wait_for_text("a mistake", ".panel")
    page.offline(True)
    page.click(".live")  # paused, and live again: asks at once
    page.click(".live")
    page.wait_for_text("does not answer", "#banner")
    assert page.run("document.querySelector('.panel').innerText.length > 0"), "what was known stays"
    page.offline(False)  # the browser says so, and the page asks at once
    page.wait("document.querySelector('#banner').innerText === ''")
    expected(page, "ERR_INTERNET_DISCONNECTED")


def test_nobody_is_asked_while_the_tab_is_hidden(page: Page) -> None:
    page.wait_for_text("a mistake", ".panel")
    page.run(
        "{ const ask = fetch; window.asked = 0; window.fetch = (...all) => { asked += 1; return ask(...all); };"
        " window.timers = []; window.setTimeout = timer => timers.push(timer); }"
    )
    page.press("p", "p")  # paused, and live again: asks at once
    page.wait("asked > 0 && timers.length > 0")
    hide = "Object.defineProperty(document, 'hidden', {{value: {}, configurable: true}})"
    page.run(hide.format("true"))
    assert page.run("asked = 0, timers.splice(0).forEach(timer => timer()), asked") == 0
    page.run(hide.format("false"))
    assert page.run("document.dispatchEvent(new Event('visibilitychange')), asked") > 0


@pytest.mark.parametrize(
    "script", sorted((Path(__file__).parent / "web_checks").glob("*.js")), ids=lambda path: path.stem
)
def test_parts_of_the_pages(page: Page, script: Path) -> None:
    """Layout, charts and the like, checked where they run."""
    failures = page.run(f"(async () => {{ {script.read_text()} }})()")
    assert failures == []


def test_what_the_server_does_not_have_is_said_and_not_offered_again(page: Page, site: Site) -> None:
    page.open(site.job)
    page.wait("document.querySelectorAll('.job-actions button').length === 4")
    # As a service answers that can rescale some jobs, though not this one.
    page.run(
        "(asked => { window.fetch = (path, ...more) => String(path).includes('/rescaling') ? Promise.resolve("
        "new Response(JSON.stringify({errors: ['not this job']}), {status: 501, headers: "
        "{'Content-Type': 'application/json'}})) : asked(path, ...more); })(window.fetch.bind(window))"
    )
    page.click(".job-actions button", "Rescale")
    page.click("dialog button", "Rescale the job")
    page.wait_for_text("not this job", ".dialog-answer")
    page.click("dialog button", "Close")
    page.wait("document.querySelectorAll('.job-actions button').length === 3")


def test_a_job_is_rescaled_by_a_button(page: Page, site: Site) -> None:
    page.open(site.job)
    page.wait_for_text("running", ".job-title .badge")
    page.click(".job-actions button", "Rescale")
    page.wait("document.querySelector('dialog input[type=number]') !== null")
    page.run("document.querySelector('dialog input[type=number]').value = '1000'")
    page.click("dialog button", "Rescale the job")
    page.wait_for_text("max parallelism 128", ".dialog-answer")
    page.run("document.querySelector('dialog input[type=number]').value = '1'")
    page.click("dialog button", "Rescale the job")
    page.wait_for_text("The job runs with parallelism 1", "dialog")
    page.press("Escape")
    client: Any = site.client
    assert client.plan.vertices[0].parallelism == 1
    page.wait_for_text("running", ".job-title .badge")


def test_a_savepoint_is_taken_and_the_job_cancelled_by_buttons(page: Page, site: Site) -> None:
    page.open(site.job)
    page.wait_for_text("running", ".job-title .badge")
    page.click(".job-actions button", "Savepoint")
    page.click("dialog button", "Take it")
    page.wait_for_text("The savepoint is in", "dialog")
    page.press("Escape")
    page.wait("document.querySelector('dialog') === null")
    page.click(".job-actions button", "Cancel")
    page.click("dialog button", "Leave it")
    page.wait("document.querySelector('dialog') === null")
    assert page.run("document.querySelector('.job-title .badge').innerText") == "running"
    page.click(".job-actions button", "Cancel")
    page.click("dialog button", "Cancel the job")
    page.wait_for_text("canceled", ".job-title .badge")
    page.wait("document.querySelector('.job-actions').children.length === 0")


def test_a_job_is_stopped_with_a_savepoint_by_a_button(page: Page, site: Site) -> None:
    site.client.cancel().result()  # the other one has no use any more, and its slots are needed
    client: Any = watched_jobs.start(_environment(site.directory))
    page.open(f"{site.url}/#/jobs/{client.get_job_id()}")
    page.wait_for_text("running", ".job-title .badge")
    page.click(".job-actions button", "Stop")
    page.wait_for_text("from the savepoint it can be resumed", "dialog")
    page.click("dialog button", "Leave it")
    page.wait("document.querySelector('dialog') === null")
    assert page.run("document.querySelector('.job-title .badge').innerText") == "running"
    page.click(".job-actions button", "Stop")
    page.click("dialog button", "Stop the job")
    page.wait_for_text("The job has stopped. The savepoint is in", "dialog")
    page.press("Escape")
    page.wait_for_text("finished", ".job-title .badge")
    page.wait("document.querySelector('.job-actions').children.length === 0")
    client.get_job_execution_result().result()
    assert list((site.directory / "savepoints").glob("savepoint-*")) != []
