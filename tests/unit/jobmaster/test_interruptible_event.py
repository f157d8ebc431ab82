"""It is set once, for everybody, whatever interrupts those who wait."""

from __future__ import annotations

import _thread
import threading

import pytest

from firesteel.jobmaster.interruptible_event import InterruptibleEvent


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
