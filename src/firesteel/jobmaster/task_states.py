"""The states of a job's tasks, with Flink's names for them."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from firesteel.common._executor_name import executor_name
from firesteel.plan.messages import TaskId

__all__ = ["ExecutionState", "TaskChange", "TaskStatus"]


class ExecutionState(enum.Enum):
    """Where a task stands."""

    #: There is a plan for it.
    CREATED = "CREATED"
    #: The engine is asked for a slot.
    SCHEDULED = "SCHEDULED"
    #: The engine starts its process.
    DEPLOYING = "DEPLOYING"
    #: It opens its operators, and reads their state.
    INITIALIZING = "INITIALIZING"
    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    #: It was asked to end.
    CANCELING = "CANCELING"
    CANCELED = "CANCELED"
    FAILED = "FAILED"

    @property
    def is_terminal(self) -> bool:
        """Whether nothing follows, in this attempt."""
        return self in (ExecutionState.FINISHED, ExecutionState.CANCELED, ExecutionState.FAILED)


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """A task and its state. ``name`` is that of its subtasks, ``where`` host and process as far as they are known.

    ``executor`` is the engine's name for the process that it belongs to. ``since`` says when it came to each state that it has had, in milliseconds since 1970 and in their order.
    """

    name: str
    state: ExecutionState
    attempt: int
    where: str = ""
    task: TaskId | None = None
    host: str = ""
    pid: int = 0
    since: tuple[tuple[ExecutionState, int], ...] = ()
    executor: str = ""

    @property
    def executor_name(self) -> str:
        """What the process of the engine is called that it runs in; empty before it has one."""
        return executor_name(self.host, self.executor) if self.host else ""


@dataclass(frozen=True, slots=True)
class TaskChange:
    """A task has gone from one state to another."""

    name: str
    attempt: int
    before: ExecutionState
    after: ExecutionState
    where: str = ""
