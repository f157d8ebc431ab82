"""Common reasons to try an asynchronous call again; at PyFlink's path."""

from __future__ import annotations

from collections.abc import Sized

__all__ = ["empty_result_predicate", "exception_type_predicate", "has_exception_predicate"]


def empty_result_predicate(result: Sized | None) -> bool:
    """Whether there is no result, or one without elements.

    >>> empty_result_predicate([]), empty_result_predicate([1])
    (True, False)
    """
    return result is None or len(result) == 0


def has_exception_predicate(error: BaseException | None) -> bool:
    """Whether there is an error."""
    return error is not None


def exception_type_predicate(error: BaseException | None, expected_error_type: type[BaseException]) -> bool:
    """Whether the error is of a certain kind."""
    return isinstance(error, expected_error_type)
