"""An error in user code names operator, subtask, function and the very record, in one traceback."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from firesteel.common.errors import UserCodeError
from firesteel.common.typeinfo import Types
from firesteel.contracts.functions import MapFunction, ProcessFunction, RuntimeContext
from firesteel.contracts.sink import SinkFunction
from firesteel.plan import operator_specs as specs
from firesteel.plan.exchange import Rebalance
from firesteel.plan.shipped import Shipped
from firesteel.testing._operator_harness import OperatorHarness
from firesteel_support.flow import Flow

VALUES = [1, 2, 0, 4]
TIMES: list[int | None] = [10, 20, 30, 40]


def fails_on_zero(value: Any) -> Any:
    return 1 // value


def fails_with_zero(old: Any, new: Any) -> Any:
    return old // new


class FailingProcess(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:
        yield 1 // value


class FailingSink(SinkFunction):
    def invoke(self, value: Any, context: SinkFunction.Context) -> None:
        1 // value


def generator(value: Any) -> Iterator[Any]:
    yield 1
    yield 1 // value


CASES: list[tuple[Any, Any, tuple[Callable[[Any], Any], ...]]] = [
    (specs.MapSpec, fails_on_zero, ()),
    (specs.FilterSpec, fails_on_zero, ()),
    (specs.FlatMapSpec, generator, ()),
    (specs.ProcessSpec, FailingProcess(), ()),
    (specs.ProcessSpec, FailingProcess(), (lambda v: v,)),
    (specs.ReduceSpec, fails_with_zero, (lambda v: 0,)),
    (specs.SinkSpec, FailingSink(), ()),
]


@pytest.mark.parametrize(("kind", "function", "keys"), CASES, ids=lambda case: getattr(case, "__name__", ""))
@pytest.mark.parametrize("timestamps", [None, TIMES])
def test_the_record_is_the_one_that_failed(kind: Any, function: Any, keys: Any, timestamps: Any) -> None:
    op = OperatorHarness(kind(Shipped.of(function, "test")), keys=keys, parallelism=4, subtask=2)
    with pytest.raises(UserCodeError, match="ZeroDivisionError") as caught:
        op.process(VALUES, timestamps)
    error = caught.value
    assert error.record == "0"
    assert (error.operator, error.subtask, error.parallelism) == ("Operator", 2, 4)
    assert "test_blame.py" in error.function
    assert isinstance(error.__cause__, ZeroDivisionError)


def test_the_traceback_begins_in_user_code() -> None:
    op = OperatorHarness(specs.MapSpec(Shipped.of(fails_on_zero, "map")))
    with pytest.raises(UserCodeError) as caught:
        op.process(VALUES)
    assert caught.value.traceback_text.count("File ") == 1
    assert "return 1 // value" in caught.value.traceback_text
    assert pickle.loads(pickle.dumps(caught.value)).record == "0"


@pytest.mark.parametrize("values", [[1, 2, 3], [3]])
@pytest.mark.parametrize("kind", [specs.MapSpec, specs.FilterSpec, specs.FlatMapSpec, specs.SinkSpec])
def test_stop_iteration_is_an_error_like_any_other(kind: Any, values: list[int]) -> None:
    def stops(value: int) -> Any:
        if value == 3:
            raise StopIteration
        return [value]

    op = OperatorHarness(kind(Shipped.of(stops, "test")))
    with pytest.raises(UserCodeError, match="StopIteration") as caught:
        op.process(values)
    assert caught.value.record == "3"
    assert op.output.values == []


def test_a_failing_key_selector_is_blamed_on_its_record() -> None:
    op = OperatorHarness(specs.ReduceSpec(Shipped.of(lambda a, b: a, "reduce")), keys=(lambda v: 1 // v,))
    with pytest.raises(UserCodeError, match="ZeroDivisionError") as caught:
        op.process(VALUES)
    assert caught.value.record == "0"


@pytest.mark.parametrize("parallelism", [1, 2])
def test_what_is_no_key_is_explained_whatever_the_parallelism(parallelism: int) -> None:
    flow = Flow(parallelism)
    flow.collect(flow.reduce(flow.source([1, 2]), lambda a, b: a, key=lambda v: float("nan")), "out")
    with pytest.raises(UserCodeError, match=r"cannot be a key") as caught:
        flow.run()
    assert caught.value.record in ("1", "2")


def test_a_value_that_does_not_fit_its_type_is_named() -> None:
    flow = Flow()
    flow.collect(
        flow.map(flow.source([1, 2, 3]), lambda v: "x" if v == 2 else v, output_type=Types.INT()), "out"
    )
    with pytest.raises(UserCodeError, match="expected Integer, got 'x'") as caught:
        flow.run()
    assert (caught.value.operator, caught.value.record) == ("Map", "'x'")


def test_an_error_further_down_the_chain_is_blamed_there() -> None:
    flow = Flow()
    stream = flow.filter(flow.flat_map(flow.source(VALUES), lambda v: [v * 10]), lambda v: True)
    flow.collect(flow.map(stream, fails_on_zero), "out")
    with pytest.raises(UserCodeError) as caught:
        flow.run()
    assert (caught.value.operator, caught.value.record) == ("Map", "0")
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


class FailsToOpen(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        raise OSError("no database")

    def map(self, value: Any) -> Any:
        return value


class FailsToClose(MapFunction):
    def map(self, value: Any) -> Any:
        return value

    def close(self) -> None:
        raise OSError("still busy")


@pytest.mark.parametrize(
    ("function", "text"), [(FailsToOpen(), "no database"), (FailsToClose(), "still busy")]
)
def test_errors_in_open_and_close_fail_the_job(function: MapFunction, text: str) -> None:
    flow = Flow()
    flow.collect(flow.map(flow.source([1]), function), "out")
    with pytest.raises(UserCodeError, match=text) as caught:
        flow.run()
    assert caught.value.operator == "Map"
    assert caught.value.record == ""


def test_a_function_that_cannot_be_loaded_in_the_task_is_named() -> None:
    flow = Flow()
    broken = Shipped(b"not a pickle", "lambda at job.py:12")
    source = flow.source([1])
    node = flow.map(source, len)
    flow.graph.change(node, spec=specs.MapSpec(broken))
    flow.collect(node, "out")
    with pytest.raises(UserCodeError, match="cannot be loaded") as caught:
        flow.run()
    assert (caught.value.operator, caught.value.function) == ("Map", "lambda at job.py:12")


def test_an_error_from_another_exchange_is_not_wrapped_twice() -> None:
    flow = Flow(2)
    stream = flow.map(flow.map(flow.source(VALUES), lambda v: v), fails_on_zero, by=Rebalance())
    flow.collect(stream, "out")
    with pytest.raises(UserCodeError) as caught:
        flow.run(seed=3)
    assert str(caught.value).count("operator:") == 1
    assert "simulator seed: 3" in "".join(caught.value.__notes__)
