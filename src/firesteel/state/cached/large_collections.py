"""Maps and lists of one key that are too large to be read and written whole: every entry is a record of its own.

A map or list that has grown beyond a limit is replaced in its table by a `LargeMap` or `LargeList`. That holds what was
used or changed last; the rest is in the record store, under the number of the collection (a collection is a map or a
list), and what the record of the key has of it is a short description. Changes are gathered and written together, and
nothing of it needs to wait for the end of a batch: however many entries a batch uses, as many are in memory as
`Entries.limit` says.

======================  ========================================================================================
record key              record
======================  ========================================================================================
number, 0, position     an entry of a map (key and value); some elements of a list, the first of which is at the position
number, 1, hash         of a map: the positions of the entries whose keys have this hash
======================  ========================================================================================

Positions rise with every new entry, so a map is gone through in the order of insertion, as a dictionary is. Values that
come in are made private and so are those that go out: what is in memory here is never changed in place by anybody, and
a change counts when the value is put again.

*Readers* see a map as it was when they were made: whoever changes or removes an entry that a reader has not come to
hands it the old one first. Elements of a list never change; a list that is replaced gets another number.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice
from typing import Any
from weakref import WeakValueDictionary

from firesteel.common._override import override
from firesteel.common._values import ATOMIC, MISSING, private
from firesteel.state.cached.record_store import RecordStore
from firesteel.state.cached.records import read_rows, write_records
from firesteel.state.collection_changes import CollectionChanges
from firesteel.state.elements import Elements

__all__ = ["Description", "ElementsReader", "Entries", "EntriesReader", "LargeList", "LargeMap", "effective"]

#: What the record of a key says of a large map or list: plain data.
Description = tuple[Any, ...]
#: Position, key and value of an entry.
Entry = tuple[int, Any, Any]

CHUNK = 128  # elements of a list in one record
_CHUNK_BYTES = 32 * 1024  # a shorter chunk is written when it has that much
_TOGETHER = 1024  # changes of a map that are written together
_LEAST_PAGE, _MOST_PAGE, _PAGE_BYTES = 4, 512, 64 * 1024  # records that are read together
_BYTES_PER_ENTRY, _BYTES_PER_BYTE = 400, 2.5  # of memory
_DELETED_AT_ONCE = 2048
_SWEPT_AT_ONCE = 256

_ENTRY, _BY_HASH = 0, 1

_prefix = struct.Struct(">QB").pack
_record_key = struct.Struct(">QBQ").pack
_position_of = struct.Struct(">Q").unpack_from
_PREFIX_SIZE = 9
_packed_hash: Callable[[int], bytes] = struct.Struct(">q").pack
_packed_position: Callable[[int], bytes] = struct.Struct(">Q").pack


def effective(piece: Any, floor: int) -> Any:
    """Entries or elements with the times that they have after all were renewed at the time ``floor``."""
    if not floor:
        return piece
    if type(piece) is dict:
        return {key: timed if timed[1] >= floor else (timed[0], floor) for key, timed in piece.items()}
    return [timed if timed[1] >= floor else (timed[0], floor) for timed in piece]


class Entries:
    """The large maps and lists of a backend, and where their entries are.

    ``cache_bytes`` is about how much memory entries may take; ``cache_entries`` how many may be there instead.
    """

    def __init__(self, records: RecordStore, cache_bytes: int, cache_entries: int | None) -> None:
        self.records = records
        self.changes = CollectionChanges()
        self.notes_changes = False  # whether changes matter to a later delta
        self.resident: dict[int, LargeMap | LargeList] = {}  # those whose keys are in memory
        self.cached = 0  # entries of maps in memory
        self.is_used = False  # whether there ever was a large one
        self._next_number = 0
        self._cache_bytes = cache_bytes
        self._cache_entries = cache_entries
        self._bytes_per_entry = 0.0  # of those that were written lately
        self.limit = self._limit()  # of entries of maps in memory
        self._readers: dict[int, WeakValueDictionary[int, Any]] = {}  # by identity
        self._trash: deque[int] = deque()

    # Collections --------------------------------------------------------------------------------------

    def new_number(self) -> int:
        """The number of a collection that is about to be made."""
        self.is_used = True
        self._next_number += 1
        if self.notes_changes:
            self.changes.mark(self._next_number, 0, writes_all=True)
        return self._next_number

    def new_map(self, location: Any, entries: dict[Any, Any], oldest: int = 0) -> LargeMap:
        """A large map with these entries. ``location``: space, number of the table, key."""
        large_map = LargeMap(self, location, self.new_number())
        large_map.oldest = oldest
        self.resident[large_map.number] = large_map
        large_map.update(entries)
        return large_map

    def new_list(self, location: Any, elements: Iterable[Any], oldest: int = 0) -> LargeList:
        """A large list with these elements."""
        large_list = LargeList(self, location, self.new_number())
        large_list.oldest = oldest
        self.resident[large_list.number] = large_list
        large_list.extend(elements)
        return large_list

    def described(self, location: Any, description: Description) -> LargeMap | LargeList:
        """A collection whose key comes into memory."""
        self.is_used = True
        collection = (LargeMap if description[0] == LargeMap.kind else LargeList).from_description(
            self, location, description
        )
        self.resident[collection.number] = collection
        return collection

    def unload(self, collection: LargeMap | LargeList) -> None:
        """Its key leaves memory; it was flushed and described."""
        self.resident.pop(collection.number, None)
        collection.forget()

    def delete(self, collection: LargeMap | LargeList) -> None:
        """Forget a collection; its records go to the trash, which is emptied bit by bit."""
        self.unload(collection)
        self._trash.append(collection.number)

    def flush(self) -> None:
        """Write the changes of all collections to the store."""
        for collection in list(self.resident.values()):
            collection.flush()

    # Memory -------------------------------------------------------------------------------------------

    def _limit(self) -> int:
        if self._cache_entries is not None:
            return max(1, self._cache_entries)
        return max(64, int(self._cache_bytes / (_BYTES_PER_ENTRY + _BYTES_PER_BYTE * self._bytes_per_entry)))

    def make_room(self, user: LargeMap) -> None:
        """There are too many entries in memory: let go of those of other maps first, then of older ones of this."""
        half = self.limit // 2
        for collection in list(self.resident.values()):
            if self.cached <= half:
                return
            if collection is not user:
                collection.flush()
                collection.forget()
                self.resident[collection.number] = self.resident.pop(collection.number)
        user.flush()
        user.forget(half)

    def note_size(self, records: list[bytes]) -> None:
        """Entries were written: how large they are tells how many more may stay in memory."""
        size = sum(map(len, records)) / len(records)
        self._bytes_per_entry = size if not self._bytes_per_entry else (self._bytes_per_entry * 7 + size) / 8
        self.limit = self._limit()

    # Records ------------------------------------------------------------------------------------------

    def scan(self, number: int, after: int | None, count: int) -> list[tuple[int, bytes]]:
        """Up to ``count`` records of a collection behind a position, None for the first."""
        view = self.records.view()
        try:
            return scanned(view, number, after, count)
        finally:
            view.close()

    def empty_trash(self) -> None:
        """Delete some records of collections that nobody needs."""
        for _ in range(len(self._trash)):
            number = self._trash.popleft()
            if self._readers.get(number):
                self._trash.append(number)
                continue
            view = self.records.view()
            records = view.scan(_prefix(number, _ENTRY), _DELETED_AT_ONCE)
            view.close()
            gone = [record_key for record_key, _ in records if record_key < _prefix(number + 1, _ENTRY)]
            self.records.put_all([], [], gone, 0)
            if len(gone) == _DELETED_AT_ONCE:
                self._trash.appendleft(number)
            else:
                self._readers.pop(number, None)
            return

    @property
    def has_trash(self) -> bool:
        """Whether `empty_trash` has something to do."""
        return bool(self._trash)

    # Readers ------------------------------------------------------------------------------------------

    def readers(self, number: int) -> list[Any]:
        """The readers of a collection that somebody still holds."""
        by_id = self._readers.get(number)
        return list(by_id.values()) if by_id else []

    def add_reader(self, number: int, reader: Any) -> None:
        """Remember a reader of a collection for as long as somebody holds it."""
        if number not in self._readers:
            self._readers[number] = WeakValueDictionary()
        self._readers[number][id(reader)] = reader


def scanned(view: Any, number: int, after: int | None, count: int) -> list[tuple[int, bytes]]:
    """Up to ``count`` records of a collection behind a position, from a view."""
    prefix = _prefix(number, _ENTRY)
    start = prefix if after is None else _record_key(number, _ENTRY, after)
    return [
        (_position_of(record_key, _PREFIX_SIZE)[0], record)
        for record_key, record in view.scan(start, count)
        if record_key[:_PREFIX_SIZE] == prefix
    ]


def pages(
    view_or_entries: Any, number: int, after: int | None
) -> Iterator[tuple[list[tuple[int, Any]], bool]]:
    """All records of a collection behind a position, read: some at a time, and whether these are the last."""
    count = _LEAST_PAGE
    while True:
        if isinstance(view_or_entries, Entries):
            records = view_or_entries.scan(number, after, count)
        else:
            records = scanned(view_or_entries, number, after, count)
        is_last = len(records) < count
        rows = read_rows([record for _, record in records])
        if records:
            after = records[-1][0]
            size = sum(len(record) for _, record in records)
            if size > _PAGE_BYTES:
                count = max(1, count // 2)
            elif 2 * size < _PAGE_BYTES:
                count = min(2 * count, _MOST_PAGE)
        yield [(position, row) for (position, _), row in zip(records, rows, strict=True)], is_last
        if is_last:
            return


def find(view: Any, number: int, keys: list[Any]) -> dict[Any, Entry]:
    """Those entries of a map that there are, by the keys that are looked for; in a record store or a view of it."""
    return _entries_at(
        view, number, dict(zip(keys, view.get_all(_hash_record_keys(number, keys)), strict=True))
    )


def _entries_at(view: Any, number: int, by_hash: dict[Any, bytes | None]) -> dict[Any, Entry]:
    """The entries of some keys, given what the store has under their hashes."""
    candidates = [
        (key, position) for key, record in by_hash.items() if record for position in _positions(record)
    ]
    if not candidates:
        return {}
    records = view.get_all([_record_key(number, _ENTRY, position) for _, position in candidates])
    entries: dict[Any, Entry] = {}
    for (key, position), row in zip(candidates, read_rows(records), strict=True):
        if row[0] is key or row[0] == key:
            entries[key] = (position, row[0], row[1])
    return entries


def _hash_record_keys(number: int, keys: Iterable[Any]) -> list[bytes]:
    return list(map(_prefix(number, _BY_HASH).__add__, map(_packed_hash, map(hash, keys))))


def _positions(record: bytes) -> tuple[int, ...]:
    return struct.unpack(f">{len(record) // 8}Q", record)


class LargeMap:
    """A map, to be used as a dictionary is."""

    kind = "map"
    __slots__ = (
        "_cache",
        "_count",
        "_entries",
        "_put",
        "_removed",
        "_swept",
        "_to_sweep",
        "floor",
        "location",
        "next_position",
        "number",
        "oldest",
        "ttl",
    )

    def __init__(self, entries: Entries, location: Any, number: int) -> None:
        self._entries = entries
        self.location = location
        self.number = number
        self.next_position = 0
        self.ttl = 0  # an entry that has expired leaves its position when its key is put again; 0 for none
        self.floor = (
            0  # with a time to live: when everything was renewed; an entry may be younger, but is no older
        )
        self.oldest = 0  # with a time to live: no entry is older
        self._count = 0  # of entries in the store
        self._swept = -1  # position up to which the last sweep came
        self._to_sweep = 0  # how many entries are to be looked at
        self._cache: dict[Any, Entry] = {}  # some entries, as they are in the store
        self._put: dict[
            Any, Any
        ] = {}  # values that are not in the store yet; nobody has looked whether they are new
        self._removed: dict[Any, None] = {}  # keys whose entries go from the store first, if there are any

    # Description --------------------------------------------------------------------------------------

    def description(self) -> Description:
        """What `from_description` makes this map of again, after it was flushed."""
        return (
            self.kind,
            self.number,
            self.next_position,
            self._count,
            self.floor,
            self.oldest,
            self._swept,
        )

    @staticmethod
    def floor_of(description: Description) -> int:
        """When everything was renewed; 0 for not at all."""
        floor: int = description[4]
        return floor

    @classmethod
    def from_description(cls, entries: Entries, location: Any, description: Description) -> LargeMap:
        """The map that was described."""
        _, number, next_position, count, floor, oldest, swept = description
        large_map = cls(entries, location, number)
        large_map.next_position, large_map._count, large_map._swept = next_position, count, swept
        large_map.floor, large_map.oldest = floor, oldest
        return large_map

    # Like a dictionary --------------------------------------------------------------------------------

    def get(self, key: Any, default: Any = None) -> Any:
        """A copy of the value under a key."""
        value = self._put.get(key, MISSING)
        if value is MISSING:
            entry = self._stored(key)
            if entry is None:
                return default
            value = entry[2]
        return self._copy_out(value)

    def __contains__(self, key: Any) -> bool:
        return key in self._put or self._stored(key) is not None

    def __setitem__(self, key: Any, value: Any) -> None:
        if type(value) not in ATOMIC:
            value = private(value)
        if key not in self._put:
            self._entries.cached += 1
        elif self.ttl and self._put[key][1] + self.ttl <= value[1]:
            del self._put[key]
            self._removed[key] = None
        self._put[key] = value
        self._changed()

    def update(self, values: dict[Any, Any]) -> None:
        """Set several entries."""
        for key, value in values.items():
            self[key] = value

    def pop(self, key: Any, default: Any = None) -> None:
        """Remove an entry, if it is there. Nobody needs the value, so nobody looks for it."""
        if key in self._put:
            del self._put[key]
            self._entries.cached -= 1
        self._removed[key] = None
        self._changed()

    def __delitem__(self, key: Any) -> None:
        self.pop(key)

    def __bool__(self) -> bool:
        if self._put or self._count > len(self._removed):
            return True
        self.flush()
        return self._count > 0

    def __len__(self) -> int:
        self.flush()
        return self._count

    def items(self) -> EntriesReader:
        """The entries as they are now."""
        return EntriesReader(self._entries, self, _pair)

    def keys(self) -> EntriesReader:
        """The keys as they are now."""
        return EntriesReader(self._entries, self, _key)

    def values(self) -> EntriesReader:
        """The values as they are now."""
        return EntriesReader(self._entries, self, _value)

    def _copy_out(self, value: Any) -> Any:
        if self.floor and value[1] < self.floor:
            value = (value[0], self.floor)
        return value if type(value) in ATOMIC else private(value)

    # The store ----------------------------------------------------------------------------------------

    def _stored(self, key: Any) -> Entry | None:
        """The entry that the store has for a key; None when there is none, or it is about to be removed."""
        if key in self._removed:
            return None
        entry = self._cache.get(key)
        if entry is None:
            entry = find(self._entries.records, self.number, [key]).get(key)
            if entry is not None:
                self._add_to_cache({key: entry})
        return entry

    def _add_to_cache(self, entries: dict[Any, Entry]) -> None:
        self._cache.update(entries)
        self._entries.cached += len(entries)
        if self._entries.cached > self._entries.limit:
            self._entries.make_room(self)

    def _changed(self) -> None:
        if len(self._put) + len(self._removed) >= _TOGETHER:
            self.flush()
        if self._entries.cached > self._entries.limit:
            self._entries.make_room(self)

    def forget(self, leave: int = 0) -> None:
        """Keep ``leave`` flushed entries in memory at most, those that came last."""
        cache = self._cache
        before = len(cache)
        if leave <= 0:
            cache.clear()
        else:
            for key in list(islice(cache, max(0, before - leave))):
                del cache[key]
        self._entries.cached -= before - len(cache)

    def flush(self) -> None:
        """Write what has changed."""
        if not self._put and not self._removed:
            return
        put, removed, cache = self._put, self._removed, self._cache
        self._put, self._removed = {}, {}
        self._entries.cached -= len(put)
        touched = [*removed, *[key for key in put if key not in removed]] if removed else list(put)
        record_keys = dict(zip(touched, _hash_record_keys(self.number, touched), strict=True))
        by_hash = dict(
            zip(record_keys.values(), self._entries.records.get_all(list(record_keys.values())), strict=True)
        )
        known = {key: cache[key] for key in touched if key in cache}
        unknown = {key: by_hash[record_key] for key, record_key in record_keys.items() if key not in known}
        known |= _entries_at(self._entries.records, self.number, unknown)
        if known:
            self._notify_readers(known.values())
            if self.ttl:
                self._remove_expired(put, known, removed)
        gone = {key: known[key][0] for key in removed if key in known}
        before = self.next_position
        after = self._positioned(put, known, removed)
        came = {key: entry[0] for key, entry in after.items() if entry[0] >= before}
        self._note(list(known.values()), before)
        self._write(after, self._new_by_hash(by_hash, record_keys, came, gone), list(gone.values()))
        self._count += len(came) - len(gone)
        for key in known:
            if cache.pop(key, None) is not None:
                self._entries.cached -= 1
        cache.update(after)
        self._entries.cached += len(after)

    def _positioned(
        self, put: dict[Any, Any], known: dict[Any, Entry], removed: dict[Any, None]
    ) -> dict[Any, Entry]:
        """What is put, at the position that its key has, or behind all others."""
        after: dict[Any, Entry] = {}
        next_position = self.next_position
        for key, value in put.items():
            old = known.get(key)
            if old is None or key in removed:
                after[key] = (next_position, key, value)
                next_position += 1
            else:
                after[key] = (old[0], old[1], value)
        self.next_position = next_position
        return after

    def _new_by_hash(
        self,
        by_hash: dict[bytes, bytes | None],
        record_keys: dict[Any, bytes],
        came: dict[Any, int],
        gone: dict[Any, int],
    ) -> dict[bytes, bytes]:
        """The records of positions by hash that change; empty where one is to be deleted."""
        changed: dict[bytes, bytes] = {}
        for key, position in gone.items():
            record_key = record_keys[key]
            record = changed.get(record_key, by_hash[record_key]) or b""
            changed[record_key] = b"".join(
                _packed_position(other) for other in _positions(record) if other != position
            )
        for key, position in came.items():
            record_key = record_keys[key]
            changed[record_key] = (changed.get(record_key, by_hash[record_key]) or b"") + _packed_position(
                position
            )
        return changed

    def _remove_expired(self, put: dict[Any, Any], known: dict[Any, Entry], removed: dict[Any, None]) -> None:
        """Have what had expired when its key was put removed first."""
        for key, (_, time) in put.items():
            if key in known and max(known[key][2][1], self.floor) + self.ttl <= time:
                removed[key] = None

    def _write(self, put: dict[Any, Entry], by_hash: dict[bytes, bytes], gone: list[int]) -> None:
        number, start = self.number, _prefix(self.number, _ENTRY)
        records = write_records([(key, value) for _, key, value in put.values()]) if put else []
        record_keys = [start + _packed_position(position) for position, _, _ in put.values()]
        pairs = list(zip(record_keys, records, strict=True))
        deleted = [_record_key(number, _ENTRY, position) for position in gone]
        for record_key, record in by_hash.items():
            if record:
                pairs.append((record_key, record))
            else:
                deleted.append(record_key)
        pairs.sort()
        # Most of them are new, which nobody needs to look for first: nobody wants to know how many records there are.
        self._entries.records.put_all(pairs, [], deleted, sum(map(len, records)) + 8 * len(by_hash))
        if records:
            self._entries.note_size(records)

    def _note(self, changed: list[Entry], before: int) -> None:
        """These entries, which were there, have changed; others came from the position ``before`` on."""
        entries = self._entries
        if entries.notes_changes:
            mark = entries.changes.mark(self.number, before)
            mark.note([key for position, key, _ in changed if position < mark.first_new], self._count)

    def _note_all_changed(self) -> None:
        """Everything has changed: the next delta writes all of it."""
        if self._entries.notes_changes:
            self._entries.changes.mark(self.number, 0, writes_all=True)

    def _notify_readers(self, changing: Iterable[Entry]) -> None:
        """Readers keep what they have not come to before it changes."""
        for reader in self._entries.readers(self.number):
            for position, key, value in changing:
                if reader.position < position < reader.end:
                    reader.before.setdefault(position, (key, value))

    # Everything ---------------------------------------------------------------------------------------

    def renew(self, now: int) -> None:
        """All entries were used at this time."""
        self.floor = max(self.floor, now)
        self.oldest = max(self.oldest, now)
        self._note_all_changed()

    def expire(self, horizon: int) -> None:
        """Remove what has not been used since ``horizon``."""
        if self.oldest > horizon:
            return
        self.flush()
        oldest = None
        for page, _ in pages(self._entries, self.number, None):
            oldest = self._expire_page(page, horizon, oldest)
        self.flush()
        self.oldest = self.oldest if oldest is None else oldest

    def sweep(self, horizon: int, count: int) -> None:
        """Look at ``count`` more entries, now or with a later call, and remove those that have expired."""
        self._to_sweep += count
        if self._to_sweep < _SWEPT_AT_ONCE or self.oldest > horizon:
            return
        count, self._to_sweep = min(self._to_sweep, _MOST_PAGE), 0
        self.flush()
        records = self._entries.scan(self.number, self._swept if self._swept >= 0 else None, count)
        rows = read_rows([record for _, record in records])
        self._expire_page(
            [(position, row) for (position, _), row in zip(records, rows, strict=True)], horizon, None
        )
        self._swept = records[-1][0] if len(records) == count else -1

    def _expire_page(self, page: list[tuple[int, Any]], horizon: int, oldest: int | None) -> int | None:
        floor = self.floor
        for _, (key, (_, time)) in page:
            time = max(time, floor)
            if time <= horizon:
                self.pop(key)
            elif oldest is None or time < oldest:
                oldest = time
        return oldest

    def convert(self, convert: Any) -> None:
        """Change all values, with a function from one map to another."""
        self.flush()
        self.forget()
        floor, self.floor = self.floor, 0
        for page, _ in pages(self._entries, self.number, None):
            piece = effective(dict(row for _, row in page), floor)
            converted = convert(piece)
            self._notify_readers([(position, *row) for position, row in page])
            rows = {position: (position, row[0], converted[row[0]]) for position, row in page}
            self._write(rows, {}, [])
        self.oldest = 0
        self._note_all_changed()


class EntriesReader(Collection[Any]):
    """The entries of a large map as they were when this was made."""

    __slots__ = (
        "__weakref__",
        "_count",
        "_entries",
        "_floor",
        "_number",
        "_shown",
        "before",
        "end",
        "position",
    )

    def __init__(self, entries: Entries, read: LargeMap, shown: Any) -> None:
        self._count = len(read)  # which also flushes it
        self._entries = entries
        self._number = read.number
        self._floor = read.floor
        self._shown = shown
        self.position = -1  # it may begin at any time, and more than once
        self.end = read.next_position
        # By position: entries that have changed since, as they were.
        self.before: dict[int, tuple[Any, Any]] = {}
        entries.add_reader(self._number, self)

    @override
    def __len__(self) -> int:
        return self._count

    @override
    def __contains__(self, item: object) -> bool:
        return any(entry is item or entry == item for entry in self)

    @override
    def __iter__(self) -> Iterator[Any]:
        passing = _Passing(self)
        self._entries.add_reader(self._number, passing)
        return self._rows(passing, self._entries, self._shown, self._floor)

    @staticmethod
    def _rows(passing: _Passing, entries: Entries, shown: Any, floor: int) -> Iterator[Any]:
        for page in passing.pages(entries):
            for key, value in page:
                if floor and value[1] < floor:
                    value = (value[0], floor)
                yield shown(key, value)


class _Passing:
    """One pass of a reader, which needs only what is ahead of it."""

    __slots__ = ("__weakref__", "_number", "before", "end", "position")

    def __init__(self, reader: EntriesReader) -> None:
        self._number = reader._number
        self.position, self.end, self.before = reader.position, reader.end, dict(reader.before)

    def pages(self, entries: Entries) -> Iterator[list[tuple[Any, Any]]]:
        count = _LEAST_PAGE
        while self.position < self.end - 1:
            after = None if self.position < 0 else self.position
            records = entries.scan(self._number, after, count)
            last = records[-1][0] if len(records) == count else self.end - 1
            rows = dict(
                zip([at for at, _ in records], read_rows([record for _, record in records]), strict=True)
            )
            if self.before:
                for position in [changed for changed in self.before if changed <= last]:
                    key, value = self.before.pop(position)
                    rows[position] = (key, private(value))  # what was read is nobody else's anyway
                rows = dict(sorted(rows.items()))
            self.position = last
            size = sum(len(record) for _, record in records)
            if size > _PAGE_BYTES:
                count = max(1, count // 2)
            elif 2 * size < _PAGE_BYTES:
                count = min(2 * count, _MOST_PAGE)
            yield [row for position, row in rows.items() if position < self.end]


def _pair(key: Any, value: Any) -> tuple[Any, Any]:
    return key, value


def _key(key: Any, value: Any) -> Any:
    return key


def _value(key: Any, value: Any) -> Any:
    return value


class LargeList:
    """A list that elements are added to; it is replaced by another one when they change or go."""

    kind = "list"
    __slots__ = ("_entries", "_in_chunks", "_tail", "floor", "location", "next_cleaning", "number", "oldest")

    def __init__(self, entries: Entries, location: Any, number: int) -> None:
        self._entries = entries
        self.location = location
        self.number = number
        self.floor = 0  # see LargeMap
        self.oldest = 0
        self.next_cleaning = 0  # how long it has to be until somebody looks again for what has expired
        self._in_chunks = 0  # how many elements are in the store
        self._tail: list[Any] = []  # and these are not

    def description(self) -> Description:
        """What `from_description` makes this list of again; it includes the last elements."""
        return (
            self.kind,
            self.number,
            self._in_chunks,
            self.floor,
            self.oldest,
            self.next_cleaning,
            list(self._tail),
        )

    @staticmethod
    def floor_of(description: Description) -> int:
        """When everything was renewed; 0 for not at all."""
        floor: int = description[3]
        return floor

    @staticmethod
    def in_chunks_of(description: Description) -> int:
        """How many elements are in the store."""
        count: int = description[2]
        return count

    @staticmethod
    def tail_of(description: Description) -> list[Any]:
        """The elements that are not there."""
        tail: list[Any] = description[6]
        return tail

    @classmethod
    def from_description(cls, entries: Entries, location: Any, description: Description) -> LargeList:
        """The list that was described."""
        _, number, in_chunks, floor, oldest, next_cleaning, tail = description
        large_list = cls(entries, location, number)
        large_list._in_chunks, large_list._tail = in_chunks, list(tail)
        large_list.floor, large_list.oldest, large_list.next_cleaning = floor, oldest, next_cleaning
        return large_list

    def append(self, value: Any) -> None:
        """Add an element, or a copy of one that can change."""
        if type(value) not in ATOMIC:
            value = private(value)
        self._tail.append(value)
        if len(self._tail) >= CHUNK:
            self._write_tail()

    def extend(self, values: Iterable[Any]) -> None:
        """Add elements, each as `append` does."""
        for value in values:
            self.append(value)

    def __len__(self) -> int:
        return self._in_chunks + len(self._tail)

    def elements(self) -> ElementsReader:
        """The elements as they are now."""
        return ElementsReader(self._entries, self.number, self._in_chunks, list(self._tail), self.floor)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.elements())

    def _write_tail(self) -> None:
        if self._entries.notes_changes:
            self._entries.changes.mark(self.number, self._in_chunks)
        record = write_records([tuple(self._tail)])[0]
        record_key = _record_key(self.number, _ENTRY, self._in_chunks)
        self._entries.records.put_all([(record_key, record)], [], [], len(record))
        self._in_chunks += len(self._tail)
        self._tail = []

    def flush(self) -> None:
        """Write the last elements when they are too much for the record of the key."""
        if self._tail and len(write_records([tuple(self._tail)])[0]) > _CHUNK_BYTES:
            self._write_tail()

    def forget(self) -> None:
        """Nothing to do: what a list has in memory is nowhere else."""

    def cut(self, length: int) -> None:
        """Keep the first ``length`` elements; for restoring, while nobody reads the list."""
        if length >= self._in_chunks:
            del self._tail[length - self._in_chunks :]
            return
        # The chunk that the last element is in begins less than a whole chunk before it.
        after = length - CHUNK if length >= CHUNK else None
        self._tail, gone, end = [], [], length
        for page, _ in pages(self._entries, self.number, after):
            for position, chunk in page:
                if position + len(chunk) > length:
                    gone.append(_record_key(self.number, _ENTRY, position))
                    if position < length:
                        self._tail, end = list(chunk[: length - position]), position
        self._entries.records.put_all([], [], gone, 0)
        self._in_chunks = end

    def move(self, location: Any) -> None:
        """Change where the list belongs, after namespaces were merged."""
        if location != self.location:
            self.location = location
            self._note_all_changed()

    def renew(self, now: int) -> None:
        """All elements were used at this time."""
        self.floor = max(self.floor, now)
        self.oldest = max(self.oldest, now)
        self._note_all_changed()

    def convert(self, convert: Any) -> None:
        """Change all elements, with a function from one list to another."""
        old = self.elements()
        self._entries.delete(self)
        self.number = self._entries.new_number()
        self._entries.resident[self.number] = self
        self._in_chunks, self._tail, self.floor, self.oldest = 0, [], 0, 0
        rest = iter(old)
        while piece := list(islice(rest, CHUNK)):
            self.extend(convert(piece))

    def _note_all_changed(self) -> None:
        if self._entries.notes_changes:
            self._entries.changes.mark(self.number, 0, writes_all=True)


class ElementsReader(Elements):
    """The elements of a large list as they were when this was made."""

    __slots__ = ("__weakref__", "_entries", "_floor", "_in_chunks", "_number", "_tail")

    def __init__(self, entries: Entries, number: int, in_chunks: int, tail: list[Any], floor: int) -> None:
        self._entries = entries
        self._number = number
        self._in_chunks = in_chunks
        self._tail = tail
        self._floor = floor
        entries.add_reader(number, self)

    @override
    def __len__(self) -> int:
        return self._in_chunks + len(self._tail)

    @override
    def __iter__(self) -> Iterator[Any]:
        if self._in_chunks:
            for page, _ in pages(self._entries, self._number, None):
                for position, chunk in page:
                    if position >= self._in_chunks:
                        break
                    yield from effective(list(chunk), self._floor)  # nobody else has these objects
        for element in effective(self._tail, self._floor):
            yield element if type(element) in ATOMIC else private(element)
