"""Closed part files of a subtask that wait until it is worth while to make one file of those of a bucket."""

from __future__ import annotations

import math
from collections.abc import Sequence

from firesteel.connectors.files.compactors import FileCompactStrategy
from firesteel.connectors.files.part_file import GatheredPart, PendingPart


class GatheredParts:
    """Files by the folder they are in, in the order in which they were closed, each with how many checkpoints it has seen."""

    def __init__(self, strategy: FileCompactStrategy | None) -> None:
        self._strategy = strategy
        self._by_folder: dict[str, list[tuple[PendingPart, int]]] = {}

    def add(self, part: PendingPart, waited: int = 0) -> None:
        """Add a part file that has waited for that many checkpoints."""
        self._by_folder.setdefault(part.name.folder, []).append((part, waited))

    def states(self) -> list[GatheredPart]:
        """What goes into a checkpoint."""
        return [GatheredPart(part, waited) for parts in self._by_folder.values() for part, waited in parts]

    def due(self, ended: bool, largest: float = math.inf) -> list[list[PendingPart]]:
        """A checkpoint has come: the files that are to be compacted now, those of one file together; they wait no more.

        At the end all of them are. A group has no more than ``largest`` bytes, unless it is one file.
        """
        assert self._strategy is not None
        groups: list[list[PendingPart]] = []
        for folder, parts in list(self._by_folder.items()):
            aged = [(part, waited + 1) for part, waited in parts]
            size = sum(part.size for part, _ in aged)
            if ended or self._strategy.is_due(size, max(waited for _, waited in aged)):
                groups += _divided([part for part, _ in aged], largest)
                del self._by_folder[folder]
            else:
                self._by_folder[folder] = aged
        return groups


def _divided(parts: Sequence[PendingPart], largest: float) -> list[list[PendingPart]]:
    groups: list[list[PendingPart]] = [[]]
    size = 0
    for part in parts:
        if groups[-1] and size + part.size > largest:
            groups.append([])
            size = 0
        groups[-1].append(part)
        size += part.size
    return groups
