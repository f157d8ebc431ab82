"""Windows fold in order of arrival, never share what can change, and let results flow out while they are made.

Every test runs on each backend and with each kind of operator that can do the work, and cuts its input into chunks of
several sizes: nothing of that may show.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from firesteel.contracts.functions import (
    AggregateFunction,
    ProcessWindowFunction,
    ReduceFunction,
    RuntimeContext,
    merges_exactly,
)
from firesteel.contracts.output_tag import OutputTag
from firesteel.datastream._rolling_aggregates import RollingExtremeBy, RollingSum
from firesteel.datastream.window import (
    ContinuousEventTimeTrigger,
    CountEvictor,
    CountSlidingWindowAssigner,
    CountTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    Evictor,
    GlobalWindows,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from firesteel.plan.operator_specs import WindowSpec
from firesteel.plan.shipped import Shipped
from firesteel.state.snapshot.keyed_snapshot import write_block
from firesteel.testing._operator_harness import OperatorHarness
from firesteel.testing.state_stores import DictStore

END = 2**63 - 1
BACKENDS = {
    "hashmap": {"state.backend.type": "hashmap"},
    "disk": {"state.backend.type": "disk", "state.backend.disk.cache-entries": "2"},
    "custom": {"state.backend.type": f"{__name__}:open_store"},
}


def open_store(context: Any) -> DictStore:
    return DictStore()


class OwnTrigger(EventTimeTrigger):
    """The default trigger under another name: makes the general operator do the work."""


def rich(function: Any) -> Any:
    """The same function with an ``open`` of its own."""
    if isinstance(function, AggregateFunction | ReduceFunction):
        kind = type(function)
        return type(f"Rich{kind.__name__}", (kind,), {"open": _opened})(**vars(function))

    class Rich(ReduceFunction):
        def open(self, runtime_context: RuntimeContext) -> None: ...

        def reduce(self, value1: Any, value2: Any) -> Any:
            return function(value1, value2)

    return Rich()


def _opened(self: Any, runtime_context: RuntimeContext) -> None: ...


class Windows:
    """One way to run windows: a backend, a kind of operator, a size of chunks."""

    def __init__(self, backend: str, is_general: bool, is_rich: bool, chunk: int) -> None:
        self.options = BACKENDS[backend]
        self.is_general = is_general
        self.is_rich = is_rich
        self.chunk = chunk

    def harness(
        self,
        assigner: Any,
        aggregator: Any = None,
        function: Any = None,
        trigger: Any = None,
        evictor: Any = None,
        lateness: int = 0,
    ) -> OperatorHarness:
        trigger = trigger or assigner.get_default_trigger(None)
        if self.is_general and type(trigger) is EventTimeTrigger:
            trigger = OwnTrigger()
        if self.is_rich and aggregator is not None:
            aggregator = rich(aggregator)
        arguments = [assigner, trigger, aggregator, function, evictor]
        shipped = [None if argument is None else Shipped.of(argument, "test") for argument in arguments]
        self.spec = WindowSpec(*shipped, lateness, "late")  # type: ignore[arg-type]
        return OperatorHarness(self.spec, keys=(key_of,), options=self.options)

    def run(self, events: list[Any], *args: Any, **more: Any) -> list[Any]:
        """Results in order; events are pairs of record and timestamp, or watermarks."""
        harness = self.harness(*args, **more)
        events = copy.deepcopy(events)  # the operator may do with its input what it likes
        for kind, group in itertools.groupby([*events, END], key=lambda event: type(event) is int):
            if kind:
                for watermark in group:
                    harness.watermark(watermark)
                continue
            records = list(group)
            for at in range(0, len(records), self.chunk):
                part = records[at : at + self.chunk]
                harness.process([record for record, _ in part], [time for _, time in part])
        harness.state.close()
        return harness.output.values


def key_of(record: Any) -> Any:
    return record["key"] if isinstance(record, dict) else record[0]


WAYS = [
    pytest.param(Windows(backend, is_general, is_rich, chunk), id=name)
    for name, backend, is_general, is_rich, chunk in (
        ("hashmap", "hashmap", False, False, 1024),
        ("hashmap, one by one", "hashmap", False, False, 1),
        ("hashmap, by 7", "hashmap", False, False, 7),
        ("hashmap, rich", "hashmap", False, True, 1024),
        ("hashmap, general", "hashmap", True, False, 1024),
        ("disk", "disk", False, False, 1024),
        ("disk, rich, by 7", "disk", False, True, 7),
        ("custom", "custom", False, False, 1024),
    )
]
ways = pytest.mark.parametrize("way", WAYS)
SLIDING = SlidingEventTimeWindows(10, 5)


def records(*pairs: tuple[Any, int]) -> list[Any]:
    return [(("a", value), time) for value, time in pairs]


# Order of arrival -----------------------------------------------------------------------------------------


def counted(a: Any, b: Any) -> Any:
    return a[0], a[1] + 1


@ways
def test_a_reduce_that_looks_at_its_first_argument_only_counts_right(way: Windows) -> None:
    found = way.run(records((1, 0), (1, 1), (1, 6), (1, 7)), SLIDING, counted)
    assert sorted(found) == [("a", 2), ("a", 2), ("a", 4)]


@ways
def test_the_last_that_arrived_wins_whatever_its_time(way: Windows) -> None:
    events = records((1, 6), (2, 7), (3, 1), (4, 2))
    found = way.run(events, SLIDING, lambda a, b: b)
    assert sorted(found) == [("a", 2), ("a", 4), ("a", 4)]


@ways
@pytest.mark.parametrize("is_first", [True, False])
def test_of_equal_ones_the_first_or_last_that_arrived_is_taken(way: Windows, is_first: bool) -> None:
    events = [(("a", 5, "late pane"), 6), (("a", 5, "early pane"), 1), (("a", 1, "small"), 2)]
    function = RollingExtremeBy(1, largest=True, first=is_first)
    found = way.run(events, SLIDING, function if not way.is_rich else lambda a, b: function.reduce(a, b))
    # [-5, 5), [0, 10), [5, 15)
    assert [each[2] for each in found] == [
        "early pane",
        "late pane" if is_first else "early pane",
        "late pane",
    ]


@ways
def test_sums_of_floats_are_those_of_the_order_of_arrival(way: Windows) -> None:
    values = [0.1, 1e16, 0.7, -1e16, 0.3, 1e-9]
    times = [9, 1, 6, 2, 8, 0]
    function = RollingSum(1)
    events = records(*zip(values, times, strict=True))
    found = way.run(events, SLIDING, function if not way.is_rich else lambda a, b: function.reduce(a, b))
    assert ("a", ((((0.1 + 1e16) + 0.7) + -1e16) + 0.3) + 1e-9) in found


class Text(AggregateFunction):
    """What came, in order; ``merge`` is not for use."""

    def create_accumulator(self) -> Any:
        return ""

    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator + str(value[1])

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        raise AssertionError("merge is for windows that merge")


class TextWithoutMerge(Text):
    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return None


class TextOfOne(Text):
    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a


@ways
@pytest.mark.parametrize("function", [Text(), TextWithoutMerge(), TextOfOne()])
@pytest.mark.parametrize("lateness", [0, 20])
def test_merge_is_never_called_for_windows_that_do_not_merge(
    way: Windows, function: Any, lateness: int
) -> None:
    assigner = SlidingEventTimeWindows(10, 2)
    events = [*records((1, 0), (2, 9), (3, 5), (4, 3)), 4, *records((5, 9), (6, 2))]
    found = way.run(events, assigner, function, lateness=lateness)
    assert sorted(found) == sorted(expected_texts([0, 9, 5, 3], [9, 2], 4, lateness))


def expected_texts(first: list[int], second: list[int], watermark: int, lateness: int) -> list[str]:
    """What windows of ten every two give, record by record."""
    texts: dict[int, str] = {}
    fired: list[str] = []
    for number, time in enumerate(first + second, 1):
        is_second = number > len(first)
        if number == len(first) + 1:
            fired += [text for start, text in texts.items() if start + 9 <= watermark]
            if lateness == 0:
                texts = {start: text for start, text in texts.items() if start + 9 > watermark}
        for start in range(-10, 12, 2):
            if not start <= time < start + 10:
                continue
            has_fired = is_second and start + 9 <= watermark
            if has_fired and start + 9 + lateness <= watermark:
                continue
            texts[start] = texts.get(start, "") + str(number)
            if has_fired:
                fired.append(texts[start])
    return fired + [text for start, text in texts.items() if start + 9 > watermark]


@ways
def test_a_window_larger_than_its_slide_is_a_multiple_of_or_not(way: Windows) -> None:
    for size, slide in ((7, 3), (10, 4), (4, 7), (6, 10), (1, 1), (9, 1)):
        times = [0, 13, 5, 3, 8, 2, 21, 1]
        texts: dict[int, str] = {}
        for number, time in enumerate(times):
            for start in range(-30 * slide, 30 * slide, slide):
                if start <= time < start + size:
                    texts[start] = texts.get(start, "") + str(number)
        found = way.run(records(*enumerate(times)), SlidingEventTimeWindows(size, slide), Text())
        assert found == [texts[start] for start in sorted(texts)]


class Calls(AggregateFunction):
    """Numbers its own calls, so that it shows in which order they come."""

    def __init__(self, calls: int = 0) -> None:
        self.calls = calls

    def create_accumulator(self) -> Any:
        return ()

    def add(self, value: Any, accumulator: Any) -> Any:
        self.calls += 1
        return (*accumulator, self.calls)

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        raise AssertionError("merge is for windows that merge")


@ways
def test_records_are_added_one_after_the_other_and_to_their_latest_window_first(way: Windows) -> None:
    found = way.run(records((1, 6), (1, 7), (1, 11)), SLIDING, Calls())
    assert found == [(2, 4), (1, 3, 6), (5,)]


@ways
@pytest.mark.parametrize(
    "trigger", [CountTrigger.of(2), PurgingTrigger.of(CountTrigger.of(2)), ContinuousEventTimeTrigger(3)]
)
def test_triggers_see_what_was_folded_in_order_of_arrival(way: Windows, trigger: Any) -> None:
    events = [*records((1, 7), (2, 1), (3, 6)), 3, *records((4, 5), (5, 9))]
    found = way.run(events, SLIDING, Text(), trigger=trigger)
    reference = Windows("hashmap", True, False, 1).run(events, SLIDING, Text(), trigger=trigger)
    assert found == reference
    assert all(text == "".join(sorted(text)) for text in found)


@ways
def test_sessions_merge_in_order_of_time(way: Windows) -> None:
    class Merged(Text):
        def merge(self, acc_a: Any, acc_b: Any) -> Any:
            return f"({acc_a}+{acc_b})"

    events = records((1, 20), (2, 0), (3, 10), (4, 5), (5, 15))
    assert way.run(events, EventTimeSessionWindows(6), Merged()) == ["((2+3)4+1)5"]
    assert way.run(events, EventTimeSessionWindows(6), lambda a, b: ("a", f"{a[1]}{b[1]}")) == [
        ("a", "23415")
    ]


# Functions that say that merging is exact -----------------------------------------------------------------


@merges_exactly
class Count(AggregateFunction):
    merged = 0

    def create_accumulator(self) -> Any:
        return 0

    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator + 1

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        type(self).merged += 1  # of the class that the task has
        return acc_a + acc_b


@ways
def test_a_function_may_say_that_merging_is_exact(way: Windows) -> None:
    events = [*records((1, 0), (1, 9), (1, 5)), 4, *records((1, 2), (1, 7))]
    found = way.run(events, SlidingEventTimeWindows(10, 2), Count())
    unsaid = type("Unsaid", (Count,), {"merges_exactly": False})()
    assert found == way.run(events, SlidingEventTimeWindows(10, 2), unsaid)


@pytest.mark.parametrize("says_so", [True, False])
def test_parts_are_shared_only_when_the_function_says_so(says_so: bool) -> None:
    kind = type("CountOfTest", (Count,), {"merged": 0, "merges_exactly": says_so})
    harness = Windows("hashmap", False, False, 1024).harness(SlidingEventTimeWindows(10, 2), kind())
    harness.process([("a", 1)] * 3, [1, 5, 9])
    harness.watermark(END)
    function: Any = harness.operator._definition.aggregator.instance  # type: ignore[attr-defined]
    assert harness.output.values == [1, 1, 2, 2, 3, 2, 2, 1, 1]
    assert (type(function).merged > 0) == says_so


def test_a_plain_function_may_say_it_too() -> None:
    @merges_exactly
    def added(a: Any, b: Any) -> Any:
        return a[0], a[1] + b[1]

    way = Windows("hashmap", False, False, 1024)
    assert way.run(records((1, 0), (2, 6)), SLIDING, added) == [("a", 1), ("a", 3), ("a", 2)]
    with pytest.raises(TypeError, match="merges_exactly"):
        merges_exactly(3)


# What can change ------------------------------------------------------------------------------------------


def dicts(*pairs: tuple[Any, int]) -> list[Any]:
    return [({"key": "a", "values": [value]}, time) for value, time in pairs]


def taken_over(a: Any, b: Any) -> Any:
    """Changes both arguments in place."""
    a["values"] += b["values"]
    b["values"].append("used")
    return a


@ways
def test_a_reduce_that_changes_its_arguments_changes_no_other_window(way: Windows) -> None:
    found = way.run(dicts((1, 6), (2, 7), (3, 8)), SlidingEventTimeWindows(10, 2), taken_over)
    assert [each["values"] for each in found] == [[1, 2], *[[1, 2, 3]] * 4, [3]]


class Keeping(AggregateFunction):
    """Keeps the records themselves, and changes them when they are added."""

    def create_accumulator(self) -> Any:
        return []

    def add(self, value: Any, accumulator: Any) -> Any:
        value["values"].append(len(accumulator))
        accumulator.append(value)
        return accumulator

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        raise AssertionError("merge is for windows that merge")


@ways
def test_an_aggregate_that_changes_records_changes_them_in_one_window_only(way: Windows) -> None:
    found = way.run(dicts((10, 6), (20, 8), (30, 11)), SLIDING, Keeping())
    assert [[each["values"] for each in window] for window in found] == [
        [[10, 0], [20, 1]],
        [[10, 0], [20, 1], [30, 2]],
        [[30, 0]],
    ]


class Spoiling(ProcessWindowFunction):  # type: ignore[type-arg]
    """Shows the elements, then changes them and the list."""

    def process(self, key: Any, context: Any, elements: Any) -> Iterable[Any]:
        yield [list(element["values"]) for element in elements]
        for element in elements:
            element["values"].append("spoilt")
        if isinstance(elements, list):
            elements.clear()


SPOILT = [
    *dicts((1, 6), (2, 7)),
    9,
    *dicts((3, 8)),
]


@ways
def test_elements_may_be_changed_without_a_later_firing_or_another_window_seeing_it(way: Windows) -> None:
    found = way.run(SPOILT, SLIDING, None, Spoiling(), lateness=5)
    assert found == [[[1], [2]], [[1], [2], [3]], [[1], [2], [3]]]
    found = way.run(SPOILT, TumblingEventTimeWindows(10), None, Spoiling(), lateness=5)
    assert found == [[[1], [2]], [[1], [2], [3]]]
    found = way.run(SPOILT, EventTimeSessionWindows(3), None, Spoiling(), lateness=9)
    assert found == [[[1], [2]], [[1], [2], [3]]]


@ways
def test_what_was_reduced_may_be_changed_by_the_window_function(way: Windows) -> None:
    found = way.run(SPOILT, TumblingEventTimeWindows(10), taken_over, Spoiling(), lateness=5)
    assert found == [[[1, 2]], [[1, 2, 3]]]
    found = way.run(SPOILT, EventTimeSessionWindows(3), taken_over, Spoiling(), lateness=9)
    assert found == [[[1, 2]], [[1, 2, 3]]]


@ways
def test_elements_of_count_windows_may_be_changed(way: Windows) -> None:
    events = dicts((1, 0), (2, 0), (3, 0), (4, 0))
    assigner = CountSlidingWindowAssigner(2, 1)
    assert way.run(events, assigner, None, Spoiling()) == [[[1], [2]], [[2], [3]], [[3], [4]]]
    found = way.run(events, CountSlidingWindowAssigner(2, 1), taken_over, Spoiling())
    assert found == [[[1, 2]], [[2, 3]], [[3, 4]]]


@ways
def test_early_firings_leave_the_window_as_it_is(way: Windows) -> None:
    events = dicts((1, 0), (2, 0), (3, 0))
    found = way.run(events, GlobalWindows.create(), None, Spoiling(), trigger=CountTrigger.of(1))
    assert found == [[[1]], [[1], [2]], [[1], [2], [3]]]
    found = way.run(events, GlobalWindows.create(), taken_over, Spoiling(), trigger=CountTrigger.of(1))
    assert found == [[[1]], [[1, 2]], [[1, 2, 3]]]
    found = way.run(events, GlobalWindows.create(), taken_over, trigger=CountTrigger.of(1))
    assert [each["values"] for each in found] == [[1], [1, 2], [1, 2, 3]]


class SpoilingEvictor(Evictor):  # type: ignore[type-arg]
    """Changes all elements before and after the function, and removes the first one when there are three."""

    def evict_before(self, elements: Any, size: int, window: Any, evictor_context: Any) -> None:
        for element in elements:
            element.value["values"].append("before")

    def evict_after(self, elements: Any, size: int, window: Any, evictor_context: Any) -> None:
        for element in elements:
            element.value["values"].append("after")
        if len(elements) == 3:
            del elements[0]


@ways
def test_an_evictor_decides_what_stays_and_changes_nothing_of_it(way: Windows) -> None:
    events = dicts((1, 0), (2, 0), (3, 0), (4, 0))
    found = way.run(
        events, GlobalWindows.create(), None, Spoiling(), CountTrigger.of(1), evictor=SpoilingEvictor()
    )
    assert [[values[0] for values in each] for each in found] == [[1], [1, 2], [1, 2, 3], [2, 3, 4]]
    assert all(values[1:] == ["before"] for each in found for values in each)
    found = way.run(
        events, GlobalWindows.create(), taken_over, None, CountTrigger.of(1), evictor=CountEvictor.of(3)
    )
    assert [each["values"] for each in found] == [[1], [1, 2], [1, 2, 3], [2, 3, 4]]


class Reusing(ProcessWindowFunction):  # type: ignore[type-arg]
    """Yields one and the same object again and again."""

    def __init__(self) -> None:
        self.row: dict[str, Any] = {}

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterator[Any]:
        for number, _ in enumerate(elements):
            self.row["number"] = number
            context.output(ASIDE, self.row)
            yield self.row
            yield ASIDE, self.row
        self.row.clear()


ASIDE = OutputTag("aside")


@ways
def test_what_a_window_function_yields_is_a_value(way: Windows) -> None:
    harness = way.harness(TumblingEventTimeWindows(10), None, Reusing())
    harness.process([("a", n) for n in range(3)], [0, 1, 2])
    harness.watermark(END)
    harness.state.close()
    assert harness.output.values == [{"number": n} for n in range(3)]
    assert harness.output.sides["aside"] == [{"number": n} for n in (0, 0, 1, 1, 2, 2)]


# Results flow out -----------------------------------------------------------------------------------------


class Many(ProcessWindowFunction):  # type: ignore[type-arg]
    """Yields ever more, and notes how far it was when something left."""

    def __init__(self, count: int, aside: bool = False) -> None:
        self.count = count
        self.aside = aside

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterator[Any]:
        for number in range(self.count):
            Progress.made += 1
            if self.aside:
                context.output(ASIDE, number)
            else:
                yield number


class Progress:
    """How many results were made, and the most that were made and had not left."""

    made = left = most = 0

    @classmethod
    def watch(cls, harness: OperatorHarness) -> None:
        cls.made = cls.left = cls.most = 0

        def emit(values: list[Any], timestamps: Any) -> None:
            cls.most = max(cls.most, cls.made - cls.left, len(values))
            cls.left += len(values)

        harness.output.emit = emit  # type: ignore[method-assign]
        harness.output.emit_side = lambda tag, values, stamps: emit(values, stamps)  # type: ignore[method-assign]


@ways
@pytest.mark.parametrize("aside", [False, True])
@pytest.mark.parametrize(
    "assigner",
    [TumblingEventTimeWindows(10), SLIDING, EventTimeSessionWindows(3), CountSlidingWindowAssigner(1, 1)],
    ids=lambda assigner: type(assigner).__name__,
)
def test_results_leave_while_a_function_makes_them(way: Windows, assigner: Any, aside: bool) -> None:
    harness = way.harness(assigner, None, Many(10_000, aside))
    Progress.watch(harness)
    harness.process([("a", 1)], [5])
    harness.watermark(END)
    harness.state.close()
    assert Progress.made == Progress.left >= 10_000
    assert Progress.most <= 1024


@ways
def test_results_of_many_windows_and_keys_leave_while_they_are_made(way: Windows) -> None:
    class Counting(Text):
        def get_result(self, accumulator: Any) -> Any:
            Progress.made += 1
            return accumulator

    for aggregator, function, results in ((Counting(), None, 5_000), (Text(), Many(3), 15_000)):
        harness = way.harness(SlidingEventTimeWindows(10, 1), aggregator, function)
        Progress.watch(harness)
        harness.process([(key, 1) for key in range(500)], [5] * 500)
        harness.watermark(END)
        harness.state.close()
        assert Progress.made == Progress.left == results
        assert Progress.most <= 1024


# Saved state of earlier versions --------------------------------------------------------------------------


def going_on(way: Windows, blocks: list[Any], *args: Any, **more: Any) -> list[Any]:
    """What windows emit that were saved in blocks of panes, after two more records and at the end."""
    if way.is_general:
        pytest.skip("another trigger, so these were other windows")
    way.harness(*args, **more).state.close()
    again = OperatorHarness(way.spec, keys=(key_of,), options=way.options, snapshot=Blocks(blocks))  # type: ignore[arg-type]
    again.watermark(7)
    again.process([("a", 7), ("b", 8)], [9, 9])
    again.watermark(END)
    assert again.state.unregistered() == []
    again.state.close()
    return again.output.values


class Blocks:
    """Stands for a snapshot."""

    def __init__(self, blocks: list[Any]) -> None:
        self._blocks = blocks

    def restore(self, state: Any, operator_state: Any) -> None:
        for block in self._blocks:
            state.restore_block(write_block(block))


class Sum(AggregateFunction):
    def create_accumulator(self) -> Any:
        return 0

    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator + value[1]

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a + acc_b


PANES = "\0panes"
#: Panes of windows of ten every five, when windows up to 7 had fired.
SHARED = [
    ("entries", PANES, ["a"], [1], (0, 7)),
    ("entries", PANES, ["a", "b"], [2, 30], (5, 7)),
]


@ways
def test_merged_panes_of_earlier_versions_go_on(way: Windows) -> None:
    found = going_on(way, SHARED, SLIDING, Sum())
    assert sorted(found) == [9, 10, 38, 38]  # [0, 10) and [5, 15) of a and b


@ways
def test_merged_panes_go_on_with_a_function_that_says_that_merging_is_exact(way: Windows) -> None:
    found = going_on(way, SHARED, SLIDING, merges_exactly(type("ExactSum", (Sum,), {}))())
    assert sorted(found) == [9, 10, 38, 38]


@ways
def test_lists_of_windows_of_earlier_versions_go_on(way: Windows) -> None:
    class Listed(ProcessWindowFunction):  # type: ignore[type-arg]
        def process(self, key: Any, context: Any, elements: Any) -> Iterable[Any]:
            yield [element[1] for element in elements]

    blocks = [
        ("entries", PANES, ["a"], [[("a", 1), ("a", 2)]], (0, 7)),
        ("entries", PANES, ["a"], [[("a", 2)]], (5, 7)),
    ]
    assert sorted(going_on(way, blocks, SLIDING, None, Listed())) == [[1, 2, 7], [2, 7], [8], [8]]


@ways
def test_windows_that_had_stopped_sharing_go_on(way: Windows) -> None:
    blocks = [
        ("entries", PANES, ["a"], [3], (0, 7, "window")),
        ("entries", PANES, ["a"], [2], (5, 7, "window")),
    ]
    assert sorted(going_on(way, blocks, SLIDING, Sum())) == [8, 8, 9, 10]
    exact = merges_exactly(type("ExactSum", (Sum,), {}))()
    assert sorted(going_on(way, blocks, SLIDING, exact)) == [8, 8, 9, 10]


@ways
@pytest.mark.parametrize("says_so_first", [True, False])
def test_a_function_may_begin_and_cease_to_say_that_merging_is_exact(
    way: Windows, says_so_first: bool
) -> None:
    exact = merges_exactly(type("ExactSum", (Sum,), {}))()
    before, after = (exact, Sum()) if says_so_first else (Sum(), exact)
    if way.is_rich:
        before, after = rich(before), rich(after)
    harness = way.harness(SLIDING, Sum())
    harness.state.close()
    specs = [replace(way.spec, aggregator=Shipped.of(each, "test")) for each in (before, after, before)]
    snapshot, found = None, []
    for spec, time in zip(specs, (3, 8, 13), strict=True):
        harness = OperatorHarness(spec, keys=(key_of,), options=way.options, snapshot=snapshot)
        harness.watermark(time - 1)
        harness.process([("a", time), ("b", 1)], [time, time])
        found += harness.output.values
        snapshot = harness.snapshot()
        harness.state.close()
    harness = OperatorHarness(specs[0], keys=(key_of,), options=way.options, snapshot=snapshot)
    harness.watermark(END)
    harness.state.close()
    found += harness.output.values
    # [-5, 5), [0, 10), [5, 15), [10, 20), each of a and b
    assert found == [3, 1, 11, 2, 21, 2, 13, 1]


def test_times_far_apart_take_no_space() -> None:
    harness = Windows("hashmap", False, False, 1024).harness(SlidingEventTimeWindows(1000, 1), Sum())
    harness.process([("a", 1), ("a", 2)], [0, 10**15])
    harness.watermark(10**14)
    assert harness.output.values == [1] * 1000
    assert harness.operator._store._tables.keys() == {  # type: ignore[attr-defined]
        10**15 // 2000 * 2000,
        10**15 // 2000 * 2000 - 2000,
    }


def test_with_object_reuse_nothing_is_copied() -> None:
    record = {"key": "a", "values": [1]}
    way = Windows("hashmap", False, False, 1024)
    way.options = {"pipeline.object-reuse": "true"}
    for aggregator, function in ((taken_over, None), (None, Emitting())):
        harness = way.harness(SLIDING, aggregator, function, lateness=5)
        harness.process([record], [7])
        harness.watermark(20)
        assert [each is record for each in harness.output.values] == [True, True]


class Emitting(ProcessWindowFunction):  # type: ignore[type-arg]
    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        return elements
