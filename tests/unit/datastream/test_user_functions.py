import functools
import threading

import pytest

from firesteel.common.errors import FunctionNotSerializableError, ProgramError
from firesteel.contracts.functions import (
    BroadcastProcessFunction,
    CoMapFunction,
    FilterFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessFunction,
)
from firesteel.contracts.sink import SinkFunction
from firesteel.contracts.source import SourceFunction


class Double(MapFunction):
    def map(self, value):
        return value * 2


class Keep(FilterFunction):
    def filter(self, value):
        return True


class Process(ProcessFunction):
    def process_element(self, value, ctx):
        yield value


class KeyedProcess(KeyedProcessFunction):
    def process_element(self, value, ctx):
        yield value


@pytest.fixture
def numbers(env):
    return env.from_collection([1, 2, 3])


def test_a_plain_callable_is_shipped_bare(numbers, node_of):
    assert node_of(numbers.map(str)).spec.function.load() is str


def test_a_function_object_is_shipped_as_it_is(numbers, node_of):
    loaded = node_of(numbers.map(Double())).spec.function.load()
    assert isinstance(loaded, MapFunction)
    assert loaded.map(4) == 8


@pytest.mark.parametrize(
    "function", [len, int, functools.partial(pow, 2), str.upper, Double().map, lambda *a: a]
)
def test_all_kinds_of_callables_are_taken(numbers, function):
    numbers.map(function)


def test_wrong_object_is_refused_with_what_was_expected_and_what_came(numbers):
    with pytest.raises(
        TypeError, match=r"map\(\) needs a MapFunction or a function of one value, got 5 \(int\)"
    ):
        numbers.map(5)


def test_wrong_object_is_a_program_error(numbers):
    with pytest.raises(ProgramError):
        numbers.flat_map("x")


def test_function_of_another_kind_is_refused(numbers):
    with pytest.raises(
        TypeError, match=r"map\(\) needs a MapFunction.*got class Keep at test_user_functions.py:\d+"
    ):
        numbers.map(Keep())


def test_class_instead_of_instance_is_refused_with_remedy(numbers):
    with pytest.raises(TypeError, match=r"got the class Double itself; pass an instance: Double\(\)"):
        numbers.map(Double)


def test_wrong_number_of_parameters_is_refused(numbers):
    with pytest.raises(
        TypeError, match=r"got lambda at test_user_functions.py:\d+; it cannot be called so: missing"
    ):
        numbers.map(lambda a, b: a)


def test_reduce_needs_two_parameters(numbers):
    with pytest.raises(TypeError, match=r"reduce\(\) needs a ReduceFunction or a function of 2 values"):
        numbers.key_by(lambda x: x).reduce(lambda a: a)


def test_decorated_function_is_judged_by_its_wrapper(numbers):
    def log(function):
        @functools.wraps(function)
        def wrapper(*args):
            return function(*args, "extra")

        return wrapper

    numbers.map(log(lambda value, extra: value))


def test_generator_in_map_is_refused_and_taken_in_flat_map(numbers):
    def twice(value):
        yield value
        yield value

    with pytest.raises(TypeError, match=r"it yields.*use flat_map\(\)"):
        numbers.map(twice)
    numbers.flat_map(twice)


def test_async_function_in_map_is_refused(numbers):
    async def call(value):
        return value

    with pytest.raises(TypeError, match="AsyncDataStream"):
        numbers.map(call)


def test_function_that_cannot_be_pickled_is_refused_at_once(numbers):
    lock = threading.Lock()
    with pytest.raises(FunctionNotSerializableError, match=r"map\(\) cannot ship lambda at .*open\(\)"):
        numbers.map(lambda value: lock)


def test_process_needs_a_process_function(numbers):
    with pytest.raises(TypeError, match=r"process\(\) needs a ProcessFunction, got"):
        numbers.process(KeyedProcess())


def test_keyed_process_needs_a_keyed_process_function(numbers):
    with pytest.raises(TypeError, match=r"on a KeyedStream needs a KeyedProcessFunction"):
        numbers.key_by(lambda x: x).process(Process())


def test_connected_map_needs_a_co_map_function(numbers):
    with pytest.raises(TypeError, match="needs a CoMapFunction"):
        numbers.connect(numbers).map(lambda x: x)


def test_incomplete_function_class_cannot_be_made():
    class OnlyOne(CoMapFunction):
        def map1(self, value):
            return value

    with pytest.raises(TypeError, match="map2"):
        OnlyOne()


def test_keyed_function_on_a_stream_without_keys_is_refused_with_the_remedy(numbers):
    class Keyed(KeyedCoProcessFunction):
        def process_element1(self, value, ctx):
            yield value

        process_element2 = process_element1

    with pytest.raises(TypeError, match=r"got class KeyedProcess at .*; call key_by\(\) first"):
        numbers.process(KeyedProcess())
    with pytest.raises(TypeError, match=r"got class Keyed at .*; call key_by\(\) on both streams first"):
        numbers.connect(numbers).process(Keyed())


def test_broadcast_function_without_a_broadcast_stream_is_refused_with_the_remedy(numbers):
    class Rules(BroadcastProcessFunction):
        def process_element(self, value, ctx):
            yield value

        process_broadcast_element = process_element

    with pytest.raises(TypeError, match=r"; connect\(\) it with a stream that broadcast\(descriptor\) gave"):
        numbers.connect(numbers.broadcast()).process(Rules())


def test_java_functions_are_refused_with_the_remedy():
    with pytest.raises(NotImplementedError, match=r"'org.example.Source'.*subclass SourceFunction.*run\(\)"):
        SourceFunction("org.example.Source")
    with pytest.raises(NotImplementedError, match=r"'org.example.Sink'.*subclass SinkFunction.*invoke\(\)"):
        SinkFunction(sink_func="org.example.Sink")


@pytest.mark.parametrize(
    "name", ["sum", "reduce", "window", "count_window", "interval_join", "map_with_state"]
)
def test_methods_of_keyed_streams_say_that_a_key_is_missing(numbers, name):
    with pytest.raises(AttributeError, match=rf"a DataStream has no '{name}': .*call key_by\(\) first"):
        getattr(numbers, name)


def test_other_missing_attributes_are_reported_as_ever(numbers):
    assert not hasattr(numbers, "summ")
    with pytest.raises(AttributeError, match="'DataStream' object has no attribute 'summ'"):
        numbers.summ()
