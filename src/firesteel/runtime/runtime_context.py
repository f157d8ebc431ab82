"""What a rich function sees of its place in the job: name, subtask, parameters, state, metrics."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from firesteel.common._override import override
from firesteel.common.accumulators import Accumulator
from firesteel.common.errors import ProgramError, UnsupportedOperationError
from firesteel.common.job_id import JobID
from firesteel.contracts.runtime_context import RuntimeContext
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
from firesteel.metrics import MetricGroup
from firesteel.metrics._scopes import SystemScope
from firesteel.plan.job_plan import VertexPlan
from firesteel.runtime.services import TaskServices
from firesteel.state.keyed_backend import KeyedBackend


class TaskRuntimeContext(RuntimeContext):
    """The runtime context of one operator's subtask."""

    def __init__(
        self,
        name: str,
        vertex: VertexPlan,
        subtask: int,
        services: TaskServices,
        job_parameters: Mapping[str, str],
        state: KeyedBackend | None,
        scope: SystemScope | None = None,
    ) -> None:
        self._name = name
        self._vertex = vertex
        self._subtask = subtask
        self._services = services
        self._job_parameters = job_parameters
        self._state = state
        self.metrics = MetricGroup(name, system=scope)
        #: What the runtime measures; apart, so that no name of theirs is taken.
        self.system_metrics = MetricGroup(name, system=scope)
        self.accumulators: dict[str, Accumulator[Any, Any]] = {}

    @override
    def get_task_name(self) -> str:
        return self._name

    @override
    def get_number_of_parallel_subtasks(self) -> int:
        """How many subtasks the operator has."""
        return self._vertex.parallelism

    @override
    def get_max_number_of_parallel_subtasks(self) -> int:
        """The number of key groups."""
        return self._vertex.max_parallelism

    @override
    def get_index_of_this_subtask(self) -> int:
        """Index of this subtask, from 0."""
        return self._subtask

    @override
    def get_attempt_number(self) -> int:
        """How often the job was restarted before this attempt; attempts themselves count from 1."""
        return max(self._services.attempt - 1, 0)

    @override
    def get_task_name_with_subtasks(self) -> str:
        """Name with position, as in ``Map (1/4)#0``."""
        return f"{self._name} ({self._subtask + 1}/{self._vertex.parallelism})#{self.get_attempt_number()}"

    @override
    def get_job_parameter(self, key: str, default_value: str) -> str:
        return self._job_parameters.get(key, default_value)

    @override
    def get_metrics_group(self) -> MetricGroup:
        """The group under which this operator registers its own metrics."""
        return self.metrics

    @override
    def get_job_id(self) -> JobID:
        return JobID(self._services.job_id)

    @override
    def add_accumulator(self, name: str, accumulator: Accumulator[Any, Any]) -> None:
        """Register an accumulator under a name that is unique within this function."""
        if name in self.accumulators:
            raise ProgramError(f"the accumulator {name!r} is registered twice in {self._name!r}")
        self.accumulators[name] = accumulator

    @override
    def get_accumulator(self, name: str) -> Accumulator[Any, Any]:
        """The accumulator registered under ``name``."""
        if name not in self.accumulators:
            raise ProgramError(f"no accumulator {name!r} in {self._name!r}; call add_accumulator first")
        return self.accumulators[name]

    @override
    def get_cached_file(self, name: str) -> str:
        """Local path of a registered file."""
        return self._services.cached_file(name)

    @override
    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState[Any]:
        return self._keyed(state_descriptor.get_name()).get_state(state_descriptor)

    @override
    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        return self._keyed(state_descriptor.get_name()).get_list_state(state_descriptor)

    @override
    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        return self._keyed(state_descriptor.get_name()).get_map_state(state_descriptor)

    @override
    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState[Any]:
        """A value per key into which added values are reduced."""
        return self._keyed(state_descriptor.get_name()).get_reducing_state(state_descriptor)

    @override
    def get_aggregating_state(
        self, state_descriptor: AggregatingStateDescriptor
    ) -> AggregatingState[Any, Any]:
        """An accumulator per key into which added values are aggregated."""
        return self._keyed(state_descriptor.get_name()).get_aggregating_state(state_descriptor)

    def _keyed(self, name: str) -> KeyedBackend:
        if self._state is None:
            raise UnsupportedOperationError(
                f"{self._name!r} asks for keyed state {name!r}, but its input has no keys: call key_by() first, on both "
                "streams when two are connected; records that all keys shall see come from a stream with "
                "broadcast(descriptor), to a KeyedBroadcastProcessFunction"
            )
        return self._state


def without_state(runtime: RuntimeContext) -> RuntimeContext:
    """The same place in the job for functions that have no keyed state there, such as those that compute the keys."""
    if not isinstance(runtime, TaskRuntimeContext) or runtime._state is None:
        return runtime
    context = copy.copy(runtime)  # metrics and accumulators stay shared
    context._state = None
    return context
