"""Tables partly in memory: what is announced is loaded first, what was not used for long is written back.

The tables stay plain dictionaries, and whoever works on them sees no difference: every key is announced before it is
used, and once it is announced everything that it has is there. In memory a key is *young* or *old*; being announced
makes it young. When there is no room left the old ones go to disk, oldest first, and when there are none the
young ones become old.

Large maps and lists (`large_collections`) are in the tables as objects that know where their entries are. In a record
they are a description, behind the complement of the table's number: a table's number is never negative.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import compress, islice, repeat
from operator import itemgetter
from typing import Any

from firesteel.common._override import override
from firesteel.state.cached.large_collections import Entries, LargeList, LargeMap
from firesteel.state.cached.large_collections_section import LargeCollectionsSection
from firesteel.state.cached.record_store import RecordStore, put_changed
from firesteel.state.cached.records import (
    Row,
    has_several,
    merge_record,
    read_record,
    read_rows,
    record_keys_of,
    write_records,
)
from firesteel.state.snapshot.keyed_snapshot import Keep, TableSection, write_block
from firesteel.state.tracked_state import KeySpace, Table
from firesteel.state.ttl_sweep import GONE

__all__ = ["CachedSpace", "ResidentSection", "Residents", "StoredSection"]

_SCAN = 1024
_SAMPLE = 64
_COST = 3  # serialising an entry from disk takes that many times as long as one in memory: fewer per step


class CachedSpace(KeySpace):
    """A space whose keys are in memory or on disk, with all they have."""

    __slots__ = (
        "_names",
        "_numbers",
        "_shared",
        "_unread",
        "bytes_per_key",
        "entries",
        "epoch",
        "old",
        "records",
        "young",
    )

    def __init__(self, namespaced: bool, records: RecordStore, entries: Entries) -> None:
        super().__init__(namespaced)
        self.records = records
        self.entries = entries  # of large maps and lists
        self.epoch = 0  # counts the snapshots
        # Key -> twice the epoch in which it came into memory, plus one when it was not on disk then.
        self.young: dict[Any, int] = {}
        self.old: dict[Any, int] = {}
        self._shared: set[bytes] = set()  # records with several keys
        self._unread = False  # whether keys may be on disk that do not say so, because nobody looked
        self.bytes_per_key = 0.0  # of those that were written lately
        self._numbers: dict[str, int] = {}  # of the tables, in records
        self._names: list[str | None] = []

    # Names --------------------------------------------------------------------------------------------

    def number(self, name: str) -> int:
        """The number that stands for a table in records."""
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = len(self._names)
            self._names.append(name)
        return number

    def names(self) -> list[str | None]:
        """The tables by their numbers as they are now; None for one that was dropped."""
        return list(self._names)

    @override
    def rename(self, old: str, new: str) -> None:
        """Give a table, and what it has on disk, another name."""
        number = self._numbers.pop(old, None)
        if number is not None:
            self._numbers[new], self._names[number] = number, new
        if old in self.tables:
            self.tables[new] = self.tables.pop(old)

    @override
    def drop(self, name: str) -> None:
        """Forget a table; what it has on disk is ignored from now on."""
        number = self._numbers.pop(name, None)
        if number is not None:
            self._names[number] = None
        self.tables.pop(name, None)

    # Memory and disk ----------------------------------------------------------------------------------

    def load(self, keys: Iterable[Any], overwritten: str | None = None) -> None:
        """Have all that these keys have in memory; what they have in the table ``overwritten`` is of no interest."""
        young, old = self.young, self.old
        missing = list(set(keys).difference(young))
        if old and missing:
            known = [key for key in missing if key in old]
            young.update(zip(known, map(old.pop, known), strict=True))
            missing = [key for key in missing if key not in young]
        if missing:
            young.update(dict.fromkeys(missing, 2 * self.epoch + 1))
            if self._names == [overwritten]:
                self._unread = self._unread or bool(len(self.records))
            elif len(self.records):
                self._read(missing)

    def _read(self, keys: list[Any]) -> None:
        answers = self.records.get_all(record_keys_of(keys))
        records = [record for record in answers if record is not None]
        if len(records) < len(answers):
            keys = [key for key, record in zip(keys, answers, strict=True) if record is not None]
        tables = [None if name is None else self.table(name) for name in self._names]
        self.young.update(dict.fromkeys(keys, 2 * self.epoch))
        for key, record, row in zip(keys, records, read_rows(records), strict=True):
            if len(row) == 3 and row[0] == key and row[1] >= 0:  # mostly a key has something in one table
                table = tables[row[1]]
                if table is not None:
                    table[key] = row[2]
            else:
                self._fill(key, row, record, tables)

    def _fill(self, key: Any, row: Row, record: bytes, tables: list[Table | None]) -> None:
        if not row or row[0] != key:
            row = next((other for other in read_record(record) if other[0] == key), ())
            if not row:
                self.young[key] |= 1  # the record has other keys only
        for index in range(1, len(row), 2):
            number, value = row[index], row[index + 1]
            table = tables[number if number >= 0 else ~number]
            if table is not None:
                table[key] = value if number >= 0 else self.entries.described((self, ~number, key), value)

    def evict(self, count: int) -> None:
        """Move ``count`` keys to disk, those that were not announced for longest."""
        while count > 0:
            if not self.old:
                self.old, self.young = self.young, {}
            states = dict(islice(self.old.items(), count))
            if not states:
                return
            self._save(states)
            self._write(states)
            _remove(self.old, states)
            for table in self.tables.values():
                if self.entries.is_used:
                    self._unload(map(table.get, states))
                _remove(table, states)
            count -= len(states)

    def _unload(self, values: Iterable[Any]) -> None:
        """Large maps and lists leave memory with their keys."""
        for value in values:
            if isinstance(value, LargeMap | LargeList):
                self.entries.unload(value)

    def delete_collections(self, values: Iterable[Any]) -> None:
        """Delete the large maps and lists among values that were in the tables and are not used any more."""
        if self.entries.is_used:
            for value in values:
                if isinstance(value, LargeMap | LargeList):
                    self.entries.delete(value)

    def _save(self, keys: Iterable[Any]) -> None:
        """Snapshots in progress serialise what they need before it leaves the tables."""
        residents = []
        for section in self.sections:
            assert isinstance(section, ResidentSection)
            section.save(keys)
            residents.append(section.residents)
        for resident_keys in residents:
            resident_keys.leave(keys)

    def flush(self) -> None:
        """Bring the disk up to date; all that is in memory stays there."""
        for resident in (self.old, self.young):
            every_key = iter(list(resident))
            while states := {key: resident[key] for key in islice(every_key, _SCAN)}:
                for row in self._write(states):
                    # Where it has nothing now, another key with the same hash may come.
                    resident[row[0]] = states[row[0]] & ~1 if len(row) > 1 else states[row[0]] | 1

    def _write(self, states: dict[Any, int]) -> list[Row]:
        """Store what keys have; returns that.

        A record may have other keys in it as well: when it is known to be shared, and when this key was not on disk
        before, because another one with the same hash may have come there in the meantime. Whichever of two such
        keys comes second finds the other one.
        """
        rows = self._rows(list(states))
        self._store(rows, list(states.values()))
        return rows

    def _store(self, rows: list[Row], states: list[int]) -> None:
        record_keys = record_keys_of([row[0] for row in rows])
        if self._shared.isdisjoint(record_keys) and len(set(record_keys)) == len(record_keys):
            self._write_apart(states, record_keys, rows)
        else:
            self._write_shared(record_keys, rows)

    def _write_apart(self, states: list[int], record_keys: list[bytes], rows: list[Row]) -> None:
        """Store rows, each in a record of its own unless there is another key in it already."""
        gone: list[bytes] = []
        if any(len(row) == 1 for row in rows):
            entries = list(zip(states, record_keys, rows, strict=True))
            empty = [(state & 1, record_key, row) for state, record_key, row in entries if len(row) == 1]
            gone = [record_key for is_new, record_key, _ in empty if not is_new]
            if self._unread:
                self._write_shared(
                    [record_key for is_new, record_key, _ in empty if is_new],
                    [row for is_new, _, row in empty if is_new],
                )
            states = [state for state, _, row in entries if len(row) > 1]
            record_keys = [record_key for _, record_key, row in entries if len(row) > 1]
            rows = [row for row in rows if len(row) > 1]
        records = write_records(rows)
        pairs = list(zip(record_keys, records, strict=True))
        is_new = [state & 1 for state in states]
        known = [pair for pair, new in zip(pairs, is_new, strict=True) if not new]
        new = list(compress(pairs, is_new))
        known.sort(key=itemgetter(0))
        new.sort(key=itemgetter(0))
        size = sum(map(len, records))
        occupied = self.records.put_all(known, new, gone, size)
        if occupied:
            by_record_key = dict(zip(record_keys, rows, strict=True))
            self._write_shared(occupied, [by_record_key[record_key] for record_key in occupied])
        if rows:
            self._note_size(size / len(rows))

    def _write_shared(self, record_keys: list[bytes], rows: list[Row]) -> None:
        """Store rows in records that may have other keys in them."""
        stored = dict(zip(record_keys, self.records.get_all(record_keys), strict=True))
        changed = dict(stored)
        for record_key, row in zip(record_keys, rows, strict=True):
            changed[record_key] = record = merge_record(changed[record_key], row)
            if record is not None and has_several(record):
                self._shared.add(record_key)
        put_changed(self.records, stored, changed)

    def _rows(self, keys: list[Any]) -> list[Row]:
        tables = [(self.number(name), table) for name, table in self.tables.items() if table]
        if self.entries.is_used:
            return [self._row(key, tables) for key in keys]
        if len(tables) == 1:
            number, table = tables[0]
            if all(map(table.__contains__, keys)):
                return list(zip(keys, repeat(number), map(table.__getitem__, keys)))
        rows = []
        for key in keys:
            row = [key]
            for number, table in tables:
                if key in table:
                    row += (number, table[key])
            rows.append(tuple(row))
        return rows

    def _row(self, key: Any, tables: list[tuple[int, Table]]) -> Row:
        """The row of one key that may have large maps and lists, which are flushed."""
        row = [key]
        for number, table in tables:
            if key in table:
                value = table[key]
                if isinstance(value, LargeMap | LargeList):
                    value.flush()
                    row += (~number, value.description())
                else:
                    row += (number, value)
        return tuple(row)

    def _note_size(self, size: float) -> None:
        self.bytes_per_key = size if not self.bytes_per_key else (self.bytes_per_key * 7 + size) / 8

    def measure(self) -> float:
        """About how many bytes the record of a key has."""
        if not self.bytes_per_key:
            sample = list(islice(reversed(self.young), _SAMPLE))
            return sum(map(len, write_records(self._rows(sample)))) / max(1, len(sample))
        return self.bytes_per_key

    def loaded_in(self, key: Any) -> int | None:
        """The epoch in which a key came into memory; None when it is not there."""
        state = self.young.get(key)
        if state is None:
            state = self.old.get(key)
        return None if state is None else state >> 1

    @property
    def resident(self) -> int:
        """How many keys are in memory."""
        return len(self.young) + len(self.old)

    def convert(self, name: str, convert: Callable[[Any], Any]) -> None:
        """Convert all values of a table, in memory and on disk; nothing comes or goes."""
        table = self.table(name)
        for key, value in table.items():
            if isinstance(value, LargeMap | LargeList):
                value.convert(convert)
            else:
                table[key] = convert(value)
        number = self._numbers.get(name)
        for rows in self._stored():
            changed = [
                self._converted(row, number, convert)
                for row in rows
                if _has(row, number) and self._counts(row)
            ]
            if changed:
                self._store(changed, [0] * len(changed))

    def _counts(self, row: Row) -> bool:
        """Whether what a record says is still true: not when the key is in memory, and has changed there."""
        return not self.entries.is_used or self.loaded_in(row[0]) is None

    def _converted(self, row: Row, number: int | None, convert: Callable[[Any], Any]) -> Row:
        converted = list(row)
        for index in range(1, len(row), 2):
            if row[index] == number:
                converted[index + 1] = convert(row[index + 1])
            elif number is not None and row[index] == ~number:
                large = self.entries.described((self, number, row[0]), row[index + 1])
                large.convert(convert)
                converted[index + 1] = large.description()
                self.entries.unload(large)
        return tuple(converted)

    @override
    def has_entries(self, name: str) -> bool:
        """Whether a table has anything, in memory or on disk."""
        if self.tables.get(name):
            return True
        self.flush()
        number = self._numbers.get(name)
        return any(_has(row, number) for rows in self._stored() for row in rows)

    def all_keys(self) -> Iterator[list[Any]]:
        """All keys that have something, some at a time; keys that come meanwhile may be left out."""
        self.flush()
        for rows in self._stored():
            yield [row[0] for row in rows]

    def _stored(self) -> Iterator[list[Row]]:
        """The rows of all records in the store, some at a time."""
        after = b""
        while True:
            view = self.records.view()
            records = view.scan(after, _SCAN)
            view.close()
            if not records:
                return
            after = records[-1][0]
            yield [row for _, record in records for row in read_record(record)]

    @override
    def __len__(self) -> int:
        return len(self.records) + self.resident


def _has(row: Row, number: int | None) -> bool:
    """Whether a row has something in a table."""
    return number is not None and (number in row[1::2] or ~number in row[1::2])


def _remove(table: dict[Any, Any], keys: Iterable[Any]) -> None:
    deque(map(table.pop, keys, repeat(None)), maxlen=0)


class Residents:
    """The keys that were in memory when a snapshot began."""

    def __init__(self, space: CachedSpace) -> None:
        self._space = space
        self._epoch = space.epoch
        self.gone: set[Any] = set()  # those that have left since

    def stay(self, key: Any) -> bool:
        """Whether a key has been in memory since then."""
        loaded_in = self._space.loaded_in(key)
        return loaded_in is not None and loaded_in < self._epoch

    def leave(self, keys: Iterable[Any]) -> None:
        """Keys go to disk."""
        self.gone.update([key for key in keys if self.stay(key)])


class ResidentSection(TableSection):
    """The entries of a table, or the ``changed`` ones, that were in memory when the snapshot began."""

    def __init__(
        self,
        residents: Residents,
        space: CachedSpace,
        table: dict[Any, Any],
        changed: set[Any] | None,
        **options: Any,
    ) -> None:
        self.residents = residents
        among = _ResidentKeys(residents, table, changed)
        super().__init__(table, among, space.changes.current, **options)
        self.touched.append(residents.gone)


class _ResidentKeys:
    def __init__(self, residents: Residents, table: dict[Any, Any], changed: set[Any] | None) -> None:
        self._residents = residents
        self._table = table
        self._changed = changed

    def __iter__(self) -> Iterator[Any]:
        if self._changed is None:
            return iter(list(self._table))
        return (key for key in self._changed if self._residents.stay(key))

    def __contains__(self, key: Any) -> bool:
        return (self._changed is None or key in self._changed) and self._residents.stay(key)


class StoredSection:
    """What was only on disk when a snapshot began: all of it, or what the ``changed`` keys have."""

    def __init__(
        self,
        space: CachedSpace,
        residents: Residents,
        changed: set[Any] | None,
        keep: Mapping[str, Keep],
        large: LargeCollectionsSection | None = None,
    ) -> None:
        self._space = space
        self._large = large  # who writes large maps and lists
        self._residents = residents
        self._tables = list(space.tables)
        # As they are now: a function may ask for a state late, which renames its table and brings an encoder along.
        self._names = space.names()
        self._encoders = dict(space.encoders)
        self._keep = keep
        self._view = space.records.view()
        self._is_delta = changed is not None
        self._keys = iter([key for key in changed or () if not residents.stay(key)])
        self._after = b""
        self._drained: list[bytes] | None = None
        self.done = False

    def step(self, entries: int) -> list[bytes]:
        """Serialise what about ``entries`` more keys have."""
        if self._drained is not None:
            payloads, self._drained = self._drained, None
            self.done = True
            return payloads
        return self._next(-(-entries // _COST))

    def drain(self) -> None:
        """The view cannot stay: serialise all that is left now."""
        if self.done or self._drained is not None:
            return
        payloads: list[bytes] = []
        while not self.done:
            payloads += self._next(_SCAN)
        self.done, self._drained = False, payloads

    def close(self) -> None:
        """Release the view of the store."""
        self.done = True
        self._drained = None
        self._view.close()

    def _next(self, entries: int) -> list[bytes]:
        rows = self._changed(entries) if self._is_delta else self._scanned(entries)
        if self.done:
            self._view.close()
        return self._blocks(rows)

    def _scanned(self, entries: int) -> list[Row]:
        records = self._view.scan(self._after, entries)
        self.done = len(records) < entries
        if records:
            self._after = records[-1][0]
        residents = self._residents
        return [
            row
            for _, record in records
            for row in read_record(record)
            if row[0] not in residents.gone and not residents.stay(row[0])
        ]

    def _changed(self, entries: int) -> list[Row]:
        keys = list(islice(self._keys, entries))
        self.done = len(keys) < entries
        rows = []
        for key, record in zip(keys, self._view.get_all(record_keys_of(keys)), strict=True):
            stored = [] if record is None else read_record(record)
            rows.append(next((row for row in stored if row[0] == key), (key,)))
        return rows

    def _blocks(self, rows: list[Row]) -> list[bytes]:
        payloads = []
        by_table: dict[str | None, tuple[list[Any], list[Any]]] = {name: ([], []) for name in self._tables}
        for row in rows:
            for index in range(1, len(row), 2):
                number = row[index]
                if number < 0:
                    assert self._large is not None
                    self._large.add(~number, row[0], row[index + 1])
                    continue
                keys, values = by_table.setdefault(self._names[number], ([], []))
                keys.append(row[0])
                values.append(row[index + 1])
        for name, (keys, values) in by_table.items():
            if name is not None:
                payloads += self._table_blocks(name, keys, values, rows)
        return payloads

    def _table_blocks(self, name: str, keys: list[Any], values: list[Any], rows: list[Row]) -> list[bytes]:
        namespaced, payloads = self._space.namespaced, []
        keep = self._keep.get(name)
        if keep is not None:
            alive = [
                (key, left)
                for key, value in zip(keys, values, strict=True)
                if (left := keep(value)) is not GONE
            ]
            keys, values = [key for key, _ in alive], [value for _, value in alive]
        encode = self._encoders.get(name)
        if encode is not None:
            values = [encode(value) for value in values]
        if keys:
            payloads.append(write_block(("put", name, namespaced, keys, values)))
        absent = self._absent(name, keys, rows) if self._is_delta and len(keys) < len(rows) else []
        if absent:
            payloads.append(write_block(("remove", name, namespaced, absent)))
        return payloads

    def _absent(self, name: str, keys: list[Any], rows: list[Row]) -> list[Any]:
        present = set(keys)
        absent = [row for row in rows if row[0] not in present]
        if self._large is not None:
            large = ~self._names.index(name) if name in self._names else None
            absent = [row for row in absent if large not in row[1::2]]
        return [row[0] for row in absent]
