"""``on_error`` at the stream: what it accepts, where it is refused, and what programs get from it."""

from __future__ import annotations

from typing import Any

import pytest

from firesteel.common import Types
from firesteel.common.errors import (
    ProgramError,
    UnsupportedOperationError,
    UserCodeError,
    WrongArgumentError,
)
from firesteel.datastream import DataStream, DeadLetter, OutputTag
from firesteel.testing import simulated_environment

BAD = OutputTag("bad")


def parsed(**more: Any) -> DataStream:
    env = simulated_environment(**{"parallelism": 1, **more})
    return env.from_collection(["1", "x", "2", "y", "3"]).map(int).name("Parse")


def test_a_record_that_cannot_be_processed_is_dropped() -> None:
    with parsed().on_error("drop").execute_and_collect() as results:
        assert list(results) == [1, 2, 3]


def test_dead_letters_are_in_the_side_output() -> None:
    with parsed().on_error(dead_letter=BAD).get_side_output(BAD).execute_and_collect() as letters:
        found = list(letters)
    assert [(type(letter), letter.value, letter.operator) for letter in found] == [
        (DeadLetter, "x", "Parse"),
        (DeadLetter, "y", "Parse"),
    ]


def test_the_last_word_counts() -> None:
    with (
        pytest.raises(UserCodeError, match="'x'"),
        parsed().on_error("drop").on_error("fail").execute_and_collect() as results,
    ):
        list(results)


def test_the_count_is_an_accumulator_and_told_at_the_end(caplog: pytest.LogCaptureFixture) -> None:
    stream = parsed().on_error("drop")
    stream.print()
    result = stream.get_execution_environment().execute("parsing")
    assert result.get_accumulator_result("badRecords.Parse") == 2
    assert "job 'parsing' has dropped 2 records, for which 'Parse' raised (on_error)" in caplog.messages


@pytest.mark.parametrize("read", [True, False])
def test_dead_letters_are_told_at_the_end(read: bool, caplog: pytest.LogCaptureFixture) -> None:
    stream = parsed().on_error(dead_letter=BAD)
    stream.print()
    if read:
        stream.get_side_output(BAD).print()
    stream.get_execution_environment().execute("parsing")
    nobody = "" if read else ", which nobody reads"
    assert (
        f"job 'parsing' has sent 2 records to the side output 'bad'{nobody}, for which 'Parse' raised (on_error)"
        in caplog.messages
    )


def test_on_error_does_not_change_where_an_operator_finds_its_state() -> None:
    from firesteel.graph.operator_ids import operator_ids

    plain, tolerant = parsed(), parsed().on_error("drop")
    ids = [list(operator_ids(each._env._graph.build()).values()) for each in (plain, tolerant)]
    assert ids[0] == ids[1]


def refused_streams() -> dict[str, Any]:
    stream = parsed()
    keyed = stream.key_by(lambda value: value)
    env = stream.get_execution_environment()
    return {
        "a source makes records": env.from_collection([1]),
        "a window has no single record": keyed.count_window(2).reduce(lambda a, b: a),
        "not supported on 'Reduce'": keyed.reduce(lambda a, b: a),
        "key_by() is no operator": keyed,
        "a union is no operator": stream.union(stream),
        "how records are distributed": stream.rebalance(),
        "is the side output 'bad'": stream.get_side_output(BAD),
        "not supported on a sink": stream.print(),
        "a join pairs two records": keyed.interval_join(keyed).between(-1, 1).process(_pairs()),
    }


def _pairs() -> Any:
    from firesteel.datastream import ProcessJoinFunction

    class Pairs(ProcessJoinFunction):
        def process_element(self, left: Any, right: Any, ctx: Any) -> Any:
            yield left, right

    return Pairs()


@pytest.mark.parametrize("reason", refused_streams())
def test_refused_where_there_is_no_single_record(reason: str) -> None:
    with pytest.raises(UnsupportedOperationError) as caught:
        refused_streams()[reason].on_error("drop")
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"action": "ignore"}, WrongArgumentError),
        ({}, WrongArgumentError),
        ({"dead_letter": "bad"}, WrongArgumentError),
        ({"action": "drop", "dead_letter": BAD}, ProgramError),
        ({"dead_letter": OutputTag("bad", Types.INT())}, ProgramError),
    ],
)
def test_arguments_that_mean_nothing(arguments: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error, match="on_error"):
        parsed().on_error(**arguments)
