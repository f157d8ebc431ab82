"""Interval join: pairs of records of one key whose times are at most so far apart.

A left record of time t meets the right records from ``t + lower`` to ``t + upper``; seen from the right that
is from ``t - upper`` to ``t - lower``. Each side keeps its records, sorted by time, until the watermark says
that no partner can come any more.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator
from typing import Any

from firesteel.common.errors import ProgramError
from firesteel.contracts.joins import ProcessJoinFunction
from firesteel.contracts.output_tag import OutputTag
from firesteel.plan.operator_specs import IntervalJoinSpec
from firesteel.runtime.operator import Timestamps
from firesteel.runtime.operators.announced import announced_keys
from firesteel.runtime.operators.function_operator import FunctionOperator
from firesteel.runtime.operators.side_outputs import Aside, emit_sorted
from firesteel.runtime.user_function import UserFunction
from firesteel.state.hashmap_backend import HashMapBackend

LEFT, RIGHT = 0, 1
KeyOf = Callable[[Any], Any]

#: Names of the tables with the records of each side; no state of a user can be called so.
TABLES = ("\0left", "\0right")

_NO_TIME = (
    "an interval join compares event times, and there is a record without one: call "
    "assign_timestamps_and_watermarks() on both streams first"
)


def _time_of(entry: tuple[int, Any]) -> int:
    return entry[0]


class _PairContext(ProcessJoinFunction.Context):
    """The ``ctx`` argument; one object per operator, updated per pair."""

    def __init__(self) -> None:
        self.times = [0, 0]
        self.results: list[Any] = []
        self.asides: list[Aside] = []

    def get_left_timestamp(self) -> int:
        return self.times[LEFT]

    def get_right_timestamp(self) -> int:
        return self.times[RIGHT]

    def timestamp(self) -> int:
        return max(self.times)

    def output(self, output_tag: OutputTag, value: Any) -> None:
        self.asides.append(Aside(len(self.results), output_tag.tag_id, value, self.timestamp()))


class IntervalJoinOperator(FunctionOperator):
    """Input 0 is the left stream, input 1 the right one; both are keyed."""

    def __init__(
        self,
        spec: IntervalJoinSpec,
        function: UserFunction,
        keys: tuple[KeyOf | None, ...],
        state: HashMapBackend,
    ) -> None:
        super().__init__(function)
        self._call = function.method("process_element")
        self._keys = keys
        self._state = state
        self._records = [state.table(name) for name in TABLES]
        # How far the partners of a record lie from its time, and how long it has to be kept.
        self._reach = ((spec.lower, spec.upper), (-spec.upper, -spec.lower))
        self._keep = tuple(max(0, upper) for _, upper in self._reach)
        self._late_tags = (spec.left_late_tag, spec.right_late_tag)
        # Timers belong to a key and, as if it were a namespace, to a side.
        self._cleanup = state.timer_queue("\0interval-join", namespaced=True)
        self._context = _PairContext()

    def process(self, values: list[Any], timestamps: Timestamps) -> None:
        """A batch of the left stream."""
        self._process(LEFT, values, timestamps)

    def process_second(self, values: list[Any], timestamps: Timestamps) -> None:
        """A batch of the right stream."""
        self._process(RIGHT, values, timestamps)

    def on_watermark(self, timestamp: int) -> None:
        """Forget the records that no partner can reach any more, then pass the watermark on."""
        self.current_watermark = timestamp
        for time, (key, side) in self._cleanup.due(timestamp):
            if self._state.tracks:
                self._state.touch((key,))
            self._forget(side, key, time - self._keep[side])
        self.output.watermark(timestamp)

    def _process(self, side: int, values: list[Any], timestamps: Timestamps) -> None:
        if timestamps is None:
            raise ProgramError(_NO_TIME)
        context, key_of = self._context, self._keys[side]
        assert key_of is not None
        if self._state.tracks:
            announced_keys(self, values, key_of, self._state)
        self.cursor = cursor = iter(values)
        context.results, context.asides = [], []
        stamps: list[int | None] = []
        for time, value in zip(timestamps, cursor, strict=False):
            if time is None:
                raise ProgramError(_NO_TIME)
            if time < self.current_watermark:
                self._divert(side, value, time)
            else:
                key = self._state.current_key = key_of(value)
                self._join(side, key, value, time, stamps)
                self._remember(side, key, value, time)
        emit_sorted(self.output, context.results, stamps, context.asides)

    def _join(self, side: int, key: Any, value: Any, time: int, stamps: list[int | None]) -> None:
        context, results = self._context, self._context.results
        for partner_time, partner in self._partners(side, key, time):
            pair, times = ((value, partner), [time, partner_time])
            if side == RIGHT:
                pair, times = (partner, value), [partner_time, time]
            context.times = times
            found = self._call(*pair, context)
            if found is not None:
                results.extend(found)
                stamps += [max(times)] * (len(results) - len(stamps))

    def _partners(self, side: int, key: Any, time: int) -> Iterator[tuple[int, Any]]:
        others = self._records[1 - side].get(key, ())
        lower, upper = self._reach[side]
        first = bisect_left(others, time + lower, key=_time_of)
        end = bisect_right(others, time + upper, key=_time_of)
        return iter(others[first:end])

    def _remember(self, side: int, key: Any, value: Any, time: int) -> None:
        records = self._records[side].setdefault(key, [])
        insort(records, (time, value), key=_time_of)
        self._cleanup.add(time + self._keep[side], (key, side))

    def _forget(self, side: int, key: Any, until: int) -> None:
        records = self._records[side].get(key)
        if records is None:
            return
        del records[: bisect_right(records, until, key=_time_of)]
        if not records:
            del self._records[side][key]

    def _divert(self, side: int, value: Any, time: int) -> None:
        tag = self._late_tags[side]
        if tag is not None:
            self._context.asides.append(Aside(len(self._context.results), tag, value, time))
