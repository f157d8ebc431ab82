"""What a log file gets: lines with time, level and logger, where a terminal gets bare messages.

What tasks and the program print stays as it is. A program that configures logging itself decides itself: the handler
here is the one of last resort.
"""

from __future__ import annotations

import logging
import warnings
from pathlib import Path
from typing import TextIO

from firesteel.common._override import override
from firesteel.logs.log_book import LOGS
from firesteel.logs.rolled_output import RolledOutput
from firesteel.logs.settings import LogSettings

__all__ = ["roll_over", "write_log_lines"]

_WARNINGS = logging.getLogger("python.warnings")


class _Lines(logging.Formatter):
    """Those of the files of this process: the options of a job, which come later, may have secrets, and say JSON."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        return LOGS.form.format(record)


def write_log_lines(settings: LogSettings, least: int = logging.INFO) -> None:
    """From now on log records, from INFO on for those of Firesteel, and warnings of Python become lines of a log.

    ``settings``: as far as they are known before there is a job. ``least``: records below it become none, because they have a
    file of their own.
    """
    LOGS.expect(settings)
    handler = logging.StreamHandler()
    handler.setLevel(least)
    handler.setFormatter(_Lines())
    logging.lastResort = handler
    logging.getLogger("firesteel").setLevel(logging.INFO)
    # Not logging.captureWarnings: its logger has a handler, so that one of last resort gets nothing.
    warnings.showwarning = _log_warning


def roll_over(log: Path, settings: LogSettings) -> None:
    """Let the log of this process not grow for ever, if it is this file: started by hand it goes to whoever has started it."""
    last = logging.lastResort
    output = RolledOutput(log, settings.max_size, settings.kept, None if last is None else last.lock)
    if output.is_printed_to:
        output.watch()


def _log_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    text = warnings.formatwarning(message, category, filename, lineno, line)
    if file is None:
        _WARNINGS.warning("%s", text.rstrip())
    else:
        file.write(text)
