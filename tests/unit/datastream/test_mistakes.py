"""Usual mistakes in user functions are refused at the line that uses them, and what PyFlink takes is taken."""

import functools
import logging
import sqlite3
import threading
from dataclasses import dataclass

import pytest

from firesteel.common.errors import FunctionNotSerializableError, InvalidKeyError, WrongArgumentError
from firesteel.common.watermark_strategy import TimestampAssigner, WatermarkGenerator, WatermarkStrategy
from firesteel.contracts.evictors import Evictor
from firesteel.contracts.functions import (
    AggregateFunction,
    CoMapFunction,
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    Partitioner,
    ProcessFunction,
    ProcessWindowFunction,
    ReduceFunction,
)
from firesteel.contracts.sink import Sink, SinkFunction
from firesteel.contracts.source import Source, SourceFunction
from firesteel.contracts.stream_operators import OneInputStreamOperator
from firesteel.contracts.window_assigners import TumblingEventTimeWindows
from firesteel.contracts.windows import Trigger, TriggerResult
from firesteel.datastream.connectors import NumberSequenceSource


@pytest.fixture
def numbers(env):
    return env.from_collection([1, 2, 3])


@pytest.fixture
def keyed(numbers):
    return numbers.key_by(lambda value: value)


@pytest.fixture
def windowed(keyed):
    return keyed.window(TumblingEventTimeWindows.of(10))


def refused(message):
    return pytest.raises(WrongArgumentError, match=message)


# A forgotten return ---------------------------------------------------------------------------------


def forgets(value):
    value + 1


def forgets_two(left, right):
    left + right


def forgets_in_branches(value):
    if value > 1:
        return
    for _ in range(value):
        print(value)


def says_none(value):
    if value > 1:
        return None  # noqa: RET501 - that is what it is about
    print(value)
    return None  # noqa: RET501


def is_for_its_effect(value) -> None:
    print(value)


def raises(value):
    raise NotImplementedError


def returns_sometimes(value):  # noqa: RET503 - that is what it is about
    if value > 1:
        return value


def returns_within(value):
    try:
        with threading.Lock():
            for each in range(value):
                while each:
                    return each
    finally:
        print(value)


def never_ends(value):
    while True:
        print(value)


def has_inner(value):
    def inner():
        return value

    inner()


@pytest.mark.parametrize("function", [forgets, forgets_in_branches, has_inner, functools.partial(forgets)])
def test_filter_without_return_is_refused(numbers, function):
    with refused(
        r"filter\(\): function \w+ at test_mistakes.py:\d+ has no return.*drop every record; return whether"
    ):
        numbers.filter(function)


@pytest.mark.parametrize(
    "function",
    [
        *(
            says_none,
            raises,
            returns_sometimes,
            returns_within,
            never_ends,
            print,
            lambda value: print(value),
        ),
        *(functools.partial(says_none), int, str.upper),
    ],
)
def test_filter_that_may_return_something_or_means_none_is_taken(numbers, function, caplog):
    numbers.filter(function)
    numbers.map(function)
    numbers.key_by(function)
    assert caplog.text == ""


def test_key_selector_without_return_is_refused(numbers):
    with refused(r"key_by\(\): function forgets .*the one key None; return the key \(a constant"):
        numbers.key_by(forgets)


def test_reduce_without_return_is_refused(keyed, windowed):
    for stream in (keyed, windowed):
        with refused(
            r"reduce\(\): function forgets_two .* reduce everything to None; return the combination"
        ):
            stream.reduce(forgets_two)


def test_partitioner_and_with_state_without_return_are_refused(numbers, keyed):
    with refused(r"partition_custom\(\): .* would name no subtask"):
        numbers.partition_custom(forgets_two, lambda value: value)
    with refused(r"map_with_state\(\): .* neither an output nor a state; return both"):
        keyed.map_with_state(forgets_two)


def test_map_without_return_is_answered_with_a_warning_because_it_may_be_meant(numbers, caplog):
    numbers.map(forgets)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage().startswith("map(): function forgets at test_mistakes.py:")
    assert (
        "makes every record None; return what replaces the record, or annotate it '-> None'"
        in record.getMessage()
    )


def test_map_and_flat_map_for_their_effects_say_so_with_their_annotation(numbers, caplog):
    numbers.map(is_for_its_effect)
    numbers.flat_map(is_for_its_effect)
    assert caplog.text == ""
    with refused(r"filter\(\): function is_for_its_effect .*drop every record"):
        numbers.filter(is_for_its_effect)


def test_flat_map_without_yield_is_answered_with_a_warning(numbers, caplog):
    numbers.flat_map(forgets)
    assert "flat_map(): function forgets at" in caplog.text
    assert "gives no outputs; yield them" in caplog.text


def test_function_that_is_wrapped_is_not_judged(numbers, caplog):
    @functools.wraps(says_none)
    def wrapper(*args):
        says_none(*args)

    numbers.filter(wrapper)
    assert caplog.text == ""


def test_function_without_source_is_not_judged(numbers):
    names = {}
    exec("def lost(value):\n    value + 1\n", names)
    numbers.filter(names["lost"])


class Forgetful:
    """Methods of function classes that forget their return."""

    class Filter(FilterFunction):
        def filter(self, value):
            value > 1  # noqa: B015 - the mistake

    class Key(KeySelector):
        def get_key(self, value):
            str(value)

    class Reduce(ReduceFunction):
        def reduce(self, value1, value2):
            value1 + value2

    class Partition(Partitioner):
        def partition(self, key, num_partitions):
            key % num_partitions


def test_methods_without_return_are_refused(numbers, keyed):
    with refused(r"filter\(\): filter\(\) of class Filter at test_mistakes.py:\d+ has no return"):
        numbers.filter(Forgetful.Filter())
    with refused(r"get_key\(\) of class Key"):
        numbers.key_by(Forgetful.Key())
    with refused(r"reduce\(\) of class Reduce"):
        keyed.reduce(Forgetful.Reduce())
    with refused(r"partition\(\) of class Partition"):
        numbers.partition_custom(Forgetful.Partition(), lambda value: value)


class Collected(AggregateFunction):
    def create_accumulator(self):
        return []

    def add(self, value, accumulator):
        accumulator.append(value)
        return accumulator

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        pass


class ForgetsAdd(Collected):
    def add(self, value, accumulator):
        accumulator.append(value)


class ForgetsCreate(Collected):
    def create_accumulator(self):
        self.created = []


class HasNoneAccumulator(Collected):
    def create_accumulator(self):
        pass


def test_aggregate_functions_must_return_accumulators(windowed):
    with refused(
        r"aggregate\(\): add\(\) of class ForgetsAdd .* make the accumulator None; return the accumulator"
    ):
        windowed.aggregate(ForgetsAdd())
    with refused(r"create_accumulator\(\) of class ForgetsCreate"):
        windowed.aggregate(ForgetsCreate())


def test_empty_merge_and_none_as_accumulator_are_taken_as_in_pyflink(windowed, caplog):
    windowed.aggregate(Collected())
    windowed.aggregate(HasNoneAccumulator())
    assert caplog.text == ""


class KeepsSecond(CoMapFunction):
    def map1(self, value):
        return value

    def map2(self, value):
        self.latest = value


class OnlyState(KeyedProcessFunction):
    def process_element(self, value, ctx):
        self.latest = value

    def on_timer(self, timestamp, ctx):
        pass


class OneInput(OneInputStreamOperator):
    def process_element(self, value, timestamp):
        self.output.collect(value)

    def on_event_time(self, timestamp):
        self.latest = timestamp


def test_functions_that_emit_nothing_are_taken_where_that_is_usual(numbers, keyed, caplog):
    numbers.connect(numbers).map(KeepsSecond())
    keyed.process(OnlyState())
    keyed.transform("one", OneInput())
    assert caplog.text == ""


# async and yield in the wrong place -----------------------------------------------------------------


class AsyncMap(MapFunction):
    async def map(self, value):
        return value


class AsyncOpen(MapFunction):
    async def open(self, runtime_context):
        pass

    def map(self, value):
        return value


class AsyncProcess(ProcessFunction):
    async def process_element(self, value, ctx):
        yield value


class AsyncCall:
    async def __call__(self, value):
        return value


def test_async_methods_are_refused_where_nobody_awaits_them(numbers):
    with refused(r"map\(\): map\(\) of class AsyncMap .*is async def.*nobody awaits; write a plain def"):
        numbers.map(AsyncMap())
    with refused(r"map\(\): open\(\) of class AsyncOpen .*is async def"):
        numbers.map(AsyncOpen())
    with refused(r"process\(\): process_element\(\) of class AsyncProcess .*is async def"):
        numbers.process(AsyncProcess())


def test_async_callables_of_every_kind_are_refused(numbers):
    async def call(value):
        return value

    async def generate(value):
        yield value

    for function in (call, functools.partial(call), AsyncCall(), AsyncCall().__call__):
        with refused(r"filter\(\): .*is async def"):
            numbers.filter(function)
    with refused(r"flat_map\(\): function .*generate at .*is async def"):
        numbers.flat_map(generate)


class YieldsInMap(MapFunction):
    def map(self, value):
        yield value


class YieldsInOpen(FlatMapFunction):
    def open(self, runtime_context):
        yield

    def flat_map(self, value):
        yield value


def test_methods_that_yield_where_a_value_is_wanted_are_refused(numbers):
    with refused(r"map\(\) of class YieldsInMap .*yields.*flat_map\(\) or process\(\)"):
        numbers.map(YieldsInMap())
    with refused(r"open\(\) of class YieldsInOpen .*yields, so that calling it runs nothing"):
        numbers.flat_map(YieldsInOpen())


# The number of parameters ---------------------------------------------------------------------------


class OpenWithout(MapFunction):
    def open(self):
        pass

    def map(self, value):
        return value


class CloseWith(MapFunction):
    def map(self, value):
        return value

    def close(self, error):
        pass


class ProcessWithout(ProcessFunction):
    def process_element(self, value):
        yield value


class TimerWithout(KeyedProcessFunction):
    def process_element(self, value, ctx):
        yield value

    def on_timer(self, timestamp):
        yield timestamp


class WindowWithout(ProcessWindowFunction):
    def process(self, context, elements):
        yield 1


class KeyWithMore(KeySelector):
    def get_key(self, value, context):
        return value


class SourceWithout(SourceFunction):
    def run(self):
        pass


class SinkWithMore(SinkFunction):
    def invoke(self, value, context, more):
        pass


class SinkWithoutContext(SinkFunction):
    def invoke(self, value):
        pass


def test_methods_with_other_parameters_are_refused_with_those_they_get(env, numbers, keyed, windowed):
    with refused(
        r"map\(\): open\(\) of class OpenWithout at test_mistakes.py:\d+ is called as open\(runtime_context\), and "
        r"cannot be: too many positional arguments; write def open\(self, runtime_context\)"
    ):
        numbers.map(OpenWithout())
    with refused(
        r"close\(\) of class CloseWith .* is called as close\(\).*missing a required argument: 'error'"
    ):
        numbers.map(CloseWith())
    with refused(r"write def process_element\(self, value, ctx\)"):
        numbers.process(ProcessWithout())
    with refused(r"write def on_timer\(self, timestamp, ctx\)"):
        keyed.process(TimerWithout())
    with refused(r"write def process\(self, key, context, elements\)"):
        windowed.process(WindowWithout())
    with refused(r"write def get_key\(self, value\)"):
        numbers.key_by(KeyWithMore())
    with refused(r"write def run\(self, ctx\)"):
        env.add_source(SourceWithout())
    with refused(r"write def invoke\(self, value, context\)"):
        numbers.add_sink(SinkWithMore())
    numbers.add_sink(SinkWithoutContext())


class Assigner(TimestampAssigner):
    def extract_timestamp(self, value):
        return value


class ForgetfulAssigner(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        value + 1


class Generator(WatermarkGenerator):
    def on_event(self, event, event_timestamp):
        pass

    def on_periodic_emit(self, output):
        pass


def test_assigners_and_generators_are_looked_at_where_they_are_given():
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    with refused(
        r"with_timestamp_assigner\(\): .*write def extract_timestamp\(self, value, record_timestamp\)"
    ):
        strategy.with_timestamp_assigner(Assigner())
    with refused(r"extract_timestamp\(\) of class ForgetfulAssigner .*return milliseconds since 1970"):
        strategy.with_timestamp_assigner(ForgetfulAssigner())
    with refused(r"function of a record and the timestamp that it has, got lambda .*too many positional"):
        strategy.with_timestamp_assigner(lambda value: value)
    with refused(r"with_timestamp_assigner\(\): function forgets_two .*return milliseconds"):
        strategy.with_timestamp_assigner(forgets_two)
    with refused(r"got the class Assigner itself; pass an instance: Assigner\(\)"):
        strategy.with_timestamp_assigner(Assigner)
    with refused(
        r"for_generator\(\): on_event\(\) of class Generator .*write def on_event\(self, event, event_ti"
    ):
        WatermarkStrategy.for_generator(Generator)
    with refused(r"for_generator\(\): on_event\(\) of class Generator"):
        WatermarkStrategy.for_generator(lambda: Generator()).create_generator()


class OnElement(Trigger):
    def on_element(self, element, timestamp, window):
        return TriggerResult.FIRE

    def on_processing_time(self, time, window, ctx):
        pass

    def on_event_time(self, time, window, ctx):
        pass

    def on_merge(self, window, ctx):
        pass

    def clear(self, window, ctx):
        pass


class Undecided(OnElement):
    def on_element(self, element, timestamp, window, ctx):
        print(element)


class Firing(OnElement):
    def on_element(self, element, timestamp, window, ctx):
        return TriggerResult.FIRE


class OddWindows(TumblingEventTimeWindows):
    def assign_windows(self, element, timestamp):
        return []


class OddEvictor(Evictor):
    def evict_before(self, elements):
        pass

    def evict_after(self, elements, size, window, evictor_context):
        pass


def test_triggers_assigners_and_evictors_are_looked_at(keyed, windowed):
    function = ReduceOfTwo()
    with refused(
        r"trigger\(\): on_element\(\) of class OnElement .*write def on_element\(self, element, timest"
    ):
        windowed.trigger(OnElement()).reduce(function)
    with refused(r"on_element\(\) of class Undecided .*return a TriggerResult"):
        windowed.trigger(Undecided()).reduce(function)
    windowed.trigger(Firing()).reduce(function)
    with refused(r"window\(\): assign_windows\(\) of class OddWindows"):
        keyed.window(OddWindows(10, 0)).reduce(function)
    with refused(r"evictor\(\): evict_before\(\) of class OddEvictor"):
        windowed.evictor(OddEvictor()).reduce(function)


class ReduceOfTwo(ReduceFunction):
    def reduce(self, value1, value2):
        return value1


class OddSink(Sink):
    def create_writer(self):
        return None


class OddSource(NumberSequenceSource):
    def create_reader(self):
        return None


def test_sinks_and_sources_are_looked_at(env, numbers):
    assert issubclass(OddSource, Source)
    with refused(
        r"sink_to\(\): create_writer\(\) of class OddSink .*write def create_writer\(self, context\)"
    ):
        numbers.sink_to(OddSink())
    with refused(r"from_source\(\): create_reader\(\) of class OddSource"):
        env.from_source(OddSource(1, 2), WatermarkStrategy.no_watermarks(), "numbers")


def test_joins_look_at_their_functions(numbers):
    pairs = (
        numbers.join(numbers).where(lambda v: v).equal_to(lambda v: v).window(TumblingEventTimeWindows.of(10))
    )
    with refused(r"apply\(\) needs a JoinFunction or a function of 2 values, got lambda"):
        pairs.apply(lambda left: left)

    def both(left, right):
        yield left
        yield right

    groups = numbers.co_group(numbers).where(lambda v: v).equal_to(lambda v: v)
    groups.window(TumblingEventTimeWindows.of(10)).apply(both)
    with refused(r"apply\(\) needs a JoinFunction.*it yields"):
        pairs.apply(both)


def test_callable_objects_and_partials_are_counted_too(numbers):
    class OfTwo:
        def __call__(self, left, right):
            return left

    for function in (OfTwo(), functools.partial(lambda a, b, c: a, 1)):
        with refused(r"missing a required argument"):
            numbers.map(function)


def test_methods_may_take_more_than_they_get_and_be_static(numbers, caplog):
    class Free(MapFunction):
        def open(self, *args, **kwargs):
            pass

        @staticmethod
        def map(value, factor=2):
            return value * factor

        @classmethod
        def close(cls):
            pass

    class Replaced(MapFunction):
        def __init__(self):
            self.map = lambda value: value

        def map(self):
            pass

    numbers.map(Free())
    numbers.map(Replaced())
    assert caplog.text == ""


# Keys -----------------------------------------------------------------------------------------------


@dataclass(eq=False)
class ByIdentity:
    number: int


@dataclass
class ByValue:
    number: int


class Base:
    pass


class Derived(Base):
    def __eq__(self, other):
        return True

    def __hash__(self):
        return 1


def test_annotation_that_promises_keys_without_equality_is_refused(numbers):
    def key(value) -> ByIdentity:
        return ByIdentity(value)

    with pytest.raises(
        InvalidKeyError, match=r"key_by\(\): ByIdentity, which function .*key .*frozen=True.* above"
    ):
        numbers.key_by(key)


def test_annotation_of_a_class_that_may_have_equality_is_taken(numbers):
    def key_by_value(value) -> ByValue:
        return ByValue(value)

    def key_of_some_class(value) -> Base:
        return Derived()

    numbers.key_by(key_by_value)
    numbers.key_by(key_of_some_class)


# What cannot travel ---------------------------------------------------------------------------------


class Connected(MapFunction):
    def __init__(self, db):
        self.db = db

    def map(self, value):
        return value


class Pool:
    def __init__(self):
        self.connections = [sqlite3.connect(":memory:")]


def unserializable(message):
    return pytest.raises(FunctionNotSerializableError, match=message)


def test_attribute_that_cannot_travel_is_named(numbers):
    with unserializable(
        r"map\(\) cannot ship class Connected at .*: self\.db \(Connection\) cannot be pickled \(TypeError: .*\); "
        r"create it in open\(\)"
    ):
        numbers.map(Connected(sqlite3.connect(":memory:")))
    with unserializable(r"self\.db\['first'\] \(lock\)"):
        numbers.map(Connected({"first": threading.Lock()}))
    with unserializable(r"self\.db\.connections.* cannot be pickled"):
        numbers.map(Connected(Pool()).map)


def test_variable_that_cannot_travel_is_named(numbers):
    lock = threading.Lock()

    def locked(value):
        with lock:
            return value

    with unserializable(
        r"the variable 'lock' around it \(lock\).*write a function class and create it in open\(\)"
    ):
        numbers.map(locked)
    with unserializable(r"argument 1 of the partial \(lock\)"):
        numbers.map(functools.partial(lambda lock, value: value, lock))
    with unserializable(r"a default argument \(lock\)"):
        numbers.map(lambda value, lock=lock: value)


def test_global_that_cannot_travel_is_named(numbers):
    names = {"__name__": "__main__", "lock": threading.Lock()}
    exec("def locked(value):\n    return [lock.locked() for _ in range(value)]\n", names)
    with unserializable(r"the global 'lock' \(lock\) cannot be pickled"):
        numbers.map(names["locked"])


def test_element_that_cannot_travel_is_named(env):
    with unserializable(
        r"cannot ship collection of 2 elements to its tasks: values\[1\]\['a'\] \(lock\).*plain data"
    ):
        env.from_collection([1, {"a": threading.Lock()}])


def test_what_says_nothing_about_its_parts_is_refused_as_ever(numbers):
    class Stubborn(MapFunction):
        def __reduce__(self):
            raise RuntimeError("not me")

        def map(self, value):
            return value

    with unserializable(r"class Stubborn at .*: RuntimeError: 'not me'; create what cannot be pickled"):
        numbers.map(Stubborn())
