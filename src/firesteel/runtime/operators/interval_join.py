"""Interval join: pairs of records of one key whose times are close to each other.

A left record of time t meets the right records from ``t + lower`` to ``t + upper``; seen from the right that
is from ``t - upper`` to ``t - lower``. Each side keeps its records, sorted by time, until the watermark says
that no partner can come any more.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from typing import Any

from firesteel.common._override import override
from firesteel.common.errors import ProgramError
from firesteel.common.time import MAX_TIMESTAMP
from firesteel.contracts.joins import ProcessJoinFunction
from firesteel.contracts.output_tag import OutputTag
from firesteel.plan.keys import KeyOf
from firesteel.plan.operator_specs import IntervalJoinSpec
from firesteel.runtime.operator import OperatorContext, Timestamps
from firesteel.runtime.operators.announced import announce_batch
from firesteel.runtime.operators.emission import Emission
from firesteel.runtime.operators.function_operator import FunctionOperator
from firesteel.runtime.operators.private_values import protection
from firesteel.runtime.user_function import UserFunction
from firesteel.state.keyed_backend import KeyedBackend

LEFT, RIGHT = 0, 1

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

    def __init__(self, emission: Emission) -> None:
        self._emission = emission
        self.times = [0, 0]

    @override
    def get_left_timestamp(self) -> int:
        return self.times[LEFT]

    @override
    def get_right_timestamp(self) -> int:
        return self.times[RIGHT]

    @override
    def timestamp(self) -> int:
        return max(self.times)

    @override
    def output(self, output_tag: OutputTag, value: Any) -> None:
        self._emission.add_aside(output_tag.tag_id, value)


class IntervalJoinOperator(FunctionOperator):
    """Input 0 is the left stream, input 1 the right one; both are keyed."""

    def __init__(
        self,
        spec: IntervalJoinSpec,
        function: UserFunction,
        keys: tuple[KeyOf | None, ...],
        state: KeyedBackend,
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

    @override
    def open(self, context: OperatorContext) -> None:
        self._private = protection(context.protects)
        self._pace = context.pace
        self._emission = Emission(context)
        self._emission.begin(timed=True)
        self._context = _PairContext(self._emission)
        super().open(context)

    @override
    def process(self, values: list[Any], timestamps: Timestamps) -> None:
        """A batch of the left stream."""
        self._process(LEFT, values, timestamps)

    @override
    def process_second(self, values: list[Any], timestamps: Timestamps) -> None:
        """A batch of the right stream."""
        self._process(RIGHT, values, timestamps)

    @override
    def awaits_event_time(self) -> bool:
        """Whether records are kept for partners that may come."""
        return self._cleanup.next_time() < MAX_TIMESTAMP

    @override
    def on_watermark(self, timestamp: int) -> None:
        """Forget the records that no partner can reach any more, then pass the watermark on."""
        self.current_watermark = timestamp
        for time, (key, side) in self._cleanup.due(timestamp):
            self._state.turn_to(key)
            self._forget(side, key, time - self._keep[side])
        self.output.watermark(timestamp)

    def _process(self, side: int, values: list[Any], timestamps: Timestamps) -> None:
        if timestamps is None:
            raise ProgramError(_NO_TIME)
        key_of = self._keys[side]
        assert key_of is not None
        announce_batch(self, values, key_of, self._state)
        self.cursor = cursor = self._pace.begin(values)
        self._emission.add_all(self._calls_of(side, key_of, cursor, timestamps))
        self.left = self._pace.end()
        self._emission.flush()

    def _calls_of(
        self, side: int, key_of: KeyOf, cursor: Iterator[Any], timestamps: list[int | None]
    ) -> Iterator[Any]:
        """What the function gives for each pair of the records that come."""
        for value, time in zip(cursor, timestamps, strict=False):
            if time is None:
                raise ProgramError(_NO_TIME)
            if time < self.current_watermark:
                self._divert(side, value, time)
            else:
                # Announced with its batch; a call would be one more for every record.
                key = self._state.current_key = key_of(value)
                # The function may change what it is given: records that stay here are others.
                self._remember(side, key, self._private(value), time)
                yield from self._pairs(side, key, value, time)

    def _pairs(self, side: int, key: Any, value: Any, time: int) -> Iterator[Any]:
        """What the function gives for each pair of one record."""
        context, private = self._context, self._private
        for partner_time, remembered in self._partners(side, key, time):
            partner = private(remembered)
            pair, times = ((value, partner), [time, partner_time])
            if side == RIGHT:
                pair, times = (partner, value), [partner_time, time]
            context.times = times
            self._emission.now_at = max(times)
            yield self._call(*pair, context)

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
            self._emission.now_at = time
            self._emission.add_aside(tag, value)
