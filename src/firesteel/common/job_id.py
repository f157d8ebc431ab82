"""JobID, the name of one submitted job: sixteen random bytes, shown as 32 hexadecimal digits."""

from __future__ import annotations

import os

from firesteel.common._override import override
from firesteel.common.errors import InvalidArgumentError

__all__ = ["JobID"]


class JobID:
    """Identifies one job.

    >>> JobID.from_hex_string("0" * 31 + "a")
    JobID(0000000000000000000000000000000a)
    >>> len(str(JobID.generate()))
    32
    """

    __slots__ = ("_hex",)

    def __init__(self, hex_string: str | None = None) -> None:
        self._hex = os.urandom(16).hex() if hex_string is None else _checked(hex_string)

    @staticmethod
    def generate() -> JobID:
        """Return a new random id."""
        return JobID()

    @staticmethod
    def from_hex_string(hex_string: str) -> JobID:
        """Return the id that prints as `hex_string`."""
        return JobID(hex_string)

    def to_hex_string(self) -> str:
        """Return the id as 32 hexadecimal digits."""
        return self._hex

    @override
    def __str__(self) -> str:
        return self._hex

    @override
    def __repr__(self) -> str:
        return f"JobID({self._hex})"

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, JobID) and self._hex == other._hex

    @override
    def __hash__(self) -> int:
        return hash(self._hex)


def _checked(text: str) -> str:
    lowered = text.lower()
    if len(lowered) != 32 or not set(lowered) <= set("0123456789abcdef"):
        raise InvalidArgumentError(f"a job id is 32 hexadecimal digits, got {text!r}")
    return lowered
