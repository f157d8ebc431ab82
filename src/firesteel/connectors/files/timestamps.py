"""Moments and what clocks show, between Python and Arrow."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from firesteel.common.time import Instant

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def micros(value: Instant) -> int:
    """Microseconds since the epoch; what is smaller is cut off."""
    return value.seconds * 10**6 + value.nanos // 1000


def instant(value: datetime) -> Instant:
    """The moment of a datetime with a zone; without one it is in UTC."""
    since = (value if value.tzinfo is not None else value.replace(tzinfo=UTC)) - _EPOCH
    seconds, rest = divmod(since, timedelta(seconds=1))
    return Instant(seconds, rest.microseconds * 1000)


def without_zone(value: datetime) -> datetime:
    """What the clock shows."""
    return value if value.tzinfo is None else value.replace(tzinfo=None)


def moment(value: datetime) -> datetime:
    """In UTC; without a zone it is a time of the machine's zone."""
    return value.astimezone(UTC)


def local(value: datetime) -> datetime:
    """What the clock shows in the machine's zone."""
    return value if value.tzinfo is None else value.astimezone().replace(tzinfo=None)


def in_utc(value: datetime) -> datetime:
    """What the clock shows in UTC."""
    return value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
