"""The Nexmark queries of the benchmark give what plain Python over the list of all events gives."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from firesteel import pyflink_alias
from firesteel.common import WatermarkStrategy
from firesteel.testing import Emit, Pause, ScriptedSource, simulated_environment

PROGRAMS = Path(__file__).parents[2] / "benchmarks" / "programs"
COUNT = 24_000
PIECE = 1_500  # events that a source hands out before a pause in which watermarks and time move on
SEEDS = range(3)
SECOND = 1000


@pytest.fixture(scope="module")
def queries() -> Iterator[ModuleType]:
    """The program's module as it is, with ``pyflink`` meaning Firesteel."""
    pyflink_alias.install()
    sys.path.insert(0, str(PROGRAMS))
    try:
        import nexmark_queries

        yield nexmark_queries
    finally:
        sys.path.remove(str(PROGRAMS))
        for name in ("nexmark_queries", "nexmark_events"):
            sys.modules.pop(name, None)
        pyflink_alias.uninstall()


@pytest.fixture(scope="module")
def house(queries: ModuleType) -> House:
    return House(sys.modules["nexmark_events"])


class House:
    """All events, sorted by kind."""

    def __init__(self, module: ModuleType) -> None:
        self.fields = module
        events = [module.event(number) for number in range(COUNT)]
        self.persons, self.auctions, self.bids = (
            [event for event in events if event[module.KIND] == kind]
            for kind in (module.PERSON, module.AUCTION, module.BID)
        )

    # What each query must give ------------------------------------------------------------------------

    def q0(self) -> list[Any]:
        return [(b[1], b[2], b[3], b[4]) for b in self.bids]

    def q1(self) -> list[Any]:
        return [(b[1], b[2], b[3], b[4] * 908 // 1000) for b in self.bids]

    def q2(self) -> list[Any]:
        return [(b[1], b[2], b[4]) for b in self.bids if b[2] % 123 == 0]

    def q3(self) -> list[Any]:
        f = self.fields
        return [
            (a[f.TIME], p[f.NAME], p[f.CITY], p[f.STATE], a[f.AUCTION_ID])
            for a in self.auctions
            for p in self.persons
            if a[f.SELLER] == p[f.PERSON_ID] and a[f.CATEGORY] == 10 and p[f.STATE] in ("OR", "ID", "CA")
        ]

    def q4(self) -> dict[Any, Any]:
        f = self.fields
        prices: dict[int, list[int]] = defaultdict(list)
        offers = defaultdict(list)
        for b in self.bids:
            offers[b[f.BID_AUCTION]].append(b)
        for a in self.auctions:
            found = [b[f.PRICE] for b in offers[a[f.AUCTION_ID]] if b[f.TIME] <= a[f.EXPIRES]]
            if found:
                prices[a[f.CATEGORY]].append(max(found))
        return {category: (sum(of) / len(of), len(of)) for category, of in prices.items()}

    def q5(self) -> list[Any]:
        results = []
        for end in range(2 * SECOND, COUNT + 10 * SECOND, 2 * SECOND):
            counts = Counter(b[2] for b in self.bids if end - 10 * SECOND <= b[1] < end)
            most = max(counts.values())
            results.append((end, most, tuple(sorted(a for a, count in counts.items() if count == most))))
        return results

    def q7(self) -> list[Any]:
        results = []
        for end in range(10 * SECOND, COUNT + 10 * SECOND, 10 * SECOND):
            inside = [b for b in self.bids if end - 10 * SECOND <= b[1] < end]
            best = max(inside, key=lambda b: (b[4], -b[1]))
            results.append((end, best[4], best[2], best[3]))
        return results

    def q8(self) -> list[Any]:
        f = self.fields
        names = {(_ten(p), p[f.PERSON_ID]): p[f.NAME] for p in self.persons}
        sellers = {(_ten(a), a[f.SELLER]) for a in self.auctions}
        return [(end, person, name) for (end, person), name in names.items() if (end, person) in sellers]

    def q11(self) -> list[Any]:
        times = defaultdict(list)
        for b in self.bids:
            times[b[3]].append(b[1])
        results = []
        for bidder, of in times.items():
            breaks = [i + 1 for i, (a, b) in enumerate(pairwise(of)) if b - a > 10 * SECOND]
            for start, end in pairwise([0, *breaks, len(of)]):
                results.append((of[end - 1] + 10 * SECOND, bidder, of[start], end - start))
        return results


def _ten(event: Any) -> int:
    """The end of the ten seconds of an event."""
    return int(event[1]) // (10 * SECOND) * 10 * SECOND + 10 * SECOND


def answer(queries: ModuleType, name: str, seed: int) -> list[Any]:
    """What the query gives in the simulator; even and odd events come from two tasks."""
    query, has_time, _ = queries.QUERIES[name]
    scripts: list[list[Any]] = [[], []]
    for start in range(0, COUNT, PIECE):
        for first, script in enumerate(scripts):
            script += [Emit(range(start + first, start + PIECE, 2)), Pause(0.3)]
    # Processing-time windows that are open at the end are not emitted.
    scripts[0].append(Pause(5.0))
    env = simulated_environment(seed, parallelism=2)
    numbers = env.from_source(ScriptedSource(*scripts), WatermarkStrategy.no_watermarks(), "numbers")
    events = numbers.map(sys.modules["nexmark_events"].event)
    if has_time:
        strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(queries.EventTime())
        events = events.assign_timestamps_and_watermarks(strategy)
    with query(events).execute_and_collect() as results:
        return list(results)


def test_every_query_is_tested(queries: ModuleType) -> None:
    assert set(queries.QUERIES) == {"q0", "q1", "q2", "q3", "q4", "q5", "q7", "q8", "q11", "q12"}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", ["q0", "q1", "q2", "q3", "q5", "q7", "q8", "q11"])
def test_query_gives_what_plain_python_gives(queries: ModuleType, house: House, name: str, seed: int) -> None:
    expected = getattr(house, name)()
    assert expected
    assert sorted(answer(queries, name, seed)) == sorted(expected)


@pytest.mark.parametrize("seed", SEEDS)
def test_q4_arrives_at_the_averages_of_all_closed_auctions(
    queries: ModuleType, house: House, seed: int
) -> None:
    last: dict[Any, Any] = {}
    for category, average, auctions in answer(queries, "q4", seed):
        assert auctions == last.get(category, (0, 0))[1] + 1
        last[category] = (average, auctions)
    assert last == house.q4()


@pytest.mark.parametrize("seed", SEEDS)
def test_q12_counts_every_bid_in_one_second_of_the_clock(
    queries: ModuleType, house: House, seed: int
) -> None:
    results = answer(queries, "q12", seed)
    counts: Counter[int] = Counter()
    for end, bidder, start, count in results:
        assert end - start == SECOND
        counts[bidder] += count
    assert len({(end, bidder) for end, bidder, _, _ in results}) == len(results)
    assert len({end for end, _, _, _ in results}) > 1
    assert counts == Counter(b[3] for b in house.bids)


def test_events_are_mixed_as_nexmark_wants_and_do_not_repeat(house: House) -> None:
    assert [len(house.persons), len(house.auctions), len(house.bids)] == [
        COUNT // 50,
        COUNT // 50 * 3,
        COUNT // 50 * 46,
    ]
    f = house.fields
    assert len({p[f.PERSON_ID] for p in house.persons}) == len(house.persons)
    assert len({a[f.AUCTION_ID] for a in house.auctions}) == len(house.auctions)
    assert all(f.SHORTEST_AUCTION <= a[f.EXPIRES] - a[f.TIME] < f.LONGEST_AUCTION for a in house.auctions)


@pytest.mark.parametrize("name", ["q0", "q1", "q2", "q3", "q5", "q7", "q8", "q11"])
def test_what_the_benchmark_prints_is_something_and_little(
    queries: ModuleType, house: House, name: str
) -> None:
    _, _, is_shown = queries.QUERIES[name]
    shown = [result for result in getattr(house, name)() if is_shown(result)]
    assert 0 < len(shown) < 200
