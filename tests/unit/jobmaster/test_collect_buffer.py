"""Results on their way to ``execute_and_collect``, when those who make them come and go."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from firesteel.common.errors import DataLossError, JobExecutionError
from firesteel.jobmaster.collect_buffer import (
    CollectBuffer,
    CollectSession,
    Delivery,
    RepeatedResultsError,
    _NamelessFile,
)
from firesteel.plan.results import Covered, Results


def results(*values: Any) -> Results:
    return Results(len(values), pickle.dumps(list(values)))


def put_many(session: CollectSession, count: int) -> threading.Thread:
    def put() -> None:
        for number in range(count):
            session.receive(results(number))

    thread = threading.Thread(target=put, daemon=True)
    thread.start()
    return thread


def shown(buffer: CollectBuffer) -> list[Any]:
    """What a consumer could take now."""
    buffer.end(None)
    return list(buffer.records())


# Back pressure.


def test_producer_waits_for_the_consumer_until_the_bound_is_lifted() -> None:
    buffer = CollectBuffer(capacity=2)
    producer = put_many(buffer.open(0, 0), 10)
    producer.join(0.05)
    assert producer.is_alive()
    buffer.lift_bound()
    producer.join(300)
    assert not producer.is_alive()


def test_producers_of_the_next_attempt_wait_again() -> None:
    buffer = CollectBuffer(Delivery.AT_LEAST_ONCE, capacity=4)
    put_many(buffer.open(0, 0), 3).join(300)
    buffer.lift_bound()
    buffer.bound_again()
    producer = put_many(buffer.open(0, 0), 10)
    producer.join(0.05)
    assert producer.is_alive()
    buffer.end(None)
    producer.join(300)
    assert len(list(buffer.records())) >= 4


def test_bound_that_was_never_lifted_stays_as_it_is() -> None:
    buffer = CollectBuffer(Delivery.AT_LEAST_ONCE, capacity=2)
    put_many(buffer.open(0, 0), 2).join(300)
    buffer.bound_again()
    producer = put_many(buffer.open(0, 0), 1)
    producer.join(0.05)
    assert producer.is_alive(), "no new permissions"
    buffer.discard()
    producer.join(300)


def test_all_producers_are_woken_when_the_bound_is_lifted() -> None:
    buffer = CollectBuffer(capacity=1)
    producers = [put_many(buffer.open(subtask, 0), 5) for subtask in range(4)]
    buffer.lift_bound()
    for producer in producers:
        producer.join(300)
    assert not any(producer.is_alive() for producer in producers)


def test_what_waits_for_a_checkpoint_does_not_keep_the_sink_waiting() -> None:
    """Or the barrier behind it would never come."""
    buffer = CollectBuffer(Delivery.WITH_CHECKPOINTS, capacity=2)
    session = buffer.open(0, 0)
    producer = put_many(session, 100)
    producer.join(300)
    assert not producer.is_alive()
    session.receive(Covered(100))
    late = put_many(session, 1)
    late.join(0.05)
    assert late.is_alive(), "now there is enough for the consumer"
    assert list(islice(buffer.records(), 100)) == list(range(100))
    late.join(300)
    assert not late.is_alive()


# With checkpoints.


def test_results_are_shown_when_a_checkpoint_covers_them_and_not_before() -> None:
    buffer = CollectBuffer(Delivery.WITH_CHECKPOINTS)
    session = buffer.open(0, 0)
    session.receive(results(1, 2))
    session.receive(results(3))
    session.receive(Covered(2))
    session.receive(results(4))
    assert shown(buffer) == [1, 2]


def test_everything_is_shown_when_the_subtask_ends() -> None:
    buffer = CollectBuffer(Delivery.WITH_CHECKPOINTS)
    session = buffer.open(0, 0)
    session.receive(results(1, 2))
    session.end()
    assert shown(buffer) == [1, 2]


def test_what_no_checkpoint_covers_is_dropped_when_it_is_made_again() -> None:
    buffer = CollectBuffer(Delivery.WITH_CHECKPOINTS)
    first = buffer.open(0, 0)
    first.receive(results("a", "b"))
    first.receive(Covered(2))
    first.receive(results("c", "d"))
    second = buffer.open(0, 2)
    second.receive(results("C", "D", "E"))
    second.receive(Covered(5))
    assert shown(buffer) == ["a", "b", "C", "D", "E"]


def test_what_was_confirmed_before_a_checkpoint_is_kept_although_nobody_said_that_it_is_complete() -> None:
    buffer = CollectBuffer(Delivery.WITH_CHECKPOINTS)
    first = buffer.open(0, 0)
    first.receive(results("a", "b"))
    first.receive(results("c"))
    second = buffer.open(0, 2)  # from a checkpoint in which the first two were confirmed, and c on its way
    second.receive(results("c"))
    second.receive(Covered(3))
    assert shown(buffer) == ["a", "b", "c"]


def test_what_was_shown_and_is_sent_again_is_left_out() -> None:
    buffer = CollectBuffer(Delivery.WITH_CHECKPOINTS)
    first = buffer.open(0, 0)
    first.receive(results("a", "b", "c"))
    first.receive(Covered(3))
    second = buffer.open(0, 0)  # what was on its way at the checkpoint had arrived soon after
    second.receive(results("a", "b", "c"))
    second.receive(Covered(3))
    second.receive(results("d"))
    second.receive(Covered(4))
    assert shown(buffer) == ["a", "b", "c", "d"]


def test_job_that_goes_back_behind_what_was_shown_leaves_that_out_and_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    buffer = CollectBuffer(Delivery.WITH_CHECKPOINTS)
    first = buffer.open(0, 0)
    first.receive(results(0, 1, 2, 3, 4))
    first.receive(Covered(5))
    second = buffer.open(0, 2)  # the newest checkpoint was damaged
    second.receive(Covered(2))
    second.receive(results(2, 3))
    second.receive(results(4, 5, 6))
    second.receive(Covered(7))
    assert shown(buffer) == [0, 1, 2, 3, 4, 5, 6]
    assert "the first 3 are left out" in caplog.text


def test_results_that_never_arrived_are_not_passed_over() -> None:
    buffer = CollectBuffer(Delivery.WITH_CHECKPOINTS)
    buffer.open(0, 0).receive(results(0))
    with pytest.raises(DataLossError, match=r"results 1 to 2 .* have never arrived"):
        buffer.open(0, 2)


def test_driver_that_resumes_a_job_begins_with_what_follows() -> None:
    buffer = CollectBuffer(Delivery.WITH_CHECKPOINTS)
    session = buffer.open(0, 1000)
    session.receive(results("next"))
    session.end()
    assert shown(buffer) == ["next"]


def test_subtask_that_was_replaced_changes_nothing() -> None:
    buffer = CollectBuffer(Delivery.WITH_CHECKPOINTS)
    zombie = buffer.open(0, 0)
    session = buffer.open(0, 0)
    zombie.receive(results("z"))
    zombie.receive(Covered(1))
    zombie.end()
    session.receive(results("a"))
    session.end()
    assert shown(buffer) == ["a"]


# In files.


@pytest.fixture
def files(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    assert list(tmp_path.iterdir()) == [], "they have no names"


def test_what_waits_is_in_a_file_when_it_is_much(files: Path) -> None:
    buffer = CollectBuffer(Delivery.WITH_CHECKPOINTS, 1000, in_memory=1000, directory=str(files))
    session = buffer.open(0, 0)
    expected = [f"{number}" * 100 for number in range(100)]
    for number, value in enumerate(expected):
        session.receive(results(value))
        if number % 7 == 6:
            session.receive(Covered(number - 2))
            assert len(open_files(files)) <= 100 // 7 + 1
    assert open_files(files)
    session.end()
    assert shown(buffer) == expected
    assert len(open_files(files)) <= 1, "files go with what is in them"


def open_files(directory: Path) -> set[str]:
    found = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            found.add(str(descriptor.readlink()))
        except OSError:
            continue
    return {name for name in found if name.startswith(str(directory))}


def test_file_that_cannot_be_written_is_explained(tmp_path: Path) -> None:
    buffer = CollectBuffer(Delivery.WITH_CHECKPOINTS, in_memory=0, directory=str(tmp_path / "missing"))
    with pytest.raises(JobExecutionError, match=r"missing: .*; make room, set 'io.tmp.dirs'"):
        buffer.open(0, 0).receive(results(1))


def test_file_that_was_cut_off_is_noticed(tmp_path: Path) -> None:
    file = _NamelessFile(str(tmp_path))
    at = file.append(b"12")
    assert file.read(at, 2) == b"12"
    with pytest.raises(JobExecutionError, match="was cut off"):
        file.read(at, 3)


# Without checkpoints.


def test_what_was_taken_must_not_come_again() -> None:
    buffer = CollectBuffer(Delivery.AT_ONCE)
    first = buffer.open(0, 0)
    first.receive(results(1, 2))
    first.receive(results(3))
    assert next(buffer.records()) == 1
    with pytest.raises(
        RepeatedResultsError, match=r"2 results that the program has read .* would come again"
    ):
        buffer.open(0, 0)


def test_what_was_not_taken_is_taken_back() -> None:
    buffer = CollectBuffer(Delivery.AT_ONCE, capacity=4)
    other = buffer.open(1, 0)
    other.receive(results("other"))
    buffer.open(0, 0).receive(results(1, 2))
    again = buffer.open(0, 0)
    put_many(again, 3).join(300)
    assert shown(buffer) == ["other", 0, 1, 2]


def test_subtask_that_had_ended_is_not_heard_again() -> None:
    buffer = CollectBuffer(Delivery.AT_ONCE)
    first = buffer.open(0, 0)
    first.receive(results(1, 2))
    first.end()
    assert next(buffer.records()) == 1
    second = buffer.open(0, 0)
    second.receive(results(1, 2))
    second.end()
    assert shown(buffer) == []


def test_at_least_once_repeats() -> None:
    buffer = CollectBuffer(Delivery.AT_LEAST_ONCE)
    buffer.open(0, 0).receive(results(1, 2))
    buffer.open(0, 0).receive(results(1, 2, 3))
    assert shown(buffer) == [1, 2, 1, 2, 3]


# In batches.


def test_batch_results_count_when_their_subtask_has_ended_and_once() -> None:
    buffer = CollectBuffer(Delivery.AT_THE_END, capacity=1)
    broken, slow, fast = (buffer.open(0, 0) for _ in range(3))
    for session in (broken, slow, fast):
        session.receive(results(1, 2))
        session.receive(results(3))
    fast.end()
    slow.end()
    assert shown(buffer) == [1, 2, 3]
