"""Operators that users write whole: records, batches, keys, timers, watermarks, side outputs, checkpoints, errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from firesteel.common.errors import JobExecutionError
from firesteel.common.time import MAX_WATERMARK
from firesteel.common.typeinfo import Types
from firesteel.contracts.output_tag import OutputTag
from firesteel.contracts.state import ListStateDescriptor, ValueStateDescriptor
from firesteel.contracts.stream_operators import OneInputStreamOperator, TwoInputStreamOperator
from firesteel.plan.operator_specs import TransformSpec, TwoInputTransformSpec
from firesteel.plan.shipped import Shipped
from firesteel.plan.state_handles import CheckpointKind, CheckpointOrder
from firesteel.runtime.elements import Chunk, WatermarkSignal
from firesteel.testing import FunctionHarness
from firesteel.testing._operator_harness import OperatorHarness
from firesteel.testing.checkpoint_harness import CheckpointHarness

SIDE = OutputTag("side")
COUNT = ValueStateDescriptor("count", Types.LONG())


class Double(OneInputStreamOperator):
    def process_element(self, value: Any, timestamp: int | None) -> None:
        self.output.collect(value)
        self.output.collect(value * 10, None if timestamp is None else timestamp + 1)


class Doing(OneInputStreamOperator):
    """Runs the actions it is made with, so that each test can say what the methods do."""

    def __init__(self, **actions: Callable[..., Any]) -> None:
        self.actions = actions

    def _do(self, name: str, *arguments: Any) -> None:
        if name in self.actions:
            self.actions[name](self, *arguments)

    def initialize_state(self, context: Any) -> None:
        self._do("initialize", context)

    def open(self, runtime_context: Any) -> None:
        self._do("open", runtime_context)

    def process_element(self, value: Any, timestamp: int | None) -> None:
        self._do("element", value, timestamp)

    def on_event_time(self, timestamp: int) -> None:
        self._do("event_time", timestamp)

    def on_processing_time(self, timestamp: int) -> None:
        self._do("processing_time", timestamp)

    def snapshot_state(self, context: Any) -> None:
        self._do("snapshot", context)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self._do("complete", checkpoint_id)

    def finish(self) -> None:
        self._do("finish")

    def close(self) -> None:
        self._do("close")


class HoldsBack(OneInputStreamOperator):
    """Lets time pass only every second time, and one step behind."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def process_element(self, value: Any, timestamp: int | None) -> None:
        self.output.collect(value)

    def process_watermark(self, timestamp: int) -> None:
        self.seen.append(timestamp)
        if len(self.seen) % 2 == 0:
            self.output.emit_watermark(self.seen[-2])


class Sums(OneInputStreamOperator):
    """Handles batches as a whole."""

    def process_element(self, value: Any, timestamp: int | None) -> None:
        raise AssertionError("process_batch() is overridden")

    def process_batch(self, values: list[Any], timestamps: list[int | None] | None) -> None:
        self.output.collect(sum(values), None if timestamps is None else timestamps[-1])
        self.output.collect(len(values))


class KeyedCount(OneInputStreamOperator):
    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(COUNT)

    def process_element(self, value: Any, timestamp: int | None) -> None:
        self.count.update((self.count.value() or 0) + 1)
        timers = self.get_timer_service()
        timers.register_event_time_timer(10)
        timers.register_event_time_timer(20)
        timers.delete_event_time_timer(20)
        timers.register_processing_time_timer(timers.current_processing_time() + 500)

    def on_event_time(self, timestamp: int) -> None:
        self.output.collect(("event", self.get_current_key(), self.count.value(), timestamp))

    def on_processing_time(self, timestamp: int) -> None:
        self.output.collect(("processing", self.get_current_key(), self.count.value()))


# Records ---------------------------------------------------------------------------------------------


def test_records_get_the_time_of_the_record_at_hand_or_their_own() -> None:
    harness = FunctionHarness(Double())
    harness.process_elements([1, 2], [5, 6])
    assert harness.take_records() == [(1, 5), (10, 6), (2, 6), (20, 7)]
    harness.process_element(3)
    assert harness.take_records() == [(3, None), (30, None)]


def test_a_batch_can_be_handled_as_a_whole() -> None:
    harness = FunctionHarness(Sums())
    harness.process_elements([1, 2, 3], [7, 8, 9])
    assert harness.take_records() == [(6, 9), (3, None)]


def test_results_leave_in_between_when_there_are_many() -> None:
    harness = OperatorHarness(TransformSpec(Shipped.of(Double(), "test")))
    harness.process(list(range(3000)))
    assert harness.output.values == [n for i in range(3000) for n in (i, i * 10)]
    assert max(map(len, harness.output.batches)) < 1100


def test_side_outputs() -> None:
    def element(operator: Any, value: Any, timestamp: int | None) -> None:
        operator.output.collect_side(SIDE, -value)
        operator.output.collect_side(SIDE, value, 99)
        operator.output.collect(value)

    harness = FunctionHarness(Doing(element=element))
    harness.process_element(4, timestamp=1)
    assert harness._output.side_timestamps == {"side": [1, 99]}
    assert harness.take_side_output(SIDE) == [-4, 4]
    assert harness.take_output() == [4]


def test_two_inputs() -> None:
    class Both(TwoInputStreamOperator):
        def process_element1(self, value: Any, timestamp: int | None) -> None:
            self.output.collect(("first", value))

        def process_element2(self, value: Any, timestamp: int | None) -> None:
            self.output.collect(("second", value, timestamp))

    harness = FunctionHarness(Both())
    harness.process_element("a", timestamp=1)
    harness.process_element2("b", timestamp=2)
    assert harness.take_records() == [(("first", "a"), 1), (("second", "b", 2), 2)]


def test_two_keyed_inputs_share_state_and_timers() -> None:
    class Shared(TwoInputStreamOperator):
        def open(self, runtime_context: Any) -> None:
            self.count = runtime_context.get_state(COUNT)

        def process_element1(self, value: Any, timestamp: int | None) -> None:
            self.count.update((self.count.value() or 0) + 1)

        def process_element2(self, value: Any, timestamp: int | None) -> None:
            self.output.collect((self.get_current_key(), self.count.value()))

    harness = FunctionHarness(Shared(), lambda value: value[0], lambda value: value[-1])
    harness.process_elements(["ax", "ay", "bx"])
    for value in ("xa", "xb", "xc"):
        harness.process_element2(value)
    assert harness.take_output() == [("a", 2), ("b", 1), ("c", None)]


# Keys and time ---------------------------------------------------------------------------------------


def test_keyed_state_and_timers_and_both_again_after_a_restart() -> None:
    harness = FunctionHarness(KeyedCount(), key_selector=lambda value: value, processing_time=0)
    harness.process_elements(["a", "b", "a"], [1, 2, 3])
    assert harness.state("a", COUNT) == 2
    assert harness.event_time_timers("a") == [10]
    snapshot = harness.snapshot()
    for at_work in (
        harness,
        FunctionHarness(KeyedCount(), lambda value: value, processing_time=0, snapshot=snapshot),
    ):
        at_work.process_watermark(9)
        assert at_work.take_records() == []
        at_work.process_watermark(10)
        assert sorted(at_work.take_records()) == [
            (("event", "a", 2, 10), 10),
            (("event", "b", 1, 10), 10),
        ]
        at_work.advance_processing_time(500)
        assert sorted(at_work.take_records()) == [
            (("processing", "a", 2), None),
            (("processing", "b", 1), None),
        ]


def test_in_batch_all_timers_fire_at_the_end_and_start_no_new_life() -> None:
    def again(operator: Any, timestamp: int) -> None:
        operator.output.collect(timestamp)
        operator.get_timer_service().register_processing_time_timer(timestamp + 1)

    harness = FunctionHarness(
        Doing(
            element=lambda operator, value, timestamp: (
                operator.get_timer_service().register_processing_time_timer(10**15)
            ),
            processing_time=again,
        ),
        key_selector=lambda value: value,
        batch=True,
    )
    harness.process_element("a")
    harness.end_of_input()
    assert harness.take_output() == [10**15]


def test_timers_fire_before_the_watermark_goes_on() -> None:
    harness = FunctionHarness(KeyedCount(), key_selector=lambda value: value)
    harness.process_element("a", timestamp=1)
    harness.process_watermark(15)
    assert harness._output.elements == [Chunk([("event", "a", 1, 10)], [10]), WatermarkSignal(15)]


def test_watermarks_can_be_held_back() -> None:
    harness = FunctionHarness(HoldsBack())
    for timestamp in (1, 2, 3, 4, MAX_WATERMARK):
        harness.process_watermark(timestamp)
    assert harness.take_watermarks() == [1, 3]


def test_watermarks_stay_behind_what_was_emitted_before_and_never_go_back() -> None:
    def element(operator: Any, value: Any, timestamp: int | None) -> None:
        operator.output.collect(value)
        operator.output.emit_watermark(value)

    harness = FunctionHarness(Doing(element=element))
    harness.process_elements([5, 3, 7])
    assert harness._output.elements == [Chunk([5]), WatermarkSignal(5), Chunk([3, 7]), WatermarkSignal(7)]


def test_parts_of_a_batch_have_their_keys_in_for_each() -> None:
    class Evens(KeyedCount):
        def process_batch(self, values: list[Any], timestamps: list[int | None] | None) -> None:
            self.context.for_each([value for value in values if value % 2 == 0], None, self.count_it)

        def count_it(self, value: Any, timestamp: int | None) -> None:
            self.count.update((self.count.value() or 0) + 1)

    harness = FunctionHarness(Evens(), key_selector=lambda value: value // 10)
    harness.process_elements([1, 2, 4, 11, 12])
    assert (harness.state(0, COUNT), harness.state(1, COUNT)) == (2, 1)


def test_a_batch_as_a_whole_has_no_key() -> None:
    class Whole(KeyedCount):
        def process_batch(self, values: list[Any], timestamps: list[int | None] | None) -> None:
            if values == ["state"]:
                self.count.update(1)
            elif values == ["key"]:
                self.get_current_key()
            else:
                self.get_timer_service().register_event_time_timer(1)

    harness = FunctionHarness(Whole(), key_selector=lambda value: value)
    for value in ("state", "key", "timer"):
        with pytest.raises(JobExecutionError, match=r"there is no key here.*for_each"):
            harness.process_element(value)


class Sides(TwoInputStreamOperator):
    """Keeps the last number of both sides; goes through records where no batch is at hand."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(COUNT)

    def process_element1(self, value: Any, timestamp: int | None) -> None:
        self.count.update(value)

    def process_element2(self, value: Any, timestamp: int | None) -> None:
        self.count.update(value)

    def process_watermark(self, timestamp: int) -> None:
        self.context.for_each([1], None, self.process_element1)


def test_records_of_an_input_without_keys_have_none() -> None:
    spec = TwoInputTransformSpec(Shipped.of(Sides(), "test"))
    harness = OperatorHarness(spec, keys=(lambda value: value, None))
    harness.process([1, 2])
    assert harness.state.peek("count", 2) == 2
    with pytest.raises(JobExecutionError, match="records of this input belong to no key"):
        harness.process_second([3])


def test_with_two_keyed_inputs_for_each_needs_the_batch_of_one() -> None:
    harness = FunctionHarness(Sides(), key_selector=lambda value: value)
    with pytest.raises(JobExecutionError, match=r"call it in process_batch1\(\) or process_batch2\(\)"):
        harness.process_watermark(1)


@pytest.mark.parametrize(
    "ask", [lambda operator: operator.get_current_key(), lambda operator: operator.get_runtime_context()]
)
def test_without_keys_there_is_no_key_and_no_keyed_state(ask: Any) -> None:
    def element(operator: Any, value: Any, timestamp: int | None) -> None:
        ask(operator).get_state(COUNT)

    with pytest.raises(JobExecutionError, match=r"no keys: call key_by\(\)"):
        FunctionHarness(Doing(element=element)).process_element(1)


def test_without_keys_there_are_no_timers() -> None:
    def element(operator: Any, value: Any, timestamp: int | None) -> None:
        operator.get_timer_service().register_event_time_timer(1)

    with pytest.raises(JobExecutionError, match=r"timers need a keyed stream: call key_by\(\)"):
        FunctionHarness(Doing(element=element)).process_element(1)


# Life and checkpoints --------------------------------------------------------------------------------


def test_results_may_come_from_open_finish_and_notifications() -> None:
    def say(what: str) -> Callable[..., None]:
        return lambda operator, *_: operator.output.collect(what)

    harness = FunctionHarness(Doing(open=say("open"), finish=say("finish"), complete=say("complete")))
    harness._harness.link.notify_complete(1)
    harness.end_of_input()
    assert harness.take_output() == ["open", "complete", "finish"]


@pytest.mark.parametrize(
    ("method", "match"),
    [
        ("initialize", r"initialize_state\(\) cannot emit.*open\(\)"),
        ("snapshot", r"snapshot_state\(\) cannot emit.*prepare_snapshot_pre_barrier\(\)"),
        ("complete", r"the operator has finished; emit in finish\(\)"),
        ("close", r"close\(\) cannot emit.*finish\(\)"),
    ],
)
def test_where_nothing_can_be_emitted_it_is_refused(method: str, match: str) -> None:
    def emit(operator: Any, *_: Any) -> None:
        operator.output.collect(1)

    with pytest.raises(JobExecutionError, match=match):
        live_and_die(Doing(**{method: emit}))
    with pytest.raises(JobExecutionError, match=match):
        live_and_die(Doing(**{method: lambda operator, *_: operator.output.emit_watermark(1)}))


def live_and_die(operator: OneInputStreamOperator) -> None:
    harness = FunctionHarness(operator)
    link = harness._harness.link
    link.snapshot(CheckpointOrder(1, 0, "", CheckpointKind.CHECKPOINT))
    harness.end_of_input()
    link.notify_complete(1)
    harness.close()


class Pairs(OneInputStreamOperator):
    """Waits for a second record; one that is alone is in the state, or - when told so - leaves before the barrier."""

    ALONE = ListStateDescriptor("alone", Types.STRING())

    def __init__(self, leave: bool = False) -> None:
        self.leave = leave
        self.alone: list[str] = []

    def initialize_state(self, context: Any) -> None:
        self.state = context.get_operator_state_store().get_list_state(self.ALONE)
        self.alone = list(self.state.get())

    def process_element(self, value: Any, timestamp: int | None) -> None:
        self.alone.append(value)
        if len(self.alone) >= 2:
            self.let_go()

    def prepare_snapshot_pre_barrier(self, checkpoint_id: int) -> None:
        if self.leave:
            self.let_go()

    def snapshot_state(self, context: Any) -> None:
        self.state.update(self.alone)

    def finish(self) -> None:
        self.let_go()

    def let_go(self) -> None:
        if self.alone:
            self.output.collect("+".join(self.alone))
        self.alone = []


@pytest.mark.parametrize("leave", [False, True])
def test_state_of_the_subtask_is_in_checkpoints(leave: bool) -> None:
    spec = TransformSpec(Shipped.of(Pairs(leave), "test"))
    before = CheckpointHarness(spec)
    before[0].process(["a", "b", "c"])
    checkpoint = before.checkpoint(1)
    assert before[0].output.values == (["a+b", "c"] if leave else ["a+b"])
    after = CheckpointHarness(spec, restore=checkpoint)
    after[0].process(["d"])
    after[0].finish()
    assert after[0].output.values == (["d"] if leave else ["c+d"])


# Errors ----------------------------------------------------------------------------------------------


class Divides(OneInputStreamOperator):
    def process_element(self, value: Any, timestamp: int | None) -> None:
        self.output.collect(100 // value)


@pytest.mark.parametrize("keys", [None, lambda value: value % 2])
def test_an_error_names_operator_file_line_and_record(keys: Any) -> None:
    with pytest.raises(JobExecutionError) as caught:
        FunctionHarness(Divides(), keys).process_elements([5, 0, 1])
    said = str(caught.value)
    for part in ("Operator (1/1)", "class Divides", "test_raw_operators.py", "100 // value", "record:   0"):
        assert part in said, said
    assert "firesteel/runtime" not in said


def test_an_error_in_a_part_of_a_batch_names_its_record() -> None:
    class Part(Divides):
        def process_batch(self, values: list[Any], timestamps: list[int | None] | None) -> None:
            self.context.for_each([value - 1 for value in values], timestamps, self.process_element)

    with pytest.raises(JobExecutionError, match=r"in for_each\(\) at the record 0") as caught:
        FunctionHarness(Part()).process_elements([5, 1, 2])
    assert "record:  " not in str(caught.value)


def test_an_error_in_a_timer_names_its_key() -> None:
    def fail(operator: Any, timestamp: int) -> None:
        raise ValueError("on purpose")

    def element(operator: Any, value: Any, timestamp: int | None) -> None:
        operator.get_timer_service().register_event_time_timer(3)

    harness = FunctionHarness(Doing(element=element, event_time=fail), key_selector=lambda value: value)
    harness.process_element("k")
    with pytest.raises(JobExecutionError, match="in on_event_time for key 'k' at 3"):
        harness.process_watermark(3)


def test_a_key_that_cannot_be_hashed_is_explained() -> None:
    with pytest.raises(JobExecutionError, match="cannot be a key") as caught:
        FunctionHarness(KeyedCount(), key_selector=lambda value: float("nan")).process_elements([1, 2])
    assert "record:   1" in str(caught.value)


@pytest.mark.parametrize(
    ("emit", "match"),
    [
        (lambda output: output.collect(1, 2.5), r"milliseconds in an int, got 2.5 \(float\)"),
        (lambda output: output.collect_side("side", 1), r"collect_side\(\) needs an OutputTag.*'side'"),
        (lambda output: output.emit_watermark(None), r"emit_watermark\(\) needs its time.*None"),
    ],
)
def test_wrong_arguments_of_the_output_are_refused(emit: Any, match: str) -> None:
    def element(operator: Any, value: Any, timestamp: int | None) -> None:
        emit(operator.output)

    with pytest.raises(JobExecutionError, match=match):
        FunctionHarness(Doing(element=element)).process_element(1)


def test_for_each_wants_a_time_for_each_record() -> None:
    class Short(Divides):
        def process_batch(self, values: list[Any], timestamps: list[int | None] | None) -> None:
            self.context.for_each(values, [1], self.process_element)

    with pytest.raises(JobExecutionError, match="2 records and 1 timestamps"):
        FunctionHarness(Short()).process_elements([1, 2])


def test_an_operator_that_forgets_to_pass_its_setup_on_is_told() -> None:
    class Forgets(Double):
        def setup(self, context: Any) -> None:
            self.mine = context

    with pytest.raises(JobExecutionError, match=r"Forgets has no context.*super\(\).setup\(context\)"):
        FunctionHarness(Forgets()).process_element(1)
