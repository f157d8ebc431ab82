"""The event loop of a task, on which asynchronous calls of user code run beside its mailbox.

A task's own thread must not wait for calls, and user code that awaits needs an event loop. There are two:

- `ThreadedLoop` runs in a thread of its own, in real time: Spark's.
- `SteppedLoop` has no thread. It runs what can run when it is polled, and its clock is the simulator's: a call that
  sleeps for an hour is over as soon as nothing else can happen before. Calls that wait for something outside -
  a socket, a thread - are waited for, and time passes for them as it really does.

All operators of a task share one loop, which exists from the first `acquire` to the last `release`.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
import selectors
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any

from firesteel.common._override import override

__all__ = ["CallLoop", "SteppedLoop", "ThreadedLoop"]

_THREADS = 128  # for asyncio.to_thread(); they are started as they are needed
_CLOSE_SECONDS = 1.0  # for calls that are cancelled to end
_OUTSIDE_SECONDS = 0.001  # between two looks at what calls wait for outside of a simulated loop
_ROUNDS_AT_ONCE = 1000
_ROUNDING = 1e-6  # seconds; what a clock that counts from 1970 may lose


class CallLoop(ABC):
    """An event loop that belongs to a task."""

    def __init__(self) -> None:
        self._users = 0

    def acquire(self) -> None:
        """One more operator makes calls; the first one starts the loop."""
        self._users += 1
        if self._users == 1:
            self._start()

    def release(self) -> None:
        """An operator makes no more calls; the last one ends the loop."""
        self._users -= 1
        if self._users == 0:
            self._end()

    @abstractmethod
    def call(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Have a function called in the loop, soon; from the task's thread."""

    @abstractmethod
    def poll(self) -> None:
        """Give the loop time, when it has no thread of its own."""

    @abstractmethod
    def next_deadline(self) -> float:
        """When the loop wants to be polled again, in seconds since the epoch; infinity for never."""

    @abstractmethod
    def _start(self) -> None: ...

    @abstractmethod
    def _end(self) -> None: ...


class ThreadedLoop(CallLoop):
    """An event loop in a thread of its own."""

    @override
    def _start(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(ThreadPoolExecutor(_THREADS, "firesteel-blocking-call"))
        self._thread = threading.Thread(target=self._run, name="firesteel-calls", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            _end_calls(self._loop)
        finally:
            self._loop.close()

    @override
    def call(self, function: Callable[..., Any], *arguments: Any) -> None:
        self._loop.call_soon_threadsafe(function, *arguments)

    @override
    def poll(self) -> None:
        """It has a thread."""

    @override
    def next_deadline(self) -> float:
        return math.inf

    @override
    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        # Twice the time that calls have to end: what does not end by then blocks the loop, and its thread is a daemon.
        self._thread.join(2 * _CLOSE_SECONDS)


class SteppedLoop(CallLoop):
    """An event loop that runs when it is polled, by the clock ``now``."""

    def __init__(self, now: Callable[[], float]) -> None:
        super().__init__()
        self._now = now

    @override
    def _start(self) -> None:
        self._loop = _ManualLoop(self._now)
        self._loop.set_default_executor(ThreadPoolExecutor(_THREADS, "firesteel-blocking-call"))

    @override
    def call(self, function: Callable[..., Any], *arguments: Any) -> None:
        self._loop.call_soon(function, *arguments)

    @override
    def poll(self) -> None:
        """Run what can run; when nothing could, wait a moment for what calls wait for outside."""
        if not self._loop.run_ready() and self._loop.waits_outside:
            self._loop.wait_outside(_OUTSIDE_SECONDS)
            self._loop.run_ready()

    @override
    def next_deadline(self) -> float:
        loop = self._loop
        if loop.is_ready:
            return 0.0
        soonest = loop.next_timer()
        return min(soonest, self._now() + _OUTSIDE_SECONDS) if loop.waits_outside else soonest

    @override
    def _end(self) -> None:
        _end_calls(self._loop)
        self._loop.close()


class _ManualLoop(asyncio.SelectorEventLoop):
    """Counts what is scheduled, so that it is known when there is nothing to run, and what comes next."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._clock = now
        self._zero = now()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._numbers = itertools.count()
        self._soon = 0
        self._in_threads = 0
        self._watched = selectors.DefaultSelector()
        super().__init__(self._watched)
        self._own_files = len(self._watched.get_map())

    @override
    def time(self) -> float:
        """Seconds since the loop was made: small enough for the loop to tell two moments apart."""
        return self._clock() - self._zero + _ROUNDING

    @override
    def call_at(  # type: ignore[override]
        self, when: float, callback: Any, *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        handle = super().call_at(when, callback, *args, context=context)
        heapq.heappush(self._timers, (when, next(self._numbers), handle))
        return handle

    @override
    def call_soon(  # type: ignore[override]
        self, callback: Any, *args: Any, context: Any = None
    ) -> asyncio.Handle:
        self._soon += 1
        return super().call_soon(callback, *args, context=context)

    @override
    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Any, *args: Any
    ) -> asyncio.Future[Any]:
        self._in_threads += 1
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._left_thread)
        return future

    def _left_thread(self, future: asyncio.Future[Any]) -> None:
        self._in_threads -= 1

    @property
    def is_ready(self) -> bool:
        """Whether something can run now."""
        return self._soon > 0 or self.next_timer() <= self._clock()

    @property
    def waits_outside(self) -> bool:
        """Whether calls wait for sockets, for threads, or for nobody knows what: not for this loop's clock alone."""
        outside = self._in_threads > 0 or len(self._watched.get_map()) > self._own_files
        return outside or self.next_timer() == math.inf

    def next_timer(self) -> float:
        """When the clock has come to what was scheduled first."""
        timers = self._timers
        while timers and (timers[0][2].cancelled() or timers[0][0] < self.time()):
            if not timers[0][2].cancelled():
                return timers[0][0] + self._zero  # due, and not run yet
            heapq.heappop(timers)
        return timers[0][0] + self._zero if timers else math.inf

    def run_ready(self) -> bool:
        """Run everything that can run now; whether there was anything."""
        ran = False
        for _ in range(_ROUNDS_AT_ONCE):
            due = self._pop_due()
            if not self._soon and not due and not self._watched.select(0):
                return ran
            ran = True
            self._soon = 0
            super().call_soon(self.stop)
            self.run_forever()
        return ran

    def wait_outside(self, seconds: float) -> None:
        """Wait until something outside has happened; the time is real."""
        self._watched.select(seconds)

    def _pop_due(self) -> bool:
        """Forget the timers that run in the next round; whether there are any."""
        due = False
        while self._timers and self._timers[0][0] <= self.time():
            due |= not self._timers[0][2].cancelled()
            heapq.heappop(self._timers)
        return due


def _end_calls(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel all calls and let them end, within a second; a call that does not end is left."""
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if isinstance(loop, _ManualLoop):
        loop.run_ready()
    elif tasks:
        loop.run_until_complete(asyncio.wait(tasks, timeout=_CLOSE_SECONDS))
    loop.run_until_complete(loop.shutdown_asyncgens())
