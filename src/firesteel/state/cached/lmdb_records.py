"""Records in an LMDB file of the process: what the disk backend has under its cache.

The file is of no use after the process: it is deleted as soon as it is open, and its space is given back when it is
closed or the process ends, however that happens.
"""

from __future__ import annotations

import errno
import mmap
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

import lmdb

from firesteel.common.errors import StorageError
from firesteel.state.cached.record_store import RecordView

__all__ = ["MAP_SIZE", "LmdbFile", "LmdbRecords"]

MAP_SIZE = 16 << 30  # of address space, not of disk
_LEAST_MAP_SIZE = 1 << 20
_MAX_DATABASES = 32  # three for state, and one for each queue of timers
_MAX_VIEWS = 1024  # at a time: a snapshot in progress has as many as there are databases
_PAGES_AHEAD = 256  # of disk space; what LMDB needs for its own books besides records


class LmdbFile:
    """The LMDB file, written through memory. It grows as it needs.

    A page of the file that is written through memory and finds no room on the disk kills the process. So the room
    is reserved before it is needed, and a full disk is an error with a sentence.
    """

    def __init__(self, directory: str | None, map_size: int, on_grow: Callable[[], None]) -> None:
        self._directory = directory or tempfile.gettempdir()
        self._size = map_size
        self._on_grow = on_grow
        self._reserved = 0
        try:
            path = tempfile.mkdtemp(prefix="firesteel-state-", dir=directory)
        except OSError as error:
            raise StorageError(
                f"no directory for state on disk can be made in {self._directory!r}: {error}; "
                "set io.tmp.dirs or state.backend.disk.dirs to a directory that the tasks can write to"
            ) from error
        try:
            self._lmdb = self._open(path)
            self._file = os.open(os.path.join(path, "data.mdb"), os.O_RDWR)
            self._close_file = weakref.finalize(self, os.close, self._file)
        finally:
            shutil.rmtree(path, ignore_errors=True)
        self._page_size: int = self._lmdb.stat()["psize"]
        self._databases: dict[bytes, Any] = {}

    def _open(self, path: str) -> Any:
        while True:
            try:
                # Nothing has to survive a crash. Without readahead, because reads are all over the place.
                return lmdb.open(
                    path,
                    map_size=self._size,
                    max_dbs=_MAX_DATABASES,
                    max_readers=_MAX_VIEWS,
                    sync=False,
                    metasync=False,
                    readahead=False,
                    writemap=True,
                    map_async=True,
                )
            except lmdb.Error as error:  # too much address space, or too long a file for the file system
                self._size //= 2
                if self._size < _LEAST_MAP_SIZE:
                    raise self._failure(error) from error

    def database(self, name: bytes) -> Any:
        """A database in the file."""
        if name not in self._databases:
            self._reserve(0, 0)
            self._databases[name] = self._lmdb.open_db(name)
        return self._databases[name]

    def read(self, database: Any) -> Any:
        """A transaction that sees what there is now."""
        return self._lmdb.begin(db=database)

    @contextmanager
    def write(self, database: Any, records: int, size: int) -> Iterator[Any]:
        """A transaction that will put ``records`` records of ``size`` bytes together."""
        self._reserve(records, size)
        with self._lmdb.begin(db=database, write=True) as transaction:
            yield transaction

    def _reserve(self, records: int, size: int) -> None:
        """Have room for a transaction: pages that it changes are written again, and new ones may be half full."""
        used = self._lmdb.info()["last_pgno"] + 1
        pages = used + min(used, records) * 5 // 4 + 2 * size // self._page_size + _PAGES_AHEAD
        needed = pages * self._page_size
        if needed <= self._reserved:
            return
        try:
            self._allocate(needed + needed // 4)
        except OSError:
            try:
                self._allocate(needed)
            except OSError as error:
                raise self._failure(error) from error

    def _allocate(self, size: int) -> None:
        if hasattr(os, "posix_fallocate"):
            try:
                os.posix_fallocate(self._file, 0, size)
            except OSError as error:
                if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                    raise
                # Otherwise this file system does not know how.
        self._reserved = size

    def grow(self) -> None:
        """Make room for more. All views have to go then, which is what ``on_grow`` sees to."""
        self._on_grow()
        try:
            # LMDB does not survive it when this fails, so try first.
            os.ftruncate(self._file, 2 * self._size)
            mmap.mmap(self._file, 2 * self._size, access=mmap.ACCESS_READ).close()
        except OSError as error:
            raise self._failure(error) from error
        self._size *= 2
        self._lmdb.set_mapsize(self._size)

    def _failure(self, error: Exception) -> StorageError:
        return StorageError(
            f"state on disk cannot be written to a file in {self._directory!r}: {error}; make room there, or set "
            "io.tmp.dirs or state.backend.disk.dirs to a directory with more of it"
        )

    def close(self) -> None:
        """Close the file, which gives its space back."""
        self._lmdb.close()
        self._close_file()


class LmdbRecords:
    """The records of one space."""

    def __init__(self, file: LmdbFile, name: bytes) -> None:
        self._file = file
        self._database = file.database(name)
        self._count = 0

    def get_all(self, record_keys: list[bytes]) -> list[bytes | None]:
        """The records under some record keys."""
        with self._file.read(self._database) as transaction:
            return list(map(transaction.get, record_keys))

    def put_all(
        self,
        records: list[tuple[bytes, bytes]],
        new: list[tuple[bytes, bytes]],
        gone: list[bytes],
        size: int,
    ) -> list[bytes]:
        """Store and remove records; see `RecordStore`."""
        count = len(records) + len(new) + len(gone)
        while True:
            try:
                with self._file.write(self._database, count, size) as transaction:
                    occupied = self._put(transaction, records, new)
                    for record_key in gone:
                        transaction.delete(record_key)
                    self._count = transaction.stat(self._database)["entries"]
                return occupied
            except lmdb.MapFullError:
                self._file.grow()

    def _put(
        self, transaction: Any, records: list[tuple[bytes, bytes]], new: list[tuple[bytes, bytes]]
    ) -> list[bytes]:
        with transaction.cursor() as cursor:
            cursor.putmulti(records)
            _, added = cursor.putmulti(new, overwrite=False)
        if added == len(new):
            return []
        return [record_key for record_key, record in new if transaction.get(record_key) != record]

    def view(self) -> RecordView:
        """The records as they are now."""
        return _View(self._file.read(self._database))

    def __len__(self) -> int:
        return self._count


class _View:
    """A read transaction."""

    def __init__(self, transaction: Any) -> None:
        self._transaction = transaction

    def get_all(self, record_keys: list[bytes]) -> list[bytes | None]:
        return list(map(self._transaction.get, record_keys))

    def scan(self, after: bytes, count: int) -> list[tuple[bytes, bytes]]:
        with self._transaction.cursor() as cursor:
            if not (cursor.set_range(after + b"\0") if after else cursor.first()):
                return []
            return list(islice(cursor, count))

    def close(self) -> None:
        self._transaction.abort()
