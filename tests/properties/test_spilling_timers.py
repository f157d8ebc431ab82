"""A queue with nearly all its timers in a store does what one in memory does.

But for the order within a time that has more timers than stay together.
"""

from __future__ import annotations

from collections import Counter
from operator import itemgetter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from firesteel.common.time import MAX_TIMESTAMP
from firesteel.state.cached.record_store import RecordView
from firesteel.state.cached.spilling_timer_queue import SpillingTimerQueue
from firesteel.state.timer_queue import TimerQueue
from firesteel.state.tracked_state import Changes


class Copies:
    """A record store that is simple enough to be right: views are copies."""

    def __init__(self, records: dict[bytes, bytes] | None = None) -> None:
        self.records = records or {}
        self.writes = 0
        self.views: list[_View] = []

    def get_all(self, record_keys: list[bytes]) -> list[bytes | None]:
        return [self.records.get(record_key) for record_key in record_keys]

    def put_all(
        self,
        records: list[tuple[bytes, bytes]],
        new: list[tuple[bytes, bytes]],
        gone: list[bytes],
        size: int,
    ) -> list[bytes]:
        self.writes += 1
        assert size == sum(len(record) for _, record in [*records, *new])
        assert all(
            record_key in self.records for record_key in [*gone, *(record_key for record_key, _ in records)]
        )
        self.records.update(records)
        occupied = [
            record_key for record_key, record in new if self.records.get(record_key, record) != record
        ]
        for record_key, record in new:
            self.records.setdefault(record_key, record)
        for record_key in gone:
            del self.records[record_key]
        return occupied

    def view(self) -> RecordView:
        self.views.append(_View(dict(self.records)))
        return self.views[-1]

    @property
    def open(self) -> int:
        """How many views there are."""
        return sum(view.is_open for view in self.views)

    def __len__(self) -> int:
        return len(self.records)


class _View:
    def __init__(self, records: dict[bytes, bytes]) -> None:
        self._records: dict[bytes, bytes] | None = records

    def get_all(self, record_keys: list[bytes]) -> list[bytes | None]:
        assert self._records is not None, "closed"
        return [self._records.get(record_key) for record_key in record_keys]

    def scan(self, after: bytes, count: int) -> list[tuple[bytes, bytes]]:
        assert self._records is not None, "closed"
        return sorted(item for item in self._records.items() if item[0] > after)[:count]

    def close(self) -> None:
        self._records = None

    @property
    def is_open(self) -> bool:
        return self._records is not None


class Clash:
    """An entry that shares its hash with every other one of its kind."""

    def __init__(self, name: int) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Clash) and other.name == self.name

    def __hash__(self) -> int:
        return 7

    def __repr__(self) -> str:
        return f"Clash({self.name})"


TIMES = st.one_of(st.integers(0, 12), st.sampled_from([-(2**63), MAX_TIMESTAMP, 2**70, -(2**70)]))
ENTRIES = st.one_of(st.integers(0, 12), st.sampled_from(["a", None, ("k", 1)]), st.integers(0, 3).map(Clash))
STEPS = st.one_of(
    st.tuples(st.just("add"), TIMES, ENTRIES),
    st.tuples(st.just("add"), TIMES, ENTRIES),
    st.tuples(st.just("remove"), TIMES, ENTRIES),
    st.tuples(
        st.just("due"), st.integers(0, 12), st.lists(st.tuples(st.booleans(), TIMES, ENTRIES), max_size=6)
    ),
    st.tuples(st.just("next"), st.just(0), st.just(0)),
    st.tuples(st.just("freeze"), st.booleans(), st.booleans()),
    st.tuples(st.just("take"), st.integers(1, 4), st.booleans()),
)


class Pair:
    """The queue and its model, and a snapshot of both."""

    def __init__(self, limit: int, together: int) -> None:
        self.model = TimerQueue()
        self.store = Copies()
        self.queue = SpillingTimerQueue(self.store, limit, together)
        self.is_ordered = together > 50  # more than there are different entries
        self.model.log, self.queue.log = Changes(dict), Changes(dict)
        self.frozen: Any = None
        self.expected: tuple[set[Any], set[Any]] = (set(), set())
        self.popped: tuple[set[Any], set[Any]] = (set(), set())

    def add(self, time: int, entry: Any) -> None:
        self.model.add(time, entry)
        self.queue.add(time, entry)

    def remove(self, time: int, entry: Any) -> None:
        self.model.remove(time, entry)
        self.queue.remove(time, entry)

    def due(self, time: int, callbacks: list[tuple[bool, int, Any]]) -> None:
        """Some timers, while they ring, set and delete others; which ones does not depend on the order in a time."""
        fired: list[list[tuple[int, Any]]] = []
        for queue in (self.model, self.queue):
            rung = []
            waiting = list(callbacks)
            last = None
            for at, entry in queue.due(time):
                rung.append((at, entry))
                if at != last and waiting:
                    last = at
                    adds, other_time, other = waiting.pop(0)
                    if other_time > at:  # otherwise it matters who comes first within a time
                        (queue.add if adds else queue.remove)(other_time, other)
            fired.append(rung)
        assert [at for at, _ in fired[0]] == [at for at, _ in fired[1]]
        assert Counter(fired[0]) == Counter(fired[1])
        assert fired[0] == fired[1] or not self.is_ordered

    def next(self) -> None:
        assert self.queue.next_time() == self.model.next_time()

    def freeze(self, full: bool) -> None:
        self.finish(drain=False)
        before = set(self.model.entries())
        if full:
            self.expected = before, set()
            self.frozen = self.queue.freeze()
        else:
            assert self.queue.log is not None
            changed = list(self.queue.log.current)
            self.expected = {t for t in changed if t in before}, {t for t in changed if t not in before}
            self.frozen = self.queue.freeze(changed)
            # All that has changed is among what it says has changed.
            assert self.model.log is not None
            assert set(self.model.log.current) <= set(changed)
        self.popped = (set(), set())

    def take(self, count: int, drain: bool) -> None:
        if self.frozen is not None and not self.frozen.done:
            if drain and hasattr(self.frozen, "drain"):
                self.frozen.drain()
            present, gone = self.frozen.pop(count)
            self.popped[0].update(zip(*present, strict=True))
            self.popped[1].update(zip(*gone, strict=True))

    def finish(self, drain: bool) -> None:
        """Take the rest of the snapshot and compare."""
        if self.frozen is None:
            return
        while not self.frozen.done:
            self.take(3, drain)
        assert self.popped == self.expected
        assert not self.store.open  # others may wait for the last part of the snapshot
        self.frozen.close()
        self.frozen = None


@settings(max_examples=400)
@given(st.integers(2, 8), st.sampled_from([1, 3, 99]), st.lists(STEPS, max_size=60))
def test_it_does_what_a_queue_in_memory_does(limit: int, together: int, steps: list[Any]) -> None:
    pair = Pair(limit, together)
    for step in steps:
        match step:
            case ("add", time, entry):
                pair.add(time, entry)
            case ("remove", time, entry):
                pair.remove(time, entry)
            case ("due", time, callbacks):
                pair.due(time, callbacks)
            case ("next", _, _):
                pair.next()
            case ("freeze", full, _):
                pair.freeze(full)
            case ("take", count, drain):
                pair.take(count, drain)
    pair.finish(drain=True)
    assert len(pair.queue) == len(pair.model)
    assert set(pair.queue.entries()) == set(pair.model.entries())
    pair.due(MAX_TIMESTAMP, [])
    assert not pair.store.records


def test_memory_holds_few_of_many_timers_and_all_come_in_order() -> None:
    store = Copies()
    queue = SpillingTimerQueue(store, 100)
    for number in range(10_000):
        queue.add((number * 7919) % 5000, number)
    assert len(store.records) > 9_000
    assert sum(1 for _ in TimerQueue.entries(queue)) <= 150
    rung = list(queue.due(4999))
    assert [at for at, _ in rung] == sorted(at for at, _ in rung)
    assert len(set(rung)) == 10_000
    assert not store.records


def test_timers_of_one_time_are_written_and_read_in_the_order_of_their_registration() -> None:
    queue = SpillingTimerQueue(Copies(), 4)
    registered = [(time, f"{time} {number}") for number in range(30) for time in (3, 1, 2)]
    for timer in registered:
        queue.add(*timer)
    frozen = queue.freeze()
    saved: list[tuple[int, Any]] = []
    while not frozen.done:
        present, _ = frozen.pop(5)
        saved += zip(*present, strict=True)
    frozen.close()
    in_order = sorted(registered, key=itemgetter(0))
    assert sorted(saved, key=itemgetter(0)) == in_order
    assert list(queue.due(3)) == in_order


def test_one_time_may_have_more_timers_than_memory() -> None:
    store = Copies()
    queue = SpillingTimerQueue(store, 100)
    for number in range(5_000):
        queue.add(9, number)
    assert len(store.records) > 4_000
    most = 0
    rung = set()
    for timer in queue.due(9):
        rung.add(timer)
        most = max(most, sum(1 for _ in TimerQueue.entries(queue)))
    assert rung == {(9, number) for number in range(5_000)}
    assert most <= 125


def test_when_all_timers_fit_into_memory_again_the_store_has_nothing_to_do() -> None:
    store = Copies()
    queue = SpillingTimerQueue(store, 100)
    for number in range(1_000):
        queue.add(number, number)
    assert len(list(queue.due(998))) == 999
    before = store.writes
    for time in range(999, 2_000):
        assert queue.next_time() == time
        for at, entry in queue.due(time):
            queue.add(at + 1, entry)
    assert store.writes == before


def test_deleting_and_setting_a_timer_again_is_not_written_every_time() -> None:
    store = Copies()
    queue = SpillingTimerQueue(store, 100)
    for number in range(1_000):
        queue.add(number, number)
    before = store.writes
    for _ in range(1_000):
        queue.remove(999, 999)
        queue.add(999, 999)
    assert store.writes == before
    assert list(queue.due(999)) == [(number, number) for number in range(1_000)]
