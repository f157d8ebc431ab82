"""Source functions in checkpoints: state and records agree, whoever waits for whom."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from firesteel.common.errors import ProgramError, UserCodeError
from firesteel.common.typeinfo import Types
from firesteel.contracts.checkpointing import (
    CheckpointedFunction,
    CheckpointListener,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    ListCheckpointed,
)
from firesteel.contracts.source import SourceFunction
from firesteel.contracts.state import ListStateDescriptor
from firesteel.plan.operator_specs import SourceSpec
from firesteel.plan.shipped import Shipped
from firesteel.runtime import source_thread
from firesteel.testing.checkpoint_harness import CheckpointHarness, SubtaskHarness

# Functions are pickled on their way to the subtask; what they share with the test stays here.
GATES: dict[str, Any] = {}


class Counting(SourceFunction, CheckpointedFunction):
    """Counts from 0; ``per_visit`` records each time it takes the lock."""

    def __init__(self, end: int = 1_000_000, per_visit: int = 1) -> None:
        self._end = end
        self._per_visit = per_visit
        self._running = True

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        descriptor = ListStateDescriptor("offset", Types.LONG())
        self._state = context.get_operator_state_store().get_list_state(descriptor)
        self._next = next(iter(self._state.get()), 0)

    def run(self, ctx: SourceFunction.SourceContext) -> None:
        while self._running and self._next < self._end:
            with ctx.get_checkpoint_lock():
                for _ in range(self._per_visit):
                    ctx.collect(self._next)
                    self._next += 1

    def cancel(self) -> None:
        self._running = False

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self._state.update([self._next])


def harness(function: SourceFunction, **more: Any) -> CheckpointHarness:
    return CheckpointHarness(SourceSpec(Shipped.of(function, "add_source"), False, 1), **more)


def offset_of(running: CheckpointHarness) -> int:
    (offset,) = running[0].states.get_list_state(ListStateDescriptor("offset", Types.LONG())).get()
    return int(offset)


def poll_until(subtask: SubtaskHarness, done: Callable[[], bool]) -> None:
    while not done():
        subtask.source.poll(1024)


@pytest.mark.parametrize("per_visit", [1, 7])
def test_state_and_records_agree_at_every_checkpoint(per_visit: int) -> None:
    running = harness(Counting(per_visit=per_visit))
    values = running[0].output.values
    for checkpoint in range(1, 30):
        poll_until(running[0], lambda goal=checkpoint * 100: len(values) >= goal)
        running.checkpoint(checkpoint)
        assert values == list(range(offset_of(running)))
    running.close()


def test_a_restored_function_continues_behind_the_last_record_before_the_checkpoint() -> None:
    before = harness(Counting())
    poll_until(before[0], lambda: len(before[0].output.values) >= 50)
    checkpoint = before.checkpoint(1)
    seen = list(before[0].output.values)
    before.close()
    after = harness(Counting(len(seen) + 10), restore=checkpoint)
    assert seen + after[0].drain() == list(range(len(seen) + 10))
    after.close()


def test_a_function_that_waits_for_room_while_it_holds_the_lock_does_not_stop_a_checkpoint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(source_thread, "_FIRST_CAPACITY", 4)
    monkeypatch.setattr(source_thread, "_POLLS_AHEAD", 0.004)
    running = harness(Counting(per_visit=100))
    for checkpoint in range(1, 6):
        running.checkpoint(checkpoint)
        assert running[0].output.values == list(range(offset_of(running)))
    assert len(running[0].output.values) % 100 == 0
    running.close()


class Twice(Counting):
    """Takes the lock inside the lock, while the task wants it."""

    def run(self, ctx: SourceFunction.SourceContext) -> None:
        with ctx.get_checkpoint_lock():
            GATES["inside"].set()
            GATES["go on"].wait(300)
            with ctx.get_checkpoint_lock():
                ctx.collect("a")
            ctx.collect("b")
            self._next = 2


def test_the_lock_may_be_taken_again_by_who_holds_it() -> None:
    GATES.update({"inside": threading.Event(), "go on": threading.Event()})
    running = harness(Twice())
    assert GATES["inside"].wait(300)
    lock = running[0].source._reader._collected.lock  # type: ignore[union-attr]
    threading.Thread(target=lambda: (_until(lambda: lock._wanted), GATES["go on"].set())).start()
    running.checkpoint(1)
    assert (running[0].output.values, offset_of(running)) == (["a", "b"], 2)
    running.close()


def _until(condition: Callable[[], bool]) -> None:
    while not condition():
        threading.Event().wait(0.001)


class Failing(Counting):
    """Fails between advancing its position and collecting the record."""

    def run(self, ctx: SourceFunction.SourceContext) -> None:
        with ctx.get_checkpoint_lock():
            GATES["inside"].set()
            GATES["go on"].wait(300)
            self._next = 1
            raise ValueError("cannot read")


def test_no_checkpoint_is_taken_of_a_function_that_is_failing() -> None:
    GATES.update({"inside": threading.Event(), "go on": threading.Event()})
    running = harness(Failing())
    assert GATES["inside"].wait(300)
    lock = running[0].source._reader._collected.lock  # type: ignore[union-attr]
    threading.Thread(target=lambda: (_until(lambda: lock._wanted), GATES["go on"].set())).start()
    with pytest.raises(UserCodeError, match="cannot read"):
        running.checkpoint(1)
    running.close()


class Ears(SourceFunction, ListCheckpointed, CheckpointListener):
    """Keeps what it was called with; one record in all."""

    def run(self, ctx: SourceFunction.SourceContext) -> None:
        with ctx.get_checkpoint_lock():
            ctx.collect_with_timestamp("record", 5)
            ctx.emit_watermark(5)
        while ctx.is_running():
            with ctx.get_checkpoint_lock():
                pass

    def restore_state(self, state: list[Any]) -> None:
        GATES["calls"].append(("restored", state))

    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> list[Any]:
        GATES["calls"].append(("snapshot", checkpoint_id, timestamp))
        return ["x", "y"]

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        GATES["calls"].append(("complete", checkpoint_id))

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        GATES["calls"].append(("aborted", checkpoint_id))


def test_list_state_and_notifications_of_a_source_function() -> None:
    GATES["calls"] = calls = []
    before = harness(Ears())
    poll_until(before[0], lambda: bool(before[0].output.watermarks))
    checkpoint = before.checkpoint(4)
    before.complete(4)
    before.abort(5)
    before.close()
    harness(Ears(), restore=checkpoint).close()
    assert calls == [
        ("restored", []),
        ("snapshot", 4, 4000),
        ("complete", 4),
        ("aborted", 5),
        ("restored", ["x", "y"]),
    ]
    assert before[0].output.timestamps == [5]


def test_signals_are_drained_in_their_places() -> None:
    GATES["calls"] = []
    running = harness(Ears())
    _until(lambda: len(running[0].source._reader._collected.items) >= 2)  # type: ignore[union-attr]
    running.checkpoint(1)
    assert [type(element).__name__ for element in running[0].output.elements] == ["Chunk", "WatermarkSignal"]
    running.close()


class WithoutState(SourceFunction):
    """Holds nothing that could go into a checkpoint."""

    def run(self, ctx: SourceFunction.SourceContext) -> None:
        with ctx.get_checkpoint_lock():
            ctx.collect(1)
            GATES["go on"].wait(300)


def test_a_function_without_state_is_not_waited_for() -> None:
    GATES["go on"] = threading.Event()
    running = harness(WithoutState())
    assert running.checkpoint(1).subtasks == ((),)
    GATES["go on"].set()
    running.close()


def test_a_function_that_ended_is_in_checkpoints_with_its_last_state() -> None:
    running = harness(Counting(10))
    running[0].drain()
    running.checkpoint(1)
    assert offset_of(running) == 10
    after = harness(Counting(10), restore=running.checkpoint(2))
    assert after[0].drain() == []


def test_closing_frees_a_function_that_is_held() -> None:
    running = harness(Counting())
    running[0].source._reader.hold()  # type: ignore[union-attr]
    running.close()
    assert not running[0].source._reader._thread.is_alive()  # type: ignore[union-attr]


class Both(Counting, ListCheckpointed):  # type: ignore[misc]
    def restore_state(self, state: list[Any]) -> None:
        """Never called."""


def test_two_meanings_of_snapshot_state_are_refused() -> None:
    with pytest.raises((ProgramError, UserCodeError), match="is a CheckpointedFunction and ListCheckpointed"):
        harness(Both())
