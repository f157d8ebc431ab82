"""Spec -> operator: the only place that knows both."""

from __future__ import annotations

from collections.abc import Callable

from firesteel.contracts.sink import DiscardingSink
from firesteel.contracts.two_phase_commit import TwoPhaseCommitSinkFunction
from firesteel.contracts.write_ahead import GenericWriteAheadSink
from firesteel.plan import operator_specs as specs
from firesteel.plan.job_plan import OperatorPlan
from firesteel.plan.keys import KeyOf
from firesteel.runtime.event_time import TimestampsOperator
from firesteel.runtime.operator import Operator
from firesteel.runtime.operators.announced import KeyedBatches
from firesteel.runtime.operators.async_wait import AsyncWaitOperator
from firesteel.runtime.operators.bad_messages import BadMessages
from firesteel.runtime.operators.broadcast import BroadcastProcessOperator
from firesteel.runtime.operators.collect import CollectOperator
from firesteel.runtime.operators.interval_join import IntervalJoinOperator
from firesteel.runtime.operators.process import CoFlatMapOperator, CoMapOperator, ProcessOperator, keyed_call
from firesteel.runtime.operators.raw import RawOperator
from firesteel.runtime.operators.reduce import ReduceOperator
from firesteel.runtime.operators.sink import DiscardOperator, PrintOperator, SinkOperator, WriterSinkOperator
from firesteel.runtime.operators.source import SourceOperator
from firesteel.runtime.operators.stateless import (
    FilterOperator,
    FlatMapOperator,
    MapOperator,
    StatelessOperator,
)
from firesteel.runtime.operators.tolerance import (
    Tolerance,
    TolerantFilterOperator,
    TolerantFlatMapOperator,
    TolerantMapOperator,
)
from firesteel.runtime.operators.two_phase_commit import TwoPhaseCommitOperator
from firesteel.runtime.operators.windows.factory import create_window_operator
from firesteel.runtime.operators.with_state import WithStateOperator
from firesteel.runtime.operators.write_ahead import WriteAheadOperator
from firesteel.runtime.user_function import UserFunction
from firesteel.state.keyed_backend import KeyedBackend
from firesteel.state.operator_state import OperatorStateBackend


def create_operator(
    plan: OperatorPlan,
    keys: tuple[KeyOf | None, ...],
    state: KeyedBackend,
    operator_state: OperatorStateBackend,
) -> Operator:
    """The live operator of one subtask; ``keys`` and ``state`` are used when the operator is keyed."""
    match plan.spec:
        case specs.PrintSpec(identifier, to_stderr, input_type):
            return PrintOperator(identifier, to_stderr, input_type)
        case specs.CollectSpec(collect_id):
            return CollectOperator(collect_id)
        case specs.WindowSpec():
            assert keys[0] is not None
            return create_window_operator(plan.spec, keys[0], state)
        case specs.SourceSpec(source, strategy=strategy):
            made = None if strategy is None else UserFunction(strategy).instance
            bad = BadMessages(plan.name, plan.spec.on_error) if plan.spec.decodes else None
            return SourceOperator(UserFunction(source), made, plan.id, bad)
        case specs.SinkSpec(sink):
            return _create_sink(UserFunction(sink), plan.id, keys[0] if keys else None, state)
        case specs.WriterSinkSpec(sink, input_type):
            return WriterSinkOperator(UserFunction(sink), input_type)
    assert plan.spec.user_code is not None
    if isinstance(plan.spec, specs.BroadcastProcessSpec):
        operator_state.declare(plan.spec.descriptors)
        live = UserFunction(plan.spec.user_code)
        tolerance = _tolerance(plan.name, plan.spec)
        return BroadcastProcessOperator(live, keys, state, operator_state, plan.spec.descriptors, tolerance)
    function = UserFunction(plan.spec.user_code)
    if isinstance(plan.spec, specs.RecordFunctionSpec):
        return _around_record_function(plan.name, plan.spec, function, keys, state)
    return _around_function(plan.spec, function, keys, state)


def _tolerance(name: str, spec: specs.RecordFunctionSpec) -> Tolerance | None:
    return None if spec.on_error is None else Tolerance(name, spec.on_error)


def _around_record_function(
    name: str,
    spec: specs.RecordFunctionSpec,
    function: UserFunction,
    keys: tuple[KeyOf | None, ...],
    state: KeyedBackend,
) -> Operator:
    tolerance = _tolerance(name, spec)
    match spec:
        case specs.ProcessSpec():
            return ProcessOperator(function, ("process_element",), keys, state, tolerance)
        case specs.CoProcessSpec():
            methods = ("process_element1", "process_element2")
            return ProcessOperator(function, methods, keys, state, tolerance)
        case specs.CoMapSpec():
            return CoMapOperator(function, keys, state, tolerance)
        case specs.CoFlatMapSpec():
            return CoFlatMapOperator(function, keys, state, tolerance)
    method, plain, tolerant = _STATELESS[type(spec)]
    function, batches = _in_key_context(function, method, keys, state)
    return plain(function, batches) if tolerance is None else tolerant(function, batches, tolerance)


#: By spec: the method of the function, the operator, and the one for functions that may raise.
_STATELESS: dict[
    type[specs.OperatorSpec],
    tuple[str, Callable[..., StatelessOperator], Callable[..., StatelessOperator]],
] = {
    specs.MapSpec: ("map", MapOperator, TolerantMapOperator),
    specs.FilterSpec: ("filter", FilterOperator, TolerantFilterOperator),
    specs.FlatMapSpec: ("flat_map", FlatMapOperator, TolerantFlatMapOperator),
}


def _around_function(
    spec: specs.OperatorSpec, function: UserFunction, keys: tuple[KeyOf | None, ...], state: KeyedBackend
) -> Operator:
    match spec:
        case specs.TimestampsSpec():
            return TimestampsOperator(function.instance)
        case specs.TransformSpec():
            return RawOperator(function, ("process_batch",), keys, state)
        case specs.TwoInputTransformSpec():
            return RawOperator(function, ("process_batch1", "process_batch2"), keys, state)
        case specs.WithStateSpec(_, kind):
            assert keys[0] is not None
            return WithStateOperator(function, kind, keys[0], state)
        case specs.AsyncSpec():
            retry = None if spec.retry is None else UserFunction(spec.retry).instance
            return AsyncWaitOperator(spec, function, retry)
        case specs.IntervalJoinSpec():
            return IntervalJoinOperator(spec, function, keys, state)
        case specs.ReduceSpec():
            assert keys[0] is not None
            return ReduceOperator(function, keys[0], state)
    raise NotImplementedError(f"no operator for {type(spec).__name__}")


def _create_sink(
    function: UserFunction, operator_id: str, key_of: KeyOf | None, state: KeyedBackend
) -> Operator:
    if isinstance(function.instance, TwoPhaseCommitSinkFunction):
        return TwoPhaseCommitOperator(function)
    if isinstance(function.instance, GenericWriteAheadSink):
        return WriteAheadOperator(function, operator_id)
    if type(function.instance) is DiscardingSink:
        return DiscardOperator(function)
    return SinkOperator(function, key_of, state)


def _in_key_context(
    function: UserFunction, method: str, keys: tuple[KeyOf | None, ...], state: KeyedBackend
) -> tuple[UserFunction, KeyedBatches | None]:
    """Plain functions on a keyed stream see the state of the record's key.

    Only a function with an ``open`` of its own can hold state, so no key is computed for the others.
    """
    if keys and keys[0] is not None and function.is_rich:
        function.override(method, keyed_call(function.method(method), keys[0], state))
        return function, KeyedBatches(keys[0], state)
    return function, None
