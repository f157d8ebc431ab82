"""How much memory a task may use, and what it does above that."""

from __future__ import annotations

import gc
import os
import subprocess
import sys

import pytest

from firesteel.common.configuration import Configuration
from firesteel.spark.memory_watch import (
    MemoryLimit,
    MemoryWatch,
    collect_less_often,
    machine_memory,
    memory_limit,
    resident_bytes,
)


def limit_of(**options: str) -> MemoryLimit | None:
    return memory_limit(Configuration.from_dict(dict(options)))


def test_the_option_wins_and_zero_means_no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_EXECUTOR_MEMORY_MB", "100")
    assert limit_of(**{"firesteel.task.memory-limit": "2 gb"}) == MemoryLimit(
        2 * 2**30, "firesteel.task.memory-limit"
    )
    assert limit_of(**{"firesteel.task.memory-limit": "0"}) is None


def test_what_spark_gives_a_worker_is_the_limit_before_spark_enforces_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYSPARK_EXECUTOR_MEMORY_MB", "1000")
    found = limit_of()
    assert found is not None
    assert found.size == int(1000 * 2**20 * 0.95)


def test_without_any_setting_a_task_may_have_most_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_EXECUTOR_MEMORY_MB", raising=False)
    total, found = machine_memory(), limit_of()
    assert total is not None
    assert found is not None
    assert resident_bytes() < found.size < total


def test_this_process_uses_some_memory_and_more_when_it_takes_more() -> None:
    before = resident_bytes()
    block = bytearray(os.urandom(64 << 20))
    assert resident_bytes() - before > 32 << 20
    del block


class Process:
    """A process of a size that tests set, with garbage in it."""

    def __init__(self, limit: int) -> None:
        self.size = self.garbage = self.collections = 0
        self.now = 0.0
        self.watch = MemoryWatch(
            MemoryLimit(limit, "test"), lambda: self.size, self.collect, lambda: self.now
        )

    def collect(self) -> None:
        self.collections += 1
        self.size -= self.garbage
        self.garbage = 0


def test_a_process_below_its_limit_is_left_alone() -> None:
    process = Process(100)
    process.size = 100
    assert process.watch.excess() is None
    assert process.collections == 0


def test_garbage_does_not_count_but_is_not_collected_again_and_again() -> None:
    process = Process(100)
    process.size, process.garbage = 150, 60
    assert process.watch.excess() is None
    process.size, process.garbage = 150, 60
    assert process.watch.excess() == 150, "so soon again: it makes more garbage than it may"
    process.now = 31
    assert process.watch.excess() is None
    assert process.collections == 2


def test_without_a_limit_nothing_is_measured() -> None:
    def fail() -> int:
        raise AssertionError("nobody wants to know")

    assert MemoryWatch(None, fail).excess() is None


@pytest.mark.skipif(not os.path.exists("/proc/self/oom_score_adj"), reason="only Linux has it")
def test_a_worker_comes_first_when_the_kernel_needs_memory() -> None:
    program = (
        "from firesteel.spark.memory_watch import be_killed_first\n"
        "be_killed_first()\n"
        "print(open('/proc/self/oom_score_adj').read())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(done.stdout) >= 500


@pytest.mark.parametrize(("chosen", "then"), [(700, 10_000), (50_000, 50_000), (0, 0)])
def test_cycles_are_looked_for_less_often_unless_somebody_has_chosen(chosen: int, then: int) -> None:
    before = gc.get_threshold()
    try:
        gc.set_threshold(chosen, 7, 9)
        collect_less_often()
        assert gc.get_threshold() == (then, 7, 9)
    finally:
        gc.set_threshold(*before)
