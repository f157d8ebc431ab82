"""Broadcast process functions: who may write what, timers on one side, every key visited, in jobs as by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from firesteel.common.errors import JobExecutionError, ProgramError, WrongArgumentError
from firesteel.common.typeinfo import Types
from firesteel.contracts.functions import (
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
)
from firesteel.contracts.output_tag import OutputTag
from firesteel.contracts.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from firesteel.contracts.timers import TimeDomain
from firesteel.testing import FunctionHarness, simulated_environment

RULES = MapStateDescriptor("rules", Types.STRING(), Types.INT())
COUNT = ValueStateDescriptor("count", Types.INT())
LATE = OutputTag("late")


class Plain(BroadcastProcessFunction[Any, Any, Any]):
    """Each record with what the rules say about it."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value, ctx.get_broadcast_state(RULES).get(value)

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        ctx.get_broadcast_state(RULES).put(*value)


class Keyed(KeyedBroadcastProcessFunction[Any, Any, Any, Any]):
    """Runs the actions it is made with, so that each test can say what the two sides do."""

    def __init__(
        self,
        element: Callable[[Any, Any, Any], Any] | None = None,
        broadcast: Callable[[Any, Any, Any], Any] | None = None,
        timer: Callable[[Any, Any, Any], Any] | None = None,
    ) -> None:
        self.element, self.broadcast, self.timer = element, broadcast, timer

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(COUNT)

    def process_element(self, value: Any, ctx: Any) -> Any:
        return self.element and self.element(self, value, ctx)

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        return self.broadcast and self.broadcast(self, value, ctx)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        return self.timer and self.timer(self, timestamp, ctx)


def plain() -> FunctionHarness:
    return FunctionHarness(Plain(), broadcast_state=[RULES])


def keyed(**actions: Any) -> FunctionHarness:
    return FunctionHarness(Keyed(**actions), key_selector=lambda value: value, broadcast_state=[RULES])


# Broadcast state ------------------------------------------------------------------------------------


def test_the_broadcast_side_writes_what_the_other_side_reads() -> None:
    harness = plain()
    harness.process_element("x", timestamp=1)
    harness.process_broadcast_element(("x", 7))
    harness.process_element("x", timestamp=3)
    assert harness.take_records() == [(("x", None), 1), (("x", 7), 3)]
    assert harness.broadcast_state(RULES) == {"x": 7}


def test_all_of_a_map() -> None:
    seen = []

    def write(function: Any, value: Any, ctx: Any) -> Any:
        state = ctx.get_broadcast_state(RULES)
        state["x"] = 1
        state.put_all({"y": 2, "z": 3})
        del state["x"]
        state.remove("never there")
        yield sorted(state.items()), "y" in state, state["z"], state.is_empty()
        if value == "clear":
            state.clear()

    def read(function: Any, value: Any, ctx: Any) -> Any:
        state = ctx.get_broadcast_state(RULES)
        yield (
            sorted(state.keys()),
            sorted(state.values()),
            sorted(state),
            state.contains("y"),
            state.is_empty(),
        )

    harness = keyed(broadcast=write, element=read)
    for value in ("go", "clear"):
        harness.process_broadcast_element(value)
        harness.process_element("a")
        seen.append(harness.take_output())
    assert seen[0] == [
        ([("y", 2), ("z", 3)], True, 3, False),
        (["y", "z"], [2, 3], ["y", "z"], True, False),
    ]
    assert seen[1][1] == ([], [], [], False, True)


def _assign(state: Any) -> None:
    state["x"] = 1


def _delete(state: Any) -> None:
    del state["x"]


WRITES: list[Callable[[Any], None]] = [
    lambda state: state.put("x", 1),
    lambda state: state.put_all({}),
    lambda state: state.remove("x"),
    lambda state: state.clear(),
    _assign,
    _delete,
]


@pytest.mark.parametrize("write", WRITES)
def test_l20_broadcast_state_is_read_only_on_the_other_side(write: Any) -> None:
    harness = keyed(element=lambda function, value, ctx: write(ctx.get_broadcast_state(RULES)))
    with pytest.raises(JobExecutionError, match=r"'rules'.*read only.*process_broadcast_element"):
        harness.process_element("a")


def test_l20_broadcast_state_is_read_only_in_timers() -> None:
    harness = keyed(
        element=lambda function, value, ctx: ctx.timer_service().register_event_time_timer(1),
        timer=lambda function, timestamp, ctx: ctx.get_broadcast_state(RULES).put("x", 1),
    )
    harness.process_element("a")
    with pytest.raises(JobExecutionError, match="read only"):
        harness.process_watermark(1)


TOUCHES: list[Callable[[Any], Any]] = [
    lambda state: state.value(),
    lambda state: state.update(1),
    lambda state: state.clear(),
]


@pytest.mark.parametrize("touch", TOUCHES)
def test_l20_keyed_state_cannot_be_touched_from_the_broadcast_side(touch: Any) -> None:
    harness = keyed(
        element=lambda function, value, ctx: function.count.update(1),
        broadcast=lambda function, value, ctx: touch(function.count),
    )
    for push in (lambda: None, lambda: harness.process_element("a")):
        push()
        with pytest.raises(JobExecutionError, match=r"belongs to no key.*apply_to_keyed_state"):
            harness.process_broadcast_element("x")


def test_l20_apply_to_keyed_state_visits_every_key() -> None:
    def visit(function: Any, value: Any, ctx: Any) -> None:
        def change(key: Any, state: Any) -> None:
            state.update(None if key == "b" else state.value() + value)

        ctx.apply_to_keyed_state(COUNT, change)
        with pytest.raises(Exception, match="belongs to no key"):
            function.count.value()

    harness = keyed(
        element=lambda function, value, ctx: function.count.update((function.count.value() or 0) + 1),
        broadcast=visit,
    )
    harness.process_elements("abca")
    harness.process_broadcast_element(10)
    assert [harness.state(key, COUNT) for key in "abc"] == [12, None, 11]
    harness.process_element("c")
    assert harness.state("c", COUNT) == 12


def test_apply_to_keyed_state_of_a_kind_and_name_of_its_own() -> None:
    names = ListStateDescriptor("names", Types.STRING())

    class Named(Keyed):
        def open(self, runtime_context: Any) -> None:
            self.names = runtime_context.get_list_state(names)

        def process_element(self, value: Any, ctx: Any) -> None:
            self.names.add(value)

        def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
            found: list[Any] = []
            ctx.apply_to_keyed_state(names, lambda key, state: found.append((key, list(state))))
            return found

    harness = FunctionHarness(Named(), key_selector=lambda value: value[0], broadcast_state=[RULES])
    harness.process_elements(["ab", "ac", "b"])
    harness.process_broadcast_element("x")
    assert harness.take_output() == [("a", ["ab", "ac"]), ("b", ["b"])]


def test_a_state_that_was_not_given_to_broadcast_is_named() -> None:
    other = MapStateDescriptor("other", Types.STRING(), Types.INT())
    harness = keyed(broadcast=lambda function, value, ctx: ctx.get_broadcast_state(other))
    with pytest.raises(JobExecutionError, match=r"no broadcast state 'other', only 'rules'.*broadcast\(\)"):
        harness.process_broadcast_element("x")


# Contexts -------------------------------------------------------------------------------------------


def test_both_sides_know_the_time() -> None:
    def tell(function: Any, value: Any, ctx: Any) -> Any:
        yield ctx.timestamp(), ctx.current_watermark(), ctx.current_processing_time()

    harness = FunctionHarness(
        Keyed(element=tell, broadcast=tell),
        key_selector=lambda value: value,
        broadcast_state=[RULES],
        processing_time=1_000,
    )
    harness.process_watermark(5)
    harness.process_element("a", timestamp=6)
    harness.advance_processing_time(1)
    harness.process_broadcast_element("x", timestamp=7)
    assert harness.take_records() == [((6, 5, 1000), 6), ((7, 5, 1001), 7)]


def test_the_keyed_side_has_keys_and_timers() -> None:
    def register(function: Any, value: Any, ctx: Any) -> None:
        ctx.timer_service().register_event_time_timer(10)
        ctx.timer_service().register_processing_time_timer(20)

    def fire(function: Any, timestamp: int, ctx: Any) -> Any:
        yield ctx.get_current_key(), ctx.time_domain(), timestamp, ctx.timestamp()

    harness = FunctionHarness(
        Keyed(element=register, timer=fire),
        key_selector=lambda value: value,
        broadcast_state=[RULES],
        processing_time=0,
    )
    harness.process_element("a")
    harness.process_broadcast_element("x")
    harness.process_watermark(10)
    harness.set_processing_time(20)
    assert harness.take_records() == [
        (("a", TimeDomain.EVENT_TIME, 10, 10), 10),
        (("a", TimeDomain.PROCESSING_TIME, 20, 20), None),
    ]


@pytest.mark.parametrize("ask", [lambda ctx: ctx.timer_service(), lambda ctx: ctx.get_current_key()])
def test_the_broadcast_side_has_neither(ask: Any) -> None:
    harness = keyed(broadcast=lambda function, value, ctx: ask(ctx))
    with pytest.raises(JobExecutionError, match="key"):
        harness.process_broadcast_element("x")


def test_the_function_without_keys_has_no_timers_and_no_keys() -> None:
    class Curious(Plain):
        def process_element(self, value: Any, ctx: Any) -> Any:
            return value(ctx)

        def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
            return value(ctx)

    harness = FunctionHarness(Curious(), broadcast_state=[RULES])
    with pytest.raises(JobExecutionError, match="timers need a keyed stream"):
        harness.process_element(lambda ctx: ctx.timer_service().register_event_time_timer(1))
    with pytest.raises(JobExecutionError, match="has no keys"):
        harness.process_element(lambda ctx: ctx.get_current_key())
    with pytest.raises(JobExecutionError, match="has no keys"):
        harness.process_broadcast_element(lambda ctx: ctx.apply_to_keyed_state(COUNT, print))


def test_both_sides_have_side_outputs() -> None:
    def aside(function: Any, value: Any, ctx: Any) -> Any:
        ctx.output(LATE, value)
        yield LATE, value * 2
        yield value

    harness = keyed(element=aside, broadcast=aside)
    harness.process_element("a")
    harness.process_broadcast_element("x")
    assert harness.take_output() == ["a", "x"]
    assert harness.take_side_output(LATE) == ["a", "aa", "x", "xx"]


# Snapshots ------------------------------------------------------------------------------------------


def test_broadcast_and_keyed_state_live_on_in_a_snapshot() -> None:
    actions: dict[str, Any] = {
        "element": lambda function, value, ctx: function.count.update(1),
        "broadcast": lambda function, value, ctx: ctx.get_broadcast_state(RULES).put(*value),
    }
    harness = keyed(**actions)
    harness.process_element("a")
    harness.process_broadcast_element(("x", 1))
    snapshot = harness.snapshot()
    harness.process_broadcast_element(("x", 2))
    later = FunctionHarness(
        Keyed(**actions), key_selector=lambda value: value, broadcast_state=[RULES], snapshot=snapshot
    )
    assert (later.broadcast_state("rules"), later.state("a", COUNT)) == ({"x": 1}, 1)


# In a program ---------------------------------------------------------------------------------------


class Sums(KeyedBroadcastProcessFunction[Any, Any, Any, Any]):
    """Waits for the rules, then multiplies."""

    def open(self, runtime_context: Any) -> None:
        self.waiting = runtime_context.get_list_state(ListStateDescriptor("waiting", Types.INT()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        factor = ctx.get_broadcast_state(RULES).get("factor")
        if factor is None:
            self.waiting.add(value)
        else:
            yield value * factor

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        ctx.get_broadcast_state(RULES).put("factor", value)
        ready: list[int] = []

        def release(key: Any, waiting: Any) -> None:
            ready.extend(element * value for element in waiting)
            waiting.clear()

        ctx.apply_to_keyed_state(ListStateDescriptor("waiting", Types.INT()), release)
        return ready


@pytest.mark.parametrize("seed", range(5))
def test_every_subtask_gets_the_broadcast_records(seed: int) -> None:
    env = simulated_environment(seed, parallelism=3)
    numbers = env.from_collection(list(range(20)))
    factor = env.from_collection([3]).broadcast(RULES)
    stream = numbers.key_by(lambda value: value % 7).connect(factor).process(Sums(), Types.INT())
    assert sorted(stream.execute_and_collect()) == [i * 3 for i in range(20)]


def test_without_keys_in_a_program() -> None:
    env = simulated_environment(parallelism=2)
    rules = env.from_collection([("x", 1)]).broadcast(RULES)
    stream = env.from_collection(["x", "y"]).connect(rules).process(Plain())
    assert sorted(word for word, _ in stream.execute_and_collect()) == ["x", "y"]


def test_each_kind_of_stream_needs_its_kind_of_function() -> None:
    env = simulated_environment()
    rules, words = env.from_collection([("x", 1)]).broadcast(RULES), env.from_collection(["x"])
    with pytest.raises(
        WrongArgumentError, match=r"process\(\) of a stream .* needs a BroadcastProcessFunction"
    ):
        words.connect(rules).process(Sums())
    with pytest.raises(
        WrongArgumentError, match=r"of a keyed stream .* needs a KeyedBroadcastProcessFunction"
    ):
        words.key_by(len).connect(rules).process(Plain())
    with pytest.raises(WrongArgumentError, match="KeyedBroadcastProcessFunction"):
        words.key_by(len).connect(rules).process(KeyedProcessFunction)  # type: ignore[arg-type]


def test_streams_of_two_environments_cannot_be_connected() -> None:
    rules = simulated_environment().from_collection([("x", 1)]).broadcast(RULES)
    with pytest.raises(ProgramError, match="streams of one environment"):
        simulated_environment().from_collection(["x"]).connect(rules)
