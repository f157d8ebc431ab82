"""Two streams as the inputs of one operator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from firesteel.common.errors import ProgramError
from firesteel.common.typeinfo import TypeInformation
from firesteel.contracts.functions import (
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    Function,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
)
from firesteel.contracts.state import MapStateDescriptor
from firesteel.contracts.stream_operators import InputSelectable, TwoInputStreamOperator
from firesteel.datastream.key_selectors import KeyLike
from firesteel.datastream.keyed_stream import KeyedStream
from firesteel.datastream.stream import DataStream, Origin, declared_type, type_texts
from firesteel.datastream.user_functions import ship_function, ship_operator
from firesteel.plan.operator_specs import (
    BroadcastProcessSpec,
    CoFlatMapSpec,
    CoMapSpec,
    CoProcessSpec,
    OperatorSpec,
    TwoInputTransformSpec,
)

__all__ = ["BroadcastConnectedStream", "BroadcastStream", "ConnectedStreams"]

_NOTHING: Mapping[str, TypeInformation | None] = {}


class ConnectedStreams:
    """Two streams, of whatever types, whose records meet in one function with shared state."""

    def __init__(self, stream1: DataStream, stream2: DataStream) -> None:
        self.stream1 = stream1
        self.stream2 = stream2
        if isinstance(stream1, KeyedStream) and isinstance(stream2, KeyedStream):
            _check_key_types(stream1, stream2)

    def key_by(
        self,
        key_selector1: KeyLike | list[KeyLike],
        key_selector2: KeyLike | list[KeyLike],
        key_type: TypeInformation | None = None,
    ) -> ConnectedStreams:
        """Divide both by keys, so that records with equal keys meet and share state."""
        return ConnectedStreams(
            _origin(self.stream1).key_by(key_selector1, key_type=key_type),  # type: ignore[arg-type]
            _origin(self.stream2).key_by(key_selector2, key_type=key_type),  # type: ignore[arg-type]
        )

    def map(self, func: CoMapFunction, output_type: TypeInformation | None = None) -> DataStream:
        """One output for each record: ``map1`` or ``map2`` of it, nothing for None."""
        spec = CoMapSpec(ship_function(func, "map() of connected streams", CoMapFunction))
        return self._add("Co-Map", spec, output_type)

    def flat_map(self, func: CoFlatMapFunction, output_type: TypeInformation | None = None) -> DataStream:
        """Any number of outputs for each record: ``flat_map1`` or ``flat_map2`` of it."""
        spec = CoFlatMapSpec(ship_function(func, "flat_map() of connected streams", CoFlatMapFunction))
        return self._add("Co-Flat Map", spec, output_type)

    def process(
        self, func: CoProcessFunction | KeyedCoProcessFunction, output_type: TypeInformation | None = None
    ) -> DataStream:
        """What a function makes of the records, with side outputs; with state and timers when keyed."""
        kinds: tuple[type[Function], ...] = (CoProcessFunction,)
        used_by, name = "process() of connected streams without keys", "Co-Process"
        if self._is_keyed_stream():
            kinds = (KeyedCoProcessFunction, CoProcessFunction)
            used_by, name = "process() of keyed connected streams", "Keyed Co-Process"
        return self._add(name, CoProcessSpec(ship_function(func, used_by, *kinds)), output_type)

    def transform(
        self, operator_name: str, operator: TwoInputStreamOperator, output_type: TypeInformation | None = None
    ) -> DataStream:
        """What an operator of one's own makes of both streams; when keyed it has state and timers per key.

        As in Java, and not in PyFlink; see `firesteel.datastream.operators`. One that is also `InputSelectable`
        chooses which stream is read next.
        """
        used_by = "transform() of connected streams"
        shipped = ship_operator(operator_name, operator, used_by, TwoInputStreamOperator)
        spec = TwoInputTransformSpec(shipped, selects=isinstance(operator, InputSelectable))
        return self._add(operator_name, spec, output_type)

    def _is_keyed_stream(self) -> bool:
        return isinstance(self.stream1, KeyedStream) or isinstance(self.stream2, KeyedStream)

    def _add(
        self,
        name: str,
        spec: OperatorSpec,
        output_type: TypeInformation | None,
        kept: Mapping[str, TypeInformation | None] = _NOTHING,
    ) -> DataStream:
        environment = self.stream1._env
        type_info = declared_type(f"{name}", output_type)
        selectors = [(stream._key_selectors() or (None,))[0] for stream in (self.stream1, self.stream2)]
        node = environment._add_node(
            name,
            spec,
            (*self.stream1._edges(0), *self.stream2._edges(1)),
            output_type=type_info,
            key_selectors=tuple(selectors) if self._is_keyed_stream() else (),
            state_types=type_texts({"keys": self.stream1._key_type() or self.stream2._key_type(), **kept}),
        )
        return DataStream(environment, (Origin(node),), type_info)

    def __repr__(self) -> str:
        return f"ConnectedStreams({self.stream1!r}, {self.stream2!r})"


def _origin(stream: DataStream) -> DataStream:
    return stream._origin_stream if isinstance(stream, KeyedStream) else stream


def _check_key_types(stream1: KeyedStream, stream2: KeyedStream) -> None:
    type1, type2 = stream1._key.type, stream2._key.type
    if type1 is not None and type2 is not None and type1 != type2:
        raise ProgramError(
            f"connect() needs streams with keys of one type, got {type1} and {type2}; "
            "equal keys of different types would never meet"
        )


class BroadcastStream:
    """A stream of which every subtask gets every record, to keep as broadcast state."""

    def __init__(
        self, input_stream: DataStream, broadcast_state_descriptors: list[MapStateDescriptor]
    ) -> None:
        self.input_stream = input_stream
        self.broadcast_state_descriptors = broadcast_state_descriptors


class BroadcastConnectedStream:
    """A stream and a broadcast one as the inputs of one operator."""

    def __init__(
        self,
        non_broadcast_stream: DataStream,
        broadcast_stream: BroadcastStream,
        broadcast_state_descriptors: list[MapStateDescriptor],
    ) -> None:
        self.non_broadcast_stream = non_broadcast_stream
        self.broadcast_stream = broadcast_stream
        self.broadcast_state_descriptors = broadcast_state_descriptors

    def process(
        self,
        func: BroadcastProcessFunction[Any, Any, Any] | KeyedBroadcastProcessFunction[Any, Any, Any, Any],
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """What a function makes of both: the broadcast side writes broadcast state, the other side reads it.

        A keyed stream takes a `KeyedBroadcastProcessFunction`, which has state and timers per key.
        """
        stream = self.non_broadcast_stream
        keyed = isinstance(stream, KeyedStream)
        kind = KeyedBroadcastProcessFunction if keyed else BroadcastProcessFunction
        used_by = f"process() of a {'keyed ' if keyed else ''}stream connected with a broadcast one"
        shipped = ship_function(func, used_by, kind)
        type_info = declared_type("process()", output_type)
        node = stream._env._add_node(
            "Keyed Broadcast Process" if keyed else "Broadcast Process",
            BroadcastProcessSpec(shipped, tuple(self.broadcast_state_descriptors)),
            (*stream._edges(0), *self.broadcast_stream.input_stream._edges(1)),
            output_type=type_info,
            key_selectors=(*stream._key_selectors(), None) if keyed else (),
            state_types=type_texts({"keys": stream._key_type()}),
        )
        return DataStream(stream._env, (Origin(node),), type_info)
