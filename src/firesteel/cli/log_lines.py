"""What a log file gets: lines with time, level and logger, where a terminal gets bare messages.

What tasks and the program print stays as it is. A program that configures logging itself decides itself: the handler
here is the one of last resort.
"""

from __future__ import annotations

import logging
import warnings
from typing import TextIO

from firesteel.logs.lines import TextLines

__all__ = ["write_log_lines"]

_WARNINGS = logging.getLogger("python.warnings")


def write_log_lines(least: int = logging.INFO) -> None:
    """From now on log records, from INFO on for those of Firesteel, and warnings of Python become lines of a log.

    ``least``: those below it do not, because they have a file of their own.
    """
    handler = logging.StreamHandler()
    handler.setLevel(least)
    handler.setFormatter(TextLines())
    logging.lastResort = handler
    logging.getLogger("firesteel").setLevel(logging.INFO)
    # Not logging.captureWarnings: its logger has a handler, so that one of last resort gets nothing.
    warnings.showwarning = _log_warning


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
