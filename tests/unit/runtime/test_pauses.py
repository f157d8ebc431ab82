"""Work that stops in the middle of a call and goes on later."""

from __future__ import annotations

import contextvars
import threading
import time
import weakref
from typing import Any

import pytest
from greenlet import getcurrent  # type: ignore[import-untyped]

from firesteel.runtime.stage_task import Pauses


def test_a_call_pauses_and_goes_on_behind_the_pause() -> None:
    pauses, said = Pauses(), []

    def work(name: str) -> None:
        for part in range(3):
            said.append(f"{name} {part}")
            pauses.pause()

    pauses.run(work, "a")
    while pauses.paused:
        said.append("sent")
        pauses.resume()
    assert said == ["a 0", "sent", "a 1", "sent", "a 2", "sent"]


def test_outside_of_a_call_a_pause_does_nothing() -> None:
    pauses = Pauses()
    pauses.pause()
    assert not pauses.paused


def test_what_a_call_raises_is_raised_to_whoever_drives_it() -> None:
    pauses = Pauses()

    def work() -> None:
        pauses.pause()
        raise ValueError("later")

    pauses.run(work)
    with pytest.raises(ValueError, match="later"):
        pauses.resume()
    assert not pauses.paused
    pauses.run(lambda: None)  # the next call is not affected


def test_a_call_that_is_abandoned_runs_its_finally_blocks() -> None:
    pauses, said = Pauses(), []

    def work() -> None:
        try:
            pauses.pause()
            said.append("went on")
        finally:
            said.append("closed")
            pauses.pause()  # nobody listens any more

    pauses.run(work)
    pauses.abandon()
    assert said == ["closed"]
    assert not pauses.paused


def test_calls_share_one_context() -> None:
    pauses, setting, seen = Pauses(), contextvars.ContextVar("setting", default=0), []

    def work(value: int) -> None:
        seen.append(setting.get())
        setting.set(value)
        pauses.pause()

    for value in (1, 2):
        pauses.run(work, value)
        pauses.resume()
    assert seen == [0, 1]
    assert setting.get() == 0


def test_calls_share_one_greenlet_until_one_raises() -> None:
    pauses, seen = Pauses(), []

    def work(fails: bool) -> None:
        seen.append(getcurrent())
        if fails:
            raise ValueError("over")

    pauses.run(work, False)
    pauses.run(work, False)
    with pytest.raises(ValueError, match="over"):
        pauses.run(work, True)
    pauses.run(work, False)
    assert seen[0] is seen[1] is seen[2]
    assert seen[0] is not getcurrent()
    assert seen[3] is not seen[2]


def test_nothing_of_a_call_is_kept_until_the_next_one() -> None:
    class Held:
        pass

    pauses, held = Pauses(), Held()
    is_there = weakref.ref(held)
    pauses.run(lambda _: None, held)
    del held
    assert is_there() is None


def test_a_generator_that_is_suspended_in_the_middle() -> None:
    pauses: Any = Pauses()
    found: list[int] = []

    def results() -> Any:
        yield from range(4)

    def work() -> None:
        for n in results():
            found.append(n)
            pauses.pause()

    pauses.run(work)
    assert found == [0]
    while pauses.paused:
        pauses.resume()
    assert found == [0, 1, 2, 3]


def test_nothing_of_the_thread_is_kept_when_its_task_is_closed() -> None:
    """Else greenlet imports a module when the thread is gone, also below code that has no builtins to import with."""
    pauses, threads_first = Pauses(), []

    def drive() -> None:
        threads_first.append(weakref.ref(getcurrent()))
        pauses.run(lambda: None)
        pauses.abandon()

    thread = threading.Thread(target=drive)
    thread.start()
    thread.join()
    deadline = time.monotonic() + 60
    while (
        threads_first[0]() is not None
    ):  # the main thread hears of the end when it takes the interpreter's lock again
        assert time.monotonic() < deadline
        time.sleep(0.001)
