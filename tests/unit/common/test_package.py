"""Promises about the package as a whole: its exports, its imports, its examples."""

import doctest
import importlib
import pkgutil
import subprocess
import sys

import firesteel.common

MODULES = sorted(
    f"firesteel.common.{module.name}" for module in pkgutil.iter_modules(firesteel.common.__path__)
)

PYFLINK_EXPORTS = [
    "Configuration",
    "ConfigOption",
    "ConfigOptions",
    "ExecutionConfig",
    "TypeInformation",
    "TypeSerializer",
    "Types",
    "SerializationSchema",
    "DeserializationSchema",
    "SimpleStringSchema",
    "ByteArraySchema",
    "Encoder",
    "CompletableFuture",
    "InputDependencyConstraint",
    "JobClient",
    "JobExecutionResult",
    "JobID",
    "JobStatus",
    "RestartStrategies",
    "RestartStrategyConfiguration",
    "Row",
    "RowKind",
    "WatermarkStrategy",
    "Duration",
    "Instant",
    "Time",
    "AssignerWithPeriodicWatermarksWrapper",
]


def test_what_a_watermark_generator_needs_is_exported():
    assert {"Watermark", "WatermarkGenerator", "WatermarkOutput"} <= set(firesteel.common.__all__)


def test_everything_pyflink_exports_is_exported():
    assert set(PYFLINK_EXPORTS) <= set(firesteel.common.__all__)


def test_examples_in_docstrings_are_true():
    failed = [name for name in MODULES if doctest.testmod(importlib.import_module(name)).failed]
    assert failed == []


def test_import_loads_the_standard_library_only_and_nothing_slow():
    code = "import sys, firesteel.common; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    loaded = set(
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.split()
    )
    assert not loaded & {
        "pyspark",
        "pyarrow",
        "pandas",
        "numpy",
        "asyncio",
        "logging",
        "decimal",
        "concurrent",
    }
