"""The shell around `master_core`: one thread that takes events from a mailbox and performs instructions.

That thread never waits for anything but events. The engine's attempt has a thread of its own, tasks have one for each
connection; storage is written, read and tidied in one more, and what enumerators want done aside in another.
"""

from __future__ import annotations

import itertools
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import Any

from firesteel.checkpoint.storage import check_writable
from firesteel.common.errors import CheckpointError, StorageError
from firesteel.common.job_execution_result import JobExecutionResult
from firesteel.common.job_id import JobID
from firesteel.common.job_status import JobStatus
from firesteel.common.options import SAVEPOINT_DIR
from firesteel.jobmaster.attempt import AttemptMaster, AttemptRunner
from firesteel.jobmaster.checkpoint_store import CheckpointStore
from firesteel.jobmaster.collect_buffer import CollectBuffer
from firesteel.jobmaster.events import (
    CancelRequested,
    Event,
    MasterFailed,
    SavepointRequested,
    StopRequested,
    StopWithSavepointRequested,
    Submitted,
    Timer,
    TimerElapsed,
    WorkDone,
)
from firesteel.jobmaster.gate import Gate
from firesteel.jobmaster.instructions import (
    AnnounceRestart,
    AnswerSavepoint,
    ChangeStatus,
    CleanUp,
    CompleteJob,
    DiscardSnapshots,
    FindRestore,
    Instruction,
    KillAttempt,
    PublishCheckpoint,
    RunWork,
    SendToTasks,
    SetTimer,
    StartAttempt,
    StorageInstruction,
    SubsumeOlder,
)
from firesteel.jobmaster.io_thread import IoThread
from firesteel.jobmaster.master_core import Beginning, MasterCore, MasterSettings
from firesteel.jobmaster.progress import JobListener
from firesteel.jobmaster.statistics import JobStatistics, ReportBook
from firesteel.plan.executor import Deployment, Executor
from firesteel.plan.job_plan import JobPlan

_LOG = logging.getLogger(__name__)

#: How long collectors that have said everything may take to be read after the job has finished.
_LINGER_SECONDS = 5.0
_JOIN_SECONDS = 2.0
#: How long storage may take to tidy up at the end of a job.
_STORAGE_SECONDS = 30.0


class JobMaster:
    """Runs one job. Public methods may be called from any thread.

    ``store`` is needed when ``settings`` ask for checkpoints; ``beginning`` is what it gave.
    """

    def __init__(
        self,
        plan: JobPlan,
        executor: Executor,
        settings: MasterSettings | None = None,
        *,
        beginning: Beginning | None = None,
        store: CheckpointStore | None = None,
        listeners: Sequence[JobListener] = (),
    ) -> None:
        beginning = beginning or Beginning(str(JobID()))
        self.job_id = JobID(beginning.job_id)
        self.name = plan.name
        #: Completed when the job is over and nothing of it is left; `over` is opened then.
        self.result: Future[JobExecutionResult] = Future()
        self.result.set_running_or_notify_cancel()  # whoever gives up waiting must not end it for the others
        self.over = Gate()
        #: Opened when the engine has taken the job, or the job is over.
        self.deployed = Gate()
        #: Whether the engine has taken the job; final when `deployed` is open.
        self.taken = False
        self._plan = plan
        self._executor = executor
        self._store = store
        self._listeners = listeners
        self._core = MasterCore(plan, settings, beginning)
        self._mailbox: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._clock = _Clock()
        self._timers = _Timers()
        self._reports = ReportBook(plan)
        self._buffers = _CollectBuffers()
        self._savepoints = _SavepointRequests(plan.name)
        checkpoints = None if settings is None else settings.checkpoints
        self._savepoint_directory = None if checkpoints is None else checkpoints.savepoint_directory
        self._attempt_master: AttemptMaster | None = None
        self._runner: AttemptRunner | None = None
        self._began = time.monotonic()
        short_id = beginning.job_id[:8]
        self._storage_thread = IoThread(f"firesteel-storage-{short_id}")
        self._work_thread = IoThread(f"firesteel-enumerators-{short_id}")
        self._thread = threading.Thread(target=self._run, name=f"firesteel-job-{short_id}", daemon=True)

    # For clients.

    def start(self) -> None:
        """Submit the job."""
        self._thread.start()
        self._mailbox.put(Submitted())

    def cancel(self) -> None:
        """Ask all tasks to end now."""
        self._mailbox.put(CancelRequested())

    def fail(self, error: BaseException) -> None:
        """End the job with this error, from which no restart helps."""
        self._mailbox.put(MasterFailed(error))

    def stop(self) -> None:
        """Ask all sources to end; what is in flight is processed."""
        self._mailbox.put(StopRequested())

    def trigger_savepoint(self, directory: str | None = None) -> Future[str]:
        """Take a savepoint below ``directory``, or where it is configured; the job goes on. Gives its path."""
        number, future = self._savepoints.open()
        if self._may_write(number, directory):
            self._mailbox.put(SavepointRequested(number, directory))
        return future

    def stop_with_savepoint(self, drain: bool, directory: str | None = None) -> Future[str]:
        """Take a savepoint and end the job with it; gives its path when the job has ended.

        ``drain``: process everything in flight before, as at the end of the input.
        """
        number, future = self._savepoints.open()
        if self._may_write(number, directory):
            self._mailbox.put(StopWithSavepointRequested(number, directory, drain))
        return future

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
        """The job's state now."""
        return self._core.status

    def statistics(self) -> JobStatistics:
        """Records in and out by operator, as last reported, and checkpoints."""
        return replace(self._reports.statistics(), checkpoints=self._core.checkpoint_statistics)

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
        try:
            while not self.result.done():
                for instruction in self._core.handle(self._next_event(), self._clock.now()):
                    self._perform(instruction)
        except BaseException as error:  # noqa: BLE001 - a fault in here must end the job, not leave it hanging
            _LOG.exception("the job master of '%s' failed", self.name)
            self._kill()
            self._complete(JobStatus.FAILED, error)

    def _next_event(self) -> Event:
        while True:
            try:
                return self._mailbox.get(timeout=self._timers.seconds_to_next(time.monotonic()))
            except queue.Empty:
                due = self._timers.take()
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
            case KillAttempt():
                self._kill()
            case SetTimer(attempt, timer, seconds):
                self._timers.set(time.monotonic() + seconds, TimerElapsed(attempt, timer))
            case RunWork():
                self._timers.set(time.monotonic() + instruction.delay, instruction)
            case PublishCheckpoint() | DiscardSnapshots() | SubsumeOlder() | FindRestore() | CleanUp():
                self._storage_thread.do(partial(self._use_storage, instruction))
            case AnswerSavepoint(request, path, error):
                self._savepoints.answer(request, path, error)
            case AnnounceRestart():
                _LOG.warning("%s", _restart_text(self.name, instruction))
            case ChangeStatus(status):
                self._announce(status)
            case CompleteJob(status, error):
                self._complete(status, error)

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
        self._reports.clear()
        self._buffers.for_all(CollectBuffer.bound_again)
        deployment = Deployment(
            str(self.job_id),
            instruction.attempt,
            self._plan,
            instruction.checkpointing,
            None if instruction.point is None else instruction.point.restore,
        )
        post = self._mailbox.put
        self._attempt_master = AttemptMaster(deployment, post, self._reports, self._buffers.get)
        self._runner = AttemptRunner(self._executor, deployment, self._attempt_master, post, self._on_taken)
        self._runner.start()

    def _on_taken(self) -> None:
        self.taken = True
        self.deployed.open()

    def _kill(self) -> None:
        if self._runner is not None:
            try:
                self._runner.kill()
            except Exception:  # noqa: BLE001 - the job ends without the engine's help
                _LOG.warning("could not kill the attempt of job '%s'", self.name, exc_info=True)

    def _announce(self, status: JobStatus) -> None:
        if status in (JobStatus.CANCELLING, JobStatus.FAILING):
            # A task that waits for the consumer of its records does not hear that it is to end.
            self._buffers.for_all(CollectBuffer.lift_bound)
        if status is JobStatus.RESTARTING:
            self._release_attempt(0.0)
        for listener in self._listeners:
            try:
                listener.status_changed(self, status)
            except Exception:  # noqa: BLE001 - who watches a job must not be able to end it
                _LOG.warning("a listener of job '%s' failed", self.name, exc_info=True)

    def _release_attempt(self, linger_seconds: float) -> None:
        """End the connections and threads of an attempt that is over."""
        if self._attempt_master is not None:
            self._attempt_master.close(linger_seconds)
        if self._runner is not None:
            self._runner.join(_JOIN_SECONDS)
        self._attempt_master = self._runner = None

    # The end.

    def _complete(self, status: JobStatus, error: BaseException | None) -> None:
        self._release(finished=status is JobStatus.FINISHED)
        self._buffers.end(error)
        runtime_ms = int((time.monotonic() - self._began) * 1000)
        try:
            if error is not None:
                raise error
            result = JobExecutionResult(self.job_id, runtime_ms, self.accumulators())
        except BaseException as reason:  # noqa: BLE001 - an accumulator that cannot be merged ends here too
            self.result.set_exception(reason)
        else:
            self.result.set_result(result)
        self._savepoints.close(status)
        self.over.open()
        self.deployed.open()

    def _release(self, finished: bool) -> None:
        if finished:
            self._buffers.for_all(CollectBuffer.lift_bound)
        self._release_attempt(_LINGER_SECONDS if finished else 0.0)
        self._work_thread.close(_JOIN_SECONDS)
        if not self._storage_thread.close(_STORAGE_SECONDS):
            _LOG.warning(
                "job '%s' ends before its checkpoints were tidied up: storage is too slow", self.name
            )


class _Clock:
    """Seconds since 1970 that never go back."""

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def now(self) -> float:
        return self._offset + time.monotonic()


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

    def take(self) -> TimerElapsed | RunWork:
        """The earliest one."""
        key = min(self._due, key=lambda key: self._due[key][0])
        return self._due.pop(key)[1]


class _CollectBuffers:
    """The buffers of all collecting sinks; may be used from any thread."""

    def __init__(self) -> None:
        self._buffers: dict[str, CollectBuffer] = {}
        self._lock = threading.Lock()
        self._ended = False
        self._error: BaseException | None = None

    def get(self, collect_id: str) -> CollectBuffer:
        with self._lock:
            buffer = self._buffers.setdefault(collect_id, CollectBuffer())
            if self._ended:
                buffer.end(self._error)
            return buffer

    def for_all(self, action: Callable[[CollectBuffer], None]) -> None:
        with self._lock:
            buffers = list(self._buffers.values())
        for buffer in buffers:
            action(buffer)

    def end(self, error: BaseException | None) -> None:
        with self._lock:
            self._ended = True
            self._error = error
        self.for_all(lambda buffer: buffer.end(error))


class _SavepointRequests:
    """Who waits for a savepoint; may be used from any thread."""

    def __init__(self, job_name: str) -> None:
        self._job_name = job_name
        self._numbers = itertools.count(1)
        self._futures: dict[int, Future[str]] = {}
        self._lock = threading.Lock()
        self._ended: JobStatus | None = None

    def open(self) -> tuple[int, Future[str]]:
        future: Future[str] = Future()
        future.set_running_or_notify_cancel()
        with self._lock:
            number = next(self._numbers)
            if self._ended is None:
                self._futures[number] = future
                return number, future
        future.set_exception(self._too_late())
        return number, future

    def answer(self, request: int, path: str | None, error: BaseException | None) -> None:
        with self._lock:
            future = self._futures.pop(request, None)
        if future is None:
            return
        if path is None:
            future.set_exception(error or self._too_late())
        else:
            future.set_result(path)

    def close(self, status: JobStatus) -> None:
        with self._lock:
            self._ended = status
            left = list(self._futures)
        for request in left:
            self.answer(request, None, None)

    def _too_late(self) -> CheckpointError:
        how = "" if self._ended is None else f": {self._ended.name}"
        return CheckpointError(f"no savepoint of job '{self._job_name}': the job is over{how}")


def _restart_text(name: str, restart: AnnounceRestart) -> str:
    when = f"in {restart.seconds:.1f} s" if restart.seconds >= 0.05 else "now"
    return f"attempt {restart.attempt} of job '{name}' failed, the next one starts {when}: {restart.error}"
