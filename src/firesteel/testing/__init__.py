"""What tests of Firesteel programs use: jobs in this process, without a JVM, in an order drawn from a seed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from firesteel.testing.collect_sink import CollectSink
from firesteel.testing.function_harness import FunctionHarness
from firesteel.testing.local_master import SimulatedResult, run_plan
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
from firesteel.testing.state_stores import DictStore, check_state_store

if TYPE_CHECKING:
    from firesteel.common.configuration import Configuration
    from firesteel.datastream.stream_execution_environment import StreamExecutionEnvironment

__all__ = [
    "SEED",
    "AddSplits",
    "CollectSink",
    "DictStore",
    "Emit",
    "EmitWatermark",
    "EndSplit",
    "Fail",
    "FunctionHarness",
    "GoIdle",
    "ManualClock",
    "Pause",
    "ScriptedSource",
    "SimulatedResult",
    "SimulationDeadlockError",
    "SimulatorExecutor",
    "WaitForCheckpoint",
    "WaitForever",
    "check_state_store",
    "run_plan",
    "simulated_environment",
]


def simulated_environment(
    seed: int = 0, parallelism: int | None = None, configuration: Configuration | None = None
) -> StreamExecutionEnvironment:
    """An environment whose jobs run in the simulator.

    Everything else is as on Spark. Run a test with many seeds to see its program under many orders of events;
    a failure names the seed that repeats it.
    """
    from firesteel.common.configuration import Configuration
    from firesteel.datastream import StreamExecutionEnvironment

    settings: dict[str, Any] = {
        "firesteel.executor": f"{SimulatorExecutor.__module__}:{SimulatorExecutor.__name__}",
        SEED: str(seed),
    }
    if parallelism is not None:
        settings["parallelism.default"] = str(parallelism)
    chosen = Configuration(configuration)
    chosen.add_all(Configuration.from_dict(settings))
    return StreamExecutionEnvironment.get_execution_environment(chosen)
