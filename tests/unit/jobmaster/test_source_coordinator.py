"""Enumerators and the readers they serve, without a job around them."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest
from numbered_source import SOURCE_ID, Numbers, NumberSource, enumerated_plan

from firesteel.common.errors import UserCodeError, WrongArgumentError
from firesteel.control.protocol import decode, encode
from firesteel.jobmaster.instructions import RunWork, SendToTasks
from firesteel.jobmaster.source_coordinator import SourceCoordinator, SourceInstruction
from firesteel.plan.messages import (
    EnumeratorEvent,
    ReaderEvent,
    ReaderRegistered,
    SplitRequested,
    SplitsAssigned,
    TaskId,
)
from firesteel.plan.operator_specs import RuntimeMode


@pytest.fixture(autouse=True)
def no_enumerators_of_other_tests() -> Iterator[None]:
    NumberSource.made.clear()
    yield
    NumberSource.made.clear()


def started(
    fault: str = "", states: dict[str, bytes] | None = None, mode: RuntimeMode = RuntimeMode.STREAMING
) -> SourceCoordinator:
    coordinator = SourceCoordinator(enumerated_plan(fault, mode))
    coordinator.start(states or {})
    return coordinator


def taken(coordinator: SourceCoordinator) -> list[SourceInstruction]:
    out, coordinator.out = coordinator.out, []
    return out


def enumerator() -> Numbers:
    return NumberSource.made[-1]


def splits(instruction: SourceInstruction) -> tuple[TaskId, list[int], bool]:
    assert isinstance(instruction, SendToTasks)
    message = instruction.message
    assert isinstance(message, SplitsAssigned)
    assert message.operator_id == SOURCE_ID
    (task,) = instruction.tasks
    return task, decode(message.splits), message.no_more


def test_readers_get_splits_in_the_task_that_hosts_them() -> None:
    coordinator = started()
    coordinator.reader_said(ReaderRegistered(SOURCE_ID, 1))
    assert enumerator().context.registered_readers() == [1]
    assert enumerator().context.current_parallelism() == 2
    coordinator.reader_said(SplitRequested(SOURCE_ID, 1))
    assert [splits(i) for i in taken(coordinator)] == [(TaskId(0, 1), [1], False)]


def test_reader_hears_that_there_are_no_more_splits() -> None:
    coordinator = started()
    coordinator.reader_said(ReaderRegistered(SOURCE_ID, 0))
    for _ in range(4):
        coordinator.reader_said(SplitRequested(SOURCE_ID, 0))
    assert splits(taken(coordinator)[-1]) == (TaskId(0, 0), [], True)


def test_split_for_a_reader_that_has_not_begun_is_refused() -> None:
    with pytest.raises(WrongArgumentError, match="source 'Numbers' cannot assign splits to reader 0"):
        started().reader_said(SplitRequested(SOURCE_ID, 0))


def test_state_holds_what_is_not_assigned_and_brings_it_back() -> None:
    coordinator = started()
    coordinator.reader_said(ReaderRegistered(SOURCE_ID, 0))
    coordinator.reader_said(SplitRequested(SOURCE_ID, 0))
    states = coordinator.snapshot(1)
    coordinator.reader_said(SplitRequested(SOURCE_ID, 0))  # belongs to no checkpoint: comes back
    coordinator.start(states)
    assert enumerator().left == [2, 3]
    assert NumberSource.made[0].heard[-1] == "closed"
    assert enumerator().context.registered_readers() == [], "readers of the next attempt register again"


def test_source_that_is_new_in_the_program_starts_from_nothing() -> None:
    started(states={"another operator": b"x"})
    assert enumerator().left == [1, 2, 3]


def test_events_travel_both_ways() -> None:
    coordinator = started()
    coordinator.now = 12.5
    coordinator.reader_said(ReaderRegistered(SOURCE_ID, 0))
    coordinator.reader_said(ReaderEvent(SOURCE_ID, 0, encode("hello")))
    (sending,) = taken(coordinator)
    assert isinstance(sending, SendToTasks)
    assert isinstance(sending.message, EnumeratorEvent)
    assert decode(sending.message.event) == ("hello", 12.5)


def test_enumerators_hear_how_checkpoints_end() -> None:
    coordinator = started()
    coordinator.checkpoint_completed(3)
    coordinator.checkpoint_aborted(4)
    assert enumerator().heard == [("complete", 3), ("aborted", 4)]


def test_calls_are_made_aside_and_repeated() -> None:
    coordinator = started("calls")
    (first,) = taken(coordinator)
    assert isinstance(first, RunWork)
    assert (first.delay, first.call()) == (1.5, 7)
    coordinator.work_done(first.work, 7, None)
    assert enumerator().heard == [(7, None)]
    (second,) = taken(coordinator)
    assert isinstance(second, RunWork)
    assert second.delay == 3.0
    error = OSError("unreachable")
    coordinator.work_done(second.work, None, error)
    assert enumerator().heard[-1] == (None, error)


def test_calls_of_an_earlier_attempt_do_not_count() -> None:
    coordinator = started("calls")
    (old,) = taken(coordinator)
    assert isinstance(old, RunWork)
    coordinator.start({})
    coordinator.work_done(old.work, 7, None)
    assert all((7, None) not in made.heard for made in NumberSource.made)


class Split:
    """Something of which can be seen whether anybody remembers it."""


@pytest.mark.parametrize("mode", [RuntimeMode.STREAMING, RuntimeMode.BATCH])
def test_splits_are_remembered_only_where_a_task_may_be_repeated(mode: RuntimeMode) -> None:
    coordinator = started(mode=mode)
    coordinator.reader_said(ReaderRegistered(SOURCE_ID, 0))
    split = Split()
    seen = weakref.ref(split)
    enumerator().context.assign_split(split, 0)
    del split
    taken(coordinator)
    gc.collect()
    assert (seen() is not None) == (mode is RuntimeMode.BATCH)


def test_repeated_task_of_a_batch_job_gives_its_splits_back() -> None:
    coordinator = started(mode=RuntimeMode.BATCH)
    coordinator.reader_said(ReaderRegistered(SOURCE_ID, 0))
    coordinator.reader_said(SplitRequested(SOURCE_ID, 0))
    coordinator.reader_said(ReaderRegistered(SOURCE_ID, 0))
    assert enumerator().left == [1, 2, 3]


@pytest.mark.parametrize("step", ["start", "request", "snapshot"])
def test_errors_name_the_source(step: str) -> None:
    def everything() -> None:
        coordinator = started(step)
        coordinator.reader_said(ReaderRegistered(SOURCE_ID, 0))
        coordinator.reader_said(SplitRequested(SOURCE_ID, 0))
        coordinator.snapshot(1)

    with pytest.raises(UserCodeError, match=f"(?s)boom in {step}.*operator: Numbers"):
        everything()


def test_enumerator_that_cannot_close_is_only_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    started("close").stop()
    assert "the enumerator of source 'Numbers' failed to close" in caplog.text
