"""Whose turn it is among channels on which something waits."""

from __future__ import annotations

from firesteel.plan.exchange import Rebalance
from firesteel.plan.job_plan import EdgePlan
from firesteel.runtime.inputs.channels import InputChannel, OpenChannels
from firesteel.runtime.inputs.payload_queue import PayloadSpace


class Line:
    """Three channels, on which letters wait."""

    def __init__(self, *payloads: str) -> None:
        self.closed: set[int] = set()
        self.turns = OpenChannels(self.closed)
        edge, space = EdgePlan(0, 0, 0, None, 1, 0, Rebalance()), PayloadSpace()
        self.channels = [InputChannel(edge, n, n, lambda values, times: 0, space) for n in range(3)]
        for number, waiting in enumerate(payloads):
            for payload in waiting:
                self.channels[number].payloads.add(payload.encode())

    def add_all(self) -> None:
        for channel in self.channels:
            if channel.payloads:
                self.turns.add(channel)

    def read(self, *, is_barrier: bool = False) -> str:
        channel = self.turns.next()
        if channel is None:
            return ""
        payload = channel.payloads.take().decode()
        if is_barrier:
            self.closed.add(channel.number)
        if channel.payloads:
            self.turns.add(channel)
        return payload


def test_one_payload_of_each_channel_in_turn() -> None:
    line = Line("abc", "x", "12")
    line.add_all()
    line.add_all()  # a channel stands in line once
    assert "".join(line.read() for _ in range(7)) == "ax1b2c"
    assert not line.turns.may_read


def test_a_channel_that_is_closed_keeps_what_waits_in_order_until_it_is_opened() -> None:
    line = Line("abc", "xy")
    line.closed |= {0, 1}
    line.add_all()
    assert not line.turns.may_read
    line.closed.discard(1)
    line.add_all()
    assert line.read(is_barrier=True) == "x"
    assert line.read() == ""
    line.closed.clear()
    line.add_all()
    assert "".join(line.read() for _ in range(4)) == "aybc"


def test_what_is_left_of_a_chunk_comes_first() -> None:
    line = Line("ab", "x")
    line.add_all()
    channel = line.turns.next()
    assert channel is line.channels[0]
    assert not line.turns.has_rest
    channel.rest = ([1, 2], None, 1)
    line.turns.add(channel)
    assert line.turns.has_rest
    assert line.turns.next() is channel
