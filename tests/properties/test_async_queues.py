"""The queues of asynchronous calls against what they promise, for calls and signals in any order."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firesteel.runtime.operators.async_wait import _Call, _OrderedQueue, _UnorderedQueue

# A program: calls that begin (True), and watermarks between them (False).
PROGRAMS = st.lists(st.sampled_from([True, True, True, False]), max_size=30)


def played(make_queue, program, seed):
    """What leaves: numbers of calls, and the places of signals in the program as texts; and when each was completed."""
    rng = random.Random(seed)
    emitted: list[object] = []
    queue = make_queue(lambda call: emitted.append(call.value))
    open_calls: list[_Call] = []
    completed: list[int] = []

    def complete_one():
        call = open_calls.pop(rng.randrange(len(open_calls)))
        call.is_done = True
        completed.append(call.value)
        queue.completed(call)

    for place, is_call in enumerate(program):
        if is_call:
            call = _Call(place, None)
            queue.add(call)
            open_calls.append(call)
        else:
            queue.add_signal(lambda place=place: emitted.append(f"signal {place}"))
        while open_calls and rng.random() < 0.4:
            complete_one()
        assert queue.size == len(list(queue.calls()))
        in_flight = {call.value for call in queue.calls()}
        assert in_flight == {n for n, is_call in enumerate(program[: place + 1]) if is_call} - {*emitted}
    while open_calls:
        complete_one()
    assert queue.size == 0
    return emitted, completed


@given(PROGRAMS, st.integers(0, 2**32))
def test_ordered_results_and_signals_leave_in_the_order_of_the_program(program, seed):
    emitted, _ = played(_OrderedQueue, program, seed)
    assert emitted == [place if is_call else f"signal {place}" for place, is_call in enumerate(program)]


@given(PROGRAMS, st.integers(0, 2**32))
def test_unordered_results_stay_between_their_signals_in_the_order_of_completion(program, seed):
    emitted, completed = played(_UnorderedQueue, program, seed)
    expected: list[object] = []
    segment: set[int] = set()
    for place, is_call in [*enumerate(program), (None, False)]:
        if is_call:
            segment.add(place)
            continue
        expected += [value for value in completed if value in segment]
        segment = set()
        if place is not None:
            expected.append(f"signal {place}")
    assert emitted == expected


@pytest.mark.parametrize("make_queue", [_OrderedQueue, _UnorderedQueue])
def test_a_signal_passes_an_empty_queue_at_once(make_queue):
    seen: list[str] = []
    make_queue(lambda call: None).add_signal(lambda: seen.append("watermark"))
    assert seen == ["watermark"]
