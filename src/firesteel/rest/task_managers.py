"""Flink's task managers: the executors that tasks run in, as the engine lists them and as tasks say where they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from firesteel.common._executor_name import executor_name
from firesteel.jobmaster.job_snapshot import JobSnapshot
from firesteel.jobmaster.task_states import ExecutionState, TaskStatus
from firesteel.plan.executor import EngineExecutor

__all__ = ["TaskManager", "lost_executors", "task_managers"]

_NOT_THERE = (ExecutionState.CREATED, ExecutionState.SCHEDULED)


@dataclass(frozen=True, slots=True)
class TaskManager:
    """One executor with the tasks that have a process in it now, each with its job's id.

    ``executor``: what the engine says of it, None where it does not tell. ``heard_ms``: when it was last known to be alive.
    """

    id: str
    host: str
    heard_ms: int
    tasks: tuple[tuple[str, TaskStatus], ...] = ()
    executor: EngineExecutor | None = None

    @property
    def slots(self) -> int:
        """How many tasks can run in it at once."""
        return len(self.tasks) if self.executor is None else max(self.executor.slots, len(self.tasks))


def task_managers(
    snapshots: Iterable[JobSnapshot],
    executors: Sequence[EngineExecutor] = (),
    silences: Mapping[str, float] | None = None,
    host: str = "",
) -> list[TaskManager]:
    """Those that are there: ``host`` is this machine, ``silences`` for how many seconds no task of an executor was heard."""
    now = 0
    tasks: dict[str, list[tuple[str, TaskStatus]]] = {}
    for snapshot in snapshots:
        now = max(now, snapshot.now)
        for task in snapshot.tasks:
            if task.host and not task.state.is_terminal and task.state not in _NOT_THERE:
                tasks.setdefault(task.executor_name, []).append((snapshot.job_id, task))
    told = {executor_name(host, each.id): each for each in executors if each.lost_ms is None}
    managers = []
    for name in dict.fromkeys((*told, *tasks)):
        there = tuple(tasks.get(name, ()))
        executor = told.get(name)
        # The engine's own list is as good as a sign of life: it drops executors that give none.
        silence = (silences or {}).get(name, 0.0)
        machine = there[0][1].host if there else executor.host if executor is not None else host
        managers.append(TaskManager(name, machine, now - int(silence * 1000), there, executor))
    return managers


def lost_executors(executors: Sequence[EngineExecutor]) -> list[EngineExecutor]:
    """Those that the engine has lost, the newest first."""
    lost = [each for each in executors if each.lost_ms is not None]
    return sorted(lost, key=lambda each: each.lost_ms or 0, reverse=True)
