"""Timers in order of their time: one entry per (time, whom), however often it is registered.

Entries are kept in one bucket per time; a heap orders the times. Most times have one timer, so a bucket of
one is the entry itself and becomes a dictionary only when a second one comes. Deleting leaves the time in
the heap; a time without a bucket is skipped when it comes up, and when most times are such the heap is rebuilt.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from heapq import heapify, heappop, heappush
from operator import index
from typing import Any

from firesteel.common.errors import ProgramError, short_repr
from firesteel.common.time import MAX_TIMESTAMP

_SLACK = 64  # times without timers that the heap may hold beyond as many as it has with timers


class _Bucket(dict[Hashable, None]):
    """Several entries of one time, in the order they were registered."""


class TimerQueue:
    """Timers of one operator in one time domain; times are integers (milliseconds)."""

    __slots__ = ("_buckets", "_firing", "_heap")

    def __init__(self) -> None:
        self._heap: list[int] = []
        self._buckets: dict[int, Any] = {}
        self._firing: tuple[int, _Bucket] | None = None

    def add(self, time: int, entry: Hashable) -> None:
        """Register a timer; nothing happens when it is there already."""
        firing = self._firing
        if firing is not None and firing[0] == time and entry in firing[1]:
            return  # its time is being served, and it is still to come
        bucket = self._buckets.get(time, self)
        if bucket is self:  # no bucket: None may be an entry
            self._add_first(time, entry)
        elif type(bucket) is _Bucket:
            bucket[entry] = None
        elif bucket != entry:
            self._buckets[time] = _Bucket({bucket: None, entry: None})

    def _add_first(self, time: int, entry: Hashable) -> None:
        if type(time) is not int:
            time = _whole(time)
        self._buckets[time] = entry
        heappush(self._heap, time)

    def remove(self, time: int, entry: Hashable) -> None:
        """Forget a timer; nothing happens when there is none."""
        if self._firing is not None and self._firing[0] == time:
            self._firing[1].pop(entry, None)
        bucket = self._buckets.get(time, self)
        if type(bucket) is _Bucket:
            bucket.pop(entry, None)
            if not bucket:
                self._drop(time)
        elif bucket is not self and bucket == entry:
            self._drop(time)

    def _drop(self, time: int) -> None:
        del self._buckets[time]
        # A timeout that every record pushes on leaves its old time behind every time.
        if len(self._heap) > 2 * len(self._buckets) + _SLACK:
            self._heap[:] = self._buckets
            heapify(self._heap)

    def next_time(self) -> int:
        """The earliest time with a timer; the greatest possible time when there is none."""
        while self._heap and self._heap[0] not in self._buckets:
            heappop(self._heap)
        return self._heap[0] if self._heap else MAX_TIMESTAMP

    def __len__(self) -> int:
        return sum(len(bucket) if type(bucket) is _Bucket else 1 for bucket in self._buckets.values())

    def due(self, time: int) -> Iterator[tuple[int, Any]]:
        """Take out the timers up to ``time``, earliest first, including those registered meanwhile."""
        heap, buckets = self._heap, self._buckets
        while heap and heap[0] <= time:
            at = heappop(heap)
            bucket = buckets.pop(at, self)
            if bucket is self:
                continue
            if type(bucket) is not _Bucket:
                yield at, bucket
                continue
            yield from self._serve(at, bucket)

    def _serve(self, at: int, bucket: _Bucket) -> Iterator[tuple[int, Any]]:
        self._firing = (at, bucket)
        for entry in list(bucket):
            # One callback may delete another's timer of the same time.
            if entry in bucket:
                del bucket[entry]
                yield at, entry
        self._firing = None

    def entries(self) -> Iterator[tuple[int, Any]]:
        """All timers, in no particular order; for snapshots."""
        for time, bucket in self._buckets.items():
            if type(bucket) is _Bucket:
                yield from ((time, entry) for entry in bucket)
            else:
                yield time, bucket


def _whole(time: Any) -> int:
    try:
        return index(time)
    except TypeError:
        raise ProgramError(f"a timer needs a time in whole milliseconds, got {short_repr(time)}") from None
