"""JobExecutionResult, what a finished job returns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from firesteel.common._metric_values import JobMetrics
from firesteel.common._override import override
from firesteel.common.job_id import JobID

__all__ = ["JobExecutionResult"]


class JobExecutionResult:
    """The id, running time, accumulators and metrics of a finished job.

    >>> result = JobExecutionResult(JobID("0" * 32), 1500, {"lines": 7})
    >>> result.get_net_runtime(), result.get_accumulator_result("lines")
    (1500, 7)
    """

    def __init__(
        self,
        job_id: JobID,
        net_runtime: int,
        accumulators: Mapping[str, Any] | None = None,
        metrics: JobMetrics | None = None,
    ) -> None:
        self._job_id = job_id
        self._net_runtime = net_runtime
        self._accumulators = dict(accumulators or {})
        self._metrics = metrics or JobMetrics()

    def get_job_id(self) -> JobID:
        """Return the id of the job."""
        return self._job_id

    def get_net_runtime(self) -> int:
        """Return how long the job ran, in milliseconds."""
        return self._net_runtime

    def get_accumulator_result(self, accumulator_name: str) -> Any:
        """Return the value of an accumulator, or None when there is none of that name."""
        return self._accumulators.get(accumulator_name)

    def get_all_accumulator_results(self) -> dict[str, Any]:
        """Return the values of all accumulators by name."""
        return dict(self._accumulators)

    def metrics(self) -> JobMetrics:
        """The metrics of the job's functions as its tasks reported them when they ended; not in PyFlink."""
        return self._metrics

    @override
    def __str__(self) -> str:
        lines = [f"job {self._job_id} finished after {self._net_runtime} ms"]
        lines += [f"  {name}: {value}" for name, value in self._accumulators.items()]
        return "\n".join(lines)

    @override
    def __repr__(self) -> str:
        return f"JobExecutionResult({self._job_id}, {self._net_runtime} ms, {self._accumulators!r})"
