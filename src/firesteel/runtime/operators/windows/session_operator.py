"""Session windows with their default trigger: the fast way to do what `general_operator` does.

Each key has a list of sessions in order of time. Most have one; a stream that runs ahead of its watermarks leaves many,
and a record that comes in order belongs to the last one or begins the next. A record that continues a session changes
its end and its contents, and nothing else: the session's timer stays where it is and moves on when it comes up too
early.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Any

from firesteel.common._override import override
from firesteel.common._values import MISSING, private
from firesteel.contracts.session_windows import gap_of
from firesteel.contracts.windows import TimeWindow
from firesteel.runtime.operator import OperatorContext
from firesteel.runtime.operators.windows.base import DefaultTriggerOperator, WindowDefinition
from firesteel.runtime.operators.windows.careless import keeps_records
from firesteel.runtime.operators.windows.restore import SESSIONS, from_general
from firesteel.state.keyed_backend import KeyedBackend
from firesteel.state.timer_queue import TimerQueue

_START, _END = attrgetter("start"), attrgetter("end")


class Session:
    """One session of one key; ``has_fired`` until a record moves its end beyond the clock again."""

    __slots__ = ("contents", "end", "has_fired", "is_over", "key", "start")

    def __init__(self, key: Any, start: int, end: int, contents: Any) -> None:
        self.key = key
        self.start = start
        self.end = end
        self.contents = contents
        self.has_fired = False
        self.is_over = False


class SessionStore:
    """The sessions of all keys and when to look at them; in snapshots a session is a tuple, and has no timer."""

    def __init__(self, state: KeyedBackend) -> None:
        self.by_key: dict[Any, list[Session]] = state.table(SESSIONS)
        self.timers = TimerQueue()
        state.encode_with(SESSIONS, _encoded)

    def rebuild(self) -> None:
        """Make sessions and timers of what was restored."""
        restored: list[tuple[Any, Any]] = list(self.by_key.items())
        self.by_key.clear()
        for key, encoded in restored:
            for start, end, contents, has_fired in encoded:
                self.restore(key, start, end, contents, has_fired)

    def restore(self, key: Any, start: int, end: int, contents: Any, has_fired: bool) -> None:
        """Restore a session, which may have fired; it is looked at when its end has passed."""
        session = Session(key, start, end, contents)
        session.has_fired = has_fired
        self.open(session, end - 1)

    def open(self, session: Session, time: int) -> None:
        """Add a session, to be looked at when its time comes."""
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
    return [(s.start, s.end, s.contents, s.has_fired) for s in sessions]


class SessionWindowOperator(DefaultTriggerOperator):
    """Sessions with a static or dynamic gap, by event time or processing time."""

    def __init__(self, definition: WindowDefinition) -> None:
        super().__init__(definition)
        self._lateness = definition.allowed_lateness
        self._gap_of = gap_of(definition.assigner)
        self._store = SessionStore(self._state)

    @override
    def _open_windows(self, context: OperatorContext) -> None:
        self._assigner_keeps = context.protects and keeps_records(self._definition.assigner)
        self._store.rebuild()
        for key, window, contents, has_fired in from_general(self._state, self._is_event_time):
            self._store.restore(key, window.start, window.end, contents, has_fired)

    # Records ------------------------------------------------------------------------------------------

    @override
    def _add_batch(self, timestamps: Iterable[int], values: Iterator[Any], keys: Iterable[Any]) -> None:
        gap_of, add, keeps = self._gap_of, self._definition.contents.add, self._assigner_keeps
        get = self._store.by_key.get
        for timestamp, value, key in zip(timestamps, values, keys, strict=False):
            end = timestamp + gap_of(value)
            if keeps:
                value = private(value)  # as it is now: what the extractor does later nobody sees
            sessions = get(key)
            if sessions is not None:
                session = sessions[-1]  # all others end before it begins
                if session.start <= timestamp <= session.end and not session.has_fired:
                    session.contents = add(session.contents, value)
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
        session = self._merge_sessions(touched)
        session.start = min(session.start, start)
        session.end = max(session.end, end)
        session.contents = self._definition.contents.add(session.contents, value)
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
        session = Session(key, start, end, self._definition.contents.add(MISSING, value))
        if last > self._clock:
            self._store.open(session, last)
        else:
            self._store.open(session, last + self._lateness)
            self._fire(session, is_last=False)

    def _merge_sessions(self, touched: list[Session]) -> Session:
        session = touched[0]
        for other in touched[1:]:
            self._store.remove(other)
            session.start = min(session.start, other.start)
            session.end = max(session.end, other.end)
            session.contents = self._definition.contents.merge(session.contents, other.contents)
        return session

    # Firing -------------------------------------------------------------------------------------------

    def _fire(self, session: Session, is_last: bool) -> None:
        session.has_fired = True
        self._state.turn_to_announced(session.key)  # with the batch of its record, or by the timer
        result = self._definition.contents.result(session.contents)
        window = TimeWindow(session.start, session.end)
        self._results.fire(session.key, window, result, is_kept=not is_last)

    def _on_timer(self, session: Session, time: int) -> None:
        """A session's time has come, unless it was put off meanwhile."""
        if session.is_over:
            return
        self._state.turn_to(session.key)
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
        if self._results.needs_clear:  # sessions have no state of their own
            self._results.clear(session.key, TimeWindow(session.start, session.end))

    # Time ---------------------------------------------------------------------------------------------

    @override
    def _next_time(self) -> int | None:
        """The end of the next session, unless records put it off."""
        return None if self._is_event_time else self._store.timers.next_time()

    @override
    def _fire_until(self, clock: int) -> None:
        for time, session in self._store.timers.due(clock):
            self._on_timer(session, time)
