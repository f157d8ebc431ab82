"""What goes wrong with records, on Spark: dead letters, poison records, and event time that stands still."""

from __future__ import annotations

import itertools
import logging
import queue
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import SparkEnvironment
from support import PATIENCE

from firesteel.common.errors import UserCodeError
from firesteel.datastream import (
    DeadLetter,
    DiscardingSink,
    KeyedProcessFunction,
    OutputTag,
    SourceFunction,
)

pytestmark = pytest.mark.spark

BAD = OutputTag("bad")


def parse(text: str) -> int:
    return int(text)


def shown(letter: DeadLetter[str]) -> tuple[str, str, str]:
    return letter.value, letter.error_type, letter.operator


def test_dead_letters_arrive_behind_a_shuffle(
    environment: SparkEnvironment, caplog: pytest.LogCaptureFixture
) -> None:
    env = environment(2)
    texts = env.from_collection([str(n) if n % 10 else f"x{n}" for n in range(2_000)])
    parsed = texts.rebalance().map(parse).name("Parse").on_error(dead_letter=BAD)
    letters = parsed.get_side_output(BAD).rebalance().map(shown)
    both = letters.union(parsed.map(lambda number: (number, "", "")))
    with both.execute_and_collect("parsing") as results:
        found = list(results)
    assert sorted(name for name, error, _ in found if error) == sorted(f"x{n}" for n in range(0, 2_000, 10))
    assert {(error, operator) for _, error, operator in found} == {("ValueError", "Parse"), ("", "")}
    assert sorted(value for value, error, _ in found if not error) == [n for n in range(2_000) if n % 10]
    assert any("has sent 200 records to the side output 'bad'" in text for text in caplog.messages)


def test_a_poison_record_ends_a_job_that_would_restart_for_ever(
    environment: SparkEnvironment, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    env = environment(
        1,
        **{
            "execution.checkpointing.interval": "1 s",
            "execution.checkpointing.dir": tmp_path.as_uri(),
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": "1000",
            "restart-strategy.fixed-delay.delay": "0 ms",
            "firesteel.repeated-failure.threshold": "2",
            "firesteel.repeated-failure.action": "fail",
        },
    )
    env.from_collection(["1", "x"]).map(parse).name("Parse").print()
    with caplog.at_level(logging.WARNING), pytest.raises(UserCodeError) as caught:
        env.execute("poisoned")
    assert any("the same record has failed job 'poisoned' 2 times" in note for note in caught.value.__notes__)
    assert len([text for text in caplog.messages if "the next one starts" in text]) == 1


# Event time that stands still -------------------------------------------------------------------------


class Ticks(SourceFunction):
    """A record now and then, for ever; times, but no watermarks."""

    def run(self, ctx: SourceFunction.SourceContext) -> None:
        self.running = True
        for number in itertools.count():
            if not self.running:
                break
            ctx.collect_with_timestamp(number, number)
            time.sleep(0.02)

    def cancel(self) -> None:
        self.running = False


class Alarm(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 1)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield timestamp


class Told(logging.Handler):
    """What the driver says about event time."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: queue.SimpleQueue[str] = queue.SimpleQueue()

    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage().startswith("event time stands still"):
            self.texts.put(record.getMessage())


def test_tasks_of_other_processes_are_asked_who_holds_event_time_back(environment: SparkEnvironment) -> None:
    env = environment(2, **{"firesteel.watermark.stall-warning": "300 ms"})
    ticks = env.add_source(Ticks(), "Ticks")
    spread = ticks.rebalance().map(lambda number: number).set_parallelism(1)
    spread.key_by(lambda number: number % 2).process(Alarm()).name("Alarm").add_sink(DiscardingSink())
    told, logger = Told(), logging.getLogger("firesteel.jobmaster.job_master")
    logger.addHandler(told)
    try:
        job = env.execute_async("stalling")
        text = told.texts.get(timeout=PATIENCE)
        job.cancel().result()
    finally:
        logger.removeHandler(told)
    assert "'Alarm' (" in text
    assert "'Source: Ticks' (1/1) makes no watermarks" in text
