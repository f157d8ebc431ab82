"""Session windows with their default trigger: the fast way to do what `window.WindowOperator` does.

Each key has a list of sessions in order of time. Most have one; a stream that runs ahead of its watermarks leaves many,
and a record that comes in order belongs to the last one or begins the next. A record that continues a session changes
its end and its contents, and nothing else: the session's timer stays where it is and moves on when it comes up too
early.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from itertools import repeat
from operator import attrgetter
from typing import Any, cast

from firesteel.common.time import MAX_TIMESTAMP, MIN_TIMESTAMP, to_millis
from firesteel.contracts.session_windows import gap_of
from firesteel.contracts.window_assigners import checked_timestamp
from firesteel.contracts.windows import TimeWindow
from firesteel.plan.operator_specs import RuntimeMode
from firesteel.runtime.operator import OperatorContext, Timestamps
from firesteel.runtime.operators.announced import announced_keys
from firesteel.runtime.operators.detached import detached
from firesteel.runtime.operators.window_base import WindowingOperator
from firesteel.runtime.operators.window_contents import MISSING
from firesteel.runtime.operators.window_conversion import SESSIONS, from_general
from firesteel.runtime.operators.window_output import LateRecords, WindowContext, WindowResults, WindowStates
from firesteel.runtime.operators.window_parts import WindowParts
from firesteel.state.hashmap_backend import HashMapBackend
from firesteel.state.timer_queue import TimerQueue

_START, _END = attrgetter("start"), attrgetter("end")


class Session:
    """One session of one key; ``has_fired`` until a record moves its end beyond the clock again."""

    __slots__ = ("end", "has_fired", "is_over", "kept", "key", "start")

    def __init__(self, key: Any, start: int, end: int, kept: Any) -> None:
        self.key = key
        self.start = start
        self.end = end
        self.kept = kept
        self.has_fired = False
        self.is_over = False


class SessionStore:
    """The sessions of all keys and when to look at them; in snapshots a session is a tuple, and has no timer."""

    def __init__(self, state: HashMapBackend) -> None:
        self.by_key: dict[Any, list[Session]] = state.table(SESSIONS)
        self.timers = TimerQueue()
        state.encode_with(SESSIONS, _encoded)

    def rebuild(self) -> None:
        """Make sessions and timers of what was restored."""
        restored: list[tuple[Any, Any]] = list(self.by_key.items())
        self.by_key.clear()
        for key, encoded in restored:
            for start, end, kept, has_fired in encoded:
                session = Session(key, start, end, kept)
                session.has_fired = has_fired
                self.open(session, end - 1)

    def open(self, session: Session, time: int) -> None:
        """Take a session in, to be looked at when its time comes."""
        sessions = self.by_key.setdefault(session.key, [])
        if sessions and sessions[-1].start > session.start:
            insort(sessions, session, key=_START)
        else:
            sessions.append(session)
        self.timers.add(time, session)

    def touched(self, key: Any, start: int, end: int) -> list[Session]:
        """The sessions of a key that overlap or touch a stretch of time, in order."""
        sessions = self.by_key.get(key)
        if sessions is None or sessions[-1].end < start:
            return []
        first = past = bisect_left(sessions, start, key=_END)
        while past < len(sessions) and sessions[past].start <= end:
            past += 1
        return sessions[first:past]

    def remove(self, session: Session) -> None:
        """The session is over, or part of another one."""
        session.is_over = True
        sessions = self.by_key[session.key]
        sessions.remove(session)
        if not sessions:
            del self.by_key[session.key]


def _encoded(sessions: list[Session]) -> list[tuple[int, int, Any, bool]]:
    return [(s.start, s.end, s.kept, s.has_fired) for s in sessions]


class SessionWindowOperator(WindowingOperator):
    """Sessions with a static or dynamic gap, by event time or processing time."""

    def __init__(self, parts: WindowParts) -> None:
        super().__init__(parts)
        self._state = parts.state
        self._is_event_time = parts.assigner.is_event_time()
        self._lateness = parts.allowed_lateness
        self._gap_of = gap_of(parts.assigner)
        self._store = SessionStore(self._state)
        self._clock = MIN_TIMESTAMP

    def open(self, context: OperatorContext) -> None:
        """Open the user's functions, make the contexts, take in what was restored."""
        self._open_functions(context)
        parts = self._parts
        self._store.rebuild()
        for key, window, kept, has_fired in from_general(self._state, self._is_event_time):
            session = Session(key, window.start, window.end, kept)
            session.has_fired = has_fired
            self._store.open(session, session.end - 1)
        self.output = context.output
        self._now = context.services.now
        states = WindowStates(self._state)
        window_context = WindowContext(self, context, states, is_merging=True)
        self._results = WindowResults(
            context.output, parts.function, parts.contents.is_single, window_context, states, self._state
        )
        self._late = LateRecords(context, parts.late_tag)
        self._fires_all_at_end = context.mode is RuntimeMode.BATCH

    # Records ------------------------------------------------------------------------------------------

    def process(self, values: list[Any], timestamps: Timestamps) -> None:
        """Put every record into a session."""
        if self._state.tracks:
            announced_keys(self, values, self._parts.key_of, self._state)
        self.cursor = cursor = iter(values)
        try:
            self._add_batch(self._stamps(timestamps), cursor)
        except TypeError:
            if timestamps is not None and self._is_event_time and None in timestamps:
                checked_timestamp(None)
            raise
        self._results.flush()
        self._late.flush()

    def _stamps(self, timestamps: Timestamps) -> Iterable[int]:
        if not self._is_event_time:
            return repeat(max(to_millis(self._now()), self._clock + 1))
        if timestamps is None:
            return repeat(checked_timestamp(None))
        return cast("list[int]", timestamps)

    def _add_batch(self, timestamps: Iterable[int], values: Iterator[Any]) -> None:
        key_of, gap_of, add = self._parts.key_of, self._gap_of, self._parts.contents.add
        get = self._store.by_key.get
        for timestamp, value in zip(timestamps, values, strict=False):
            key = key_of(value)
            end = timestamp + gap_of(value)
            sessions = get(key)
            if sessions is not None:
                session = sessions[-1]  # all others end before it begins
                if session.start <= timestamp <= session.end and not session.has_fired:
                    session.kept = add(session.kept, value)
                    if end > session.end:
                        session.end = end
                    continue
            self._add(key, value, timestamp, end)

    def _add(self, key: Any, value: Any, start: int, end: int) -> None:
        """Any record: it may begin a session, continue one, unite several, or be late."""
        touched = self._store.touched(key, start, end)
        if not touched:
            self._begin(key, value, start, end)
            return
        session = self._united(touched)
        session.start = min(session.start, start)
        session.end = max(session.end, end)
        session.kept = self._parts.contents.add(session.kept, value)
        if session.end - 1 <= self._clock:
            self._fire(session, is_last=False)
        elif session.has_fired:
            self._store.timers.add(session.end - 1, session)
            session.has_fired = False

    def _begin(self, key: Any, value: Any, start: int, end: int) -> None:
        last = end - 1
        if last + self._lateness <= self._clock:
            self._late.add(value, start)
            return
        session = Session(key, start, end, self._parts.contents.add(MISSING, value))
        if last > self._clock:
            self._store.open(session, last)
        else:
            self._store.open(session, last + self._lateness)
            self._fire(session, is_last=False)

    def _united(self, touched: list[Session]) -> Session:
        session = touched[0]
        for other in touched[1:]:
            self._store.remove(other)
            session.start = min(session.start, other.start)
            session.end = max(session.end, other.end)
            session.kept = self._parts.contents.merge(session.kept, other.kept)
        return session

    # Firing -------------------------------------------------------------------------------------------

    def _fire(self, session: Session, is_last: bool) -> None:
        contents = self._parts.contents
        result = contents.result(session.kept)
        if contents.is_single and not is_last:
            result = detached(result)
        session.has_fired = True
        self._state.current_key = session.key
        self._results.fire(session.key, TimeWindow(session.start, session.end), result)

    def _look_at(self, session: Session, time: int) -> None:
        """A session's time has come, unless it was put off meanwhile."""
        if session.is_over:
            return
        if self._state.tracks:
            self._state.touch((session.key,))
        last = session.end - 1
        due = last + self._lateness if session.has_fired else last
        if due > time:
            self._store.timers.add(due, session)
            return
        if not session.has_fired:
            self._fire(session, is_last=self._lateness == 0)
            if self._lateness:
                self._store.timers.add(last + self._lateness, session)
                return
        self._store.remove(session)
        if self._results.needs_clear:
            self._state.current_key = session.key
            self._results.clear(session.key, TimeWindow(session.start, session.end))

    # Time ---------------------------------------------------------------------------------------------

    def on_watermark(self, timestamp: int) -> None:
        """Let sessions fire and go, then pass the watermark on."""
        self.current_watermark = timestamp
        if self._is_event_time:
            self._advance(timestamp)
        self.output.watermark(timestamp)

    def next_deadline(self) -> float:
        """The end of the next processing-time session, unless records put it off."""
        time = MAX_TIMESTAMP if self._is_event_time else self._store.timers.next_time()
        return math.inf if time == MAX_TIMESTAMP else (time + 1) / 1000

    def on_time(self, now: float) -> None:
        """Let sessions fire and go."""
        self._advance(to_millis(now) - 1)

    def finish(self) -> None:
        """In BATCH all sessions fire at the end; in STREAMING those of processing time die with the job."""
        if self._fires_all_at_end and not self._is_event_time:
            self._advance(MAX_TIMESTAMP)

    def _advance(self, clock: int) -> None:
        self._clock = clock
        for time, session in self._store.timers.due(clock):
            self._look_at(session, time)
        self._results.flush()
