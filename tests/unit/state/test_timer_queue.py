"""The queue of timers: one per time and entry, in order, deletable at any moment, small whatever comes and goes."""

from __future__ import annotations

from typing import Any

import pytest

from firesteel.common.errors import ProgramError
from firesteel.common.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from firesteel.state.timer_queue import TimerQueue


def queue_of(*timers: tuple[int, Any]) -> TimerQueue:
    queue = TimerQueue()
    for time, entry in timers:
        queue.add(time, entry)
    return queue


def test_timers_come_in_order_of_time_then_of_registration() -> None:
    queue = queue_of((3, "a"), (1, "b"), (2, "z"), (2, "c"), (2, "a"))
    assert list(queue.due(3)) == [(1, "b"), (2, "z"), (2, "c"), (2, "a"), (3, "a")]
    assert (len(queue), queue.next_time()) == (0, MAX_TIMESTAMP)


def test_only_what_is_due_comes() -> None:
    queue = queue_of((1, "a"), (2, "a"), (3, "a"))
    assert list(queue.due(2)) == [(1, "a"), (2, "a")]
    assert (len(queue), queue.next_time()) == (1, 3)


def test_the_same_timer_again_is_the_same_timer() -> None:
    queue = queue_of((1, "a"), (1, "a"), (1, "b"), (1, "b"), (1, "a"))
    assert len(queue) == 2
    assert list(queue.due(1)) == [(1, "a"), (1, "b")]


def test_none_may_be_an_entry() -> None:
    queue = queue_of((1, None), (1, None))
    assert list(queue.entries()) == [(1, None)]
    queue.remove(1, None)
    assert list(queue.due(9)) == []


def test_removing_is_silent_when_there_is_nothing() -> None:
    queue = queue_of((1, "a"), (2, "a"), (2, "b"), (2, "c"))
    for time, entry in [(9, "a"), (1, "b"), (2, "z"), (1, "a"), (1, "a"), (2, "b")]:
        queue.remove(time, entry)
    assert sorted(queue.entries()) == [(2, "a"), (2, "c")]
    queue.remove(2, "a")
    queue.remove(2, "c")
    assert (len(queue), queue.next_time(), list(queue.due(9))) == (0, MAX_TIMESTAMP, [])


def test_a_timer_may_come_back_after_it_was_removed() -> None:
    queue = queue_of((1, "a"))
    queue.remove(1, "a")
    queue.add(1, "a")
    assert list(queue.due(1)) == [(1, "a")]
    assert list(queue.due(1)) == []


def test_a_timer_of_the_same_time_can_be_removed_while_the_time_is_served() -> None:
    queue = queue_of((1, "a"), (1, "b"), (1, "c"))
    seen = []
    for timer in queue.due(1):
        seen.append(timer)
        queue.remove(1, "b")
    assert seen == [(1, "a"), (1, "c")]


def test_a_timer_that_is_still_to_come_is_not_doubled_while_its_time_is_served() -> None:
    queue = queue_of((1, "a"), (1, "b"), (1, "c"))
    seen = []
    for _, entry in queue.due(1):
        seen.append(entry)
        if seen == ["a"]:
            queue.add(1, "a")  # again
            queue.add(1, "c")  # still to come
    assert seen == ["a", "b", "c", "a"]


def test_what_is_registered_meanwhile_comes_in_its_place() -> None:
    queue = queue_of((1, "a"), (5, "a"))
    seen = []
    for time, entry in queue.due(5):
        seen.append((time, entry))
        if time == 1:
            queue.add(3, "b")
            queue.add(0, "past")
            queue.add(6, "later")
    assert seen == [(1, "a"), (0, "past"), (3, "b"), (5, "a")]
    assert list(queue.entries()) == [(6, "later")]


def test_timeouts_that_are_pushed_on_leave_nothing_behind() -> None:
    queue = TimerQueue()
    for time in range(10_000):
        queue.add(1_000_000 + time, "a")
        queue.remove(1_000_000 + time - 1, "a")
    assert len(queue) == 1
    assert len(queue._heap) < 100
    assert list(queue.due(MAX_TIMESTAMP)) == [(1_009_999, "a")]


def test_the_heap_may_be_rebuilt_while_it_is_served() -> None:
    queue = queue_of(*((time, "a") for time in range(1000)))
    seen = []
    for time, _ in queue.due(999):
        seen.append(time)
        for other in range(time + 1, time + 10):
            queue.remove(other, "a")
    assert seen == list(range(0, 1000, 10))


@pytest.mark.parametrize("time", [1.5, "1", None])
def test_a_time_that_is_no_whole_number_is_refused(time: Any) -> None:
    with pytest.raises(ProgramError, match="whole milliseconds, got"):
        TimerQueue().add(time, "a")


def test_the_last_time_there_is() -> None:
    assert list(queue_of((MAX_TIMESTAMP, "a")).due(MAX_TIMESTAMP)) == [(MAX_TIMESTAMP, "a")]


def test_a_frozen_queue_hands_out_the_timers_of_a_time_in_their_order() -> None:
    queue = TimerQueue()
    for entry in "abcdefg":
        queue.add(1, entry)
    frozen = queue.freeze()
    queue.remove(1, "c")
    queue.add(1, "new")
    taken = []
    while not frozen.done:
        (times, entries), _ = frozen.pop(3)
        assert set(times) <= {1}
        taken += entries
    assert taken == list("abcdefg")
    frozen.close()
    assert [entry for _, entry in queue.entries()] == ["a", "b", "d", "e", "f", "g", "new"]


def test_times_beyond_64_bits_are_the_first_and_the_last_there_are() -> None:
    queue = queue_of(
        (2**63, "a"), (10**30, "a"), (MAX_TIMESTAMP, "b"), (-(10**30), "c"), (MIN_TIMESTAMP, "c")
    )
    assert (len(queue), queue.next_time()) == (3, MIN_TIMESTAMP)
    assert list(queue.due(MAX_TIMESTAMP - 1)) == [(MIN_TIMESTAMP, "c")]
    assert list(queue.due(MAX_TIMESTAMP)) == [(MAX_TIMESTAMP, "a"), (MAX_TIMESTAMP, "b")]


def test_times_beyond_64_bits_can_be_removed() -> None:
    queue = queue_of((2**63, "a"), (2**63, "b"), (-(2**70), "c"))
    queue.remove(2**80, "a")
    queue.remove(-(2**80), "c")
    queue.remove(-(2**80), "nothing")
    assert list(queue.entries()) == [(MAX_TIMESTAMP, "b")]


def test_a_timer_at_the_end_of_time_may_remove_another_by_a_time_beyond_it() -> None:
    queue = queue_of((2**63, "a"), (2**63, "b"))
    due = queue.due(MAX_TIMESTAMP)
    assert next(due) == (MAX_TIMESTAMP, "a")
    queue.remove(2**90, "b")
    assert list(due) == []


def test_a_timer_at_the_end_of_time_that_sets_itself_again_for_later_rings_once() -> None:
    queue = queue_of((MAX_TIMESTAMP, "a"))
    rung = []
    for time, entry in queue.due(MAX_TIMESTAMP):
        rung.append((time, entry))
        assert len(rung) < 10
        queue.add(time + 5, entry)
    assert rung == [(MAX_TIMESTAMP, "a")]
