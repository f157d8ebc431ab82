"""A record that always fails: jobs of the simulator end after a few restarts, for which nobody waits."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from firesteel.common.configuration import Configuration
from firesteel.common.errors import UserCodeError
from firesteel.common.typeinfo import Types
from firesteel.common.watermark_strategy import WatermarkStrategy
from firesteel.datastream import (
    KeyedProcessFunction,
    OutputTag,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
)
from firesteel.datastream.state import ValueStateDescriptor
from firesteel.testing import (
    CollectSink,
    Emit,
    ManualClock,
    ScriptedSource,
    WaitForCheckpoint,
    simulated_environment,
    use_simulator,
)

HOUR = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "1 h"}


def environment(seed: int = 0, **options: Any) -> StreamExecutionEnvironment:
    env = simulated_environment(
        seed, 2, Configuration.from_dict({str(k): str(v) for k, v in options.items()})
    )
    env.enable_checkpointing(50)
    return env


def run(env: StreamExecutionEnvironment) -> UserCodeError:
    env.from_collection(["1", "2", "x", "3"]).map(int).name("Parse").print()
    with pytest.raises(UserCodeError) as caught:
        env.execute("poisoned")
    return caught.value


@pytest.mark.parametrize("seed", range(5))
def test_a_job_with_unlimited_restarts_ends_with_a_sentence(
    seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    error = run(environment(seed))
    assert error.record == "'x'"
    assert any("the same record has failed job 'poisoned' 3 times" in note for note in error.__notes__)
    assert len([text for text in caplog.messages if "the next one starts" in text]) == 2


def test_the_threshold_can_be_changed(caplog: pytest.LogCaptureFixture) -> None:
    error = run(environment(**{"firesteel.repeated-failure.threshold": 7}))
    assert any("7 times" in note for note in error.__notes__)
    assert len([text for text in caplog.messages if "the next one starts" in text]) == 6


def test_a_job_that_shall_go_on_goes_on_and_says_it(caplog: pytest.LogCaptureFixture) -> None:
    attempts = {**HOUR, "restart-strategy.fixed-delay.attempts": 5}
    with caplog.at_level(logging.WARNING):
        run(environment(**{**attempts, "firesteel.repeated-failure.action": "warn"}))
    assert len([text for text in caplog.messages if "the next one starts" in text]) == 5
    assert len([text for text in caplog.messages if text.startswith("the same record has failed")]) == 1


def test_restarts_wait_in_simulated_time() -> None:
    """Two hours of waiting; if they were real, this test would not end."""
    clock = ManualClock()
    began = clock.now()
    with use_simulator(clock=clock):
        env = StreamExecutionEnvironment.get_execution_environment(
            Configuration.from_dict({**HOUR, "restart-strategy.fixed-delay.attempts": "2"})
        )
        env.enable_checkpointing(50)
        run(env)
    assert clock.now() - began >= 7200


def noted(file: Path, value: object) -> int:
    """Note something beside the job, where restarts do not undo it; how much is there."""
    with file.open("a") as notes:
        notes.write(f"{value}\n")
    return len(file.read_text().splitlines())


def test_the_time_of_a_job_goes_on_over_its_restarts(tmp_path: Path) -> None:
    """A second attempt sees a time that is later than the first one's."""
    file = tmp_path / "times"

    class Late(KeyedProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> Any:
            if noted(file, ctx.timer_service().current_processing_time()) == 1:
                raise ValueError("once")
            yield value

    env = environment(**{**HOUR, "restart-strategy.fixed-delay.attempts": 5})
    env.from_collection([1]).key_by(lambda value: value).process(Late()).print()
    env.execute()
    first, second = map(int, file.read_text().split())
    assert second - first >= 3_600_000


def test_a_failure_that_a_restart_cures_is_no_poison(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "calls"

    def flaky(value: int) -> int:
        if noted(file, value) <= 2:
            raise ConnectionError("not yet")
        return value

    env = environment()
    env.from_collection([1]).map(flaky).print()
    env.execute()
    assert not [text for text in caplog.messages if text.startswith("the same")]


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("aside", [False, True])
def test_on_error_lets_a_job_pass_bad_records_through_checkpoints(seed: int, aside: bool) -> None:
    """Records around a checkpoint, half of them bad: each good one once, each bad one once in the side output."""
    env = environment(seed)
    bad = OutputTag("bad")
    steps = [Emit(["1", "x"], [1, 2]), WaitForCheckpoint(), Emit(["y", "2"], [3, 4]), WaitForCheckpoint()]
    parsed = (
        env.from_source(ScriptedSource(steps), WatermarkStrategy.no_watermarks(), "texts")
        .map(int)
        .name("Parse")
        .set_parallelism(1)
    )
    parsed = parsed.on_error(dead_letter=bad) if aside else parsed.on_error("drop")
    stream = (
        parsed.get_side_output(bad).map(lambda letter: (letter.value, letter.timestamp)) if aside else parsed
    )
    with stream.execute_and_collect() as results:
        assert sorted(results) == ([("x", 2), ("y", 3)] if aside else [1, 2])


# Whole jobs against a naive loop ----------------------------------------------------------------------


def thirds(value: int) -> int:
    if value % 5 == 0:
        raise ValueError(f"no {value}")
    return value * 3


class Numbered(KeyedProcessFunction):
    """Counts in state first, then fails for some, after a first result."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def process_element(self, value: int, ctx: Any) -> Any:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield value, count
        if value % 7 == 0:
            raise KeyError(value)
        yield value, "done"


def naive(values: range) -> tuple[list[Any], list[Any]]:
    """Main output and dead letters of both operators."""
    results: list[Any] = []
    bad: list[Any] = []
    counts: dict[int, int] = {}
    for value in values:
        try:
            third = thirds(value)
        except ValueError:
            bad.append(("Thirds", value))
            continue
        counts[third % 4] = counts.get(third % 4, 0) + 1
        results.append((third, counts[third % 4]))
        if third % 7 == 0:
            bad.append(("Numbered", third))
        else:
            results.append((third, "done"))
    return results, bad


@pytest.mark.parametrize("mode", [RuntimeExecutionMode.STREAMING, RuntimeExecutionMode.BATCH])
@pytest.mark.parametrize("chunk", [1, 2, 7, 1024])
@pytest.mark.parametrize("seed", range(5))
def test_programs_give_what_a_loop_gives_however_records_are_cut(
    seed: int, chunk: int, mode: RuntimeExecutionMode
) -> None:
    values, bad = range(200), OutputTag("bad")
    options = {"firesteel.chunk.records": str(chunk), "firesteel.source.batch": str(chunk)}
    env = simulated_environment(seed, 1, Configuration.from_dict(options))
    env.set_runtime_mode(mode)
    first = env.from_collection(list(values)).map(thirds).name("Thirds").on_error(dead_letter=bad)
    second = first.key_by(lambda value: value % 4).process(Numbered()).name("Numbered")
    second = second.on_error(dead_letter=bad)
    main, letters = CollectSink(), CollectSink()
    second.add_sink(main)
    for each in (first, second):
        each.get_side_output(bad).map(lambda letter: (letter.operator, letter.value)).add_sink(letters)
    result = env.execute()
    expected, expected_bad = naive(values)
    if mode is RuntimeExecutionMode.BATCH:  # one key after the other
        assert sorted(main.values, key=by_key) == sorted(expected, key=by_key)
        assert sorted(letters.values) == sorted(expected_bad)
    else:
        assert main.values == expected
        for name in ("Thirds", "Numbered"):
            assert [v for n, v in letters.values if n == name] == [v for n, v in expected_bad if n == name]
    failed = result.get_all_accumulator_results()
    assert failed["badRecords.Thirds"] + failed["badRecords.Numbered"] == len(expected_bad)


def by_key(result: tuple[int, Any]) -> int:
    return result[0] % 4
