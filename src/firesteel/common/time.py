"""Lengths of time, points in time, and the first and last timestamps of a stream."""

from __future__ import annotations

from datetime import timedelta

from firesteel.common._override import override
from firesteel.common.errors import WrongArgumentError

__all__ = [
    "MAX_TIMESTAMP",
    "MAX_WATERMARK",
    "MIN_TIMESTAMP",
    "AnyLength",
    "Duration",
    "Instant",
    "Time",
    "millis_of",
    "to_millis",
]

#: The timestamp of a record that has none, and the watermark of a stream that has not begun (Java's Long.MIN_VALUE).
MIN_TIMESTAMP: int = -(2**63)
#: The last timestamp there is (Java's Long.MAX_VALUE).
MAX_TIMESTAMP: int = 2**63 - 1
#: The watermark at the end of a bounded stream: nothing follows it, so all windows and timers fire.
MAX_WATERMARK: int = MAX_TIMESTAMP


def to_millis(seconds: float) -> int:
    """Whole milliseconds of a clock that tells seconds, as `time.time` does.

    A microsecond is added first: 1.001 * 1000 is a little less than 1001, and must not fall back to 1000.

    >>> to_millis(1.001), to_millis(1.0009)
    (1001, 1000)
    """
    return int(seconds * 1000 + 0.001)


class Duration:
    """A length of time, exact to the nanosecond.

    >>> Duration.of_seconds(90) == Duration.of_millis(90_000)
    True
    >>> Duration.of_minutes(2).to_millis()
    120000
    >>> Duration.of_seconds(90)
    Duration(90 s)
    """

    __slots__ = ("_nanos",)

    def __init__(self, nanos: int = 0) -> None:
        if not isinstance(nanos, int):
            raise WrongArgumentError(
                f"a duration is a whole number of its unit, got {nanos!r}; use a smaller unit"
            )
        self._nanos = nanos

    @staticmethod
    def of_days(days: int) -> Duration:
        """Return a duration of whole days of 24 hours."""
        return Duration(_whole(days) * 86_400_000_000_000)

    @staticmethod
    def of_hours(hours: int) -> Duration:
        """Return a duration of whole hours."""
        return Duration(_whole(hours) * 3_600_000_000_000)

    @staticmethod
    def of_minutes(minutes: int) -> Duration:
        """Return a duration of whole minutes."""
        return Duration(_whole(minutes) * 60_000_000_000)

    @staticmethod
    def of_seconds(seconds: int) -> Duration:
        """Return a duration of whole seconds."""
        return Duration(_whole(seconds) * 1_000_000_000)

    @staticmethod
    def of_millis(millis: int) -> Duration:
        """Return a duration of whole milliseconds."""
        return Duration(_whole(millis) * 1_000_000)

    @staticmethod
    def of_nanos(nanos: int) -> Duration:
        """Return a duration of nanoseconds."""
        return Duration(nanos)

    @staticmethod
    def of_timedelta(delta: timedelta) -> Duration:
        """Return the duration of a `datetime.timedelta` (Firesteel's addition)."""
        return Duration(
            (delta.days * 86_400_000_000 + delta.seconds * 1_000_000 + delta.microseconds) * 1_000
        )

    def to_nanos(self) -> int:
        """Return the length in nanoseconds."""
        return self._nanos

    def to_millis(self) -> int:
        """Return the length in milliseconds, rounded down."""
        return self._nanos // 1_000_000

    def to_seconds(self) -> float:
        """Return the length in seconds, as `time.sleep` and timeouts want it."""
        return self._nanos / 1_000_000_000

    def to_timedelta(self) -> timedelta:
        """Return the length as a `datetime.timedelta`, rounded down to microseconds."""
        return timedelta(microseconds=self._nanos // 1_000)

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Duration) and self._nanos == other._nanos

    def __lt__(self, other: Duration) -> bool:
        return self._nanos < other._nanos

    def __le__(self, other: Duration) -> bool:
        return self._nanos <= other._nanos

    @override
    def __hash__(self) -> int:
        return hash(self._nanos)

    @override
    def __str__(self) -> str:
        for unit, length in _UNITS:
            if self._nanos % length == 0 and self._nanos:
                return f"{self._nanos // length} {unit}"
        return f"{self._nanos} ns" if self._nanos else "0 ms"

    @override
    def __repr__(self) -> str:
        return f"Duration({self})"


_UNITS = (
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
)


def _whole(amount: int) -> int:
    if not isinstance(amount, int):
        raise WrongArgumentError(
            f"a duration is a whole number of its unit, got {amount!r}; use a smaller unit"
        )
    return amount


class Instant:
    """A point in time: seconds since 1970 (UTC), and the nanoseconds after that second.

    >>> Instant.of_epoch_milli(1500)
    Instant<1, 500000000>
    >>> Instant.of_epoch_milli(-1).to_epoch_milli()
    -1
    """

    __slots__ = ("nanos", "seconds")

    def __init__(self, seconds: int, nanos: int) -> None:
        self.seconds = seconds
        self.nanos = nanos

    @staticmethod
    def of_epoch_milli(epoch_milli: int) -> Instant:
        """Return the point that many milliseconds after 1970 (UTC)."""
        return Instant(epoch_milli // 1000, epoch_milli % 1000 * 1_000_000)

    def to_epoch_milli(self) -> int:
        """Return milliseconds since 1970 (UTC), rounded down."""
        return self.seconds * 1000 + self.nanos // 1_000_000

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Instant) and (self.seconds, self.nanos) == (other.seconds, other.nanos)

    def __lt__(self, other: Instant) -> bool:
        return (self.seconds, self.nanos) < (other.seconds, other.nanos)

    @override
    def __hash__(self) -> int:
        return hash((self.seconds, self.nanos))

    @override
    def __repr__(self) -> str:
        return f"Instant<{self.seconds}, {self.nanos}>"


class Time:
    """A length of time in milliseconds: the older way to size windows, kept beside Duration.

    >>> str(Time.seconds(2)), Time.minutes(1).to_milliseconds()
    ('2000 ms', 60000)
    """

    __slots__ = ("_milliseconds",)

    def __init__(self, milliseconds: int) -> None:
        self._milliseconds = milliseconds

    def to_milliseconds(self) -> int:
        """Return the length in milliseconds."""
        return self._milliseconds

    @staticmethod
    def milliseconds(milliseconds: int) -> Time:
        """Return a time of that many milliseconds."""
        return Time(milliseconds)

    @staticmethod
    def seconds(seconds: int) -> Time:
        """Return a time of that many seconds."""
        return Time(seconds * 1000)

    @staticmethod
    def minutes(minutes: int) -> Time:
        """Return a time of that many minutes."""
        return Time(minutes * 60_000)

    @staticmethod
    def hours(hours: int) -> Time:
        """Return a time of that many hours."""
        return Time(hours * 3_600_000)

    @staticmethod
    def days(days: int) -> Time:
        """Return a time of that many days of 24 hours."""
        return Time(days * 86_400_000)

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Time) and self._milliseconds == other._milliseconds

    @override
    def __hash__(self) -> int:
        return hash(self._milliseconds)

    @override
    def __str__(self) -> str:
        return f"{self._milliseconds} ms"

    @override
    def __repr__(self) -> str:
        return f"Time({self})"


#: What windows and triggers take as a length of time; a plain number means milliseconds.
AnyLength = Time | Duration | timedelta | int


def millis_of(length: AnyLength) -> int:
    """A length of time, however it is given, in milliseconds.

    >>> millis_of(Time.seconds(1)), millis_of(Duration.of_millis(5)), millis_of(timedelta(seconds=2)), millis_of(7)
    (1000, 5, 2000, 7)
    """
    if isinstance(length, Time):
        return length.to_milliseconds()
    if isinstance(length, timedelta):
        length = Duration.of_timedelta(length)
    if isinstance(length, Duration):
        return length.to_millis()
    if isinstance(length, int) and not isinstance(length, bool):
        return length
    raise WrongArgumentError(
        f"expected a length of time such as Time.seconds(5) or Duration.of_seconds(5), got {length!r}"
    )
