"""The exactly-once sink for databases, in many histories on a simulated one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from firesteel.connectors.jdbc import exactly_once
from firesteel.connectors.jdbc.database import Connection
from firesteel.connectors.jdbc.ranges import NumberRanges
from firesteel_support.database_simulation import simulate_sink


@pytest.mark.parametrize("first", range(0, 1000, 250))
def test_every_row_is_there_once_whatever_fails(first: int) -> None:
    histories = [simulate_sink(seed) for seed in range(first, first + 250)]
    trouble = sum((history.trouble for history in histories), Counter())
    assert {"answer to COMMIT lost", "connection lost", "conflict", "no connection"} <= trouble.keys()
    assert sum(history.zombies for history in histories) > 100
    assert any(history.attempts > 3 for history in histories)


def test_the_same_seed_gives_the_same_history() -> None:
    assert simulate_sink(11) == simulate_sink(11)


def without_looking(
    ledger: exactly_once.Ledger, connection: Connection, origins: list[str]
) -> dict[str, NumberRanges]:
    return {origin: NumberRanges([]) for origin in origins}


def without_lock(
    ledger: exactly_once.Ledger, connection: Connection, origins: list[str]
) -> dict[str, NumberRanges]:
    world = connection._world  # type: ignore[attr-defined]
    return {origin: NumberRanges.parse(world.notes.get(origin, "")) for origin in origins}


def run_seeds(count: int) -> None:
    for seed in range(count):
        simulate_sink(seed)


@pytest.mark.parametrize("mistake", [without_looking, without_lock])
def test_mistakes_would_be_noticed(monkeypatch: pytest.MonkeyPatch, mistake: Callable[..., object]) -> None:
    monkeypatch.setattr(exactly_once.Ledger, "lock", mistake)
    with pytest.raises(AssertionError, match="these are there as often as said"):
        run_seeds(500)
