"""The fluent steps of an interval join: ``a.interval_join(b).between(lower, upper).process(function)``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, overload

from firesteel.common._did_you_mean import SuggestsNames
from firesteel.common._type_variables import TypeVar
from firesteel.common.errors import ProgramError
from firesteel.common.time import AnyLength, millis_of
from firesteel.common.typeinfo import TypeInformation
from firesteel.contracts.joins import ProcessJoinFunction
from firesteel.contracts.output_tag import OutputTag
from firesteel.datastream._annotations import Annotation
from firesteel.datastream._connected_streams import ConnectedStreams
from firesteel.datastream._user_functions import ship_function
from firesteel.plan.operator_specs import IntervalJoinSpec

if TYPE_CHECKING:
    from firesteel.datastream._keyed_stream import KeyedStream
    from firesteel.datastream._stream import DataStream

__all__ = ["IntervalJoin", "IntervalJoined"]

T1 = TypeVar("T1", covariant=True, default=Any)
T2 = TypeVar("T2", covariant=True, default=Any)
OUT = TypeVar("OUT", default=Any)


class IntervalJoin(SuggestsNames, Generic[T1, T2]):
    """Two keyed streams whose records are to be paired by time."""

    def __init__(self, left: KeyedStream[T1, Any], right: KeyedStream[T2, Any]) -> None:
        self._left = left
        self._right = right

    def between(self, lower_bound: AnyLength, upper_bound: AnyLength) -> IntervalJoined[T1, T2]:
        """Pair a left record of time t with right records from ``t + lower`` to ``t + upper``, both included."""
        lower, upper = millis_of(lower_bound), millis_of(upper_bound)
        if lower > upper:
            raise ProgramError(f"between(): the lower bound {lower} ms lies above the upper bound {upper} ms")
        return IntervalJoined(self._left, self._right, lower, upper)


class IntervalJoined(SuggestsNames, Generic[T1, T2]):
    """Pairs within an interval, waiting for a function."""

    def __init__(
        self, left: KeyedStream[T1, Any], right: KeyedStream[T2, Any], lower: int, upper: int
    ) -> None:
        self._left = left
        self._right = right
        self._lower = lower
        self._upper = upper
        self._late: dict[str, OutputTag[Any]] = {}

    def lower_bound_exclusive(self) -> IntervalJoined[T1, T2]:
        """Leave out pairs that are exactly the lower bound apart."""
        self._lower += 1
        return self

    def upper_bound_exclusive(self) -> IntervalJoined[T1, T2]:
        """Leave out pairs that are exactly the upper bound apart."""
        self._upper -= 1
        return self

    def side_output_left_late_data(self, output_tag: OutputTag[T1]) -> IntervalJoined[T1, T2]:
        """Send left records that come too late to a side output instead of dropping them."""
        self._late["left"] = output_tag
        return self

    def side_output_right_late_data(self, output_tag: OutputTag[T2]) -> IntervalJoined[T1, T2]:
        """Send right records that come too late to a side output instead of dropping them."""
        self._late["right"] = output_tag
        return self

    @overload
    def process(self, process_join_function: ProcessJoinFunction[T1, T2, OUT]) -> DataStream[OUT]: ...

    @overload
    def process(
        self,
        process_join_function: ProcessJoinFunction[T1, T2, Any],
        output_type: TypeInformation[OUT] | None,
    ) -> DataStream[OUT]: ...

    def process(
        self,
        process_join_function: ProcessJoinFunction[T1, T2, Any],
        output_type: TypeInformation | None = None,
    ) -> DataStream[Any]:
        """What the function makes of every pair; results have the later time of the two."""
        function = ship_function(process_join_function, "process() of an interval join", ProcessJoinFunction)
        tags = {side: tag.tag_id for side, tag in self._late.items()}
        spec = IntervalJoinSpec(function, self._lower, self._upper, tags.get("left"), tags.get("right"))
        kept = {"left records": self._left._type, "right records": self._right._type}
        stream = ConnectedStreams(self._left, self._right)._add("Interval Join", spec, output_type, kept)
        return stream._annotated(Annotation.of_each_result(process_join_function, "process_element"))
