"""Asynchronous calls in whole jobs: order, watermarks, time-outs, retries, errors, restarts; all in simulated time."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from firesteel.common import Configuration, Time, WatermarkStrategy
from firesteel.common.errors import UserCodeError, WrongArgumentError
from firesteel.common.watermark_strategy import TimestampAssigner
from firesteel.datastream import AsyncDataStream, StreamExecutionEnvironment
from firesteel.datastream.functions import AsyncFunction, AsyncRetryStrategy, ProcessFunction
from firesteel.testing import simulated_environment


class Answer(AsyncFunction[int, str]):
    """Answers after so many milliseconds as the record says, modulo 7."""

    async def async_invoke(self, value: int) -> list[str]:
        await asyncio.sleep(value * 37 % 7 / 1000)
        return [f"answer {value}"]


def run(env: StreamExecutionEnvironment, stream: Any) -> list[Any]:
    with stream.execute_and_collect() as results:
        return list(results)


@pytest.mark.parametrize("seed", range(8))
def test_ordered_results_have_the_order_of_the_records(seed: int) -> None:
    env = simulated_environment(seed, parallelism=1)
    numbers = env.from_collection(list(range(60)))
    answers = AsyncDataStream.ordered_wait(numbers, Answer(), Time.seconds(5), capacity=1 + seed * 5)
    assert run(env, answers) == [f"answer {n}" for n in range(60)]


@pytest.mark.parametrize("seed", range(8))
def test_unordered_results_are_all_there(seed: int) -> None:
    env = simulated_environment(seed, parallelism=2)
    numbers = env.from_collection(list(range(60)))
    answers = AsyncDataStream.unordered_wait(numbers, Answer(), Time.seconds(5), capacity=10)
    assert sorted(run(env, answers)) == sorted(f"answer {n}" for n in range(60))


def test_unordered_results_leave_as_they_come() -> None:
    async def later_the_smaller(value: int) -> list[int]:
        await asyncio.sleep(10 - value)
        return [value]

    env = simulated_environment(3, parallelism=1)
    numbers = env.from_collection(list(range(5)))
    answers = AsyncDataStream.unordered_wait(numbers, later_the_smaller, Time.seconds(60))
    assert run(env, answers) == [4, 3, 2, 1, 0]


class _Stamp(TimestampAssigner):
    def extract_timestamp(self, value: int, record_timestamp: int) -> int:
        return value * 10


class _ShowWatermark(ProcessFunction):
    def process_element(self, value: int, ctx: ProcessFunction.Context) -> Any:
        yield value, ctx.timestamp(), ctx.timer_service().current_watermark()


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("seed", range(6))
def test_results_do_not_overtake_watermarks(seed: int, ordered: bool) -> None:
    async def slow(value: int) -> list[int]:
        await asyncio.sleep(value * 53 % 11 / 1000)
        return [value]

    env = simulated_environment(seed, parallelism=1)
    env.get_config().set_auto_watermark_interval(1)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(_Stamp())
    numbers = env.from_collection(list(range(50))).assign_timestamps_and_watermarks(strategy)
    wait = AsyncDataStream.ordered_wait if ordered else AsyncDataStream.unordered_wait
    seen = run(env, wait(numbers, slow, Time.seconds(5), capacity=7).process(_ShowWatermark()))
    assert sorted(value for value, _, _ in seen) == list(range(50))
    for value, timestamp, watermark in seen:
        assert timestamp == value * 10
        assert watermark < timestamp, "a watermark overtook a record that it covers"


def test_calls_run_side_by_side_in_simulated_time() -> None:
    async def an_hour(value: int) -> list[int]:
        await asyncio.sleep(3600)
        return [value]

    env = simulated_environment(0, parallelism=1)
    answers = AsyncDataStream.ordered_wait(env.from_collection(list(range(100))), an_hour, 2 * 3_600_000)
    assert run(env, answers) == list(range(100))  # and not after an hour: tests have a time-out


def test_a_call_that_takes_too_long_gives_what_timeout_says() -> None:
    class Slow(AsyncFunction[int, str]):
        async def async_invoke(self, value: int) -> list[str]:
            await asyncio.sleep(1 if value % 2 else 0)
            return [f"{value} in time"]

        def timeout(self, value: int) -> list[str]:
            return [f"{value} too late"]

    env = simulated_environment(1, parallelism=1)
    answers = AsyncDataStream.ordered_wait(env.from_collection([1, 2, 3]), Slow(), Time.milliseconds(100))
    assert run(env, answers) == ["1 too late", "2 in time", "3 too late"]


def test_a_timeout_without_an_answer_ends_the_job_and_names_the_record() -> None:
    async def slow(value: int) -> list[int]:
        await asyncio.sleep(10)
        return [value]

    env = simulated_environment(1, parallelism=1)
    answers = AsyncDataStream.ordered_wait(env.from_collection([17]), slow, Time.milliseconds(100))
    with pytest.raises(
        UserCodeError, match=r"TimeoutError: the asynchronous call for 17 took too long"
    ) as caught:
        run(env, answers)
    assert caught.value.record == "17"


def test_an_error_of_a_call_ends_the_job_and_names_the_record() -> None:
    async def fails(value: int) -> list[int]:
        await asyncio.sleep(0)
        if value == 3:
            raise ValueError("no such customer")
        return [value]

    env = simulated_environment(1, parallelism=1)
    answers = AsyncDataStream.unordered_wait(env.from_collection([1, 2, 3]), fails, Time.seconds(1))
    with pytest.raises(UserCodeError, match="ValueError: no such customer") as caught:
        run(env, answers)
    assert caught.value.record == "3"


async def exits(value: int) -> list[int]:
    sys.exit(3)


async def is_cancelled(value: int) -> list[int]:
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    future.cancel()
    return [await future]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (exits, "user code wanted the task's process to exit"),
        (is_cancelled, "the asynchronous call was cancelled"),
    ],
)
def test_a_call_that_ends_by_itself_without_a_result_ends_the_job(call: Any, message: str) -> None:
    env = simulated_environment(1, parallelism=1)
    answers = AsyncDataStream.ordered_wait(env.from_collection([17]), call, Time.seconds(1))
    with pytest.raises(UserCodeError, match=message) as caught:
        run(env, answers)
    assert caught.value.record == "17"


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (None, "The result of AsyncFunction cannot be none; return"),
        ("text", "The result of AsyncFunction should be of list type, got 'text' (str); return"),
    ],
)
def test_results_that_are_no_lists_are_refused(returned: Any, message: str) -> None:
    async def wrong(value: int) -> Any:
        return returned

    env = simulated_environment(1, parallelism=1)
    with pytest.raises(UserCodeError) as caught:
        run(env, AsyncDataStream.ordered_wait(env.from_collection([1]), wrong, Time.seconds(1)))
    assert message in str(caught.value)


class Flaky(AsyncFunction[int, str]):
    """Fails twice for every record."""

    def open(self, runtime_context: Any) -> None:
        self.tries: dict[int, int] = {}

    async def async_invoke(self, value: int) -> list[str]:
        tries = self.tries[value] = self.tries.get(value, 0) + 1
        if tries <= 2:
            raise ConnectionError(f"try {tries}")
        return [f"{value} after {tries}"]


def test_failed_calls_are_made_again() -> None:
    env = simulated_environment(1, parallelism=1)
    strategy = AsyncRetryStrategy.fixed_delay(3, 100, None, lambda error: isinstance(error, ConnectionError))
    numbers = env.from_collection([1, 2])
    answers = AsyncDataStream.ordered_wait_with_retry(numbers, Flaky(), Time.seconds(5), strategy)
    assert run(env, answers) == ["1 after 3", "2 after 3"]


def test_attempts_are_used_up() -> None:
    env = simulated_environment(1, parallelism=1)
    strategy = AsyncRetryStrategy.fixed_delay(1, 100, None, lambda error: True)
    numbers = env.from_collection([1])
    with pytest.raises(UserCodeError, match="ConnectionError: try 2"):
        run(env, AsyncDataStream.unordered_wait_with_retry(numbers, Flaky(), Time.seconds(5), strategy))


def test_results_may_call_for_another_attempt_and_the_time_out_is_for_all() -> None:
    class NeverThere(AsyncFunction[int, str]):
        async def async_invoke(self, value: int) -> list[str]:
            return []

        def timeout(self, value: int) -> list[str]:
            return ["gave up"]

    env = simulated_environment(1, parallelism=1)
    strategy = AsyncRetryStrategy.exponential_backoff(100, 100, 1000, 2.0, lambda results: not results, None)
    numbers = env.from_collection([1])
    answers = AsyncDataStream.ordered_wait_with_retry(numbers, NeverThere(), Time.seconds(2), strategy)
    assert run(env, answers) == ["gave up"]


def test_a_function_that_blocks_runs_in_threads() -> None:
    def blocks(value: int) -> list[int]:
        time.sleep(0.01)  # stands for a client that blocks
        return [value, -value]

    env = simulated_environment(1, parallelism=1)
    answers = AsyncDataStream.ordered_wait(
        env.from_collection([1, 2, 3]), blocks, Time.seconds(30), capacity=3
    )
    assert run(env, answers) == [1, -1, 2, -2, 3, -3]


def test_what_a_call_changes_is_its_own() -> None:
    kept: list[list[int]] = []

    async def changes(value: list[int]) -> list[list[int]]:
        value.append(1)
        kept.append(value)
        result = [value]
        await asyncio.sleep(0.001)
        return result

    env = simulated_environment(1, parallelism=1)
    numbers = env.from_collection([[0], [5]])
    assert run(env, AsyncDataStream.ordered_wait(numbers, changes, Time.seconds(1))) == [[0, 1], [5, 1]]


class _FailOnce(AsyncFunction[int, int]):
    """Fails when a file is there, and takes it away."""

    def __init__(self, path: str) -> None:
        self.path = path

    async def async_invoke(self, value: int) -> list[int]:
        await asyncio.sleep(value * 31 % 13 / 100)
        if value == 40 and Path(self.path).exists():
            Path(self.path).unlink()
            raise RuntimeError("once")
        return [value]


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("seed", range(10))
def test_calls_in_flight_survive_a_restart(seed: int, ordered: bool, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    trap.touch()
    options = {
        "execution.checkpointing.interval": "20 ms",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "3",
        "restart-strategy.fixed-delay.delay": "1 ms",
    }
    env = simulated_environment(seed, parallelism=2, configuration=Configuration.from_dict(options))
    numbers = env.from_collection(list(range(80)))
    wait = AsyncDataStream.ordered_wait if ordered else AsyncDataStream.unordered_wait
    answers = wait(numbers, _FailOnce(str(trap)), Time.seconds(30), capacity=6)
    assert sorted(run(env, answers)) == list(range(80))
    assert not trap.exists()


@pytest.mark.parametrize(
    "arguments",
    [
        {"capacity": 0},
        {"capacity": "many"},
        {"timeout": "5 s"},
        {"timeout": -1},
        {"async_function": len},
        {"async_function": list},
        {"async_function": Answer},
    ],
)
def test_wrong_arguments_are_refused_when_the_program_is_built(arguments: dict[str, Any]) -> None:
    env = simulated_environment(1)
    wanted = {"async_function": Answer(), "timeout": Time.seconds(1), **arguments}
    with pytest.raises(WrongArgumentError, match="ordered_wait"):
        AsyncDataStream.ordered_wait(env.from_collection([1]), **wanted)
