"""Lines of a log that is no file of the log book: of the service, its drivers, ``-d`` and ``--log-file``."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Callable, Iterator

import pytest

from firesteel.cli.log_lines import write_log_lines
from firesteel.common import Configuration
from firesteel.logs.levels import levels, set_levels
from firesteel.logs.log_book import LOGS
from firesteel.logs.settings import LogSettings, read_log_settings


@pytest.fixture(autouse=True)
def logging_of_its_own(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = levels()
    monkeypatch.setattr(logging, "lastResort", logging.lastResort)
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    yield
    LOGS.close()
    set_levels(before)


@pytest.fixture
def unconfigured(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Call it in the test: from then on it is as in a program that configures no logging, where pytest has configured it before."""

    def take_handlers_away() -> None:
        monkeypatch.setattr(logging.root, "handlers", [])
        monkeypatch.setattr(logging.getLogger("firesteel"), "handlers", [])

    return take_handlers_away


def settings(**options: str) -> LogSettings:
    return read_log_settings(
        Configuration.from_dict({key.replace("_", "."): value for key, value in options.items()})
    )


def test_secrets_are_in_no_line_as_soon_as_they_are_known(
    capsys: pytest.CaptureFixture[str], unconfigured: Callable[[], None]
) -> None:
    unconfigured()
    write_log_lines(settings(db_password="of-the-client"))
    log = logging.getLogger("firesteel.test")
    log.info("of-the-client and of-the-job")
    LOGS.use(settings(table_password="of-the-job"))  # what the program has set, when it submits its job
    log.info("of-the-client and of-the-job")
    first, second = capsys.readouterr().err.splitlines()
    assert first.endswith("INFO firesteel.test: ****** and of-the-job")
    assert second.endswith("INFO firesteel.test: ****** and ******")


def test_lines_are_json_where_options_say_so(
    capsys: pytest.CaptureFixture[str], unconfigured: Callable[[], None]
) -> None:
    unconfigured()
    write_log_lines(settings(**{"firesteel.logging.format": "json", "db.password": "secret-word"}))
    logging.getLogger("firesteel.test").info("look: secret-word")
    line = json.loads(capsys.readouterr().err)
    assert (line["level"], line["logger"], line["message"]) == ("INFO", "firesteel.test", "look: ******")
