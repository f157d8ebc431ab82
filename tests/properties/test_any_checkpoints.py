"""A job's master with checkpoints, under anything that may happen: what must hold holds at every step.

The core and the store are the real ones, storage is in memory. Tasks are modelled by their protocol: they acknowledge,
decline, end, fail, get lost and stay on as zombies, in any order that the connections allow. Storage answers late, fails,
and the master itself may be lost and taken up again from storage.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from firesteel.checkpoint.memory_storage import MemoryStorage
from firesteel.checkpoint.repository import JobCheckpoints
from firesteel.common.errors import JobExecutionError, StorageError
from firesteel.common.job_status import JobStatus
from firesteel.jobmaster.checkpoints.settings import CheckpointSettings
from firesteel.jobmaster.checkpoints.store import CheckpointStore, job_restore_of
from firesteel.jobmaster.checkpoints.takeover import Takeover
from firesteel.jobmaster.events import (
    AttemptEnded,
    CancelRequested,
    CheckpointNotPublished,
    Event,
    SavepointRequested,
    StopWithSavepointRequested,
    Submitted,
    TaskConnected,
    TaskOrigin,
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
        self.under_way: dict[int, CheckpointKind] = {}
        self.completed: set[int] = set()
        self.is_ending = False
        self.stop: int | None = None  # the STOP savepoint under way
        self.draining = False


class World:
    """Everything around the core, with chance as its law."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        choose = self.random.choice
        self.settings = CheckpointSettings(
            interval=10.0,
            timeout=30.0,
            min_pause=choose([0.0, 3.0]),
            max_concurrent=choose([1, 2]),
            tolerable_failures=choose([0, 2, 1000]),
            num_retained=choose([1, 2]),
            incremental=choose([False, True]),
            savepoint_directory="memory://sp",
        )
        self.uri = choose(["", "memory://checkpoints"])
        self.files: dict[str, bytes] = {}
        self.now = 1000.0
        self.last_id = 0
        self.promised = 0  # the newest checkpoint that any task may have committed for
        self.requests = 0
        self.open_requests: set[int] = set()
        self.zombies: list[Tasks] = []
        self.over: CompleteJob | None = None
        self.take_up()

    def run(self, steps: int) -> None:
        """Let so many things happen, then nothing bad any more."""
        actions: list[tuple[int, Callable[[], None]]] = [
            (30, self.all_goes_well),
            (20, self.acknowledge_one),
            (20, self.storage_works),
            (15, self.time_passes),
            (10, self.start_all),
            (10, self.attempt_ends),
            (5, self.finish),
            (4, self.wish),
            (4, self.decline),
            (4, self.zombies_speak),
            (3, self.end),
            (2, self.fail),
            (1, self.master_dies),
        ]
        weights = [weight for weight, _ in actions]
        for _ in range(steps):
            if self.over is None:
                (action,) = self.random.choices([action for _, action in actions], weights)
                action()
        if self.over is None and self.random.random() < 0.2:
            self.send(CancelRequested())
        self.come_to_an_end()

    # The master.

    def take_up(self) -> None:
        """A driver starts, for the first time or after the death of another."""
        storage = MemoryStorage(self.files, "", self.uri)
        self.checkpoints = JobCheckpoints(storage, JOB, "job", self.settings.num_retained)
        self.store = CheckpointStore(self.checkpoints, plan(), JOB, warn=lambda text: None)
        takeover = Takeover(
            self.checkpoints,
            plan(),
            JOB,
            fit=lambda found: (job_restore_of(found), plan()),
            given=lambda: (None, plan()),
            open_store=lambda chosen: self.store,
        )
        start = takeover.take_over().start
        if self.promised and (self.uri or start.restore is not None):
            assert start.restore is not None
            assert start.restore.checkpoint_id >= self.promised, "what was committed would be done again"
        assert start.next_checkpoint > self.last_id or not self.uri or self.last_id == 0
        self.core = MasterCore(
            plan(), MasterSettings(2.0, FixedDelay(1000, 1.0), self.settings), start, self.random
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
                assert world.under_way.pop(checkpoint_id, None) is not None, "begun, and not ended yet"
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
        if order.kind.ends_tasks:
            world.stop = order.id
        assert order.kind.is_savepoint or (order.root == self.checkpoints.root)
        world.acknowledged[order.id] = set()
        world.under_way[order.id] = order.kind

    def check_completed(self, world: Tasks, checkpoint_id: int, final: bool) -> None:
        assert world.acknowledged[checkpoint_id] == set(SUBTASKS), "complete only when all have acknowledged"
        assert checkpoint_id not in world.completed
        assert self.status is JobStatus.RUNNING, "nobody commits in an attempt that ends"
        for other, kind in world.under_way.items():
            if world.acknowledged[other] != set(SUBTASKS):
                assert other > checkpoint_id or kind is CheckpointKind.SAVEPOINT, "older ones are aborted"
                assert not final, "nothing goes on behind the checkpoint that ends the job"
        del world.under_way[checkpoint_id]
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
        self.send(TaskSaid(TaskOrigin(world.attempt, task), message))

    def living(self) -> list[TaskId]:
        return sorted(self.tasks.alive) if self.tasks is not None else []

    def start_all(self) -> None:
        if self.status is JobStatus.CREATED and self.living():
            for task in SUBTASKS:
                self.send(TaskConnected(TaskOrigin(self.core.attempt, task)))
                self.say(task, TaskStarted("h", 1))

    def acknowledge_one(self) -> None:
        if living := self.living():
            self.acknowledge(self.random.choice(living), twice=self.random.random() < 0.1)

    def acknowledge(self, task: TaskId, twice: bool = False) -> None:
        assert self.tasks is not None
        if self.tasks.barriers[task]:
            order = self.tasks.barriers[task].popleft()
            self.tasks.acknowledged.setdefault(order.id, set()).add(task)
            for _ in range(1 + twice):
                self.say(task, SnapshotAcknowledged(order.id, *SUBTASKS[task], ()))

    def acknowledge_everything(self) -> None:
        for task in SUBTASKS:
            while task in self.living() and self.tasks is not None and self.tasks.barriers[task]:
                self.acknowledge(task)

    def decline(self) -> None:
        ready = [task for task in self.living() if self.tasks is not None and self.tasks.barriers[task]]
        if ready and self.tasks is not None:
            task = self.random.choice(ready)
            order = self.tasks.barriers[task].popleft()
            self.say(task, SnapshotDeclined(order.id, *SUBTASKS[task], "no"))

    def end(self, everybody: bool | None = None) -> None:
        if everybody is None:
            everybody = self.random.random() < 0.1
        for task in self.living():
            if (
                self.tasks is not None
                and task not in self.tasks.ended
                and (everybody or self.random.random() < 0.3)
            ):
                self.tasks.ended.add(task)
                self.say(task, SubtaskEnded(*SUBTASKS[task]))

    def finish(self) -> None:
        if self.tasks is not None and self.tasks.finals and self.living():
            for task in sorted(self.tasks.finals):
                self.say(task, TaskFinished())
            self.tasks.alive = set()
            self.send(AttemptEnded(self.core.attempt, None))

    def fail(self) -> None:
        if self.status in (JobStatus.CREATED, JobStatus.RUNNING) and (living := self.living()):
            task = self.random.choice(living)
            self.send(TaskConnected(TaskOrigin(self.core.attempt, task)))
            self.say(task, to_message(JobExecutionError("boom")))

    def attempt_ends(self) -> None:
        if self.status in (JobStatus.FAILING, JobStatus.CANCELLING):
            for task in self.living():
                self.say(task, TaskCancelled())
            self.lose_tasks()
            self.send(AttemptEnded(self.core.attempt, RuntimeError("killed")))

    def zombies_speak(self) -> None:
        """Tasks of earlier attempts still see barriers, and say so."""
        for world in self.zombies[-3:]:
            if world.attempt != self.core.attempt:
                for number in range(max(1, self.last_id - 2), self.last_id + 1):
                    for task, subtask in SUBTASKS.items():
                        self.say(task, SnapshotAcknowledged(number, *subtask, ()), world)
                        self.say(task, SubtaskEnded(*subtask), world)

    def all_goes_well(self) -> None:
        """What happens most of the time: a checkpoint is due, is acknowledged, and is published."""
        if self.status is JobStatus.RUNNING:
            self.time_passes(10.0)
            self.acknowledge_everything()
            while self.over is None and self.storage_work and self.random.random() < 0.8:
                self.storage_works("")

    # Storage, time, people, fate.

    def storage_works(self, fails: str | None = None) -> None:
        if not self.storage_work:
            return
        if fails is None:
            fails = self.random.choice(["", "", "", "", "before", "after"])
        work = self.storage_work.popleft()
        if isinstance(work, PublishCheckpoint) and fails:
            if fails == "after":
                self.store.perform(work)
            self.send(CheckpointNotPublished(work.order.id, StorageError("simulated")))
            return
        answer = self.store.perform(work)
        if isinstance(work, SubsumeOlder):
            bases = [id for id in (work.needed_from, work.newest) if id is not None]
            for older in self.checkpoints.completed()[self.settings.num_retained :]:
                assert older >= min(bases), "no more are kept than are to be retained"
        if answer is not None:
            self.send(answer)

    def time_passes(self, seconds: float | None = None) -> None:
        self.now += self.random.choice([1.0, 5.0, 10.0, 31.0]) if seconds is None else seconds
        for timer in list(self.timers):
            due, attempt = self.timers.get(timer, (float("inf"), 0))
            if due <= self.now and self.over is None:
                del self.timers[timer]
                self.send(TimerElapsed(attempt, timer))

    def wish(self) -> None:
        self.requests += 1
        self.open_requests.add(self.requests)
        match self.random.choice(["savepoint", "savepoint", "stop", "drain"]):
            case "savepoint":
                self.send(SavepointRequested(self.requests))
            case kind:
                self.send(StopWithSavepointRequested(self.requests, drain=kind == "drain"))

    def master_dies(self) -> None:
        if self.uri:
            self.lose_tasks()
            self.take_up()

    # In the end.

    def storage_does_everything(self) -> None:
        while self.over is None and self.storage_work:
            self.storage_works("")

    def come_to_an_end(self) -> None:
        """When nothing goes wrong any more and all input ends, so does the job."""
        for _ in range(100):
            if self.over is not None:
                break
            self.attempt_ends()
            self.start_all()
            self.storage_does_everything()
            if self.over is None and self.status is JobStatus.RUNNING:
                self.end(everybody=True)
                self.acknowledge_everything()
                self.storage_does_everything()  # in time: a checkpoint that is published too late counts as failed
                self.finish()
            if self.over is None:
                self.time_passes(31.0)
        assert self.over is not None, "the job comes to its end"
        assert self.open_requests == set(), "everybody was answered"
        if self.over.status is JobStatus.FINISHED:
            assert self.promised == self.last_id, "with its last checkpoint complete"


@given(seed=st.integers(0, 2**32 - 1))
def test_what_must_hold_holds_at_every_step(seed: int) -> None:
    try:
        World(seed).run(steps=200)
    finally:
        MemoryStorage.forget("memory://sp")
