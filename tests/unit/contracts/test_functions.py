import asyncio

import pytest

from firesteel.contracts import functions
from firesteel.contracts.functions import AsyncFunction, Function, KeyedProcessFunction, MapFunction
from firesteel.contracts.output_tag import OutputTag


def test_everything_exported_is_there():
    assert all(hasattr(functions, name) for name in functions.__all__)


def test_open_and_close_are_optional():
    class Add(MapFunction):
        def map(self, value):
            return value + 1

    function = Add()
    function.open(None)
    assert function.map(1) == 2
    function.close()
    assert Add.open is Function.open


def test_on_timer_is_optional_and_process_element_is_not():
    class Process(KeyedProcessFunction):
        def process_element(self, value, ctx):
            return [value]

    assert Process().on_timer(1, None) is None
    with pytest.raises(TypeError):
        KeyedProcessFunction()


@pytest.mark.parametrize(
    "context",
    [
        functions.ProcessFunction.Context,
        functions.KeyedProcessFunction.Context,
        functions.KeyedProcessFunction.OnTimerContext,
        functions.CoProcessFunction.Context,
        functions.KeyedCoProcessFunction.OnTimerContext,
        functions.ProcessWindowFunction.Context,
        functions.BroadcastProcessFunction.Context,
        functions.KeyedBroadcastProcessFunction.OnTimerContext,
    ],
)
def test_every_context_can_send_to_a_side_output(context):
    assert "output" in context.__abstractmethods__


def test_contexts_of_timers_are_contexts():
    assert issubclass(functions.KeyedProcessFunction.OnTimerContext, functions.KeyedProcessFunction.Context)
    assert issubclass(
        functions.KeyedCoProcessFunction.OnTimerContext, functions.KeyedCoProcessFunction.Context
    )


def test_async_timeout_raises_by_default():
    class Call(AsyncFunction):
        async def async_invoke(self, value):
            return [value]

    assert asyncio.run(Call().async_invoke(1)) == [1]
    with pytest.raises(TimeoutError, match="for 1 took too long"):
        Call().timeout(1)


def test_output_tags_are_equal_by_name():
    assert OutputTag("a") == OutputTag("a") != OutputTag("b")
