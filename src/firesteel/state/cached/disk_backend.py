"""Keyed state on the disk of the worker: LMDB under a cache."""

from __future__ import annotations

from typing import Any

from firesteel.common._override import override
from firesteel.state.cached.backend import CachedBackend
from firesteel.state.cached.lmdb_records import MAP_SIZE, LmdbFile, LmdbRecords
from firesteel.state.cached.record_store import RecordStore

__all__ = ["DiskBackend"]


class DiskBackend(CachedBackend):
    """A cache over an LMDB file in ``directory``; see `CachedBackend` for the other arguments."""

    def __init__(
        self, *args: Any, directory: str | None = None, map_size: int = MAP_SIZE, **options: Any
    ) -> None:
        self._file = LmdbFile(directory, map_size, self._drain)
        super().__init__(*args, **options)

    @override
    def _open_records(self, space: str) -> RecordStore:
        return LmdbRecords(self._file, space.encode())

    @override
    def _close_records(self) -> None:
        self._file.close()
