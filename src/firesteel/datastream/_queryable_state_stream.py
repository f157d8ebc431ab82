"""The end of a keyed stream whose newest records others may ask for: `KeyedStream.as_queryable_state`."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from firesteel.common._override import override
from firesteel.common.errors import ProgramError, WrongArgumentError, short_repr
from firesteel.common.typeinfo import TypeInformation, Types
from firesteel.contracts.runtime_context import RuntimeContext
from firesteel.contracts.sink import SinkFunction
from firesteel.contracts.state import ReducingStateDescriptor, StateDescriptor, ValueStateDescriptor
from firesteel.datastream._data_stream_sink import DataStreamSink
from firesteel.datastream._stream import type_texts
from firesteel.datastream._user_functions import wrong_argument
from firesteel.plan.operator_specs import SinkSpec
from firesteel.plan.shipped import Shipped

if TYPE_CHECKING:
    from firesteel.datastream._keyed_stream import KeyedStream

__all__ = ["QueryableStateStream", "end_in_queryable_state"]


class QueryableStateStream(DataStreamSink):
    """A sink that keeps the newest record of each key, or their reduction, for those who ask; see docs/queryable_state.md."""

    def __init__(
        self, keyed_stream: KeyedStream[Any, Any], node: int, state_descriptor: StateDescriptor
    ) -> None:
        super().__init__(keyed_stream._env, node)
        self._descriptor = state_descriptor
        self._key_type = keyed_stream.get_key_type()

    def get_queryable_state_name(self) -> str:
        """The name under which others ask for the state."""
        name = self._descriptor.get_queryable_state_name()
        assert name is not None
        return name

    def get_state_descriptor(self) -> StateDescriptor:
        """What describes the state."""
        return self._descriptor

    def get_key_type(self) -> TypeInformation:
        """The declared type of the keys; pickled bytes when none was declared."""
        return self._key_type


def end_in_queryable_state(
    stream: KeyedStream[Any, Any],
    queryable_state_name: str,
    state_descriptor: ValueStateDescriptor | ReducingStateDescriptor | None,
) -> QueryableStateStream:
    """Add the sink; refuses descriptors whose states do not take one record after the other."""
    operation = "as_queryable_state()"
    if not isinstance(queryable_state_name, str) or not queryable_state_name:
        raise WrongArgumentError(
            f"{operation} needs the name under which others ask for the state, got {short_repr(queryable_state_name)}"
        )
    if state_descriptor is None:
        # Named by its purpose, and not by chance as in Flink: then a savepoint can be resumed from.
        type_info = Types.PICKLED_BYTE_ARRAY() if stream._type is None else stream._type
        state_descriptor = ValueStateDescriptor(queryable_state_name, type_info)
    if not isinstance(state_descriptor, ValueStateDescriptor | ReducingStateDescriptor):
        raise wrong_argument(
            operation, "a ValueStateDescriptor or a ReducingStateDescriptor", state_descriptor
        )
    name = state_descriptor.get_queryable_state_name()
    if name not in (None, queryable_state_name):
        raise ProgramError(
            f"{operation}: {state_descriptor!r} is queryable as {name!r} already, and not as {queryable_state_name!r}"
        )
    if name is None:
        state_descriptor = copy.copy(state_descriptor)  # whoever has made it may use it for another stream
        state_descriptor.set_queryable(queryable_state_name)
    sink = (
        _KeepsNewest(state_descriptor)
        if isinstance(state_descriptor, ValueStateDescriptor)
        else _KeepsReduction(state_descriptor)
    )
    description = f"as_queryable_state({queryable_state_name!r})"
    spec = SinkSpec(Shipped.of(sink, operation, description))
    node = stream._env._add_node(
        f"Queryable state: {queryable_state_name}",
        spec,
        stream._edges(),
        key_selectors=stream._key_selectors(),
        state_types=type_texts({"keys": stream._key_type()}),
    )
    return QueryableStateStream(stream, node, state_descriptor)


class _KeepsNewest(SinkFunction[Any]):
    """The newest record of each key."""

    def __init__(self, descriptor: ValueStateDescriptor) -> None:
        self._descriptor = descriptor

    @override
    def open(self, runtime_context: RuntimeContext) -> None:
        self._state = runtime_context.get_state(self._descriptor)

    @override
    def invoke(self, value: Any, context: SinkFunction.Context) -> None:
        self._state.update(value)


class _KeepsReduction(SinkFunction[Any]):
    """What a function reduces the records of each key to."""

    def __init__(self, descriptor: ReducingStateDescriptor) -> None:
        self._descriptor = descriptor

    @override
    def open(self, runtime_context: RuntimeContext) -> None:
        self._state = runtime_context.get_reducing_state(self._descriptor)

    @override
    def invoke(self, value: Any, context: SinkFunction.Context) -> None:
        self._state.add(value)
