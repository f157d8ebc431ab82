"""A map function that fails now and then: for examples that show how a job goes on after a failure."""

from __future__ import annotations

from typing import Any

from firesteel.datastream import MapFunction, RuntimeContext


class FailingMapper(MapFunction[Any, Any]):
    """Hands every record on, and fails after so many of them, in each of the first attempts of a job."""

    def __init__(self, records_until_failure: int, failures: int) -> None:
        self.records_until_failure = records_until_failure
        self.failures = failures

    def open(self, runtime_context: RuntimeContext) -> None:
        """Learn which attempt this is."""
        self.fails = runtime_context.get_attempt_number() < self.failures
        self.seen = 0

    def map(self, value: Any) -> Any:
        """One record."""
        self.seen += 1
        if self.fails and self.seen > self.records_until_failure:
            raise RuntimeError(f"failing on purpose, after {self.records_until_failure} records")
        return value
