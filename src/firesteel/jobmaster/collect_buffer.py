"""Results on their way from collecting sinks to the iterator of ``execute_and_collect``.

A `CollectBuffer` outlives the attempts of its job: it knows how many results of each subtask the program was shown,
and what waits to be shown. How results come is told by `plan.results`, when they are shown by `Delivery`.

With checkpoints, results that no completed checkpoint covers yet wait in a *pile*, because after a failure they would
be made again, and need not be the same then. A pile has no bound, or the sink would wait for the checkpoint and the
checkpoint for the sink; when it is large it is in a file. What is shown and not consumed is bounded: then the sinks wait,
and the job with them.

The way to the consumer is made of two `SimpleQueue`s, one of results and one of tokens for what was consumed, because
Ctrl-C cannot leave those in a wrong state (see `interruptible_event`): the consumer usually is the main thread.
"""

from __future__ import annotations

import enum
import logging
import os
import pickle
import queue
import tempfile
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from queue import SimpleQueue
from typing import Any

from firesteel.common.configuration import Configuration
from firesteel.common.errors import DataLossError, JobExecutionError
from firesteel.common.options import CHECKPOINTING_MODE, TMP_DIRS
from firesteel.plan.job_plan import JobPlan
from firesteel.plan.operator_specs import RuntimeMode
from firesteel.plan.results import Covered, Results

_LOG = logging.getLogger(__name__)

#: Blobs that may wait for the consumer; then the tasks wait.
CAPACITY = 32
#: Bytes of a pile that are kept in memory.
IN_MEMORY = 16 << 20
#: Attempts whose results are kept: a checkpoint that was aborted may become complete after its attempt.
RECENT = 3


class Delivery(enum.Enum):
    """When results are shown, and what happens to those that come again."""

    #: At once. A restart would repeat those that were consumed, so it is refused then.
    AT_ONCE = "at once"
    #: At once; a restart repeats them.
    AT_LEAST_ONCE = "at least once"
    #: When a completed checkpoint holds them; then none is ever repeated.
    WITH_CHECKPOINTS = "with checkpoints"
    #: When their subtask has ended; in BATCH, where Spark may run it several times.
    AT_THE_END = "at the end"

    @classmethod
    def of(cls, plan: JobPlan, takes_checkpoints: bool) -> Delivery:
        """The way that suits a job; as in Flink, it follows from how it takes checkpoints."""
        if plan.mode is RuntimeMode.BATCH:
            return cls.AT_THE_END
        if not takes_checkpoints:
            return cls.AT_ONCE
        mode = Configuration.from_dict(dict(plan.options)).get(CHECKPOINTING_MODE)
        return cls.WITH_CHECKPOINTS if mode == "EXACTLY_ONCE" else cls.AT_LEAST_ONCE


class RepeatedResultsError(JobExecutionError):
    """A job would give results again that its program has consumed."""


@dataclass(frozen=True, slots=True)
class _Piece:
    """Results of a subtask from an offset on; the first ``skip`` were shown before."""

    subtask: int
    start: int
    count: int
    load: Callable[[], bytes]
    skip: int = 0

    @property
    def end(self) -> int:
        return self.start + self.count

    def results(self) -> list[Any]:
        results: list[Any] = pickle.loads(self.load())
        return results[self.skip :] if self.skip else results


class _Pile:
    """Pieces that wait to be shown: in memory while they are few, in a file when they are many.

    The file has no name, and goes with the last piece in it.
    """

    def __init__(self, in_memory: int, directory: str | None) -> None:
        self._in_memory = in_memory
        self._directory = directory
        self._pieces: deque[tuple[_Piece, int]] = deque()  # with the memory that it needs
        self._bytes = 0
        self._file: _NamelessFile | None = None

    def add(self, subtask: int, start: int, results: Results) -> None:
        fits = self._bytes + len(results.blob) <= self._in_memory
        load = _given(results.blob) if fits else self._store(results.blob)
        memory = len(results.blob) if fits else 0
        self._bytes += memory
        self._pieces.append((_Piece(subtask, start, results.count, load), memory))

    def pop(self, before: int | None = None) -> list[_Piece]:
        """Remove and return all pieces, or those that end before an offset."""
        popped = []
        while self._pieces and (before is None or self._pieces[0][0].end <= before):
            piece, memory = self._pieces.popleft()
            self._bytes -= memory
            popped.append(piece)
        self._file = None  # what follows goes into another, so that none lives for ever
        return popped

    def _store(self, blob: bytes) -> Callable[[], bytes]:
        try:
            if self._file is None:
                self._file = _NamelessFile(self._directory)
            file = self._file
            at = file.append(blob)
        except OSError as error:
            where = self._directory or tempfile.gettempdir()
            raise JobExecutionError(
                f"results that wait to be shown cannot be written to a temporary file in {where}: {error}; make room, "
                f"set '{TMP_DIRS.key}' to another directory, or take checkpoints more often"
            ) from error
        length = len(blob)
        return lambda: file.read(at, length)


def _given(blob: bytes) -> Callable[[], bytes]:
    return lambda: blob


class _NamelessFile:
    """A temporary file that goes with the last reference to it, or with the process."""

    def __init__(self, directory: str | None) -> None:
        with tempfile.TemporaryFile(prefix="firesteel-", dir=directory) as file:
            self._descriptor = os.dup(file.fileno())
        weakref.finalize(self, os.close, self._descriptor)
        self._size = 0

    def append(self, blob: bytes) -> int:
        """Write at the end; returns where that was."""
        at, rest = self._size, memoryview(blob)
        while rest:
            written = os.pwrite(self._descriptor, rest, self._size)
            self._size += written
            rest = rest[written:]
        return at

    def read(self, at: int, length: int) -> bytes:
        """What was written there; from any thread."""
        chunks = []
        while length:
            chunk = os.pread(self._descriptor, length, at)
            if not chunk:
                raise JobExecutionError("a temporary file with results of execute_and_collect was cut off")
            chunks.append(chunk)
            at, length = at + len(chunk), length - len(chunk)
        return b"".join(chunks)


@dataclass(slots=True)
class _Subtask:
    """Results of one subtask over all attempts: those before ``shown`` were shown."""

    shown: int
    session: CollectSession | None = None
    ended: bool = False
    #: The newest sessions, by attempt: a checkpoint may become complete when others have run since it was taken.
    recent: dict[int, CollectSession] = field(default_factory=dict)


class CollectSession:
    """What one running subtask sends. `receive` may wait; a session that has been replaced changes nothing."""

    def __init__(self, buffer: CollectBuffer, subtask: int, start: int, pile: _Pile) -> None:
        self._buffer = buffer
        self.subtask = subtask
        self.pile = pile
        #: Everything before this offset is here.
        self.received = start

    def receive(self, message: Results | Covered) -> None:
        """What the subtask says next; waits while the consumer reads nothing."""
        match message:
            case Results():
                self._buffer._receive(self, message)
            case Covered(offset):
                self._buffer._covered(self, offset)

    def end(self) -> None:
        """The subtask has sent everything."""
        self._buffer._end_of(self)


class CollectBuffer:
    """The results of one collecting sink; ends when the job ends."""

    def __init__(
        self,
        delivery: Delivery = Delivery.AT_ONCE,
        capacity: int = CAPACITY,
        in_memory: int = IN_MEMORY,
        directory: str | None = None,
    ) -> None:
        self._delivery = delivery
        self._capacity = capacity
        self._in_memory = in_memory
        self._directory = directory
        self._shown: SimpleQueue[_Piece | None] = SimpleQueue()  # None: the end
        self._consumed: SimpleQueue[int] = (
            SimpleQueue()
        )  # a 1 for each piece that was consumed; a 0 only wakes
        self._shown_pieces = 0
        self._consumed_pieces = 0
        self._lock = threading.Lock()
        self._waiting = threading.Lock()  # held by the one producer that waits for room
        self._subtasks: dict[int, _Subtask] = {}
        self._bounded = True
        self._discarding = False
        self._error: BaseException | None = None

    # Producers ----------------------------------------------------------------------------------------

    def open(self, subtask: int, start: int, attempt: int = 0, origin: int = 0) -> CollectSession:
        """A subtask begins to send in an attempt, with the result at offset ``start``; replaces what sent before.

        Results before ``start`` are those that attempt ``origin`` has sent.
        """
        session = CollectSession(self, subtask, start, _Pile(self._in_memory, self._directory))
        with self._lock:
            known = self._subtasks.setdefault(subtask, _Subtask(start))
            if known.ended or self._delivery is Delivery.AT_THE_END:
                return session  # replaces nothing: it is known who was first when one of them has ended
            if known.session is not None and not self._discarding:
                self._rewind(known, subtask, start, origin)
            known.session = known.recent[attempt] = session
            for old in sorted(known.recent)[:-RECENT]:
                del known.recent[old]
        return session

    def _rewind(self, known: _Subtask, subtask: int, start: int, origin: int) -> None:
        if self._delivery is Delivery.AT_LEAST_ONCE:
            known.shown = start
        elif self._delivery is Delivery.AT_ONCE and known.shown > start:
            self._retract(known, subtask, start)
        if origin in known.recent:
            # What was confirmed to the sink is not in the checkpoint that the job resumes from: it is here, and covered.
            for piece in known.recent[origin].pile.pop(start):
                self._show(known, piece)
        if known.shown < start:
            raise DataLossError(
                f"results {known.shown} to {start} of a collecting sink have never arrived in the driver"
            )

    def _retract(self, known: _Subtask, subtask: int, start: int) -> None:
        """Results from ``start`` on will come again: none of them may have been consumed."""
        left: list[_Piece | None] = []
        while True:
            try:
                left.append(self._shown.get_nowait())
            except queue.Empty:
                break
        for piece in left:
            if piece is not None and piece.subtask == subtask and piece.start >= start:
                known.shown = min(known.shown, piece.start)
                self._consumed.put(1)
            else:
                self._shown.put(piece)
        if known.shown > start:
            count = known.shown - start
            raise RepeatedResultsError(
                f"the job starts again from its beginning, and {count} results that the program has read from "
                "execute_and_collect() would come again; with checkpoints it would resume from the newest one: "
                "env.enable_checkpointing(milliseconds)"
            )

    def _receive(self, session: CollectSession, results: Results) -> None:
        if self._delivery is not Delivery.AT_THE_END:
            self._await_room()
        with self._lock:
            known = self._subtasks[session.subtask]
            start = session.received
            session.received += results.count
            if self._discarding or known.ended or not self._is_current(session, known):
                return
            if self._delivery in (Delivery.AT_ONCE, Delivery.AT_LEAST_ONCE):
                self._show(known, _Piece(session.subtask, start, results.count, _given(results.blob)))
            else:
                session.pile.add(session.subtask, start, results)

    def _covered(self, session: CollectSession, offset: int) -> None:
        with self._lock:
            known = self._subtasks[session.subtask]
            if self._delivery is not Delivery.WITH_CHECKPOINTS or not self._is_current(session, known):
                return
            for piece in session.pile.pop(offset):
                self._show(known, piece)
            if offset < known.shown:
                _LOG.warning(
                    "the job went back behind a checkpoint whose results were shown; of those that come again from "
                    "execute_and_collect() the first %d are left out",
                    known.shown - offset,
                )

    def _end_of(self, session: CollectSession) -> None:
        with self._lock:
            known = self._subtasks.get(session.subtask)
            if known is None or known.ended or not self._is_current(session, known):
                return
            for piece in session.pile.pop():
                self._show(known, piece)
            known.ended = True

    def _is_current(self, session: CollectSession, known: _Subtask) -> bool:
        return self._delivery is Delivery.AT_THE_END or known.session is session

    def _show(self, known: _Subtask, piece: _Piece) -> None:
        skip = max(0, known.shown - piece.start)
        if self._discarding or skip >= piece.count:
            return
        known.shown = piece.end
        self._shown_pieces += 1
        self._shown.put(replace(piece, skip=skip) if skip else piece)

    def _await_room(self) -> None:
        with self._waiting:
            while self._bounded and self._shown_pieces - self._consumed_pieces >= self._capacity:
                self._consumed_pieces += self._consumed.get()

    # The job ------------------------------------------------------------------------------------------

    def lift_bound(self) -> None:
        """The producers are about to end: what they still hold is little, accept it."""
        self._bounded = False
        self._consumed.put(0)

    def bound_again(self) -> None:
        """New producers are about to begin."""
        self._bounded = True

    def restart(self) -> None:
        """All subtasks have ended in order, and others, perhaps more or fewer, take their place with numbers of their own."""
        with self._lock:
            for known in self._subtasks.values():
                if known.session is not None and not known.ended:
                    for piece in known.session.pile.pop():
                        self._show(known, piece)
            self._subtasks = {}

    def end(self, error: BaseException | None) -> None:
        """Nothing more will come; after what is here the consumer gets ``error``, if there is one."""
        self._error = error
        self.lift_bound()
        self._shown.put(None)

    # The consumer -------------------------------------------------------------------------------------

    def discard(self) -> None:
        """Nobody will read any more: drop what comes."""
        self._discarding = True
        self.lift_bound()

    def records(self) -> Iterator[Any]:
        """The results as they are shown; ends with the job, raises what the job failed with."""
        while (piece := self._shown.get()) is not None:
            self._consumed.put(1)
            yield from piece.results()
        self._shown.put(None)  # for whoever asks again
        if self._error is not None:
            raise self._error.with_traceback(None)


class CollectBuffers:
    """The buffers of all collecting sinks of a job; may be used from any thread."""

    def __init__(self, plan: JobPlan, takes_checkpoints: bool) -> None:
        self._delivery = Delivery.of(plan, takes_checkpoints)
        configured = Configuration.from_dict(dict(plan.options)).get(TMP_DIRS) or ""
        self._directory = configured.split(",")[0].strip() or None
        self._buffers: dict[str, CollectBuffer] = {}
        self._lock = threading.Lock()
        self._ended = False
        self._error: BaseException | None = None

    def get(self, collect_id: str) -> CollectBuffer:
        """The buffer of one sink; made when it is asked for."""
        with self._lock:
            if collect_id not in self._buffers:
                self._buffers[collect_id] = CollectBuffer(self._delivery, directory=self._directory)
                if self._ended:
                    self._buffers[collect_id].end(self._error)
            return self._buffers[collect_id]

    def for_all(self, action: Callable[[CollectBuffer], None]) -> None:
        """Do something with each of them."""
        with self._lock:
            buffers = list(self._buffers.values())
        for buffer in buffers:
            action(buffer)

    def end(self, error: BaseException | None) -> None:
        """Nothing more will come for any of them."""
        with self._lock:
            self._ended = True
            self._error = error
        self.for_all(lambda buffer: buffer.end(error))
