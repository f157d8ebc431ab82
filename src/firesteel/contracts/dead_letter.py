"""A record that could not be processed, on its way to a side output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

__all__ = ["DeadLetter"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DeadLetter(Generic[T]):
    """What ``on_error(dead_letter=tag)`` sends to the side output ``tag`` for each record whose function raised.

    ``value`` is the record as the function left it. ``error_type`` names the class of the error, with its module unless
    it is one of Python's own, ``message`` is its text, and ``traceback`` what Python would have printed, beginning with the user's code.
    ``operator`` is the name of the operator, ``timestamp`` the event time of the record in milliseconds, None when it has none.

    Of a message that a source could not deserialize ``value`` has the bytes, and ``where`` what the source knows of it:
    topic, partition and offset, for example.

    >>> letter = DeadLetter("x", "ValueError", "no number", "", "Parse", 1_000)
    >>> letter.value, letter.error_type
    ('x', 'ValueError')
    """

    value: T
    error_type: str
    message: str
    traceback: str
    operator: str
    timestamp: int | None = None
    where: Mapping[str, Any] = field(default_factory=dict)
