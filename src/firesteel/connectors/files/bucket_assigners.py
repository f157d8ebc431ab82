"""Which bucket, a folder below the base path, a record is written to."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from datetime import datetime, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from firesteel.common.errors import ProgramError
from firesteel.contracts.sink import SinkFunction

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


class BucketAssigner(ABC):
    """Chooses the bucket of each record."""

    @abstractmethod
    def get_bucket_id(self, element: Any, context: SinkFunction.Context) -> str:
        """The folder, relative to the base path; an empty text is the base path itself."""

    @staticmethod
    def base_path_bucket_assigner() -> BucketAssigner:
        """All records go to the base path itself."""
        return BasePathBucketAssigner()

    @staticmethod
    def date_time_bucket_assigner(
        format_str: str = "yyyy-MM-dd--HH", timezone_id: str | None = None
    ) -> BucketAssigner:
        """A bucket for every hour, or whatever the pattern says, of the time at which records are written."""
        return DateTimeBucketAssigner(format_str, timezone_id)


class BasePathBucketAssigner(BucketAssigner):
    """Knows only one bucket."""

    def get_bucket_id(self, element: Any, context: SinkFunction.Context) -> str:
        """The base path."""
        return ""


class DateTimeBucketAssigner(BucketAssigner):
    """Buckets by the machine's time, named by a date pattern in Java's notation.

    >>> DateTimeBucketAssigner("yyyy/MM/dd", "UTC").bucket_at(0)
    '1970/01/01'
    """

    def __init__(self, format_str: str = "yyyy-MM-dd--HH", timezone_id: str | None = None) -> None:
        self._pattern = _to_python(format_str)
        self._timezone_id = timezone_id
        _zone(timezone_id)  # an unknown one shows here
        self._second = -1
        self._bucket = ""

    def get_bucket_id(self, element: Any, context: SinkFunction.Context) -> str:
        """The bucket of this moment; worked out once in a second."""
        second = context.current_processing_time() // 1000
        if second != self._second:
            self._second, self._bucket = second, self.bucket_at(second)
        return self._bucket

    def bucket_at(self, second: float) -> str:
        """The bucket at a time in seconds since the epoch."""
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
