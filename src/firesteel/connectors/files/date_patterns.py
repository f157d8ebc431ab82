"""Date patterns in Java's notation, for names of buckets."""

from __future__ import annotations

import re
from datetime import datetime, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from firesteel.common.errors import ProgramError

__all__ = ["DatePattern"]

#: Letters of Java's date patterns, by what Python calls them.
_LETTERS = {
    "yyyy": "%Y",
    "uuuu": "%Y",
    "yy": "%y",
    "MM": "%m",
    "dd": "%d",
    "DDD": "%j",
    "HH": "%H",
    "hh": "%I",
    "mm": "%M",
    "ss": "%S",
    "a": "%p",
}
_TOKEN = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+")


class DatePattern:
    """Formats times of a zone, the machine's if None.

    >>> DatePattern("yyyy/MM/dd", "UTC").format(0)
    '1970/01/01'
    """

    def __init__(self, pattern: str, timezone_id: str | None) -> None:
        self._pattern = _to_python(pattern)
        self._timezone_id = timezone_id
        _zone(timezone_id)  # an unknown one shows here

    def format(self, second: float) -> str:
        """The text for a time in seconds since the epoch."""
        return datetime.fromtimestamp(second, _zone(self._timezone_id)).strftime(self._pattern)


def _zone(timezone_id: str | None) -> tzinfo | None:
    try:
        return None if timezone_id is None else ZoneInfo(timezone_id)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise ProgramError(f"unknown time zone {timezone_id!r}; use a name such as 'Europe/Rome'") from error


def _to_python(pattern: str) -> str:
    parts = []
    position = 0
    for token in _TOKEN.finditer(pattern):
        if token.start() != position:
            break
        position = token.end()
        parts.append(_translated(token, pattern))
    if position != len(pattern):
        raise ProgramError(f"the date pattern {pattern!r} has a quotation mark without a partner")
    return "".join(parts)


def _translated(token: re.Match[str], pattern: str) -> str:
    text = token.group()
    if token.group(1) is not None:
        return (token.group(1).replace("''", "'") or "'").replace("%", "%%")
    if token.group(2) is None:
        return text.replace("%", "%%")
    if text not in _LETTERS:
        raise ProgramError(
            f"the date pattern {pattern!r} has {text!r}, which is not supported; supported are "
            f"{', '.join(_LETTERS)} and text in single quotation marks"
        )
    return _LETTERS[text]
