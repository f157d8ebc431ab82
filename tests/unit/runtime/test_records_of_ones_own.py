"""Windows and states have records of their own: what one does to them in place, no other sees."""

from __future__ import annotations

from typing import Any

import pytest

from firesteel.common import Configuration, Time, Types, WatermarkStrategy
from firesteel.common.watermark_strategy import TimestampAssigner
from firesteel.datastream import AggregateFunction, KeyedProcessFunction, ProcessWindowFunction
from firesteel.datastream.state import ListStateDescriptor
from firesteel.datastream.window import SlidingEventTimeWindows
from firesteel.testing import simulated_environment


@pytest.fixture(params=["1", "1024"])
def records(request: pytest.FixtureRequest) -> Any:
    chunks = {"firesteel.chunk.records": request.param, "firesteel.source.batch": request.param}
    env = simulated_environment(parallelism=1, configuration=Configuration.from_dict(chunks))
    return env.from_collection([{"n": n} for n in range(4)])


class Second(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value["n"]) * 1000


class Spoils(AggregateFunction):
    def create_accumulator(self) -> Any:
        return []

    def add(self, value: Any, accumulator: Any) -> Any:
        accumulator.append(value["n"])
        value["n"] = -9
        return accumulator

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, a: Any, b: Any) -> Any:
        raise NotImplementedError


def test_an_aggregate_changes_its_record_for_one_window(records: Any) -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Second())
    keyed = records.assign_timestamps_and_watermarks(strategy).key_by(lambda record: "all")
    windows = keyed.window(SlidingEventTimeWindows.of(Time.seconds(2), Time.seconds(1)))
    results = list(windows.aggregate(Spoils()).execute_and_collect())
    assert results == [[0], [0, 1], [1, 2], [2, 3], [3]]


class Marks(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        for element in elements:
            element["windows"] = element.get("windows", 0) + 1
        yield [element["windows"] for element in elements]


def test_elements_changed_by_a_window_are_not_for_the_next(records: Any) -> None:
    windows = records.key_by(lambda record: "all").count_window(3, 1)
    assert set(map(tuple, windows.process(Marks()).execute_and_collect())) == {(1, 1, 1)}


class ChangesElements(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.seen.add(value)
        for element in self.seen.get():
            element["n"] += 10
        yield value["n"]


def test_a_record_in_a_list_state_is_not_the_record(records: Any) -> None:
    changed = records.key_by(lambda record: "all").process(ChangesElements())
    assert list(changed.execute_and_collect()) == [0, 1, 2, 3]
