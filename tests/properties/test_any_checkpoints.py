"""A job's master with checkpoints, under anything that may happen: what must hold holds at every step.

The core and the store are the real ones, storage is in memory. Tasks are modelled by their protocol: they acknowledge,
decline, end, fail, get lost and stay on as zombies, in any order that the connections allow. Storage answers late, fails,
and the master itself may be lost and taken up again from storage.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from firesteel.checkpoint.memory_storage import MemoryStorage
from firesteel.checkpoint.repository import JobCheckpoints
from firesteel.common.errors import JobExecutionError, StorageError
from firesteel.common.job_status import JobStatus
from firesteel.jobmaster.checkpoint_settings import CheckpointSettings
from firesteel.jobmaster.checkpoint_store import CheckpointStore
from firesteel.jobmaster.events import (
    AttemptEnded,
    CancelRequested,
    CheckpointNotPublished,
    Event,
    Origin,
    SavepointRequested,
    StopWithSavepointRequested,
    Submitted,
    TaskConnected,
    TaskSaid,
    Timer,
    TimerElapsed,
)
from firesteel.jobmaster.instructions import (
    AnswerSavepoint,
    ChangeStatus,
    CompleteJob,
    DiscardSnapshots,
    Instruction,
    KillAttempt,
    PublishCheckpoint,
    SendToTasks,
    SetTimer,
    StartAttempt,
    StorageInstruction,
    SubsumeOlder,
)
from firesteel.jobmaster.master_core import MasterCore, MasterSettings
from firesteel.jobmaster.restart_policy import FixedDelay
from firesteel.plan.exchange import Rebalance
from firesteel.plan.job_plan import EdgePlan, JobPlan, StagePlan, VertexPlan
from firesteel.plan.messages import (
    CancelTask,
    CheckpointAborted,
    CheckpointCompleted,
    MasterMessage,
    SnapshotAcknowledged,
    SnapshotDeclined,
    StopSources,
    SubtaskEnded,
    TaskCancelled,
    TaskFinished,
    TaskId,
    TaskMessage,
    TaskStarted,
    TriggerCheckpoint,
)
from firesteel.plan.operator_specs import RuntimeMode
from firesteel.plan.state_handles import CheckpointKind, CheckpointOrder
from firesteel.plan.task_failure import to_message

JOB = "ab" * 16
SOURCE, LEFT, RIGHT = TaskId(0, 0), TaskId(1, 0), TaskId(1, 1)
SUBTASKS = {SOURCE: (0, 0), LEFT: (1, 0), RIGHT: (1, 1)}


def plan() -> JobPlan:
    vertices = (VertexPlan(0, "Source", 0, 0, 1, 128, ()), VertexPlan(1, "Count", 1, 0, 2, 128, ()))
    stages = (StagePlan(0, 1, (0,)), StagePlan(1, 2, (1,)))
    return JobPlan(
        "job", RuntimeMode.STREAMING, stages, vertices, (EdgePlan(0, 0, 0, None, 1, 0, Rebalance()),)
    )


class Tasks:
    """The tasks of one attempt: what each may still say, given what it was told."""

    def __init__(self, attempt: int) -> None:
        self.attempt = attempt
        self.alive = set(SUBTASKS)
        self.ended: set[TaskId] = set()
        self.barriers: dict[TaskId, deque[CheckpointOrder]] = {task: deque() for task in SUBTASKS}
        self.finals: set[TaskId] = set()
        self.acknowledged: dict[int, set[TaskId]] = {}
        self.completed: set[int] = set()
        self.is_ending = False
        self.stop: int | None = None  # the STOP savepoint under way
        self.draining = False


class AnyCheckpoints(RuleBasedStateMachine):
    """The world around the core."""

    @initialize(
        concurrent=st.sampled_from([1, 2]),
        pause=st.sampled_from([0.0, 3.0]),
        tolerable=st.sampled_from([0, 2, 1000]),
        retained=st.sampled_from([1, 2]),
        incremental=st.booleans(),
        in_memory=st.booleans(),
        seed=st.integers(0, 2**16),
    )
    def begin(
        self,
        concurrent: int,
        pause: float,
        tolerable: int,
        retained: int,
        incremental: bool,
        in_memory: bool,
        seed: int,
    ) -> None:
        self.settings = CheckpointSettings(
            10.0,
            30.0,
            pause,
            concurrent,
            tolerable,
            retained,
            incremental=incremental,
            savepoint_directory="memory://sp",
        )
        self.random = Random(seed)
        self.files: dict[str, bytes] = {}
        self.uri = "" if in_memory else "memory://checkpoints"
        self.now = 1000.0
        self.last_id = 0
        self.promised = 0  # the newest checkpoint that any task may have committed for
        self.retained_bound = retained + incremental
        self.requests = 0
        self.open_requests: set[int] = set()
        self.zombies: list[Tasks] = []
        self.over: CompleteJob | None = None
        self.take_up()

    def teardown(self) -> None:
        try:
            if hasattr(self, "core") and self.over is None:
                self.come_to_an_end()
        finally:
            MemoryStorage.forget("memory://sp")

    # The master.

    def take_up(self) -> None:
        """A driver starts, for the first time or after the death of another."""
        storage = MemoryStorage(self.files, "", self.uri)
        self.checkpoints = JobCheckpoints(storage, JOB, "job", self.settings.num_retained)
        self.store = CheckpointStore(self.checkpoints, plan(), JOB, warn=lambda text: None)
        beginning = self.store.take_up()
        if self.promised and (self.uri or beginning.point is not None):
            assert beginning.point is not None
            assert beginning.point.checkpoint_id >= self.promised, "what was committed would be done again"
        assert beginning.next_checkpoint > self.last_id or not self.uri or self.last_id == 0
        self.core = MasterCore(
            plan(), MasterSettings(2.0, FixedDelay(1000, 1.0), self.settings), beginning, self.random
        )
        self.status = JobStatus.CREATED
        self.timers: dict[Timer, tuple[float, int]] = {}
        self.storage_work: deque[StorageInstruction] = deque()
        self.tasks: Tasks | None = None
        self.open_requests.clear()
        self.first_order = True
        self.send(Submitted())

    def send(self, event: Event) -> None:
        out = self.core.handle(event, self.now)
        for position, instruction in enumerate(out):
            assert self.over is None or isinstance(instruction, AnswerSavepoint), (
                "the end is the last instruction"
            )
            self.perform(instruction)
            if isinstance(instruction, CompleteJob):
                assert position == len(out) - 1

    def perform(self, instruction: Instruction) -> None:
        match instruction:
            case StartAttempt(attempt, _, point):
                if self.promised:
                    assert point is not None
                    assert point.checkpoint_id >= self.promised
                self.tasks = Tasks(attempt)
            case SendToTasks(tasks, message):
                self.deliver(tasks, message)
            case KillAttempt():
                self.lose_tasks()
            case SetTimer(attempt, timer, seconds):
                self.timers[timer] = (self.now + seconds, attempt)
            case AnswerSavepoint(request, path, error):
                assert request in self.open_requests, "answered once"
                self.open_requests.remove(request)
                assert (path is None) != (error is None)
            case ChangeStatus(status):
                assert self.status.can_become(status)
                self.status = status
            case CompleteJob():
                self.over = instruction
            case PublishCheckpoint(order, acknowledgements):
                assert {(a.vertex, a.subtask) for a in acknowledgements} == set(SUBTASKS.values())
                assert all(a.checkpoint_id == order.id for a in acknowledgements)
                self.storage_work.append(instruction)
            case DiscardSnapshots(order):
                assert self.tasks is None or order.id not in self.tasks.completed
                self.storage_work.append(instruction)
            case _:
                self.storage_work.append(instruction)  # type: ignore[arg-type]

    # What the master tells the tasks.

    def deliver(self, tasks: tuple[TaskId, ...], message: MasterMessage) -> None:
        world = self.tasks
        assert world is not None
        match message:
            case TriggerCheckpoint(order):
                self.check_order(world, order)
                for barriers in world.barriers.values():  # data flows on: every subtask will see the barrier
                    barriers.append(order)
            case CheckpointCompleted(checkpoint_id, final):
                self.check_completed(world, checkpoint_id, final)
            case CheckpointAborted(checkpoint_id):
                assert checkpoint_id not in world.completed
                for barriers in world.barriers.values():
                    kept = [
                        order for order in barriers if order.id != checkpoint_id or self.random.random() < 0.3
                    ]
                    barriers.clear()
                    barriers.extend(kept)  # some answer all the same
                if world.stop == checkpoint_id:
                    world.stop = None
            case StopSources():
                world.draining = True
            case CancelTask():
                pass
            case _:
                raise AssertionError(f"unexpected {message}")

    def check_order(self, world: Tasks, order: CheckpointOrder) -> None:
        assert order.id > self.last_id, "ids increase"
        self.last_id = order.id
        assert world.alive == set(SUBTASKS), "all tasks run"
        assert not world.is_ending, "nothing begins behind the checkpoint that ends the job"
        assert world.stop is None, "nothing slips in between savepoint and end"
        if world.draining:
            assert order.kind is CheckpointKind.FINAL_SAVEPOINT
        if order.kind in (CheckpointKind.FINAL, CheckpointKind.FINAL_SAVEPOINT):
            assert world.ended == set(SUBTASKS)
        if order.kind.ends_job:
            world.stop = order.id
        assert order.kind.is_savepoint or (order.root == self.checkpoints.root)
        world.acknowledged[order.id] = set()

    def check_completed(self, world: Tasks, checkpoint_id: int, final: bool) -> None:
        assert world.acknowledged[checkpoint_id] == set(SUBTASKS), "complete only when all have acknowledged"
        assert checkpoint_id not in world.completed
        found = self.checkpoints.newest_valid(lambda text: None)
        assert found is not None
        assert found.manifest.checkpoint_id >= checkpoint_id, "durable before anybody commits"
        world.completed.add(checkpoint_id)
        self.promised = max(self.promised, checkpoint_id)
        if final:
            assert not world.is_ending, "the job ends once"
            world.is_ending = True
            world.finals = set(SUBTASKS)

    def lose_tasks(self) -> None:
        if self.tasks is not None:
            self.zombies.append(self.tasks)
            self.tasks.alive = set()

    # What tasks say.

    def say(self, task: TaskId, message: TaskMessage, world: Tasks | None = None) -> None:
        world = world or self.tasks
        assert world is not None
        self.send(TaskSaid(Origin(world.attempt, task), message))

    tasks_strategy = st.sampled_from(sorted(SUBTASKS))

    @precondition(lambda self: self.over is None and self.status is JobStatus.CREATED and self.tasks)
    @rule()
    def start_all(self) -> None:
        for task in SUBTASKS:
            self.send(TaskConnected(Origin(self.core.attempt, task)))
            self.say(task, TaskStarted("h", 1))

    @precondition(lambda self: self.over is None and self.tasks and self.tasks.alive)
    @rule(task=tasks_strategy, twice=st.booleans())
    def acknowledge(self, task: TaskId, twice: bool) -> None:
        assert self.tasks is not None
        if task not in self.tasks.alive or not self.tasks.barriers[task]:
            return
        order = self.tasks.barriers[task].popleft()
        self.tasks.acknowledged.setdefault(order.id, set()).add(task)
        for _ in range(1 + twice):
            self.say(task, SnapshotAcknowledged(order.id, *SUBTASKS[task], ()))

    @precondition(lambda self: self.over is None and self.tasks and self.tasks.alive)
    @rule()
    def acknowledge_everything(self) -> None:
        for task in SUBTASKS:
            while self.over is None and self.tasks and task in self.tasks.alive and self.tasks.barriers[task]:
                self.acknowledge(task, False)

    @precondition(lambda self: self.over is None and self.tasks and self.tasks.alive)
    @rule(task=tasks_strategy)
    def decline(self, task: TaskId) -> None:
        assert self.tasks is not None
        if task in self.tasks.alive and self.tasks.barriers[task]:
            order = self.tasks.barriers[task].popleft()
            self.say(task, SnapshotDeclined(order.id, *SUBTASKS[task], "no"))

    @precondition(lambda self: self.over is None and self.tasks and self.tasks.alive)
    @rule(who=st.sampled_from(["nobody", "nobody", "one", "all"]), task=tasks_strategy)
    def end(self, who: str, task: TaskId) -> None:
        for one in {"nobody": (), "one": (task,), "all": tuple(SUBTASKS)}[who]:
            if self.tasks is not None and one in self.tasks.alive and one not in self.tasks.ended:
                self.tasks.ended.add(one)
                self.say(one, SubtaskEnded(*SUBTASKS[one]))

    @precondition(lambda self: self.over is None and self.tasks and self.tasks.finals)
    @rule()
    def finish(self) -> None:
        assert self.tasks is not None
        for task in sorted(self.tasks.finals):
            self.say(task, TaskFinished())
        self.tasks.alive = set()
        self.send(AttemptEnded(self.core.attempt, None))

    @precondition(lambda self: self.over is None and self.tasks and self.tasks.alive)
    @rule(task=tasks_strategy)
    def fail(self, task: TaskId) -> None:
        assert self.tasks is not None
        if task in self.tasks.alive and self.status in (JobStatus.CREATED, JobStatus.RUNNING):
            self.send(TaskConnected(Origin(self.core.attempt, task)))
            self.say(task, to_message(JobExecutionError("boom")))

    @precondition(lambda self: self.over is None and self.status in (JobStatus.FAILING, JobStatus.CANCELLING))
    @rule()
    def attempt_ends(self) -> None:
        if self.tasks is not None:
            for task in sorted(self.tasks.alive):
                self.say(task, TaskCancelled())
        self.lose_tasks()
        self.send(AttemptEnded(self.core.attempt, RuntimeError("killed")))

    @precondition(lambda self: self.over is None and self.zombies)
    @rule(task=tasks_strategy)
    def zombie_acknowledges(self, task: TaskId) -> None:
        for world in self.zombies:
            if world.attempt != self.core.attempt:
                for order in list(world.barriers[task]):
                    self.say(task, SnapshotAcknowledged(order.id, *SUBTASKS[task], ()), world)
                    self.say(task, SubtaskEnded(*SUBTASKS[task]), world)

    @precondition(lambda self: self.over is None and self.status is JobStatus.RUNNING)
    @rule(storage_too=st.booleans())
    def all_goes_well(self, storage_too: bool) -> None:
        """What happens most of the time: a checkpoint is due, is acknowledged, and is published."""
        self.time_passes(10.0)
        self.acknowledge_everything()
        while storage_too and self.over is None and self.storage_work:
            self.storage_works("")

    # Storage, time, people, fate.

    @precondition(lambda self: self.over is None and self.storage_work)
    @rule(fails=st.sampled_from(["", "", "", "before", "after"]))
    def storage_works(self, fails: str) -> None:
        work = self.storage_work.popleft()
        if isinstance(work, PublishCheckpoint) and fails:
            if fails == "after":
                self.store.perform(work)
            self.send(CheckpointNotPublished(work.order.id, StorageError("simulated")))
            return
        answer = self.store.perform(work)
        if isinstance(work, SubsumeOlder):
            assert len(self.checkpoints.completed()) <= self.retained_bound + self.settings.max_concurrent
        if answer is not None:
            self.send(answer)

    @precondition(lambda self: self.over is None)
    @rule(seconds=st.sampled_from([1.0, 5.0, 10.0, 31.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        for timer in list(self.timers):
            due, attempt = self.timers.get(timer, (float("inf"), 0))
            if due <= self.now and self.over is None:
                del self.timers[timer]
                self.send(TimerElapsed(attempt, timer))

    @precondition(lambda self: self.over is None)
    @rule(kind=st.sampled_from(["savepoint", "stop", "drain"]))
    def wish(self, kind: str) -> None:
        self.requests += 1
        self.open_requests.add(self.requests)
        if kind == "savepoint":
            self.send(SavepointRequested(self.requests))
        else:
            self.send(StopWithSavepointRequested(self.requests, drain=kind == "drain"))

    @precondition(lambda self: self.over is None)
    @rule(chance=st.integers(0, 19))
    def cancel(self, chance: int) -> None:
        if chance == 13:
            self.send(CancelRequested())

    @precondition(lambda self: self.over is None and self.uri)
    @rule(chance=st.integers(0, 4))
    def master_dies(self, chance: int) -> None:
        if chance == 3:
            self.lose_tasks()
            self.take_up()

    # In the end.

    @precondition(lambda self: self.over is not None)
    @rule()
    def nothing_happens(self) -> None:
        pass

    def come_to_an_end(self) -> None:
        """When nothing goes wrong any more and all input ends, so does the job."""
        for _ in range(60):
            if self.over is not None:
                break
            if self.status in (JobStatus.FAILING, JobStatus.CANCELLING):
                self.attempt_ends()
            elif self.status is JobStatus.CREATED and self.tasks:
                self.start_all()
            while self.over is None and self.storage_work:
                self.storage_works("")
            if self.over is None and self.tasks and self.tasks.alive and self.status is JobStatus.RUNNING:
                self.end("all", SOURCE)
                self.acknowledge_everything()
                if self.tasks.finals:
                    self.finish()
            if self.over is None:
                self.time_passes(31.0)
        assert self.over is not None, "the job comes to its end"
        assert self.open_requests == set(), "everybody was answered"
        assert self.core.checkpoint_statistics.in_progress <= sum(
            isinstance(work, PublishCheckpoint) for work in self.storage_work
        )
        if self.over.status is JobStatus.FINISHED:
            assert self.promised == self.last_id, "with its last checkpoint complete"


AnyCheckpoints.TestCase.settings = settings(stateful_step_count=80, deadline=None)
TestAnyCheckpoints: Callable[..., Any] = AnyCheckpoints.TestCase
