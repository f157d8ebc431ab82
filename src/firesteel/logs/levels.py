"""Levels of loggers: read from options, taken from the driver to its tasks, changed while a job runs.

Tasks have the levels that the driver has: all that somebody has set, by options, in the program or by REST. "" is the root.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from firesteel.common.configuration import Configuration
from firesteel.common.errors import InvalidOptionError
from firesteel.common.options import LOG_LEVEL, LOG_LEVEL_OVERRIDES

__all__ = [
    "LEVELS",
    "ROOT",
    "configured_levels",
    "level_name",
    "levels",
    "parse_level",
    "set_level",
    "set_levels",
]

#: What stands for the root logger among names.
ROOT = ""

#: Python's names, and those that Flink has besides them.
LEVELS: dict[str, int] = {
    "OFF": logging.CRITICAL + 10,
    "CRITICAL": logging.CRITICAL,
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARNING": logging.WARNING,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": logging.DEBUG - 5,
    "ALL": 1,
}


def parse_level(text: str) -> int:
    """A level by its name, whatever its letters' case; raises `InvalidOptionError` with the names.

    >>> parse_level("warn") == logging.WARNING
    True
    """
    level = LEVELS.get(str(text).strip().upper())
    if level is None:
        raise InvalidOptionError(f"expected one of {', '.join(LEVELS)}, got {text!r}")
    return level


def level_name(level: int) -> str:
    """The name of a level; one that has none is called by its number, as in Python.

    >>> level_name(logging.WARNING), level_name(35)
    ('WARNING', 'Level 35')
    """
    return next((name for name, value in LEVELS.items() if value == level), logging.getLevelName(level))


def configured_levels(configuration: Configuration) -> dict[str, int]:
    """The levels that options give; empty when none does."""
    by_logger: dict[str, int] = {}
    root = configuration.get(LOG_LEVEL)
    if root is not None:
        by_logger[ROOT] = _parsed(LOG_LEVEL.key, root)
    for name, level in (configuration.get(LOG_LEVEL_OVERRIDES) or {}).items():
        by_logger[name.strip()] = _parsed(LOG_LEVEL_OVERRIDES.key, level)
    return by_logger


def _parsed(key: str, text: str) -> int:
    try:
        return parse_level(text)
    except InvalidOptionError as error:
        raise InvalidOptionError(f"option '{key}': {error}") from None


def levels() -> dict[str, int]:
    """The loggers of this process that have a level of their own, the root first."""
    known = logging.root.manager.loggerDict
    named = {
        name: logger.level
        for name, logger in sorted(known.items())
        if isinstance(logger, logging.Logger) and logger.level != logging.NOTSET
    }
    return {ROOT: logging.root.level, **named}


def set_level(name: str, level: int | None) -> None:
    """Give a logger a level; None: that of the logger above it. The root always has one: None is Python's default."""
    if name == ROOT:
        logging.root.setLevel(logging.WARNING if level is None else level)
    else:
        logging.getLogger(name).setLevel(logging.NOTSET if level is None else level)


def set_levels(wanted: Mapping[str, int]) -> None:
    """Give loggers these levels, and take those away that others have."""
    for name in levels().keys() - wanted.keys() - {ROOT}:
        set_level(name, None)
    for name, level in wanted.items():
        set_level(name, level)
