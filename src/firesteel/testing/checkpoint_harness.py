"""Drive all subtasks of one operator by hand through checkpoints, failures and changes of parallelism.

>>> from firesteel.connectors.number_sequence import NumberSequenceSource
>>> from firesteel.plan.operator_specs import SourceSpec
>>> spec = SourceSpec(Shipped.of(NumberSequenceSource(1, 4), "source"), True)
>>> before = CheckpointHarness(spec)
>>> _ = before[0].source.poll(3)
>>> snapshot = before.checkpoint(1)
>>> after = CheckpointHarness(spec, parallelism=2, restore=snapshot)
>>> [subtask.drain() for subtask in after]
[[], [4]]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from firesteel.plan.job_plan import JobPlan, OperatorPlan, VertexPlan
from firesteel.plan.operator_specs import OperatorSpec, RuntimeMode
from firesteel.plan.shipped import Shipped  # noqa: F401 - for the example above
from firesteel.plan.state_handles import CheckpointKind, CheckpointOrder
from firesteel.runtime.operator import OperatorContext
from firesteel.runtime.operators.source import SourceOperator
from firesteel.runtime.vertex import VertexSubtask
from firesteel.testing.harness import RecordingOutput, RecordingServices
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
        self.states = vertex.operator_states[0]
        self.link.open(
            OperatorContext(
                self.output,
                vertex.contexts[0],
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

    def drain(self, limit: int = 1024) -> list[Any]:
        """Poll a source until it ends; what it gave."""
        while not self.source.ended:
            self.source.poll(limit)
        return self.output.values

    def advance(self, seconds: float) -> None:
        """The machine's time advances: what is due happens at its own time, earliest first."""
        end = self.services.now() + seconds
        while (due := self.operator.next_deadline()) <= end:
            self.services.clock.advance_to(due)
            self.link.on_time(self.services.now())
        self.services.clock.advance_to(end)

    def finish(self) -> None:
        """The input has ended."""
        self.operator.finish()

    def snapshot(self, order: CheckpointOrder) -> tuple[bytes, ...]:
        """The subtask's part in a checkpoint."""
        self.link.prepare_barrier(order)
        self.link.snapshot(order)
        return tuple(self.states.snapshot())


class CheckpointHarness:
    """All subtasks of one operator; ``restore`` is a checkpoint of another harness, of any parallelism."""

    def __init__(
        self,
        spec: OperatorSpec,
        parallelism: int = 1,
        *,
        restore: OperatorCheckpoint | None = None,
        checkpointing: bool = True,
        mode: RuntimeMode = RuntimeMode.STREAMING,
        clock: ManualClock | None = None,
        attempt: int = 0,
    ) -> None:
        self._mode = mode
        operator = OperatorPlan("op", "Operator", spec)
        plan = VertexPlan(0, "Operator", 0, 0, parallelism, 128, (operator,))
        job = JobPlan("harness", mode, (), (plan,), ())
        self._subtasks = []
        for subtask in range(parallelism):
            services = RecordingServices(clock)
            services.attempt = attempt
            vertex = VertexSubtask(job, plan, subtask, {}, services)
            if restore is not None:
                vertex.operator_states[0].restore(restore.subtasks, subtask, parallelism)
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
        """Tell every subtask that a checkpoint was given up."""
        for subtask in self:
            subtask.link.notify_aborted(checkpoint_id)

    def finish(self) -> None:
        """The input of all subtasks has ended."""
        for subtask in self:
            subtask.finish()

    def close(self) -> None:
        """Close all subtasks."""
        for subtask in self:
            subtask.link.close()
