"""Declared types of dates, times and timestamps; import them from `firesteel.common.typeinfo`."""

from __future__ import annotations

import time as clock
from datetime import date, datetime, time, timedelta
from enum import Enum
from typing import Any

from firesteel.common import _type_conversion as conversion
from firesteel.common._override import override
from firesteel.common._type_basics import TypeInformation
from firesteel.common._type_conversion import Converter

__all__ = ["DateTypeInfo", "LocalTimeTypeInfo", "SqlTimeTypeInfo", "TimeTypeInfo", "TimestampTypeInfo"]

_EPOCH_DAY = date(1970, 1, 1).toordinal()


def _date_of(value: Any) -> date:
    if isinstance(value, date):
        return date(value.year, value.month, value.day)
    raise TypeError


def _to_millis(value: Any) -> Any:
    """Drop the time zone and what is below a millisecond, as PyFlink does (time and datetime)."""
    value = _to_local(value)
    if value.microsecond % 1000 == 0:
        return value
    return value.replace(microsecond=value.microsecond // 1000 * 1000)


def _to_local(value: Any) -> Any:
    """Drop the time zone, and the class when it is one of the user's: its objects might be changed later."""
    kind = type(value)
    if kind is datetime or kind is time:
        return value if value.tzinfo is None else value.replace(tzinfo=None)
    parts = (value.hour, value.minute, value.second, value.microsecond)
    if isinstance(value, datetime):
        return datetime(value.year, value.month, value.day, *parts, fold=value.fold)
    return time(*parts, fold=value.fold)


class SqlTimeTypeInfo(TypeInformation[Any]):
    """Where the three SQL time types can be had."""

    @staticmethod
    def DATE() -> DateTypeInfo:  # noqa: N802 - Flink's name, here and below
        """Return the type of dates."""
        return DateTypeInfo()

    @staticmethod
    def TIME() -> TimeTypeInfo:  # noqa: N802
        """Return the type of times of day."""
        return TimeTypeInfo()

    @staticmethod
    def TIMESTAMP() -> TimestampTypeInfo:  # noqa: N802
        """Return the type of timestamps."""
        return TimestampTypeInfo()


class DateTypeInfo(TypeInformation[date]):
    """`datetime.date`; internally days since 1970."""

    _accepts_none = True

    @override
    def need_conversion(self) -> bool:
        return True

    @override
    def to_internal_type(self, d: date | None) -> int | None:
        return None if d is None else d.toordinal() - _EPOCH_DAY

    @override
    def from_internal_type(self, v: int | None) -> date | None:
        """Return the date that many days after 1970."""
        return None if v is None else date.fromordinal(v + _EPOCH_DAY)

    @override
    def _converter(self) -> Converter:
        return conversion.instances("Date", date, _date_of)


def _zone_offset() -> int:
    """Microseconds that local time was ahead of UTC in 1970, where PyFlink anchors times of day."""
    return (clock.localtime(0).tm_gmtoff or 0) * 10**6


class TimeTypeInfo(TypeInformation[time]):
    """`datetime.time`, exact to the millisecond; internally microseconds since midnight UTC."""

    _accepts_none = True

    @override
    def need_conversion(self) -> bool:
        return True

    @override
    def to_internal_type(self, t: time | None) -> int | None:
        """Return microseconds since midnight UTC; a time without zone is local."""
        if t is None:
            return None
        since_midnight = ((t.hour * 60 + t.minute) * 60 + t.second) * 10**6 + t.microsecond
        if t.tzinfo is None:
            return since_midnight - _zone_offset()
        return since_midnight - (t.utcoffset() or timedelta()) // timedelta(microseconds=1)

    @override
    def from_internal_type(self, t: int | None) -> time | None:
        """Return the local time of day."""
        if t is None:
            return None
        seconds, micros = divmod(t + _zone_offset(), 10**6)
        return time(seconds // 3600 % 24, seconds // 60 % 60, seconds % 60, micros)

    @override
    def _converter(self) -> Converter:
        return conversion.values("Time", time, _to_millis)


class TimestampTypeInfo(TypeInformation[datetime]):
    """`datetime.datetime`, exact to the millisecond; internally microseconds since 1970."""

    _accepts_none = True

    @override
    def need_conversion(self) -> bool:
        return True

    @override
    def to_internal_type(self, dt: datetime | None) -> int | None:
        """Return microseconds since 1970 (UTC); a timestamp without zone is local."""
        return None if dt is None else int(dt.replace(microsecond=0).timestamp()) * 10**6 + dt.microsecond

    @override
    def from_internal_type(self, ts: int | None) -> datetime | None:
        if ts is None:
            return None
        return datetime.fromtimestamp(ts // 10**6).replace(microsecond=ts % 10**6)

    @override
    def _converter(self) -> Converter:
        return conversion.values("Timestamp", datetime, _to_millis)


class LocalTimeTypeInfo(TypeInformation[Any]):
    """Date, time or timestamp without zone, exact to the microsecond."""

    class TimeType(Enum):
        """Which of the three."""

        LOCAL_DATE = 0
        LOCAL_TIME = 1
        LOCAL_DATE_TIME = 2

    _accepts_none = True

    def __init__(self, time_type: LocalTimeTypeInfo.TimeType) -> None:
        self._time_type = time_type

    @override
    def _converter(self) -> Converter:
        if self._time_type is LocalTimeTypeInfo.TimeType.LOCAL_DATE:
            return conversion.instances("LocalDate", date, _date_of)
        if self._time_type is LocalTimeTypeInfo.TimeType.LOCAL_TIME:
            return conversion.values("LocalTime", time, _to_local)
        return conversion.values("LocalDateTime", datetime, _to_local)

    @override
    def _identity(self) -> tuple[Any, ...]:
        return (self._time_type,)

    @override
    def __repr__(self) -> str:
        return f"LocalTimeTypeInfo<{self._time_type.name}>"
