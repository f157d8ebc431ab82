"""Where jobs of tests run: environments of the simulator, and the simulator for programs that make their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from firesteel import launch
from firesteel.common.configuration import Configuration
from firesteel.datastream.stream_execution_environment import StreamExecutionEnvironment
from firesteel.testing.manual_clock import ManualClock
from firesteel.testing.simulator import SEED, SimulatorExecutor

__all__ = ["simulated_environment", "use_simulator"]


def simulated_environment(
    seed: int = 0, parallelism: int | None = None, configuration: Configuration | None = None
) -> StreamExecutionEnvironment:
    """An environment whose jobs run in the simulator.

    Everything else is as on Spark. Run a test with many seeds to see its program under many orders of events;
    a failure names the seed that repeats it.
    """
    settings: dict[str, Any] = {
        "firesteel.executor": f"{SimulatorExecutor.__module__}:{SimulatorExecutor.__name__}",
        SEED: str(seed),
    }
    if parallelism is not None:
        settings["parallelism.default"] = str(parallelism)
    chosen = Configuration(configuration)
    chosen.add_all(Configuration.from_dict(settings))
    return StreamExecutionEnvironment.get_execution_environment(chosen)


@contextmanager
def use_simulator(seed: int | None = None, *, clock: ManualClock | None = None) -> Iterator[None]:
    """Run the jobs of programs that make their own environment inside the block in the simulator.

    Without a ``seed`` it is the one that the job's configuration names, else 0. With a ``clock`` the time of the jobs begins
    where it stands.
    """
    with launch.use_executor(partial(SimulatorExecutor, seed=seed, clock=clock)):
        yield
