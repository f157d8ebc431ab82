"""Type parameters are for type checkers: at run time functions, states and streams are what they were without them."""

from __future__ import annotations

import pickle
import types
import typing
from typing import Any, Generic

import cloudpickle
import pytest

import firesteel.datastream.functions as functions
from firesteel.common import TypeInformation, Types, WatermarkStrategy
from firesteel.common._type_variables import TypeVar
from firesteel.contracts.functions import Function
from firesteel.datastream import (
    CloseableIterator,
    ConnectedStreams,
    DataStream,
    KeyedStream,
    OutputTag,
    WindowedStream,
)
from firesteel.datastream.functions import KeyedProcessFunction, MapFunction
from firesteel.datastream.state import (
    ListStateDescriptor,
    MapState,
    MapStateDescriptor,
    ValueState,
    ValueStateDescriptor,
)
from firesteel.testing import simulated_environment


class Order:
    """Any class."""


def test_annotations_can_be_evaluated() -> None:
    def program(
        stream: DataStream[int], keyed: KeyedStream[int, str], windows: WindowedStream[int, str, Any]
    ) -> tuple[CloseableIterator[int], ConnectedStreams[int, str], ValueState[int], MapState[str, int]]: ...

    hints = typing.get_type_hints(program)
    assert typing.get_origin(hints["stream"]) is DataStream
    assert typing.get_args(hints["keyed"]) == (int, str)


@pytest.mark.parametrize("kind", [each for each in vars(functions).values()
                                  if isinstance(each, type) and issubclass(each, Function) and each not in (Function, functions.DiscardingSink)])  # fmt: skip
def test_every_function_class_takes_parameters_or_none(kind: Any) -> None:
    if not issubclass(kind, Generic):  # type: ignore[arg-type]
        assert kind.__name__ == "BaseBroadcastProcessFunction"
        return
    parameters = (int,) * len(kind.__parameters__)
    for base in (kind, kind[parameters]):
        made = types.new_class("Made", (base,))
        assert issubclass(made, kind)
        assert made.__abstractmethods__ == kind.__abstractmethods__


class Labelled(MapFunction[int, str]):
    def map(self, value: int) -> str:
        return f"number {value}"


T = typing.TypeVar("T")


class Boxed(MapFunction[T, list[T]], Generic[T]):
    def map(self, value: T) -> list[T]:
        return [value]


@pytest.mark.parametrize("function", [Labelled(), Boxed(), Boxed[int]()])
def test_functions_travel_by_name_and_by_value(function: MapFunction[Any, Any]) -> None:
    assert isinstance(function, MapFunction)
    assert type(pickle.loads(pickle.dumps(function))) is type(function)
    assert pickle.loads(pickle.dumps(function)).map(1) == function.map(1)

    class Local(type(function)):  # type: ignore[misc]
        pass

    copy = cloudpickle.loads(cloudpickle.dumps(Local()))
    assert isinstance(copy, MapFunction)
    assert copy.map(1) == function.map(1)


def test_what_is_made_with_parameters_equals_and_pickles_as_without() -> None:
    assert OutputTag[str]("late") == OutputTag("late")
    assert pickle.dumps(OutputTag[str]("late")) == pickle.dumps(OutputTag("late"))
    assert not hasattr(OutputTag[str]("late"), "__dict__")
    assert WatermarkStrategy[int].for_monotonous_timestamps() == WatermarkStrategy.for_monotonous_timestamps()
    strategy = WatermarkStrategy[int].no_watermarks()
    assert pickle.loads(pickle.dumps(strategy)) == strategy
    assert TypeInformation[int]() == TypeInformation()
    for descriptor in (
        ValueStateDescriptor[int]("a", Types.INT()),
        ListStateDescriptor[int]("a", Types.INT()),
        MapStateDescriptor[str, int]("a", Types.STRING(), Types.INT()),
    ):
        copy = pickle.loads(pickle.dumps(descriptor))
        assert type(copy) is type(descriptor)
        assert (copy.name, copy.type_info) == (descriptor.name, descriptor.type_info)


def test_a_variable_with_a_default_is_found_again_when_it_is_pickled() -> None:
    assert pickle.loads(pickle.dumps(functions.MapFunction.__parameters__)) == MapFunction.__parameters__
    assert isinstance(TypeVar("X", default=Any), typing.TypeVar)
    assert TypeVar("X", covariant=True, default=Any).__covariant__


class RunningCount(KeyedProcessFunction[str, str, tuple[str, int]]):
    def open(self, runtime_context: functions.RuntimeContext) -> None:
        self.count: ValueState[int] = runtime_context.get_state(ValueStateDescriptor[int]("n", Types.INT()))

    def process_element(self, value: str, ctx: KeyedProcessFunction.Context[str]) -> Any:
        self.count.update((self.count.value() or 0) + 1)
        yield ctx.get_current_key(), self.count.value()
        yield OutputTag[str]("seen"), value


def test_a_job_of_functions_with_parameters_runs() -> None:
    env = simulated_environment(parallelism=2)
    counted = env.from_collection(["a", "b", "a"]).key_by(lambda word: word).process(RunningCount())
    seen = counted.get_side_output(OutputTag[str]("seen"))
    with counted.map(str).union(seen).execute_and_collect() as results:
        assert sorted(results) == ["('a', 1)", "('a', 2)", "('b', 1)", "a", "a", "b"]
