"""The directory of a user: logs, files about running jobs, the configuration file."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["HOME_VARIABLE", "home_directory"]

#: Names the directory, by default ``~/.firesteel``.
HOME_VARIABLE = "FIRESTEEL_HOME"


def home_directory() -> Path:
    """Where it is; it need not exist yet."""
    return Path(os.environ.get(HOME_VARIABLE) or os.path.expanduser("~/.firesteel"))
