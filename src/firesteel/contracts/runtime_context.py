"""What a function learns about its place in the job, and where it gets its state from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from firesteel.common._type_variables import TypeVar
from firesteel.common.accumulators import Accumulator

if TYPE_CHECKING:
    from firesteel.common.job_id import JobID
    from firesteel.contracts.state import (
        AggregatingState,
        AggregatingStateDescriptor,
        ListState,
        ListStateDescriptor,
        MapState,
        MapStateDescriptor,
        ReducingState,
        ReducingStateDescriptor,
        ValueState,
        ValueStateDescriptor,
    )

__all__ = ["KeyedStateStore", "RuntimeContext"]

T = TypeVar("T", default=Any)
K = TypeVar("K", default=Any)
V = TypeVar("V", default=Any)


class KeyedStateStore(ABC):
    """Hands out state that belongs to the key of the record at hand."""

    @abstractmethod
    def get_state(self, state_descriptor: ValueStateDescriptor[T]) -> ValueState[T]:
        """One value per key."""

    @abstractmethod
    def get_list_state(self, state_descriptor: ListStateDescriptor[T]) -> ListState[T]:
        """A list per key."""

    @abstractmethod
    def get_map_state(self, state_descriptor: MapStateDescriptor[K, V]) -> MapState[K, V]:
        """A map per key."""

    @abstractmethod
    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor[T]) -> ReducingState[T]:
        """A value per key into which added values are reduced."""

    @abstractmethod
    def get_aggregating_state(
        self, state_descriptor: AggregatingStateDescriptor[K, V]
    ) -> AggregatingState[K, V]:
        """An accumulator per key into which added values are aggregated."""


class RuntimeContext(KeyedStateStore):
    """What `Function.open` receives; state is there only inside keyed operators."""

    @abstractmethod
    def get_task_name(self) -> str:
        """The operator's name: what ``name()`` gave it, or its default."""

    @abstractmethod
    def get_number_of_parallel_subtasks(self) -> int:
        """How many subtasks the operator has."""

    @abstractmethod
    def get_max_number_of_parallel_subtasks(self) -> int:
        """How many subtasks the operator could have: the number of key groups."""

    @abstractmethod
    def get_index_of_this_subtask(self) -> int:
        """Index of this subtask, from 0."""

    @abstractmethod
    def get_attempt_number(self) -> int:
        """How often the job was restarted before this attempt."""

    @abstractmethod
    def get_task_name_with_subtasks(self) -> str:
        """Name with position, as in ``Map (1/4)#0``."""

    @abstractmethod
    def get_job_parameter(self, key: str, default_value: str) -> str:
        """A global job parameter; ``default_value`` when the job does not have it."""

    @abstractmethod
    def get_metrics_group(self) -> Any:
        """The group under which this operator registers its own metrics."""

    # Not in PyFlink; named as in Flink's Java API.

    @abstractmethod
    def get_job_id(self) -> JobID:
        """The id of the job, the same in all its attempts."""

    @abstractmethod
    def add_accumulator(self, name: str, accumulator: Accumulator[Any, Any]) -> None:
        """Register an accumulator under a name that is unique within this function."""

    @abstractmethod
    def get_accumulator(self, name: str) -> Accumulator[Any, Any]:
        """The accumulator registered under ``name``."""

    @abstractmethod
    def get_cached_file(self, name: str) -> str:
        """Local path of a file registered with ``env.register_cached_file``."""
