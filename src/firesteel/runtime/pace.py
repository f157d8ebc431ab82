"""How long a task works before it looks up from its work.

Between two looks it hears nothing of the job master, fires no timer and sends nothing. So however slow user code is, a
task looks up between two records within some milliseconds:

- A vertex is fed its input in *slices*. How many records make a slice follows what records have cost, beginning with
  one record.
- Records that suddenly cost more than those before are cut off: operators go through a batch with an iterator from
  `Pace.begin`, and a watch that finds the same slice running for too long takes what is left out of that iterator. The
  loop of the operator ends behind the record at hand, as if the batch had been shorter; nothing is paid per record.
- Where there is no such iterator - timers, windows, results of one call - loops look at `Pace.late`.

This class never cuts: harnesses give operators their batches whole. The subclasses are those of Spark's task shell
(`WatchedPace`) and of the simulator, which cuts wherever the seed wants.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from firesteel.common._override import override

__all__ = ["SLICE_SECONDS", "Pace", "Slices", "WatchedPace"]

#: How long a slice should take. Shorter ones would be cut by every moment in which the machine does something else.
SLICE_SECONDS = 0.01
_SLEEP_SECONDS = 1.0  # how long a task rests before its watch does, and how long the watch does at most
_WAIT_SECONDS = 0.001
_SLICES_PER_TICK = 3  # of the watch; what it finds running at two ticks takes too long


def _nothing() -> None:
    """What a pause does where nobody listens."""


def _wait(until: Callable[[], bool], deadline: Callable[[], float]) -> None:
    """What a wait does where nobody drives a task."""
    while not until():
        time.sleep(_WAIT_SECONDS)


class Slices:
    """How many records a vertex is given at once: all there are."""

    def next_size(self, most: int) -> int:
        """The size of the next slice, ``most`` at most."""
        return most

    def took(self, records: int, seconds: float) -> None:
        """So many records took so long."""


class Pace:
    """The pace of one task; it works without looking up."""

    def __init__(self) -> None:
        #: Whether the work at hand takes long: call `breathe` at the next safe place.
        self.late = False
        self.pause: Callable[[], None] = _nothing
        #: Waits, in the middle of the work, until its first argument gives true. Whoever drives the task sends what was
        #: made and hears of a cancel meanwhile; the second argument tells when to look again, at the latest.
        self.wait: Callable[[Callable[[], bool], Callable[[], float]], None] = _wait

    def now(self) -> float:
        """A clock for how long slices take, in seconds."""
        return 0.0

    def create_slices(self) -> Slices:
        """The slices of one vertex."""
        return Slices()

    def step(self) -> None:
        """A slice, or something else that the task does in one go, begins."""

    def rest(self) -> None:
        """The task has nothing to do."""

    def begin(self, values: list[Any]) -> Iterator[Any]:
        """An iterator over a batch that may end early; to be followed by `end`.

        Pairs of the two may be nested: an operator hands results on in the middle of its loop.
        """
        return iter(values)

    def end(self) -> int:
        """The loop over the iterator has ended: how many records at the end of its batch were taken out of it."""
        return 0

    def taken_out_of(self, cursor: Iterator[Any] | None) -> int:
        """How many records were taken out of an iterator so far; for whoever has to name the record at hand."""
        return 0

    def breathe(self) -> None:
        """Let what was made leave, in the middle of the work."""
        self.late = False
        self.pause()

    def close(self) -> None:
        """The task is over."""


class _MeasuredSlices(Slices):
    """As many records as should take some milliseconds, by what the last ones took."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._size = 1

    @override
    def next_size(self, most: int) -> int:
        return min(most, self._size)

    @override
    def took(self, records: int, seconds: float) -> None:
        if records:
            affordable = int(self._seconds * records / max(seconds, 1e-9))
            # Never more than twice as many: one cheap record says little about the next ones.
            self._size = max(1, min(2 * max(records, self._size), affordable, 1 << 20))


class WatchedPace(Pace):
    """Measures slices, which should take ``seconds``, and has a thread that cuts off what takes too long."""

    def __init__(self, seconds: float = SLICE_SECONDS) -> None:
        super().__init__()
        self._seconds = seconds
        self._step = 0
        self._resting = True
        # The batches that are being iterated over, the innermost last, each with a list for what is taken out.
        self._batches: list[tuple[Iterator[Any], list[Any]]] = []
        # To wake the watch costs more than a record: it sleeps only when the task has rested for long.
        self._watch_sleeps = False
        self._work_begins = threading.Event()
        self._closed = False
        watch = threading.Thread(
            target=_watch,
            args=(weakref.ref(self), seconds * _SLICES_PER_TICK),
            name="firesteel-watch",
            daemon=True,
        )
        watch.start()

    @override
    def now(self) -> float:
        return time.perf_counter()

    @override
    def create_slices(self) -> Slices:
        return _MeasuredSlices(self._seconds)

    @override
    def step(self) -> None:
        """Something new begins: it is not late yet."""
        self._step += 1
        self.late = self._resting = False
        if self._watch_sleeps:
            self._work_begins.set()

    @override
    def rest(self) -> None:
        """Nothing to watch until the next step."""
        self._resting = True

    @override
    def begin(self, values: list[Any]) -> Iterator[Any]:
        """An iterator that the watch knows."""
        cursor = iter(values)
        self._batches.append((cursor, []))
        return cursor

    @override
    def end(self) -> int:
        """How many records the watch took out."""
        return len(self._batches.pop()[1])

    @override
    def taken_out_of(self, cursor: Iterator[Any] | None) -> int:
        """How many records the watch took out."""
        return sum(len(taken_out) for known, taken_out in self._batches if known is cursor)

    @override
    def close(self) -> None:
        self._closed = True
        self._work_begins.set()

    def cut(self) -> None:
        """The step takes too long; called by the watch, in its own thread."""
        self.late = True
        for cursor, taken_out in list(self._batches):
            # One call into C under the interpreter's lock: the loop sees all of the rest, or nothing of it.
            taken_out.extend(cursor)

    def look(self, last_step: int) -> int:
        """One look of the watch: cut what was there already at the last look."""
        if self._step == last_step and not self._resting:
            self.cut()
        return self._step

    def sleep_until_work(self) -> None:
        """The watch has nothing to watch."""
        self._work_begins.clear()
        self._watch_sleeps = True
        # After that, because who begins to work looks at it last.
        if self._resting and not self._closed:
            self._work_begins.wait(_SLEEP_SECONDS)
        self._watch_sleeps = False

    @property
    def is_closed(self) -> bool:
        """Whether the task is over."""
        return self._closed


def _watch(pace_of: weakref.ref[WatchedPace], tick_seconds: float) -> None:
    """The body of the watch. It does not keep the pace of a task alive that nobody closed."""
    step, seconds_without_work = -1, 0.0
    while True:
        time.sleep(tick_seconds)
        pace = pace_of()
        if pace is None or pace.is_closed:
            return
        last_step, step = step, pace.look(step)
        seconds_without_work = seconds_without_work + tick_seconds if step == last_step else 0.0
        if seconds_without_work > _SLEEP_SECONDS and pace._resting:
            pace.sleep_until_work()
        del pace
