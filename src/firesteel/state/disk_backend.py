"""Keyed state larger than memory: LMDB under the tables of the hashmap backend.

What is used is in memory as live objects, in the same tables, with the same states and operators on top; see
`disk_space` for how keys come and go. So state that fits into the cache costs little more than without a disk. Timers
and what operators keep beside the tables stay in memory.

The file is private to the process and of no use after it: it is deleted as soon as it is open, and its space is
given back when the backend is closed or the process ends, however that happens.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
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
_MAP_SIZE = 16 << 30  # of address space, not of disk
_LEAST_MAP_SIZE = 1 << 20


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

    def _make_room(self) -> None:
        spaces = sorted(self._disk_spaces, key=lambda each: -each.resident)
        resident = sum(space.resident for space in spaces)
        limit = self._limit(spaces)
        # Keys leave in groups: a transaction costs, and records on the same page are written with one write.
        slack = max(1, min(4096, limit // 8))
        excess = resident - limit
        if excess > slack:
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
        self._announce(table_id, keys)
        super()._restore_entries(table_id, keys, values)

    def _remove_entries(self, table_id: TableId, keys: list[Any]) -> None:
        self._announce(table_id, keys)
        super()._remove_entries(table_id, keys)

    def _convert(self, table_id: TableId, convert: Callable[[Any], Any]) -> None:
        space = self._disk_spaces[table_id.namespaced]
        table = space.table(table_id.name)
        for keys in space.all_keys():
            self._announce(table_id, keys)
            for key in keys:
                if key in table:
                    table[key] = convert(table[key])

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
        if table_id.namespaced:
            self.touch(())
            self.touch_pairs(keys)
        else:
            self.touch(keys)

    def close(self) -> None:
        """Give the disk space back."""
        for snapshot in list(self._in_progress):
            snapshot.cancel()
        self._environment.close()


class _Environment:
    """The LMDB file. It grows as it needs; then all views have to go, which is what ``on_grow`` sees to."""

    def __init__(self, directory: str | None, map_size: int, on_grow: Callable[[], None]) -> None:
        self._size = map_size
        self._on_grow = on_grow
        try:
            path = tempfile.mkdtemp(prefix="firesteel-state-", dir=directory)
        except OSError as error:
            raise StorageError(
                f"no directory for state on disk can be made in {directory or tempfile.gettempdir()!r}: {error}; "
                "set io.tmp.dirs to a directory that the tasks can write to"
            ) from error
        try:
            self._lmdb = self._open(path)
        finally:
            shutil.rmtree(path, ignore_errors=True)
        self._databases: dict[bytes, Any] = {}

    def _open(self, path: str) -> Any:
        while True:
            try:
                # Nothing has to survive a crash. Without readahead, because reads are all over the place.
                return lmdb.open(
                    path, map_size=self._size, max_dbs=2, sync=False, metasync=False, readahead=False
                )
            except lmdb.MemoryError:  # not so much address space to be had
                self._size //= 2
                if self._size < _LEAST_MAP_SIZE:
                    raise

    def database(self, name: bytes) -> Any:
        """A database in the file."""
        if name not in self._databases:
            self._databases[name] = self._lmdb.open_db(name)
        return self._databases[name]

    def begin(self, database: Any, write: bool = False) -> Any:
        """A transaction."""
        return self._lmdb.begin(db=database, write=write)

    def grow(self) -> None:
        """Make room for more."""
        self._on_grow()
        self._size *= 2
        self._lmdb.set_mapsize(self._size)

    def close(self) -> None:
        """Close the file, which gives its space back."""
        self._lmdb.close()


class _Records:
    """The records of one space."""

    def __init__(self, environment: _Environment, name: bytes) -> None:
        self._environment = environment
        self._database = environment.database(name)
        self._count = 0

    def get_all(self, keys: list[bytes]) -> list[bytes | None]:
        with self._environment.begin(self._database) as transaction:
            get = transaction.get
            return [get(key) for key in keys]

    def put_all(self, records: list[tuple[bytes, bytes | None]]) -> None:
        while True:
            try:
                with self._environment.begin(self._database, write=True) as transaction:
                    for key, record in records:
                        if record is None:
                            transaction.delete(key)
                        else:
                            transaction.put(key, record)
                    self._count = transaction.stat(self._database)["entries"]
                return
            except lmdb.MapFullError:
                self._environment.grow()

    def view(self) -> RecordView:
        return _View(self._environment.begin(self._database))

    def __len__(self) -> int:
        return self._count


class _View:
    """A read transaction."""

    def __init__(self, transaction: Any) -> None:
        self._transaction = transaction

    def get(self, key: bytes) -> bytes | None:
        record: bytes | None = self._transaction.get(key)
        return record

    def scan(self, after: bytes, count: int) -> list[tuple[bytes, bytes]]:
        cursor = self._transaction.cursor()
        found: list[tuple[bytes, bytes]] = []
        more = cursor.set_range(after + b"\0") if after else cursor.first()
        while more and len(found) < count:
            found.append(cursor.item())
            more = cursor.next()
        cursor.close()
        return found

    def close(self) -> None:
        self._transaction.abort()
