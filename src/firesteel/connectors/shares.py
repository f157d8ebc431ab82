"""Dividing work evenly and in order among the subtasks of a source."""

from __future__ import annotations


def share_of(total: int, subtask: int, parallelism: int) -> range:
    """The contiguous share of ``range(total)`` for one subtask; shares differ in length by at most one.

    >>> [list(share_of(5, subtask, 2)) for subtask in range(2)]
    [[0, 1], [2, 3, 4]]
    """
    return range(total * subtask // parallelism, total * (subtask + 1) // parallelism)
