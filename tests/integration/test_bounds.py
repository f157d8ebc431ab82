"""Limits on Spark: of a task's memory, of a line that is never ended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conftest import SparkEnvironment

from firesteel.common.errors import JobExecutionError
from firesteel.common.typeinfo import Types
from firesteel.datastream import (
    DiscardingSink,
    KeyedProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from firesteel.datastream.state import ValueStateDescriptor

pytestmark = pytest.mark.spark

BLOCK = 1 << 20


class Greedy(KeyedProcessFunction):
    """A state of a megabyte for each key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.state = runtime_context.get_state(ValueStateDescriptor("block", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        self.state.update(bytearray(b"x" * BLOCK))


def test_a_task_that_uses_too_much_memory_fails_with_a_sentence_and_is_restarted(
    environment: SparkEnvironment, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    env = environment(
        1,
        **{
            "firesteel.task.memory-limit": "400 mb",
            "firesteel.metrics.interval": "50 ms",
            "firesteel.source.batch": "16",
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": "1",
            "restart-strategy.fixed-delay.delay": "10 ms",
        },
    )
    numbers = env.from_sequence(1, 4000)
    numbers.key_by(lambda n: n).process(Greedy()).name("Greedy").add_sink(DiscardingSink())
    with pytest.raises(JobExecutionError) as failed:
        env.execute("greedy")
    text = str(failed.value)
    assert "MB of memory, more than its limit of 419.4 MB (firesteel.task.memory-limit)" in text
    assert "'Greedy' (1/1) has " in text
    assert "entries of state, about " in text
    assert "raise firesteel.task.memory-limit" in text
    assert "the next one starts" in caplog.text, "by its restart strategy"


def test_what_is_printed_without_an_end_of_line_is_shown(
    env: StreamExecutionEnvironment, capsys: pytest.CaptureFixture[str]
) -> None:
    def dot(number: int) -> int:
        print(".", end="")
        return number

    env.from_collection(range(50)).map(dot).set_parallelism(1).add_sink(DiscardingSink()).set_parallelism(1)
    env.execute()
    assert capsys.readouterr().out == "." * 50 + "\n"
