"""Drive all subtasks of one operator by hand through checkpoints, failures and changes of parallelism.

>>> from firesteel.datastream.connectors import NumberSequenceSource
>>> before = CheckpointHarness(NumberSequenceSource(1, 4))
>>> before[0].poll(3)
[1, 2, 3]
>>> snapshot = before.checkpoint(1)
>>> after = CheckpointHarness(NumberSequenceSource(1, 4), parallelism=2, restore=snapshot)
>>> [subtask.drain() for subtask in after]
[[], [4]]
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from firesteel.common.errors import WrongArgumentError, short_repr
from firesteel.contracts.functions import Function
from firesteel.contracts.sink import Sink
from firesteel.contracts.source import Source
from firesteel.plan.job_plan import JobPlan, OperatorPlan, VertexPlan
from firesteel.plan.operator_specs import OperatorSpec, RuntimeMode
from firesteel.plan.state_handles import CheckpointKind, CheckpointOrder
from firesteel.runtime.operator import OperatorContext
from firesteel.runtime.operators.source import SourceOperator
from firesteel.runtime.settings import TaskSettings
from firesteel.runtime.vertex import VertexSubtask
from firesteel.testing._operator_harness import RecordingOutput, RecordingServices, advance
from firesteel.testing._operator_specs import spec_of_connector, spec_of_function
from firesteel.testing.manual_clock import ManualClock

__all__ = ["CheckpointHarness", "OperatorCheckpoint", "SubtaskHarness"]


@dataclass(frozen=True, slots=True)
class OperatorCheckpoint:
    """What the subtasks of an operator put into their list states, as bytes."""

    checkpoint_id: int
    subtasks: tuple[tuple[bytes, ...], ...]


class SubtaskHarness:
    """One subtask, opened, with a recording output; errors are explained as in a job."""

    def __init__(
        self,
        vertex: VertexSubtask,
        services: RecordingServices,
        mode: RuntimeMode,
        restored: int | None,
        checkpointing: bool,
    ) -> None:
        self.services = services
        self.output = RecordingOutput()
        self.link = vertex.head
        self.operator = vertex.head.operator
        self.states = vertex.chain[0].operator_state
        self.link.open(
            OperatorContext(
                self.output,
                vertex.chain[0].context,
                services,
                mode,
                operator_state=self.states,
                restored_checkpoint_id=restored,
                checkpointing=checkpointing,
            )
        )

    @property
    def source(self) -> SourceOperator:
        """The operator, when it is a source."""
        assert isinstance(self.operator, SourceOperator)
        return self.operator

    def process(self, values: list[Any], timestamps: list[int | None] | None = None) -> None:
        """A batch of the input."""
        self.link.receive(values, timestamps)

    def poll(self, limit: int = 1024) -> list[Any]:
        """Poll a source once; what it gave now."""
        before = len(self.output.values)
        self.source.poll(limit)
        return self.output.values[before:]

    def drain(self, limit: int = 1024) -> list[Any]:
        """Poll a source until it ends; what it gave."""
        while not self.source.ended:
            self.source.poll(limit)
        return self.output.values

    def advance(self, seconds: float) -> None:
        """The machine's time advances: what is due happens at its own time, earliest first."""
        advance(self.link, self.services.clock, seconds)

    def finish(self) -> None:
        """The input has ended."""
        self.operator.finish()

    def snapshot(self, order: CheckpointOrder) -> tuple[bytes, ...]:
        """The subtask's part in a checkpoint."""
        self.link.prepare_barrier(order)
        self.link.snapshot(order)
        return tuple(self.states.snapshot())


class CheckpointHarness:
    """All subtasks of one source, sink or function; ``restore`` is a checkpoint of another harness, of any parallelism.

    Of an operator that is no function of a user there is its ``OperatorSpec``.
    """

    def __init__(
        self,
        driven: Source | Sink | Function | OperatorSpec,
        parallelism: int = 1,
        *,
        restore: OperatorCheckpoint | None = None,
        checkpointing: bool = True,
        mode: RuntimeMode = RuntimeMode.STREAMING,
        clock: ManualClock | None = None,
        attempt: int = 0,
    ) -> None:
        self._mode = mode
        operator = OperatorPlan("op", "Operator", _spec_of(driven))
        plan = VertexPlan(0, "Operator", 0, 0, parallelism, 128, (operator,))
        self.plan = job = JobPlan("harness", mode, (), (plan,), ())
        #: Set when a thread of any subtask has something new.
        self.woken = threading.Event()
        self._subtasks = []
        for subtask in range(parallelism):
            services = RecordingServices(clock)
            services.attempt = attempt
            services.woken = self.woken
            vertex = VertexSubtask(job, plan, subtask, {}, services, TaskSettings.of(job))
            if restore is not None:
                vertex.chain[0].operator_state.restore(restore.subtasks, subtask, parallelism)
            restored = None if restore is None else restore.checkpoint_id
            self._subtasks.append(SubtaskHarness(vertex, services, mode, restored, checkpointing))

    def __getitem__(self, subtask: int) -> SubtaskHarness:
        return self._subtasks[subtask]

    def __iter__(self) -> Iterator[SubtaskHarness]:
        return iter(self._subtasks)

    def checkpoint(
        self, checkpoint_id: int, kind: CheckpointKind = CheckpointKind.CHECKPOINT
    ) -> OperatorCheckpoint:
        """Let every subtask take its part in a checkpoint, which is not complete by that."""
        order = CheckpointOrder(checkpoint_id, checkpoint_id * 1000, kind)
        return OperatorCheckpoint(checkpoint_id, tuple(subtask.snapshot(order) for subtask in self))

    def complete(self, checkpoint_id: int) -> None:
        """Tell every subtask that a checkpoint is complete."""
        for subtask in self:
            subtask.link.notify_complete(checkpoint_id)

    def abort(self, checkpoint_id: int) -> None:
        """Tell every subtask that a checkpoint was aborted."""
        for subtask in self:
            subtask.link.notify_aborted(checkpoint_id)

    def finish(self) -> None:
        """The input of all subtasks has ended."""
        for subtask in self:
            subtask.finish()

    def close(self) -> None:
        """Close the operators of all subtasks, as at the end of their tasks."""
        for subtask in self:
            subtask.link.close()


def _spec_of(driven: Any) -> OperatorSpec:
    if isinstance(driven, OperatorSpec):
        return driven
    place = "CheckpointHarness"
    spec = spec_of_connector(driven, place) or spec_of_function(driven, place)
    if spec is None:
        raise WrongArgumentError(
            f"CheckpointHarness drives a Source, a Sink or a function, got {short_repr(driven)} ({type(driven).__name__})"
        )
    return spec
