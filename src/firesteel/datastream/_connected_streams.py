"""Two streams as the inputs of one operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, overload

from firesteel.common._did_you_mean import SuggestsNames
from firesteel.common._override import override
from firesteel.common._type_variables import TypeVar
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
    KeySelector,
)
from firesteel.contracts.state import MapStateDescriptor
from firesteel.contracts.stream_operators import InputSelectable, TwoInputStreamOperator
from firesteel.datastream._annotations import Annotation
from firesteel.datastream._key_selectors import KeyLike
from firesteel.datastream._keyed_stream import KeyedStream
from firesteel.datastream._other_names import OF_CONNECTED
from firesteel.datastream._stream import DataStream, Origin, declared_type, output_type_of, type_texts
from firesteel.datastream._user_functions import ship_function, ship_operator, wrong_argument
from firesteel.plan.operator_specs import (
    BroadcastProcessSpec,
    CoFlatMapSpec,
    CoMapSpec,
    CoProcessSpec,
    OperatorSpec,
    TwoInputTransformSpec,
)

__all__ = ["BroadcastConnectedStream", "BroadcastStream", "ConnectedStreams"]

T = TypeVar("T", covariant=True, default=Any)
T1 = TypeVar("T1", covariant=True, default=Any)
T2 = TypeVar("T2", covariant=True, default=Any)
OUT = TypeVar("OUT", default=Any)
K = TypeVar("K", default=Any)

_NOTHING: Mapping[str, TypeInformation | None] = {}


class ConnectedStreams(SuggestsNames, Generic[T1, T2]):
    """Two streams, of whatever types, whose records meet in one function with shared state."""

    _elsewhere = OF_CONNECTED

    def __init__(self, stream1: DataStream[T1], stream2: DataStream[T2]) -> None:
        self.stream1 = stream1
        self.stream2 = stream2
        if isinstance(stream1, KeyedStream) and isinstance(stream2, KeyedStream):
            _check_key_types(stream1, stream2)

    def key_by(
        self,
        key_selector1: Callable[[T1], K] | KeySelector[T1, K] | int | str | list[KeyLike],
        key_selector2: Callable[[T2], K] | KeySelector[T2, K] | int | str | list[KeyLike],
        key_type: TypeInformation | None = None,
    ) -> ConnectedStreams[T1, T2]:
        """Divide both by keys, so that records with equal keys meet and share state."""
        return ConnectedStreams(
            _origin(self.stream1).key_by(key_selector1, key_type=key_type),
            _origin(self.stream2).key_by(key_selector2, key_type=key_type),
        )

    @overload
    def map(self, func: CoMapFunction[T1, T2, OUT]) -> DataStream[OUT]: ...

    @overload
    def map(
        self, func: CoMapFunction[T1, T2, Any], output_type: TypeInformation[OUT] | None
    ) -> DataStream[OUT]: ...

    def map(
        self, func: CoMapFunction[T1, T2, Any], output_type: TypeInformation | None = None
    ) -> DataStream[Any]:
        """One output for each record: ``map1`` or ``map2`` of it, nothing for None."""
        spec = CoMapSpec(ship_function(func, "map() of connected streams", CoMapFunction))
        stream = self._add("Co-Map", spec, output_type, function=func)
        return stream._annotated(Annotation.of_results(func, "map1", "map2"))

    @overload
    def flat_map(self, func: CoFlatMapFunction[T1, T2, OUT]) -> DataStream[OUT]: ...

    @overload
    def flat_map(
        self, func: CoFlatMapFunction[T1, T2, Any], output_type: TypeInformation[OUT] | None
    ) -> DataStream[OUT]: ...

    def flat_map(
        self, func: CoFlatMapFunction[T1, T2, Any], output_type: TypeInformation | None = None
    ) -> DataStream[Any]:
        """Any number of outputs for each record: ``flat_map1`` or ``flat_map2`` of it."""
        spec = CoFlatMapSpec(ship_function(func, "flat_map() of connected streams", CoFlatMapFunction))
        stream = self._add("Co-Flat Map", spec, output_type, function=func)
        return stream._annotated(Annotation.of_each_result(func, "flat_map1", "flat_map2"))

    @overload
    def process(
        self, func: CoProcessFunction[T1, T2, OUT] | KeyedCoProcessFunction[Any, T1, T2, OUT]
    ) -> DataStream[OUT]: ...

    @overload
    def process(
        self,
        func: CoProcessFunction[T1, T2, Any] | KeyedCoProcessFunction[Any, T1, T2, Any],
        output_type: TypeInformation[OUT] | None,
    ) -> DataStream[OUT]: ...

    def process(
        self,
        func: CoProcessFunction[T1, T2, Any] | KeyedCoProcessFunction[Any, T1, T2, Any],
        output_type: TypeInformation | None = None,
    ) -> DataStream[Any]:
        """What a function makes of the records, with side outputs; with state and timers when keyed."""
        kinds: tuple[type[Function], ...] = (CoProcessFunction,)
        used_by, name = "process() of connected streams without keys", "Co-Process"
        self._refuse_one_key(func)
        if self._is_keyed_stream():
            kinds = (KeyedCoProcessFunction, CoProcessFunction)
            used_by, name = "process() of keyed connected streams", "Keyed Co-Process"
        stream = self._add(
            name, CoProcessSpec(ship_function(func, used_by, *kinds)), output_type, function=func
        )
        methods = (
            "process_element1",
            "process_element2",
            *(("on_timer",) if hasattr(func, "on_timer") else ()),
        )
        return stream._annotated(Annotation.of_each_result(func, *methods))

    def transform(
        self,
        operator_name: str,
        operator: TwoInputStreamOperator,
        output_type: TypeInformation[OUT] | None = None,
    ) -> DataStream[OUT]:
        """What an operator of one's own makes of both streams; when keyed it has state and timers per key.

        As in Java, and not in PyFlink; see `firesteel.datastream.operators`. One that is also `InputSelectable`
        chooses which stream is read next.
        """
        used_by = "transform() of connected streams"
        shipped = ship_operator(operator_name, operator, used_by, TwoInputStreamOperator)
        spec = TwoInputTransformSpec(shipped, selects=isinstance(operator, InputSelectable))
        return self._add(operator_name, spec, output_type)

    def _is_keyed_stream(self) -> bool:
        """Whether records of both streams have keys; with those of one alone there is no state per key, as in Flink."""
        return isinstance(self.stream1, KeyedStream) and isinstance(self.stream2, KeyedStream)

    def _key_type(self) -> TypeInformation | None:
        if not self._is_keyed_stream():
            return None
        return self.stream1._key_type() or self.stream2._key_type()

    def _refuse_one_key(self, function: object) -> None:
        """Refuse a function that needs keys where the records of one stream have none."""
        keyed = [isinstance(stream, KeyedStream) for stream in (self.stream1, self.stream2)]
        if isinstance(function, KeyedCoProcessFunction) and any(keyed) and not all(keyed):
            raise wrong_argument(
                "process() of a keyed stream and one without keys",
                "a CoProcessFunction",
                function,
                f"records of the {'second' if keyed[0] else 'first'} stream have no key, so there is no state for "
                "them: call key_by() on both streams; for records that all keys shall see, broadcast(descriptor) their "
                "stream and use a KeyedBroadcastProcessFunction",
            )

    def _add(
        self,
        name: str,
        spec: OperatorSpec,
        output_type: TypeInformation | None,
        kept: Mapping[str, TypeInformation | None] = _NOTHING,
        function: object = None,
    ) -> DataStream[Any]:
        environment = self.stream1._env
        type_info = output_type_of(f"{name}", output_type, function)
        selectors = [(stream._key_selectors() or (None,))[0] for stream in (self.stream1, self.stream2)]
        node = environment._add_node(
            name,
            spec,
            (*self.stream1._edges(0), *self.stream2._edges(1)),
            output_type=type_info,
            key_selectors=tuple(selectors) if self._is_keyed_stream() else (),
            state_types=type_texts({"keys": self._key_type(), **kept}),
        )
        return DataStream(environment, (Origin(node),), type_info)

    @override
    def __repr__(self) -> str:
        return f"ConnectedStreams({self.stream1!r}, {self.stream2!r})"


def _origin(stream: DataStream[T]) -> DataStream[T]:
    return stream._origin_stream if isinstance(stream, KeyedStream) else stream


def _check_key_types(stream1: KeyedStream, stream2: KeyedStream) -> None:
    type1, type2 = stream1._key.type, stream2._key.type
    if type1 is not None and type2 is not None and type1 != type2:
        raise ProgramError(
            f"connect() needs streams with keys of one type, got {type1} and {type2}; "
            "equal keys of different types would never meet"
        )


class BroadcastStream(SuggestsNames, Generic[T]):
    """A stream of which every subtask gets every record, to keep as broadcast state."""

    def __init__(
        self, input_stream: DataStream[T], broadcast_state_descriptors: list[MapStateDescriptor]
    ) -> None:
        self.input_stream = input_stream
        self.broadcast_state_descriptors = broadcast_state_descriptors


class BroadcastConnectedStream(SuggestsNames, Generic[T1, T2]):
    """A stream and a broadcast one as the inputs of one operator."""

    _elsewhere = OF_CONNECTED

    def __init__(
        self,
        non_broadcast_stream: DataStream[T1],
        broadcast_stream: BroadcastStream[T2],
        broadcast_state_descriptors: list[MapStateDescriptor],
    ) -> None:
        self.non_broadcast_stream = non_broadcast_stream
        self.broadcast_stream = broadcast_stream
        self.broadcast_state_descriptors = broadcast_state_descriptors

    @overload
    def process(
        self, func: BroadcastProcessFunction[T1, T2, OUT] | KeyedBroadcastProcessFunction[Any, T1, T2, OUT]
    ) -> DataStream[OUT]: ...

    @overload
    def process(
        self,
        func: BroadcastProcessFunction[T1, T2, Any] | KeyedBroadcastProcessFunction[Any, T1, T2, Any],
        output_type: TypeInformation[OUT] | None,
    ) -> DataStream[OUT]: ...

    def process(
        self,
        func: BroadcastProcessFunction[T1, T2, Any] | KeyedBroadcastProcessFunction[Any, T1, T2, Any],
        output_type: TypeInformation | None = None,
    ) -> DataStream[Any]:
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
        methods = ("process_element", "process_broadcast_element", *(("on_timer",) if keyed else ()))
        annotation = Annotation.of_each_result(func, *methods)
        return DataStream(stream._env, (Origin(node),), type_info)._annotated(annotation)
