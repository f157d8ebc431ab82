"""Operators that choose their next input: what waits, what is read, in which order, in one task and in whole jobs."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firesteel.common.configuration import Configuration
from firesteel.common.errors import DataLossError, JobExecutionError, ProgramError
from firesteel.common.time import MAX_WATERMARK
from firesteel.contracts.stream_operators import InputSelectable, InputSelection, TwoInputStreamOperator
from firesteel.datastream.execution_mode import RuntimeExecutionMode
from firesteel.graph.stream_graph import Edge
from firesteel.plan.exchange import Rebalance
from firesteel.plan.job_plan import EdgePlan, JobPlan
from firesteel.plan.operator_specs import TwoInputTransformSpec
from firesteel.plan.shipped import Shipped
from firesteel.runtime.elements import END_OF_INPUT, Chunk, Element, WatermarkSignal
from firesteel.runtime.inputs.channels import InputChannel
from firesteel.runtime.inputs.payload_queue import PayloadSpace
from firesteel.runtime.inputs.selected_input import SelectedInput
from firesteel.runtime.wire_format import encode
from firesteel.testing import simulated_environment
from firesteel_support.flow import Flow
from firesteel_support.task_harness import TaskHarness

FIRST, SECOND, ALL = InputSelection.FIRST, InputSelection.SECOND, InputSelection.ALL


class Choosing(TwoInputStreamOperator, InputSelectable):
    """Says what it reads; what it wants follows a script, the last word of which holds for ever."""

    def __init__(self, *script: InputSelection) -> None:
        self.script = list(script)

    def next_selection(self) -> InputSelection:
        return self.script.pop(0) if len(self.script) > 1 else self.script[0]

    def process_element1(self, value: Any, timestamp: int | None) -> None:
        self.output.collect(("first", value))

    def process_element2(self, value: Any, timestamp: int | None) -> None:
        self.output.collect(("second", value))

    def process_watermark(self, timestamp: int) -> None:
        self.output.collect(("watermark", timestamp))
        super().process_watermark(timestamp)


class Merge(TwoInputStreamOperator, InputSelectable):
    """Merges two sorted streams into a sorted one: reads the one that is behind."""

    def __init__(self) -> None:
        self.waiting: dict[int, Any] = {}

    def next_selection(self) -> InputSelection:
        return ALL if not self.waiting else SECOND if 1 in self.waiting else FIRST

    def process_element1(self, value: Any, timestamp: int | None) -> None:
        self.take(1, value)

    def process_element2(self, value: Any, timestamp: int | None) -> None:
        self.take(2, value)

    def take(self, side: int, value: Any) -> None:
        if side in self.waiting:  # the input that was asked for has ended
            self.output.collect(self.waiting.pop(side))
        self.waiting[side] = value
        if len(self.waiting) == 2:
            smaller = min(self.waiting, key=lambda found: self.waiting[found])
            self.output.collect(self.waiting.pop(smaller))

    def finish(self) -> None:
        for value in self.waiting.values():
            self.output.collect(value)


# The machine -----------------------------------------------------------------------------------------


class Machine:
    """The turns of two channels, one of each input, whose payloads are read record by record."""

    def __init__(self, *script: InputSelection) -> None:
        self.script = list(script)
        self.selected = SelectedInput(self.ask, (1, 1))
        self.channels = [channel(0), channel(1)]

    def ask(self) -> InputSelection:
        return self.script.pop(0) if len(self.script) > 1 else self.script[0]

    def add(self, index: int, *values: Any) -> None:
        self.channels[index].payloads.add(pickle.dumps(values))
        self.selected.add(self.channels[index])

    def run(self) -> list[tuple[int, Any]]:
        read = []
        while (channel := self.selected.next()) is not None:
            if channel.rest is None:
                channel.rest = (list(pickle.loads(channel.payloads.take())), None, 0)
            values, _, begin = channel.rest
            read.append((channel.edge.input_index, values[begin]))
            channel.rest = (values, None, begin + 1) if begin + 1 < len(values) else None
            if channel.rest is not None or channel.payloads:
                self.selected.add(channel)
        return read


def channel(index: int) -> InputChannel:
    edge = EdgePlan(index, 0, 0, None, 1, index, Rebalance())
    return InputChannel(edge, 0, index, lambda values, timestamps: 0, PayloadSpace())


def test_what_was_not_chosen_waits() -> None:
    machine = Machine(FIRST)
    machine.add(1, "x")
    assert machine.run() == []
    assert not machine.selected.may_read
    machine.add(0, "a")
    assert machine.run() == [(0, "a")]


def test_a_chunk_is_left_where_the_choice_changes() -> None:
    machine = Machine(FIRST, SECOND, SECOND, FIRST)
    machine.add(0, "a", "b", "c")
    machine.add(1, "x", "y", "z")
    assert machine.run() == [(0, "a"), (1, "x"), (1, "y"), (0, "b"), (0, "c")]


def test_both_inputs_are_read_in_turns_when_both_are_wanted() -> None:
    machine = Machine(ALL)
    for value in "ab":
        machine.add(0, value)
        machine.add(1, value.upper())
    assert sorted(machine.run()) == [(0, "a"), (0, "b"), (1, "A"), (1, "B")]


def test_when_the_chosen_input_has_ended_the_other_one_is_read() -> None:
    machine = Machine(FIRST)
    machine.add(1, "x")
    machine.add(0, "a")
    assert machine.run() == [(0, "a")]
    machine.selected.channel_ended(0)
    assert machine.selected.may_read
    assert machine.run() == [(1, "x")]


def test_it_asks_again_only_when_something_has_happened() -> None:
    machine = Machine(FIRST, SECOND)
    machine.add(1, "x")
    assert machine.run() == []
    assert machine.run() == []
    machine.selected.ask_again()
    assert machine.selected.may_read
    assert machine.run() == [(1, "x")]


@given(
    st.lists(st.tuples(st.integers(0, 1), st.integers(1, 3))),
    st.lists(st.sampled_from([FIRST, SECOND, ALL]), max_size=30),
)
def test_nothing_is_lost_and_each_input_keeps_its_order(
    arrivals: list[tuple[int, int]], script: list[InputSelection]
) -> None:
    machine = Machine(*script, ALL)
    sent: list[list[int]] = [[], []]
    read = []
    for index, count in arrivals:
        values = range(len(sent[index]), len(sent[index]) + count)
        sent[index] += values
        machine.add(index, *values)
        read += machine.run()
        machine.selected.ask_again()
    while machine.selected.may_read:
        read += machine.run()
        machine.selected.ask_again()
    assert [[value for index, value in read if index == side] for side in (0, 1)] == sent


# A task ----------------------------------------------------------------------------------------------


def plan(operator: TwoInputStreamOperator, **options: str) -> JobPlan:
    flow = Flow()
    first, second = flow.source([1]), flow.source([1])
    merged = flow.graph.add(
        "Choose",
        TwoInputTransformSpec(Shipped.of(operator, "test"), selects=True),
        (Edge(first, Rebalance(), 0), Edge(second, Rebalance(), 1)),
        parallelism=1,
    )
    flow.collect(merged, "out")
    return flow.plan(**options)


def payloads(edge: int, *elements: Element) -> list[bytes]:
    ending = [*elements, WatermarkSignal(MAX_WATERMARK), END_OF_INPUT]
    return [encode(element, edge, 0, 0, sequence) for sequence, element in enumerate(ending)]


def collected(task: TaskHarness) -> list[Any]:
    return [value for _, blob in task.services.blobs for value in pickle.loads(blob)]


def test_a_task_reads_the_first_input_and_then_the_second() -> None:
    task = TaskHarness(plan(Choosing(FIRST)), stage=1)
    for payload in payloads(1, Chunk(["x", "y"])):
        task.task.receive(payload)
    assert collected(task) == []
    assert not task.task.ready()
    assert not task.task.poll()
    for payload in payloads(0, Chunk(["a"]), Chunk(["b"])):
        task.task.receive(payload)
    task.task.input_ended()
    while task.task.poll():
        pass
    values = [("first", "a"), ("first", "b"), ("second", "x"), ("second", "y")]
    assert collected(task) == [*values, ("watermark", MAX_WATERMARK)]
    assert task.task.finished
    assert not task.task.ready()


def test_a_task_refuses_to_keep_more_than_it_may_of_the_input_that_is_not_read() -> None:
    task = TaskHarness(plan(Choosing(FIRST), **{"firesteel.input.waiting-limit": "100 b"}), stage=1)

    def receive_all() -> None:
        for payload in payloads(1, *[Chunk([i]) for i in range(10)]):
            task.task.receive(payload)

    with pytest.raises(
        JobExecutionError, match=r"'Choose.* bytes of the other one wait, more than the 100 that"
    ):
        receive_all()


def test_watermarks_of_an_input_that_waits_wait_with_it() -> None:
    task = TaskHarness(plan(Choosing(FIRST, FIRST, ALL)), stage=1)
    for payload in payloads(1, WatermarkSignal(5), Chunk(["x"])):
        task.task.receive(payload)
    for payload in payloads(0, WatermarkSignal(3), Chunk(["a"], [4]))[:2]:
        task.task.receive(payload)
    while task.task.poll():
        pass
    assert collected(task) == [("first", "a"), ("watermark", 3), ("second", "x")]


def test_a_processing_time_timer_may_change_the_choice() -> None:
    task = TaskHarness(plan(Choosing(FIRST, SECOND)), stage=1)
    task.task.receive(payloads(1, Chunk(["x"]))[0])
    assert collected(task) == []
    (vertex,) = task.task._vertices
    vertex.on_time(task.services.now())
    assert task.task.ready()
    assert task.task.poll()
    assert collected(task) == [("second", "x")]


def test_an_end_that_is_missing_is_noticed() -> None:
    task = TaskHarness(plan(Choosing(FIRST)), stage=1)
    for payload in payloads(1, Chunk(["x"])):
        task.task.receive(payload)
    with pytest.raises(DataLossError, match="stopped before its end was announced"):
        task.task.input_ended()


def test_a_choice_that_is_none_is_refused() -> None:
    task = TaskHarness(plan(Choosing("FIRST")), stage=1)  # type: ignore[arg-type]
    with pytest.raises(
        JobExecutionError, match=r"Choosing .* must return InputSelection.FIRST.*'FIRST' \(str\)"
    ):
        task.task.receive(payloads(0, Chunk(["a"]))[0])


# Whole jobs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", list(RuntimeExecutionMode)[:2])
@pytest.mark.parametrize("seed", range(20))
def test_sorted_streams_are_merged_into_a_sorted_one(seed: int, mode: RuntimeExecutionMode) -> None:
    env = simulated_environment(seed, parallelism=1)
    env.set_runtime_mode(mode)
    evens, others = list(range(0, 200, 2)), list(range(1, 100, 3))
    first = env.from_collection(evens).rebalance()
    merged = first.connect(env.from_collection(others).rebalance()).transform("Merge", Merge())
    found = list(merged.execute_and_collect())
    assert found == sorted(evens + others)


def test_with_checkpoints_it_is_refused_when_the_program_is_built() -> None:
    options = {"execution.checkpointing.interval": "1 s"}
    with pytest.raises(
        ProgramError, match=r"'Choose'.*is InputSelectable.*checkpoints.*execution.checkpointing.interval"
    ):
        plan(Choosing(FIRST), **options)
    assert plan(Choosing(FIRST), **options, **{"execution.runtime-mode": "BATCH"})
    env = simulated_environment(configuration=Configuration.from_dict(options))
    numbers = env.from_collection([1])
    numbers.connect(numbers).transform("Merge", Merge()).print()
    with pytest.raises(ProgramError, match="is InputSelectable"):
        env.execute()
