"""The one protocol between job master and engines: start an attempt of a plan, await its end, kill it.

The job master knows this protocol and not Spark; Spark and the simulator implement it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from firesteel.plan.job_plan import JobPlan
from firesteel.plan.messages import MasterMessage, TaskId, TaskMessage
from firesteel.plan.state_handles import Restore


@dataclass(frozen=True, slots=True)
class ControlEndpoint:
    """Where and with which secret a task of another process reaches the job master."""

    host: str
    port: int
    secret: bytes = field(repr=False)


class Master(Protocol):
    """What an executor sees of the job master. All methods may be called from any thread."""

    def endpoint(self, host: str = "127.0.0.1") -> ControlEndpoint:
        """Address for tasks in other processes; opens the control server on first use.

        ``host`` is the name or address of this machine by which the tasks reach it.
        """
        ...

    def connected(self, task: TaskId, send: Callable[[MasterMessage], None]) -> None:
        """A task in this process is reachable through ``send``."""
        ...

    def deliver(self, task: TaskId, message: TaskMessage) -> None:
        """A message of a task in this process."""
        ...

    def collected(self, collect_id: str, blob: bytes) -> None:
        """Records for ``execute_and_collect`` from a task in this process; blocks while nobody takes them."""
        ...


@dataclass(frozen=True, slots=True)
class Deployment:
    """One attempt of one job. ``checkpointing``: its tasks take part in checkpoints and end with the last one."""

    job_id: str
    attempt: int
    plan: JobPlan
    checkpointing: bool = False
    restore: Restore | None = None


class Attempt(Protocol):
    """A running attempt."""

    def join(self, timeout: float | None = None) -> bool:
        """Wait until the engine has ended it; False when the time is over first."""
        ...

    def error(self) -> BaseException | None:
        """After the end: why the engine ended it, None when all tasks returned."""
        ...

    def kill(self) -> None:
        """End it now, without ceremony; returns at once, `join` tells when it is over."""
        ...


class Executor(Protocol):
    """Starts attempts. The job master calls `start` from a thread that does nothing but start and await it."""

    def start(self, deployment: Deployment, master: Master) -> Attempt:
        """Start all tasks; raises `NotEnoughSlotsError` and other setup errors before anything runs."""
        ...
