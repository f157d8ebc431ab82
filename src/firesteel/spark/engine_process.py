"""The JVM of Spark's driver as a process: whether it answers, and how to end it by force, with all it has started.

An embedded Spark is a JVM, a daemon that it starts, and Python workers that the daemon forks. A JVM that is stopped
answers nobody, ends nothing, and keeps its children alive; only the operating system can still end it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterable
from typing import Any

from pyspark import SparkContext

__all__ = ["answers", "end_workers", "jvm_process", "kill_jvm"]

_LOG = logging.getLogger(__name__)

_REAP_SECONDS = 5.0


def jvm_process() -> int | None:
    """The number of the process in which Spark's driver runs, if this program has started it and it lives."""
    gateway: Any = SparkContext._gateway
    process = getattr(gateway, "proc", None)
    return process.pid if isinstance(process, subprocess.Popen) and process.poll() is None else None


def answers(ask: Callable[[], object], seconds: float) -> bool:
    """Whether a call to the JVM comes back in time, with whatever result."""
    answered = threading.Event()

    def run() -> None:
        with contextlib.suppress(Exception):
            ask()
        answered.set()

    threading.Thread(target=run, name="firesteel-ask-jvm", daemon=True).start()
    return answered.wait(seconds)


def kill_jvm(level: int = logging.WARNING) -> list[int]:
    """End the JVM and all processes that it has started; returns which were told to end, logged at this level."""
    jvm = jvm_process()
    if jvm is None:
        return []
    ended = end_processes([jvm, *descendants(jvm)], level)
    gateway: Any = SparkContext._gateway
    with contextlib.suppress(subprocess.TimeoutExpired):
        gateway.proc.wait(_REAP_SECONDS)
    return ended


def end_workers(processes: Iterable[int]) -> list[int]:
    """End those of these processes that Spark's driver has started; workers of a cluster belong to others.

    The numbers come from the workers themselves, which may live in a container with numbers of its own.
    """
    jvm = jvm_process()
    own = set() if jvm is None else set(descendants(jvm))
    return end_processes(process for process in processes if process in own)


def end_processes(processes: Iterable[int], level: int = logging.WARNING) -> list[int]:
    """End processes at once, also those that are stopped."""
    ended = []
    for process in processes:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process, signal.SIGKILL)
            ended.append(process)
    if ended:
        _LOG.log(level, "ended by force: processes %s", ", ".join(map(str, ended)))
    return ended


def descendants(process: int) -> list[int]:
    """The processes that it, or one of these, has started, nearest first."""
    children: dict[int, list[int]] = {}
    for child, parent in _parents():
        children.setdefault(parent, []).append(child)
    started = list(children.get(process, ()))
    for child in started:  # grows meanwhile
        started += children.get(child, ())
    return started


def _parents() -> list[tuple[int, int]]:
    """All processes of this machine, each with its parent."""
    if os.path.isdir("/proc/self"):
        return [pair for name in os.listdir("/proc") if name.isdigit() for pair in _parent(int(name))]
    listing = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, timeout=5)
    pairs = (line.split() for line in listing.stdout.splitlines())
    return [(int(pair[0]), int(pair[1])) for pair in pairs if len(pair) == 2]


def _parent(process: int) -> list[tuple[int, int]]:
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
            return [(process, int(file.read().rpartition(")")[2].split()[1]))]
    except (OSError, IndexError, ValueError):
        return []  # it has ended meanwhile
