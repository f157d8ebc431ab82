"""transform() with operators of one's own: what it takes, what it refuses, in whole programs."""

from __future__ import annotations

from typing import Any

import pytest

from firesteel.common.errors import FunctionNotSerializableError, UserCodeError, WrongArgumentError
from firesteel.common.typeinfo import Types
from firesteel.common.watermark_strategy import WatermarkStrategy
from firesteel.datastream import MapFunction, OutputTag
from firesteel.datastream.operators import (
    InputSelectable,
    InputSelection,
    OneInputStreamOperator,
    TwoInputStreamOperator,
)
from firesteel.testing import simulated_environment

ODD = OutputTag("odd", Types.INT())


class Halves(OneInputStreamOperator):
    def process_element(self, value: Any, timestamp: int | None) -> None:
        if value % 2:
            self.output.collect_side(ODD, value)
        else:
            self.output.collect(value // 2)


class Last(OneInputStreamOperator):
    """The last record of each key, when the time of the key has come."""

    def open(self, runtime_context: Any) -> None:
        from firesteel.datastream.state import ValueStateDescriptor

        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.INT()))

    def process_element(self, value: Any, timestamp: int | None) -> None:
        self.last.update(value)
        self.get_timer_service().register_event_time_timer(1000)

    def on_event_time(self, timestamp: int) -> None:
        self.output.collect((self.get_current_key(), self.last.value()))


class Zip(TwoInputStreamOperator):
    def process_element1(self, value: Any, timestamp: int | None) -> None:
        self.output.collect(("left", value))

    def process_element2(self, value: Any, timestamp: int | None) -> None:
        self.output.collect(("right", value))


class Fails(OneInputStreamOperator):
    def process_element(self, value: Any, timestamp: int | None) -> None:
        raise ValueError("on purpose")


class Aimless(Halves, InputSelectable):
    def next_selection(self) -> InputSelection:
        return InputSelection.ALL


def numbers(count: int = 6) -> Any:
    return simulated_environment(parallelism=2).from_collection(range(count), Types.INT())


def test_one_input_with_a_side_output_and_a_type() -> None:
    halves = numbers().transform("Halves", Halves(), output_type=Types.INT())
    assert repr(halves) == "DataStream('Halves')"
    assert halves.get_type() == Types.INT()
    united = halves.union(halves.get_side_output(ODD).map(lambda n: -n, Types.INT()))
    assert sorted(united.execute_and_collect()) == [-5, -3, -1, 0, 1, 2]


def test_results_are_checked_against_the_declared_type() -> None:
    wrong = numbers().transform("Halves", Halves(), output_type=Types.STRING())
    with pytest.raises(UserCodeError, match="Halves"):
        list(wrong.execute_and_collect())


def test_a_keyed_stream_has_state_and_timers() -> None:
    timed = numbers().assign_timestamps_and_watermarks(WatermarkStrategy.for_monotonous_timestamps())
    last = timed.key_by(lambda n: n % 3).transform("Last", Last())
    assert sorted(last.execute_and_collect()) == [(0, 3), (1, 4), (2, 5)]


def test_two_inputs() -> None:
    few = numbers(2)
    both = few.connect(few.map(lambda n: -n)).transform("Zip", Zip())
    assert sorted(both.execute_and_collect()) == [("left", 0), ("left", 1), ("right", -1), ("right", 0)]


def test_an_error_names_the_operator_as_the_program_called_it() -> None:
    failing = numbers().transform("My own", Fails())
    with pytest.raises(UserCodeError) as caught:
        list(failing.execute_and_collect())
    for part in ("operator: My own", "class Fails", "test_transform.py", "on purpose", "record: "):
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("attach", "match"),
    [
        (lambda s: s.transform(Halves(), "Halves"), r"transform\(\) needs a name for the operator"),
        (lambda s: s.transform("", Halves()), r"needs a name for the operator"),
        (lambda s: s.transform("x", Halves), r"the class Halves itself; pass an instance: Halves\(\)"),
        (lambda s: s.transform("x", lambda n: n), r"needs an OneInputStreamOperator, got"),
        (lambda s: s.transform("x", MapFunction), r"the class MapFunction itself"),
        (lambda s: s.transform("x", Zip()), r"it has two inputs: use a.connect\(b\).transform"),
        (lambda s: s.transform("x", Aimless()), r"nothing to choose: leave InputSelectable out"),
        (lambda s: s.transform("x", Halves(), int), r"a TypeInformation such as Types.INT\(\)"),
        (lambda s: s.connect(s).transform("x", Halves()), r"it has one input: use it on one stream"),
        (lambda s: s.connect(s).transform("x", 5), r"needs a TwoInputStreamOperator, got 5"),
        (lambda s: s.process(Halves()), r"attach it with transform\(name, operator\)"),
        (lambda s: s.map(Halves()), r"map\(\) needs a MapFunction"),
    ],
)
def test_wrong_arguments_are_refused_at_once(attach: Any, match: str) -> None:
    with pytest.raises(WrongArgumentError, match=match):
        attach(numbers())


def test_an_operator_that_cannot_travel_is_refused_at_once() -> None:
    import threading

    operator = Halves()
    operator.lock = threading.Lock()  # type: ignore[attr-defined]
    with pytest.raises(FunctionNotSerializableError, match="Halves"):
        numbers().transform("Halves", operator)
