"""Flush rows: exactly one for each receiver whose last payload is not yet followed by anything."""

from __future__ import annotations

from firesteel.runtime.router import FLUSH, Outbox


def test_rows_leave_once_and_in_order() -> None:
    outbox = Outbox()
    outbox.add(1, b"a")
    outbox.add(0, b"b")
    assert len(outbox) == 2
    assert outbox.take(flush=False) == [(1, b"a"), (0, b"b")]
    assert outbox.take(flush=False) == []


def test_flush_rows_follow_the_last_payload_of_each_receiver() -> None:
    outbox = Outbox()
    for payload in (b"a", b"b"):
        outbox.add(2, payload)
    outbox.add(0, b"c")
    assert outbox.take(flush=True) == [(2, b"a"), (2, b"b"), (0, b"c"), (0, FLUSH), (2, FLUSH)]


def test_payloads_sent_earlier_without_a_flush_are_pushed_later_and_only_once() -> None:
    outbox = Outbox()
    outbox.add(3, b"a")
    outbox.take(flush=False)
    assert outbox.take(flush=True) == [(3, FLUSH)]
    assert outbox.take(flush=True) == []


def test_many_rows_or_many_bytes_are_worth_a_batch_of_their_own() -> None:
    few, many, large = Outbox(), Outbox(), Outbox()
    few.add(0, b"x")
    for _ in range(32):
        many.add(0, b"x")
    large.add(0, bytes(512 << 10))
    assert [box.has_much for box in (few, many, large)] == [False, True, True]
    many.take(flush=False)
    assert not many.has_much


def test_what_others_wait_for_leaves_at_once_with_all_that_was_stuck() -> None:
    outbox = Outbox()
    outbox.add(1, b"a")
    outbox.take(flush=False)
    outbox.add(0, b"barrier")
    outbox.hurry()
    assert outbox.has_much
    assert outbox.take(flush=False) == [(0, b"barrier"), (0, FLUSH), (1, FLUSH)]
    assert not outbox.has_much
    assert outbox.take(flush=True) == []
