"""About how many bytes an object takes, with all that it holds: from samples, so that large ones take no longer."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

__all__ = ["TIMER_BYTES", "approximate_bytes"]

#: Of one entry of a timer queue.
TIMER_BYTES = 150

_SAMPLES = 32
_DEEPEST = 4


def approximate_bytes(value: Any, depth: int = 0) -> int:
    """The object's own size, and that of what it holds, as far as a few samples tell.

    >>> approximate_bytes({n: "x" * 1000 for n in range(1000)}) // 1_000_000
    1
    """
    size = sys.getsizeof(value, 64)
    if depth >= _DEEPEST:
        return size
    if isinstance(value, Mapping):
        return size + _of_all(
            (item for pair in islice(value.items(), _SAMPLES) for item in pair), 2 * len(value), depth
        )
    if isinstance(value, list | tuple | set | frozenset):
        return size + _of_all(islice(value, _SAMPLES), len(value), depth)
    attributes = getattr(value, "__dict__", None)
    return (
        size
        if attributes is None or isinstance(value, type)
        else size + approximate_bytes(attributes, depth + 1)
    )


def _of_all(samples: Iterable[Any], count: int, depth: int) -> int:
    sizes = [approximate_bytes(sample, depth + 1) for sample in samples]
    return count * sum(sizes) // len(sizes) if sizes else 0
