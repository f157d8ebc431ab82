"""The examples as modules, and environments that run them in the simulator."""

from __future__ import annotations

import importlib
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from firesteel.datastream import DataStream, StreamExecutionEnvironment
from firesteel.datastream._given_options import CLIENT_VARIABLE
from firesteel.testing import simulated_environment, use_simulator

EXAMPLES = Path(__file__).parents[2] / "examples"

# A shell that starts the tests in the background has them ignore SIGINT, and whatever they start, too.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _no_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CLIENT_VARIABLE, raising=False)


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """Imports an example by name, as `firesteel run` would find the modules beside it."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return importlib.import_module


@pytest.fixture(params=range(5))
def env(request: pytest.FixtureRequest) -> StreamExecutionEnvironment:
    """Two tasks per operator, their steps in one of five orders."""
    return simulated_environment(seed=request.param, parallelism=2)


@pytest.fixture
def collected() -> Callable[[DataStream], list[Any]]:
    """Runs the program and returns what a stream carries."""
    return lambda stream: list(stream.execute_and_collect())


@pytest.fixture
def simulator() -> Iterator[None]:
    """Programs that choose no executor run in the simulator."""
    with use_simulator():
        yield
