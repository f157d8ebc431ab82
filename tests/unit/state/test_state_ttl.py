"""State that expires: each kind, each rule, and what the sweep removes."""

from __future__ import annotations

from typing import Any

import pytest

from firesteel.common.time import Time
from firesteel.common.typeinfo import Types
from firesteel.contracts.functions import AggregateFunction, KeyedProcessFunction
from firesteel.contracts.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from firesteel.state.hashmap_backend import HashMapBackend
from firesteel.state.snapshot.operator_snapshot import OperatorSnapshot
from firesteel.testing import FunctionHarness, simulated_environment
from firesteel.testing.manual_clock import ManualClock

TTL = 100


class Sum(AggregateFunction):
    def create_accumulator(self) -> Any:
        return 0

    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator + value

    def get_result(self, accumulator: Any) -> Any:
        return f"={accumulator}"

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a + acc_b


class Bench:
    """A backend whose clock is in the test's hands, in milliseconds."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.backend = HashMapBackend(self.clock.now)
        self.backend.current_key = "a"

    def wait(self, milliseconds: int) -> None:
        self.clock.advance(milliseconds / 1000)

    def state(self, kind: str, **settings: Any) -> Any:
        descriptor: Any = {
            "value": ValueStateDescriptor("s", Types.INT()),
            "list": ListStateDescriptor("s", Types.INT()),
            "map": MapStateDescriptor("s", Types.STRING(), Types.INT()),
            "reducing": ReducingStateDescriptor("s", lambda a, b: a + b, Types.INT()),
            "aggregating": AggregatingStateDescriptor("s", Sum(), Types.INT()),
        }[kind]
        descriptor.enable_time_to_live(config(**settings))
        return self.backend.get_keyed_state(descriptor)

    @property
    def table(self) -> dict[Any, Any]:
        return self.backend.table("s")


def config(
    on_read: bool = False, shows_expired: bool = False, background: bool = False, **more: Any
) -> StateTtlConfig:
    builder = StateTtlConfig.new_builder(Time.milliseconds(TTL))
    if on_read:
        builder.update_ttl_on_read_and_write()
    if shows_expired:
        builder.return_expired_if_not_cleaned_up()
    if "size" in more:
        builder.cleanup_incrementally(more["size"], more.get("every_record", False))
    if more.get("full_snapshot"):
        builder.cleanup_full_snapshot()
    if not background:
        builder.disable_cleanup_in_background()
    return builder.build()


@pytest.fixture
def bench() -> Bench:
    return Bench()


# Value ----------------------------------------------------------------------------------------------


def test_a_value_lives_one_millisecond_less_than_its_time(bench: Bench) -> None:
    state = bench.state("value")
    state.update(1)
    bench.wait(TTL - 1)
    assert state.value() == 1
    bench.wait(1)
    assert state.value() is None
    assert bench.table == {}


def test_writing_renews(bench: Bench) -> None:
    state = bench.state("value")
    state.update(1)
    bench.wait(TTL - 1)
    state.update(2)
    bench.wait(TTL - 1)
    assert state.value() == 2


@pytest.mark.parametrize(("on_read", "left"), [(False, None), (True, 1)])
def test_reading_renews_only_when_asked(bench: Bench, on_read: bool, left: int | None) -> None:
    state = bench.state("value", on_read=on_read)
    state.update(1)
    bench.wait(TTL - 1)
    assert state.value() == 1
    bench.wait(TTL - 1)
    assert state.value() == left


@pytest.mark.parametrize("on_read", [False, True])
def test_an_expired_value_may_be_seen_once(bench: Bench, on_read: bool) -> None:
    state = bench.state("value", shows_expired=True, on_read=on_read)
    state.update(1)
    bench.wait(TTL)
    assert [state.value(), state.value()] == [1, None]


def test_expiry_is_per_key(bench: Bench) -> None:
    state = bench.state("value")
    state.update(1)
    bench.wait(TTL - 1)
    bench.backend.current_key = "b"
    state.update(2)
    bench.wait(1)
    assert state.value() == 2
    bench.backend.current_key = "a"
    assert state.value() is None


def test_clear_and_none(bench: Bench) -> None:
    state = bench.state("value")
    state.update(1)
    state.update(None)
    assert bench.table == {}
    state.update(2)
    state.clear()
    assert state.value() is None


# List and map: element by element -------------------------------------------------------------------


def test_list_elements_expire_one_by_one(bench: Bench) -> None:
    state = bench.state("list")
    state.add(1)
    bench.wait(60)
    state.add_all([2, 3])
    assert list(state) == [1, 2, 3]
    bench.wait(40)
    assert list(state.get()) == [2, 3]
    bench.wait(60)
    assert list(state) == []
    assert bench.table == {}


def test_reading_a_list_renews_its_elements(bench: Bench) -> None:
    state = bench.state("list", on_read=True)
    state.update([1, 2])
    bench.wait(99)
    assert list(state) == [1, 2]
    bench.wait(99)
    assert list(state) == [1, 2]
    state.update([])
    assert bench.table == {}


def test_expired_list_elements_may_be_seen_once(bench: Bench) -> None:
    state = bench.state("list", shows_expired=True)
    state.add(1)
    bench.wait(60)
    state.add(2)
    bench.wait(40)
    assert [list(state), list(state)] == [[1, 2], [2]]


def test_map_entries_expire_one_by_one(bench: Bench) -> None:
    state = bench.state("map")
    state.put("x", 1)
    bench.wait(60)
    state.put_all({"y": 2})
    state["z"] = None
    bench.wait(40)
    assert (state.get("x"), state["y"], state.contains("x"), "z" in state) == (None, 2, False, True)
    assert dict(state.items()) == {"y": 2, "z": None}
    assert (list(state.keys()), list(state.values()), list(state)) == (["y", "z"], [2, None], ["y", "z"])
    assert not state.is_empty()
    bench.wait(60)
    assert state.is_empty()
    assert state.get("y") is None
    del state["z"]
    state.remove("never there")
    assert bench.table == {}


def test_reading_an_entry_renews_that_entry(bench: Bench) -> None:
    state = bench.state("map", on_read=True)
    state.put_all({"x": 1, "y": 2, "z": 3})
    bench.wait(99)
    assert state.get("x") == 1
    assert state.contains("y")
    bench.wait(99)
    assert dict(state.items()) == {"x": 1, "y": 2}


@pytest.mark.parametrize("read", ["items", "keys", "values"])
def test_reading_all_entries_renews_them(bench: Bench, read: str) -> None:
    state = bench.state("map", on_read=True)
    state.put_all({"x": 1, "y": 2})
    for _ in range(3):
        bench.wait(99)
        assert len(getattr(state, read)()) == 2


def test_asking_whether_a_map_is_empty_renews_nothing(bench: Bench) -> None:
    state = bench.state("map", on_read=True)
    state.put("x", 1)
    bench.wait(99)
    assert not state.is_empty()
    bench.wait(1)
    assert state.is_empty()


def test_expired_entries_may_be_seen_once(bench: Bench) -> None:
    state = bench.state("map", shows_expired=True)
    state.put_all({"x": 1, "y": 2})
    bench.wait(TTL)
    assert not state.is_empty()
    assert [state.get("x"), state.get("x")] == [1, None]
    assert [dict(state.items()), dict(state.items())] == [{"y": 2}, {}]


# Reducing and aggregating ---------------------------------------------------------------------------


def test_reducing_state_starts_again(bench: Bench) -> None:
    state = bench.state("reducing")
    state.add(1)
    bench.wait(99)
    state.add(2)
    bench.wait(99)
    assert state.get() == 3
    bench.wait(1)
    state.add(4)
    assert state.get() == 4


def test_additions_build_on_an_expired_value_that_may_be_seen(bench: Bench) -> None:
    state = bench.state("reducing", shows_expired=True)
    state.add(1)
    bench.wait(TTL)
    state.add(2)
    assert state.get() == 3


def test_aggregating_state_starts_again(bench: Bench) -> None:
    state = bench.state("aggregating", on_read=True)
    state.add(1)
    bench.wait(99)
    assert state.get() == "=1"
    bench.wait(99)
    state.add(2)
    assert state.get() == "=3"
    bench.wait(TTL)
    assert state.get() is None
    state.add(4)
    assert state.get() == "=4"


# Namespaces -----------------------------------------------------------------------------------------


def test_merging_leaves_out_what_has_expired(bench: Bench) -> None:
    descriptor = ReducingStateDescriptor("s", lambda a, b: a + b, Types.INT())
    descriptor.enable_time_to_live(config())
    state = bench.backend.namespaced(descriptor)
    for window in (1, 2, 3):
        state.set_namespace(window)
        state.add(window)
        bench.wait(50)
    bench.backend.merge_namespaces(descriptor, 9, [1, 2, 3])
    state.set_namespace(9)
    assert state.get() == 3


def test_lists_merge_with_their_times(bench: Bench) -> None:
    descriptor = ListStateDescriptor("s", Types.INT())
    descriptor.enable_time_to_live(config())
    state = bench.backend.namespaced(descriptor)
    for window in (1, 2):
        state.set_namespace(window)
        state.add(window)
        bench.wait(50)
    bench.backend.merge_namespaces(descriptor, 1, [2])
    state.set_namespace(1)
    assert list(state) == [2]


# Cleaning up ----------------------------------------------------------------------------------------


def fill(bench: Bench, state: Any, keys: range) -> None:
    for key in keys:
        bench.backend.current_key = key
        state.update(key)


def test_accesses_sweep_other_keys_a_few_at_a_time(bench: Bench) -> None:
    state = bench.state("value", size=5)
    fill(bench, state, range(100))
    bench.wait(TTL)
    bench.backend.current_key = "nobody"
    state.value()
    assert len(bench.table) == 95
    for _ in range(19):
        state.value()
    assert bench.table == {}


def test_background_cleanup_is_on_unless_disabled(bench: Bench) -> None:
    state = bench.state("value", background=True)
    fill(bench, state, range(10))
    bench.wait(TTL)
    bench.backend.current_key = "nobody"
    state.value()
    assert len(bench.table) == 5


def test_without_background_cleanup_only_what_is_touched_goes(bench: Bench) -> None:
    state = bench.state("value")
    fill(bench, state, range(10))
    bench.wait(TTL)
    bench.backend.current_key = 3
    assert state.value() is None
    assert sorted(bench.table) == [0, 1, 2, 4, 5, 6, 7, 8, 9]


def test_the_sweep_spares_what_is_alive(bench: Bench) -> None:
    state = bench.state("list", size=100)
    state.add(1)
    bench.wait(60)
    state.add(2)
    bench.wait(40)
    bench.backend.current_key = "nobody"
    assert list(state) == []
    assert [value for value, _ in bench.table["a"]] == [2]
    bench.wait(60)
    assert list(state) == []
    assert bench.table == {}


def test_adding_to_a_list_that_the_sweep_has_just_emptied(bench: Bench) -> None:
    state = bench.state("list", size=100)
    state.add(1)
    bench.wait(TTL)
    state.add(2)
    assert list(state) == [2]


def test_records_sweep_when_asked(bench: Bench) -> None:
    state = bench.state("map", size=2, every_record=True)
    for key in range(10):
        bench.backend.current_key = key
        state.put("x", 1)
    bench.wait(TTL)
    bench.backend.records_passed(3)
    assert len(bench.table) == 4


def test_a_full_snapshot_leaves_out_what_has_expired_when_asked(bench: Bench) -> None:
    state = bench.state("value", full_snapshot=True)
    state.update(1)
    bench.wait(50)
    bench.backend.current_key = "b"
    state.update(2)
    bench.wait(50)
    snapshot = OperatorSnapshot.of(bench.backend)
    restored = HashMapBackend(bench.clock.now)
    snapshot.restore(restored)
    assert [list(table) for _, table in restored.tables()] == [["b"]]


def test_peeking_neither_renews_nor_removes(bench: Bench) -> None:
    state = bench.state("aggregating", on_read=True)
    state.add(1)
    bench.wait(99)
    assert bench.backend.peek("s", "a") == "=1"
    bench.wait(1)
    assert bench.backend.peek("s", "a") is None
    assert list(bench.table) == ["a"]


# In functions ---------------------------------------------------------------------------------------


class Last(KeyedProcessFunction):
    """Yields the key's last value before this one."""

    def open(self, runtime_context: Any) -> None:
        descriptor = ValueStateDescriptor("last", Types.INT())
        descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.seconds(1)).build())
        self.last = runtime_context.get_state(descriptor)

    def process_element(self, value: Any, ctx: Any) -> Any:
        yield self.last.value()
        self.last.update(value)


def test_time_to_live_follows_the_clock_of_the_task() -> None:
    harness = FunctionHarness(Last(), key_selector=lambda value: value % 2)
    harness.process_elements([1, 3])
    harness.advance_processing_time(999)
    harness.process_element(5)
    harness.advance_processing_time(1000)
    harness.process_element(7)
    assert harness.take_output() == [None, 1, 3, None]
    assert harness.state(1, "last") == 7


def test_a_restored_value_expires_at_its_old_time() -> None:
    harness = FunctionHarness(Last(), key_selector=lambda value: value % 2, processing_time=10_000)
    harness.process_element(1)
    for time, found in [(10_999, 1), (11_000, None)]:
        later = FunctionHarness(
            Last(), key_selector=lambda value: value % 2, processing_time=time, snapshot=harness.snapshot()
        )
        later.process_element(3)
        assert later.take_output() == [found]


def test_a_short_job_sees_its_values() -> None:
    stream = simulated_environment().from_collection([1, 3, 5])
    results = stream.key_by(lambda value: value % 2).process(Last()).execute_and_collect()
    assert list(results) == [None, 1, 3]
