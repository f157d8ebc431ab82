"""Waiting for slots, with a clock moved by hand."""

from __future__ import annotations

import pytest

from firesteel.common.configuration import Configuration
from firesteel.common.errors import JobCancelledError
from firesteel.plan.executor import SlotWait
from firesteel.spark import session
from firesteel.spark.slots import Slots, await_slots


class Cluster:
    """Has some slots at first and more later, by a clock of its own."""

    def __init__(self, *changes: tuple[float, int]) -> None:
        self.now = 0.0
        self._changes = changes
        self.looks = 0
        self.told: list[SlotWait | None] = []

    def count(self) -> Slots:
        self.looks += 1
        return Slots([slots for since, slots in self._changes if since <= self.now][-1], "more")

    def clock(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        self.now += seconds

    def wait(self, needed: int, seconds: float, wanted_until: float = float("inf")) -> Slots:
        return await_slots(
            self.count,
            needed,
            seconds,
            lambda: self.now < wanted_until,
            self.told.append,
            clock=self.clock,
            pause=self.pause,
        )


Log = pytest.LogCaptureFixture


def test_slots_that_are_there_are_not_waited_for(caplog: Log) -> None:
    cluster = Cluster((0.0, 8))
    assert cluster.wait(4, 300.0).available == 8
    assert (cluster.now, cluster.looks, caplog.records) == (0.0, 1, [])
    assert cluster.told == [None]


def test_what_is_missing_is_told_while_it_is() -> None:
    cluster = Cluster((0.0, 4), (60.0, 6), (120.0, 8))
    cluster.wait(8, 300.0)
    *waits, last = cluster.told
    assert last is None
    assert list(dict.fromkeys((wait.needed, wait.available) for wait in waits if wait)) == [(8, 4), (8, 6)]
    assert len({wait.since for wait in waits if wait}) == 1


def test_executors_that_come_back_are_waited_for_which_is_said_once(caplog: Log) -> None:
    cluster = Cluster((0.0, 4), (60.0, 6), (120.0, 8))
    assert cluster.wait(8, 300.0).available == 8
    assert 120.0 <= cluster.now < 121.0
    first, last = (record.getMessage() for record in caplog.records)
    assert "up to 300 s ('slot.request.timeout'): the job needs 8" in first
    assert "Spark has 4" in first
    assert "are there" in last


def test_fresh_session_says_nothing_while_its_executors_start(caplog: Log) -> None:
    assert Cluster((0.0, 0), (3.0, 8)).wait(8, 300.0).available == 8
    assert caplog.records == []


def test_slots_that_never_come_end_the_wait_in_time() -> None:
    cluster = Cluster((0.0, 4))
    assert cluster.wait(8, 300.0).available == 4
    assert 300.0 <= cluster.now < 301.0


def test_cancel_ends_the_wait_at_once() -> None:
    cluster = Cluster((0.0, 4))
    with pytest.raises(JobCancelledError, match="waited for 8 slots"):
        cluster.wait(8, 300.0, wanted_until=7.0)
    assert cluster.now < 8.0


@pytest.mark.parametrize(
    ("options", "slots"),
    [
        ({}, 9),  # an embedded Spark is as large as its job needs
        ({"firesteel.spark.slots": "4"}, 4),
        ({"firesteel.spark.slots": "40"}, 9),
        ({"firesteel.spark.master": "local[2]"}, 2),
        ({"firesteel.spark.master": "local"}, 1),
    ],
)
def test_what_a_local_spark_would_have_is_known_before_it_starts(
    options: dict[str, str], slots: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    assert session.count_slots(Configuration.from_dict(options), 9) == slots
