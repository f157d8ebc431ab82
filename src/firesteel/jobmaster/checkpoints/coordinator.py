"""The checkpoints of a job as a pure machine: hop 11 of a record's journey and hop 1 of a checkpoint's life.

Events in, instructions out; no threads, storage or clock.

A checkpoint from beginning to end::

    it is due, or somebody wants it ─────> SaveEnumerators
    EnumeratorsSaved ────────────────────> SendToTasks(sources, TriggerCheckpoint)
    all subtasks SnapshotAcknowledged ───> PublishCheckpoint
    CheckpointPublished ─────────────────> SendToTasks(all, CheckpointCompleted), SubsumeOlder

    a decline, the time-out, a failure to publish:
                                           SendToTasks(all, CheckpointAborted), DiscardSnapshots

Until it is being published a checkpoint can be aborted; from then on it may be durable, so only storage can say
what becomes of it, even when the attempt that took it has failed meanwhile. A storage that does not answer before the
time-out makes it a failed checkpoint nevertheless. It may become durable after that, which does no harm: see
docs/decisions/0012-a-checkpoint-may-be-published-after-its-time-out.md.

How a job ends is a checkpoint too. When all subtasks have processed all their input, a FINAL one is taken, again and
again until it succeeds. Stopping with a savepoint aborts the periodic checkpoints, waits for savepoints under way, and
then takes a STOP savepoint, behind which sources send nothing; nothing else begins until it has failed or the job is
over. To drain, sources are ended first and the FINAL checkpoint is a savepoint; when that fails, the job goes back to
its newest checkpoint, because its sources have ended.

A rescale goes like a stop, with a RESCALE checkpoint: when it is complete the tasks end, and `EndTasksForRescale` says what
follows. When it is not, the job goes on as it was.

A job without checkpoints (no interval) takes savepoints, too. Its tasks do not wait for a last checkpoint, so they are
asked to stay before a savepoint begins: `waiting_savepoints`.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from random import Random

from firesteel.checkpoint.storage import join_uri
from firesteel.common.errors import CheckpointError, JobCancelledError, RescaleError
from firesteel.common.job_status import JobStatus
from firesteel.common.time import to_millis
from firesteel.jobmaster.checkpoints.coordinator_messages import (
    AttemptOver,
    AttemptRunning,
    AttemptStarting,
    CoordinatorEvent,
    CoordinatorInstruction,
    EndTasksForRescale,
    EnumeratorsFailed,
    EnumeratorsSaved,
    FailAttempt,
    FailJob,
    JobOver,
    PlanChanged,
    SaveEnumerators,
    TaskHasEnded,
    TaskIsStaying,
)
from firesteel.jobmaster.checkpoints.settings import CheckpointSettings, Retention
from firesteel.jobmaster.checkpoints.statistics import (
    CheckpointStatistics,
    CheckpointStatus,
    CheckpointSummary,
    Restoration,
    SubtaskAcknowledgement,
)
from firesteel.jobmaster.checkpoints.waiting_savepoints import SavepointRequest, WaitingSavepoints
from firesteel.jobmaster.events import (
    CheckpointNotPublished,
    CheckpointPublished,
    CheckpointRequested,
    RescaleRequested,
    SavepointRequested,
    StopWithSavepointRequested,
    Timer,
    TimerElapsed,
)
from firesteel.jobmaster.instructions import (
    AnswerCheckpoint,
    AnswerRescale,
    AnswerSavepoint,
    CleanUp,
    DiscardSnapshots,
    PublishCheckpoint,
    SendToTasks,
    SetTimer,
    SubsumeOlder,
)
from firesteel.jobmaster.job_restore import JobRestore
from firesteel.plan.job_plan import JobPlan
from firesteel.plan.messages import (
    CheckpointAborted,
    CheckpointCompleted,
    CheckpointMessage,
    MasterMessage,
    MayEnd,
    SnapshotAcknowledged,
    SnapshotDeclined,
    StayForSavepoint,
    StopSources,
    SubtaskEnded,
    TaskId,
    TriggerCheckpoint,
)
from firesteel.plan.state_handles import CheckpointKind, CheckpointOrder

#: How long a failed FINAL checkpoint waits for its repetition.
FINAL_RETRY_SECONDS = 1.0

Subtask = tuple[int, int]


@dataclass(slots=True)
class _Checkpoint:
    """One that has begun."""

    order: CheckpointOrder
    attempt: int
    began: float
    request: int | None
    summary: CheckpointSummary
    acknowledged: dict[Subtask, SnapshotAcknowledged] = field(default_factory=dict)
    enumerators: Mapping[str, bytes] = field(default_factory=dict)
    wanted_by: tuple[int, ...] = ()  # requests for a checkpoint, not for a savepoint

    @property
    def id(self) -> int:
        return self.order.id

    @property
    def kind(self) -> CheckpointKind:
        return self.order.kind

    @property
    def handed_in(self) -> tuple[SnapshotAcknowledged, ...]:
        return tuple(acknowledgement for _, acknowledgement in sorted(self.acknowledged.items()))


class _Stopping(enum.Enum):
    WAITING = enum.auto()  # for what is under way to end
    DRAINING = enum.auto()  # sources were ended; not all subtasks have processed everything yet
    TAKING = enum.auto()
    TAKEN = enum.auto()  # the job is about to end


@dataclass(slots=True)
class _Stop:
    """A request to stop with a savepoint, or to continue as another plan (``rescale``)."""

    request: int
    directory: str
    drain: bool = False
    rescale: RescaleRequested | None = None
    phase: _Stopping = _Stopping.WAITING
    has_ended_sources: bool = False
    path: str = ""


class CheckpointCoordinator:
    """All checkpoints of one job. Feed events to `handle` and perform what it returns, in order.

    ``root`` is the directory of the job's checkpoints, empty when they are kept in memory. ``next_id`` is
    greater than the number of every checkpoint that any earlier run of the job may have begun.
    """

    def __init__(
        self,
        plan: JobPlan,
        settings: CheckpointSettings,
        job_id: str,
        *,
        root: str = "",
        next_id: int = 1,
        completed: tuple[int, ...] = (),
        random: Random | None = None,
    ) -> None:
        self._settings = settings
        self._job_id = job_id
        self._job_name = plan.name
        self._root = root
        self._random = Random() if random is None else random
        self._use(plan)
        self._rescales: set[int] = set()  # requests for another parallelism that have no answer yet
        self._first_id = self._next_id = next_id
        self._newest = max(completed, default=0)  # complete one, without savepoints
        self._statistics = CheckpointStatistics(remembered=settings.history_size)
        self._failures = 0  # in a row
        self._collecting: dict[int, _Checkpoint] = {}
        self._publishing: dict[int, _Checkpoint] = {}
        # Aborted, and storage has not said yet what became of them.
        self._overdue: dict[int, CheckpointOrder] = {}
        self._has_overdue = False  # whether one of them was published after all
        self._stop: _Stop | None = None
        self._wanted: list[CheckpointRequested] = []  # the next periodic one is theirs, and it is due
        self._now = 0.0
        self._out: list[CoordinatorInstruction] = []
        self._news: list[str] = []
        # What follows belongs to the current attempt.
        self._attempt = 0
        self._is_running = False
        self._is_ending = False  # the checkpoint that ends the job is complete
        self._ended: set[Subtask] = set()
        self._aborted: dict[int, CheckpointOrder] = {}
        self._needs_full = False
        self._next_due = 0.0
        self._last_end = 0.0
        self._final_due = 0.0
        self._wake_at: float | None = None

    def _use(self, plan: JobPlan) -> None:
        """Who takes part in the checkpoints of attempts of this plan."""
        self._subtasks: frozenset[Subtask] = frozenset(
            (vertex.id, subtask) for vertex in plan.vertices for subtask in range(vertex.parallelism)
        )
        self._vertices = plan.vertices
        self._names = {vertex.id: (vertex.name, vertex.parallelism) for vertex in plan.vertices}
        self._tasks = tuple(TaskId(stage.index, i) for stage in plan.stages for i in range(stage.tasks))
        self._source_tasks = _source_tasks(plan)
        self._waiting_savepoints = WaitingSavepoints(self._tasks)

    @property
    def statistics(self) -> CheckpointStatistics:
        """Counts, sizes and times so far; may be read from any thread."""
        return self._statistics

    def drain_news(self) -> list[str]:
        """What has happened since the last time that people should read at once: each failed checkpoint."""
        news, self._news = self._news, []
        return news

    @property
    def has_completed(self) -> bool:
        """Whether there must be a checkpoint of this job."""
        return self._newest > 0 or self._statistics.completed > 0 or self._has_overdue

    @property
    def is_periodic(self) -> bool:
        """Whether checkpoints are taken without anybody asking for them."""
        return self._settings.interval is not None

    def handle(self, event: CoordinatorEvent, now: float) -> list[CoordinatorInstruction]:
        """Take in what happened at ``now`` (seconds since 1970); returns what is to be done about it."""
        self._now = now
        match event:
            case SnapshotAcknowledged() | SnapshotDeclined() | SubtaskEnded():
                self._on_subtask(event)
            case CheckpointPublished(checkpoint_id, path):
                if (published := self._publishing.pop(checkpoint_id, None)) is not None:
                    self._on_published(published, path)
                elif (order := self._overdue.pop(checkpoint_id, None)) is not None:
                    self._has_overdue |= not order.kind.is_savepoint
            case CheckpointNotPublished(checkpoint_id, error, fenced):
                if (lost := self._publishing.pop(checkpoint_id, None)) is not None:
                    self._on_not_published(lost, error, fenced)
                elif self._overdue.pop(checkpoint_id, None) is not None and fenced:
                    self._end_attempt(FailJob(error))
            case EnumeratorsSaved(checkpoint_id, states):
                self._on_enumerators(checkpoint_id, states)
            case EnumeratorsFailed(checkpoint_id, error):
                if (begun := self._collecting.get(checkpoint_id)) is not None:
                    self._fail(begun, f"an enumerator cannot be saved: {error}", error)
            case SavepointRequested() | StopWithSavepointRequested() | RescaleRequested():
                if isinstance(event, RescaleRequested):
                    self._rescales.add(event.request)
                self._on_request(event)
            case CheckpointRequested():
                self._on_checkpoint_requested(event)
            case TaskIsStaying(task):
                self._waiting_savepoints.task_stays(task)
                if self._waiting_savepoints.all_stay:
                    for request in self._waiting_savepoints.take():
                        self._begin_requested(request)
            case TaskHasEnded(task):
                self._on_task_ended(task)
            case TimerElapsed(_, timer):
                if timer is Timer.CHECKPOINT:
                    self._wake_at = None
            case AttemptStarting():
                self._ended = set()
                self._waiting_savepoints.attempt_starts()
            case AttemptRunning(attempt, point):
                self._on_running(attempt, point)
            case AttemptOver(error):
                self._on_attempt_over(error)
            case PlanChanged(plan):
                self._on_plan_changed(plan)
            case JobOver(status):
                self._on_job_over(status)
        if self._is_running:
            self._do_what_is_due()
        out, self._out = self._out, []
        return out

    # Attempts.

    def _on_running(self, attempt: int, point: JobRestore | None) -> None:
        self._attempt = attempt
        self._is_running = True
        self._is_ending = False
        self._aborted = {}
        self._needs_full = point is not None and point.tasks.root != self._root
        self._next_due = self._now + (self._settings.interval or 0.0)
        self._last_end = self._final_due = 0.0
        self._wake_at = None
        if point is not None:
            self._statistics = self._statistics.with_restored(
                Restoration(point.checkpoint_id, to_millis(self._now), point.path, point.is_savepoint)
            )

    def _on_plan_changed(self, plan: JobPlan) -> None:
        self._is_running = False
        if self._stop is not None:
            self._rescales.discard(self._stop.request)  # answered when the new tasks run
            self._stop = None
        self._use(plan)

    def _on_attempt_over(self, error: BaseException) -> None:
        self._is_running = False
        reason = f"the job did not get that far: {error}"
        for checkpoint in list(self._collecting.values()):
            self._abort(checkpoint)
            self._note_failure(checkpoint, reason, isinstance(error, JobCancelledError))
            self._answer(checkpoint.request, None, reason)
        self._refuse_waiting(reason)
        stop, self._stop = self._stop, None
        if stop is None or stop.phase is _Stopping.TAKING:
            return  # answered with its checkpoint, now or when storage has said what became of it
        if stop.phase is _Stopping.TAKEN:
            what = "savepoint" if stop.rescale is None else "checkpoint"
            reason = f"{what} {stop.path} is complete, but the job failed before it had ended: {error}"
        self._answer(stop.request, None, reason)

    def _on_job_over(self, status: JobStatus) -> None:
        self._is_running = False
        reason = f"the job is over: {status.name}"
        for checkpoint in (*self._collecting.values(), *self._publishing.values()):
            self._note_end(checkpoint, CheckpointStatus.SUPERSEDED, failure_message=reason)
            self._answer(checkpoint.request, None, reason)
        self._collecting.clear()
        self._publishing.clear()
        self._refuse_waiting(reason)
        stop, self._stop = self._stop, None
        if stop is not None and stop.phase is _Stopping.TAKEN:
            self._answer(stop.request, stop.path, reason)
        elif stop is not None and stop.phase is not _Stopping.TAKING:
            self._answer(stop.request, None, reason)
        if self.is_periodic or self._statistics.begun:
            self._out.append(CleanUp(keep=self._keeps(status)))

    def _keeps(self, status: JobStatus) -> bool:
        if status is JobStatus.CANCELED:
            return self._settings.retention is Retention.RETAIN_ON_CANCELLATION
        return status is not JobStatus.FINISHED and (self.has_completed or self._first_id > 1)

    # Subtasks.

    def _on_subtask(self, message: CheckpointMessage) -> None:
        if (message.vertex, message.subtask) not in self._subtasks:
            return
        if isinstance(message, SubtaskEnded):
            self._ended.add((message.vertex, message.subtask))
        if not self._is_running:
            return
        match message:
            case SnapshotAcknowledged():
                self._on_acknowledged(message)
            case SnapshotDeclined(checkpoint_id, vertex, subtask, reason):
                if (declined := self._collecting.get(checkpoint_id)) is not None:
                    self._fail(declined, f"{self._name(vertex, subtask)} declined: {reason}")

    def _on_acknowledged(self, message: SnapshotAcknowledged) -> None:
        checkpoint = self._collecting.get(message.checkpoint_id)
        if checkpoint is None:
            if (order := self._aborted.get(message.checkpoint_id)) is not None:
                self._out.append(DiscardSnapshots(order, (message,)))
            return
        self._note_acknowledged(checkpoint, message)
        if len(checkpoint.acknowledged) == len(self._subtasks):
            self._publishing[checkpoint.id] = self._collecting.pop(checkpoint.id)
            self._out.append(
                PublishCheckpoint(checkpoint.order, checkpoint.handed_in, checkpoint.enumerators)
            )

    def _note_acknowledged(self, checkpoint: _Checkpoint, message: SnapshotAcknowledged) -> None:
        subtask = (message.vertex, message.subtask)
        if subtask in checkpoint.acknowledged:
            return
        checkpoint.acknowledged[subtask] = message
        acknowledgement = SubtaskAcknowledgement.of(message, self._now)
        checkpoint.summary = replace(
            checkpoint.summary,
            acknowledgements=(*checkpoint.summary.acknowledgements, acknowledgement),
        )
        self._statistics = self._statistics.with_changed(checkpoint.summary)

    def _name(self, vertex: int, subtask: int) -> str:
        name, parallelism = self._names[vertex]
        return f"{name} ({subtask + 1}/{parallelism})"

    # Beginning.

    def _begin(self, kind: CheckpointKind, request: int | None = None, directory: str = "") -> None:
        checkpoint_id = self._next_id
        self._next_id += 1
        order = CheckpointOrder(
            checkpoint_id,
            int(self._now * 1000),
            kind,
            full=not self._settings.incremental
            or self._needs_full
            or any(each.full for each in self._wanted),
            completed=self._newest,
            **self._directories(checkpoint_id, kind, directory),
        )
        summary = CheckpointSummary(checkpoint_id, kind, to_millis(self._now), len(self._subtasks))
        begun = _Checkpoint(order, self._attempt, self._now, request, summary)
        if kind is CheckpointKind.CHECKPOINT:
            begun.wanted_by = tuple(each.request for each in self._wanted)
            self._wanted = []
        self._collecting[checkpoint_id] = begun
        self._statistics = self._statistics.with_begun(summary)
        self._out.append(SaveEnumerators(checkpoint_id))

    def _directories(self, checkpoint_id: int, kind: CheckpointKind, directory: str) -> dict[str, str]:
        if kind.is_savepoint:
            name = f"savepoint-{self._job_id[:6]}-{self._random.getrandbits(48):012x}"
            return {"root": join_uri(directory, name)}
        return {"root": self._root, "directory": f"chk-{checkpoint_id}"} if self._root else {}

    def _on_enumerators(self, checkpoint_id: int, states: Mapping[str, bytes]) -> None:
        checkpoint = self._collecting.get(checkpoint_id)
        if checkpoint is not None:
            checkpoint.enumerators = states
            self._send(TriggerCheckpoint(checkpoint.order), self._source_tasks)

    def _on_request(self, requested: SavepointRequest) -> None:
        if self.is_periodic or not self._is_running or self._waiting_savepoints.all_stay:
            self._begin_requested(requested)
        elif self._waiting_savepoints.ended:
            self._answer(requested.request, None, self._why_too_late())
        elif self._waiting_savepoints.add(requested, self._now):
            self._send(StayForSavepoint(), self._tasks)

    def _on_checkpoint_requested(self, requested: CheckpointRequested) -> None:
        if not self.is_periodic:
            why = "it takes savepoints only; set 'execution.checkpointing.interval'"
        elif not self._is_running:
            why = "not all tasks of the job are running"
        elif self._stop is not None or self._is_ending or self._all_ended:
            why = "the job is ending"
        else:
            self._wanted.append(requested)
            return
        self._answer_checkpoint((requested.request,), None, why)

    def _begin_requested(self, requested: SavepointRequest) -> None:
        match requested:
            case SavepointRequested(request, directory):
                self._on_savepoint(request, directory)
            case StopWithSavepointRequested(request, directory, drain):
                self._on_stop(request, directory, drain)
            case RescaleRequested():
                self._on_rescale(requested)

    def _on_task_ended(self, task: TaskId) -> None:
        if self.is_periodic or self._is_ending:
            return
        self._waiting_savepoints.ended.append(task)
        if self._waiting_savepoints.is_waiting:
            self._refuse_waiting(self._why_too_late())
            self._let_go()

    def _why_too_late(self) -> str:
        task = self._waiting_savepoints.ended[0]
        ended = [
            self._name(vertex.id, task.index - vertex.first_task)
            for vertex in self._vertices
            if vertex.stage == task.stage
            and vertex.first_task <= task.index < vertex.first_task + vertex.parallelism
        ]
        return (
            f"{' and '.join(ended)} has processed everything and ended, and its state is gone with it; a job with "
            "enable_checkpointing(interval), which may be long, keeps it until its end"
        )

    def _refuse_waiting(self, reason: str) -> None:
        self._answer_checkpoint(tuple(each.request for each in self._wanted), None, reason)
        self._wanted = []
        for waiting in self._waiting_savepoints.take():
            self._answer(waiting.request, None, reason)

    def _let_go(self) -> None:
        self._waiting_savepoints.let_go()
        self._send(MayEnd(), self._tasks)

    def _on_savepoint(self, request: int, directory: str | None) -> None:
        chosen = self._accepted(request, directory, (*self._collecting.values(), *self._publishing.values()))
        if chosen:
            self._begin(CheckpointKind.SAVEPOINT, request, chosen)

    def _on_stop(self, request: int, directory: str | None, drain: bool) -> None:
        # A FINAL checkpoint that can still be aborted is taken as a savepoint instead.
        chosen = self._accepted(request, directory, tuple(self._publishing.values()))
        if chosen:
            self._stop = _Stop(request, chosen, drain)
            self._supersede_all(CheckpointKind.CHECKPOINT, CheckpointKind.FINAL)

    def _on_rescale(self, requested: RescaleRequested) -> None:
        under_way = (*self._collecting.values(), *self._publishing.values())
        why = "the job is ending" if self._all_ended else self._in_the_way(under_way)
        if why:
            self._answer(requested.request, None, why)
            return
        self._stop = _Stop(requested.request, "", rescale=requested)
        self._supersede_all(CheckpointKind.CHECKPOINT)

    def _in_the_way(self, under_way: tuple[_Checkpoint, ...]) -> str:
        """What keeps the job from taking a savepoint now, or from ending with one; empty when nothing does."""
        if not self._is_running:
            return "not all tasks of the job are running"
        if self._stop is not None and self._stop.rescale is not None:
            return "its parallelism is being changed"
        if self._stop is not None:
            return "the job is being stopped with another savepoint"
        if self._is_ending or any(checkpoint.kind.ends_tasks for checkpoint in under_way):
            return "the job is ending"
        return ""

    def _accepted(
        self, request: int, directory: str | None, under_way: tuple[_Checkpoint, ...]
    ) -> str | None:
        """The directory for a savepoint, when one can be taken now; the request is answered when not."""
        chosen = directory or self._settings.savepoint_directory
        if why := self._in_the_way(under_way):
            self._answer(request, None, why)
        elif not chosen:
            self._answer(
                request,
                None,
                "no directory was given and none is configured; set 'execution.checkpointing.savepoint-dir'",
            )
        else:
            return chosen
        return None

    # What is due.

    def _do_what_is_due(self) -> None:
        for checkpoint in (*self._collecting.values(), *self._publishing.values()):
            if self._is_running and self._now >= checkpoint.began + self._settings.timeout:
                self._fail_overdue(checkpoint)
        if self._waiting_savepoints.is_waiting and self._now >= self._stay_due:
            self._refuse_waiting(f"not all tasks have answered after {self._settings.timeout:g} s")
        if self._is_ending or not self._is_running:
            return
        self._refuse_late_rescale()
        if self._stop is not None:
            self._continue_stopping(self._stop)
        elif not self.is_periodic:
            if self._waiting_savepoints.all_stay and not self._collecting and not self._publishing:
                self._let_go()
        elif self._all_ended:
            self._begin_final_checkpoint_when_due()
        elif (due := self._periodic_due()) is not None and due <= self._now:
            self._next_due = self._now + (self._settings.interval or 0.0)
            self._begin(CheckpointKind.CHECKPOINT)
        self._set_timer()

    def _fail_overdue(self, checkpoint: _Checkpoint) -> None:
        why = self._missing(checkpoint)
        if checkpoint.id in self._publishing:
            self._collecting[checkpoint.id] = self._publishing.pop(checkpoint.id)
            self._overdue[checkpoint.id] = checkpoint.order
            why = ": all subtasks have acknowledged it, but storage has not answered yet"
        self._fail(checkpoint, f"not complete after {self._settings.timeout:g} s{why}")

    def _missing(self, checkpoint: _Checkpoint) -> str:
        missing = sorted(self._subtasks - checkpoint.acknowledged.keys())
        if not missing:
            return ""
        first = self._name(*missing[0])
        return f": {len(missing)} of {len(self._subtasks)} subtasks have not acknowledged it, the first is {first}"

    @property
    def _stay_due(self) -> float:
        """When tasks that were asked to stay must have answered."""
        return self._waiting_savepoints.waiting_since + self._settings.timeout

    @property
    def _all_ended(self) -> bool:
        return len(self._ended) == len(self._subtasks)

    def _refuse_late_rescale(self) -> None:
        """All input was processed while a rescale waited for something else: the job ends instead."""
        stop = self._stop
        if (
            stop is not None
            and stop.rescale is not None
            and stop.phase is _Stopping.WAITING
            and self._all_ended
        ):
            self._stop = None
            self._answer(stop.request, None, "the job is ending")

    def _continue_stopping(self, stop: _Stop) -> None:
        if self._collecting or self._publishing:
            return
        if self._all_ended:
            stop.phase = _Stopping.TAKING
            self._begin(CheckpointKind.FINAL_SAVEPOINT, stop.request, stop.directory)
        elif stop.phase is _Stopping.WAITING and stop.drain:
            stop.phase = _Stopping.DRAINING
            stop.has_ended_sources = True
            self._send(StopSources(), self._source_tasks)
        elif stop.phase is _Stopping.WAITING:
            stop.phase = _Stopping.TAKING
            kind = CheckpointKind.STOP if stop.rescale is None else CheckpointKind.RESCALE
            self._begin(kind, stop.request, stop.directory)

    def _begin_final_checkpoint_when_due(self) -> None:
        self._supersede_all(CheckpointKind.CHECKPOINT)
        others = (*self._collecting.values(), *self._publishing.values())
        if self._now >= self._final_due and not any(
            checkpoint.kind.ends_tasks or checkpoint.kind.is_savepoint for checkpoint in others
        ):
            self._begin(CheckpointKind.FINAL)

    def _periodic_due(self) -> float | None:
        """When the next periodic checkpoint may begin; None while something has to happen before."""
        if not self.is_periodic or self._is_ending or self._all_ended or self._stop is not None:
            return None
        under_way = (*self._collecting.values(), *self._publishing.values())
        if sum(not checkpoint.kind.is_savepoint for checkpoint in under_way) >= self._settings.concurrent:
            return None
        return self._now if self._wanted else max(self._next_due, self._last_end + self._settings.min_pause)

    def _set_timer(self) -> None:
        under_way = (*self._collecting.values(), *self._publishing.values())
        moments = [checkpoint.began + self._settings.timeout for checkpoint in under_way]
        if (due := self._periodic_due()) is not None:
            moments.append(due)
        if self._all_ended and self._final_due > self._now:
            moments.append(self._final_due)
        if self._waiting_savepoints.is_waiting:
            moments.append(self._stay_due)
        if moments and (wake_at := min(moments)) != self._wake_at:
            self._wake_at = wake_at
            self._out.append(SetTimer(self._attempt, Timer.CHECKPOINT, max(0.0, wake_at - self._now)))

    # The end of a checkpoint.

    def _on_published(self, checkpoint: _Checkpoint, path: str) -> None:
        self._note_end(checkpoint, CheckpointStatus.COMPLETED, path=path)
        self._last_end = self._now
        self._failures = 0
        if self._is_of_this_attempt(checkpoint):
            self._needs_full &= checkpoint.kind.is_savepoint
            self._is_ending = checkpoint.kind.ends_tasks
            self._supersede_older(checkpoint)
            self._send(CheckpointCompleted(checkpoint.id, final=checkpoint.kind.ends_tasks), self._tasks)
        self._tell_about(checkpoint, path)
        if not checkpoint.kind.is_savepoint:
            self._newest = max(self._newest, checkpoint.id)
            self._out.append(SubsumeOlder(self._needed_from(), self._newest))

    def _needed_from(self) -> int | None:
        """The oldest complete checkpoint that one which is being taken builds on; None when none does."""
        under_way = (*self._collecting.values(), *self._publishing.values())
        return min((c.order.completed for c in under_way if not c.order.wants_full), default=None)

    def _is_of_this_attempt(self, checkpoint: _Checkpoint) -> bool:
        return self._is_running and checkpoint.attempt == self._attempt

    def _tell_about(self, checkpoint: _Checkpoint, path: str) -> None:
        if not checkpoint.kind.ends_tasks:
            self._answer(checkpoint.request, path)
        elif self._stop is not None and self._stop.request == checkpoint.request:
            self._stop.phase, self._stop.path = _Stopping.TAKEN, path
            if self._stop.rescale is not None:
                self._out.append(EndTasksForRescale(self._stop.rescale, checkpoint.id))
        elif checkpoint.request is not None:
            what = "checkpoint" if checkpoint.kind is CheckpointKind.RESCALE else "savepoint"
            self._answer(
                checkpoint.request, None, f"{what} {path} is complete, but the job had failed before"
            )

    def _supersede_older(self, checkpoint: _Checkpoint) -> None:
        for other in list(self._collecting.values()):
            if checkpoint.kind.ends_tasks:
                self._supersede(other, "the job has ended before it")
            elif other.id < checkpoint.id and other.kind is CheckpointKind.CHECKPOINT:
                self._supersede(other, f"checkpoint {checkpoint.id} was complete before it")

    def _on_not_published(self, checkpoint: _Checkpoint, error: BaseException, fenced: bool) -> None:
        if fenced:
            self._note_failure(checkpoint, str(error))
            self._answer(checkpoint.request, None, str(error))
            self._end_attempt(FailJob(error))
            return
        self._collecting[checkpoint.id] = checkpoint
        self._fail(checkpoint, f"it could not be published: {error}", error)

    def _fail(self, checkpoint: _Checkpoint, reason: str, cause: BaseException | None = None) -> None:
        """A checkpoint has failed by itself; what that means depends on who wanted it."""
        self._note_failure(checkpoint, reason)
        self._abort(checkpoint)
        self._last_end = self._now
        stop = self._stop
        if checkpoint.kind.is_savepoint or checkpoint.kind is CheckpointKind.RESCALE:
            self._answer(checkpoint.request, None, reason, cause)
            if stop is not None and stop.request == checkpoint.request:
                self._stop = None
                if stop.has_ended_sources:
                    self._rewind(reason)
            return
        self._final_due = self._now + FINAL_RETRY_SECONDS
        self._count_failure(checkpoint, reason, cause)

    def _note_failure(self, checkpoint: _Checkpoint, reason: str, is_cancelled: bool = False) -> None:
        self._note_end(checkpoint, CheckpointStatus.FAILED, failure_message=reason)
        if not is_cancelled:
            kind = "savepoint" if checkpoint.kind.is_savepoint else "checkpoint"
            seconds = self._now - checkpoint.began
            self._news.append(
                f"{kind} {checkpoint.id} of job '{self._job_name}' failed after {seconds:.1f} s: {reason}"
            )

    def _note_end(
        self, checkpoint: _Checkpoint, status: CheckpointStatus, *, path: str = "", failure_message: str = ""
    ) -> None:
        checkpoint.summary = replace(
            checkpoint.summary,
            status=status,
            ended=to_millis(self._now),
            path=path,
            failure_message=failure_message,
        )
        self._statistics = self._statistics.with_ended(checkpoint.summary)
        is_complete = status is CheckpointStatus.COMPLETED
        self._answer_checkpoint(checkpoint.wanted_by, checkpoint.id if is_complete else None, failure_message)

    def _rewind(self, reason: str) -> None:
        error = CheckpointError(
            f"job '{self._job_name}' could not be stopped, because its savepoint failed: {reason}"
        )
        # Without checkpoints there is nothing to go back to: that is for the restart strategy to decide.
        self._end_attempt(FailAttempt(error, rewind=self.is_periodic))

    def _end_attempt(self, instruction: FailAttempt | FailJob) -> None:
        self._is_running = False  # nothing may begin, nobody may commit, before `AttemptOver` comes
        self._out.append(instruction)

    def _count_failure(self, checkpoint: _Checkpoint, reason: str, cause: BaseException | None) -> None:
        self._failures += 1
        if self._failures <= self._settings.tolerable_failures or not self._is_running:
            return
        error = CheckpointError(
            f"checkpoint {checkpoint.id} failed: {reason}; that makes {self._failures} failed checkpoints in a row, and "
            f"'execution.checkpointing.tolerable-failed-checkpoints' allows {self._settings.tolerable_failures}"
        )
        error.__cause__ = cause
        self._failures = 0
        self._end_attempt(FailAttempt(error))

    def _supersede_all(self, *kinds: CheckpointKind) -> None:
        for checkpoint in list(self._collecting.values()):
            if checkpoint.kind in kinds:
                self._supersede(checkpoint, "something else takes its place")

    def _supersede(self, checkpoint: _Checkpoint, reason: str) -> None:
        """A checkpoint is not wanted any more, which is no failure."""
        self._note_end(checkpoint, CheckpointStatus.SUPERSEDED, failure_message=reason)
        self._abort(checkpoint)
        self._answer(checkpoint.request, None, reason)

    def _abort(self, checkpoint: _Checkpoint) -> None:
        del self._collecting[checkpoint.id]
        self._aborted[checkpoint.id] = checkpoint.order
        if self._is_of_this_attempt(checkpoint):
            self._send(CheckpointAborted(checkpoint.id), self._tasks)
        self._out.append(DiscardSnapshots(checkpoint.order, checkpoint.handed_in))

    # Saying so.

    def _send(self, message: MasterMessage, tasks: tuple[TaskId, ...]) -> None:
        self._out.append(SendToTasks(tasks, message))

    def _answer(
        self, request: int | None, path: str | None, reason: str = "", cause: BaseException | None = None
    ) -> None:
        if request is None:
            return
        if request in self._rescales:
            self._answer_rescale(request, reason, cause)
            return
        error = None
        if path is None:
            error = CheckpointError(f"no savepoint of job '{self._job_name}': {reason}")
            error.__cause__ = cause
        self._out.append(AnswerSavepoint(request, path, error))

    def _answer_rescale(self, request: int, reason: str, cause: BaseException | None) -> None:
        self._rescales.discard(request)
        error = RescaleError(f"job '{self._job_name}' keeps its parallelism: {reason}")
        error.__cause__ = cause
        self._out.append(AnswerRescale(request, error))

    def _answer_checkpoint(
        self, requests: tuple[int, ...], checkpoint_id: int | None, reason: str = ""
    ) -> None:
        for request in requests:
            error = None
            if checkpoint_id is None:
                error = CheckpointError(f"no checkpoint of job '{self._job_name}': {reason}")
            self._out.append(AnswerCheckpoint(request, checkpoint_id, error))


def _source_tasks(plan: JobPlan) -> tuple[TaskId, ...]:
    """The tasks that host vertices without input: barriers begin there."""

    def tasks() -> Iterator[TaskId]:
        for vertex in plan.vertices:
            if not plan.edges_into(vertex.id):
                for subtask in range(vertex.parallelism):
                    yield TaskId(vertex.stage, vertex.first_task + subtask)

    return tuple(sorted(set(tasks())))
