"""The shell around `job_lifecycle`: one thread that takes events from a mailbox and performs instructions."""

from __future__ import annotations

import heapq
import itertools
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any

from firesteel.common.job_execution_result import JobExecutionResult
from firesteel.common.job_id import JobID
from firesteel.common.job_status import JobStatus
from firesteel.jobmaster.attempt import AttemptMaster, AttemptRunner
from firesteel.jobmaster.collect_buffer import CollectBuffer
from firesteel.jobmaster.gate import Gate
from firesteel.jobmaster.job_lifecycle import (
    CancelRequested,
    ChangeStatus,
    CompleteJob,
    Event,
    Instruction,
    JobLifecycle,
    KillAttempt,
    SendToTasks,
    SetTimer,
    StartAttempt,
    StopRequested,
    Submitted,
    TimerElapsed,
)
from firesteel.jobmaster.progress import JobListener
from firesteel.jobmaster.statistics import JobStatistics, ReportBook
from firesteel.plan.executor import Deployment, Executor
from firesteel.plan.job_plan import JobPlan

_LOG = logging.getLogger(__name__)

#: How long collectors that have said everything may take to be read after the job has finished.
_LINGER_SECONDS = 5.0
_JOIN_SECONDS = 2.0


class JobMaster:
    """Runs one job. Public methods may be called from any thread."""

    def __init__(
        self,
        plan: JobPlan,
        executor: Executor,
        *,
        grace_seconds: float = 2.0,
        job_id: JobID | None = None,
        listeners: Sequence[JobListener] = (),
    ) -> None:
        self.job_id = job_id or JobID()
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
        self._listeners = listeners
        self._lifecycle = JobLifecycle(plan, grace_seconds)
        self._mailbox: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._timers: list[tuple[float, int, TimerElapsed]] = []
        self._timer_numbers = itertools.count()
        self._reports = ReportBook(plan)
        self._buffers: dict[str, CollectBuffer] = {}
        self._buffers_lock = threading.Lock()
        self._ended = False
        self._error: BaseException | None = None
        self._attempt_master: AttemptMaster | None = None
        self._runner: AttemptRunner | None = None
        self._began = time.monotonic()
        self._thread = threading.Thread(
            target=self._run, name=f"firesteel-job-{str(self.job_id)[:8]}", daemon=True
        )

    # For clients.

    def start(self) -> None:
        """Submit the job."""
        self._thread.start()
        self._mailbox.put(Submitted())

    def cancel(self) -> None:
        """Ask all tasks to end now."""
        self._mailbox.put(CancelRequested())

    def stop(self) -> None:
        """Ask all sources to end; what is in flight is processed."""
        self._mailbox.put(StopRequested())

    @property
    def status(self) -> JobStatus:
        """The job's state now."""
        return self._lifecycle.status

    def statistics(self) -> JobStatistics:
        """Records in and out by operator, as last reported."""
        return self._reports.statistics()

    def accumulators(self) -> dict[str, Any]:
        """The accumulators' results, as last reported."""
        return self._reports.accumulators()

    def collected_records(self, collect_id: str) -> Iterator[Any]:
        """The records of a collecting sink, as they arrive; closing the iterator drops the rest."""
        buffer = self._collect_buffer(collect_id)
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
                for instruction in self._lifecycle.handle(self._next_event()):
                    self._perform(instruction)
        except BaseException as error:  # noqa: BLE001 - a fault in here must end the job, not leave it hanging
            _LOG.exception("the job master of '%s' failed", self.name)
            self._kill()
            self._complete(JobStatus.FAILED, error)

    def _next_event(self) -> Event:
        while self._timers:
            due, _, elapsed = self._timers[0]
            try:
                return self._mailbox.get(timeout=max(0.0, due - time.monotonic()))
            except queue.Empty:
                heapq.heappop(self._timers)
                return elapsed
        return self._mailbox.get()

    def _perform(self, instruction: Instruction) -> None:
        match instruction:
            case StartAttempt(attempt):
                self._start_attempt(attempt)
            case SendToTasks(tasks, message) if self._attempt_master:
                self._attempt_master.send(tasks, message)
            case KillAttempt():
                self._kill()
            case SetTimer(attempt, timer, seconds):
                entry = (time.monotonic() + seconds, next(self._timer_numbers), TimerElapsed(attempt, timer))
                heapq.heappush(self._timers, entry)
            case ChangeStatus(status):
                self._announce(status)
            case CompleteJob(status, error):
                self._complete(status, error)

    def _start_attempt(self, attempt: int) -> None:
        self._reports.clear()
        deployment = Deployment(str(self.job_id), attempt, self._plan)
        post = self._mailbox.put
        self._attempt_master = AttemptMaster(deployment, post, self._reports, self._collect_buffer)
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
            self._for_all_buffers(CollectBuffer.lift_bound)
        for listener in self._listeners:
            try:
                listener.status_changed(self, status)
            except Exception:  # noqa: BLE001 - who watches a job must not be able to end it
                _LOG.warning("a listener of job '%s' failed", self.name, exc_info=True)

    # The end.

    def _complete(self, status: JobStatus, error: BaseException | None) -> None:
        self._release(finished=status is JobStatus.FINISHED)
        self._end_buffers(error)
        runtime_ms = int((time.monotonic() - self._began) * 1000)
        try:
            if error is not None:
                raise error
            result = JobExecutionResult(self.job_id, runtime_ms, self.accumulators())
        except BaseException as reason:  # noqa: BLE001 - an accumulator that cannot be merged ends here too
            self.result.set_exception(reason)
        else:
            self.result.set_result(result)
        self.over.open()
        self.deployed.open()

    def _release(self, finished: bool) -> None:
        if finished:
            self._for_all_buffers(CollectBuffer.lift_bound)
        if self._attempt_master is not None:
            self._attempt_master.close(_LINGER_SECONDS if finished else 0.0)
        if self._runner is not None:
            self._runner.join(_JOIN_SECONDS)

    def _end_buffers(self, error: BaseException | None) -> None:
        with self._buffers_lock:
            self._ended = True
            self._error = error
        self._for_all_buffers(lambda buffer: buffer.end(error))

    def _for_all_buffers(self, action: Callable[[CollectBuffer], None]) -> None:
        with self._buffers_lock:
            buffers = list(self._buffers.values())
        for buffer in buffers:
            action(buffer)

    def _collect_buffer(self, collect_id: str) -> CollectBuffer:
        with self._buffers_lock:
            buffer = self._buffers.setdefault(collect_id, CollectBuffer())
            if self._ended:
                buffer.end(self._error)
            return buffer
