"""How a task answers questions about itself, whatever user code does meanwhile: from other threads than its own."""

from __future__ import annotations

import threading
from collections.abc import Callable

from firesteel.common._thread_stacks import dump_threads, sample_threads
from firesteel.logs.levels import set_level
from firesteel.plan.messages import (
    DumpThreads,
    SampledStack,
    SampleStacks,
    SetLogLevels,
    StacksSampled,
    TaskAnswer,
    TaskInquiry,
    ThreadsDumped,
)

__all__ = ["TaskInquiries"]


class TaskInquiries:
    """Answers through ``send``. ``thread``: the ident of the thread that the task works in."""

    def __init__(self, send: Callable[[TaskAnswer], None], thread: int) -> None:
        self._send = send
        self._thread = thread

    def answer(self, inquiry: TaskInquiry) -> None:
        """Do what is asked; never waits and never fails, because the caller reads what else the master says."""
        if isinstance(inquiry, SetLogLevels):
            for name, level in inquiry.levels.items():
                set_level(name, level or None)
            return
        # A thread that is there only while somebody asks: to look costs nothing at other times.
        look = self._dump if isinstance(inquiry, DumpThreads) else self._sample
        threading.Thread(target=look, args=(inquiry,), name="firesteel-sampler", daemon=True).start()

    def _dump(self, inquiry: DumpThreads) -> None:
        self._send(ThreadsDumped(inquiry.question, tuple(dump_threads())))

    def _sample(self, inquiry: SampleStacks) -> None:
        counts = sample_threads(self._thread, inquiry.samples, inquiry.delay, inquiry.depth)
        stacks = tuple(SampledStack(runs, frames, count) for (runs, frames), count in counts.items())
        self._send(StacksSampled(inquiry.question, stacks))
