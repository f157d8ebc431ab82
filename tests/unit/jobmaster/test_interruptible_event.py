"""An event is set once, for everybody, and calls at an end are made, whatever interrupts the main thread."""

from __future__ import annotations

import _thread
import random
import threading
import time

import pytest

from firesteel.jobmaster.interruptible_event import CallsAtEnd, InterruptibleEvent


def test_a_set_event_lets_everybody_through() -> None:
    over = InterruptibleEvent()
    through = [threading.Event() for _ in range(3)]

    def pass_through(event: threading.Event) -> None:
        over.wait()
        event.set()

    threads = [threading.Thread(target=pass_through, args=(event,)) for event in through]
    for thread in threads:
        thread.start()
    over.set()
    over.set()
    over.wait()
    assert all(event.wait(300) for event in through)
    for thread in threads:
        thread.join()


def test_interrupt_comes_out_of_wait_and_the_event_still_works() -> None:
    over = InterruptibleEvent()
    for _ in range(200):
        timer = threading.Thread(target=_thread.interrupt_main)
        with pytest.raises(KeyboardInterrupt):  # noqa: PT012 - the interrupt may come before wait() begins
            timer.start()
            over.wait()
        timer.join()
    over.set()
    over.wait()


def _interrupt_soon(begun: threading.Event, seconds: float) -> None:
    begun.wait()
    time.sleep(seconds)  # so that it strikes anywhere; nothing depends on it
    _thread.interrupt_main()


def test_ctrl_c_while_a_call_is_added_leaves_nothing_locked() -> None:
    """With the callbacks of a `Future`, every second or third interrupt has whoever completes it wait for ever."""
    generator = random.Random(0)
    for _ in range(100):
        calls, begun = CallsAtEnd(), threading.Event()
        interrupting = threading.Thread(target=_interrupt_soon, args=(begun, generator.random() / 2000))
        interrupting.start()
        with pytest.raises(KeyboardInterrupt):  # noqa: PT012 - the interrupt may come before the first call is added
            begun.set()
            while True:
                calls.add(int)
        interrupting.join()
        ending = threading.Thread(target=calls.make, daemon=True)
        ending.start()
        ending.join(300)
        assert not ending.is_alive()


def test_calls_are_made_once_in_order_and_later_ones_at_once() -> None:
    calls, made = CallsAtEnd(), []  # type: ignore[var-annotated]
    calls.add(lambda: made.append(1))
    calls.add(lambda: made.append(2))
    assert made == []
    calls.make()
    calls.make()
    calls.add(lambda: made.append(3))
    assert made == [1, 2, 3]


def test_a_call_that_fails_is_told_and_the_others_are_made(caplog: pytest.LogCaptureFixture) -> None:
    calls, made = CallsAtEnd(), []  # type: ignore[var-annotated]
    calls.add(lambda: 1 // 0)  # type: ignore[arg-type, return-value]
    calls.add(lambda: made.append(1))
    calls.make()
    assert made == [1]
    assert "ZeroDivisionError" in caplog.text
