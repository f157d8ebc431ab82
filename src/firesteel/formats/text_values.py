"""Values of declared types as Java reads them from text, and writes them: what JSON and CSV have in common.

A text that is none raises ValueError.
"""

from __future__ import annotations

import base64
import binascii
import re
import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal

from firesteel.common.time import Instant
from firesteel.common.typeinfo import BasicType

__all__ = [
    "BITS",
    "base64_bytes",
    "big_decimal",
    "boolean",
    "double",
    "float32",
    "instant",
    "instant_text",
    "iso_date",
    "iso_time",
    "iso_timestamp",
    "sql_date",
    "sql_time",
    "sql_timestamp",
    "time_text",
    "timestamp_text",
    "whole_number",
]

BITS = {BasicType.BYTE: 8, BasicType.SHORT: 16, BasicType.INT: 32, BasicType.LONG: 64}

_WHOLE = re.compile(r"[+-]?[0-9]+", re.ASCII)
_DOUBLE = re.compile(r"[+-]?(NaN|Infinity|(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[fFdD]?)", re.ASCII)
_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_SQL_DATE = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})", re.ASCII)
_TIME = re.compile(r"(\d{2}):(\d{2}):(\d{2})", re.ASCII)
_MOMENT = re.compile(r"(\d{4}-\d{2}-\d{2})T(\d{2}:\d{2}:\d{2})(?:\.(\d{1,9}))?Z", re.ASCII)
_SQL_TIMESTAMP = re.compile(r"(\d{4}-\d{1,2}-\d{1,2}) (\d{1,2}:\d{1,2}:\d{1,2})(?:\.(\d{1,9}))?", re.ASCII)
_EPOCH = datetime(1970, 1, 1)


def whole_number(bits: int | None) -> Callable[[str], int]:
    """Of a number of bits; None for any number."""
    half = 0 if bits is None else 1 << (bits - 1)

    def parse(text: str) -> int:
        stripped = text.strip() if bits is not None else text
        if not _WHOLE.fullmatch(stripped):
            raise ValueError
        value = int(stripped)
        if half and not -half <= value < half:
            raise ValueError(f"it does not fit {bits} bits")
        return value

    return parse


def boolean(text: str) -> bool:
    """Java takes whatever is not "true" for false."""
    return text.strip().lower() == "true"


def double(text: str) -> float:
    """A number, NaN or Infinity."""
    stripped = text.strip()
    if not _DOUBLE.fullmatch(stripped):
        raise ValueError
    return float(stripped if stripped[-1] in "Ny" else stripped.rstrip("fFdD"))


def float32(value: float) -> float:
    """Rounded to 32 bits; what is too large becomes infinite."""
    try:
        rounded: float = struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    return rounded


def big_decimal(text: str) -> Decimal:
    """Every digit counts."""
    if not _DECIMAL.fullmatch(text):
        raise ValueError
    return Decimal(text)


def base64_bytes(text: str) -> bytes:
    """No character that is none of Base64 is passed over."""
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise ValueError from None


def iso_date(text: str) -> date:
    """Year, month and day with all their digits."""
    if not _DATE.fullmatch(text):
        raise ValueError
    return date.fromisoformat(text)


def sql_date(text: str) -> date:
    """Month and day may have one digit."""
    match = _SQL_DATE.fullmatch(text.strip())
    if not match:
        raise ValueError
    return date(*map(int, match.groups()))


def sql_time(text: str) -> time:
    """Hour, minute and second with two digits each, and no fraction of a second."""
    match = _TIME.fullmatch(text.strip())
    if not match:
        raise ValueError
    hour, minute, second = map(int, match.groups())
    return time(hour, minute, second)


def iso_time(text: str) -> time:
    """The same in UTC, which a Z says."""
    if not text.endswith("Z"):
        raise ValueError
    return sql_time(text[:-1])


def _clock(day: date, clock: str, fraction: str | None) -> tuple[datetime, int]:
    """The second, and the nanoseconds after it."""
    hours, minutes, seconds = map(int, clock.split(":"))
    at = datetime(day.year, day.month, day.day, hours, minutes, seconds)
    return at, int((fraction or "0").ljust(9, "0"))


def _in_milliseconds(at: datetime, nanos: int) -> datetime:
    return at.replace(microsecond=nanos // 1_000_000 * 1000)  # what SQL_TIMESTAMP has


def iso_timestamp(text: str) -> datetime:
    """Date and time with a T between and a Z behind; exact to the millisecond, as SQL_TIMESTAMP is."""
    match = _MOMENT.fullmatch(text)
    if not match:
        raise ValueError
    return _in_milliseconds(*_clock(date.fromisoformat(match[1]), match[2], match[3]))


def sql_timestamp(text: str) -> datetime:
    """Date and time with a blank between; exact to the millisecond, as SQL_TIMESTAMP is."""
    match = _SQL_TIMESTAMP.fullmatch(text.strip())
    if not match:
        raise ValueError
    return _in_milliseconds(*_clock(sql_date(match[1]), match[2], match[3]))


def instant(text: str) -> Instant:
    """A point in time in UTC, exact to the nanosecond."""
    match = _MOMENT.fullmatch(text)
    if not match:
        raise ValueError
    at, nanos = _clock(date.fromisoformat(match[1]), match[2], match[3])
    return Instant((at - _EPOCH) // timedelta(seconds=1), nanos)


def instant_text(value: Instant) -> str:
    """As Java prints it: in UTC, with as many digits in groups of three as it needs."""
    at = datetime.fromtimestamp(value.seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    if not value.nanos:
        return f"{at}Z"
    digits = f"{value.nanos:09d}"
    while digits.endswith("000"):
        digits = digits[:-3]
    return f"{at}.{digits}Z"


def time_text(value: time) -> str:
    """Hour, minute and second; fractions of a second are left out."""
    return value.strftime("%H:%M:%S")


def timestamp_text(value: datetime, between: str) -> str:
    """Date and time, with as many digits of the second as there are."""
    text = value.replace(tzinfo=None).isoformat(between)
    return text.rstrip("0") if value.microsecond else text
