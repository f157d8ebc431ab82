"""Records on their way to ``execute_and_collect``, when producers come and go."""

from __future__ import annotations

import pickle
import threading

from firesteel.jobmaster.collect_buffer import CollectBuffer

BLOB = pickle.dumps([1])


def put_many(buffer: CollectBuffer, count: int) -> threading.Thread:
    def put() -> None:
        for _ in range(count):
            buffer.put(BLOB)

    thread = threading.Thread(target=put, daemon=True)
    thread.start()
    return thread


def test_producer_waits_for_the_consumer_until_the_bound_is_lifted() -> None:
    buffer = CollectBuffer(capacity=2)
    producer = put_many(buffer, 10)
    producer.join(0.05)
    assert producer.is_alive()
    buffer.lift_bound()
    producer.join(10)
    assert not producer.is_alive()


def test_producers_of_the_next_attempt_wait_again() -> None:
    buffer = CollectBuffer(capacity=4)
    put_many(buffer, 3).join(10)
    buffer.lift_bound()
    buffer.bound_again()
    producer = put_many(buffer, 10)
    producer.join(0.05)
    assert producer.is_alive()
    buffer.end(None)
    producer.join(10)
    assert len(list(buffer.records())) >= 4


def test_bound_that_was_never_lifted_stays_as_it_is() -> None:
    buffer = CollectBuffer(capacity=2)
    put_many(buffer, 2).join(10)
    buffer.bound_again()
    producer = put_many(buffer, 1)
    producer.join(0.05)
    assert producer.is_alive(), "no new permissions"
    buffer.discard()
    producer.join(10)
