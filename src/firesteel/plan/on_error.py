"""What becomes of a record for which a function raises: what the program wants, and the name under which it is counted."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["OnError", "count_name", "ignored_name"]


@dataclass(frozen=True, slots=True)
class OnError:
    """The record is counted and left out; with ``dead_letter`` it goes to the side output of that name."""

    dead_letter: str | None = None


def count_name(operator: str) -> str:
    """The accumulator, and the end of the metric, with the number of records that an operator could not process.

    >>> count_name("Parse")
    'badRecords.Parse'
    """
    return f"badRecords.{operator}"


def ignored_name(operator: str) -> str:
    """The accumulator with the number of errors that the schema of a source has passed over.

    >>> ignored_name("orders")
    'ignoredParseErrors.orders'
    """
    return f"ignoredParseErrors.{operator}"
