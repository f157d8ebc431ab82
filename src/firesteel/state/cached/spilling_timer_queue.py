"""Timers of which only the next ones are in memory; the others wait in a record store, in the order of their times.

A *horizon* divides them. Timers up to it are near, and kept as in any queue. What lies behind it is far, and in the
store. When there are too many near ones the horizon moves back to the middle of them, and when time comes to it the next
far ones are read. While all timers fit into memory there is no horizon, and nothing costs more than without a store.

Far timers come and go in groups: what is added and removed is collected and written together. A record is found by the
time and a hash of whom the timer is for. A time may have more timers than there is room for, as the end of a window has:
then the horizon goes through it, and they come back in portions. Timers of such a time fire in no particular order, those
of all others in the order in which they were registered.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Hashable, Iterable, Iterator
from heapq import heapify, heappush
from operator import itemgetter
from typing import Any, NamedTuple

from firesteel.common._override import override
from firesteel.common.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from firesteel.state.cached.record_store import RecordStore, RecordView, put_changed
from firesteel.state.cached.records import Row, merge_record, read_record, write_records
from firesteel.state.snapshot.keyed_snapshot import FrozenTimers, Timers
from firesteel.state.timer_queue import NO_BUCKET, Bucket, TimerQueue, members, pop_last, whole

__all__ = ["SpillingTimerQueue"]

_GROUP = 4096  # far timers that are written together
_TOGETHER = 64
_COST = 3  # serialising a timer from the store takes that many times as long as one in memory: fewer per step
_NEVER = MAX_TIMESTAMP + 1

_pack_time = struct.Struct(">Q").pack
_pack = struct.Struct(">QQ").pack
_unpack = struct.Struct(">QQ").unpack
_HASH = (1 << 64) - 1


def _record_key(time: int, entry: Hashable) -> bytes:
    """The key of a timer's record: in the order of times."""
    return _pack(time - MIN_TIMESTAMP, hash(entry) & _HASH)


def _before(time: int) -> bytes:
    """Before all record keys of a time, and behind those of earlier ones."""
    return _pack_time(time - MIN_TIMESTAMP)


def _behind(time: int) -> bytes:
    """Behind all record keys of a time, and before those of later ones."""
    return _pack_time(time - MIN_TIMESTAMP) + b"\xff" * 9


def _time_of(record_key: bytes) -> int:
    time: int = _unpack(record_key)[0]
    return time + MIN_TIMESTAMP


class SpillingTimerQueue(TimerQueue):
    """A queue with at most about ``limit`` timers in memory, and any number in ``store``.

    Up to ``together`` timers of one time are always on the same side of the horizon.
    """

    __slots__ = (
        "_far_from",
        "_horizon",
        "_horizon_time",
        "_limit",
        "_number",
        "_room",
        "_store",
        "_together",
        "_unwritten",
    )

    def __init__(self, store: RecordStore, limit: int, together: int = _TOGETHER) -> None:
        super().__init__()
        self._store = store
        self._together = together
        self._limit = max(2, limit)
        self._room = self._limit  # how many more timers may come until somebody counts
        self._horizon: bytes | None = None  # a record key, or between two; None when all timers are near
        self._horizon_time = _NEVER
        self._far_from = _NEVER  # no far timer is earlier
        self._number = 0  # of the last timer that became far
        # Far timers that came, with their numbers; went (None); or went and came again, with their numbers negated.
        self._unwritten: dict[tuple[int, Hashable], int | None] = {}

    # Coming and going ---------------------------------------------------------------------------------

    @override
    def add(self, time: int, entry: Hashable) -> None:
        """Register a timer; nothing happens when it is there already."""
        if type(time) is not int:
            time = whole(time)
        if self._is_near(time, entry):
            super().add(time, entry)
            self._room -= 1
            if self._room < 0:
                self._make_room()
        elif not (self._firing is not None and self._firing[0] == time and entry in self._firing[1]):
            self._far_from = min(self._far_from, time)
            self._move(time, (entry,))
            self._changed_far(time, entry)

    @override
    def remove(self, time: int, entry: Hashable) -> None:
        """Forget a timer; nothing happens when there is none."""
        if type(time) is not int:
            time = whole(time)
        super().remove(time, entry)
        if not self._is_near(time, entry):
            self._unwritten[time, entry] = None
            self._changed_far(time, entry)

    def _is_near(self, time: int, entry: Hashable) -> bool:
        if self._horizon is None:
            return True
        if not MIN_TIMESTAMP <= time <= MAX_TIMESTAMP:
            return True  # the queue knows what to make of it
        if time != self._horizon_time:
            return time < self._horizon_time
        return _record_key(time, entry) <= self._horizon

    def _move(self, time: int, entries: Iterable[Hashable]) -> None:
        """Make timers far: they go to the store with the next `flush`."""
        for entry in entries:
            self._number += 1
            known = self._unwritten.setdefault((time, entry), self._number)
            if known is None:
                self._unwritten[time, entry] = -self._number  # now it is the last one of its time

    def _changed_far(self, time: int, entry: Hashable) -> None:
        if self._watched:
            self._note(time, (entry,))
        if len(self._unwritten) >= min(_GROUP, self._limit):
            self.flush()

    # Time ---------------------------------------------------------------------------------------------

    @override
    def next_time(self) -> int:
        """The earliest time with a timer; the greatest possible time when there is none."""
        time = super().next_time()
        while time > self._far_from and self._read():
            time = super().next_time()
        return time

    @override
    def due(self, time: int) -> Iterator[tuple[int, Any]]:
        """Pop the timers up to ``time``, earliest first, including those registered meanwhile."""
        yield from super().due(time)
        while self._far_from <= time and self._read():
            yield from super().due(time)

    @override
    def __len__(self) -> int:
        return sum(1 for _ in self.entries())

    @override
    def approximate_length(self) -> int:
        """About how many timers there are, without looking at them all."""
        return super().__len__() + len(self._store) + len(self._unwritten)

    @override
    def entries(self) -> Iterator[tuple[int, Any]]:
        """All timers, in no particular order."""
        yield from super().entries()
        self.flush()
        after = b""
        while portion := self._portion(after, _GROUP):
            after = portion.last
            yield from portion.timers()

    # Between memory and store -------------------------------------------------------------------------

    def _make_room(self) -> None:
        """Count the near timers, and let the later half of them go when there are too many."""
        count = sum(map(self._size, self._buckets))
        if count > self._limit:
            self._spill(self._limit // 2)
            count = self._limit // 2
        self._room = max(1, self._limit // 4, self._limit - count)

    def _size(self, time: int) -> int:
        bucket = self._buckets[time]
        return len(bucket) if type(bucket) is Bucket else 1

    def _spill(self, keep: int) -> None:
        """Let all near timers go but the next ones, about ``keep``."""
        times = sorted(self._buckets)
        index = 0
        while keep >= self._size(times[index]):
            keep -= self._size(times[index])
            index += 1
        divides = keep > 0 and self._size(times[index]) > self._together
        if index == 0 and not divides:
            index = 1  # somebody has to come next
        if index == len(times):
            return
        self._change_buckets(times[index:])
        self._horizon_time = times[index]
        self._horizon = _before(times[index])
        self._far_from = min(self._far_from, times[index])
        if divides:
            self._divide(times[index], keep)
            index += 1
        for time in times[index:]:
            self._move(time, members(self._buckets.pop(time)))
        # In place, because somebody may be popping timers at this moment.
        self._heap[:] = [time for time in self._heap if time in self._buckets]
        heapify(self._heap)
        self.flush()

    def _divide(self, time: int, keep: int) -> None:
        """Let the horizon go through a time."""
        entries = sorted(self._buckets[time], key=lambda entry: _record_key(time, entry))
        record_keys = [_record_key(time, entry) for entry in entries]
        cut = bisect_right(record_keys, record_keys[keep - 1])  # what shares a record stays together
        self._buckets[time] = Bucket(dict.fromkeys(entries[:cut]))
        self._horizon = record_keys[cut - 1]
        self._move(time, entries[cut:])

    def flush(self) -> None:
        """Bring the store up to date."""
        changed, self._unwritten = self._unwritten, {}
        if not changed:
            return
        by_record_key: dict[bytes, list[Row]] = {}
        for (time, entry), number in changed.items():
            row = (entry,) if number is None else (entry, number)
            by_record_key.setdefault(_record_key(time, entry), []).append(row)
        lone = {
            record_key: rows[0]
            for record_key, rows in by_record_key.items()
            if len(rows) == 1 and _is_new(rows[0])
        }
        new = sorted(zip(lone, write_records(list(lone.values())), strict=True)) if lone else []
        occupied = (
            set(self._store.put_all([], new, [], sum(len(record) for _, record in new))) if new else set()
        )
        shared = [
            record_key for record_key in by_record_key if record_key not in lone or record_key in occupied
        ]
        if shared:
            self._merge(shared, by_record_key)

    def _merge(self, record_keys: list[bytes], rows: dict[bytes, list[Row]]) -> None:
        """Change records that may have other timers in them."""
        stored = dict(zip(record_keys, self._store.get_all(record_keys), strict=True))
        merged = dict(stored)
        for record_key in record_keys:
            for row in rows[record_key]:
                if not _is_new(row):
                    merged[record_key] = merge_record(merged[record_key], (row[0], *map(abs, row[1:])))
                elif not _has(merged[record_key], row[0]):
                    merged[record_key] = merge_record(merged[record_key], row)
        put_changed(self._store, stored, merged)

    def _read(self) -> bool:
        """Bring the next far timers into memory; False when there are none."""
        self.flush()
        portion = self._portion(b"", max(1, self._limit // 4))
        if portion is None:
            self._clear_horizon()
            return False
        timers = portion.timers()
        self._change_buckets(time for time, _ in timers)
        for time, entry in timers:
            self._put(time, entry)
        self._store.put_all([], [], [record_key for record_key, _ in portion.records], 0)
        if len(self._store):
            self._horizon_time = self._far_from = _time_of(portion.last)
            self._horizon = portion.last if portion.divides else _behind(self._horizon_time)
        else:
            self._clear_horizon()
        self._room -= len(timers)
        if self._room < 0:
            self._make_room()
        return True

    def _clear_horizon(self) -> None:
        """Have all timers near, in memory."""
        self._horizon, self._horizon_time, self._far_from = None, _NEVER, _NEVER

    def _portion(self, after: bytes, count: int) -> _Portion | None:
        view = self._store.view()  # not for longer: a store that grows must have none
        portion = _Portion.of(view, after, count, self._together)
        view.close()
        return portion

    def _put(self, time: int, entry: Hashable) -> None:
        """Have a timer in memory that is no new one."""
        bucket = self._buckets.get(time, NO_BUCKET)
        if bucket is NO_BUCKET:
            self._buckets[time] = entry
            heappush(self._heap, time)
        elif type(bucket) is Bucket:
            bucket[entry] = None
        else:
            self._buckets[time] = Bucket({bucket: None, entry: None})

    def _change_buckets(self, times: Iterable[int]) -> None:
        """Timers of these times move, which is no change to anybody but views of the memory."""
        if self._views:
            for time in times:
                for view in self._views:
                    view.keep(time)

    # Snapshots ----------------------------------------------------------------------------------------

    @override
    def freeze(self, changed: Iterable[tuple[int, Any]] | None = None) -> FrozenTimers:
        """All timers as they are now; or of the ``changed`` ones those that are there and those that are gone."""
        self.flush()
        if self._horizon is None:
            return super().freeze(changed)
        if changed is None:
            return _FrozenSpillingQueue(super().freeze(), self._store.view(), None, self._together)
        near: list[tuple[int, Any]] = []
        far: list[tuple[int, Any]] = []
        for timer in changed:
            (near if self._is_near(*timer) else far).append(timer)
        if not far:
            return super().freeze(near)
        return _FrozenSpillingQueue(super().freeze(near), self._store.view(), far, self._together)


class _Portion(NamedTuple):
    """Some records of a store, in order; ``divides``: the last time has more than these."""

    records: list[tuple[bytes, bytes]]
    divides: bool

    @classmethod
    def of(cls, view: RecordView, after: bytes, count: int, together: int) -> _Portion | None:
        """About ``count`` records behind a record key, and all of the last time unless it has more than ``together``."""
        records = view.scan(after, count)
        if not records:
            return None
        time = _time_of(records[-1][0])
        rest = [record for record in view.scan(records[-1][0], together) if _time_of(record[0]) == time]
        divides = len(rest) == together
        return cls(records if divides else records + rest, divides)

    @property
    def last(self) -> bytes:
        """The last record key."""
        return self.records[-1][0]

    def timers(self) -> list[tuple[int, Any]]:
        """Times and entries; those of a time as they were registered."""
        numbered = [
            (_time_of(record_key), number, entry)
            for record_key, record in self.records
            for entry, number in read_record(record)
        ]
        numbered.sort(key=itemgetter(0, 1))
        return [(time, entry) for time, _, entry in numbered]


class _FrozenSpillingQueue:
    """The timers of such a queue at one moment: first the near ones, then the far ones."""

    def __init__(
        self, near: FrozenTimers, view: RecordView, changed: list[tuple[int, Any]] | None, together: int
    ) -> None:
        self._together = together
        self._near = near
        self._view = view
        self._changed = None if changed is None else changed[::-1]  # last one first
        self._after = b""
        self._far_done = False
        self._drained: list[tuple[Timers, Timers]] = []  # last one first

    @property
    def done(self) -> bool:
        """Whether all have been popped."""
        return self._near.done and self._far_done and not self._drained

    def pop(self, count: int) -> tuple[Timers, Timers]:
        """Some more timers: those that were there, and those that were gone."""
        if not self._near.done:
            return self._near.pop(count)
        if self._drained:
            return self._drained.pop()
        return self._next(-(-count // _COST))

    def drain(self) -> None:
        """The view cannot stay: pop all far timers now."""
        drained = []
        while not self._far_done:
            drained.append(self._next(_GROUP))
        self._drained += reversed(drained)

    def close(self) -> None:
        """Release the queue and the view: nobody will pop any more."""
        self._far_done, self._drained = True, []
        self._near.close()
        self._view.close()

    def _next(self, count: int) -> tuple[Timers, Timers]:
        present: list[tuple[int, Any]] = []
        gone: list[tuple[int, Any]] = []
        if self._changed is None:
            portion = _Portion.of(self._view, self._after, count, self._together)
            if portion is None:
                self._far_done = True
            else:
                self._after = portion.last
                present = portion.timers()
        else:
            popped = pop_last(self._changed, count)
            self._far_done = not self._changed
            records = self._view.get_all([_record_key(time, entry) for time, entry in popped])
            for timer, record in zip(popped, records, strict=True):
                (present if _has(record, timer[1]) else gone).append(timer)
        if self._far_done:
            self._view.close()
        return _lists(present), _lists(gone)


def _is_new(row: Row) -> bool:
    """Whether a timer comes that may be there already, and then stays what it is."""
    return len(row) == 2 and row[1] > 0


def _has(record: bytes | None, entry: Any) -> bool:
    return record is not None and any(row[0] == entry for row in read_record(record))


def _lists(timers: list[tuple[int, Any]]) -> Timers:
    return [time for time, _ in timers], [entry for _, entry in timers]
