"""How long a task works before it looks up."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from firesteel.common.watermark_strategy import Watermark, WatermarkGenerator, WatermarkStrategy
from firesteel.plan.operator_specs import (
    FilterSpec,
    FlatMapSpec,
    MapSpec,
    OperatorSpec,
    ProcessSpec,
    ReduceSpec,
    RuntimeMode,
    SinkSpec,
    TimestampsSpec,
)
from firesteel.plan.shipped import Shipped
from firesteel.runtime.blame import failing_record
from firesteel.runtime.pace import WatchedPace
from firesteel.testing._operator_harness import OperatorHarness


@pytest.fixture
def pace() -> Any:
    made = WatchedPace()
    yield made
    made.close()


def test_slices_begin_with_one_record_and_follow_what_records_cost(pace: WatchedPace) -> None:
    slices = pace.create_slices()
    assert slices.next_size(1024) == 1
    sizes = []
    for _ in range(12):
        size = slices.next_size(1024)
        slices.took(size, size * 1e-6)
        sizes.append(size)
    assert sizes == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1024]
    slices.took(1024, 1024 * 0.001)
    assert slices.next_size(1024) == 10
    slices.took(1, 0.1)
    assert slices.next_size(1024) == 1


def test_what_is_cut_off_ends_the_loop_behind_the_record_at_hand(pace: WatchedPace) -> None:
    pace.step()
    values = list(range(10))
    seen = []
    cursor = pace.begin(values)
    for value in cursor:
        seen.append(value)
        if value == 3:
            pace.cut()
            assert failing_record(values, cursor, pace.taken_out_of(cursor)) == 3
    assert seen == [0, 1, 2, 3]
    assert pace.late
    assert pace.end() == 6


def test_batches_may_be_nested(pace: WatchedPace) -> None:
    outer = pace.begin([1, 2, 3])
    assert next(outer) == 1
    inner = pace.begin(["a", "b"])
    pace.cut()
    assert list(inner) == []
    assert pace.end() == 2
    assert list(outer) == []
    assert pace.end() == 2


def test_a_batch_that_has_ended_loses_nothing_to_a_late_cut(pace: WatchedPace) -> None:
    cursor = pace.begin([1, 2])
    assert list(cursor) == [1, 2]
    pace.cut()
    assert pace.end() == 0


def test_the_watch_cuts_a_step_that_takes_long_and_no_other(pace: WatchedPace) -> None:
    pace.step()
    cursor = pace.begin([0] * 1_000_000)
    next(cursor)
    give_up = time.monotonic() + 60
    while not pace.late and time.monotonic() < give_up:
        time.sleep(0.001)
    assert pace.late
    assert list(cursor) == []
    assert pace.end() == 999_999
    pace.step()
    assert not pace.late


def test_work_wakes_a_watch_that_sleeps(pace: WatchedPace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firesteel.runtime.pace._SLEEP_SECONDS", 3600.0)
    pace.rest()
    sleeper = threading.Thread(target=pace.sleep_until_work, daemon=True)
    sleeper.start()
    give_up = time.monotonic() + 60
    while sleeper.is_alive() and time.monotonic() < give_up:
        pace.step()  # before the watch sleeps as well as afterwards
        time.sleep(0.001)
    assert not sleeper.is_alive()


def test_a_rest_is_never_late(pace: WatchedPace) -> None:
    pace.step()
    pace.rest()
    assert pace.look(pace.look(-1)) == 1
    assert not pace.late
    pace.step()
    pace.look(pace.look(-1))
    assert pace.late


def test_threads_that_cut_lose_no_record(pace: WatchedPace) -> None:
    """The watch and the loop meet at any instruction: every record is seen once or handed back once."""
    over = threading.Event()

    def cut_all_the_time() -> None:
        while not over.is_set():
            pace.cut()

    cutter = threading.Thread(target=cut_all_the_time)
    cutter.start()
    try:
        for size in list(range(1, 200)) * 10:
            values = list(range(size))
            pace.step()
            seen = list(map(abs, pace.begin(values)))
            left = pace.end()
            assert seen == values[: size - left]
    finally:
        over.set()
        cutter.join()


class CutAt:
    """A function that is cut off while it works on a record."""

    pace: WatchedPace
    at = 4

    def __init__(self, give: Any) -> None:
        self.give = give

    def __call__(self, value: Any, *more: Any) -> Any:
        if value == self.at:
            CutAt.pace.cut()
        return self.give(value)


class Seen:
    """What a sink was given; the class is pickled by name, so all see the same list."""

    values: list[int] = []


SPECS: dict[str, tuple[Any, Any, Any]] = {
    "map": (MapSpec, lambda n: n, lambda n: [n]),
    "filter": (FilterSpec, lambda n: n % 2 == 0, lambda n: [n] if n % 2 == 0 else []),
    "flat_map": (FlatMapSpec, lambda n: [n, n], lambda n: [n, n]),
    "process": (ProcessSpec, lambda n: (n,), lambda n: [n]),
    "sink": (SinkSpec, lambda n: Seen.values.append(n), lambda n: []),
}


@pytest.mark.parametrize("timed", [True, False])
@pytest.mark.parametrize("kind", SPECS)
def test_operators_give_back_what_was_cut_off(pace: WatchedPace, kind: str, timed: bool) -> None:
    make, give, expected = SPECS[kind]
    CutAt.pace = pace
    Seen.values = []
    spec: OperatorSpec = make(Shipped.of(CutAt(give), "test"))
    harness = OperatorHarness(spec, pace=pace)
    values = list(range(10))
    left = harness.link.receive_some(values, [n * 10 for n in values] if timed else None)
    assert left == 5
    assert harness.output.values == [result for n in values[:5] for result in expected(n)]
    if timed:
        assert harness.output.timestamps == [10 * n for n in harness.output.values]
    assert harness.link.records_in == 5
    if kind == "sink":
        assert Seen.values == values[:5]


@pytest.mark.parametrize("timed", [True, False])
def test_a_reduce_that_is_cut_off(pace: WatchedPace, timed: bool) -> None:
    def add(a: int, b: int) -> int:
        if b == 4:
            CutAt.pace.cut()
        return a + b

    CutAt.pace = pace
    harness = OperatorHarness(ReduceSpec(Shipped.of(add, "test")), keys=(lambda n: 0,), pace=pace)
    harness.process(list(range(10)), [0] * 10 if timed else None)
    assert harness.output.values == [0, 1, 3, 6, 10, 15, 21, 28, 36, 45]


def test_the_record_at_hand_is_named_when_it_fails_after_a_cut(pace: WatchedPace) -> None:
    def fail(n: int) -> int:
        if n == 4:
            CutAt.pace.cut()
            raise ValueError("no")
        return n

    CutAt.pace = pace
    harness = OperatorHarness(MapSpec(Shipped.of(fail, "test")), pace=pace)
    with pytest.raises(Exception, match=r"record: +4\b"):
        harness.process(list(range(10)))


# Code that is asked about records ---------------------------------------------------------------------------


def test_keys_that_take_long_are_cut_off(pace: WatchedPace) -> None:
    CutAt.pace = pace
    for backend in ("hashmap", "rocksdb"):
        harness = OperatorHarness(
            ReduceSpec(Shipped.of(max, "test")),
            keys=(CutAt(lambda n: n % 2),),
            pace=pace,
            options={"state.backend.type": backend},
        )
        values = list(range(10))
        assert harness.link.receive_some(values, values) == 5
        assert harness.output.values == values[:5]
        assert harness.link.receive_some(values[5:], values[5:]) == 0
        assert harness.output.values == harness.output.timestamps == values
        assert harness.link.records_in == 10


def test_keys_of_a_batch_that_is_to_be_sorted(pace: WatchedPace) -> None:
    CutAt.pace = pace
    paused: list[bool] = []
    pace.pause = lambda: paused.append(True)
    harness = OperatorHarness(
        ReduceSpec(Shipped.of(max, "test")), keys=(CutAt(lambda n: n % 2),), pace=pace, mode=RuntimeMode.BATCH
    )
    assert harness.link.keys_of(0, list(range(10))) == [0, 1] * 5
    assert paused == [True]


class PunctuatedAt(WatermarkGenerator):
    def __init__(self) -> None:
        self.seen = CutAt(lambda n: n)

    def on_event(self, event: Any, event_timestamp: int, output: Any) -> None:
        output.emit_watermark(Watermark(self.seen(event)))

    def on_periodic_emit(self, output: Any) -> None:
        pass


TIMES = WatermarkStrategy.no_watermarks().with_timestamp_assigner(CutAt(lambda n: n * 10))
STRATEGIES = [
    TIMES,
    WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(CutAt(lambda n: n * 10)),
    WatermarkStrategy.for_generator(PunctuatedAt).with_timestamp_assigner(lambda n, _: n * 10),
]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_assigners_and_generators_are_cut_off(pace: WatchedPace, strategy: WatermarkStrategy) -> None:
    CutAt.pace = pace
    harness = OperatorHarness(TimestampsSpec(Shipped.of(strategy, "test")), pace=pace)
    values = list(range(10))
    assert harness.link.receive_some(values, None) == 5
    assert harness.output.values == values[:5]
    assert harness.link.receive_some(values[5:], None) == 0
    assert (harness.output.values, harness.output.timestamps) == (values, [n * 10 for n in values])
