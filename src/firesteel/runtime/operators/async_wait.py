"""Asynchronous calls: many records wait for an answer at the same time, and results leave in a defined order.

The calls run on the event loop of the task (`firesteel.runtime.call_loop`); everything else happens in the task's own
thread. A record is in the queue from its call on until its results have been emitted:

- *Ordered*, results leave in the order of the records.
- *Unordered*, results leave as they come, but nothing overtakes a watermark: records between two watermarks may change
  places with each other only.

What is in the queue when a barrier comes belongs to the checkpoint, and its calls are made again after a restore.
When the queue is full the operator takes no record: the call that hands it over waits, and what was made so far leaves.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from firesteel.common._override import override
from firesteel.common._values import private
from firesteel.common.errors import ProgramError, short_repr
from firesteel.common.typeinfo import Types
from firesteel.contracts.async_retry import AsyncRetryStrategy
from firesteel.contracts.state import ListStateDescriptor
from firesteel.plan.operator_specs import AsyncSpec
from firesteel.plan.state_handles import CheckpointOrder
from firesteel.runtime.blame import RAISED_BY_USERS
from firesteel.runtime.operator import OperatorContext, Timestamps
from firesteel.runtime.operators.function_operator import FunctionOperator
from firesteel.runtime.user_function import UserFunction

__all__ = ["AsyncWaitOperator"]

_IN_FLIGHT = "in flight"
_AT_ONCE = 1000  # calls that are begun together


class _Call:
    """A record whose call has begun; ``segment`` is where it belongs in an unordered queue."""

    __slots__ = ("error", "is_done", "results", "segment", "timestamp", "value")

    def __init__(self, value: Any, timestamp: int | None) -> None:
        self.value = value
        self.timestamp = timestamp
        self.results: list[Any] = []
        self.error: Exception | SystemExit | None = None
        self.is_done = False
        self.segment: _Segment | None = None


Signal = Callable[[], None]


class _Queue(ABC):
    """Calls whose results have not been emitted, and the signals between them."""

    def __init__(self, emit: Callable[[_Call], None]) -> None:
        self._emit = emit
        self.size = 0

    @abstractmethod
    def add(self, call: _Call) -> None:
        """A call begins."""

    @abstractmethod
    def add_signal(self, signal: Signal) -> None:
        """A watermark, or a change of status: called when everything before it has been emitted."""

    @abstractmethod
    def completed(self, call: _Call) -> None:
        """A call has its results: emit whatever may leave now."""

    @abstractmethod
    def calls(self) -> Iterator[_Call]:
        """All that have not been emitted."""


class _OrderedQueue(_Queue):
    def __init__(self, emit: Callable[[_Call], None]) -> None:
        super().__init__(emit)
        self._entries: deque[_Call | Signal] = deque()

    @override
    def add(self, call: _Call) -> None:
        self._entries.append(call)
        self.size += 1

    @override
    def add_signal(self, signal: Signal) -> None:
        self._entries.append(signal)
        self._advance()

    @override
    def completed(self, call: _Call) -> None:
        self._advance()

    def _advance(self) -> None:
        entries = self._entries
        while entries:
            entry = entries[0]
            if isinstance(entry, _Call):
                if not entry.is_done:
                    return
                self.size -= 1
                self._emit(entries.popleft())  # type: ignore[arg-type]
            else:
                entries.popleft()
                entry()

    @override
    def calls(self) -> Iterator[_Call]:
        return (entry for entry in self._entries if isinstance(entry, _Call))


class _Segment:
    """The calls between two signals; ``signal`` ends it."""

    __slots__ = ("calls", "done", "signal")

    def __init__(self) -> None:
        self.calls: dict[_Call, None] = {}
        self.done: list[_Call] = []
        self.signal: Signal | None = None


class _UnorderedQueue(_Queue):
    def __init__(self, emit: Callable[[_Call], None]) -> None:
        super().__init__(emit)
        self._segments: deque[_Segment] = deque([_Segment()])

    @override
    def add(self, call: _Call) -> None:
        segment = call.segment = self._segments[-1]
        segment.calls[call] = None
        self.size += 1

    @override
    def add_signal(self, signal: Signal) -> None:
        self._segments[-1].signal = signal
        self._segments.append(_Segment())
        self._advance()

    @override
    def completed(self, call: _Call) -> None:
        assert call.segment is not None
        call.segment.done.append(call)
        self._advance()

    def _advance(self) -> None:
        while True:
            first = self._segments[0]
            done, first.done = first.done, []
            for call in done:
                del first.calls[call]
                self.size -= 1
                self._emit(call)
            if first.calls or first.signal is None:
                return
            self._segments.popleft()
            first.signal()

    @override
    def calls(self) -> Iterator[_Call]:
        return (call for segment in self._segments for call in segment.calls)


class AsyncWaitOperator(FunctionOperator):
    """``async_invoke`` for every record, ``capacity`` at a time."""

    def __init__(
        self, spec: AsyncSpec, function: UserFunction, retry: AsyncRetryStrategy[Any] | None
    ) -> None:
        super().__init__(function)
        self._invoke = function.method("async_invoke")
        self._on_timeout = function.method("timeout")
        self._timeout = spec.timeout_ms / 1000 if spec.timeout_ms > 0 else None
        self._capacity = spec.capacity
        self._retry = retry
        make_queue = _OrderedQueue if spec.ordered else _UnorderedQueue
        self._queue: _Queue = make_queue(self._emit)
        self._done: deque[_Call] = deque()  # filled by the loop, which may be another thread
        self._told = False
        self._ready: list[Any] = []
        self._stamps: list[int | None] = []
        self._acquired = False

    # Life cycle ---------------------------------------------------------------------------------------

    @override
    def open(self, context: OperatorContext) -> None:
        """Open the function; make the calls again that were in flight when the state was saved."""
        super().open(context)
        self._pace = context.pace
        self._protects = context.protects
        self._wake = context.services.wake
        self._loop = context.services.call_loop()
        self._loop.acquire()
        self._acquired = True
        descriptor = ListStateDescriptor(_IN_FLIGHT, Types.PICKLED_BYTE_ARRAY())
        self._saved = context.operator_state.get_list_state(descriptor)
        restored = [_Call(value, timestamp) for value, timestamp in self._saved.get()]
        self._saved.clear()
        if restored:
            self._begin(restored)

    @override
    def process(self, values: list[Any], timestamps: Timestamps) -> None:
        self.cursor = cursor = self._pace.begin(values)
        stamps: Iterator[int | None] | None = None if timestamps is None else iter(timestamps)
        calls: list[_Call] = []
        for value in cursor:
            if self._queue.size + len(calls) >= self._capacity:
                self._begin(calls)
                calls = []
                self._wait(lambda: self._queue.size < self._capacity)
            calls.append(_Call(value, None if stamps is None else next(stamps)))
            if len(calls) >= _AT_ONCE:
                self._begin(calls)
                calls = []
        self._begin(calls)
        self.left = self._pace.end()
        self._loop.poll()
        self._collect()

    @override
    def on_watermark(self, timestamp: int) -> None:
        """It leaves behind the results of all records before it."""
        self.current_watermark = timestamp
        self._queue.add_signal(lambda: self._signal(lambda: self.output.watermark(timestamp)))
        self._flush()

    @override
    def on_status(self, active: bool) -> None:
        self._queue.add_signal(lambda: self._signal(lambda: self.output.status(active)))
        self._flush()

    @override
    def finish(self) -> None:
        """All calls are waited for."""
        self._wait(lambda: self._queue.size == 0)

    @override
    def snapshot(self, order: CheckpointOrder) -> None:
        """The records whose results have not been emitted are part of the checkpoint."""
        super().snapshot(order)
        self._saved.update([(call.value, call.timestamp) for call in self._queue.calls()])

    @override
    def close(self) -> None:
        if self._acquired:
            self._acquired = False
            self._loop.release()
        super().close()

    # Results ------------------------------------------------------------------------------------------

    @override
    def next_deadline(self) -> float:
        """At once when there are results."""
        return 0.0 if self._done else self._loop.next_deadline() if self._queue.size else float("inf")

    @override
    def on_time(self, now: float) -> None:
        self._loop.poll()
        self._collect()

    def _collect(self) -> None:
        """Emit what can leave of the calls that have come to their end."""
        self._told = False  # before the look: whoever is done after it says so
        done = self._done
        while done:
            call = done.popleft()
            if call.error is not None:
                self.culprit = call.value
                raise call.error
            call.is_done = True
            self._queue.completed(call)
        self._flush()

    def _emit(self, call: _Call) -> None:
        self._ready += call.results
        self._stamps += [call.timestamp] * len(call.results)

    def _signal(self, send: Signal) -> None:
        self._flush()
        send()

    def _flush(self) -> None:
        if self._ready:
            values, stamps = self._ready, self._stamps
            self._ready, self._stamps = [], []
            timed = any(stamp is not None for stamp in stamps)
            self.output.emit(values, stamps if timed else None)

    def _wait(self, until: Callable[[], bool]) -> None:
        """Wait for calls to be done until it is so; what is emitted meanwhile leaves."""
        self._loop.poll()
        self._collect()
        while not until():
            self._pace.wait(self._has_results, self.next_deadline)
            self._collect()

    def _has_results(self) -> bool:
        if not self._done:
            self._loop.poll()
        return bool(self._done)

    # Calls: from here on in the loop -------------------------------------------------------------------

    def _begin(self, calls: list[_Call]) -> None:
        for call in calls:
            self._queue.add(call)
        if calls:
            self._loop.call(self._create_tasks, calls)

    def _create_tasks(self, calls: list[_Call]) -> None:
        loop = asyncio.get_running_loop()
        for call in calls:
            # What the function gets is its own: what is in the queue may have to be called for again.
            value = private(call.value) if self._protects else call.value
            task = loop.create_task(self._run(call, value))
            _TASKS.add(task)
            task.add_done_callback(_TASKS.discard)

    async def _run(self, call: _Call, value: Any) -> None:
        try:
            results = await self._results(value)
            call.results = [private(result) for result in results] if self._protects else list(results)
        except asyncio.CancelledError:
            if not self._acquired:
                raise  # by the loop, which ends
            call.error = RuntimeError("the asynchronous call was cancelled, and not by its time-out")
        except (
            RAISED_BY_USERS
        ) as error:  # raised again in the task's own thread; here nobody would hear of it
            call.error = error
        self._done.append(call)
        if not self._told:
            self._told = True
            self._wake()

    async def _results(self, value: Any) -> list[Any]:
        """The results of a call and of the attempts after it; the time-out is for all of them together."""
        limit = asyncio.timeout(self._timeout)
        try:
            async with limit:
                return await self._attempts(value)
        except TimeoutError:
            if not limit.expired():
                raise
        return self._checked(self._on_timeout(value))

    async def _attempts(self, value: Any) -> list[Any]:
        if self._retry is None:
            return self._checked(await self._invoke(value))
        predicate = self._retry.get_retry_predicate()
        wants_other, forgives = predicate.result_predicate(), predicate.exception_predicate()
        attempt = 1
        while True:
            may_retry = self._retry.can_retry(attempt)
            try:
                results = self._checked(await self._invoke(value))
                if not may_retry or wants_other is None or not wants_other(results):
                    return results
            except Exception as error:
                if not may_retry or forgives is None or not forgives(error):
                    raise
            await asyncio.sleep(self._retry.get_backoff_time_millis(attempt) / 1000)
            attempt += 1

    def _checked(self, results: Any) -> list[Any]:
        if isinstance(results, list):
            return results
        remedy = "return [result] for one result and [] for none"
        if results is None:
            raise ProgramError(f"The result of AsyncFunction cannot be none; {remedy}")
        raise ProgramError(
            f"The result of AsyncFunction should be of list type, got {short_repr(results)} "
            f"({type(results).__name__}); {remedy}"
        )


#: The event loop itself keeps only weak references to its tasks.
_TASKS: set[asyncio.Task[None]] = set()
