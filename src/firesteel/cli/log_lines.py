"""What a log file gets: lines with time, level and logger, where a terminal gets bare messages.

What tasks and the program print stays as it is. A program that configures logging itself decides itself: the handler
here is the one of last resort.
"""

from __future__ import annotations

import logging
import warnings
from typing import TextIO

__all__ = ["FORMAT", "write_log_lines"]

_WARNINGS = logging.getLogger("python.warnings")

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def write_log_lines() -> None:
    """From now on log records, from INFO on for those of Firesteel, and warnings of Python become lines of a log."""
    handler = logging.StreamHandler()
    handler.setLevel(logging.INFO)
    handler.setFormatter(logging.Formatter(FORMAT))
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
