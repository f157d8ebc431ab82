"""The fluent steps of an interval join: ``a.interval_join(b).between(lower, upper).process(function)``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firesteel.common.errors import ProgramError
from firesteel.common.time import AnyLength, millis_of
from firesteel.common.typeinfo import TypeInformation
from firesteel.contracts.joins import ProcessJoinFunction
from firesteel.contracts.output_tag import OutputTag
from firesteel.datastream.connected_streams import ConnectedStreams
from firesteel.datastream.user_functions import ship_function
from firesteel.plan.operator_specs import IntervalJoinSpec

if TYPE_CHECKING:
    from firesteel.datastream.keyed_stream import KeyedStream
    from firesteel.datastream.stream import DataStream

__all__ = ["IntervalJoin", "IntervalJoined"]


class IntervalJoin:
    """Two keyed streams whose records are to be paired by time."""

    def __init__(self, left: KeyedStream, right: KeyedStream) -> None:
        self._left = left
        self._right = right

    def between(self, lower_bound: AnyLength, upper_bound: AnyLength) -> IntervalJoined:
        """Pair a left record of time t with right records from ``t + lower`` to ``t + upper``, both included."""
        lower, upper = millis_of(lower_bound), millis_of(upper_bound)
        if lower > upper:
            raise ProgramError(f"between(): the lower bound {lower} ms lies above the upper bound {upper} ms")
        return IntervalJoined(self._left, self._right, lower, upper)


class IntervalJoined:
    """Pairs within an interval, waiting for a function."""

    def __init__(self, left: KeyedStream, right: KeyedStream, lower: int, upper: int) -> None:
        self._left = left
        self._right = right
        self._lower = lower
        self._upper = upper
        self._late: dict[str, OutputTag] = {}

    def lower_bound_exclusive(self) -> IntervalJoined:
        """Leave out pairs that are exactly the lower bound apart."""
        self._lower += 1
        return self

    def upper_bound_exclusive(self) -> IntervalJoined:
        """Leave out pairs that are exactly the upper bound apart."""
        self._upper -= 1
        return self

    def side_output_left_late_data(self, output_tag: OutputTag) -> IntervalJoined:
        """Send left records that come too late to a side output instead of dropping them."""
        self._late["left"] = output_tag
        return self

    def side_output_right_late_data(self, output_tag: OutputTag) -> IntervalJoined:
        """Send right records that come too late to a side output instead of dropping them."""
        self._late["right"] = output_tag
        return self

    def process(
        self, process_join_function: ProcessJoinFunction, output_type: TypeInformation | None = None
    ) -> DataStream:
        """What the function makes of every pair; results have the later time of the two."""
        function = ship_function(process_join_function, "process() of an interval join", ProcessJoinFunction)
        tags = {side: tag.tag_id for side, tag in self._late.items()}
        spec = IntervalJoinSpec(function, self._lower, self._upper, tags.get("left"), tags.get("right"))
        kept = {"left records": self._left._type, "right records": self._right._type}
        return ConnectedStreams(self._left, self._right)._add("Interval Join", spec, output_type, kept)
