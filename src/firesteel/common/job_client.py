"""JobClient, the handle to a running job."""

from __future__ import annotations

import abc

from firesteel.common._metric_values import JobMetrics
from firesteel.common.completable_future import CompletableFuture
from firesteel.common.job_id import JobID

__all__ = ["JobClient"]


class JobClient(abc.ABC):
    """What can be asked of a running job; each answer is a future."""

    @abc.abstractmethod
    def get_job_id(self) -> JobID:
        """Return the id of the job."""

    @abc.abstractmethod
    def get_job_status(self) -> CompletableFuture:
        """Ask how the job is; the future holds the `JobStatus` of the moment of the answer."""

    @abc.abstractmethod
    def cancel(self) -> CompletableFuture:
        """End the job now; the future is done when it has ended."""

    @abc.abstractmethod
    def stop_with_savepoint(
        self, advance_to_end_of_event_time: bool, savepoint_directory: str | None = None
    ) -> CompletableFuture:
        """End the job in order, with a savepoint; the future holds its path.

        With `advance_to_end_of_event_time`, all windows and timers fire first, as at the end of the input.
        """

    @abc.abstractmethod
    def trigger_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture:
        """Take a savepoint while the job continues; the future holds its path."""

    @abc.abstractmethod
    def get_accumulators(self) -> CompletableFuture:
        """Ask for the accumulators' values so far, a dict by name."""

    def metrics(self) -> JobMetrics:
        """The metrics of the job's functions, as the tasks last reported them; not in PyFlink."""
        raise NotImplementedError(f"a {type(self).__name__} knows no metrics of its job")

    @abc.abstractmethod
    def get_job_execution_result(self) -> CompletableFuture:
        """Wait for the end of the job; the future holds its JobExecutionResult or its failure."""
