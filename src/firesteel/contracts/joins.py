"""What users write to join two streams: pairs, groups of both sides, pairs within an interval of time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from firesteel.contracts.functions import Function
from firesteel.contracts.output_tag import OutputTag

__all__ = ["CoGroupFunction", "FlatJoinFunction", "JoinFunction", "ProcessJoinFunction"]


class JoinFunction(Function):
    """Makes one result of a pair."""

    @abstractmethod
    def join(self, first: Any, second: Any) -> Any:
        """The result for one pair."""


class FlatJoinFunction(Function):
    """Makes any number of results of a pair."""

    @abstractmethod
    def join(self, first: Any, second: Any) -> Iterable[Any] | None:
        """The results for one pair, returned or yielded."""


class CoGroupFunction(Function):
    """Sees all records of both sides at once, so it can join outer as well as inner."""

    @abstractmethod
    def co_group(self, first: list[Any], second: list[Any]) -> Iterable[Any] | None:
        """The results for one key and window; one of the sides may be empty."""


class ProcessJoinFunction(Function):
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
        def output(self, output_tag: OutputTag, value: Any) -> None:
            """Send a record to a side output."""

    @abstractmethod
    def process_element(
        self, left: Any, right: Any, ctx: ProcessJoinFunction.Context
    ) -> Iterable[Any] | None:
        """The results for one pair."""
