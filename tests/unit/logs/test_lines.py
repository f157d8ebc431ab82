"""Lines of a log: text and JSON, with job and task, without secrets."""

from __future__ import annotations

import json
import logging
import sys

from firesteel.logs.lines import JsonLines, TextLines
from firesteel.logs.origin import LogOrigin

ORIGIN = LogOrigin("ab" * 16, "word count", "Map (2/4)", 3)


def record(text: str = "hello %s", *args: object, **extra: object) -> logging.LogRecord:
    made = logging.getLogger("orders").makeRecord("orders", logging.INFO, "f.py", 1, text, args, None)
    vars(made).update(extra)
    return made


def test_a_line_of_a_task_names_its_job_and_subtask() -> None:
    said = record("hello %s", "you")
    ORIGIN.mark(said)
    assert TextLines().format(said).endswith(" INFO orders [word count: Map (2/4)]: hello you")


def test_a_line_of_the_driver_has_no_place() -> None:
    assert TextLines().format(record("hello %s", "you")).endswith(" INFO orders: hello you")


def test_a_name_with_line_breaks_cannot_fake_a_line() -> None:
    said = record("hello %s", "you")
    LogOrigin("ab" * 16, "word\n2026-01-01 00:00:00 ERROR faked", "Map (2/4)", 3).mark(said)
    assert "\n" not in TextLines().format(said)


def test_json_has_everything_on_one_line() -> None:
    said = record("two\nlines", order=7, thing=object())
    ORIGIN.mark(said)
    text = JsonLines().format(said)
    line = json.loads(text)
    assert "\n" not in text
    assert (line["level"], line["logger"], line["message"]) == ("INFO", "orders", "two\nlines")
    assert (line["job"], line["job_id"], line["task"], line["attempt"]) == (
        "word count",
        "ab" * 16,
        "Map (2/4)",
        3,
    )
    assert line["order"] == 7
    assert line["thing"].startswith("<object")
    assert line["time"].endswith("+00:00")
    assert not [key for key in line if key.startswith("firesteel_")]


def test_an_exception_is_in_both() -> None:
    try:
        raise ValueError("no")
    except ValueError:
        said = record("failed")
        said.exc_info = sys.exc_info()
    assert json.loads(JsonLines().format(said))["exception"].endswith("ValueError: no")
    assert TextLines().format(said).endswith("ValueError: no")


def test_secrets_are_in_no_line() -> None:
    said = record("connects with %s", 'pass"word1')
    assert TextLines(['pass"word1']).format(said).endswith("connects with ******")
    text = JsonLines(['pass"word1']).format(said)
    assert json.loads(text)["message"] == "connects with ******"
