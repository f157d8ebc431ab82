"""``execute_and_collect`` and restarts: every result once, in order; without checkpoints at once, or not at all twice."""

from __future__ import annotations

import random
import threading
import uuid
from pathlib import Path
from typing import Any

import pytest

from firesteel.common import Configuration
from firesteel.common.errors import JobExecutionError, UserCodeError
from firesteel.common.watermark_strategy import WatermarkStrategy
from firesteel.contracts.functions import MapFunction
from firesteel.contracts.source import Boundedness, SourceFunction
from firesteel.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from firesteel.testing import simulated_environment
from firesteel.testing.scripted_source import Emit, ScriptedSource, Step, WaitForCheckpoint, WaitForever

RESTARTS = {
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "100",
    "restart-strategy.fixed-delay.delay": "0 ms",
}
CHECKPOINTS = {"execution.checkpointing.interval": "10 ms"}


def environment(seed: int = 0, **options: str) -> StreamExecutionEnvironment:
    named = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    return simulated_environment(seed, 2, Configuration.from_dict({**RESTARTS, **named}))


class FailsOnce(MapFunction):
    """Raises at each of some numbers, the first time that any attempt sees it."""

    def __init__(self, directory: Path, *numbers: int) -> None:
        self._marks = {number: directory / uuid.uuid4().hex for number in numbers}

    def map(self, value: int) -> int:
        mark = self._marks.get(value)
        if mark is not None and not mark.exists():
            mark.touch()
            raise RuntimeError(f"{value} is hard")
        return value


def in_pieces(count: int, size: int, start: int = 0, stride: int = 1) -> list[Step]:
    """Numbers, with a complete checkpoint after every piece."""
    numbers = range(start, count, stride)
    steps: list[Step] = []
    for begin in range(0, len(numbers), size):
        steps += [Emit(list(numbers[begin : begin + size])), WaitForCheckpoint()]
    return steps


def stream_of(env: StreamExecutionEnvironment, *scripts: list[Step]) -> Any:
    source = ScriptedSource(*scripts)
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")


@pytest.mark.parametrize("seed", range(8))
def test_every_result_comes_once_and_in_order_whatever_fails(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    env = environment(seed, **CHECKPOINTS)
    scripts = [in_pieces(200, draw.randint(5, 40), start, 2) for start in (0, 1)]
    numbers = stream_of(env, *scripts).map(FailsOnce(tmp_path, *draw.sample(range(200), 5)))
    with numbers.execute_and_collect() as results:
        found = list(results)
    assert [n for n in found if n % 2 == 0] == list(range(0, 200, 2))
    assert [n for n in found if n % 2 == 1] == list(range(1, 200, 2))


def test_results_of_an_endless_job_come_with_its_checkpoints() -> None:
    env = environment(**CHECKPOINTS)
    script = [Emit([1, 2]), WaitForCheckpoint(), Emit([3, 4]), WaitForever()]
    source = ScriptedSource(script, boundedness=Boundedness.CONTINUOUS_UNBOUNDED)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    with numbers.execute_and_collect() as results:
        assert [next(results) for _ in range(4)] == [1, 2, 3, 4]


def test_the_first_results_are_enough_for_a_limit(tmp_path: Path) -> None:
    env = environment(**CHECKPOINTS)
    numbers = stream_of(env, in_pieces(1000, 10)).map(FailsOnce(tmp_path, 25))
    assert numbers.execute_and_collect(limit=42) == list(range(42))


def test_without_checkpoints_results_come_at_once() -> None:
    env = environment()
    source = ScriptedSource([Emit([1, 2]), WaitForever()], boundedness=Boundedness.CONTINUOUS_UNBOUNDED)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    with numbers.execute_and_collect() as results:
        assert [next(results), next(results)] == [1, 2]


def test_at_least_once_gives_results_at_once_and_may_repeat_them(tmp_path: Path) -> None:
    env = environment(**CHECKPOINTS, execution__checkpointing__mode="AT_LEAST_ONCE")
    steps = [Emit([1, 2]), WaitForCheckpoint(), Emit([3]), WaitForCheckpoint(), Emit([4])]
    with stream_of(env, steps).map(FailsOnce(tmp_path, 4)).execute_and_collect() as results:
        found = list(results)
    assert sorted(set(found)) == [1, 2, 3, 4]


def test_job_that_begins_again_without_checkpoints_does_not_repeat_results(tmp_path: Path) -> None:
    """What the program has read cannot be retracted, and would come again."""
    env = environment()
    told = tmp_path / "told"
    with env.add_source(FailsWhenTold(told)).execute_and_collect() as results:
        assert [next(results), next(results)] == [1, 2]
        told.touch()
        with pytest.raises(JobExecutionError, match=r"2 results .* would come again.*checkpoint"):
            list(results)


class FailsWhenTold(SourceFunction):
    """Two numbers, and an error when there is a file."""

    def __init__(self, told: Path) -> None:
        self._told = told
        self._cancelled = threading.Event()

    def run(self, ctx: Any) -> None:
        ctx.collect(1)
        ctx.collect(2)
        while not self._cancelled.wait(0.001):
            if self._told.exists():
                raise RuntimeError("told to")

    def cancel(self) -> None:
        self._cancelled.set()

    def __reduce__(self) -> Any:
        return FailsWhenTold, (self._told,)


def test_job_that_begins_again_before_anything_was_taken_gives_everything(tmp_path: Path) -> None:
    env = environment()
    numbers = stream_of(env, [Emit(list(range(30)))]).map(FailsOnce(tmp_path, 20))
    results = numbers.execute_and_collect()
    outcome: Any = results._job.get_job_execution_result()  # type: ignore[attr-defined]
    outcome.result()
    assert list(results) == list(range(30))


def test_failed_job_gives_what_its_checkpoints_hold_and_its_error(tmp_path: Path) -> None:
    env = environment(**CHECKPOINTS, restart_strategy__type="none")
    steps = [Emit([1, 2]), WaitForCheckpoint(), Emit([3])]
    results = stream_of(env, steps).map(FailsOnce(tmp_path, 3)).execute_and_collect()
    assert [next(results), next(results)] == [1, 2]
    with pytest.raises(UserCodeError, match="3 is hard"):
        next(results)


def test_batch_results_come_once_when_the_job_is_run_again(tmp_path: Path) -> None:
    env = environment()
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    numbers = env.from_collection(list(range(100))).map(FailsOnce(tmp_path, 17, 60))
    assert sorted(numbers.execute_and_collect()) == list(range(100))
