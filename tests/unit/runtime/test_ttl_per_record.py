"""Cleanup of expired state for every record works in every keyed operator, not only in process functions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from firesteel.common.time import Time
from firesteel.common.typeinfo import Types
from firesteel.contracts import functions as kinds
from firesteel.contracts.state import MapStateDescriptor, ValueStateDescriptor
from firesteel.contracts.state_ttl import StateTtlConfig
from firesteel.datastream.window import TumblingEventTimeWindows
from firesteel.testing import FunctionHarness, simulated_environment

TTL = 1000


def descriptor(name: str = "seen") -> ValueStateDescriptor:
    config = (
        StateTtlConfig.new_builder(Time.milliseconds(TTL))
        .cleanup_incrementally(10, run_cleanup_for_every_record=True)
        .build()
    )
    found = ValueStateDescriptor(name, Types.INT())
    found.enable_time_to_live(config)
    return found


class _Remembers(kinds.Function):
    """Remembers keys that begin with a small letter; does not touch the state for others."""

    def open(self, runtime_context: kinds.RuntimeContext) -> None:
        self.seen = runtime_context.get_state(descriptor())

    def remember(self, value: str) -> None:
        if value.islower():
            self.seen.update(1)


class Map(_Remembers, kinds.MapFunction):
    def map(self, value: str) -> str:
        self.remember(value)
        return value


class Filter(_Remembers, kinds.FilterFunction):
    def filter(self, value: str) -> bool:
        self.remember(value)
        return True


class FlatMap(_Remembers, kinds.FlatMapFunction):
    def flat_map(self, value: str) -> list[str]:
        self.remember(value)
        return [value]


class CoMap(_Remembers, kinds.CoMapFunction):
    def map1(self, value: str) -> str:
        self.remember(value)
        return value

    map2 = map1


class CoFlatMap(_Remembers, kinds.CoFlatMapFunction):
    def flat_map1(self, value: str) -> list[str]:
        self.remember(value)
        return [value]

    flat_map2 = flat_map1


class Reduce(_Remembers, kinds.ReduceFunction):
    def reduce(self, value1: str, value2: str) -> str:
        self.remember(value2)
        return value2


class Process(_Remembers, kinds.KeyedProcessFunction):
    def process_element(self, value: str, ctx: Any) -> None:
        self.remember(value)


class CoProcess(_Remembers, kinds.KeyedCoProcessFunction):
    def process_element1(self, value: str, ctx: Any) -> None:
        self.remember(value)

    process_element2 = process_element1


class Broadcast(_Remembers, kinds.KeyedBroadcastProcessFunction):
    RULES = MapStateDescriptor("rules", Types.STRING(), Types.STRING())

    def process_element(self, value: str, ctx: Any) -> None:
        self.remember(value)

    def process_broadcast_element(self, value: str, ctx: Any) -> None:
        pass


ALL = [Map, Filter, FlatMap, CoMap, CoFlatMap, Reduce, Process, CoProcess, Broadcast]
TWO_INPUTS = [CoMap, CoFlatMap, CoProcess, Broadcast]


def harness(function: type[kinds.Function]) -> FunctionHarness:
    rules = [Broadcast.RULES] if function is Broadcast else []
    return FunctionHarness(function(), key_selector=lambda word: word, broadcast_state=rules)


@pytest.mark.parametrize("function", ALL)
def test_a_record_that_touches_no_state_removes_what_has_expired(function: type[kinds.Function]) -> None:
    driven = harness(function)
    driven.process_elements(["a", "b", "a", "b"])
    assert driven.keys_of_state("seen") == {"a", "b"}
    driven.advance_processing_time(TTL)
    driven.process_element("SHOUT")
    assert driven.keys_of_state("seen") == set()


@pytest.mark.parametrize("function", TWO_INPUTS)
def test_records_of_the_second_input_count_too(function: type[kinds.Function]) -> None:
    driven = harness(function)
    driven.process_elements(["a", "a"])
    driven.advance_processing_time(TTL)
    driven.process_element2("SHOUT")
    assert driven.keys_of_state("seen") == set()


class WindowsSeen(kinds.ProcessWindowFunction):
    def process(self, key: str, context: Any, elements: Any) -> Iterator[int]:
        seen = context.global_state().get_state(descriptor("windows"))
        seen.update((seen.value() or 0) + 1)
        yield seen.value()


def test_windows_do_it_too() -> None:
    words = simulated_environment().from_collection(["a"])
    windows = words.key_by(lambda w: w).window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
    driven = FunctionHarness.of(windows.process(WindowsSeen()))
    driven.process_element("a", timestamp=1)
    driven.process_watermark(9)
    assert driven.keys_of_state("windows") == {"a"}
    driven.advance_processing_time(TTL)
    driven.process_element("b", timestamp=11)
    assert driven.keys_of_state("windows") == set()
