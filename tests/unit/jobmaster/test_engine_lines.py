"""The lines about an engine that starts: who sees them, and how often."""

from __future__ import annotations

import logging

import pytest

from firesteel.jobmaster.terminal.engine_lines import EngineLines


def lines(wish: str | None, *times: float) -> EngineLines:
    clock = iter(times)
    return EngineLines(lambda: wish, lambda: next(clock))


def test_start_is_told_once_and_its_end_with_the_time_it_took(capsys: pytest.CaptureFixture[str]) -> None:
    engine = lines("1", 10.0, 15.25)
    engine.starting()
    engine.starting("at spark://host:7077")
    engine.ready("4.3.0")
    assert capsys.readouterr() == ("", "starting Spark ...\nSpark 4.3.0 is there after 5.2 s\n")


def test_where_it_starts_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    lines("1", 10.0).starting("at spark://host:7077")
    assert capsys.readouterr().err == "starting Spark at spark://host:7077 ...\n"


def test_start_after_one_that_failed_is_told_again(capsys: pytest.CaptureFixture[str]) -> None:
    engine = lines("1", 10.0, 11.0)
    engine.starting()
    engine.failed()
    engine.starting()
    assert capsys.readouterr().err == "starting Spark ...\n" * 2


@pytest.mark.parametrize("wish", ["0", None])
def test_nothing_is_written_to_a_pipe_and_everything_is_logged(
    wish: str | None, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    engine = lines(wish, 10.0, 11.0)
    engine.starting()
    engine.ready("4.3.0")
    assert capsys.readouterr() == ("", "")
    assert caplog.messages == ["starting Spark ...", "Spark 4.3.0 is there after 1.0 s"]
