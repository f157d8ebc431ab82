import importlib
import subprocess
import sys

import pytest

import firesteel.datastream

PYFLINK_NAMES = [
    "StreamExecutionEnvironment",
    "DataStream",
    "KeyedStream",
    "WindowedStream",
    "ConnectedStreams",
    "BroadcastStream",
    "BroadcastConnectedStream",
    "AsyncDataStream",
    "DataStreamSink",
    "MapFunction",
    "CoMapFunction",
    "FlatMapFunction",
    "CoFlatMapFunction",
    "ReduceFunction",
    "FilterFunction",
    "ProcessFunction",
    "KeyedProcessFunction",
    "CoProcessFunction",
    "KeyedCoProcessFunction",
    "WindowFunction",
    "ProcessWindowFunction",
    "AggregateFunction",
    "BroadcastProcessFunction",
    "KeyedBroadcastProcessFunction",
    "AsyncFunction",
    "RuntimeContext",
    "TimerService",
    "CheckpointingMode",
    "CheckpointConfig",
    "ExternalizedCheckpointRetention",
    "StateBackend",
    "HashMapStateBackend",
    "EmbeddedRocksDBStateBackend",
    "CustomStateBackend",
    "PredefinedOptions",
    "CheckpointStorage",
    "JobManagerCheckpointStorage",
    "FileSystemCheckpointStorage",
    "CustomCheckpointStorage",
    "RuntimeExecutionMode",
    "Window",
    "TimeWindow",
    "CountWindow",
    "GlobalWindow",
    "WindowAssigner",
    "MergingWindowAssigner",
    "TriggerResult",
    "Trigger",
    "TimeDomain",
    "KeySelector",
    "Partitioner",
    "SourceFunction",
    "SinkFunction",
    "SlotSharingGroup",
    "MemorySize",
    "OutputTag",
    "AsyncRetryPredicate",
    "AsyncRetryStrategy",
]

MODULES = [
    "async_data_stream",
    "async_retry_predicates",
    "async_retry_strategies",
    "checkpoint_config",
    "checkpoint_storage",
    "checkpointing_mode",
    "data_stream",
    "execution_mode",
    "externalized_checkpoint_retention",
    "functions",
    "output_tag",
    "slot_sharing_group",
    "state",
    "state_backend",
    "stream_execution_environment",
    "time_characteristic",
    "time_domain",
    "timerservice",
    "utils",
    "window",
]


def test_all_names_of_pyflink_are_exported():
    assert len(PYFLINK_NAMES) == 58
    assert set(PYFLINK_NAMES) <= set(firesteel.datastream.__all__)


def test_everything_in_all_exists_and_is_sorted_without_repeats():
    names = firesteel.datastream.__all__
    assert len(set(names)) == len(names)
    assert all(hasattr(firesteel.datastream, name) for name in names)


@pytest.mark.parametrize("module", MODULES)
def test_module_is_at_pyflinks_path_and_exports_what_it_says(module):
    found = importlib.import_module(f"firesteel.datastream.{module}")
    assert all(hasattr(found, name) for name in found.__all__)


def test_importing_the_api_loads_neither_spark_nor_arrow_nor_pandas():
    code = (
        "import sys, firesteel.datastream; "
        "print({m.split('.')[0] for m in sys.modules} & {'pyspark', 'py4j', 'pyarrow', 'pandas', 'numpy'})"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "set()"


def test_timer_service_can_also_be_imported_with_the_functions():
    from firesteel.datastream.functions import TimerService
    from firesteel.datastream.timerservice import TimerService as Same

    assert TimerService is Same
