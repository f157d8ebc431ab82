"""Flink's DataStream API: build a program from sources, transformations and sinks, and execute it.

Mirrors ``pyflink.datastream``; what goes beyond it is named as in Flink's Java API.

>>> from firesteel.datastream import StreamExecutionEnvironment
>>> env = StreamExecutionEnvironment.get_execution_environment()
>>> env.from_collection([1, 2, 3]).map(lambda x: x * 2).key_by(lambda x: x % 4).sum().print()
DataStreamSink('Print to Std. Out')
"""

from firesteel.contracts.dead_letter import DeadLetter
from firesteel.contracts.joins import CoGroupFunction, FlatJoinFunction, JoinFunction, ProcessJoinFunction
from firesteel.datastream.async_data_stream import AsyncDataStream
from firesteel.datastream.checkpoint_config import CheckpointConfig, ExternalizedCheckpointCleanup
from firesteel.datastream.checkpoint_storage import (
    CheckpointStorage,
    CustomCheckpointStorage,
    FileSystemCheckpointStorage,
    JobManagerCheckpointStorage,
)
from firesteel.datastream.checkpointing_mode import CheckpointingMode
from firesteel.datastream.data_stream import (
    AllWindowedStream,
    BroadcastConnectedStream,
    BroadcastStream,
    CloseableIterator,
    ConnectedStreams,
    DataStream,
    DataStreamSink,
    KeyedStream,
    OutputSelector,
    SplitStream,
    WindowedStream,
)
from firesteel.datastream.execution_mode import RuntimeExecutionMode
from firesteel.datastream.externalized_checkpoint_retention import ExternalizedCheckpointRetention
from firesteel.datastream.functions import (
    AggregateFunction,
    AsyncFunction,
    AsyncRetryPredicate,
    AsyncRetryStrategy,
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    DiscardingSink,
    FilterFunction,
    FlatMapFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    ParallelSourceFunction,
    Partitioner,
    ProcessFunction,
    ProcessWindowFunction,
    ReduceFunction,
    RuntimeContext,
    SinkFunction,
    SourceFunction,
    WindowFunction,
)
from firesteel.datastream.output_tag import OutputTag
from firesteel.datastream.slot_sharing_group import MemorySize, SlotSharingGroup
from firesteel.datastream.state_backend import (
    CustomStateBackend,
    EmbeddedRocksDBStateBackend,
    FsStateBackend,
    HashMapStateBackend,
    MemoryStateBackend,
    PredefinedOptions,
    RocksDBStateBackend,
    StateBackend,
    StateStore,
    StateStoreContext,
)
from firesteel.datastream.stream_execution_environment import StreamExecutionEnvironment
from firesteel.datastream.time_characteristic import TimeCharacteristic
from firesteel.datastream.time_domain import TimeDomain
from firesteel.datastream.timerservice import TimerService
from firesteel.datastream.window import (
    CountWindow,
    GlobalWindow,
    MergingWindowAssigner,
    TimeWindow,
    Trigger,
    TriggerResult,
    Window,
    WindowAssigner,
)

__all__ = [
    "AggregateFunction",
    "AllWindowedStream",
    "AsyncDataStream",
    "AsyncFunction",
    "AsyncRetryPredicate",
    "AsyncRetryStrategy",
    "BroadcastConnectedStream",
    "BroadcastProcessFunction",
    "BroadcastStream",
    "CheckpointConfig",
    "CheckpointStorage",
    "CheckpointingMode",
    "CloseableIterator",
    "CoFlatMapFunction",
    "CoGroupFunction",
    "CoMapFunction",
    "CoProcessFunction",
    "ConnectedStreams",
    "CountWindow",
    "CustomCheckpointStorage",
    "CustomStateBackend",
    "DataStream",
    "DataStreamSink",
    "DeadLetter",
    "DiscardingSink",
    "EmbeddedRocksDBStateBackend",
    "ExternalizedCheckpointCleanup",
    "ExternalizedCheckpointRetention",
    "FileSystemCheckpointStorage",
    "FilterFunction",
    "FlatJoinFunction",
    "FlatMapFunction",
    "FsStateBackend",
    "GlobalWindow",
    "HashMapStateBackend",
    "JobManagerCheckpointStorage",
    "JoinFunction",
    "KeySelector",
    "KeyedBroadcastProcessFunction",
    "KeyedCoProcessFunction",
    "KeyedProcessFunction",
    "KeyedStream",
    "MapFunction",
    "MemorySize",
    "MemoryStateBackend",
    "MergingWindowAssigner",
    "OutputSelector",
    "OutputTag",
    "ParallelSourceFunction",
    "Partitioner",
    "PredefinedOptions",
    "ProcessFunction",
    "ProcessJoinFunction",
    "ProcessWindowFunction",
    "ReduceFunction",
    "RocksDBStateBackend",
    "RuntimeContext",
    "RuntimeExecutionMode",
    "SinkFunction",
    "SlotSharingGroup",
    "SourceFunction",
    "SplitStream",
    "StateBackend",
    "StateStore",
    "StateStoreContext",
    "StreamExecutionEnvironment",
    "TimeCharacteristic",
    "TimeDomain",
    "TimeWindow",
    "TimerService",
    "Trigger",
    "TriggerResult",
    "Window",
    "WindowAssigner",
    "WindowFunction",
    "WindowedStream",
]
