"""Runs a blocking `SourceFunction` beside the mailbox and turns what it collects into polled batches.

This is the only thread the runtime itself starts: ``run`` may block for as long as it likes, and the
task's single thread must not. The two meet in one deque, whose append and popleft are atomic, so a
collected record costs no lock.

A function that takes part in checkpoints collects and advances its position under the checkpoint lock. For
a checkpoint the task takes that lock, sends on everything that was collected so far, and only then asks for the
function's state: so state and records agree. While the task waits for the lock there is always room, because the
function may be waiting for room while it holds the lock.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Iterator
from typing import Any

from firesteel.common._override import override
from firesteel.common._values import ATOMIC, private
from firesteel.common.errors import describe_function
from firesteel.common.watermark_strategy import Watermark
from firesteel.contracts.source import Polled, SourceFunction, SourceReader, SourceReaderContext
from firesteel.runtime.checkpoint_lock import CheckpointLock

_FIRST_CAPACITY = 64  # records that may wait
# So many batches may wait. Not more: all of them are sent before a barrier, when the function takes part in checkpoints.
_POLLS_AHEAD = 8
_JOIN_SECONDS = 1.0
_ERROR_SECONDS = 0.1


class _SourceCancelled(BaseException):
    """Ends a ``run`` that continues to collect after the job is over; not an Exception, so nobody catches it."""


class _Stamped:
    """A record with a timestamp; plain records are kept bare."""

    __slots__ = ("timestamp", "value")

    def __init__(self, value: Any, timestamp: int) -> None:
        self.value = value
        self.timestamp = timestamp


class _Signal:
    """A watermark (or, with None, idleness) in its place among the records."""

    __slots__ = ("watermark",)

    def __init__(self, watermark: int | None) -> None:
        self.watermark = watermark


class _CollectingContext(SourceFunction.SourceContext):
    """What ``run`` sees."""

    def __init__(self, wake: Any) -> None:
        self.items: deque[Any] = deque()
        self.room = threading.Event()
        self.capacity = _FIRST_CAPACITY  # follows what the task takes at once
        self.lock = CheckpointLock()
        self.unlimited = False  # nobody waits for room while the task waits for the lock
        self.consumer_waits = False
        self.running = True
        self.cancelled = False
        self._wake = wake

    @override
    def collect(self, value: Any) -> None:
        self.put(value if type(value) in ATOMIC else private(value))

    @override
    def collect_with_timestamp(self, value: Any, timestamp: int) -> None:
        self.put(_Stamped(private(value), timestamp))

    @override
    def emit_watermark(self, watermark: int | Watermark) -> None:
        self.put(_Signal(watermark.timestamp if isinstance(watermark, Watermark) else watermark))

    @override
    def mark_as_temporarily_idle(self) -> None:
        self.put(_Signal(None))

    @override
    def is_running(self) -> bool:
        return self.running

    @override
    def get_checkpoint_lock(self) -> CheckpointLock:
        return self.lock

    def put(self, item: Any) -> None:
        if self.cancelled:
            raise _SourceCancelled
        self.items.append(item)
        if self.consumer_waits:
            self.consumer_waits = False
            self._wake()
        if len(self.items) >= self.capacity:
            self._wait_for_room()

    def _wait_for_room(self) -> None:
        # Cleared before the second look: a poll between the two sets it again, so no wake-up is lost.
        self.room.clear()
        if len(self.items) >= self.capacity and not self.cancelled and not self.unlimited:
            self.room.wait()
        if self.cancelled:
            raise _SourceCancelled


class SourceFunctionReader(SourceReader):
    """Polls a `SourceFunction` that runs in a thread of its own."""

    gives_away = True  # what is collected was made a value at once

    def __init__(self, function: SourceFunction, context: SourceReaderContext) -> None:
        self._function = function
        self._wake = context.wake
        self._collected = _CollectingContext(context.wake)
        self._error: BaseException | None = None
        self._over = False
        self._holds_lock = False
        self._thread = threading.Thread(target=self._run, name="source-function", daemon=True)

    @override
    def open(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        try:
            self._function.run(self._collected)
        except _SourceCancelled:
            pass
        except BaseException as error:  # noqa: BLE001 - raised again by poll, in the task's thread
            self._error = error
        finally:
            self._over = True
            self._wake()

    @override
    def poll(self, limit: int) -> Polled:
        """What has been collected since, up to the next signal."""
        self._collected.capacity = _POLLS_AHEAD * limit
        over = self._over  # before taking: what was collected before the end must not be missed
        polled = self._take(limit)
        if polled.values or polled.watermark is not None or polled.idle:
            return polled
        if over and not self._collected.items:
            if self._error is not None:
                raise self._error
            return Polled([], ended=True)
        self._collected.consumer_waits = True
        # Something may have been collected before the flag was up: then ask again at once.
        return Polled([], retry_at=0.0 if self._collected.items or self._over else math.inf)

    def _take(self, limit: int) -> Polled:
        items = self._collected.items
        taken: list[Any] = []
        signal: _Signal | None = None
        while items and len(taken) < limit:
            item = items.popleft()
            if type(item) is _Signal:
                signal = item
                break
            taken.append(item)
        self._collected.room.set()
        values, timestamps = _unstamp(taken)
        if signal is None:
            return Polled(values, timestamps)
        return Polled(values, timestamps, watermark=signal.watermark, idle=signal.watermark is None)

    # Checkpoints --------------------------------------------------------------------------------------

    def hold(self) -> None:
        """Keep the function from collecting under the lock until `release`; raises what ended it meanwhile."""
        if self._holds_lock:
            return
        context = self._collected
        context.unlimited = True
        context.room.set()
        context.lock.acquire_for_checkpoint(describe_function(self._function))
        context.unlimited = False
        self._holds_lock = True
        if context.lock.left_by_error:
            self._thread.join(_ERROR_SECONDS)  # it may be on its way out with a position it did not reach
        if self._error is not None:
            self.release()
            raise self._error

    def drain(self) -> Iterator[Polled]:
        """All that has been collected by now."""
        rest = len(self._collected.items)
        while rest > 0:
            polled = self._take(rest)
            yield polled
            rest -= len(polled.values) + (polled.watermark is not None or polled.idle)

    def release(self) -> None:
        """Let the function continue."""
        if self._holds_lock:
            self._holds_lock = False
            self._collected.lock.release_after_checkpoint()

    @override
    def stop(self) -> None:
        """Ask ``run`` to return; what it collects until then still counts."""
        self._collected.running = False
        self._function.cancel()

    @override
    def close(self) -> None:
        """Make ``run`` return, by force when it continues to collect."""
        self._collected.running = False
        self._collected.cancelled = True
        self._collected.room.set()
        self.release()
        if not self._over:
            self._function.cancel()
            self._thread.join(_JOIN_SECONDS)


def _unstamp(items: list[Any]) -> tuple[list[Any], list[int | None] | None]:
    if not any(type(item) is _Stamped for item in items):
        return items, None
    values = [item.value if type(item) is _Stamped else item for item in items]
    timestamps = [item.timestamp if type(item) is _Stamped else None for item in items]
    return values, timestamps
