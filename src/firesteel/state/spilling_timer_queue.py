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

from firesteel.common.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from firesteel.state.disk_records import Row, merge_record, read_record, write_records
from firesteel.state.keyed_snapshot import FrozenTimers, Timers
from firesteel.state.record_store import RecordStore, RecordView, put_changed
from firesteel.state.timer_queue import NO_BUCKET, Bucket, TimerQueue, members, take_last, whole

__all__ = ["SpillingTimerQueue"]

_GROUP = 4096  # far timers that are written together
_TOGETHER = 64
_COST = 3  # serialising a timer from the store takes so many times as long as one in memory: fewer per step
_NEVER = MAX_TIMESTAMP + 1

_pack_time = struct.Struct(">Q").pack
_pack = struct.Struct(">QQ").pack
_unpack = struct.Struct(">QQ").unpack
_HASH = (1 << 64) - 1


def _place(time: int, entry: Hashable) -> bytes:
    """Where the record of a timer is: places are in the order of times."""
    return _pack(time - MIN_TIMESTAMP, hash(entry) & _HASH)


def _before(time: int) -> bytes:
    """Before all places of a time, and behind those of earlier ones."""
    return _pack_time(time - MIN_TIMESTAMP)


def _behind(time: int) -> bytes:
    """Behind all places of a time, and before those of later ones."""
    return _pack_time(time - MIN_TIMESTAMP) + b"\xff" * 9


def _time_of(place: bytes) -> int:
    time: int = _unpack(place)[0]
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
        self._horizon: bytes | None = None  # a place, or between places; None when all timers are near
        self._horizon_time = _NEVER
        self._far_from = _NEVER  # no far timer is earlier
        self._number = 0  # of the last timer that became far
        # Far timers that came, with their numbers; went (None); or went and came again, with their numbers negated.
        self._unwritten: dict[tuple[int, Hashable], int | None] = {}

    # Coming and going ---------------------------------------------------------------------------------

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
        return _place(time, entry) <= self._horizon

    def _move(self, time: int, entries: Iterable[Hashable]) -> None:
        """Let timers be far."""
        for entry in entries:
            self._number += 1
            known = self._unwritten.setdefault((time, entry), self._number)
            if known is None:
                self._unwritten[time, entry] = -self._number  # now it is the last one of its time

    def _changed_far(self, time: int, entry: Hashable) -> None:
        if self._watched:
            self._note(time, (entry,))
        if len(self._unwritten) >= min(_GROUP, self._limit):
            self.settle()

    # Time ---------------------------------------------------------------------------------------------

    def next_time(self) -> int:
        """The earliest time with a timer; the greatest possible time when there is none."""
        found = super().next_time()
        while found > self._far_from and self._read():
            found = super().next_time()
        return found

    def due(self, time: int) -> Iterator[tuple[int, Any]]:
        """Take out the timers up to ``time``, earliest first, including those registered meanwhile."""
        yield from super().due(time)
        while self._far_from <= time and self._read():
            yield from super().due(time)

    def __len__(self) -> int:
        return sum(1 for _ in self.entries())

    def about(self) -> int:
        """About how many timers there are, without looking at them all."""
        return super().__len__() + len(self._store) + len(self._unwritten)

    def entries(self) -> Iterator[tuple[int, Any]]:
        """All timers, in no particular order."""
        yield from super().entries()
        self.settle()
        after = b""
        while found := self._portion(after, _GROUP):
            after = found.last
            yield from found.timers()

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
        # In place, because somebody may be taking timers out at this moment.
        self._heap[:] = [time for time in self._heap if time in self._buckets]
        heapify(self._heap)
        self.settle()

    def _divide(self, time: int, keep: int) -> None:
        """Let the horizon go through a time."""
        entries = sorted(self._buckets[time], key=lambda entry: _place(time, entry))
        places = [_place(time, entry) for entry in entries]
        cut = bisect_right(places, places[keep - 1])  # what shares a place stays together
        self._buckets[time] = Bucket(dict.fromkeys(entries[:cut]))
        self._horizon = places[cut - 1]
        self._move(time, entries[cut:])

    def settle(self) -> None:
        """Bring the store up to date."""
        changed, self._unwritten = self._unwritten, {}
        if not changed:
            return
        by_place: dict[bytes, list[Row]] = {}
        for (time, entry), number in changed.items():
            row = (entry,) if number is None else (entry, number)
            by_place.setdefault(_place(time, entry), []).append(row)
        lone = {place: rows[0] for place, rows in by_place.items() if len(rows) == 1 and _is_new(rows[0])}
        new = sorted(zip(lone, write_records(list(lone.values())), strict=True)) if lone else []
        taken = set(self._store.put_all([], new, [], sum(len(record) for _, record in new))) if new else set()
        shared = [place for place in by_place if place not in lone or place in taken]
        if shared:
            self._merge(shared, by_place)

    def _merge(self, places: list[bytes], rows: dict[bytes, list[Row]]) -> None:
        """Change records that may have other timers in them."""
        there = dict(zip(places, self._store.get_all(places), strict=True))
        merged = dict(there)
        for place in places:
            for row in rows[place]:
                if not _is_new(row):
                    merged[place] = merge_record(merged[place], (row[0], *map(abs, row[1:])))
                elif not _has(merged[place], row[0]):
                    merged[place] = merge_record(merged[place], row)
        put_changed(self._store, there, merged)

    def _read(self) -> bool:
        """Bring the next far timers into memory; False when there are none."""
        self.settle()
        found = self._portion(b"", max(1, self._limit // 4))
        if found is None:
            self._have_no_horizon()
            return False
        timers = found.timers()
        self._change_buckets(time for time, _ in timers)
        for time, entry in timers:
            self._put(time, entry)
        self._store.put_all([], [], [place for place, _ in found.records], 0)
        if len(self._store):
            self._horizon_time = self._far_from = _time_of(found.last)
            self._horizon = found.last if found.divides else _behind(self._horizon_time)
        else:
            self._have_no_horizon()
        self._room -= len(timers)
        if self._room < 0:
            self._make_room()
        return True

    def _have_no_horizon(self) -> None:
        """All timers are near."""
        self._horizon, self._horizon_time, self._far_from = None, _NEVER, _NEVER

    def _portion(self, after: bytes, count: int) -> _Portion | None:
        view = self._store.view()  # not for longer: a store that grows must have none
        found = _Portion.of(view, after, count, self._together)
        view.close()
        return found

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

    def freeze(self, changed: Iterable[tuple[int, Any]] | None = None) -> FrozenTimers:
        """All timers as they are now; or of the ``changed`` ones those that are there and those that are gone."""
        self.settle()
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
        """About so many records behind a place, and all of the last time unless it has more than ``together``."""
        records = view.scan(after, count)
        if not records:
            return None
        time = _time_of(records[-1][0])
        rest = [each for each in view.scan(records[-1][0], together) if _time_of(each[0]) == time]
        divides = len(rest) == together
        return cls(records if divides else records + rest, divides)

    @property
    def last(self) -> bytes:
        """The last place."""
        return self.records[-1][0]

    def timers(self) -> list[tuple[int, Any]]:
        """Times and entries; those of a time as they were registered."""
        numbered = [
            (_time_of(place), number, entry)
            for place, record in self.records
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
        """Whether all have been taken."""
        return self._near.done and self._far_done and not self._drained

    def take(self, count: int) -> tuple[Timers, Timers]:
        """Some more timers: those that were there, and those that were gone."""
        if not self._near.done:
            return self._near.take(count)
        if self._drained:
            return self._drained.pop()
        return self._next(-(-count // _COST))

    def drain(self) -> None:
        """The view cannot stay: take all far timers now."""
        taken = []
        while not self._far_done:
            taken.append(self._next(_GROUP))
        self._drained += reversed(taken)

    def close(self) -> None:
        """Nobody will take any more."""
        self._far_done, self._drained = True, []
        self._near.close()
        self._view.close()

    def _next(self, count: int) -> tuple[Timers, Timers]:
        present: list[tuple[int, Any]] = []
        gone: list[tuple[int, Any]] = []
        if self._changed is None:
            found = _Portion.of(self._view, self._after, count, self._together)
            if found is None:
                self._far_done = True
            else:
                self._after = found.last
                present = found.timers()
        else:
            taken = take_last(self._changed, count)
            self._far_done = not self._changed
            records = self._view.get_all([_place(time, entry) for time, entry in taken])
            for timer, record in zip(taken, records, strict=True):
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
