"""Values that every layer shares: rows, declared types, time, configuration, errors; mirrors ``pyflink.common``.

Standard library only, and quick to import.
"""

import importlib as _importlib
from typing import TYPE_CHECKING, Any

from firesteel.common.accumulators import Accumulator
from firesteel.common.completable_future import CompletableFuture
from firesteel.common.config_options import ConfigOption, ConfigOptions
from firesteel.common.configuration import Configuration
from firesteel.common.execution_config import ExecutionConfig
from firesteel.common.execution_mode import ExecutionMode
from firesteel.common.input_dependency_constraint import InputDependencyConstraint
from firesteel.common.job_client import JobClient
from firesteel.common.job_execution_result import JobExecutionResult
from firesteel.common.job_id import JobID
from firesteel.common.job_status import JobStatus
from firesteel.common.restart_strategy import RestartStrategies, RestartStrategyConfiguration
from firesteel.common.serialization import (
    ByteArraySchema,
    DeserializationSchema,
    Encoder,
    SerializationSchema,
    SimpleStringEncoder,
    SimpleStringSchema,
)
from firesteel.common.serializer import TypeSerializer
from firesteel.common.time import Duration, Instant, Time
from firesteel.common.typeinfo import TypeInformation, Types
from firesteel.common.types import Row, RowKind
from firesteel.common.watermark_strategy import (
    AssignerWithPeriodicWatermarksWrapper,
    TimestampAssigner,
    Watermark,
    WatermarkGenerator,
    WatermarkOutput,
    WatermarkStrategy,
)

__all__ = [
    "Accumulator",
    "AssignerWithPeriodicWatermarksWrapper",
    "ByteArraySchema",
    "CompletableFuture",
    "ConfigOption",
    "ConfigOptions",
    "Configuration",
    "DeserializationSchema",
    "Duration",
    "Encoder",
    "ExecutionConfig",
    "ExecutionMode",
    "InputDependencyConstraint",
    "Instant",
    "JobClient",
    "JobExecutionResult",
    "JobID",
    "JobStatus",
    "RestartStrategies",
    "RestartStrategyConfiguration",
    "Row",
    "RowKind",
    "SerializationSchema",
    "SimpleStringEncoder",
    "SimpleStringSchema",
    "Time",
    "TimestampAssigner",
    "TypeInformation",
    "TypeSerializer",
    "Types",
    "Watermark",
    "WatermarkGenerator",
    "WatermarkOutput",
    "WatermarkStrategy",
]

if not TYPE_CHECKING:  # type checkers must still see which names do not exist

    def __getattr__(name: str) -> Any:
        """PyFlink's older names for schemas, which are where the formats are now."""
        kind, _, rest = name.partition("Row")
        if kind in ("Json", "Csv", "Avro") and rest in ("SerializationSchema", "DeserializationSchema"):
            return getattr(_importlib.import_module(f"firesteel.datastream.formats.{kind.lower()}"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
