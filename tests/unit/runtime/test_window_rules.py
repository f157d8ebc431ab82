"""The subtle rules of windows, one test each or a few, named after the rule; both kinds of operators where both apply."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from firesteel.common.errors import ProgramError, UserCodeError
from firesteel.common.typeinfo import Types
from firesteel.contracts.functions import AggregateFunction, ProcessWindowFunction
from firesteel.contracts.state import ValueStateDescriptor
from firesteel.datastream.window import (
    ContinuousEventTimeTrigger,
    CountEvictor,
    CountTrigger,
    CountWindow,
    DeltaTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    Evictor,
    GlobalWindows,
    NeverTrigger,
    ProcessingTimeoutTrigger,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TimeWindow,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from firesteel.plan.operator_specs import WindowSpec
from firesteel.plan.shipped import Shipped
from firesteel.runtime.operators.windows.general_operator import WindowOperator
from firesteel.runtime.operators.windows.pane_operator import PaneWindowOperator
from firesteel.testing._operator_harness import OperatorHarness

END = 2**63 - 1


class OwnTrigger(EventTimeTrigger):
    """The default trigger under another name: makes the general operator do the work."""


BOTH = pytest.mark.parametrize("trigger", [None, OwnTrigger()], ids=["fast", "general"])


class Listed(ProcessWindowFunction):  # type: ignore[type-arg]
    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        yield [element[1] for element in elements]


def add(a: Any, b: Any) -> Any:
    return a[0], a[1] + b[1]


def windows(
    assigner: Any,
    trigger: Any = None,
    aggregator: Any = None,
    function: Any = None,
    evictor: Any = None,
    lateness: int = 0,
    late_tag: str | None = None,
) -> OperatorHarness:
    if aggregator is None and function is None:
        function = Listed()
    parts = [assigner, trigger or assigner.get_default_trigger(None), aggregator, function, evictor]
    shipped = [None if part is None else Shipped.of(part, "test") for part in parts]
    spec = WindowSpec(*shipped, lateness, late_tag)  # type: ignore[arg-type]
    return OperatorHarness(spec, keys=(lambda record: record[0],))


def push(harness: OperatorHarness, *records: tuple[Any, int]) -> None:
    """Records ("a", timestamp, value) of key "a": pairs of value and timestamp."""
    harness.process([("a", value) for value, _ in records], [timestamp for _, timestamp in records])


def emitted(harness: OperatorHarness) -> list[Any]:
    """What came out since the last time."""
    found, harness.output.values = harness.output.values, []
    return found


def dropped(harness: OperatorHarness) -> int:
    found: int = dict(harness.runtime.metrics.snapshot())["Operator.numLateRecordsDropped"]
    return found


# L06 ----------------------------------------------------------------------------------------------------


@BOTH
def test_l06_results_carry_the_last_timestamp_of_their_window(trigger: Any) -> None:
    first = windows(TumblingEventTimeWindows(10), trigger, add)
    push(first, (1, 3), (2, 9))
    first.watermark(9)
    assert (first.output.values, first.output.timestamps) == ([("a", 3)], [9])
    second = windows(TumblingEventTimeWindows(10), trigger)
    second.process(first.output.values, first.output.timestamps)
    second.watermark(9)
    assert emitted(second) == [[3]], "a window of the same size takes the result in"


@BOTH
def test_l06_results_leave_before_the_watermark_that_fired_them(trigger: Any) -> None:
    op = windows(TumblingEventTimeWindows(10), trigger)
    order: list[str] = []
    op.output.emit = lambda values, timestamps: order.append("result")  # type: ignore[method-assign]
    op.output.watermark = lambda timestamp: order.append("watermark")  # type: ignore[method-assign]
    push(op, (1, 3))
    op.watermark(9)
    assert order == ["result", "watermark"]


# L07 ----------------------------------------------------------------------------------------------------


@BOTH
def test_l07_a_record_behind_the_watermark_is_in_time_while_its_window_is_open(trigger: Any) -> None:
    op = windows(TumblingEventTimeWindows(10), trigger, late_tag="late")
    push(op, (1, 5))
    op.watermark(8)
    push(op, (2, 3))
    op.watermark(9)
    assert (emitted(op), op.output.sides) == ([[1, 2]], {})


@BOTH
def test_l07_a_record_may_be_late_for_some_sliding_windows_only(trigger: Any) -> None:
    op = windows(SlidingEventTimeWindows(10, 5), trigger, late_tag="late")
    push(op, (1, 7))  # [0, 10) and [5, 15)
    op.watermark(9)
    push(op, (2, 8))  # [0, 10) is over
    op.watermark(END)
    assert (emitted(op), op.output.sides) == ([[1], [1, 2]], {})


# L08 ----------------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("aggregator", [None, add], ids=["list", "reduce"])
def test_l08_each_late_but_allowed_record_fires_at_once_with_everything(
    trigger: Any, aggregator: Any
) -> None:
    op = windows(TumblingEventTimeWindows(10), trigger, aggregator, lateness=5)
    push(op, (1, 5))
    op.watermark(9)
    push(op, (2, 5), (3, 6))
    lists = [[1], [1, 2], [1, 2, 3]]
    assert emitted(op) == ([("a", sum(each)) for each in lists] if aggregator else lists)
    op.watermark(END)
    assert emitted(op) == []


# L09 ----------------------------------------------------------------------------------------------------


@BOTH
def test_l09_only_records_dropped_from_all_windows_go_to_the_side_output(trigger: Any) -> None:
    op = windows(SlidingEventTimeWindows(10, 5), trigger, lateness=3, late_tag="late")
    push(op, (1, 7))
    op.watermark(13)  # [0, 10) is over since 12, [5, 15) is open
    push(op, (2, 7), (3, 4), (4, 12))  # 4 is of [-5, 5) and [0, 10)
    op.watermark(END)
    assert op.output.sides == {"late": [("a", 3)]}
    assert op.output.side_timestamps == {"late": [4]}
    assert emitted(op) == [[1], [1, 2, 4], [4]]


@BOTH
def test_l09_dropped_records_are_counted(trigger: Any) -> None:
    op = windows(TumblingEventTimeWindows(10), trigger)
    op.watermark(20)
    push(op, (1, 5), (2, 25), (3, 19))
    assert dropped(op) == 2


# L10 ----------------------------------------------------------------------------------------------------


class Recording(Trigger):  # type: ignore[type-arg]
    """Notes what it is asked and always answers the same."""

    def __init__(self, answer: TriggerResult = TriggerResult.CONTINUE, register: int | None = None) -> None:
        self.answer, self.register = answer, register

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> TriggerResult:
        if self.register is not None:
            ctx.register_event_time_timer(self.register)
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
        CALLS.append(("processing time", time))
        return self.answer

    def on_event_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
        CALLS.append(("event time", time))
        return self.answer

    def on_merge(self, window: Any, ctx: Any) -> None:
        CALLS.append(("merge", window))

    def clear(self, window: Any, ctx: Any) -> None:
        CALLS.append(("clear", window))


CALLS: list[Any] = []  # a trigger is pickled by value, so each has its own


def recorded(op: OperatorHarness) -> list[Any]:
    trigger = op.operator._trigger  # type: ignore[attr-defined]
    found: list[Any] = type(trigger).on_event_time.__globals__["CALLS"]
    return found


def test_l10_a_window_that_never_fired_goes_at_end_plus_lateness_and_its_trigger_is_asked_first() -> None:
    op = windows(TumblingEventTimeWindows(10), Recording(), lateness=5)
    recorded(op).clear()
    push(op, (1, 5))
    op.watermark(13)
    assert recorded(op) == []
    op.watermark(14)
    assert recorded(op) == [("event time", 14), ("clear", TimeWindow(0, 10))]
    assert emitted(op) == []
    push(op, (2, 5))
    assert dropped(op) == 1


def test_l10_a_trigger_may_fire_at_the_cleanup_itself() -> None:
    op = windows(TumblingEventTimeWindows(10), Recording(TriggerResult.FIRE))
    push(op, (1, 5))
    op.watermark(9)
    assert emitted(op) == [[1]]


def test_l10_fire_keeps_the_content_so_results_accumulate() -> None:
    op = windows(TumblingEventTimeWindows(100), CountTrigger.of(2))
    push(op, (1, 5), (2, 6), (3, 7), (4, 8))
    assert emitted(op) == [[1, 2], [1, 2, 3, 4]]


def test_l10_timers_are_not_delivered_after_the_window_went() -> None:
    op = windows(TumblingEventTimeWindows(10), Recording(TriggerResult.FIRE, register=30))
    recorded(op).clear()
    push(op, (1, 5))
    op.watermark(50)
    assert recorded(op) == [("event time", 9), ("clear", TimeWindow(0, 10))]
    assert emitted(op) == [[1]]


# L11 ----------------------------------------------------------------------------------------------------


@BOTH
def test_l11_a_record_between_two_sessions_merges_them(trigger: Any) -> None:
    op = windows(EventTimeSessionWindows(5), trigger, add)
    push(op, (1, 0), (2, 8))
    push(op, (4, 4))
    op.watermark(11)
    assert emitted(op) == []
    op.watermark(12)
    assert (op.output.values, op.output.timestamps) == ([("a", 7)], [12])


@BOTH
def test_l11_a_late_record_merges_sessions_that_fired_and_they_fire_again(trigger: Any) -> None:
    op = windows(EventTimeSessionWindows(5), trigger, lateness=20)
    push(op, (1, 0), (2, 8))
    op.watermark(13)
    assert emitted(op) == [[1], [2]]
    push(op, (3, 4))
    assert [sorted(each) for each in emitted(op)] == [[1, 2, 3]]
    push(op, (4, 12))  # extends the session beyond the watermark: it is armed again
    assert emitted(op) == []
    op.watermark(END)
    assert [sorted(each) for each in emitted(op)] == [[1, 2, 3, 4]]
    assert op.output.timestamps[-1] == 16


def test_l11_merging_merges_the_state_of_the_trigger() -> None:
    op = windows(EventTimeSessionWindows(5), CountTrigger.of(4))
    push(op, (1, 0), (2, 1), (3, 10))
    push(op, (4, 5))
    assert [sorted(each) for each in emitted(op)] == [[1, 2, 3, 4]]
    push(op, (5, 6), (6, 7), (7, 7))
    assert emitted(op) == [], "the count starts again after firing"


def test_l11_absorbed_windows_leave_no_timers_and_no_state() -> None:
    op = windows(EventTimeSessionWindows(5), ContinuousEventTimeTrigger(3), lateness=4)
    push(op, (1, 0), (2, 8))
    push(op, (3, 4))
    op.watermark(12)
    op.watermark(16)
    backend = op.operator._state  # type: ignore[attr-defined]
    assert [table for _, table in backend.tables() if table] == []
    assert [list(timers.entries()) for _, timers in backend.timers()] == [[], []]


@BOTH
def test_l11_a_late_record_can_extend_a_session_that_is_still_open(trigger: Any) -> None:
    op = windows(EventTimeSessionWindows(5), trigger, late_tag="late")
    push(op, (1, 10))
    op.watermark(9)
    push(
        op, (2, 6), (3, 1)
    )  # [6, 11) is late alone, but it touches [10, 15); [1, 6) touches what they became
    op.watermark(END)
    assert [sorted(each) for each in emitted(op)] == [[1, 2, 3]]
    assert op.output.sides == {}


# L13, L14 -----------------------------------------------------------------------------------------------


def test_l13_a_count_trigger_on_a_global_window_emits_ever_more_unless_it_purges() -> None:
    records = [(n, 0) for n in range(6)]
    op = windows(GlobalWindows.create(), CountTrigger.of(2))
    push(op, *records)
    assert [len(each) for each in emitted(op)] == [2, 4, 6]
    op = windows(GlobalWindows.create(), PurgingTrigger.of(CountTrigger.of(2)))
    push(op, *records)
    assert emitted(op) == [[0, 1], [2, 3], [4, 5]]


def test_l14_a_trigger_of_the_program_replaces_the_default_but_the_window_still_goes_at_its_end() -> None:
    op = windows(TumblingEventTimeWindows(10), CountTrigger.of(3))
    push(op, (1, 5), (2, 6))
    op.watermark(9)
    assert emitted(op) == []
    assert [table for _, table in op.operator._state.tables() if table] == []  # type: ignore[attr-defined]
    op = windows(TumblingEventTimeWindows(10), NeverTrigger())
    push(op, (1, 5))
    op.watermark(END)
    assert emitted(op) == []


# L15 ----------------------------------------------------------------------------------------------------


class DropFirst(Evictor):  # type: ignore[type-arg]
    def evict_before(self, elements: Any, size: int, window: Any, ctx: Any) -> None:
        assert size == len(elements)
        assert ctx.get_current_watermark() < 0 < ctx.get_current_processing_time()
        if size > 3:
            del elements[0]

    def evict_after(self, elements: Any, size: int, window: Any, ctx: Any) -> None:
        del elements[-1]


def test_l15_what_an_evictor_removes_is_gone_for_the_next_firing() -> None:
    op = windows(GlobalWindows.create(), CountTrigger.of(2), evictor=DropFirst())
    push(op, *[(n, n) for n in range(8)])
    assert emitted(op) == [[0, 1], [0, 2, 3], [2, 4, 5], [4, 6, 7]]
    # Before firing: 01 | 0 23 | 02 45 -> 245 | 24 67 -> 467


def test_l15_an_evictor_sees_everything_at_each_firing() -> None:
    op = windows(GlobalWindows.create(), CountTrigger.of(1), evictor=CountEvictor.of(2))
    push(op, (1, 1), (2, 2), (3, 3))
    assert emitted(op) == [[1], [1, 2], [2, 3]]


def test_l15_with_an_evictor_reducing_happens_at_the_firing() -> None:
    op = windows(GlobalWindows.create(), CountTrigger.of(1), add, evictor=CountEvictor.of(2))
    push(op, (1, 1), (2, 2), (4, 3))
    assert emitted(op) == [("a", 1), ("a", 3), ("a", 6)]


# L19 ----------------------------------------------------------------------------------------------------


class Bounds(ProcessWindowFunction):  # type: ignore[type-arg]
    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        yield context.window().start, context.window().end


@BOTH
@pytest.mark.parametrize(
    ("timestamp", "offset", "bounds"),
    [(0, 0, (0, 10)), (-1, 0, (-10, 0)), (-10, 0, (-10, 0)), (-11, 3, (-17, -7)), (2, -3, (-3, 7))],
)
def test_l19_windows_align_to_the_epoch_also_before_it(
    trigger: Any, timestamp: int, offset: int, bounds: tuple[int, int]
) -> None:
    op = windows(TumblingEventTimeWindows(10, offset), trigger, function=Bounds())
    push(op, (1, timestamp))
    op.watermark(END)
    assert emitted(op) == [bounds]


def test_l19_processing_time_windows_align_to_the_epoch_as_well() -> None:
    op = windows(TumblingProcessingTimeWindows(3_600_000), function=Bounds())
    clock = op.services.clock
    clock.advance(300)  # five past midnight
    op.process([("a", 1)])
    assert op.operator.next_deadline() == clock.now() + 3300
    clock.advance(3300)
    op.link.on_time(clock.now())
    hour = int(clock.now()) * 1000
    assert (op.output.values, op.output.timestamps) == ([(hour - 3_600_000, hour)], [hour - 1])


# Contexts, state, errors --------------------------------------------------------------------------------


class WithState(ProcessWindowFunction):  # type: ignore[type-arg]
    """Counts firings per window and per key."""

    FIRINGS = ValueStateDescriptor("firings", Types.INT())

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        counts = []
        for store in (context.window_state(), context.global_state()):
            state = store.get_state(self.FIRINGS)
            state.update((state.value() or 0) + 1)
            counts.append(state.value())
        yield context.window().start, *counts

    def clear(self, context: Any) -> None:
        context.window_state().get_state(self.FIRINGS).clear()
        context.global_state().get_state(self.FIRINGS).update(-context.window().end)


@BOTH
def test_window_functions_have_state_per_window_and_per_key(trigger: Any) -> None:
    op = windows(TumblingEventTimeWindows(10), trigger, function=WithState(), lateness=5)
    push(op, (1, 5))
    op.watermark(9)
    push(op, (2, 5), (3, 12))
    assert emitted(op) == [(0, 1, 1), (0, 2, 2)]
    op.watermark(14)  # clear() of the first window
    push(op, (4, 13))
    op.watermark(19)
    assert emitted(op) == [(10, 1, -9)]
    op.watermark(END)
    left = {
        table_id.namespaced: dict(table)
        for table_id, table in op.operator._state.tables()  # type: ignore[attr-defined]
        if table
    }
    assert left == {False: {"a": -20}}


def test_per_window_state_is_refused_with_merging_windows() -> None:
    op = windows(EventTimeSessionWindows(5), function=WithState())
    push(op, (1, 5))
    with pytest.raises(UserCodeError, match="per-window state is not available with merging windows"):
        op.watermark(END)


class Tagging(ProcessWindowFunction):  # type: ignore[type-arg]
    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        from firesteel.contracts.output_tag import OutputTag

        context.output(OutputTag("side"), "handed over")
        yield "main"
        yield OutputTag("side"), "yielded"


@BOTH
def test_window_functions_have_side_outputs(trigger: Any) -> None:
    op = windows(TumblingEventTimeWindows(10), trigger, function=Tagging())
    push(op, (1, 5))
    op.watermark(9)
    assert (op.output.values, op.output.sides) == (["main"], {"side": ["handed over", "yielded"]})
    assert op.output.side_timestamps == {"side": [9, 9]}


@BOTH
def test_a_record_without_timestamp_is_refused_with_a_sentence(trigger: Any) -> None:
    op = windows(TumblingEventTimeWindows(10), trigger)
    with pytest.raises(UserCodeError, match=r"without a timestamp .* assign_timestamps_and_watermarks"):
        op.process([("a", 1)])
    with pytest.raises(UserCodeError, match="without a timestamp"):
        op.process([("a", 1), ("a", 2)], [5, None])


def failing(a: Any, b: Any) -> Any:
    raise ValueError("no")


@BOTH
def test_an_error_names_the_record(trigger: Any) -> None:
    op = windows(TumblingEventTimeWindows(10), trigger, failing)
    with pytest.raises(UserCodeError, match=r"\('a', 2\)"):
        push(op, (1, 5), (2, 6), (3, 7))


class FailingFunction(ProcessWindowFunction):  # type: ignore[type-arg]
    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        raise ValueError("no")


@BOTH
def test_an_error_of_a_window_function_names_key_and_window(trigger: Any) -> None:
    op = windows(TumblingEventTimeWindows(10), trigger, function=FailingFunction())
    push(op, (1, 5))
    with pytest.raises(UserCodeError) as caught:
        op.watermark(9)
    notes = [
        note for error in (caught.value, caught.value.__cause__) for note in getattr(error, "__notes__", [])
    ]
    assert "for key 'a' and TimeWindow(start=0, end=10)" in "".join([*notes, str(caught.value)])


def test_many_results_leave_in_batches() -> None:
    op = windows(TumblingEventTimeWindows(10), aggregator=add)
    op.process([(key, 1) for key in range(3000)], [5] * 3000)
    op.watermark(9)
    assert [len(batch) for batch in op.output.batches] == [1024, 1024, 952]


class Lists(AggregateFunction):
    """Changes and returns its accumulator."""

    def create_accumulator(self) -> Any:
        return []

    def add(self, value: Any, accumulator: Any) -> Any:
        accumulator.append(value[1])
        return accumulator

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a + acc_b


@BOTH
def test_results_do_not_change_when_the_window_goes_on(trigger: Any) -> None:
    op = windows(TumblingEventTimeWindows(10), trigger, Lists(), lateness=5)
    push(op, (1, 5))
    op.watermark(9)
    push(op, (2, 5), (3, 5))
    assert emitted(op) == [[1], [1, 2], [1, 2, 3]]


def test_the_operator_is_chosen_by_what_the_windows_need() -> None:
    assert isinstance(windows(TumblingEventTimeWindows(5)).operator, PaneWindowOperator)
    assert isinstance(windows(SlidingEventTimeWindows(5, 2), aggregator=Lists()).operator, PaneWindowOperator)
    assert isinstance(windows(TumblingEventTimeWindows(5), CountTrigger(2)).operator, WindowOperator)
    assert isinstance(windows(TumblingEventTimeWindows(5), evictor=CountEvictor(2)).operator, WindowOperator)


def test_processing_timeout_trigger_fires_when_nothing_else_does() -> None:
    op = windows(
        GlobalWindows.create(), PurgingTrigger.of(ProcessingTimeoutTrigger.of(CountTrigger.of(3), 100))
    )
    clock = op.services.clock
    push(op, (1, 0), (2, 0))
    assert op.operator.next_deadline() == pytest.approx(clock.now() + 0.101)
    clock.advance(0.101)
    op.link.on_time(clock.now())
    assert emitted(op) == [[1, 2]]
    push(op, (3, 0), (4, 0), (5, 0))
    assert emitted(op) == [[3, 4, 5]]
    clock.advance(1)
    op.link.on_time(clock.now())
    assert emitted(op) == [], "firing has stopped the time-out"


def test_delta_trigger_compares_with_the_element_that_fired_last() -> None:
    trigger = DeltaTrigger.of(5, lambda old, new: new[1] - old[1])
    op = windows(GlobalWindows.create(), PurgingTrigger.of(trigger))
    push(op, (1, 0), (4, 0), (7, 0), (9, 0), (13, 0))
    assert emitted(op) == [[1, 4, 7], [9, 13]]


def test_merging_a_trigger_with_value_state_is_refused_when_it_happens() -> None:
    class Sneaky(EventTimeTrigger):
        def on_merge(self, window: Any, ctx: Any) -> None:
            ctx.merge_partitioned_state(ValueStateDescriptor("x", Types.INT()))

    op = windows(EventTimeSessionWindows(5), Sneaky())
    with pytest.raises(UserCodeError, match="cannot merge"):
        push(op, (1, 0), (2, 4))


def test_merge_that_returns_nothing_is_refused_when_windows_merge() -> None:
    class NoMerge(Lists):
        def merge(self, acc_a: Any, acc_b: Any) -> Any:
            pass

    op = windows(EventTimeSessionWindows(5), aggregator=NoMerge())
    push(op, (1, 0), (2, 8))
    with pytest.raises(UserCodeError, match=r"NoMerge.merge\(\) returned None"):
        push(op, (3, 4))


def test_count_windows_are_numbered() -> None:
    assert CountWindow(3).id == 3
    with pytest.raises(ProgramError, match="at least 1 element"):
        CountTrigger.of(0)


def test_continuous_trigger_of_a_window_without_end_fires_once_more_when_the_input_ends() -> None:
    op = windows(GlobalWindows.create(), ContinuousEventTimeTrigger.of(5))
    push(op, (1, 1))
    op.watermark(5)
    assert emitted(op) == [[1]]
    push(op, (2, 7))
    op.watermark(END)
    assert emitted(op) == [[1, 2], [1, 2]], "at 10 and at the end, not at every 5 ms until then"


def test_continuous_trigger_of_a_window_with_an_end_fires_at_every_interval_when_the_input_ends() -> None:
    op = windows(TumblingEventTimeWindows.of(12), ContinuousEventTimeTrigger.of(5))
    push(op, (1, 1))
    op.watermark(END)
    assert emitted(op) == [[1], [1], [1]], "at 5, at 10, and at 11, the end"


# Triggers and assigners that forget to return something -------------------------------------------------


class Forgetful(Trigger):  # type: ignore[type-arg]
    """Sets a timer of both kinds and returns nothing from one method."""

    def __init__(self, method: str) -> None:
        self.method = method

    def _result(self, method: str) -> Any:
        return None if method == self.method else TriggerResult.CONTINUE

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> Any:
        ctx.register_event_time_timer(5)
        ctx.register_processing_time_timer(ctx.get_current_processing_time() + 5)
        return self._result("on_element")

    def on_event_time(self, time: int, window: Any, ctx: Any) -> Any:
        return self._result("on_event_time")

    def on_processing_time(self, time: int, window: Any, ctx: Any) -> Any:
        return self._result("on_processing_time")

    def on_merge(self, window: Any, ctx: Any) -> None: ...

    def clear(self, window: Any, ctx: Any) -> None: ...


@pytest.mark.parametrize("method", ["on_element", "on_event_time", "on_processing_time"])
@pytest.mark.parametrize(
    "around",
    [lambda trigger: trigger, PurgingTrigger.of, lambda trigger: ProcessingTimeoutTrigger.of(trigger, 1000)],
    ids=["alone", "in PurgingTrigger", "in ProcessingTimeoutTrigger"],
)
def test_a_trigger_without_a_decision_is_named(method: str, around: Any) -> None:
    op = windows(TumblingEventTimeWindows(10), around(Forgetful(method)))
    expected = rf"Forgetful.{method}\(\) returned None, expected a TriggerResult"
    moments = {
        "on_element": lambda: push(op, (1, 3)),
        "on_event_time": lambda: op.watermark(7),
        "on_processing_time": lambda: op.advance(0.1),
    }
    if method != "on_element":
        push(op, (1, 3))
    with pytest.raises(UserCodeError, match=expected):
        moments[method]()


class Odd(TumblingEventTimeWindows):
    """Returns something else than a list of windows."""

    def __init__(self, result: Any) -> None:
        super().__init__(10)
        self.result = result

    def assign_windows(self, element: Any, timestamp: int, context: Any) -> Any:
        return self.result


@pytest.mark.parametrize("result", [None, TimeWindow(0, 10), 7])
def test_an_assigner_that_returns_no_list_is_named(result: Any) -> None:
    op = windows(Odd(result), OwnTrigger())
    with pytest.raises(UserCodeError) as caught:
        push(op, (1, 3))
    assert f"Odd.assign_windows() returned {result!r}, expected a list of windows" in str(caught.value)


@pytest.mark.parametrize("result", [(TimeWindow(0, 10),), {TimeWindow(0, 10)}, []])
def test_an_assigner_may_return_any_collection(result: Any) -> None:
    op = windows(Odd(result), OwnTrigger())
    push(op, (1, 3))
    op.watermark(END)
    assert emitted(op) == [[1] for _ in result]
