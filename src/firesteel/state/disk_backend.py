"""Keyed state larger than memory: LMDB under the tables of the hashmap backend.

What is used is in memory as live objects, in the same tables, with the same states and operators on top; see
`disk_space` for how keys come and go. So state that fits into the cache costs little more than without a disk. Timers
and what operators keep beside the tables stay in memory.

The file is private to the process and of no use after it: it is deleted as soon as it is open, and its space is
given back when the backend is closed or the process ends, however that happens.
"""

from __future__ import annotations

import errno
import mmap
import os
import shutil
import tempfile
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

import lmdb

from firesteel.common.errors import StorageError
from firesteel.state.disk_space import DiskSpace, RecordView, ResidentPart, Residents, StoredPart
from firesteel.state.hashmap_backend import HashMapBackend
from firesteel.state.key_space import KeySpace, TableId
from firesteel.state.keyed_snapshot import SnapshotPart
from firesteel.state.snapshot_chain import MAX_DELTAS

__all__ = ["DEFAULT_CACHE_BYTES", "DiskBackend"]

DEFAULT_CACHE_BYTES = 256 << 20
# What a key costs in memory: the objects and slots of a small entry, and what each byte of its record becomes.
_BYTES_PER_KEY, _BYTES_PER_BYTE = 250, 2.5
_FIRST_LOOK = 1024
_MOST_AT_ONCE = 8192  # keys that leave the memory together: the loop of the task stands still as long
_MOST_IN_BULK = 65536
_MAP_SIZE = 16 << 30  # of address space, not of disk
_LEAST_MAP_SIZE = 1 << 20
_PAGES_AHEAD = 256  # of disk space; what LMDB needs for its own books besides records


class DiskBackend(HashMapBackend):
    """All keyed state of one operator's subtask, of which a part is kept in memory.

    That is as many keys as ``cache_bytes`` seem to hold, judging by the size of their records; or ``cache_entries``
    keys, whatever they have.
    """

    _always_tracks = True
    is_in_memory = False

    def __init__(
        self,
        clock: Callable[[], float] = time.time,
        *,
        incremental: bool = False,
        max_deltas: int = MAX_DELTAS,
        operator: str = "",
        directory: str | None = None,
        cache_bytes: int = DEFAULT_CACHE_BYTES,
        cache_entries: int | None = None,
        map_size: int = _MAP_SIZE,
    ) -> None:
        self._environment = _Environment(directory, map_size, self._drain)
        self._cache_bytes = cache_bytes
        self._cache_entries = cache_entries
        self._look_at = _FIRST_LOOK if cache_entries is None else cache_entries  # so many keys
        super().__init__(clock, incremental=incremental, max_deltas=max_deltas, operator=operator)

    def _make_space(self, namespaced: bool) -> KeySpace:
        return DiskSpace(namespaced, _Records(self._environment, b"pairs" if namespaced else b"keys"))

    @property
    def _disk_spaces(self) -> tuple[DiskSpace, DiskSpace]:
        keys, pairs = self._spaces
        assert isinstance(keys, DiskSpace)
        assert isinstance(pairs, DiskSpace)
        return keys, pairs

    # What is used next --------------------------------------------------------------------------------

    def touch(self, keys: Any) -> None:
        """These keys come next: have them in memory. What was announced before may leave it."""
        space, pairs = self._disk_spaces
        if space.resident + pairs.resident > self._look_at:
            self._make_room()
        space.load(keys)
        if self._takes_note:
            space.announce(keys)

    def touch_pairs(self, pairs: Any) -> None:
        """These pairs of key and namespace come next, besides what was announced before."""
        space = self._disk_spaces[1]
        space.load(pairs)
        if self._takes_note:
            space.announce(pairs)

    def _make_room(self, in_bulk: bool = False) -> None:
        """Let keys go to disk when there are too many; ``in_bulk``: many at once, because no record waits."""
        spaces = sorted(self._disk_spaces, key=lambda each: -each.resident)
        resident = sum(space.resident for space in spaces)
        limit = self._limit(spaces)
        # Keys leave in groups: a transaction costs, and records on the same page are written with one write.
        slack = max(1, min(_MOST_AT_ONCE, limit // 4))
        excess = resident - limit
        if excess > slack:
            if in_bulk:
                excess += min(_MOST_IN_BULK, limit // 2)
            for space in spaces:
                count = min(excess, space.resident)
                space.evict(count)
                excess -= count
        self._look_at = min(limit + slack, max(_FIRST_LOOK, 2 * resident))

    def _limit(self, spaces: list[DiskSpace]) -> int:
        """How many keys may be in memory."""
        if self._cache_entries is not None:
            return max(1, self._cache_entries)
        size = max(space.measure() for space in spaces)
        return max(1, int(self._cache_bytes / (_BYTES_PER_KEY + _BYTES_PER_BYTE * size)))

    def keys_of(self, name: str) -> Iterator[Any]:
        """The keys that have something in a table; each one may be read and changed while it is at hand."""
        space, table = self._disk_spaces[0], self._keys.table(name)
        for keys in space.all_keys():
            for key in keys:
                self.touch((key,))
                if key in table:
                    yield key

    def values_of(self, name: str) -> Iterator[list[Any]]:
        """All values of a table, some at a time."""
        space, table = self._disk_spaces[0], self._keys.table(name)
        for keys in space.all_keys():
            self.touch(keys)
            yield [table[key] for key in keys if key in table]

    def peek(self, name: str, key: Any) -> Any:
        """What a state holds for a key, None for nothing; for tests and queries, between batches."""
        self.touch((key,))
        return super().peek(name, key)

    # Snapshots ----------------------------------------------------------------------------------------

    def _space_parts(self, space: KeySpace, full: bool) -> list[SnapshotPart]:
        assert isinstance(space, DiskSpace)
        if not space.tables:
            return []
        space.epoch += 1
        changed = None if full else space.changes.before_last_cut()
        residents = Residents(space)
        options = {name: self._part_options(space, name, full) for name in space.tables}
        found = [
            ResidentPart(residents, space, table, changed, **options[name])
            for name, table in space.tables.items()
        ]
        space.parts += found
        keep = {name: option["keep"] for name, option in options.items() if option["keep"] is not None}
        return [*found, StoredPart(space, residents, changed, keep)]

    def _drain(self) -> None:
        """Let go of all views of the disk."""
        for snapshot in self._in_progress:
            for part in snapshot.parts:
                if isinstance(part, StoredPart):
                    part.drain()

    # Restoring ----------------------------------------------------------------------------------------

    def _restore_entries(self, table_id: TableId, keys: list[Any], values: list[Any]) -> None:
        self._make_room_in_bulk()
        self._disk_spaces[table_id.namespaced].load(keys, overwritten=table_id.name)
        super()._restore_entries(table_id, keys, values)

    def _remove_entries(self, table_id: TableId, keys: list[Any]) -> None:
        self._announce(table_id, keys)
        super()._remove_entries(table_id, keys)

    def _announce_all(self, table_id: TableId) -> None:
        space = self._disk_spaces[table_id.namespaced]
        for keys in space.all_keys():
            space.announce(keys)

    def _convert(self, table_id: TableId, convert: Callable[[Any], Any]) -> None:
        self._disk_spaces[table_id.namespaced].convert(table_id.name, convert)

    def take_restored_table(self, name: str, namespaced: bool) -> Iterator[tuple[Any, Any]]:
        """The entries of a restored table that this operator keeps in another way; the table has them no more."""
        table_id = TableId(name, namespaced)
        space = self._disk_spaces[namespaced]
        table = space.table(name)
        for keys in space.all_keys():
            self._announce(table_id, keys)
            yield from [(key, table[key]) for key in keys if key in table]
        self._drop(table_id)

    def _announce(self, table_id: TableId, keys: list[Any]) -> None:
        self._make_room_in_bulk()
        self._disk_spaces[table_id.namespaced].load(keys)

    def _make_room_in_bulk(self) -> None:
        keys, pairs = self._disk_spaces
        if keys.resident + pairs.resident > self._look_at:
            self._make_room(in_bulk=True)

    def close(self) -> None:
        """Give the disk space back."""
        for snapshot in list(self._in_progress):
            snapshot.cancel()
        self._environment.close()


class _Environment:
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
                    max_dbs=2,
                    sync=False,
                    metasync=False,
                    readahead=False,
                    writemap=True,
                    map_async=True,
                )
            except lmdb.Error as error:  # not so much address space to be had, or no file of that length
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
        """A transaction that will put so many records of so many bytes together."""
        self._reserve(records, size)
        with self._lmdb.begin(db=database, write=True) as transaction:
            yield transaction

    def _reserve(self, records: int, size: int) -> None:
        """Have room for a transaction: pages that it changes are written anew, and new ones may be half full."""
        there = self._lmdb.info()["last_pgno"] + 1
        pages = there + min(there, records) * 5 // 4 + 2 * size // self._page_size + _PAGES_AHEAD
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


class _Records:
    """The records of one space."""

    def __init__(self, environment: _Environment, name: bytes) -> None:
        self._environment = environment
        self._database = environment.database(name)
        self._count = 0

    def get_all(self, places: list[bytes]) -> list[bytes | None]:
        with self._environment.read(self._database) as transaction:
            return list(map(transaction.get, places))

    def put_all(
        self,
        records: list[tuple[bytes, bytes]],
        new: list[tuple[bytes, bytes]],
        gone: list[bytes],
        size: int,
    ) -> list[bytes]:
        count = len(records) + len(new) + len(gone)
        while True:
            try:
                with self._environment.write(self._database, count, size) as transaction:
                    taken = self._put(transaction, records, new)
                    for place in gone:
                        transaction.delete(place)
                    self._count = transaction.stat(self._database)["entries"]
                return taken
            except lmdb.MapFullError:
                self._environment.grow()

    def _put(
        self, transaction: Any, records: list[tuple[bytes, bytes]], new: list[tuple[bytes, bytes]]
    ) -> list[bytes]:
        with transaction.cursor() as cursor:
            cursor.putmulti(records)
            _, added = cursor.putmulti(new, overwrite=False)
        if added == len(new):
            return []
        return [place for place, record in new if transaction.get(place) != record]

    def view(self) -> RecordView:
        return _View(self._environment.read(self._database))

    def __len__(self) -> int:
        return self._count


class _View:
    """A read transaction."""

    def __init__(self, transaction: Any) -> None:
        self._transaction = transaction

    def get_all(self, places: list[bytes]) -> list[bytes | None]:
        return list(map(self._transaction.get, places))

    def scan(self, after: bytes, count: int) -> list[tuple[bytes, bytes]]:
        with self._transaction.cursor() as cursor:
            if not (cursor.set_range(after + b"\0") if after else cursor.first()):
                return []
            return list(islice(cursor, count))

    def close(self) -> None:
        self._transaction.abort()
