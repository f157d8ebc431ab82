"""The one protocol between job master and engines: start an attempt of a plan, await its end, kill it.

The job master knows this protocol and not Spark; Spark and the simulator implement it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from firesteel.plan.heartbeat import HeartbeatSettings
from firesteel.plan.job_plan import JobPlan
from firesteel.plan.messages import MasterMessage, TaskId, TaskMessage
from firesteel.plan.results import ResultOutput
from firesteel.plan.state_handles import TaskRestore
from firesteel.plan.tls_identity import TlsIdentity

#: Reaches this machine only.
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class ControlEndpoint:
    """Where and with which secret a task of another process reaches the job master; ``tls``: by encrypted connections."""

    host: str
    port: int
    secret: bytes = field(repr=False)
    tls: TlsIdentity | None = None


@dataclass(frozen=True, slots=True)
class Listening:
    """Where the job master listens for tasks of other processes.

    ``host`` is the name or address by which the tasks reach it, ``bind`` the address at which it listens, None for that
    of ``host``. Of the ``ports`` it uses the first that is free; 0 is any. ``tls``: connections are encrypted.
    """

    host: str = LOOPBACK
    bind: str | None = None
    ports: tuple[int, ...] = (0,)
    tls: TlsIdentity | None = None


#: For tasks on this machine.
ON_LOOPBACK = Listening()


@dataclass(frozen=True, slots=True)
class SlotWait:
    """An attempt cannot start yet: it needs ``needed`` slots, and the engine has fewer. ``since``: seconds since 1970."""

    needed: int
    available: int
    since: float


class Master(Protocol):
    """What an executor sees of the job master. All methods may be called from any thread."""

    def endpoint(self, listening: Listening = ON_LOOPBACK) -> ControlEndpoint:
        """Address for tasks in other processes; opens the control server on first use."""
        ...

    def connected(self, task: TaskId, send: Callable[[MasterMessage], None]) -> None:
        """A task in this process is reachable through ``send``."""
        ...

    def deliver(self, task: TaskId, message: TaskMessage) -> None:
        """A message of a task in this process."""
        ...

    def open_collection(self, collect_id: str, subtask: int, start: int, origin: int) -> ResultOutput:
        """A way for results of a task in this process to ``execute_and_collect``; blocks while nobody reads them."""
        ...

    def is_wanted(self) -> bool:
        """Whether the attempt still is to run: who waits for something before starting it looks now and then."""
        ...

    def awaits_slots(self, wait: SlotWait | None) -> None:
        """The attempt waits for slots, or does not any more (None)."""
        ...


@dataclass(frozen=True, slots=True)
class Deployment:
    """One attempt of one job. ``checkpointing``: its tasks have checkpoints and end with the last one.

    ``heartbeat``: how often tasks in other processes give a sign of life, and how long they do without one.
    """

    job_id: str
    attempt: int
    plan: JobPlan
    checkpointing: bool = False
    restore: TaskRestore | None = None
    heartbeat: HeartbeatSettings | None = None


class Attempt(Protocol):
    """All tasks of a job from one start to their end."""

    def join(self, timeout: float | None = None) -> bool:
        """Wait until the engine has ended it; False when the time is over first."""
        ...

    def error(self) -> BaseException | None:
        """After the end: why the engine ended it, None when all tasks returned."""
        ...

    def kill(self) -> None:
        """End it now, without ceremony; `join` tells when it is over. Not called from the job master's own thread."""
        ...


@runtime_checkable
class ForcedAttempt(Protocol):
    """A running attempt whose engine is a process that may stop answering."""

    def ping(self) -> None:
        """Return when the engine has answered; raises when it is gone. May wait for ever."""
        ...

    def kill_by_force(self, processes: Sequence[int]) -> None:
        """End processes of the attempt: ``processes`` of this machine, and the engine's own if it does not answer."""
        ...


@dataclass(frozen=True, slots=True)
class EngineStart:
    """An engine that a job needs starts, which takes seconds, or is there now (``version``).

    ``where`` says at which master, if it is not inside this program.
    """

    job_id: str
    where: str = ""
    version: str | None = None


class Executor(Protocol):
    """Starts attempts. The job master calls `start` from a thread that does nothing but start and await it."""

    def start(self, deployment: Deployment, master: Master) -> Attempt:
        """Start all tasks; raises `NotEnoughSlotsError` and other setup errors before anything runs."""
        ...


@runtime_checkable
class ForcedExecutor(Protocol):
    """An executor whose `Executor.start` may wait for an engine that does not answer."""

    def kill_by_force(self) -> None:
        """End the engine's process if it does not answer."""
        ...


@dataclass(frozen=True, slots=True)
class EngineExecutor:
    """A process of the engine that tasks run in, or have: ``lost_ms`` is when the engine has taken it for lost, None while it is there.

    Times are milliseconds since 1970, sizes bytes. ``memory`` is what the engine keeps blocks in, ``heap`` the most that its
    heap may have, 0 where that is not known.
    """

    id: str
    host: str
    slots: int
    since_ms: int
    memory: int = 0
    memory_used: int = 0
    heap_used: int = 0
    lost_ms: int | None = None
    reason: str = ""


@runtime_checkable
class VisibleExecutors(Protocol):
    """An executor whose engine tells of its processes. Both ask the engine, which may take a while."""

    def executors(self) -> tuple[EngineExecutor, ...]:
        """Those that are there, and those that were lost."""
        ...

    def executor_threads(self, executor_id: str) -> list[tuple[str, str]]:
        """Name and stack of each thread of one of them, the engine's own; empty when it does not tell."""
        ...


@runtime_checkable
class ElasticExecutor(Protocol):
    """An executor that knows how much room there is."""

    def count_slots(self, job_id: str, wanted: int) -> int:
        """How many of the ``wanted`` slots the job could have, with those that it has; starts the engine if there is none.

        Called from threads that may wait for it.
        """
        ...


class SlotAllowance(Protocol):
    """Somebody who has a say, beside the engine, in how many slots a job has: a cluster service whose jobs share them."""

    def allow(self, job_id: str, wanted: int) -> int:
        """How many of the ``wanted`` slots a job that runs may have from now on, with those that it has.

        Called from threads that may wait for it.
        """
        ...

    def held(self, job_id: str) -> int:
        """How many slots the job has."""
        ...

    def hope_for(self, job_id: str, wanted: int, least: int) -> None:
        """The job would continue with ``wanted`` slots, or with ``least`` of them, but not with fewer; waits for nothing.

        When that many are free they are its own, as `held` says. A later wish takes the place of this one, and so does `keep`.
        """
        ...

    def keep(self, job_id: str, slots: int) -> None:
        """The job runs with that many; the others are for other jobs."""
        ...


@runtime_checkable
class SimulatedTime(Protocol):
    """An executor whose jobs have a time of their own, in which nobody has to wait for anything."""

    def pass_time(self, job_id: str, seconds: float) -> None:
        """So much time passes at once, between two attempts of a job."""
        ...


@runtime_checkable
class TrialExecutor(Protocol):
    """An executor whose jobs are only tried: simulated, or shown. No other process looks for them by itself."""

    is_trial: bool
