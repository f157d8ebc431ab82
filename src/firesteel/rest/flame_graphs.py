"""Samples that were taken because somebody asked for a flame graph, kept for a while.

As in Flink, a question never waits: the first one has tasks sampled and is told to ask again; later ones get what is there, and
have it taken again when it has become old.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from firesteel.common import options
from firesteel.common.configuration import Configuration
from firesteel.common.errors import InvalidOptionError
from firesteel.plan.messages import SampledStack, TaskId
from firesteel.rest.served_jobs import JobInspector, Sampling

__all__ = ["FlameGraphs", "FlameSettings", "Samples", "read_flame_settings"]

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FlameSettings:
    """Options of a job; times are seconds."""

    enabled: bool
    sampling: Sampling
    refresh: float
    cleanup: float


def read_flame_settings(configuration: Configuration) -> FlameSettings:
    """Read from a job's options; raises `InvalidOptionError` for what makes no sense."""
    samples = configuration.get(options.FLAMEGRAPH_SAMPLES)
    depth = configuration.get(options.FLAMEGRAPH_DEPTH)
    delay = configuration.get(options.FLAMEGRAPH_DELAY).to_millis() / 1000
    for key, value in ((options.FLAMEGRAPH_SAMPLES.key, samples), (options.FLAMEGRAPH_DEPTH.key, depth)):
        if value < 1:
            raise InvalidOptionError(f"option '{key}': expected 1 or more, got {value}")
    if delay <= 0:
        raise InvalidOptionError(
            f"option '{options.FLAMEGRAPH_DELAY.key}': expected more than 0 ms, got 0 ms"
        )
    return FlameSettings(
        configuration.get(options.FLAMEGRAPH_ENABLED),
        Sampling(samples, delay, depth),
        configuration.get(options.FLAMEGRAPH_REFRESH).to_millis() / 1000,
        configuration.get(options.FLAMEGRAPH_CLEANUP).to_millis() / 1000,
    )


@dataclass(frozen=True, slots=True)
class Samples:
    """Stacks of one vertex, or one of its subtasks, and when the last was taken."""

    stacks: tuple[SampledStack, ...]
    ended_ms: int


@dataclass(slots=True)
class _Entry:
    samples: Samples | None = None
    taken_at: float = 0.0
    asked_at: float = 0.0
    keeps_for: float = 0.0
    is_sampling: bool = False


class FlameGraphs:
    """May be used from any thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: dict[tuple[str, ...], _Entry] = {}

    def find(
        self, key: tuple[str, ...], inspector: JobInspector, tasks: Sequence[TaskId], settings: FlameSettings
    ) -> Samples | None:
        """The newest samples, None before the first; new ones are taken when these are old. ``key``: what they are of."""
        now = self._clock()
        with self._lock:
            self._forget(now)
            entry = self._entries.setdefault(key, _Entry())
            entry.asked_at, entry.keeps_for = now, settings.cleanup
            is_old = entry.samples is None or now - entry.taken_at > settings.refresh
            if is_old and not entry.is_sampling:
                entry.is_sampling = True
                threading.Thread(
                    target=self._take,
                    args=(entry, inspector, tasks, settings.sampling),
                    name="firesteel-flame-graph",
                    daemon=True,
                ).start()
            return entry.samples

    def _take(
        self, entry: _Entry, inspector: JobInspector, tasks: Sequence[TaskId], sampling: Sampling
    ) -> None:
        stacks: list[SampledStack] = []
        try:
            for answer in inspector.sample(tasks, sampling).values():
                stacks += answer.stacks
        except Exception:  # noqa: BLE001 - who asks again has it tried again
            _LOG.warning("tasks could not be sampled", exc_info=True)
        with self._lock:
            entry.is_sampling = False
            if stacks:  # none: no task was there to answer
                entry.samples = Samples(tuple(stacks), int(time.time() * 1000))
                entry.taken_at = self._clock()

    def _forget(self, now: float) -> None:
        for key, entry in list(self._entries.items()):
            if not entry.is_sampling and now - entry.asked_at > entry.keeps_for:
                del self._entries[key]
