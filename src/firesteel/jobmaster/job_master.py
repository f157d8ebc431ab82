"""The shell around `master_core`: one thread that pops events from a mailbox and performs instructions.

That thread never waits for anything but events. The engine's attempt has a thread of its own, and so has whatever asks
the engine for something; tasks have two for each connection; storage is written, read and tidied in one more, and what
enumerators want done aside in another. Only enumerators run in the thread itself; should they, or anything else, hold it
up, a job that was told to end is ended without it, by a watch that every such wish starts.
"""

from __future__ import annotations

import itertools
import logging
import queue
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import Any

from firesteel.checkpoint.storage import check_writable
from firesteel.common.errors import (
    CheckpointError,
    JobCancelledError,
    QueryableStateError,
    StorageError,
)
from firesteel.common.job_execution_result import JobExecutionResult
from firesteel.common.job_id import JobID
from firesteel.common.job_status import JobStatus
from firesteel.common.options import SAVEPOINT_DIR
from firesteel.common.time import to_millis
from firesteel.compiler.program_plans import Bounds, ProgramPlans
from firesteel.jobmaster.attempt import AttemptMaster, AttemptRunner, TaskProcess
from firesteel.jobmaster.checkpoints.store import CheckpointStore
from firesteel.jobmaster.collect_buffer import CollectBuffer, CollectBuffers
from firesteel.jobmaster.events import (
    AttemptAccepted,
    CancelRequested,
    CheckpointRequested,
    Event,
    MasterFailed,
    SavepointRequested,
    SilenceMeasured,
    StateQueried,
    StopRequested,
    StopWithSavepointRequested,
    Submitted,
    Timer,
    TimerElapsed,
    WorkDone,
)
from firesteel.jobmaster.failure_history import Failure
from firesteel.jobmaster.instructions import (
    AnnounceRestart,
    AnswerCheckpoint,
    AnswerQuery,
    AnswerRescale,
    AnswerSavepoint,
    ChangePlan,
    ChangeStatus,
    CleanUp,
    CompleteJob,
    CountSlots,
    DiscardSnapshots,
    FindRestore,
    Instruction,
    KillAttempt,
    MeasureSilence,
    PublishCheckpoint,
    RunWork,
    SendToTasks,
    SetTimer,
    StartAttempt,
    StorageInstruction,
    SubsumeOlder,
)
from firesteel.jobmaster.interruptible_event import CallsAtEnd, InterruptibleEvent
from firesteel.jobmaster.job_lifecycle import CANCEL_KILL_SECONDS, FORCE_SECONDS
from firesteel.jobmaster.job_metrics import checkpoint_metrics
from firesteel.jobmaster.job_snapshot import JobSnapshot
from firesteel.jobmaster.job_times import JobTimes
from firesteel.jobmaster.master_core import MasterCore, MasterSettings, MasterStart
from firesteel.jobmaster.metric_registry import MetricRegistry
from firesteel.jobmaster.pending_requests import PendingRequests
from firesteel.jobmaster.queryable_states import QueryableState
from firesteel.jobmaster.rescaling import Rescaling
from firesteel.jobmaster.statistics import JobStatistics, ReportBook
from firesteel.jobmaster.task_states import TaskChange, TaskStatus
from firesteel.jobmaster.terminal.progress import JobListener
from firesteel.plan.executor import Deployment, Executor, SimulatedTime, SlotAllowance, VisibleExecutors
from firesteel.plan.job_plan import JobPlan
from firesteel.plan.messages import TaskAnswer, TaskId, TaskInquiry

_LOG = logging.getLogger(__name__)

#: How long collectors that have said everything may take to be read after the job has finished.
_LINGER_SECONDS = 5.0
_JOIN_SECONDS = 2.0
#: How long it may take to end the processes of an attempt that is over.
_FORCE_SECONDS = 1.0
#: How long storage may take to tidy up at the end of a job; less when somebody waits for the end.
_STORAGE_SECONDS = 30.0
_CANCEL_STORAGE_SECONDS = 2.0
#: By how much the end of a job that was told to end may be late before it is ended without the master's thread.
_LATE_SECONDS = 1.5


class JobMaster:
    """Runs one job. Public methods may be called from any thread.

    ``store`` is needed when ``settings`` ask for checkpoints; ``start`` is what it gave. ``plans`` make the plans that the job
    can continue as; without them it keeps its parallelism. ``allowance``: who says how many slots it may have then, beside the engine.
    """

    def __init__(
        self,
        plan: JobPlan,
        executor: Executor,
        settings: MasterSettings | None = None,
        *,
        start: MasterStart | None = None,
        store: CheckpointStore | None = None,
        listeners: Sequence[JobListener] = (),
        plans: ProgramPlans | None = None,
        allowance: SlotAllowance | None = None,
    ) -> None:
        start = start or MasterStart(str(JobID()))
        self.job_id = JobID(start.job_id)
        self.name = plan.name
        #: Completed when the job is over and nothing of it is left; `over` is set then.
        self.result: Future[JobExecutionResult] = Future()
        self.result.set_running_or_notify_cancel()  # whoever stops waiting must not end it for the others
        self.over = InterruptibleEvent()
        #: Made when `result` is there.
        self.calls_at_end = CallsAtEnd()
        #: Set when the engine has accepted the job, or the job is over.
        self.deployed = InterruptibleEvent()
        #: Whether the engine has accepted the job; final when `deployed` is set.
        self.accepted = False
        self.plan = plan
        self._executor = executor
        self._store = store
        self._listeners = listeners
        settings = settings or MasterSettings()
        self._core = MasterCore(plan, settings, start, plans=plans)
        self._heartbeat = settings.heartbeat
        self._end_seconds = settings.grace_seconds + CANCEL_KILL_SECONDS + FORCE_SECONDS + _LATE_SECONDS
        self._watch_lock = threading.Lock()
        self._watch: threading.Timer | None = None
        self._completing = threading.Lock()
        self._forced_status: JobStatus | None = None
        self._end_wanted_at: float | None = None
        self._mailbox: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._clock = _Clock()
        self._timers = _Timers()
        self._reports = ReportBook(plan)
        self._times = JobTimes(self._clock.now)
        #: All metrics of the job, for whoever asks.
        self.metrics = MetricRegistry(start.job_id, self._reports, self._job_figures, lambda: self._attempts)
        self._create_requests(plan, plans, settings.elastic is not None, allowance)
        self._checkpoint_settings = checkpoints = settings.checkpoints
        self._buffers = CollectBuffers(plan, checkpoints is not None and checkpoints.interval is not None)
        self._savepoint_directory = None if checkpoints is None else checkpoints.savepoint_directory
        self._attempt_master: AttemptMaster | None = None
        self._runner: AttemptRunner | None = None
        self._began = time.monotonic()
        self._ended: float | None = None
        self._attempts = 0
        self._create_threads(start.job_id[:8])

    def _create_requests(
        self, plan: JobPlan, plans: ProgramPlans | None, is_elastic: bool, allowance: SlotAllowance | None
    ) -> None:
        """What people ask of the job, and wait for."""
        numbers = itertools.count(1)  # no two requests have the same
        self._savepoints = PendingRequests[str]("savepoint", plan.name, numbers)
        self._checkpoints = PendingRequests[int]("checkpoint", plan.name, numbers)
        self._queries = PendingRequests[bytes]("answer", plan.name, numbers, QueryableStateError)
        job = (str(self.job_id), plan)
        self._rescaling = Rescaling(
            job,
            plans,
            self._executor,
            self._mailbox.put,
            numbers,
            is_elastic,
            allowance,
            lambda: self._core.rescales.is_one_open,
        )

    def _create_threads(self, short_id: str) -> None:
        self._storage_thread = IoThread(f"firesteel-storage-{short_id}")
        self._work_thread = IoThread(f"firesteel-enumerators-{short_id}")
        self._thread = threading.Thread(target=self._run, name=f"firesteel-job-{short_id}", daemon=True)
        self._running = threading.Lock()  # never released: only one thread runs the job

    # For clients.

    def start(self) -> None:
        """Submit the job, or, when it was told to end before, let it end; a second call changes nothing."""
        self._mailbox.put(Submitted())
        if not (self._thread.is_alive() or self.result.done()):
            self._thread.start()

    def cancel(self) -> None:
        """Ask all tasks to end now. The job is over some seconds after that, whatever does not answer."""
        self._watch_over_end(JobStatus.CANCELED, JobCancelledError(f"job '{self.name}' was cancelled"))
        self._mailbox.put(CancelRequested())

    def keep_checkpoints(self) -> None:
        """However the job ends, its checkpoints stay."""
        if self._store is not None:
            self._store.keeps_checkpoints = True

    @property
    def has_checkpoints(self) -> bool:
        """Whether there is something in a directory that the job can resume from when it is started again."""
        return self._store is not None and self._store.has_checkpoints

    def fail(self, error: BaseException) -> None:
        """End the job with this error, from which no restart helps."""
        self._watch_over_end(JobStatus.FAILED, error)
        self._mailbox.put(MasterFailed(error))

    def stop(self) -> None:
        """Ask all sources to end; what is in flight is processed."""
        self._mailbox.put(StopRequested())

    def trigger_savepoint(self, directory: str | None = None) -> Future[str]:
        """Take a savepoint below ``directory``, or where it is configured; the job continues. Gives its path."""
        number, future = self._savepoints.open()
        if self._may_write(number, directory):
            self._mailbox.put(SavepointRequested(number, directory))
        return future

    def trigger_checkpoint(self, full: bool = False) -> Future[int]:
        """Take a checkpoint now, before the next one is due; ``full``: not an incremental one. Gives its number."""
        number, future = self._checkpoints.open()
        self._mailbox.put(CheckpointRequested(number, full))
        return future

    def query_state(self, name: str, key: Any) -> Future[bytes]:
        """Ask the task that owns a key what a queryable state holds for it; key and answer are JSON."""
        number, future = self._queries.open()
        self._mailbox.put(StateQueried(number, name, key))
        return future

    @property
    def queryable_states(self) -> tuple[QueryableState, ...]:
        """The states that can be asked for now; none between two attempts."""
        return self._core.queryable.shown

    @property
    def is_queryable(self) -> bool:
        """Whether the job lets others ask for its states."""
        return self._core.queryable.is_enabled

    def stop_with_savepoint(self, drain: bool, directory: str | None = None) -> Future[str]:
        """Take a savepoint and end the job with it; gives its path when the job has ended.

        ``drain``: process everything in flight before, as at the end of the input.
        """
        number, future = self._savepoints.open()
        if self._may_write(number, directory):
            self._mailbox.put(StopWithSavepointRequested(number, directory, drain))
        return future

    def rescale(self, parallelism: int) -> Future[JobPlan]:
        """Go on with another default parallelism, which operators with one of their own do not follow. Gives the new plan.

        The job takes a checkpoint, its tasks end with it, and others start from it. If that cannot be, the job goes on as it
        was: `RescaleError`.
        """
        return self._rescaling.to_default(parallelism)

    def change_requirements(self, bounds: Mapping[str, Bounds]) -> Future[JobPlan]:
        """Go on with another parallelism of some operators, by their ids; the others keep theirs. See `rescale`."""
        return self._rescaling.to_bounds(bounds)

    def _may_write(self, request: int, directory: str | None) -> bool:
        """Whether a savepoint can be written there; if not the request is answered.

        Tried here, by whoever asks: tasks would find out in the middle of a checkpoint, or after they have drained.
        """
        target = directory or self._savepoint_directory
        if target is None or self._store is None:
            return True  # refused by the coordinator, for better reasons
        try:
            check_writable(target, "savepoint directory", f"'{SAVEPOINT_DIR.key}'")
        except StorageError as error:
            problem = CheckpointError(f"no savepoint of job '{self.name}': {error}")
            self._savepoints.answer(request, None, problem)
            return False
        return True

    @property
    def status(self) -> JobStatus:
        """As the core has it, unless the job was ended without its thread, which did not answer."""
        return self._forced_status or self._core.status

    def failures(self) -> tuple[Failure, ...]:
        """What attempts failed with, the newest first."""
        return self._core.failures

    def task_statuses(self) -> list[TaskStatus]:
        """The tasks and their states; of a job between two attempts, none."""
        return self._core.task_statuses()

    def statistics(self) -> JobStatistics:
        """Records, watermarks and metrics by operator, as last reported, and checkpoints."""
        ended = self._ended
        return replace(
            self._reports.statistics(),
            checkpoints=self._core.checkpoint_statistics,
            restarts=max(0, self._attempts - 1),
            elapsed=(time.monotonic() if ended is None else ended) - self._began,
        )

    def _job_figures(self) -> dict[str, Any]:
        restarts = max(0, self._attempts - 1)
        checkpoints = checkpoint_metrics(self._core.checkpoint_statistics)
        return {**self._times.metrics(), "numRestarts": restarts, "fullRestarts": restarts, **checkpoints}

    def snapshot(self) -> JobSnapshot:
        """Everything that is known of the job now."""
        attempt = self._attempt_master
        return JobSnapshot(
            str(self.job_id),
            self.name,
            self.status,
            to_millis(self._clock.now()),
            self._times.began_ms,
            self._times.ended_ms,
            self._core.status_times,
            self._core.attempt,
            tuple(self.task_statuses()),
            self._core.earlier_tasks,
            self.statistics(),
            self._reports.reports(),
            self.failures(),
            self._checkpoint_settings,
            self._core.hosts,
            self._heartbeat,
            {} if attempt is None else {origin.task: seconds for origin, seconds in attempt.silences()},
            None if attempt is None else attempt.slot_wait,
            self._rescaling.bounds,
            self._core.rescales.newest_first,
            self._core.rescales.counts,
            self._core.wanted_slots,
            self._core.slots_seen,
        )

    # What tasks and the engine tell of themselves, beside the master's thread.

    def inquire(
        self, tasks: Iterable[TaskId], make: Callable[[int], TaskInquiry], seconds: float
    ) -> Mapping[TaskId, TaskAnswer]:
        """Ask tasks something, and wait so long for their answers; those that are gone give none."""
        attempt = self._attempt_master
        return {} if attempt is None else attempt.inquire(tasks, make, seconds)

    def tell_tasks(self, inquiry: TaskInquiry) -> None:
        """Tell all tasks of the current attempt something that none answers."""
        if (attempt := self._attempt_master) is not None:
            attempt.tell_all(inquiry)

    def task_processes(self) -> list[TaskProcess]:
        """Those of the tasks that are connected now."""
        attempt = self._attempt_master
        return [] if attempt is None else attempt.processes()

    @property
    def engine(self) -> VisibleExecutors | None:
        """Who tells of the engine's processes, also when the job is over; None where nobody does."""
        return self._executor if isinstance(self._executor, VisibleExecutors) else None

    def accumulators(self) -> dict[str, Any]:
        """The accumulators' results, as last reported."""
        return self._reports.accumulators()

    def collected_records(self, collect_id: str) -> Iterator[Any]:
        """The records of a collecting sink, as they arrive; closing the iterator drops the rest."""
        buffer = self._buffers.get(collect_id)
        try:
            yield from buffer.records()
        finally:
            buffer.discard()

    def join(self, seconds: float | None = None) -> None:
        """Wait for the master's own thread; it ends right after `result` is set."""
        self._thread.join(seconds)

    # The thread.

    def _run(self) -> None:
        # Whoever is interrupted while the thread starts cannot tell whether it does, and starts it again.
        if not self._running.acquire(blocking=False):
            return
        try:
            while not self.result.done():
                instructions = self._core.handle(self._next_event(), self._clock.now())
                for change in self._core.drain_task_changes():
                    _LOG.info("%s", _change_text(change))
                for news in self._core.drain_news():
                    _LOG.warning("%s", news)
                for instruction in instructions:
                    self._perform(instruction)
            if self._forced_status is not None:
                self._release(
                    finished=False
                )  # the job was ended without this thread, which continues only now
        except BaseException as error:  # noqa: BLE001 - a fault in here must end the job, not leave it hanging
            _LOG.exception("the job master of '%s' failed", self.name)
            self._kill()
            self._complete(JobStatus.FAILED, error)

    def _next_event(self) -> Event:
        while True:
            try:
                return self._mailbox.get(timeout=self._timers.seconds_to_next(time.monotonic()))
            except queue.Empty:
                due = self._timers.pop()
                if isinstance(due, TimerElapsed):
                    return due
                self._do_work(due)

    def _perform(self, instruction: Instruction) -> None:
        match instruction:
            case StartAttempt():
                self._start_attempt(instruction)
            case SendToTasks(tasks, message):
                if self._attempt_master is not None:
                    self._attempt_master.send(tasks, message)
            case KillAttempt(_, by_force):
                self._kill(by_force)
            case MeasureSilence(attempt):
                self._measure_silence(attempt)
            case CountSlots():
                self._rescaling.count_slots(instruction)
            case SetTimer(attempt, timer, seconds):
                if timer is Timer.RESTART and isinstance(self._executor, SimulatedTime):
                    self._executor.pass_time(str(self.job_id), seconds)
                    self._clock.skip(seconds)
                    seconds = 0.0
                self._timers.set(time.monotonic() + seconds, TimerElapsed(attempt, timer))
            case RunWork():
                self._timers.set(time.monotonic() + instruction.delay, instruction)
            case PublishCheckpoint() | DiscardSnapshots() | SubsumeOlder() | FindRestore() | CleanUp():
                self._storage_thread.do(partial(self._use_storage, instruction))
            case AnswerSavepoint(request, path, error):
                self._savepoints.answer(request, path, error)
            case AnswerCheckpoint(request, checkpoint_id, error):
                self._checkpoints.answer(request, checkpoint_id, error)
            case AnswerQuery(request, value, error):
                self._queries.answer(request, value, error)
            case AnswerRescale(request, error):
                self._rescaling.answer(request, error)
            case ChangePlan(plan, _, in_order):
                self._change_plan(plan, in_order)
                self._storage_thread.do(partial(self._use_storage, instruction))
            case AnnounceRestart():
                _LOG.warning("%s", _restart_text(self.name, instruction))
            case ChangeStatus(status):
                self._announce(status)
            case CompleteJob(status, error):
                self._complete(status, error)

    def _change_plan(self, plan: JobPlan, in_order: bool) -> None:
        self.plan = self._rescaling.plan = plan
        self._reports.change_plan(plan)
        if in_order:
            self._buffers.for_all(CollectBuffer.restart)

    def _use_storage(self, instruction: StorageInstruction) -> None:
        assert self._store is not None, "checkpoints without a store"
        answer = self._store.perform(instruction)
        if answer is not None:
            self._mailbox.put(answer)

    def _do_work(self, instruction: RunWork) -> None:
        def work() -> None:
            try:
                answer = WorkDone(instruction.work, instruction.call(), None)
            except Exception as error:  # noqa: BLE001 - for the enumerator that wanted it
                answer = WorkDone(instruction.work, None, error)
            self._mailbox.put(answer)

        self._work_thread.do(work)

    # Attempts.

    def _start_attempt(self, instruction: StartAttempt) -> None:
        self._attempts += 1
        self._reports.clear()
        self._buffers.for_all(CollectBuffer.bound_again)
        deployment = Deployment(
            str(self.job_id),
            instruction.attempt,
            self.plan,
            instruction.checkpointing,
            None if instruction.restore is None else instruction.restore.tasks,
            self._heartbeat,
        )
        post = self._mailbox.put
        self._attempt_master = AttemptMaster(deployment, post, self._reports, self._buffers.get)
        on_accepted = partial(self._on_accepted, instruction.attempt)
        self._runner = AttemptRunner(self._executor, deployment, self._attempt_master, post, on_accepted)
        self._runner.start()

    def _on_accepted(self, attempt: int) -> None:
        self._mailbox.put(AttemptAccepted(attempt))
        self.accepted = True
        self.deployed.set()

    def _kill(self, by_force: bool = False) -> None:
        if self._runner is not None:
            self._runner.kill(by_force)

    def _measure_silence(self, attempt: int) -> None:
        tasks = () if self._attempt_master is None else self._attempt_master.silences()
        engine = None if self._runner is None else self._runner.engine_silence()
        self._mailbox.put(SilenceMeasured(attempt, tasks, engine))

    def _announce(self, status: JobStatus) -> None:
        self._times.changed(status)
        if status in (JobStatus.CANCELLING, JobStatus.FAILING):
            # A task that waits for the consumer of its records does not hear that it is to end.
            self._buffers.for_all(CollectBuffer.lift_bound)
        if status is JobStatus.RESTARTING:
            self._release_attempt(0.0)
        if status is JobStatus.RUNNING:
            self._rescaling.runs()
        for listener in self._listeners:
            try:
                listener.status_changed(self, status)
            except Exception:  # noqa: BLE001 - who watches a job must not be able to end it
                _LOG.warning("a listener of job '%s' failed", self.name, exc_info=True)

    def _release_attempt(self, linger_seconds: float) -> None:
        """End the connections and threads of an attempt that is over, and what is left of its processes."""
        if self._runner is not None and not linger_seconds:
            self._runner.end_remaining_tasks(_FORCE_SECONDS)
        if self._attempt_master is not None:
            self._attempt_master.close(linger_seconds)
        if self._runner is not None:
            self._runner.join(_JOIN_SECONDS if self._runner.is_over else 0.0)
        self._attempt_master = self._runner = None

    # The end.

    def _complete(self, status: JobStatus, error: BaseException | None) -> None:
        self._release(finished=status is JobStatus.FINISHED)
        if self._completing.acquire(blocking=False):  # never released: only one completes the job
            self._conclude(status, error)
        self._end_watch()

    def _conclude(self, status: JobStatus, error: BaseException | None) -> None:
        for line in self._reports.bad_records():
            _LOG.warning("job '%s' %s", self.name, line)
        self._buffers.end(error)
        self._ended = time.monotonic()
        self._times.ended()
        runtime_ms = int((self._ended - self._began) * 1000)
        try:
            if error is not None:
                raise error
            metrics = self._reports.statistics().metrics
            result = JobExecutionResult(self.job_id, runtime_ms, self.accumulators(), metrics)
        except BaseException as reason:  # noqa: BLE001 - an accumulator that cannot be merged ends here too
            self.result.set_exception(reason)
        else:
            self.result.set_result(result)
        self.calls_at_end.make()
        self._savepoints.close(status)
        self._checkpoints.close(status)
        self._queries.close(status)
        self._rescaling.close(status)
        self.over.set()
        self.deployed.set()

    def _release(self, finished: bool) -> None:
        if finished:
            self._buffers.for_all(CollectBuffer.lift_bound)
        self._release_attempt(_LINGER_SECONDS if finished else 0.0)
        self._work_thread.close(_JOIN_SECONDS)
        if not self._storage_thread.close(self._storage_seconds()):
            _LOG.warning(
                "job '%s' ends before its checkpoints were tidied up: storage is too slow", self.name
            )

    def _storage_seconds(self) -> float:
        if self._end_wanted_at is None:
            return _STORAGE_SECONDS
        left = self._end_wanted_at + self._end_seconds - time.monotonic()
        return max(left, _CANCEL_STORAGE_SECONDS)

    # The end without the thread.

    def _watch_over_end(self, status: JobStatus, error: BaseException) -> None:
        with self._watch_lock:
            if self._watch is not None or self.result.done():
                return
            self._end_wanted_at = time.monotonic()
            # Tidying up storage counts too.
            seconds = self._end_seconds + _CANCEL_STORAGE_SECONDS / 2
            self._watch = threading.Timer(seconds, self._end_without_thread, (status, error))
            self._watch.name = f"{self._thread.name}-watch"
            self._watch.daemon = True
            self._watch.start()

    def _end_watch(self) -> None:
        with self._watch_lock:
            if self._watch is not None:
                self._watch.cancel()

    def _end_without_thread(self, status: JobStatus, error: BaseException) -> None:
        if not self._completing.acquire(blocking=False):
            return
        # Reached only when something holds up the thread: an enumerator, a listener, a stream that nobody reads.
        self._forced_status = status
        self._times.changed(status)
        self._kill(by_force=True)
        self._conclude(status, error)
        stuck = sys._current_frames().get(self._thread.ident or 0)
        where = "" if stuck is None else "".join(traceback.format_stack(stuck)[-3:])
        _LOG.error(
            "job '%s' was ended without its master's thread, which does not answer; it is in\n%s",
            self.name,
            where,
        )
        for listener in self._listeners:
            try:
                listener.status_changed(self, status)
            except Exception:  # noqa: BLE001 - who watches a job must not be able to end it
                _LOG.warning("a listener of job '%s' failed", self.name, exc_info=True)


class IoThread:
    """Does slow things one after the other, so that the master's own thread never waits for them.

    The thread exists from the first piece of work on.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._work: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def do(self, work: Callable[[], object]) -> None:
        """Have something done; what it raises is logged."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        self._work.put(work)

    def close(self, seconds: float) -> bool:
        """Do what is left, within ``seconds``; whether all was done."""
        if self._thread is None:
            return True
        self._work.put(None)
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            try:
                work()
            except Exception:  # noqa: BLE001 - the next piece of work has nothing to do with it
                _LOG.exception("work in thread %s failed", self._name)


class _Clock:
    """Seconds since 1970 that never go back."""

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def now(self) -> float:
        return self._offset + time.monotonic()

    def skip(self, seconds: float) -> None:
        """Time that passes for the job and nobody else."""
        self._offset += seconds


class _Timers:
    """What is due when. A timer of the core that is set again replaces the earlier one; work never does."""

    def __init__(self) -> None:
        self._due: dict[Timer | int, tuple[float, TimerElapsed | RunWork]] = {}

    def set(self, due: float, what: TimerElapsed | RunWork) -> None:
        key = what.timer if isinstance(what, TimerElapsed) else what.work
        self._due[key] = (due, what)

    def seconds_to_next(self, now: float) -> float | None:
        if not self._due:
            return None
        return max(0.0, min(due for due, _ in self._due.values()) - now)

    def pop(self) -> TimerElapsed | RunWork:
        """The earliest one."""
        key = min(self._due, key=lambda key: self._due[key][0])
        return self._due.pop(key)[1]


def _change_text(change: TaskChange) -> str:
    where = f" {change.where}" if change.where else ""
    return f"{change.name}, attempt {change.attempt}, switched from {change.before.name} to {change.after.name}{where}"


def _restart_text(name: str, restart: AnnounceRestart) -> str:
    when = f"in {restart.seconds:.1f} s" if restart.seconds >= 0.05 else "now"
    return f"attempt {restart.attempt} of job '{name}' failed, the next one starts {when}: {restart.error}"
