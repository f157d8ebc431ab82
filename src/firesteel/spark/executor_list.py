"""The executors of a Spark session, as Spark's own list has them, with those that were lost and why.

Whoever asks only looks: he waits a moment and then gets what was known before. While Spark's driver does not answer, one thread waits
for it, and not one for each question.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from pyspark.sql import SparkSession

from firesteel.plan.executor import EngineExecutor
from firesteel.spark.executor_id import EMBEDDED

__all__ = ["PatientQuestion", "SessionSource", "executors", "threads"]

T = TypeVar("T")

#: Gives the session that is there now, if any; it asks Spark, too.
SessionSource = Callable[[], SparkSession | None]

_LOG = logging.getLogger(__name__)

#: How long Spark's driver may take to answer who only looks, and to ask an executor what its threads do.
_ANSWER_SECONDS = 3.0
_DUMP_SECONDS = 10.0
#: Pages ask several times a second; Spark is asked once.
_FRESH_SECONDS = 1.0


class PatientQuestion(Generic[T]):
    """Something that is asked again and again, of somebody who may not answer. ``first``: what is known before."""

    def __init__(
        self, first: T, fresh_seconds: float = _FRESH_SECONDS, seconds: float = _ANSWER_SECONDS
    ) -> None:
        self._known = first
        self._known_at = -1e9
        self._fresh_seconds = fresh_seconds
        self._seconds = seconds
        self._lock = threading.Lock()
        self._asking: threading.Thread | None = None

    def get(self, ask: Callable[[], T]) -> T:
        """What ``ask`` gives, if that comes in time and does not fail; otherwise, or while it is fresh, what is known."""
        with self._lock:
            if time.monotonic() - self._known_at < self._fresh_seconds:
                return self._known
            if self._asking is None:
                self._asking = threading.Thread(
                    target=self._ask, args=(ask,), name="firesteel-ask-executors", daemon=True
                )
                self._asking.start()
            asking = self._asking
        asking.join(self._seconds)
        return self._known

    def _ask(self, ask: Callable[[], T]) -> None:
        try:
            answer = ask()
        except Exception:  # noqa: BLE001 - Spark is gone, or about to be: there is nothing new to show
            _LOG.debug("Spark does not tell about its executors", exc_info=True)
            answer = self._known
        with self._lock:
            self._known, self._known_at, self._asking = answer, time.monotonic(), None


_executors: PatientQuestion[tuple[EngineExecutor, ...]] = PatientQuestion(())
_threads: dict[str, PatientQuestion[list[tuple[str, str]]]] = {}


def executors(current: SessionSource) -> tuple[EngineExecutor, ...]:
    """Those that are there and those that were lost, in the order in which they came."""
    return _executors.get(lambda: _ask(current()))


def _ask(session: SparkSession | None) -> tuple[EngineExecutor, ...]:
    if session is None:
        return ()
    listed: Any = session.sparkContext._jsc.sc().statusStore().executorList(False)
    entries = [_executor(listed.apply(index)) for index in range(listed.size())]
    if not str(session.sparkContext.master).startswith("local"):
        # On a cluster Spark's list has the driver, too, which runs no tasks.
        entries = [each for each in entries if each.id != EMBEDDED]
    return tuple(sorted(entries, key=lambda each: each.since_ms))


def _executor(summary: Any) -> EngineExecutor:
    removed, reason, peak = summary.removeTime(), summary.removeReason(), summary.peakMemoryMetrics()
    return EngineExecutor(
        str(summary.id()),
        str(summary.hostPort()).rpartition(":")[0],
        int(summary.maxTasks()),
        int(summary.addTime().getTime()),
        int(summary.maxMemory()),
        int(summary.memoryUsed()),
        int(peak.get().getMetricValue("JVMHeapMemory")) if peak.isDefined() else 0,
        int(removed.get().getTime()) if removed.isDefined() else None,
        str(reason.get()) if reason.isDefined() else "",
    )


def threads(current: SessionSource, executor_id: str) -> list[tuple[str, str]]:
    """Name and stack of each thread of an executor's JVM; empty when it does not answer."""
    question = _threads.setdefault(executor_id, PatientQuestion([], seconds=_DUMP_SECONDS))
    return question.get(lambda: _dump(current(), executor_id))


def _dump(session: SparkSession | None, executor_id: str) -> list[tuple[str, str]]:
    if session is None:
        return []
    dump: Any = session.sparkContext._jsc.sc().getExecutorThreadDump(executor_id)
    return [] if dump.isEmpty() else [(str(each.threadName()), str(each.toString())) for each in dump.get()]
