"""Sorted input of keyed operators in BATCH: every record once, key by key, in the order of time, in bounded memory."""

from __future__ import annotations

import random
from typing import Any

import pytest

from firesteel.runtime.inputs import record_sorter, sorted_input
from firesteel.runtime.inputs.record_sorter import RecordSorter
from firesteel.runtime.inputs.sorted_input import Run, SortedInput


def entry(number: int, place: int) -> tuple[Any, ...]:
    return number % 5, number, place, {"not": "comparable", "n": number}


@pytest.mark.parametrize("in_memory", [0, 1000, 50_000, 10**9])
def test_entries_come_back_in_order_whatever_fits_into_memory(in_memory: int) -> None:
    numbers = list(range(3000))
    random.Random(1).shuffle(numbers)
    sorter = RecordSorter(in_memory)
    for begin in range(0, 3000, 100):
        sorter.add([entry(n, begin + at) for at, n in enumerate(numbers[begin : begin + 100])], 10_000)
    assert [e[-1]["n"] for e in sorter.in_order()] == sorted(range(3000), key=lambda n: (n % 5, n))
    sorter.close()


def test_memory_holds_no_more_than_was_said(monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[int] = []
    spill = RecordSorter._spill

    def spilled(self: RecordSorter) -> None:
        held.append(len(self._entries))
        spill(self)

    monkeypatch.setattr(record_sorter.RecordSorter, "_spill", spilled)
    sorter = RecordSorter(in_memory=100_000)
    for begin in range(0, 10_000, 50):
        sorter.add([entry(begin + at, begin + at) for at in range(50)], 5000)
    assert max(held) <= 1050
    assert len(held) == 9
    sorter.close()


class Sorted:
    """A `SortedInput` whose records are ``(key, value)``."""

    def __init__(self, one_key: bool = False, in_memory: int | None = None) -> None:
        self.input = SortedInput(lambda index, values: [v[0] for v in values], one_key, in_memory)
        self._receivers: dict[tuple[int, int], Any] = {}

    def add(
        self, values: list[Any], times: list[int | None] | None, index: int = 0, channel: int = 0
    ) -> None:
        receive = self._receivers.setdefault((index, channel), self.input.receiver(index, channel))
        assert receive(values, times) == 0

    def read(self) -> list[Run]:
        self.input.seal()
        runs = []
        while (run := self.input.take()) is not None:
            runs.append(run)
        self.input.close()
        return runs


def by_key(runs: list[Run]) -> dict[Any, list[Any]]:
    """The values of each key, in order; each key must be over when the next one begins."""
    found: dict[Any, list[Any]] = {}
    last = None
    for run in runs:
        for key, value in run.values:
            assert key == last or key not in found, "a key comes twice"
            found.setdefault(key, []).append(value)
            last = key
    return found


@pytest.mark.parametrize("in_memory", [0, None])
@pytest.mark.parametrize("one_key", [False, True])
def test_every_key_in_the_order_of_its_times(one_key: bool, in_memory: int | None) -> None:
    rng = random.Random(2)
    records = [((f"k{rng.randrange(40)}", number), rng.randrange(100)) for number in range(2000)]
    sorting = Sorted(one_key, in_memory)
    for begin in range(0, 2000, 77):
        part = records[begin : begin + 77]
        sorting.add([value for value, _ in part], [time for _, time in part])
    found = by_key(sorting.read())
    for key in {key for (key, _), _ in records}:
        mine = [(time, number) for (k, number), time in records if k == key]
        assert found[key] == [number for _, number in sorted(mine)]


def test_keys_with_the_same_hash_stay_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorted_input, "stable_hash", lambda key: 7)
    sorting = Sorted(one_key=True)
    sorting.add([(n % 4, n) for n in range(100)], [100 - n for n in range(100)])
    runs = sorting.read()
    assert by_key(runs) == {key: list(range(96 + key, -1, -4)) for key in range(4)}
    assert [run.ends_keys for run in runs] == [True] * 4


def test_equal_keys_of_different_types_are_one_key() -> None:
    sorting = Sorted(one_key=True)
    sorting.add([(1, "a"), (2, "b"), (1.0, "c"), (True, "d")], None)
    assert sorted(len(run.values) for run in sorting.read()) == [1, 3]


def test_without_time_the_order_of_each_sender_is_kept_whatever_arrives_first() -> None:
    def run(channels: list[int]) -> list[Any]:
        sorting = Sorted()
        sent = [0, 0]
        for channel in channels:
            sorting.add([("k", (channel, sent[channel]))], None, channel=channel)
            sent[channel] += 1
        (found,) = sorting.read()
        assert found.timestamps is None
        return [value for _, value in found.values]

    assert run([0, 0, 1, 1]) == run([1, 0, 1, 0]) == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_two_inputs_are_merged_by_key_and_time() -> None:
    sorting = Sorted(one_key=True)
    sorting.add([("a", 1), ("b", 2), ("a", 3)], [10, 20, 30], index=0)
    sorting.add([("a", 4), ("a", 5), ("b", 6)], [20, 10, 1], index=1, channel=1)
    runs = sorting.read()
    shown = [(run.input, [v for _, v in run.values], run.timestamps, run.ends_keys) for run in runs]
    of_a = [(0, [1], [10], False), (1, [5, 4], [10, 20], False), (0, [3], [30], True)]
    of_b = [(1, [6], [1], False), (0, [2], [20], True)]
    assert shown in ([*of_a, *of_b], [*of_b, *of_a])


def test_runs_of_an_operator_that_does_not_care_hold_many_keys_and_end_with_one() -> None:
    sorting = Sorted()
    sorting.add([(n // 3, n) for n in range(3000)], None)
    runs = sorting.read()
    assert len(runs) == 3
    assert runs[-1].ends_keys
    assert sum(len(run.values) for run in runs) == 3000


def test_a_large_key_comes_in_parts() -> None:
    sorting = Sorted(one_key=True)
    sorting.add([("k", n) for n in range(2500)], None)
    assert [(len(run.values), run.ends_keys) for run in sorting.read()] == [
        (1024, False),
        (1024, False),
        (452, True),
    ]
