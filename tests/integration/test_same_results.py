"""The same program gives the same results on every engine."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import SparkEnvironment
from same_results import PROGRAMS

from firesteel.common import Configuration
from firesteel.testing import simulated_environment

NAMES = list(PROGRAMS)
BATCH = {"execution.runtime-mode": "BATCH"}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(5))
def test_same_results_on_the_simulator(name: str, seed: int, tmp_path: Path) -> None:
    program = PROGRAMS[name]
    assert program.run(simulated_environment(seed, 2), tmp_path) == program.wanted(batch=False)


@pytest.mark.parametrize("name", NAMES)
def test_same_results_on_the_simulator_in_batch_mode(name: str, tmp_path: Path) -> None:
    program = PROGRAMS[name]
    env = simulated_environment(1, 2, Configuration.from_dict(BATCH))
    assert program.run(env, tmp_path) == program.wanted(batch=True)


@pytest.mark.spark
@pytest.mark.parametrize("name", NAMES)
def test_same_results_on_pipelined_spark(name: str, environment: SparkEnvironment, tmp_path: Path) -> None:
    program = PROGRAMS[name]
    assert program.run(environment(2), tmp_path) == program.wanted(batch=False)


@pytest.mark.spark
@pytest.mark.parametrize("name", NAMES)
def test_same_results_in_batch_mode(name: str, environment: SparkEnvironment, tmp_path: Path) -> None:
    program = PROGRAMS[name]
    assert program.run(environment(2, **BATCH), tmp_path) == program.wanted(batch=True)
