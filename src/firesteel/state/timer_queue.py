"""Timers in order of their time: one entry per (time, whom), however often it is registered.

Entries are kept in one bucket per time; a heap orders the times. Most times have one timer, so a bucket of
one is the entry itself and becomes a dictionary only when a second one comes. Deleting leaves the time in
the heap; a time without a bucket is skipped when it comes up, and when most times are such the heap is rebuilt.

For snapshots a queue can be frozen while it keeps changing: before the bucket of a time changes for the first time
since, the frozen view keeps a copy of it. So freezing a million timers costs a list of their times.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from heapq import heapify, heappop, heappush
from itertools import compress
from operator import index
from typing import TYPE_CHECKING, Any

from firesteel.common.errors import ProgramError, short_repr
from firesteel.common.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from firesteel.state.snapshot.keyed_snapshot import FrozenTimers, Timers

if TYPE_CHECKING:
    from firesteel.state.tracked_state import Changes

__all__ = ["NO_BUCKET", "Bucket", "FrozenQueue", "TimerQueue", "members", "pop_last", "whole"]

_SLACK = 64  # times without timers that the heap may hold beyond as many as it has with timers


#: Stands for no bucket: None may be an entry.
NO_BUCKET: Any = object()


class Bucket(dict[Hashable, None]):
    """Several entries of one time, in the order they were registered."""


class TimerQueue:
    """Timers of one operator in one time domain; times are integers (milliseconds).

    Times beyond the first or last timestamp mean that timestamp: a timer far in the future is one for the end of time.
    """

    __slots__ = ("_buckets", "_ended", "_firing", "_heap", "_log", "_views", "_watched")

    def __init__(self) -> None:
        self._heap: list[int] = []
        self._buckets: dict[int, Any] = {}
        self._firing: tuple[int, Bucket] | None = None
        self._views: list[FrozenQueue] = []
        self._log: Changes | None = None
        self._watched = False  # whether there are views or a log
        self._ended = False  # whether the last timers of all are ringing or have rung

    def add(self, time: int, entry: Hashable) -> None:
        """Register a timer; nothing happens when it is there already."""
        firing = self._firing
        if firing is not None and firing[0] == time and entry in firing[1]:
            return  # its time is being served, and it is still to come
        bucket = self._buckets.get(time, self)
        if bucket is self:  # no bucket
            self._add_first(time, entry)
        elif type(bucket) is Bucket:
            if self._watched and entry not in bucket:
                self._note(time, (entry,))
            bucket[entry] = None
        elif bucket != entry:
            if self._watched:
                self._note(time, (entry,))
            self._buckets[time] = Bucket({bucket: None, entry: None})

    def _add_first(self, time: int, entry: Hashable) -> None:
        if type(time) is not int:
            time = whole(time)
        if not MIN_TIMESTAMP <= time <= MAX_TIMESTAMP:
            if not self._ended or time < 0:  # one that sets itself again for later must come to an end
                self.add(_clamped(time), entry)
            return
        if self._watched:
            self._note(time, (entry,))
        self._buckets[time] = entry
        heappush(self._heap, time)

    def remove(self, time: int, entry: Hashable) -> None:
        """Forget a timer; nothing happens when there is none."""
        if self._watched and time in self._buckets:
            self._note(time, (entry,))
        if self._firing is not None and self._firing[0] == time:
            self._firing[1].pop(entry, None)
        bucket = self._buckets.get(time, self)
        if type(bucket) is Bucket:
            bucket.pop(entry, None)
            if not bucket:
                self._drop(time)
        elif bucket is self:
            if type(time) is int and time != _clamped(time):
                self.remove(_clamped(time), entry)
        elif bucket == entry:
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
        return sum(len(bucket) if type(bucket) is Bucket else 1 for bucket in self._buckets.values())

    def approximate_length(self) -> int:
        """About how many timers there are."""
        return len(self)

    def due(self, time: int) -> Iterator[tuple[int, Any]]:
        """Pop the timers up to ``time``, earliest first, including those registered meanwhile."""
        heap, buckets = self._heap, self._buckets
        while heap and heap[0] <= time:
            at = heappop(heap)
            if at == MAX_TIMESTAMP:
                self._ended = True
            if self._watched and at in buckets:
                self._note(at, members(buckets[at]))
            bucket = buckets.pop(at, self)
            if bucket is self:
                continue
            if type(bucket) is not Bucket:
                yield at, bucket
                continue
            yield from self._serve(at, bucket)

    def _serve(self, at: int, bucket: Bucket) -> Iterator[tuple[int, Any]]:
        self._firing = (at, bucket)
        for entry in list(bucket):
            # One callback may delete another's timer of the same time.
            if entry in bucket:
                del bucket[entry]
                yield at, entry
        self._firing = None

    def restart(self) -> None:
        """The last timers of all have rung for some keys, and others begin: theirs may be for the end of time, too."""
        self._ended = False

    def entries(self) -> Iterator[tuple[int, Any]]:
        """All timers, in no particular order."""
        for time, bucket in self._buckets.items():
            for entry in members(bucket):
                yield time, entry

    # Snapshots ----------------------------------------------------------------------------------------

    @property
    def log(self) -> Changes | None:
        """Notes every timer that comes or goes; None while nobody wants to know."""
        return self._log

    @log.setter
    def log(self, log: Changes | None) -> None:
        self._log = log
        self._watched = log is not None or bool(self._views)

    def freeze(self, changed: Iterable[tuple[int, Any]] | None = None) -> FrozenTimers:
        """All timers as they are now; or of the ``changed`` ones those that are there and those that are gone."""
        view = FrozenQueue(self, self._buckets, changed)
        self._views.append(view)
        self._watched = True
        return view

    def thaw(self, view: FrozenQueue) -> None:
        """A view is needed no more."""
        self._views = [other for other in self._views if other is not view]
        self._watched = self._log is not None or bool(self._views)

    def _note(self, time: int, entries: Iterable[Hashable]) -> None:
        """Timers of ``time`` are about to come or go."""
        if type(time) is not int:
            time = whole(time)
        for view in self._views:
            view.keep(time)
        if self._log is not None:
            for entry in entries:
                self._log.current[time, entry] = None


class FrozenQueue:
    """The timers of a queue at one moment."""

    __slots__ = ("_before", "_buckets", "_changed", "_entries", "_queue", "_time", "_times")

    def __init__(
        self, queue: TimerQueue, buckets: dict[int, Any], changed: Iterable[tuple[int, Any]] | None
    ) -> None:
        self._queue = queue
        self._buckets = buckets
        self._before: dict[int, Any] = {}  # buckets that have changed since, as they were
        self._changed = None if changed is None else list(changed)[::-1]  # last one first
        self._times = list(buckets) if changed is None else []
        self._time = 0
        self._entries: list[Any] = []  # of this time, still to be handed out, last one first

    @property
    def done(self) -> bool:
        """Whether all have been popped."""
        return not (self._entries or self._times or self._changed)

    def keep(self, time: int) -> None:
        """The bucket of a time is about to change."""
        if time not in self._before:
            bucket = self._buckets.get(time, NO_BUCKET)
            self._before[time] = Bucket(bucket) if type(bucket) is Bucket else bucket

    def pop(self, count: int) -> tuple[Timers, Timers]:
        """Some more timers: those that were there, and those that were gone."""
        if self._changed is None:
            return self._pop_all(count), ([], [])
        popped = pop_last(self._changed, count)
        is_there = [entry in members(self._bucket(time)) for time, entry in popped]
        gone = [not there for there in is_there]
        return _lists(compress(popped, is_there)), _lists(compress(popped, gone))

    def drain(self) -> None:
        """Nothing to do: all timers are in memory."""

    def close(self) -> None:
        """Release the queue: nobody will pop any more."""
        self._times, self._entries, self._changed = [], [], None
        self._queue.thaw(self)

    def _pop_all(self, count: int) -> Timers:
        # No pair is made per timer: a million of them would call the garbage collector into the middle of a job.
        times: list[int] = []
        entries: list[Any] = []
        while len(times) < count and not self.done:
            if not self._entries:
                self._time = self._times.pop()
                self._entries = list(members(self._bucket(self._time)))
                self._entries.reverse()
            popped = self._entries[-1 : -1 - (count - len(times)) : -1]
            del self._entries[len(self._entries) - len(popped) :]
            entries += popped
            times += [self._time] * len(popped)
        return times, entries

    def _bucket(self, time: int) -> Any:
        return self._before[time] if time in self._before else self._buckets.get(time, NO_BUCKET)


def pop_last(timers: list[tuple[int, Any]], count: int) -> list[tuple[int, Any]]:
    """Pop ``count`` timers off the end of a list, the last one first."""
    popped = timers[: -count - 1 : -1]
    del timers[-count:]
    return popped


def _lists(timers: Iterable[tuple[int, Any]]) -> Timers:
    listed = list(timers)
    return [time for time, _ in listed], [entry for _, entry in listed]


def members(bucket: Any) -> Iterable[Any]:
    """The entries of a bucket, whatever it is."""
    if type(bucket) is Bucket:
        return bucket
    return () if bucket is NO_BUCKET else (bucket,)


def _clamped(time: int) -> int:
    return min(max(time, MIN_TIMESTAMP), MAX_TIMESTAMP)


def whole(time: Any) -> int:
    """The time as a number of milliseconds; refuses what is none."""
    try:
        return index(time)
    except TypeError:
        raise ProgramError(f"a timer needs a time in whole milliseconds, got {short_repr(time)}") from None
