"""Where a driver logs to, and how: read from its options."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from pathlib import Path

from firesteel.common import options
from firesteel.common._redaction import is_sensitive
from firesteel.common.configuration import Configuration
from firesteel.common.errors import InvalidOptionError
from firesteel.logs.levels import configured_levels
from firesteel.logs.lines import JsonLines, TextLines

__all__ = ["LogSettings", "read_log_settings"]

#: Shorter values are words that may stand in any sentence.
_SHORTEST_SECRET = 6


@dataclass(frozen=True, slots=True)
class LogSettings:
    """``directory`` None: no files. A file that has ``max_size`` bytes becomes an old one, of which ``kept`` stay."""

    directory: Path | None = None
    max_size: int = 100 << 20
    kept: int = 10
    as_json: bool = False
    levels: dict[str, int] = field(default_factory=dict)
    secrets: frozenset[str] = field(default=frozenset(), repr=False)

    def lines(self) -> logging.Formatter:
        """The form of a line in files."""
        return JsonLines(self.secrets) if self.as_json else TextLines(self.secrets)


def read_log_settings(configuration: Configuration) -> LogSettings:
    """The settings; raises `InvalidOptionError` for what cannot be."""
    directory = configuration.get(options.LOG_DIR)
    max_size = _at_least(1, options.LOG_MAX_SIZE.key, configuration.get(options.LOG_MAX_SIZE))
    return LogSettings(
        None if directory is None else Path(directory).expanduser().absolute(),
        max_size,
        _at_least(1, options.LOG_MAX.key, configuration.get(options.LOG_MAX)),
        configuration.get(options.LOG_FORMAT) == "json",
        configured_levels(configuration),
        frozenset(
            value
            for key, value in configuration.to_dict().items()
            if is_sensitive(key) and isinstance(value, str) and len(value) >= _SHORTEST_SECRET
        ),
    )


def _at_least(least: int, key: str, value: int) -> int:
    if value < least:
        raise InvalidOptionError(f"option '{key}': expected {least} or more, got {value}")
    return value
