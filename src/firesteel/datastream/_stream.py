"""DataStream: a sequence of records, and everything that can be done with it record by record.

A stream is where its records come from - the outputs of one or more nodes - and how they are to be
distributed to whoever reads it next. Operations add nodes to the environment's graph; redistributing
and uniting add none.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Self, overload

from firesteel.common._override import override
from firesteel.common._type_variables import TypeVar
from firesteel.common.errors import ProgramError, UnsupportedOperationError
from firesteel.common.execution_config import ExecutionConfig
from firesteel.common.time import AnyLength
from firesteel.common.typeinfo import PickledBytesTypeInfo, RowTypeInfo, TupleTypeInfo, TypeInformation, Types
from firesteel.common.watermark_strategy import WatermarkStrategy
from firesteel.contracts.functions import (
    FilterFunction,
    FlatMapFunction,
    KeySelector,
    MapFunction,
    Partitioner,
    ProcessFunction,
)
from firesteel.contracts.output_tag import OutputTag
from firesteel.contracts.sink import Sink, SinkFunction
from firesteel.contracts.state import MapStateDescriptor
from firesteel.contracts.stream_operators import OneInputStreamOperator
from firesteel.contracts.windows import TimeWindow, WindowAssigner
from firesteel.contracts.write_ahead import GenericWriteAheadSink
from firesteel.datastream._annotations import Annotation, produced_type
from firesteel.datastream._closeable_iterator import CloseableIterator
from firesteel.datastream._data_stream_sink import DataStreamSink
from firesteel.datastream._fields import getter, resolve
from firesteel.datastream._key_selectors import KeyLike, key_of
from firesteel.datastream._not_yet import not_yet
from firesteel.datastream._on_error import tolerant_spec
from firesteel.datastream._operator_settings import OperatorSettings
from firesteel.datastream._other_names import OF_STREAMS
from firesteel.datastream._user_functions import (
    check_parts,
    refuse_checkpointed,
    ship_callable,
    ship_function,
    ship_operator,
    ship_strategy,
    wrong_argument,
)
from firesteel.datastream._window_shortcuts import count_windows, time_windows
from firesteel.graph.names import default_name
from firesteel.graph.stream_graph import Edge
from firesteel.plan.exchange import (
    Auto,
    Broadcast,
    Custom,
    EdgeDistribution,
    Forward,
    Global,
    Rebalance,
    Rescale,
    Shuffle,
)
from firesteel.plan.operator_specs import (
    CollectSpec,
    FilterSpec,
    FlatMapSpec,
    MapSpec,
    OperatorSpec,
    PrintSpec,
    ProcessSpec,
    SinkSpec,
    TimestampsSpec,
    TransformSpec,
    WriterSinkSpec,
)
from firesteel.plan.shipped import Shipped

if TYPE_CHECKING:
    from firesteel.datastream._connected_streams import (
        BroadcastConnectedStream,
        BroadcastStream,
        ConnectedStreams,
    )
    from firesteel.datastream._joined_streams import CoGroupedStreams, JoinedStreams
    from firesteel.datastream._keyed_stream import KeyedStream
    from firesteel.datastream._split_stream import OutputSelector, SplitStream
    from firesteel.datastream._windowed_stream import AllWindowedStream
    from firesteel.datastream.stream_execution_environment import StreamExecutionEnvironment

__all__ = ["DataStream", "Origin", "declared_type", "output_type_of", "type_texts"]

T = TypeVar("T", covariant=True, default=Any)
T2 = TypeVar("T2", default=Any)
OUT = TypeVar("OUT", default=Any)
K = TypeVar("K", default=Any)
W = TypeVar("W", default=Any)
A = TypeVar("A", default=Any)
B = TypeVar("B", default=Any)
C = TypeVar("C", default=Any)
D = TypeVar("D", default=Any)
NAMED = TypeVar("NAMED", bound="NamedTuple", default=Any)

#: Mypy takes a name like this for true, and pyright looks at both branches.
MYPY = False

_AUTO = Auto()
_NOTHING: Mapping[str, TypeInformation | None] = {}


@dataclass(frozen=True, slots=True)
class Origin:
    """One output that a stream's records come from, and how they are to be distributed."""

    node: int
    side_output: str | None = None
    distribution: EdgeDistribution = _AUTO

    def edge(self, input_index: int = 0) -> Edge:
        """The edge to a reader of the stream."""
        return Edge(self.node, self.distribution, input_index, self.side_output)


class DataStream(OperatorSettings, Generic[T]):
    """A stream of records; ``DataStream[int]`` is one of ints.

    Streams come from an environment or from other streams; programs do not construct them.
    """

    _elsewhere = OF_STREAMS

    def __init__(
        self,
        environment: StreamExecutionEnvironment,
        origins: tuple[Origin, ...],
        type_info: TypeInformation | None = None,
    ) -> None:
        self._env = environment
        self._origins = origins
        self._type = type_info
        #: What a function says of its results; counts where no type is declared.
        self._annotation: Annotation | None = None

    # What it is -------------------------------------------------------------------------------------

    def get_type(self) -> TypeInformation[T]:
        """The declared type of the records; pickled bytes when none was declared.

        A function's annotations say what kind of objects they are then: see `AnnotatedTypeInfo`.
        """
        if self._type is None and self._annotation is not None:
            return self._annotation.type_info()
        return Types.PICKLED_BYTE_ARRAY() if self._type is None else self._type

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """The environment the stream belongs to."""
        return self._env

    def get_execution_config(self) -> ExecutionConfig:
        """The settings of that environment."""
        return self._env.get_config()

    def returns(self, type_info: TypeInformation[OUT]) -> DataStream[OUT]:
        """Declare the type of the records after the fact; not in PyFlink, named as in Java."""
        self._type = declared_type("returns()", type_info)
        self._change("returns()", output_type=self._type)
        stream: DataStream[Any] = self
        return stream

    @override
    def __repr__(self) -> str:
        names = [self._env._graph[origin.node].name for origin in self._origins]
        return f"{type(self).__name__}({', '.join(map(repr, names))})"

    # Building the graph -----------------------------------------------------------------------------

    def _edges(self, input_index: int = 0) -> tuple[Edge, ...]:
        """The edges that a reader of this stream has."""
        return tuple(origin.edge(input_index) for origin in self._origins)

    def _key_selectors(self) -> tuple[Shipped | None, ...]:
        """The key selector of a keyed stream."""
        return ()

    def _key_type(self) -> TypeInformation | None:
        """The type of the keys of a keyed stream, when it is known."""
        return None

    def _add(
        self,
        name: str,
        spec: OperatorSpec,
        type_info: TypeInformation | None = None,
        kept: Mapping[str, TypeInformation | None] = _NOTHING,
    ) -> DataStream[Any]:
        """Add an operator that reads this stream, and return its output.

        ``kept`` tells the types of what the operator keeps as state by itself, in words.
        """
        node = self._env._add_node(
            name,
            spec,
            self._edges(),
            output_type=type_info,
            key_selectors=self._key_selectors(),
            state_types=type_texts({"keys": self._key_type(), **kept}),
        )
        return DataStream(self._env, (Origin(node),), type_info)

    def _annotated(self, annotation: Annotation | None) -> DataStream[T]:
        self._annotation = annotation
        return self

    def _add_sink(self, name: str, spec: OperatorSpec, **settings: Any) -> DataStreamSink:
        return DataStreamSink(self._env, self._env._add_node(name, spec, self._edges(), **settings))

    def _redistributed(self, distribution: EdgeDistribution) -> DataStream[T]:
        origins = tuple(replace(origin, distribution=distribution) for origin in self._origins)
        stream: DataStream[T] = DataStream(self._env, origins, self._type)
        return stream._annotated(self._annotation)

    def _operator(self, setter: str) -> int:
        """The one node whose main output this stream is."""
        if len(self._origins) > 1:
            raise UnsupportedOperationError(
                f"{setter}: a union is no operator; call it on one of the streams united"
            )
        (origin,) = self._origins
        if not isinstance(origin.distribution, Auto):
            raise UnsupportedOperationError(
                f"{setter}: this stream only says how records are distributed ({origin.distribution.label}) and is "
                "no operator; call it on the stream before, or on the operator after"
            )
        if origin.side_output is not None:
            raise UnsupportedOperationError(
                f"{setter}: this stream is the side output {origin.side_output!r} of an operator"
            )
        return origin.node

    @override
    def _settable_node(self, setter: str) -> int:
        is_side_output = len(self._origins) == 1 and self._origins[0].side_output is not None
        if is_side_output and isinstance(self._origins[0].distribution, Auto):
            # A side output has no node of its own; it gets one when the program wants to configure it.
            self._origins = self._add(
                "Side Output", MapSpec(_shipped_getter(getter(()), "side output")), self._type
            )._origins
        return self._operator(setter)

    # Record by record -------------------------------------------------------------------------------

    # Each operation with an ``output_type`` has two signatures: a declared type says what the results are, and
    # converts what the function returns. They differ in the number of arguments, so that type checkers choose one
    # before they look at the function, and show what is wrong with it at its line.

    if not MYPY:  # ``lambda word: (word, 1)`` makes tuples of a word and an int; to pyright alone it makes nothing but 1s

        @overload  # a named tuple stays one
        def map(self, func: Callable[[T], NAMED]) -> DataStream[NAMED]: ...

        @overload
        def map(self, func: Callable[[T], tuple[A, B]]) -> DataStream[tuple[A, B]]: ...

        @overload
        def map(self, func: Callable[[T], tuple[A, B, C]]) -> DataStream[tuple[A, B, C]]: ...

        @overload
        def map(self, func: Callable[[T], tuple[A, B, C, D]]) -> DataStream[tuple[A, B, C, D]]: ...

    @overload
    def map(self, func: Callable[[T], OUT] | MapFunction[T, OUT]) -> DataStream[OUT]: ...

    @overload
    def map(
        self, func: Callable[[T], Any] | MapFunction[T, Any], output_type: TypeInformation[OUT] | None
    ) -> DataStream[OUT]: ...

    def map(
        self, func: Callable[[T], Any] | MapFunction[T, Any], output_type: TypeInformation | None = None
    ) -> DataStream[Any]:
        """One output for each record.

        >>> from firesteel.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> env.from_collection([1, 2]).map(lambda x: x + 1, output_type=Types.INT())
        DataStream('Map')
        """
        spec = MapSpec(ship_callable(func, "map()", MapFunction))
        annotation = Annotation.of_results(func, "map")
        return self._add("Map", spec, output_type_of("map()", output_type, func))._annotated(annotation)

    @overload
    def flat_map(
        self, func: Callable[[T], Iterable[OUT] | None] | FlatMapFunction[T, OUT]
    ) -> DataStream[OUT]: ...

    @overload
    def flat_map(
        self,
        func: Callable[[T], Iterable[Any] | None] | FlatMapFunction[T, Any],
        output_type: TypeInformation[OUT] | None,
    ) -> DataStream[OUT]: ...

    def flat_map(
        self,
        func: Callable[[T], Iterable[Any] | None] | FlatMapFunction[T, Any],
        output_type: TypeInformation | None = None,
    ) -> DataStream[Any]:
        """Any number of outputs for each record: the function yields or returns them."""
        spec = FlatMapSpec(ship_callable(func, "flat_map()", FlatMapFunction))
        annotation = Annotation.of_each_result(func, "flat_map")
        type_info = output_type_of("flat_map()", output_type, func)
        return self._add("FlatMap", spec, type_info)._annotated(annotation)

    def filter(self, func: Callable[[T], object] | FilterFunction[T]) -> DataStream[T]:
        """The records for which the function returns something true."""
        spec = FilterSpec(ship_callable(func, "filter()", FilterFunction))
        return self._add("Filter", spec, self._type)._annotated(self._annotation)

    @overload
    def process(self, func: ProcessFunction[T, OUT]) -> DataStream[OUT]: ...

    @overload
    def process(
        self, func: ProcessFunction[T, Any], output_type: TypeInformation[OUT] | None
    ) -> DataStream[OUT]: ...

    def process(
        self, func: ProcessFunction[T, Any], output_type: TypeInformation | None = None
    ) -> DataStream[Any]:
        """What a `ProcessFunction` makes of the records, with side outputs."""
        spec = ProcessSpec(ship_function(func, "process()", ProcessFunction))
        annotation = Annotation.of_each_result(func, "process_element")
        type_info = output_type_of("process()", output_type, func)
        return self._add("Process", spec, type_info)._annotated(annotation)

    def transform(
        self,
        operator_name: str,
        operator: OneInputStreamOperator,
        output_type: TypeInformation[OUT] | None = None,
    ) -> DataStream[OUT]:
        """What an operator of one's own makes of the stream; on a keyed stream it has state and timers per key.

        As in Java, and not in PyFlink; see `firesteel.datastream.operators`.
        """
        shipped = ship_operator(operator_name, operator, "transform()", OneInputStreamOperator)
        return self._add(operator_name, TransformSpec(shipped), declared_type("transform()", output_type))

    def project(self, *field_indexes: int) -> DataStream[tuple[Any, ...]]:
        """Tuples of some of the fields, in the order asked for."""
        if self._type is not None and not isinstance(self._type, TupleTypeInfo):
            raise UnsupportedOperationError(
                f"project() needs a stream of tuples, this one has {self._type}; use map()"
            )
        if not field_indexes:
            raise ProgramError("project() needs at least one field position")
        types = [_projected_type(index, self._type, self._annotation) for index in field_indexes]
        known = [field_type for field_type in types if field_type is not None]
        function = itemgetter(*field_indexes) if len(field_indexes) > 1 else _OneField(field_indexes[0])
        spec = MapSpec(_shipped_getter(function, f"project{field_indexes}"))
        return self._add("Projection", spec, TupleTypeInfo(known) if len(known) == len(types) else None)

    def assign_timestamps_and_watermarks(self, watermark_strategy: WatermarkStrategy[T]) -> DataStream[T]:
        """The same records with event times and watermarks by a strategy; those they had before end here.

        It runs with the parallelism of the stream, and belongs before anything that redistributes records.
        """
        shipped = ship_strategy(watermark_strategy, "assign_timestamps_and_watermarks()")
        if watermark_strategy.alignment is not None:
            raise UnsupportedOperationError(
                "assign_timestamps_and_watermarks(): only sources can wait for each other; give a strategy with "
                "watermark alignment to from_source()"
            )
        stream = self._add("Timestamps/Watermarks", TimestampsSpec(shipped), self._type)
        stream._annotated(self._annotation)
        if len(self._origins) == 1:
            node = self._env._graph[self._origins[0].node]
            stream._change(
                "assign_timestamps_and_watermarks()",
                parallelism=node.parallelism,
                follows_default=node.follows_default,
            )
        return stream

    def get_side_output(self, output_tag: OutputTag[OUT]) -> DataStream[OUT]:
        """The records that this stream's operator sent to a side output."""
        if not isinstance(output_tag, OutputTag):
            raise wrong_argument("get_side_output()", "an OutputTag", output_tag)
        node = self._env._graph[self._operator("get_side_output()")]
        declared = declared_type("get_side_output()", output_tag.type_info)
        known = node.side_types.get(output_tag.tag_id)
        if known is not None and declared is not None and known != declared:
            raise ProgramError(
                f"side output {output_tag.tag_id!r} of {node.name!r} was declared as {known} and now as {declared}; "
                "a side output has one type"
            )
        side_type = known if declared is None else declared
        self._env._graph.change(node.id, side_types={**node.side_types, output_tag.tag_id: side_type})
        return DataStream(self._env, (Origin(node.id, output_tag.tag_id),), side_type)

    def on_error(self, action: str | None = None, *, dead_letter: OutputTag | None = None) -> Self:
        """What becomes of a record for which this operator's function raises; not in PyFlink.

        ``"fail"``: the error fails the job, as it does without this. ``"drop"``: the record is left out and counted.
        ``dead_letter=tag``: it goes to the side output ``tag`` as a `DeadLetter`, which has the record and the error.
        For a source that deserializes messages it says the same of messages that do not fit.

        What the function did before it raised stays: results that it yielded, changes of state, timers.
        """
        node = self._env._graph[self._operator("on_error()")]
        self._env._graph.change(node.id, spec=tolerant_spec(node, action, dead_letter))
        return self

    def split(
        self, output_selector: Callable[[T], str | Iterable[str]] | OutputSelector[T]
    ) -> SplitStream[T]:
        """Name the outputs each record goes to, and `SplitStream.select` them by name; not in PyFlink."""
        from firesteel.datastream._split_stream import SplitStream

        return SplitStream(self, output_selector)

    # Several streams --------------------------------------------------------------------------------

    def union(self, *streams: DataStream[T]) -> DataStream[T]:
        """All records of this stream and the others, which must have the same type."""
        if not streams:
            raise ProgramError("union() needs at least one other stream")
        for stream in streams:
            self._check_partner("union()", stream)
            if None not in (self._type, stream._type) and self._type != stream._type:
                raise ProgramError(
                    f"union() needs streams of one type, got {self._type} and {stream._type}; map() one to the other's type"
                )
        types = [stream._type for stream in (self, *streams)]
        common_type = None if None in types else self._type
        origins = [origin for stream in (self, *streams) for origin in stream._outgoing()]
        annotation = Annotation.of_all(stream._annotation for stream in (self, *streams))
        return DataStream(self._env, tuple(origins), common_type)._annotated(annotation)

    def _outgoing(self) -> tuple[Origin, ...]:
        """The origins with the distribution that this stream's readers get."""
        return self._origins

    @overload
    def connect(self, ds: DataStream[T2]) -> ConnectedStreams[T, T2]: ...

    @overload
    def connect(self, ds: BroadcastStream[T2]) -> BroadcastConnectedStream[T, T2]: ...

    def connect(
        self, ds: DataStream[T2] | BroadcastStream[T2]
    ) -> ConnectedStreams[T, T2] | BroadcastConnectedStream[T, T2]:
        """The stream and another one, of whatever type, as the two inputs of one operator."""
        from firesteel.datastream._connected_streams import (
            BroadcastConnectedStream,
            BroadcastStream,
            ConnectedStreams,
        )

        if isinstance(ds, BroadcastStream):
            self._check_partner("connect()", ds.input_stream)
            return BroadcastConnectedStream(self, ds, ds.broadcast_state_descriptors)
        self._check_partner("connect()", ds)
        return ConnectedStreams(self, ds)

    def join(self, other: DataStream[T2]) -> JoinedStreams[T, T2]:
        """Pair the records of two streams that share a key and a window; not in PyFlink.

        ``a.join(b).where(key_of_a).equal_to(key_of_b).window(assigner).apply(function)``
        """
        from firesteel.datastream._joined_streams import JoinedStreams

        self._check_partner("join()", other)
        return JoinedStreams(self, other)

    def co_group(self, other: DataStream[T2]) -> CoGroupedStreams[T, T2]:
        """Group the records of two streams that share a key and a window; not in PyFlink."""
        from firesteel.datastream._joined_streams import CoGroupedStreams

        self._check_partner("co_group()", other)
        return CoGroupedStreams(self, other)

    def _check_partner(self, operation: str, other: object) -> None:
        if not isinstance(other, DataStream):
            raise wrong_argument(operation, "another DataStream", other)
        if other._env is not self._env:
            raise ProgramError(f"{operation} needs streams of one environment, got streams of two")

    # Keys and distribution --------------------------------------------------------------------------

    @overload
    def key_by(
        self,
        key_selector: Callable[[T], K] | KeySelector[T, K] | int | str | Sequence[KeyLike],
        key_type: TypeInformation | None = None,
    ) -> KeyedStream[T, K]: ...

    @overload
    def key_by(
        self,
        key_selector: KeyLike,
        second_selector: KeyLike,
        /,
        *more: KeyLike,
        key_type: TypeInformation | None = None,
    ) -> KeyedStream[T, tuple[Any, ...]]: ...

    def key_by(
        self,
        key_selector: Any,
        *more: Any,
        key_type: TypeInformation | None = None,
    ) -> KeyedStream[T, Any]:
        """The stream divided by keys: records with equal keys meet at one subtask and share state.

        A key is a function of the record, a field position, a field name or a nested path
        (``"user.address.city"``), the whole record (``"*"``), or several of these at once.
        """
        from firesteel.datastream._keyed_stream import KeyedStream

        parts, positional_type = _split_key_arguments((key_selector, *more))
        found_type = key_type if key_type is not None else positional_type
        key_type = declared_type("key_by()", found_type)
        return KeyedStream(self, key_of(parts, self._type, key_type, annotation=self._annotation))

    def forward(self) -> DataStream[T]:
        """Send records to the subtask of the same number."""
        return self._redistributed(Forward())

    def rebalance(self) -> DataStream[T]:
        """Deal records out to all subtasks in turn."""
        return self._redistributed(Rebalance())

    def rescale(self) -> DataStream[T]:
        """Deal records out in turn to some subtasks, each sender to its own."""
        return self._redistributed(Rescale())

    def shuffle(self) -> DataStream[T]:
        """Send each record to a random subtask."""
        return self._redistributed(Shuffle())

    def global_(self) -> DataStream[T]:
        """Send all records to the first subtask; not in PyFlink, Java's ``global``."""
        return self._redistributed(Global())

    @overload
    def broadcast(self) -> DataStream[T]: ...

    @overload
    def broadcast(
        self,
        broadcast_state_descriptor: MapStateDescriptor,
        *other_broadcast_state_descriptors: MapStateDescriptor,
    ) -> BroadcastStream[T]: ...

    def broadcast(
        self,
        broadcast_state_descriptor: MapStateDescriptor | None = None,
        *other_broadcast_state_descriptors: MapStateDescriptor,
    ) -> DataStream[T] | BroadcastStream[T]:
        """Send every record to every subtask; with descriptors, a stream of broadcast state."""
        if broadcast_state_descriptor is None:
            return self._redistributed(Broadcast())
        from firesteel.datastream._connected_streams import BroadcastStream

        descriptors = [broadcast_state_descriptor, *other_broadcast_state_descriptors]
        for descriptor in descriptors:
            if not isinstance(descriptor, MapStateDescriptor):
                raise wrong_argument("broadcast()", "MapStateDescriptors", descriptor)
        return BroadcastStream(self._redistributed(Broadcast()), descriptors)

    def partition_custom(
        self,
        partitioner: Callable[[Any, int], int] | Partitioner[Any],
        key_selector: Callable[[T], Any] | KeySelector[T, Any] | int | str,
    ) -> DataStream[T]:
        """Send each record to the subtask that ``partitioner(key, number_of_subtasks)`` names."""
        shipped = ship_callable(partitioner, "partition_custom()", Partitioner, arguments=2)
        refuse_checkpointed(partitioner, "partition_custom()", "keep the state in a map() before it")
        key = key_of((key_selector,), self._type, None, "partition_custom()", self._annotation)
        return self._redistributed(Custom(shipped, key.selector))

    # Windows and caching ----------------------------------------------------------------------------

    def window_all(self, window_assigner: WindowAssigner[T, W]) -> AllWindowedStream[T, W]:
        """The stream divided by windows, without keys."""
        from firesteel.datastream._windowed_stream import AllWindowedStream

        return AllWindowedStream(self, window_assigner)

    def count_window_all(self, size: int, slide: int = 0) -> AllWindowedStream[T, Any]:
        """The stream divided by windows of ``size`` records, without keys; as in Java, and not in PyFlink."""
        return self.window_all(count_windows(size, slide))

    def time_window_all(
        self, size: AnyLength, slide: AnyLength | None = None
    ) -> AllWindowedStream[T, TimeWindow]:
        """The stream divided by time windows, tumbling or sliding, without keys; as in Java, and not in PyFlink.

        By processing time when that is the environment's time characteristic, otherwise by event time.
        """
        return self.window_all(time_windows(self._env.get_stream_time_characteristic(), size, slide))

    def cache(self) -> DataStream[T]:
        """Keep the records for later jobs of the same program; refused, because nothing outlives a job."""
        raise not_yet(
            "cache()", "keeping results between jobs is", "write them with sink_to() and read them again"
        )

    # Ends -------------------------------------------------------------------------------------------

    def add_sink(self, sink_func: SinkFunction[T] | GenericWriteAheadSink[T]) -> DataStreamSink:
        """Hand every record to a `SinkFunction`, also one with transactions, or to a `GenericWriteAheadSink`."""
        if isinstance(sink_func, Sink):
            return self.sink_to(sink_func)
        spec = SinkSpec(ship_function(sink_func, "add_sink()", SinkFunction, GenericWriteAheadSink))
        keeps_records = isinstance(sink_func, GenericWriteAheadSink)
        kept = type_texts({"keys": self._key_type(), "records": self._type if keeps_records else None})
        name = default_name(sink_func)
        return self._add_sink(name, spec, key_selectors=self._key_selectors(), state_types=kept)

    def sink_to(self, sink: Sink[T]) -> DataStreamSink:
        """Write the stream with a `Sink`: writers, and committers for what they wrote."""
        from firesteel.datastream.connectors.base import SupportsPreprocessing

        if isinstance(sink, SinkFunction | GenericWriteAheadSink):
            return self.add_sink(sink)
        if not isinstance(sink, Sink):
            raise wrong_argument("sink_to()", "a Sink", sink)
        refuse_checkpointed(
            sink, "sink_to()", "its SinkWriter has snapshot_state() and is told of checkpoints"
        )
        check_parts(sink, "sink_to()")
        transformer = sink.get_transformer() if isinstance(sink, SupportsPreprocessing) else None
        stream: DataStream[Any] = self if transformer is None else transformer.apply(self)
        self._env._add_driver_part(sink.create_driver_part(stream._type))
        spec = WriterSinkSpec(Shipped.of(sink, "sink_to()"), stream._type)
        return stream._add_sink(default_name(sink), spec)

    def print(self, sink_identifier: str | None = None) -> DataStreamSink:
        """Print every record to the standard output of whoever started the job."""
        return self._print("Print to Std. Out", sink_identifier, to_stderr=False)

    def print_to_err(self, sink_identifier: str | None = None) -> DataStreamSink:
        """Print every record to the standard error of whoever started the job; not in PyFlink."""
        return self._print("Print to Std. Err", sink_identifier, to_stderr=True)

    def _print(self, name: str, identifier: str | None, to_stderr: bool) -> DataStreamSink:
        return self._add_sink(name, PrintSpec(identifier or "", to_stderr, self._type))

    @overload
    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: None = None
    ) -> CloseableIterator[T]: ...

    @overload
    def execute_and_collect(self, job_execution_name: str | None = None, *, limit: int) -> list[T]: ...

    @overload
    def execute_and_collect(self, job_execution_name: str | None, limit: int) -> list[T]: ...

    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: int | None = None
    ) -> CloseableIterator[T] | list[T]:
        """Run the program and bring this stream's records back, as they come or the first ``limit`` as a list.

        One subtask collects, as in Flink: records that one subtask has emitted come back in that order. Without
        checkpoints they come at once; with them each comes exactly once, when a complete checkpoint covers it.
        """
        if limit is not None and (not isinstance(limit, int) or limit < 1):
            raise wrong_argument("execute_and_collect()", "a limit of at least 1", limit)
        collect_id = uuid.uuid4().hex
        stream = self._collected()
        stream._add_sink("Collect", CollectSpec(collect_id), parallelism=1)
        results: CloseableIterator[T] = CloseableIterator(self._env._submit(job_execution_name), collect_id)
        if limit is None:
            return results
        with results:
            return list(islice(results, limit))

    def to_spark(
        self,
        schema: Any = None,
        directory: str | None = None,
        job_execution_name: str | None = None,
    ) -> Any:
        """Run the program to its end and return this stream's records as a DataFrame of Spark; not in PyFlink.

        The columns are those of ``schema`` (type information, a class with fields, a ``StructType`` or a ``pyarrow.Schema``) or of
        the stream's declared type; if there is neither, they are found by looking at all records. Records do not pass the
        driver: tasks write files, which the DataFrame reads, and which go when the program ends. ``directory``: where; on
        a cluster it has to be one that all machines share.
        """
        from firesteel.datastream._spark_results import run_to_frame

        return run_to_frame(self, schema, directory, job_execution_name)

    def _collected(self) -> DataStream[Any]:
        """The stream whose records `execute_and_collect` brings back."""
        return self


def declared_type(operation: str, type_info: TypeInformation | None) -> TypeInformation | None:
    """The type as the graph keeps it: None for none, which pickled bytes mean as well; a list of types means a row."""
    if type_info is None or isinstance(type_info, PickledBytesTypeInfo):
        return None
    if isinstance(type_info, list) and all(isinstance(each, TypeInformation) for each in type_info):
        return RowTypeInfo(type_info)
    if not isinstance(type_info, TypeInformation):
        raise wrong_argument(operation, "a TypeInformation such as Types.INT()", type_info)
    return type_info


def output_type_of(
    operation: str, output_type: TypeInformation | None, function: object
) -> TypeInformation | None:
    """The declared type of an operation's results: ``output_type``, or what the function itself says."""
    return declared_type(operation, produced_type(function) if output_type is None else output_type)


def _split_key_arguments(arguments: tuple[Any, ...]) -> tuple[tuple[KeyLike, ...], TypeInformation | None]:
    """Keys, and the key type that PyFlink takes as the second argument."""
    if len(arguments) == 2 and (arguments[1] is None or isinstance(arguments[1], TypeInformation)):
        key, key_type = arguments
        return _as_parts(key), key_type
    if len(arguments) == 2 and isinstance(arguments[1], type) and arguments[1].__module__ == "builtins":
        # A class is a function of the record, too, but nobody means that int(record) is part of the key.
        raise wrong_argument(
            "key_by()",
            "a TypeInformation such as Types.INT()",
            arguments[1],
            f"for a key of two parts write key_by(first, lambda value: {arguments[1].__name__}(value))",
        )
    return tuple(part for argument in arguments for part in _as_parts(argument)), None


def _as_parts(key: Any) -> tuple[KeyLike, ...]:
    return tuple(key) if isinstance(key, (list, tuple)) else (key,)


def type_texts(types: Mapping[str, TypeInformation | None]) -> dict[str, str]:
    """Those of the types that say something, as text."""
    return {
        what: str(each)
        for what, each in types.items()
        if each is not None and not isinstance(each, PickledBytesTypeInfo)
    }


def _projected_type(
    index: int, type_info: TypeInformation | None, annotation: Annotation | None
) -> TypeInformation | None:
    if isinstance(index, bool) or not isinstance(index, int):
        raise wrong_argument("project()", "field positions", index)
    if type_info is None and annotation is not None:
        annotation.check_field(index, f"project({index})")
    return resolve(index, type_info, f"project({index})").type


@dataclass(frozen=True, slots=True)
class _OneField:
    """A tuple of one field; ``itemgetter`` would return the bare field."""

    index: int

    def __call__(self, value: Any) -> tuple[Any]:
        return (value[self.index],)


def _shipped_getter(function: Callable[[Any], Any], description: str) -> Shipped:
    return Shipped.of(function, description).described(description)
