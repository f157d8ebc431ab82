"""Functions with state of their own: what they are given, when, and what becomes of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from firesteel.common.errors import UserCodeError
from firesteel.common.time import Time
from firesteel.common.typeinfo import Types
from firesteel.contracts.checkpointing import (
    CheckpointedFunction,
    CheckpointListener,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    ListCheckpointed,
)
from firesteel.contracts.functions import MapFunction, ReduceFunction, WindowFunction
from firesteel.contracts.runtime_context import RuntimeContext
from firesteel.contracts.sink import SinkFunction
from firesteel.contracts.state import ListStateDescriptor, ValueStateDescriptor
from firesteel.contracts.triggers import EventTimeTrigger
from firesteel.contracts.window_assigners import TumblingEventTimeWindows
from firesteel.plan.operator_specs import MapSpec, SinkSpec, WindowSpec
from firesteel.plan.shipped import Shipped
from firesteel.plan.state_handles import CheckpointOrder
from firesteel.testing._operator_harness import OperatorHarness
from firesteel.testing.checkpoint_harness import CheckpointHarness

CALLS: list[Any] = []


@pytest.fixture(autouse=True)
def calls() -> list[Any]:
    CALLS.clear()
    return CALLS


class Numbering(MapFunction, CheckpointedFunction, CheckpointListener):
    """Numbers records per subtask; remembers the totals of all subtasks in a union list."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        CALLS.append(("initialize", context.is_restored(), context.get_restored_checkpoint_id()))
        states = context.get_operator_state_store()
        self._split = states.get_list_state(ListStateDescriptor("count", Types.LONG()))
        self._union = states.get_union_list_state(ListStateDescriptor("totals", Types.LONG()))
        self._count = sum(self._split.get())
        CALLS.append(("union", sorted(self._union.get())))

    def open(self, runtime_context: RuntimeContext) -> None:
        CALLS.append("open")

    def map(self, value: Any) -> Any:
        self._count += 1
        return self._count

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        CALLS.append(("snapshot", context.get_checkpoint_id(), context.get_checkpoint_timestamp()))
        self._split.update([self._count])
        self._union.update([self._count])

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        CALLS.append(("complete", checkpoint_id))

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        CALLS.append(("aborted", checkpoint_id))


def mapping(function: Any, parallelism: int = 1, **more: Any) -> CheckpointHarness:
    return CheckpointHarness(MapSpec(Shipped.of(function, "map")), parallelism, **more)


def test_states_come_before_open_and_snapshots_carry_the_checkpoint() -> None:
    running = mapping(Numbering())
    running[0].process(["a", "b"])
    running.checkpoint(3)
    running.complete(3)
    running.abort(4)
    assert CALLS == [
        ("initialize", False, None),
        ("union", []),
        "open",
        ("snapshot", 3, 3000),
        ("complete", 3),
        ("aborted", 4),
    ]


def test_lists_are_dealt_out_and_unions_are_given_to_everybody() -> None:
    before = mapping(Numbering(), 2)
    before[0].process(["a", "b", "c"])
    before[1].process(["d"])
    checkpoint = before.checkpoint(1)
    CALLS.clear()
    after = mapping(Numbering(), 1, restore=checkpoint)
    assert CALLS == [("initialize", True, 1), ("union", [1, 3]), "open"]
    after[0].process(["e"])
    assert after[0].output.values == [5]
    CALLS.clear()
    more = mapping(Numbering(), 3, restore=checkpoint)
    assert CALLS.count(("union", [1, 3])) == 3
    for subtask in more:
        subtask.process(["x"])
    assert sorted(subtask.output.values[0] for subtask in more) == [1, 2, 4]


class Remembering(SinkFunction, ListCheckpointed):
    """Its state is what it has seen."""

    def __init__(self) -> None:
        self._seen: list[Any] = []

    def restore_state(self, state: list[Any]) -> None:
        CALLS.append(("restored", state))
        self._seen = list(state)

    def open(self, runtime_context: RuntimeContext) -> None:
        CALLS.append("open")

    def invoke(self, value: Any, context: SinkFunction.Context) -> None:
        self._seen.append(value)

    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> list[Any]:
        return self._seen


def test_list_checkpointed_is_restored_also_at_a_first_start_with_an_empty_list() -> None:
    spec = SinkSpec(Shipped.of(Remembering(), "add_sink"))
    before = CheckpointHarness(spec)
    before[0].process([1, 2, 3, 4])
    checkpoint = before.checkpoint(1)
    before[0].process([5])  # does not get into the checkpoint any more
    CheckpointHarness(spec, 2, restore=checkpoint)
    assert CALLS == [("restored", []), "open", ("restored", [1, 2]), "open", ("restored", [3, 4]), "open"]


class Keyed(MapFunction, CheckpointedFunction):
    """Counts per key in keyed state that it asks for in ``initialize_state``."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        descriptor = ValueStateDescriptor("count", Types.LONG())
        self._count = context.get_keyed_state_store().get_state(descriptor)

    def map(self, value: Any) -> Any:
        self._count.update((self._count.value() or 0) + 1)
        return value, self._count.value()

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """The state is up to date."""


def test_keyed_state_can_be_asked_for_before_open() -> None:
    harness = OperatorHarness(MapSpec(Shipped.of(Keyed(), "map")), keys=(lambda value: value,))
    harness.process(["a", "b", "a"])
    assert harness.output.values == [("a", 1), ("b", 1), ("a", 2)]


def test_keyed_state_without_keys_is_refused() -> None:
    with pytest.raises(UserCodeError, match=r"asks for keyed state in initialize_state\(\)"):
        mapping(Keyed())


class Nothing(MapFunction, ListCheckpointed):
    def restore_state(self, state: list[Any]) -> None:
        CALLS.append(state)

    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> Any:
        return None

    def map(self, value: Any) -> Any:
        return value


def test_no_state_is_an_empty_list() -> None:
    mapping(Nothing(), restore=mapping(Nothing()).checkpoint(1))
    assert CALLS == [[], []]


# Windows have two functions ----------------------------------------------------------------------------


class CountedSums(ReduceFunction, ListCheckpointed):
    """Adds, and remembers how often."""

    count = 0

    def reduce(self, value1: Any, value2: Any) -> Any:
        self.count += 1
        return value1 + value2

    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> list[Any]:
        return [self.count]

    def restore_state(self, state: list[Any]) -> None:
        self.count = sum(state)
        CALLS.append(("reduced", state))


class CountedFirings(WindowFunction[Any, Any, Any, Any], ListCheckpointed):
    """Numbers the windows that fire."""

    count = 0

    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        self.count += 1
        yield self.count, *inputs

    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> list[Any]:
        return [self.count]

    def restore_state(self, state: list[Any]) -> None:
        self.count = sum(state)
        CALLS.append(("fired", state))


def test_both_functions_of_a_window_get_their_own_list_back() -> None:
    spec = WindowSpec(
        Shipped.of(TumblingEventTimeWindows.of(Time.milliseconds(10)), "window"),
        Shipped.of(EventTimeTrigger(), "trigger"),
        Shipped.of(CountedSums(), "reduce"),
        Shipped.of(CountedFirings(), "apply"),
    )
    before = OperatorHarness(spec, keys=(lambda value: 0,))
    before.process([1, 2, 3], [0, 1, 2])
    before.watermark(9)
    before.process([4], [10])
    before.link.snapshot(CheckpointOrder(1, 0))
    CALLS.clear()
    after = OperatorHarness(spec, keys=(lambda value: 0,), snapshot=before.snapshot())
    assert CALLS == [("reduced", [2]), ("fired", [1])]
    after.process([5], [11])
    after.watermark(19)
    assert after.output.values == [(2, 9)]
