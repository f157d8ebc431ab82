"""The reader of sources whose client needs a thread: hands out what the thread has read, and knows the positions.

A checkpoint has the positions behind what polls have given, whatever the thread has read ahead.
"""

from __future__ import annotations

import logging
import math
import threading
from abc import abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from firesteel.common._override import override
from firesteel.common._values import private_batch
from firesteel.connectors.backoff import Backoff, insist, retries_exhausted
from firesteel.connectors.hand_over import CAPACITY, Fetched, HandOver
from firesteel.connectors.message_source import MessageSource, times_of
from firesteel.contracts.source import Boundedness, Polled, SourceReader, SourceReaderContext, T

#: How long closing waits for a thread that does not end.
CLOSE_SECONDS = 10.0

_LOG = logging.getLogger(__name__)


class SplitPosition(NamedTuple):
    """A split and where it is to be read from: what checkpoints have."""

    split: Hashable
    position: Any


class HandedSource(MessageSource[T]):
    """What sources with a blocking and with an asyncio client have in common.

    ``retry_on`` are the errors of a connection after which reading is begun again at the last position, as often as
    ``backoff`` says; a batch that comes begins the count again. Any other error fails the task.
    Records are what they were when the client gave them. ``gives_away``: as in `SourceReader`. ``capacity``: how many
    records wait for the task at the most, and a batch more;
    fewer for large records.
    """

    retry_on: tuple[type[Exception], ...] = (ConnectionError, TimeoutError)
    backoff: Backoff = Backoff()
    gives_away: bool = False
    capacity: int = CAPACITY

    def describe(self) -> str:
        """What it does, for errors: "reading ..." and from where."""
        return f"reading with {type(self).__name__}"

    def splits(self) -> Mapping[Hashable, Any] | None:
        """What there is to read, each with the position to begin at; None when nothing can be read again.

        They are dealt out to the subtasks. Asked for once per subtask at a first start: a job that continues has the
        positions of its checkpoint.
        """
        return None

    @property
    @override
    def boundedness(self) -> Boundedness:
        """Unbounded unless a source says otherwise."""
        return Boundedness.CONTINUOUS_UNBOUNDED

    @property
    @override
    def max_subtasks(self) -> int | None:
        return 1 if type(self).splits is HandedSource.splits else None

    @override
    def splits_of(self, subtask: int, parallelism: int) -> Sequence[Any] | None:
        """Every subtask has every so-manieth."""
        if type(self).splits is HandedSource.splits:
            return None
        splits = insist(self.splits, self.retry_on, self.backoff, self.describe()) or {}
        return [SplitPosition(*each) for each in list(splits.items())[subtask::parallelism]]


@dataclass(slots=True)
class Reading:
    """One run of the thread: where it begins, and where it puts what it reads."""

    hand_over: HandOver
    positions: dict[Hashable, Any]
    tried: int = 0

    def put_done(self, fetched: Fetched) -> None:
        """Remember the position, from which reading is begun again after an error of the connection."""
        self.tried = 0
        if fetched.ended:
            self.positions.pop(fetched.split, None)
        elif fetched.values and fetched.split in self.positions and fetched.positions is not None:
            self.positions[fetched.split] = fetched.positions[-1]

    def failed(self, error: BaseException, source: HandedSource[Any]) -> float | None:
        """How long to wait before reading is begun again; None when the task has been told the error."""
        retried = isinstance(error, source.retry_on)
        pause = source.backoff.pause(self.tried) if retried else None
        if pause is None:
            self.hand_over.fail(_with_cause(error, source, self.tried + 1) if retried else error)
        else:
            _LOG.warning(
                "%s: again in %.1f s, after %s: %s", source.describe(), pause, type(error).__name__, error
            )
        self.tried += 1
        return pause


def _with_cause(error: BaseException, source: HandedSource[Any], tries: int) -> BaseException:
    told = retries_exhausted(source.describe(), error, tries)
    told.__cause__ = error
    return told


class HandedReader(SourceReader):
    """Hands out what a thread reads; subclasses say what the thread does."""

    def __init__(self, source: HandedSource[Any], context: SourceReaderContext) -> None:
        self._client_gives_away = source.gives_away
        # Messages that are the records have been made values already.
        self.gives_away = source.gives_away or type(source).decode_batch is MessageSource.decode_batch
        self._decode_batch = source.decode_batch
        self._wake = context.wake
        self._capacity = source.capacity
        self._positions: dict[Hashable, Any] = {}
        self._added: list[Hashable] = []
        self._has_splits = False
        self._no_more = False
        self._stopped = False
        self._reading: Reading | None = None
        self._thread: threading.Thread | None = None
        self._current: Fetched | None = None
        self._given = 0

    @abstractmethod
    def _run(self, reading: Reading) -> None:
        """Read until all has been read or the hand-over is closed; errors go into the hand-over."""

    def _as_values(self, fetched: Fetched) -> Fetched:
        """What the client may use again while it waits for the task."""
        if self._client_gives_away:
            return fetched
        return replace(fetched, values=private_batch(list(fetched.values)))

    def _interrupt(self) -> None:
        """The hand-over was closed: end the thread's waiting, if possible."""

    @override
    def add_splits(self, splits: Sequence[SplitPosition]) -> None:
        """Reading begins again with all splits, if it had begun; what the thread has read ahead is read again."""
        self._end_thread()
        self._has_splits = True
        self._positions.update(splits)
        self._added += [split.split for split in splits]

    @override
    def notify_no_more_splits(self) -> None:
        self._has_splits = self._no_more = True

    @override
    def poll(self, limit: int) -> Polled:
        if self._stopped:
            return Polled([], ended=True)
        if self._current is None:
            self._current = self._next()
        if self._current is not None:
            return self._give(self._current, limit)
        ended = self._reading is None or self._reading.hand_over.ended
        if ended:
            self._positions.clear()
        ended = ended and (self._no_more or not self._has_splits)
        return Polled([], retry_at=math.inf, ended=ended, splits_added=self._new_splits())

    def _next(self) -> Fetched | None:
        if self._reading is None:
            if self._has_splits and not self._positions:
                return None
            self._begin_thread()
        assert self._reading is not None
        taken: Fetched | None = self._reading.hand_over.take()
        return taken

    def _give(self, fetched: Fetched, limit: int) -> Polled:
        first, last = self._given, min(self._given + limit, len(fetched.values))
        over = last == len(fetched.values)
        self._current, self._given = (None, 0) if over else (fetched, last)
        if fetched.positions is not None and last > first and fetched.split in self._positions:
            self._positions[fetched.split] = fetched.positions[last - 1]
        ended = over and fetched.ended
        if ended:
            self._positions.pop(fetched.split, None)
        decoded = self._decode_batch(fetched.values[first:last])
        times = None if fetched.timestamps is None else fetched.timestamps[first:last]
        return Polled(
            decoded.values,
            times_of(decoded, times),
            split=fetched.split,
            splits_added=self._new_splits(),
            splits_ended=(fetched.split,) if ended else (),
            bad=decoded.bad,
            ignored=decoded.ignored,
        )

    def _new_splits(self) -> tuple[Hashable, ...]:
        added, self._added = tuple(self._added), []
        return added

    @override
    def snapshot_state(self, checkpoint_id: int) -> list[SplitPosition]:
        """The positions behind what polls have given."""
        return [SplitPosition(*each) for each in self._positions.items()]

    @override
    def stop(self) -> None:
        self._stopped = True

    @override
    def close(self) -> None:
        self._end_thread()

    def _begin_thread(self) -> None:
        self._reading = Reading(HandOver(self._wake, self._capacity), dict(self._positions))
        self._thread = threading.Thread(
            target=self._run, args=(self._reading,), name="firesteel-source", daemon=True
        )
        self._thread.start()

    def _end_thread(self) -> None:
        if self._reading is None or self._thread is None:
            return
        self._reading.hand_over.close()
        self._interrupt()
        self._thread.join(CLOSE_SECONDS)
        if self._thread.is_alive():
            _LOG.warning("the thread of a source still waits for its client after %g s", CLOSE_SECONDS)
        self._reading = self._thread = self._current = None
        self._given = 0
