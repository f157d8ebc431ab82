"""What tests of Firesteel programs use: jobs in this process, without a JVM, in an order drawn from a seed."""

from __future__ import annotations

from firesteel.testing._environments import simulated_environment, use_simulator
from firesteel.testing.checkpoint_harness import CheckpointHarness, OperatorCheckpoint, SubtaskHarness
from firesteel.testing.collect_sink import CollectSink
from firesteel.testing.function_harness import FunctionHarness
from firesteel.testing.manual_clock import ManualClock
from firesteel.testing.scripted_source import (
    AddSplits,
    Emit,
    EmitWatermark,
    EndSplit,
    Fail,
    GoIdle,
    Pause,
    ScriptedSource,
    WaitForCheckpoint,
    WaitForever,
)
from firesteel.testing.simulator import SEED, SimulationDeadlockError, SimulatorExecutor
from firesteel.testing.sink_checks import check_sink
from firesteel.testing.source_checks import check_source
from firesteel.testing.state_stores import DictStore, check_state_store

__all__ = [
    "SEED",
    "AddSplits",
    "CheckpointHarness",
    "CollectSink",
    "DictStore",
    "Emit",
    "EmitWatermark",
    "EndSplit",
    "Fail",
    "FunctionHarness",
    "GoIdle",
    "ManualClock",
    "OperatorCheckpoint",
    "Pause",
    "ScriptedSource",
    "SimulationDeadlockError",
    "SimulatorExecutor",
    "SubtaskHarness",
    "WaitForCheckpoint",
    "WaitForever",
    "check_sink",
    "check_source",
    "check_state_store",
    "simulated_environment",
    "use_simulator",
]
