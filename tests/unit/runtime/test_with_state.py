"""map, flat_map and filter with one value of state per key."""

from __future__ import annotations

from typing import Any

import pytest

from firesteel.common.errors import JobExecutionError, WrongArgumentError
from firesteel.common.typeinfo import Types
from firesteel.contracts.functions import MapFunction
from firesteel.datastream._stream import DataStream
from firesteel.runtime.operators.with_state import TABLE
from firesteel.testing import FunctionHarness, simulated_environment


def words(*values: Any) -> DataStream:
    return simulated_environment().from_collection(list(values) or ["a"])


def number(word: str, count: int | None) -> tuple[str, int]:
    return f"{word}{count or 0}", (count or 0) + 1


def test_map_with_state() -> None:
    stream = words().key_by(lambda word: word).map_with_state(number)
    harness = FunctionHarness.of(stream)
    harness.process_elements(["a", "b", "a"], timestamps=[1, 2, 3])
    assert harness.take_records() == [("a0", 1), ("b0", 2), ("a1", 3)]
    assert (harness.state("a", TABLE), harness.state("b", TABLE)) == (2, 1)


def test_state_lives_on_in_a_snapshot() -> None:
    stream = words().key_by(lambda word: word).map_with_state(number)
    first = FunctionHarness.of(stream)
    first.process_element("a")
    second = FunctionHarness.of(stream, snapshot=first.snapshot())
    second.process_element("a")
    assert second.take_output() == ["a1"]


def pairs(value: int, waiting: int | None) -> tuple[list[tuple[int, int]] | None, int | None]:
    return (None, value) if waiting is None else ([(waiting, value)] * 2, None)


@pytest.mark.parametrize("timestamps", [None, [1, 2, 3, 4, 5]])
def test_flat_map_with_state_forgets_on_none(timestamps: list[int] | None) -> None:
    stream = simulated_environment().from_collection([1]).key_by(lambda value: value % 2)
    harness = FunctionHarness.of(stream.flat_map_with_state(pairs))
    harness.process_elements([1, 2, 3, 5, 4], timestamps)
    first, second = (None, None) if timestamps is None else (3, 5)
    assert harness.take_records() == [((1, 3), first)] * 2 + [((2, 4), second)] * 2
    assert harness.keys_of_state(TABLE) == {1}


def test_outputs_may_be_generated() -> None:
    stream = words().key_by(len).flat_map_with_state(lambda word, state: ((c for c in word), state))
    assert sorted(stream.execute_and_collect()) == ["a"]


@pytest.mark.parametrize("timestamps", [None, [1, 2, 3]])
def test_filter_with_state(timestamps: list[int] | None) -> None:
    stream = words().key_by(lambda word: word).filter_with_state(lambda word, seen: (not seen, True))
    harness = FunctionHarness.of(stream)
    harness.process_elements(["a", "a", "b"], timestamps)
    assert harness.take_records() == [
        ("a", timestamps and timestamps[0]),
        ("b", timestamps and timestamps[2]),
    ]


def test_filter_keeps_the_type_and_map_takes_one() -> None:
    stream = simulated_environment().from_collection([1], Types.INT()).key_by(lambda value: value)
    assert stream.filter_with_state(lambda value, state: (True, state)).get_type() == Types.INT()
    mapped = stream.map_with_state(lambda value, state: (str(value), None), Types.INT(), Types.STRING())
    assert mapped.get_type() == Types.STRING()
    assert list(mapped.execute_and_collect()) == ["1"]


def test_in_a_job() -> None:
    stream = words("a", "b", "a", "a").key_by(lambda word: word).map_with_state(number)
    assert sorted(stream.execute_and_collect()) == ["a0", "a1", "a2", "b0"]


@pytest.mark.parametrize("operation", ["map_with_state", "flat_map_with_state"])
def test_a_function_that_returns_no_pair_is_told_so(operation: str) -> None:
    stream = getattr(words().key_by(len), operation)(lambda word, state: [word])
    with pytest.raises(JobExecutionError, match=r"pair of result and new state.*got \['a'\]"):
        FunctionHarness.of(stream).process_element("a")


@pytest.mark.parametrize("function", [None, MapFunction, lambda word: word])
def test_what_is_no_function_of_two_values_is_refused(function: Any) -> None:
    with pytest.raises(WrongArgumentError, match=r"map_with_state\(\) needs a function of 2 values"):
        words().key_by(len).map_with_state(function)
