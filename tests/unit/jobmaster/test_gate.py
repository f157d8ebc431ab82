"""A gate opens once, for everybody, whatever interrupts those who wait."""

from __future__ import annotations

import _thread
import threading

import pytest

from firesteel.jobmaster.gate import Gate


def test_open_gate_lets_everybody_through() -> None:
    gate = Gate()
    through = [threading.Event() for _ in range(3)]

    def pass_through(event: threading.Event) -> None:
        gate.wait()
        event.set()

    threads = [threading.Thread(target=pass_through, args=(event,)) for event in through]
    for thread in threads:
        thread.start()
    gate.open()
    gate.open()
    gate.wait()
    assert all(event.wait(10) for event in through)
    for thread in threads:
        thread.join()


def test_interrupt_comes_out_of_wait_and_the_gate_still_works() -> None:
    gate = Gate()
    for _ in range(200):
        timer = threading.Thread(target=_thread.interrupt_main)
        with pytest.raises(KeyboardInterrupt):  # noqa: PT012 - the interrupt may come before wait() begins
            timer.start()
            gate.wait()
        timer.join()
    gate.open()
    gate.wait()
