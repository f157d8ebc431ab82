"""What operators keep beside their tables is whole in every snapshot: of a chain of deltas only the newest counts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from firesteel.plan.job_plan import OperatorPlan, VertexPlan
from firesteel.plan.operator_specs import PrintSpec
from firesteel.plan.state_handles import OperatorHandle, OperatorRestore, Segment
from firesteel.runtime.operators.windows.panes import PaneGrid, PaneStore
from firesteel.runtime.restore import restore_operator
from firesteel.state.hashmap_backend import HashMapBackend
from firesteel.state.operator_state import OperatorStateBackend
from firesteel.state_processor._folded_state import FoldedState

PANES = "\0panes"


class Subtask:
    """Windows of ten milliseconds, and the chain of their snapshots."""

    def __init__(self) -> None:
        self.backend = HashMapBackend(incremental=True)
        self.panes = PaneStore(PaneGrid(10, 10, 0), 0)
        self.backend.add_store(PANES, self.panes)
        self.chain: list[list[bytes]] = []

    def advance(self, clock: int) -> list[int]:
        fired = []
        for window, fires in self.panes.advance(clock):
            if fires:
                fired.append(window)
            else:
                self.panes.drop(window)
        return fired

    def checkpoint(self) -> None:
        snapshot = self.backend.begin_snapshot(len(self.chain) + 1)
        assert snapshot.is_full == (not self.chain)
        payloads: list[bytes] = []
        while not snapshot.done:
            payloads += snapshot.step()
        self.backend.checkpoint_completed(snapshot.checkpoint_id)
        if payloads:  # a segment without blocks is not written
            self.chain.append(payloads)


def restored(subtasks: list[Subtask]) -> Subtask:
    """One subtask from the chains of several."""
    segments: dict[Segment, list[bytes]] = {}
    handles = []
    for number, subtask in enumerate(subtasks):
        chain = tuple(Segment(f"{number}-{index}", 0, 0, 0, 0) for index in range(len(subtask.chain)))
        segments.update(zip(chain, subtask.chain, strict=True))
        handles.append(OperatorHandle("id", number, chain))
    new = Subtask.__new__(Subtask)
    new.backend = HashMapBackend(incremental=True)
    plan = VertexPlan(0, "windows", 0, 0, 1, 128, (OperatorPlan("id", "windows", PrintSpec()),))
    found = OperatorRestore(len(subtasks), 128, tuple(handles))
    restore_operator(found, plan, 0, new.backend, OperatorStateBackend(), lambda segment: segments[segment])
    new.panes = PaneStore(PaneGrid(10, 10, 0), 0)
    new.backend.add_store(PANES, new.panes)
    new.chain = []
    return new


def test_a_window_that_has_gone_does_not_come_back() -> None:
    before = Subtask()
    before.panes.table(0)["a"] = 1
    before.checkpoint()
    assert before.advance(9) == [0]
    before.panes.table(10)["b"] = 2
    before.checkpoint()
    assert restored([before]).advance(30) == [10]


def test_a_store_may_be_empty_in_the_newest_delta() -> None:
    before = Subtask()
    before.panes.table(0)["a"] = 1
    before.checkpoint()
    before.advance(9)
    before.checkpoint()
    assert restored([before]).advance(30) == []


def test_stores_of_several_subtasks_are_put_together() -> None:
    first, second = Subtask(), Subtask()
    for number, subtask in enumerate((first, second)):
        subtask.panes.table(0)[f"a{number}"] = 1
        subtask.checkpoint()
        subtask.advance(9)
        subtask.panes.table(10 + 10 * number)[f"b{number}"] = 1
        subtask.checkpoint()
    assert restored([first, second]).advance(40) == [10, 20]


@pytest.mark.parametrize("goes_on", [False, True])
def test_the_state_reader_sees_the_same(goes_on: bool) -> None:
    before = Subtask()
    before.panes.table(0)["a"] = 1
    before.checkpoint()
    before.advance(9)
    if goes_on:
        before.panes.table(10)["b"] = 2
    before.checkpoint()
    assert list(_folded(before)) == ([("b", 2)] if goes_on else [])


def _folded(subtask: Subtask) -> Iterator[tuple[Any, Any]]:
    folded = FoldedState()
    for segment in subtask.chain:
        folded.apply(segment)
    for keys, values, _ in folded.stores.get(PANES, []):
        yield from zip(keys, values, strict=True)
