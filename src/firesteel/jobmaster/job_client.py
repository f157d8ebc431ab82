"""The handle to a running job that ``execute_async`` returns."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from firesteel.checkpoint.storage import absolute
from firesteel.common._metric_values import JobMetrics
from firesteel.common._override import override
from firesteel.common.completable_future import CompletableFuture
from firesteel.common.errors import FiresteelError
from firesteel.common.job_client import JobClient
from firesteel.common.job_execution_result import JobExecutionResult
from firesteel.common.job_id import JobID
from firesteel.common.job_status import JobStatus
from firesteel.compiler.program_plans import Bounds
from firesteel.jobmaster.failure_history import Failure
from firesteel.jobmaster.job_master import JobMaster
from firesteel.jobmaster.job_snapshot import JobSnapshot
from firesteel.jobmaster.metric_registry import MetricRegistry
from firesteel.jobmaster.queryable_states import QueryableState
from firesteel.jobmaster.statistics import JobStatistics
from firesteel.jobmaster.task_states import TaskStatus
from firesteel.metrics import ReportedMetric
from firesteel.plan.job_plan import JobPlan

T = TypeVar("T")

_JOIN_SECONDS = 2.0
_STOPPED = "stopped with a savepoint"


class ProcessTerminated(KeyboardInterrupt):
    """The process was asked to end by a signal other than Ctrl-C: whoever did that may not mean its jobs."""

    def __init__(self, number: int = signal.SIGTERM) -> None:
        super().__init__()
        #: As shells have it.
        self.exit_code = 128 + number


class MasterJobClient(JobClient):
    """Talks to the job master in this process.

    ``hand_over``: how to leave the job to another driver, if it has several.
    """

    def __init__(self, master: JobMaster, hand_over: Callable[[], None] | None = None) -> None:
        self._master = master
        self._hand_over = hand_over
        self._wants_to_hand_over = False
        #: Whether the job was told to end, because its process was.
        self.is_interrupted = False
        #: Whether somebody has asked how the job ended.
        self.outcome_requested = False
        #: Where the REST interface shows the job, as in ``http://localhost:8081``; empty when it does not.
        self.rest_url = ""
        #: What somebody has asked for that ends the job, in words, for those who see that it has ended.
        self.wish = ""

    @override
    def get_job_id(self) -> JobID:
        return self._master.job_id

    def get_job_name(self) -> str:
        """What its lines in the terminal and in the list of jobs call it; not in PyFlink."""
        return self._master.name

    @override
    def get_job_status(self) -> CompletableFuture:
        return CompletableFuture.completed(self._master.status)

    @override
    def get_accumulators(self) -> CompletableFuture:
        """The accumulators' results so far, merged over all subtasks."""
        try:
            return CompletableFuture.completed(self._master.accumulators())
        except Exception as error:  # noqa: BLE001 - merging runs user code, and a future holds what it raises
            return CompletableFuture.failed(error)

    @override
    def get_job_execution_result(self) -> CompletableFuture:
        """The result when the job has finished, or the error that ended it."""
        self.outcome_requested = True
        return CompletableFuture(self._master.result)

    @override
    def cancel(self) -> CompletableFuture:
        """Ask the job to end now; the future is complete when it has, in whatever way."""
        over = CompletableFuture()
        self._master.result.add_done_callback(lambda _: over.complete(None))
        self._master.cancel()
        return over

    def stop(self) -> None:
        """End the sources; the job then finishes by itself, with everything processed."""
        self._master.stop()

    @override
    def stop_with_savepoint(
        self, advance_to_end_of_event_time: bool, savepoint_directory: str | None = None
    ) -> CompletableFuture:
        """Take a savepoint and end the job with it; the future holds its path when the job has ended.

        With ``advance_to_end_of_event_time`` everything in flight is processed first, and all windows and timers
        fire, as at the end of the input. When the savepoint fails, the future holds the error and the job continues.
        """
        directory = None if savepoint_directory is None else absolute(savepoint_directory)
        self.wish = _STOPPED
        stopped = CompletableFuture(self._master.stop_with_savepoint(advance_to_end_of_event_time, directory))
        stopped.add_done_callback(self._stop_has_ended)
        return stopped

    def _stop_has_ended(self, stopped: CompletableFuture) -> None:
        if stopped.exception() is not None and self.wish == _STOPPED:
            self.wish = ""  # the job continues

    @override
    def trigger_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture:
        """Take a savepoint below a directory, or where it is configured; the job continues. Holds its path."""
        directory = None if savepoint_directory is None else absolute(savepoint_directory)
        return CompletableFuture(self._master.trigger_savepoint(directory))

    def interrupt(self, reason: KeyboardInterrupt) -> CompletableFuture:
        """End the job in this process, which was told to end itself; complete when it has.

        Ctrl-C cancels a job. Other signals do so too, unless another driver can resume it. What it has saved stays:
        a signal is not a user who says that he does not need it any more, as `cancel` is.
        """
        self.is_interrupted = True
        self._master.keep_checkpoints()
        if self._hand_over is None or not isinstance(reason, ProcessTerminated):
            return self.cancel()
        over = CompletableFuture()
        self._master.result.add_done_callback(lambda _: over.complete(None))
        self._wants_to_hand_over = True
        self._hand_over()
        return over

    def abort_submission(self, reason: BaseException) -> None:
        """End a job whose submission was broken off, whether it has begun or not.

        It is over when this returns, unless somebody who waited for that was told a second time not to.
        """
        has_waited = self.is_interrupted
        if isinstance(reason, KeyboardInterrupt):
            self.interrupt(reason)
        # Whoever leads the job may not be bound to it yet, and has not heard then that it is to be handed over. If the
        # job ends already, for whatever reason, this changes nothing.
        self._master.fail(reason)
        self._master.start()  # it has to run to end in order
        if not has_waited:
            self._master.over.wait()

    @property
    def keeps_checkpoints(self) -> bool:
        """Whether the job has checkpoints in a directory, and they stay although it was cancelled."""
        return self.is_interrupted and self._master.has_checkpoints

    @property
    def is_handed_over(self) -> bool:
        """Whether the job was left to another driver; one that finished or was cancelled first was not."""
        return self._wants_to_hand_over and self._master.status is JobStatus.FAILED

    def why_ended(self, status: JobStatus) -> str:
        """Why the job has come to a final state, in one line; empty where the state says it all."""
        if status is JobStatus.CANCELED:
            return "its process was told to end" if self.is_interrupted else self.wish
        if status is not JobStatus.FAILED:
            return self.wish
        if self._wants_to_hand_over:
            return "left to another driver"
        failures = self._master.failures()
        return f"{failures[0].error}: {failures[0].message}" if failures else ""

    def is_over(self) -> bool:
        """Whether the job has ended, in whatever way."""
        return self._master.result.done()

    def when_over(self, call: Callable[[], None]) -> None:
        """Have something done when the job has ended, in whatever way; at once if it has."""
        self._master.calls_at_end.add(call)

    def task_statuses(self) -> list[TaskStatus]:
        """The tasks of the job, each with its state, from CREATED to FINISHED; none between two attempts."""
        return self._master.task_statuses()

    def get_failures(self) -> list[Failure]:
        """What attempts of the job failed with, the newest first, as many as ``web.exception-history-size`` says."""
        return list(self._master.failures())

    def trigger_checkpoint(self, full: bool = False) -> CompletableFuture:
        """Take a checkpoint before the next one is due; the future holds its number."""
        return CompletableFuture(self._master.trigger_checkpoint(full))

    def query_state(self, name: str, key: Any) -> CompletableFuture:
        """What a queryable state holds for a key, both as JSON; the future holds bytes, or a `QueryableStateError`."""
        return CompletableFuture(self._master.query_state(name, key))

    @property
    def queryable_states(self) -> tuple[QueryableState, ...]:
        """The states that can be asked for now; none between two attempts."""
        return self._master.queryable_states

    @property
    def is_queryable(self) -> bool:
        """Whether the job lets others ask for its states: 'queryable-state.enable'."""
        return self._master.is_queryable

    def rescale(self, parallelism: int) -> CompletableFuture:
        """Go on with another default parallelism; complete when the job runs with it. PyFlink has no such method.

        Operators that were given a parallelism of their own keep it. The job takes a checkpoint, its tasks end with it, and
        others start from it, exactly once. If that cannot be - a checkpoint that fails, a parallelism above the
        max parallelism, too few slots - the future holds a `RescaleError`, and the job goes on as it was.
        """
        return CompletableFuture(self._master.rescale(parallelism), lambda plan: None)

    def change_requirements(self, bounds: Mapping[str, Bounds]) -> CompletableFuture:
        """Go on with another parallelism of some operators, by their ids; see `rescale`."""
        return CompletableFuture(self._master.change_requirements(bounds), lambda plan: None)

    @property
    def plan(self) -> JobPlan:
        """What the job does; another one after a change of its parallelism."""
        return self._master.plan

    def error(self) -> BaseException | None:
        """What the job has ended with; None when it runs, or has finished."""
        result = self._master.result
        return result.exception() if result.done() else None

    def snapshot(self) -> JobSnapshot:
        """Everything that is known of the job now."""
        return self._master.snapshot()

    @property
    def master(self) -> JobMaster:
        """Who runs the job, for what looks into it."""
        return self._master

    def statistics(self) -> JobStatistics:
        """Records in and out of every operator, as the tasks last reported them."""
        return self._master.statistics()

    @override
    def metrics(self) -> JobMetrics:
        """The metrics of the job's functions, by operator and subtask, as the tasks last reported them.

        Tasks report every ``firesteel.metrics.interval`` and once more when they end; the last values stay when the job
        is over. A restart begins them at zero again.
        """
        return self._master.statistics().metrics

    @property
    def metric_registry(self) -> MetricRegistry:
        """All metrics of the job by place, for whoever shows them."""
        return self._master.metrics

    def all_metrics(self) -> list[ReportedMetric]:
        """Every metric of the job, its subtasks, operators and processes, as reporters get them."""
        return list(self._master.metrics)

    def collect_results(self, collect_id: str) -> Iterator[Any]:
        """The records of a collecting sink while the job runs; raises what the job fails with."""
        self.outcome_requested = True
        return self._master.collected_records(collect_id)

    def wait(self) -> JobExecutionResult:
        """Wait for the end. Ctrl-C cancels the job, waits until it is over, and raises KeyboardInterrupt."""
        self.outcome_requested = True
        return self._interruptible(self._outcome)

    def wait_until_over(self) -> None:
        """Wait for the end, however it ends, where Ctrl-C may come at any moment.

        Not by a future: a signal that comes just before a thread begins to wait without a time limit is not seen until it wakes.
        """
        self._master.over.wait()

    def wait_until_deployed(self) -> None:
        """Wait until the engine has accepted the job; raises the reason when it does not."""
        self._interruptible(self._master.deployed.wait)
        if not self._master.accepted:
            self._outcome()

    def _outcome(self) -> JobExecutionResult:
        self._master.over.wait()
        error = self._master.result.exception()
        self._master.join(_JOIN_SECONDS)
        if error is None:
            return self._master.result.result()
        if isinstance(error, FiresteelError):
            # The frames of the master's threads tell a user nothing; those of an unexpected error tell us.
            error = error.with_traceback(None)
        raise error

    def _interruptible(self, wait: Callable[[], T]) -> T:
        try:
            return wait()
        except KeyboardInterrupt as reason:
            self.interrupt(reason)
            self._master.over.wait()  # a second Ctrl-C leaves here, without waiting
            raise
