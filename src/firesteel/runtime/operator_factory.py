"""Spec -> operator: the only place that knows both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from firesteel.contracts.sink import DiscardingSink
from firesteel.contracts.two_phase_commit import TwoPhaseCommitSinkFunction
from firesteel.contracts.write_ahead import GenericWriteAheadSink
from firesteel.plan import operator_specs as specs
from firesteel.plan.job_plan import OperatorPlan
from firesteel.runtime.operator import Operator
from firesteel.runtime.operators.announced import KeyedBatches
from firesteel.runtime.operators.broadcast import BroadcastProcessOperator
from firesteel.runtime.operators.interval_join import IntervalJoinOperator
from firesteel.runtime.operators.process import CoFlatMapOperator, CoMapOperator, ProcessOperator, keyed_call
from firesteel.runtime.operators.raw import RawOperator
from firesteel.runtime.operators.reduce import ReduceOperator
from firesteel.runtime.operators.sink import CollectOperator, DiscardOperator, PrintOperator, SinkOperator
from firesteel.runtime.operators.source import SourceOperator
from firesteel.runtime.operators.stateless import FilterOperator, FlatMapOperator, MapOperator
from firesteel.runtime.operators.timestamps import TimestampsOperator
from firesteel.runtime.operators.two_phase_commit import TwoPhaseCommitOperator
from firesteel.runtime.operators.window_factory import create_window_operator
from firesteel.runtime.operators.with_state import WithStateOperator
from firesteel.runtime.operators.write_ahead import WriteAheadOperator
from firesteel.runtime.operators.writer_sink import WriterSinkOperator
from firesteel.runtime.user_function import UserFunction
from firesteel.state.hashmap_backend import HashMapBackend
from firesteel.state.operator_state import OperatorStateBackend

KeyOf = Callable[[Any], Any]


def create_operator(
    plan: OperatorPlan, state: HashMapBackend, operator_state: OperatorStateBackend
) -> Operator:
    """The live operator of one subtask; ``state`` is used when the operator is keyed."""
    keys = tuple(None if key is None else UserFunction(key).method("get_key") for key in plan.key_selectors)
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
            return SourceOperator(UserFunction(source), made, plan.id)
        case specs.SinkSpec(sink):
            return _create_sink(UserFunction(sink), plan.id, keys[0] if keys else None, state)
        case specs.WriterSinkSpec(sink, input_type):
            return WriterSinkOperator(UserFunction(sink), input_type)
    assert plan.spec.user_code is not None
    if isinstance(plan.spec, specs.BroadcastProcessSpec):
        operator_state.declare(plan.spec.descriptors)
        live = UserFunction(plan.spec.user_code)
        return BroadcastProcessOperator(live, keys, state, operator_state, plan.spec.descriptors)
    return _around_function(plan.spec, UserFunction(plan.spec.user_code), keys, state)


def _around_function(
    spec: specs.OperatorSpec, function: UserFunction, keys: tuple[KeyOf | None, ...], state: HashMapBackend
) -> Operator:
    match spec:
        case specs.TimestampsSpec():
            return TimestampsOperator(function.instance)
        case specs.MapSpec():
            return MapOperator(*_in_key_context(function, "map", keys, state))
        case specs.FilterSpec():
            return FilterOperator(*_in_key_context(function, "filter", keys, state))
        case specs.FlatMapSpec():
            return FlatMapOperator(*_in_key_context(function, "flat_map", keys, state))
        case specs.ProcessSpec():
            return ProcessOperator(function, ("process_element",), keys, state)
        case specs.CoProcessSpec():
            return ProcessOperator(function, ("process_element1", "process_element2"), keys, state)
        case specs.CoMapSpec():
            return CoMapOperator(function, keys, state)
        case specs.CoFlatMapSpec():
            return CoFlatMapOperator(function, keys, state)
        case specs.TransformSpec():
            return RawOperator(function, ("process_batch",), keys, state)
        case specs.TwoInputTransformSpec():
            return RawOperator(function, ("process_batch1", "process_batch2"), keys, state)
        case specs.WithStateSpec(_, kind):
            assert keys[0] is not None
            return WithStateOperator(function, kind, keys[0], state)
        case specs.IntervalJoinSpec():
            return IntervalJoinOperator(spec, function, keys, state)
        case specs.ReduceSpec():
            assert keys[0] is not None
            return ReduceOperator(function, keys[0], state)
    raise NotImplementedError(f"no operator for {type(spec).__name__}")


def _create_sink(
    function: UserFunction, operator_id: str, key_of: KeyOf | None, state: HashMapBackend
) -> Operator:
    if isinstance(function.instance, TwoPhaseCommitSinkFunction):
        return TwoPhaseCommitOperator(function)
    if isinstance(function.instance, GenericWriteAheadSink):
        return WriteAheadOperator(function, operator_id)
    if type(function.instance) is DiscardingSink:
        return DiscardOperator(function)
    return SinkOperator(function, key_of, state)


def _in_key_context(
    function: UserFunction, method: str, keys: tuple[KeyOf | None, ...], state: HashMapBackend
) -> tuple[UserFunction, KeyedBatches | None]:
    """Plain functions on a keyed stream see the state of the record's key.

    Only a function with an ``open`` of its own can hold state, so no key is computed for the others.
    """
    if keys and keys[0] is not None and function.is_rich:
        function.override(method, keyed_call(function.method(method), keys[0], state))
        return function, KeyedBatches(keys[0], state)
    return function, None
