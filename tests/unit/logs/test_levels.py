"""Levels of loggers: from options, in a process, changed."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from firesteel.common import Configuration
from firesteel.common.errors import InvalidOptionError
from firesteel.logs.levels import (
    ROOT,
    configured_levels,
    level_name,
    levels,
    parse_level,
    set_level,
    set_levels,
)


@pytest.fixture(autouse=True)
def levels_stay() -> Iterator[None]:
    before = levels()
    yield
    set_levels(before)


def test_options_of_flink_give_levels() -> None:
    configuration = Configuration.from_dict(
        {"env.log.level": "warn", "python.logging.level.overrides": "orders:DEBUG,orders.late:OFF"}
    )
    found = configured_levels(configuration)
    assert found[ROOT] == logging.WARNING
    assert found["orders"] == logging.DEBUG
    assert found["orders.late"] > logging.CRITICAL
    assert configured_levels(Configuration()) == {}
    by_other_name = Configuration.from_dict({"python.logging.default.level": "INFO"})
    assert configured_levels(by_other_name) == {ROOT: logging.INFO}


@pytest.mark.parametrize(
    "options", [{"env.log.level": "loud"}, {"python.logging.level.overrides": "orders:loud"}]
)
def test_a_level_that_is_none_is_refused_with_those_that_are(options: dict[str, str]) -> None:
    with pytest.raises(InvalidOptionError, match=f"{next(iter(options))}.*expected one of.*WARN.*got 'loud'"):
        configured_levels(Configuration.from_dict(options))


def test_levels_are_set_and_taken_away() -> None:
    set_level("orders", logging.DEBUG)
    assert levels()["orders"] == logging.DEBUG
    set_level("orders", None)
    assert "orders" not in levels()
    set_level(ROOT, logging.ERROR)
    set_level(ROOT, None)
    assert levels()[ROOT] == logging.WARNING


def test_a_process_takes_over_all_levels_of_another() -> None:
    set_level("mine", logging.DEBUG)
    set_levels({ROOT: logging.INFO, "theirs": logging.ERROR})
    assert (levels()[ROOT], levels()["theirs"]) == (logging.INFO, logging.ERROR)
    assert "mine" not in levels()


@pytest.mark.parametrize("name", ["OFF", "CRITICAL", "ERROR", "WARNING", "INFO", "DEBUG", "TRACE"])
def test_names_of_levels_are_read_and_shown(name: str) -> None:
    assert level_name(parse_level(name)) == name
