"""The executors of a Spark session, as Spark's own list has them, with those that were lost and why."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from pyspark.sql import SparkSession

from firesteel.plan.executor import EngineExecutor
from firesteel.spark.executor_id import EMBEDDED

__all__ = ["executors", "threads"]

T = TypeVar("T")

#: How long Spark's driver may take to answer who only looks.
_ANSWER_SECONDS = 3.0
#: Pages ask several times a second; Spark is asked once.
_FRESH_SECONDS = 1.0
_THREAD = re.compile(r'^"(.*)"', re.MULTILINE)

_lock = threading.Lock()
_known: tuple[float, tuple[EngineExecutor, ...]] = (-1e9, ())


def executors(session: SparkSession | None) -> tuple[EngineExecutor, ...]:
    """Those that are there and those that were lost, in the order in which they came; the last known when Spark is silent."""
    global _known
    if session is None:
        return ()
    with _lock:
        at, known = _known
        if time.monotonic() - at < _FRESH_SECONDS:
            return known
    found = _within(_ANSWER_SECONDS, lambda: _ask(session), known)
    with _lock:
        _known = time.monotonic(), found
    return found


def _ask(session: SparkSession) -> tuple[EngineExecutor, ...]:
    listed: Any = session.sparkContext._jsc.sc().statusStore().executorList(False)
    found = [_executor(listed.apply(index)) for index in range(listed.size())]
    if any(each.id != EMBEDDED for each in found):
        # On a cluster Spark's list has the driver, too, which runs no tasks.
        found = [each for each in found if each.id != EMBEDDED]
    elif not str(session.sparkContext.master).startswith("local"):
        return ()
    return tuple(sorted(found, key=lambda each: each.since_ms))


def _executor(summary: Any) -> EngineExecutor:
    removed, reason, peak = summary.removeTime(), summary.removeReason(), summary.peakMemoryMetrics()
    return EngineExecutor(
        str(summary.id()),
        str(summary.hostPort()).rpartition(":")[0],
        int(summary.maxTasks()),
        int(summary.addTime().getTime()),
        int(summary.activeTasks()),
        int(summary.maxMemory()),
        int(summary.memoryUsed()),
        int(peak.get().getMetricValue("JVMHeapMemory")) if peak.isDefined() else 0,
        int(removed.get().getTime()) if removed.isDefined() else None,
        str(reason.get()) if reason.isDefined() else "",
    )


def threads(session: SparkSession | None, executor_id: str) -> list[tuple[str, str]]:
    """Name and stack of each thread of an executor's JVM; empty when it does not answer."""
    if session is None:
        return []
    return split_threads(_within(_ANSWER_SECONDS, lambda: _dump(session, executor_id), ""))


def _dump(session: SparkSession, executor_id: str) -> str:
    context: Any = session.sparkContext
    dump = context._jsc.sc().getExecutorThreadDump(executor_id)
    if dump.isEmpty():
        return ""
    # One call for all: to ask for each line of each thread takes seconds.
    return str(context._jvm.java.util.Arrays.toString(dump.get()))


def split_threads(text: str) -> list[tuple[str, str]]:
    """The threads of a dump in Java's form.

    >>> [name for name, _ in split_threads('["main" Id=1 RUNNABLE, "x" Id=2 WAITING]'.replace(",", chr(10) + ","))]
    ['main', 'x']
    """
    lines = text.removeprefix("[").removesuffix("]").replace('\n, "', '\n"')
    starts = [found.start() for found in _THREAD.finditer(lines)]
    parts = [lines[start:end] for start, end in zip(starts, [*starts[1:], len(lines)], strict=True)]
    return [(part[1 : part.index('"', 1)], part) for part in parts]


def _within(seconds: float, ask: Callable[[], T], otherwise: T) -> T:
    """What a call to the JVM gives, if it comes back in time and does not fail: it may be stopped, or gone."""
    answer: list[T] = []

    def run() -> None:
        try:
            answer.append(ask())
        except Exception:  # noqa: BLE001 - whatever it is, there is nothing to show
            return

    asking = threading.Thread(target=run, name="firesteel-ask-executors", daemon=True)
    asking.start()
    asking.join(seconds)
    return answer[0] if answer else otherwise
