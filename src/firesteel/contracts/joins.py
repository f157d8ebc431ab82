"""What users write to join two streams: pairs, groups of both sides, pairs within an interval of time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Generic

from firesteel.common._type_variables import TypeVar
from firesteel.contracts.functions import Emitted, Function
from firesteel.contracts.output_tag import OutputTag

__all__ = ["CoGroupFunction", "FlatJoinFunction", "JoinFunction", "ProcessJoinFunction"]

IN1 = TypeVar("IN1", contravariant=True, default=Any)
IN2 = TypeVar("IN2", contravariant=True, default=Any)
OUT = TypeVar("OUT", covariant=True, default=Any)
SIDE = TypeVar("SIDE", default=Any)
#: One record of each side, as it stands in a list.
ONE = TypeVar("ONE", default=Any)
TWO = TypeVar("TWO", default=Any)


class JoinFunction(Function, Generic[IN1, IN2, OUT]):
    """Makes one result of a pair."""

    @abstractmethod
    def join(self, first: IN1, second: IN2, /) -> OUT:
        """The result for one pair."""


class FlatJoinFunction(Function, Generic[IN1, IN2, OUT]):
    """Makes any number of results of a pair."""

    @abstractmethod
    def join(self, first: IN1, second: IN2, /) -> Iterable[OUT] | None:
        """The results for one pair, returned or yielded."""


class CoGroupFunction(Function, Generic[ONE, TWO, OUT]):
    """Sees all records of both sides at once, so it can join outer as well as inner."""

    @abstractmethod
    def co_group(self, first: list[ONE], second: list[TWO], /) -> Iterable[OUT] | None:
        """The results for one key and window; one of the sides may be empty."""


class ProcessJoinFunction(Function, Generic[IN1, IN2, OUT]):
    """Makes any number of results of a pair of records whose times are close enough."""

    class Context(ABC):
        """What it may ask about the pair."""

        @abstractmethod
        def get_left_timestamp(self) -> int:
            """Event time of the left record."""

        @abstractmethod
        def get_right_timestamp(self) -> int:
            """Event time of the right record."""

        @abstractmethod
        def timestamp(self) -> int:
            """The later of the two, which is the time of the results."""

        @abstractmethod
        def output(self, output_tag: OutputTag[SIDE], value: SIDE) -> None:
            """Send a record to a side output."""

    @abstractmethod
    def process_element(self, left: IN1, right: IN2, ctx: ProcessJoinFunction.Context, /) -> Emitted[OUT]:
        """The results for one pair."""
