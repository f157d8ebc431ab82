"""Asynchronous calls on Spark: on a real event loop beside the task."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

import pytest
from conftest import SparkEnvironment

from firesteel.common import JobStatus, Time
from firesteel.datastream import AsyncDataStream, DiscardingSink
from firesteel.datastream.functions import AsyncFunction

pytestmark = pytest.mark.spark


class Answer(AsyncFunction[int, tuple[int, str]]):
    async def async_invoke(self, value: int) -> list[tuple[int, str]]:
        await asyncio.sleep(value % 7 / 1000)
        return [(value, threading.current_thread().name)]


def test_many_calls_at_a_time_in_the_order_of_the_records(environment: SparkEnvironment) -> None:
    env = environment(1)
    numbers = env.from_collection(range(3000))
    answers = AsyncDataStream.ordered_wait(numbers, Answer(), Time.minutes(5), capacity=500)
    with answers.execute_and_collect() as results:
        found = list(results)
    assert [value for value, _ in found] == list(range(3000))
    assert {thread for _, thread in found} == {"firesteel-calls"}


class FailOnce(AsyncFunction[int, int]):
    def __init__(self, trap: str) -> None:
        self.trap = trap

    async def async_invoke(self, value: int) -> list[int]:
        await asyncio.sleep(value % 13 / 1000)
        if value == 4000 and Path(self.trap).exists():
            Path(self.trap).unlink()
            raise RuntimeError("once")
        return [value]


def test_calls_in_flight_survive_a_restart(environment: SparkEnvironment, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    trap.touch()
    options = {
        "execution.checkpointing.interval": "20 ms",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.delay": "1 ms",
    }
    env = environment(2, **options)
    answers = AsyncDataStream.unordered_wait(
        env.from_collection(range(5000)), FailOnce(str(trap)), Time.minutes(5), capacity=50
    )
    with answers.execute_and_collect() as results:
        assert sorted(results) == list(range(5000))
    assert not trap.exists()


class Never(AsyncFunction[int, int]):
    def __init__(self, begun: str) -> None:
        self.begun = begun

    async def async_invoke(self, value: int) -> list[int]:
        Path(self.begun).touch()
        await asyncio.Event().wait()
        return [value]


def test_a_task_that_waits_for_answers_can_be_cancelled(
    environment: SparkEnvironment, tmp_path: Path
) -> None:
    begun = tmp_path / "begun"
    env = environment(1)
    numbers = env.from_collection(range(10))
    AsyncDataStream.ordered_wait(numbers, Never(str(begun)), Time.seconds(0), capacity=3).add_sink(
        DiscardingSink()
    )
    client = env.execute_async("waits for ever")
    while not begun.exists():
        assert not client.get_job_status().result().is_terminal_state()
        time.sleep(0.01)  # between two looks
    client.cancel().result()
    assert client.get_job_status().result() is JobStatus.CANCELED
