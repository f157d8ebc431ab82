"""Tables of which only a part is in memory: what is announced is loaded first, what was not used for long is written back.

The tables stay plain dictionaries, and whoever works on them sees no difference: every key is announced before it is
used, and once it is announced everything that it has is there. In memory a key is *young* or *old*; being announced
makes it young. When there is no room left the old ones go to disk, oldest first, and when there are none the
young ones become old.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Protocol

from firesteel.state.disk_records import (
    Values,
    has_several,
    merge_record,
    read_record,
    record_key,
    values_in_record,
)
from firesteel.state.key_space import KeySpace
from firesteel.state.keyed_snapshot import Keep, TablePart
from firesteel.state.state_blocks import write_block
from firesteel.state.ttl_sweep import GONE

__all__ = ["DiskSpace", "RecordStore", "RecordView", "ResidentPart", "Residents", "StoredPart"]

_SCAN = 1024
_SAMPLE = 64
_COST = 3  # serialising an entry from disk takes so many times as long as one in memory: fewer per step


class RecordView(Protocol):
    """The records as they were at one moment."""

    def get(self, key: bytes) -> bytes | None:
        """One record."""
        ...

    def scan(self, after: bytes, count: int) -> list[tuple[bytes, bytes]]:
        """Up to so many records behind a key, in the order of their keys."""
        ...

    def close(self) -> None:
        """Nobody will look any more."""
        ...


class RecordStore(Protocol):
    """Records on disk."""

    def get_all(self, keys: list[bytes]) -> list[bytes | None]:
        """The records under some keys."""
        ...

    def put_all(self, records: list[tuple[bytes, bytes | None]]) -> None:
        """Store records; None removes one."""
        ...

    def view(self) -> RecordView:
        """The records as they are now."""
        ...

    def __len__(self) -> int: ...


class DiskSpace(KeySpace):
    """A space whose keys are in memory or on disk, with all they have."""

    __slots__ = ("_names", "_numbers", "_shared", "bytes_per_key", "epoch", "old", "records", "young")

    def __init__(self, namespaced: bool, records: RecordStore) -> None:
        super().__init__(namespaced)
        self.records = records
        self.epoch = 0  # counts the snapshots
        # Key -> twice the epoch in which it came into memory, plus one when it was not on disk then.
        self.young: dict[Any, int] = {}
        self.old: dict[Any, int] = {}
        self._shared: set[bytes] = set()  # records with several keys
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

    def name(self, number: int) -> str | None:
        """The table with that number; None when it was dropped."""
        return self._names[number]

    def rename(self, old: str, new: str) -> None:
        """Give a table, and what it has on disk, another name."""
        number = self._numbers.pop(old, None)
        if number is not None:
            self._numbers[new], self._names[number] = number, new
        if old in self.tables:
            self.tables[new] = self.tables.pop(old)

    def drop(self, name: str) -> None:
        """Forget a table; what it has on disk is ignored from now on."""
        number = self._numbers.pop(name, None)
        if number is not None:
            self._names[number] = None
        self.tables.pop(name, None)

    # Memory and disk ----------------------------------------------------------------------------------

    def load(self, keys: Iterable[Any]) -> None:
        """Have all that these keys have in memory."""
        young, old = self.young, self.old
        missing = []
        for key in set(keys).difference(young):
            state = old.pop(key, None)
            if state is None:
                missing.append(key)
            else:
                young[key] = state
        if missing:
            young.update(dict.fromkeys(missing, 2 * self.epoch + 1))
            if len(self.records):
                self._read(missing)

    def _read(self, keys: list[Any]) -> None:
        places = [record_key(key) for key in keys]
        for key, place, record in zip(keys, places, self.records.get_all(places), strict=True):
            if record is not None:
                self._fill(key, place, read_record(record))

    def _fill(self, key: Any, place: bytes, pairs: list[tuple[Any, Values]]) -> None:
        for found, values in pairs:
            if found != key:
                self._shared.add(place)
                continue
            self.young[key] = 2 * self.epoch
            for number, value in values:
                name = self._names[number]
                if name is not None:
                    self.table(name)[key] = value

    def evict(self, count: int) -> None:
        """Move so many keys to disk, those that were not announced for longest."""
        while count > 0:
            if not self.old:
                self.old, self.young = self.young, {}
            keys = list(islice(self.old, count))
            if not keys:
                return
            self._save(keys)
            self._write(keys)
            for key in keys:
                del self.old[key]
                for table in self.tables.values():
                    table.pop(key, None)
            count -= len(keys)

    def _save(self, keys: list[Any]) -> None:
        """Snapshots in progress take what they need before it leaves the tables."""
        residents = []
        for part in self.parts:
            assert isinstance(part, ResidentPart)
            part.save(keys)
            residents.append(part.residents)
        for each in residents:
            each.leave(keys)

    def flush(self) -> None:
        """Bring the disk up to date; all that is in memory stays there."""
        resident = iter([*self.old, *self.young])
        while keys := list(islice(resident, _SCAN)):
            self._write(keys)

    def _write(self, keys: list[Any]) -> None:
        """Store what keys have. A record is read first when another key may be in it.

        That is so when it is known to be shared, and when its key was not on disk before: in the meantime another key
        with the same hash may have come there. Whichever of two such keys comes second finds the other one.
        """
        tables = [(self.number(name), table) for name, table in self.tables.items()]
        places = [record_key(key) for key in keys]
        doubtful = [
            place
            for key, place in zip(keys, places, strict=True)
            if self._state(key) & 1 or place in self._shared
        ]
        found = self.records.get_all(doubtful) if doubtful and len(self.records) else [None] * len(doubtful)
        before = dict(zip(doubtful, found, strict=True))
        changed: dict[bytes, bytes | None] = {}
        for key, place in zip(keys, places, strict=True):
            values = [(number, table[key]) for number, table in tables if key in table]
            old = changed[place] if place in changed else before.get(place)
            changed[place] = record = merge_record(old, key, values)
            if record is not None and has_several(record):
                self._shared.add(place)
        self.records.put_all(sorted(changed.items()))
        size = sum(len(record) for record in changed.values() if record is not None) / len(keys)
        self.bytes_per_key = size if not self.bytes_per_key else (self.bytes_per_key * 7 + size) / 8

    def _state(self, key: Any) -> int:
        state = self.young.get(key)
        return self.old[key] if state is None else state

    def measure(self) -> float:
        """About how many bytes the record of a key has."""
        if not self.bytes_per_key:
            sample = list(islice(reversed(self.young), _SAMPLE))
            records = [merge_record(None, key, self._values(key)) for key in sample]
            return sum(len(record or b"") for record in records) / max(1, len(records))
        return self.bytes_per_key

    def _values(self, key: Any) -> Values:
        return [(self.number(name), table[key]) for name, table in self.tables.items() if key in table]

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

    def all_keys(self) -> Iterator[list[Any]]:
        """All keys that have something, some at a time; keys that come meanwhile may be left out."""
        self.flush()
        after = b""
        while True:
            view = self.records.view()
            found = view.scan(after, _SCAN)
            view.close()
            if not found:
                return
            after = found[-1][0]
            yield [key for _, record in found for key, _ in read_record(record)]

    def __len__(self) -> int:
        return len(self.records) + self.resident


class Residents:
    """The keys that were in memory when a snapshot began."""

    def __init__(self, space: DiskSpace) -> None:
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


class ResidentPart(TablePart):
    """The entries of a table, or the ``changed`` ones, that were in memory when the snapshot began."""

    def __init__(
        self,
        residents: Residents,
        space: DiskSpace,
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


class StoredPart:
    """What was only on disk when a snapshot began: all of it, or what the ``changed`` keys have."""

    def __init__(
        self,
        space: DiskSpace,
        residents: Residents,
        changed: set[Any] | None,
        keep: Mapping[str, Keep],
    ) -> None:
        self._space = space
        self._residents = residents
        self._tables = list(space.tables)
        self._keep = keep
        self._view = space.records.view()
        self._is_delta = changed is not None
        self._keys = iter([key for key in changed or () if not residents.stay(key)])
        self._after = b""
        self._drained: list[bytes] | None = None
        self.done = False

    def step(self, entries: int) -> list[bytes]:
        """Serialise up to so many more keys."""
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
        """Let the disk go."""
        self.done = True
        self._drained = None
        self._view.close()

    def _next(self, entries: int) -> list[bytes]:
        found = self._changed(entries) if self._is_delta else self._scanned(entries)
        if self.done:
            self._view.close()
        return self._blocks(found)

    def _scanned(self, entries: int) -> list[tuple[Any, Values]]:
        records = self._view.scan(self._after, entries)
        self.done = len(records) < entries
        if records:
            self._after = records[-1][0]
        residents = self._residents
        return [
            pair
            for _, record in records
            for pair in read_record(record)
            if pair[0] not in residents.gone and not residents.stay(pair[0])
        ]

    def _changed(self, entries: int) -> list[tuple[Any, Values]]:
        keys = list(islice(self._keys, entries))
        self.done = len(keys) < entries
        found = [(key, self._view.get(record_key(key))) for key in keys]
        return [(key, [] if record is None else values_in_record(record, key)) for key, record in found]

    def _blocks(self, pairs: list[tuple[Any, Values]]) -> list[bytes]:
        payloads = []
        by_table: dict[str | None, tuple[list[Any], list[Any]]] = {name: ([], []) for name in self._tables}
        for key, values in pairs:
            for number, value in values:
                keys, kept = by_table.setdefault(self._space.name(number), ([], []))
                keys.append(key)
                kept.append(value)
        for name, (keys, kept) in by_table.items():
            if name is not None:
                payloads += self._table_blocks(name, keys, kept, pairs)
        return payloads

    def _table_blocks(
        self, name: str, keys: list[Any], values: list[Any], pairs: list[tuple[Any, Values]]
    ) -> list[bytes]:
        namespaced, payloads = self._space.namespaced, []
        keep = self._keep.get(name)
        if keep is not None:
            alive = [
                (key, left)
                for key, value in zip(keys, values, strict=True)
                if (left := keep(value)) is not GONE
            ]
            keys, values = [key for key, _ in alive], [value for _, value in alive]
        if keys:
            payloads.append(write_block(("put", name, namespaced, keys, values)))
        if self._is_delta and len(keys) < len(pairs):
            present = set(keys)
            absent = [key for key, _ in pairs if key not in present]
            payloads.append(write_block(("remove", name, namespaced, absent)))
        return payloads
