"""What enumerator and readers of a hybrid source say to each other; ``source`` is always the number of a source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class HybridSplit:
    """A split of one of the sources."""

    source: int
    split: Any


@dataclass(frozen=True, slots=True)
class Switched:
    """To a reader: read this source from now on."""

    source: int


@dataclass(frozen=True, slots=True)
class NoMoreSplits:
    """To a reader: it has all splits of the source."""

    source: int


@dataclass(frozen=True, slots=True)
class Finished:
    """From a reader: it has read its share of the source."""

    source: int


@dataclass(frozen=True, slots=True)
class SplitWanted:
    """From a reader: it has nothing left to read of the source."""

    source: int


@dataclass(frozen=True, slots=True)
class InnerEvent:
    """From or to the reader of one of the sources."""

    source: int
    event: Any


@dataclass(frozen=True, slots=True)
class HybridState:
    """Which source is being read, and the state of its enumerator."""

    source: int
    enumerator: bytes
