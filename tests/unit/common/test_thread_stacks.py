"""What threads do, looked at from inside the process: all of them now, or one of them for a while."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from firesteel.common._thread_stacks import dump_threads, sample_threads

needs_proc = pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="only Linux tells who runs")


class Worker:
    """A thread that computes or waits until it is told to end."""

    def __init__(self, *, busy: bool) -> None:
        self._over = threading.Event()
        self._began = threading.Event()
        self._busy = busy
        self.thread = threading.Thread(target=self._run, name="worker", daemon=True)

    def _run(self) -> None:
        self._began.set()
        self.compute() if self._busy else self.wait()

    def compute(self) -> None:
        while not self._over.is_set():
            sum(range(1000))

    def wait(self) -> None:
        self._over.wait()

    @contextmanager
    def at_work(self) -> Iterator[int]:
        self.thread.start()
        self._began.wait()
        try:
            assert self.thread.ident is not None
            yield self.thread.ident
        finally:
            self._over.set()
            self.thread.join()


def test_a_dump_has_every_thread_with_its_stack() -> None:
    with Worker(busy=False).at_work():
        found = dict(dump_threads())
    assert "in wait" in found["worker"]
    assert found["worker"].startswith('"worker" daemon id=')
    assert "test_a_dump_has_every_thread_with_its_stack" in found["MainThread"]


@needs_proc
def test_a_thread_that_computes_is_seen_running() -> None:
    with Worker(busy=True).at_work() as ident:
        found = sample_threads(ident, 20, 0.002, 50)
    assert sum(found.values()) >= 20
    running = sum(count for (runs, _), count in found.items() if runs)
    assert running > 15, found
    assert any(any("Worker.compute:" in frame for frame in frames) for _, frames in found)


@needs_proc
def test_a_thread_that_waits_is_seen_waiting() -> None:
    with Worker(busy=False).at_work() as ident:
        found = sample_threads(ident, 5, 0.001, 50)
    waiting = {frames: count for (runs, frames), count in found.items() if not runs}
    assert sum(waiting.values()) == 5
    assert all(any("Worker.wait:" in frame for frame in frames) for frames in waiting)


@needs_proc
def test_other_threads_count_only_while_they_run_and_say_who_they_are() -> None:
    with Worker(busy=True).at_work(), Worker(busy=False).at_work() as ident:
        found = sample_threads(ident, 10, 0.002, 50)
    others = [frames for _, frames in found if frames[0] == "thread worker"]
    assert others
    assert all("Worker.compute:" in " ".join(frames) for frames in others)
    assert all(runs for (runs, frames) in found if frames in others)


def test_a_stack_is_cut_to_its_innermost_frames() -> None:
    with Worker(busy=False).at_work() as ident:
        found = sample_threads(ident, 1, 0.0, 1)
    ((_, frames),) = [key for key in found if key[1][0] != "thread worker"]
    assert len(frames) == 1
    assert frames[0].startswith("threading.")


def test_threads_take_turns_as_usual_when_all_samples_are_taken() -> None:
    usual = sys.getswitchinterval()
    seen: list[float] = []

    def note(_: float) -> None:
        seen.append(sys.getswitchinterval())
        if len(seen) == 1:  # somebody else samples meanwhile
            sample_threads(threading.get_ident(), 1, 0.0, 1, note)

    sample_threads(threading.get_ident(), 2, 0.0, 1, note)
    assert len(seen) == 3
    assert all(each < usual for each in seen)
    assert sys.getswitchinterval() == usual
