"""Every distribution loses nothing, keeps order per channel and sends each record where it should go."""

from __future__ import annotations

import random
import sys
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from firesteel.common.errors import UserCodeError
from firesteel.plan import exchange
from firesteel.plan.exchange import EdgeDistribution
from firesteel.plan.job_plan import EdgePlan, JobPlan, OperatorPlan, StagePlan, VertexPlan
from firesteel.plan.key_groups import key_group_of, subtask_of_group
from firesteel.plan.operator_specs import OperatorSpec, RuntimeMode
from firesteel.plan.shipped import Shipped
from firesteel.runtime.elements import END_OF_INPUT, Chunk, Element, StreamStatus, WatermarkSignal
from firesteel.runtime.pace import Pace
from firesteel.runtime.router import Outbox, Router, create_router
from firesteel.runtime.settings import TaskSettings
from firesteel.runtime.wire_format import decode, read_header


class Edge:
    """A router under test, and what it has written so far."""

    def __init__(
        self,
        distribution: EdgeDistribution,
        senders: int,
        receivers: int,
        sender: int = 0,
        chunk: int = 1024,
        **options: str,
    ) -> None:
        operator = OperatorPlan("op", "Map", OperatorSpec())
        vertices = (
            VertexPlan(0, "sending", 0, 0, senders, 128, (operator,)),
            VertexPlan(1, "receiving", 1, 0, receivers, 128, (operator,)),
        )
        stages = (StagePlan(0, senders, (0,)), StagePlan(1, receivers, (1,)))
        edge = EdgePlan(0, 0, 0, None, 1, 0, distribution)
        plan = JobPlan("test", RuntimeMode.STREAMING, stages, vertices, (edge,), options)
        settings = replace(TaskSettings.of(plan), chunk_records=chunk)
        self.outbox = Outbox()
        self.pace = Pace()
        self.router: Router = create_router(
            plan, edge, sender, self.outbox, settings, random.Random(7), self.pace
        )
        self.payloads: list[tuple[int, bytes]] = []

    def send(self, *batches: list[Any], timed: bool = False) -> Edge:
        for batch in batches:
            self.router.receive(list(batch), [100 + v for v in batch] if timed else None)
        return self

    def flush(self) -> dict[int, list[Element]]:
        self.router.channels.flush()
        self.payloads += self.outbox.take(flush=False)
        received: dict[int, list[Element]] = {}
        for row, payload in self.payloads:
            header = read_header(payload)
            assert row == header.target
            channel = received.setdefault(header.target, [])
            assert header.sequence == len(channel)
            channel.append(decode(header.kind, payload))
        return received

    def values(self) -> dict[int, list[Any]]:
        chunks = self.flush()
        return {
            t: [v for e in elements if isinstance(e, Chunk) for v in e.values]
            for t, elements in chunks.items()
        }


def shipped(thing: Any) -> Shipped:
    return Shipped.of(thing, "test")


def identity(value: Any) -> Any:
    return value


KEYED = exchange.KeyGroups(shipped(identity))
CUSTOM = exchange.Custom(shipped(lambda key, n: key % n), shipped(identity))
ALL = [
    exchange.Forward(),
    exchange.Rebalance(),
    exchange.Rescale(),
    exchange.Shuffle(),
    exchange.Broadcast(),
    exchange.Global(),
    KEYED,
    CUSTOM,
]
NUMBERS = list(range(5000))


@pytest.mark.parametrize("distribution", ALL, ids=lambda d: d.label)
@pytest.mark.parametrize("chunk", [1, 3, 1024])
@pytest.mark.parametrize("batch", [1, 7, 200, 5000])
@pytest.mark.parametrize("timed", [False, True])
def test_nothing_is_lost_and_order_per_channel_holds(
    distribution: EdgeDistribution, chunk: int, batch: int, timed: bool
) -> None:
    edge = Edge(distribution, 3, 3, sender=1, chunk=chunk)
    sent = NUMBERS[: 600 if batch < 100 else 5000]
    for start in range(0, len(sent), batch):
        edge.send(sent[start : start + batch], timed=timed)
    values = edge.values()
    copies = 3 if isinstance(distribution, exchange.Broadcast) else 1
    assert Counter(v for channel in values.values() for v in channel) == Counter(sent * copies)
    for channel in values.values():
        assert channel == sorted(channel)


@pytest.mark.parametrize("distribution", ALL, ids=lambda d: d.label)
def test_timestamps_stay_with_their_records(distribution: EdgeDistribution) -> None:
    edge = Edge(distribution, 2, 2, chunk=4)
    edge.send(NUMBERS[:10]).send(NUMBERS[10:30], timed=True).send(NUMBERS[30:40])
    for elements in edge.flush().values():
        for chunk in elements:
            assert isinstance(chunk, Chunk)
            expected = [100 + v for v in chunk.values] if 10 <= chunk.values[0] < 30 else None
            assert chunk.timestamps == expected


@pytest.mark.parametrize("distribution", ALL, ids=lambda d: d.label)
def test_signals_go_to_every_receiver_behind_the_records(distribution: EdgeDistribution) -> None:
    edge = Edge(distribution, 3, 3).send([1, 2, 3])
    edge.router.watermark(5)
    edge.router.status(False)
    edge.router.end()
    received = edge.flush()
    own = [0] if isinstance(distribution, exchange.Forward | exchange.Rescale) else [0, 1, 2]
    assert sorted(received) == own
    for elements in received.values():
        signals = [e for e in elements if not isinstance(e, Chunk)]
        assert signals == [WatermarkSignal(5), StreamStatus(False), END_OF_INPUT]
        assert elements[-3:] == signals


def test_round_robin_is_exact() -> None:
    values = Edge(exchange.Rebalance(), 1, 4).send([0, 1, 2], [3], [], [4, 5, 6, 7, 8]).values()
    assert values == {0: [0, 4, 8], 1: [1, 5], 2: [2, 6], 3: [3, 7]}


def test_round_robin_of_each_sender_starts_elsewhere() -> None:
    first = {next(iter(Edge(exchange.Rebalance(), 3, 3, sender).send([1]).values())) for sender in range(3)}
    assert first == {0, 1, 2}


@pytest.mark.parametrize(
    ("senders", "receivers", "expected"),
    [
        (2, 4, [{0, 1}, {2, 3}]),
        (4, 2, [{0}, {0}, {1}, {1}]),
        (2, 3, [{0}, {1, 2}]),
        (3, 2, [{0}, {0}, {1}]),
        (1, 3, [{0, 1, 2}]),
    ],
)
def test_rescale_stays_in_its_group(senders: int, receivers: int, expected: list[set[int]]) -> None:
    groups = [
        set(Edge(exchange.Rescale(), senders, receivers, s).send(NUMBERS[:20]).values())
        for s in range(senders)
    ]
    assert groups == expected


def test_keys_go_to_the_owner_of_their_group() -> None:
    for target, keys in Edge(KEYED, 1, 3).send(NUMBERS).values().items():
        assert {subtask_of_group(key_group_of(key, 128), 128, 3) for key in keys} == {target}


def test_global_sends_everything_to_the_first() -> None:
    assert Edge(exchange.Global(), 2, 3, sender=1).send([1, 2]).values() == {0: [1, 2]}


def test_shuffle_reaches_everybody() -> None:
    values = Edge(exchange.Shuffle(), 1, 3).send(NUMBERS[:300]).values()
    assert min(len(v) for v in values.values()) > 50


def test_custom_partitioner_decides() -> None:
    assert Edge(CUSTOM, 1, 2).send([0, 1, 2, 3]).values() == {0: [0, 2], 1: [1, 3]}


@pytest.mark.parametrize("answer", [2, -1, "x", None, 1.0])
def test_custom_partitioner_out_of_range_is_explained(answer: Any) -> None:
    distribution = exchange.Custom(shipped(lambda key, n: answer if key == 7 else 0), shipped(identity))
    with pytest.raises(UserCodeError, match="expected an int from 0 to 1") as caught:
        Edge(distribution, 1, 2).send([1, 7, 2])
    assert caught.value.record == "7"


# Chunks ------------------------------------------------------------------------------------------------


def chunk_sizes(record: Callable[[int], Any], count: int, chunk: int = 1024) -> list[int]:
    edge = Edge(exchange.Forward(), 1, 1, chunk=chunk)
    for start in range(0, count, 100):
        edge.send([record(n) for n in range(start, min(start + 100, count))])
    return [len(e.values) for e in edge.flush()[0] if isinstance(e, Chunk)]


def test_small_records_fill_chunks_of_the_configured_size() -> None:
    sizes = chunk_sizes(lambda n: n, 20_000)
    assert sizes[0] <= 200
    assert 1024 <= max(sizes) <= 2048


def test_large_records_make_small_chunks() -> None:
    sizes = chunk_sizes(lambda n: f"{n:0100000}", 300)
    assert max(sizes[2:]) <= 10


def test_chunk_size_of_one_record() -> None:
    edge = Edge(exchange.Forward(), 1, 1, chunk=1)
    edge.send([1], [2], [3])
    assert [e.values for e in edge.flush()[0] if isinstance(e, Chunk)] == [[1], [2], [3]]


def test_broadcast_does_not_repeat_records_when_chunks_grow() -> None:
    assert Edge(exchange.Broadcast(), 1, 2).send(NUMBERS).values() == {0: NUMBERS, 1: NUMBERS}


# Errors ------------------------------------------------------------------------------------------------


class Unknown:
    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize("receivers", [1, 2])
def test_unhashable_key_names_the_record_and_the_remedy(receivers: int) -> None:
    distribution = exchange.KeyGroups(shipped(lambda v: Unknown() if v == 6 else v))
    with pytest.raises(UserCodeError, match=r"cannot be hashed.*tuple") as caught:
        Edge(distribution, 1, receivers).send([5, 6, 7])
    assert caught.value.record == "6"
    assert caught.value.operator == "Map, routing to receiving"


@pytest.mark.parametrize("receivers", [1, 2])
@pytest.mark.parametrize("timed", [False, True])
def test_lists_as_keys_are_placed_by_value(receivers: int, timed: bool) -> None:
    distribution = exchange.KeyGroups(shipped(lambda v: [v % 3] if v > 5 else v))
    edge = Edge(distribution, 1, receivers)
    sent = edge.send([*range(10)], [*range(10, 20)], timed=timed).values()
    assert sorted(value for values in sent.values() for value in values) == [*range(20)]
    for remainder in range(3):
        together = {value for value in range(6, 20) if value % 3 == remainder}
        assert any(together <= {*values} for values in sent.values())
    for values in sent.values():
        assert values == sorted(values)


@pytest.mark.parametrize("receivers", [1, 2])
@pytest.mark.parametrize("timed", [False, True])
def test_a_key_without_a_stable_hash_is_refused_at_any_parallelism(receivers: int, timed: bool) -> None:
    distribution = exchange.KeyGroups(shipped(lambda v: ("a", object())))
    with pytest.raises(UserCodeError, match=r"object objects have no hash that is the same") as caught:
        Edge(distribution, 1, receivers).send([5, 6], timed=timed)
    assert caught.value.record == "5"
    assert caught.value.operator == "Map, routing to receiving"


@pytest.mark.parametrize("receivers", [1, 2])
def test_every_key_is_looked_at(receivers: int) -> None:
    edge = Edge(exchange.KeyGroups(shipped(key_of_good_records)), 1, receivers)
    with pytest.raises(UserCodeError, match="have no hash that is the same") as caught:
        edge.send([1, 2], [3])
    assert caught.value.record == "2"


def key_of_good_records(value: int) -> Any:
    return object() if value == 2 else value


@pytest.mark.parametrize("distribution", [exchange.KeyGroups, exchange.Custom])
def test_exit_in_a_key_selector_is_explained(distribution: Any) -> None:
    def leave(value: int) -> int:
        return value if value < 3 else sys.exit(4)

    by = exchange.KeyGroups(shipped(leave))
    if distribution is exchange.Custom:
        by = exchange.Custom(shipped(lambda key, n: key % n), shipped(leave))
    with pytest.raises(UserCodeError, match=r"SystemExit: 4") as caught:
        Edge(by, 1, 2).send([1, 2, 3])
    assert caught.value.record == "3"
    assert "leave at test_router.py" in caught.value.function


def test_error_in_the_key_selector_names_record_and_selector() -> None:
    distribution = exchange.KeyGroups(shipped(lambda v: 1 // v))
    with pytest.raises(UserCodeError, match="ZeroDivisionError") as caught:
        Edge(distribution, 1, 2).send([2, 1, 0, 4])
    assert caught.value.record == "0"
    assert "lambda at test_router.py" in caught.value.function


def test_a_record_that_cannot_be_sent_is_named() -> None:
    edge = Edge(exchange.Rebalance(), 1, 2)
    edge.send([1, 2, 3, threading.Lock(), 5])
    with pytest.raises(UserCodeError, match="cannot be sent") as caught:
        edge.flush()
    assert "lock object" in caught.value.record
    assert caught.value.operator == "Map, routing to receiving"


AT_MOST_1000 = {"firesteel.record.max-size": "1000 b"}


def test_a_chunk_that_is_too_large_for_a_row_is_sent_in_several() -> None:
    values = [bytes([n]) * 400 for n in range(10)]
    edge = Edge(exchange.Forward(), 1, 1, **AT_MOST_1000)
    edge.router.receive(list(values), list(range(10)))
    chunks = [element for element in edge.flush()[0] if isinstance(element, Chunk)]
    assert [value for chunk in chunks for value in chunk.values] == values
    assert [stamp for chunk in chunks for stamp in chunk.timestamps or ()] == list(range(10))
    assert max(len(payload) for _, payload in edge.payloads) < 1100


@pytest.mark.parametrize(
    "distribution", [exchange.Forward(), exchange.Broadcast()], ids=["forward", "broadcast"]
)
def test_a_record_that_is_too_large_for_a_row_is_refused_with_size_operator_and_limit(
    distribution: EdgeDistribution,
) -> None:
    edge = Edge(distribution, 1, 1, **AT_MOST_1000)
    with pytest.raises(UserCodeError, match=r"(?s)a record of 50\d\d bytes.* at most 1000; .*operator: Map"):
        edge.send([b"x" * 5000]).flush()


def _by_index(record: Any) -> Any:
    return record[0]


@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize("selector", [_by_index, lambda record: record[0], lambda record: (record[0],)[0]])
def test_a_list_as_key_in_the_middle_of_a_batch_loses_and_repeats_nothing(selector: Any, timed: bool) -> None:
    edge = Edge(exchange.KeyGroups(shipped(selector)), 1, 3)
    records = [(1, "a"), ("two", "b"), ([3], "c"), (1, "d"), ([3], "e"), ("two", "f")]
    timestamps: list[int | None] = list(range(6))
    edge.router.receive(list(records), timestamps if timed else None)
    received = edge.flush()
    chunks = [chunk for elements in received.values() for chunk in elements if isinstance(chunk, Chunk)]
    assert sorted(str(value) for chunk in chunks for value in chunk.values) == sorted(map(str, records))
    for key in (1, "two", [3]):
        values = [[v for v in chunk.values if v[0] == key] for chunk in chunks]
        (at_its_receiver,) = (found for found in values if found)
        assert at_its_receiver == [record for record in records if record[0] == key]
    if timed:
        assert all(
            records[stamp] == value
            for chunk in chunks
            for value, stamp in zip(chunk.values, chunk.timestamps, strict=True)
        )


@pytest.mark.parametrize("timed", [False, True])
def test_more_keys_than_are_remembered_stay_with_their_receivers(timed: bool) -> None:
    edge = Edge(exchange.KeyGroups(shipped(lambda record: record[0])), 1, 3)
    edge.router._placement.limit = 10
    records = [(n % 37, n) for n in range(500)]
    edge.router.receive(records, [0] * 500 if timed else None)
    owners = {(value[0], target) for target, values in edge.values().items() for value in values}
    assert len(owners) == 37
    assert all(target == subtask_of_group(key_group_of(key, 128), 128, 3) for key, target in owners)


def test_a_record_without_the_field_of_the_key_is_explained_by_the_selector() -> None:
    edge = Edge(exchange.KeyGroups(shipped(lambda record: record[2])), 1, 3)
    with pytest.raises(UserCodeError, match=r"(?s)IndexError.*\(7, 8\)"):
        edge.router.receive([(1, 2, 3), (7, 8)], None)


# Slow user code -------------------------------------------------------------------------------------------


class CutsItself(Pace):
    """Gives a batch out in two records at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.left: list[int] = []
        self.pauses = 0
        self.pause = self._count

    def _count(self) -> None:
        self.pauses += 1

    def begin(self, values: list[Any]) -> Any:
        self.left.append(max(0, len(values) - 2))
        return iter(values[:2])

    def end(self) -> int:
        return self.left.pop()

    def taken_out_of(self, cursor: Any) -> int:
        return self.left[-1]


@pytest.mark.parametrize("timed", [True, False])
@pytest.mark.parametrize("receivers", [1, 2])
@pytest.mark.parametrize("selector", [lambda n: n % 3, lambda n: [n % 3]])
def test_routers_look_up_between_records(receivers: int, timed: bool, selector: Any) -> None:
    by_key = exchange.KeyGroups(Shipped.of(selector, "test"))
    parted = exchange.Custom(Shipped.of(lambda key, count: 0, "test"), Shipped.of(selector, "test"))
    for distribution in (by_key, parted):
        edge = Edge(distribution, 1, receivers)
        edge.router._pace = pace = CutsItself()  # type: ignore[attr-defined]
        edge.send(list(range(9)), timed=timed)
        assert pace.pauses >= 4
        assert pace.left == []
        values = edge.values()
        assert sorted(value for each in values.values() for value in each) == list(range(9))
        assert all(each == sorted(each) for each in values.values())


def test_the_record_to_blame_behind_a_cut() -> None:
    edge = Edge(exchange.KeyGroups(Shipped.of(lambda n: 1 // (n - 5), "test")), 1, 2)
    edge.router._pace = CutsItself()  # type: ignore[attr-defined]
    with pytest.raises(UserCodeError, match=r"record.*\b5\b"):
        edge.send(list(range(9)))
