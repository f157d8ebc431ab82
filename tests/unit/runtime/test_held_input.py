"""Input that waits for another input to end: nothing lost, order kept, in one task and in whole jobs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from firesteel.common.configuration import Configuration
from firesteel.common.errors import DataLossError
from firesteel.common.time import MAX_WATERMARK
from firesteel.common.typeinfo import Types
from firesteel.contracts.functions import BroadcastProcessFunction, KeyedBroadcastProcessFunction
from firesteel.contracts.state import MapStateDescriptor
from firesteel.datastream.execution_mode import RuntimeExecutionMode
from firesteel.graph.stream_graph import Edge
from firesteel.plan.exchange import Broadcast, Rebalance
from firesteel.plan.job_plan import JobPlan
from firesteel.plan.operator_specs import BroadcastProcessSpec
from firesteel.plan.shipped import Shipped
from firesteel.runtime.elements import END_OF_INPUT, Chunk, Element, WatermarkSignal
from firesteel.runtime.wire_format import encode
from firesteel.testing import simulated_environment
from firesteel_support.flow import Flow
from firesteel_support.task_harness import TaskHarness

RULES = MapStateDescriptor("rules", Types.STRING(), Types.STRING())


# A task --------------------------------------------------------------------------------------------------


class Explain(BroadcastProcessFunction[Any, Any, Any]):
    """Each record with the rule for it, if it has come before."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield f"{value}={ctx.get_broadcast_state(RULES).get(value)}"

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        ctx.get_broadcast_state(RULES).put(value, value.upper())


def plan(mode: str = "BATCH", rules: int = 1) -> JobPlan:
    """Words, and rules from so many sources."""
    flow = Flow()
    words = flow.source(["a"])
    broadcast = tuple(Edge(flow.source(["a"]), Broadcast(), 1) for _ in range(rules))
    explained = flow.graph.add(
        "Explain",
        BroadcastProcessSpec(Shipped.of(Explain(), "test"), (RULES,)),
        (Edge(words, Rebalance(), 0), *broadcast),
        parallelism=1,
    )
    flow.collect(explained, "out")
    return flow.plan(**{"execution.runtime-mode": mode})


def row(element: Element, sequence: int, edge: int) -> bytes:
    return encode(element, edge, 0, 0, sequence)


WORDS, RULES_EDGE = 0, 1


def ending(edge: int, *first: Element) -> list[bytes]:
    return [row(e, i, edge) for i, e in enumerate([*first, WatermarkSignal(MAX_WATERMARK), END_OF_INPUT])]


def collected(task: TaskHarness) -> list[Any]:
    import pickle

    return [value for _, blob in task.services.blobs for value in pickle.loads(blob)]


def test_in_batch_the_broadcast_input_is_read_first() -> None:
    task = TaskHarness(plan(), stage=1)
    for payload in ending(WORDS, Chunk(["a"]), Chunk(["b"])):
        task.task.receive(payload)
    assert not task.task.ready()
    assert not task.task.poll()
    for payload in ending(RULES_EDGE, Chunk(["b", "a"])):
        task.task.receive(payload)
    assert collected(task) == []
    task.task.input_ended()
    assert task.task.ready()
    assert not task.task.finished
    assert task.task.poll()
    assert collected(task) == ["a=A", "b=B"]
    assert task.task.finished
    assert not task.task.ready()


def test_it_is_read_when_the_last_awaited_channel_has_ended() -> None:
    task = TaskHarness(plan(rules=2), stage=1)
    for payload in [*ending(WORDS, Chunk(["a"])), *ending(RULES_EDGE, Chunk(["a"]))]:
        task.task.receive(payload)
    assert task.task.may_receive
    for payload in ending(RULES_EDGE + 1):
        assert collected(task) == []
        task.task.receive(payload)
    assert not task.task.may_receive
    assert task.task.poll()
    assert collected(task) == ["a=A"]


def test_nothing_is_received_while_held_payloads_are_read() -> None:
    task = TaskHarness(plan(), stage=1)
    words = ending(WORDS, *[Chunk([str(i)]) for i in range(100)])
    for payload in [*words[:40], *ending(RULES_EDGE, Chunk(["7"]))]:
        assert task.task.may_receive
        task.task.receive(payload)
    assert task.task.poll()
    assert 0 < len(collected(task)) < 40  # a few at a time, so that results can leave in between
    assert not task.task.may_receive
    while not task.task.may_receive:
        task.task.poll()
    assert len(collected(task)) == 40
    for payload in words[40:]:
        task.task.receive(payload)
    assert collected(task) == [f"{i}={'7' if i == 7 else None}" for i in range(100)]
    assert task.task.finished


def test_after_the_held_payloads_input_is_processed_as_it_arrives() -> None:
    task = TaskHarness(plan(), stage=1)
    words = ending(WORDS, Chunk(["a"]), Chunk(["b"]))
    for payload in ending(RULES_EDGE, Chunk(["b"])):
        task.task.receive(payload)
    task.task.poll()
    task.task.receive(words[0])
    task.task.receive(words[1])
    assert collected(task) == ["a=None", "b=B"]


def test_an_end_that_is_missing_among_held_payloads_is_noticed() -> None:
    task = TaskHarness(plan(), stage=1)
    for payload in [*ending(WORDS, Chunk(["a"]))[:-1], *ending(RULES_EDGE)]:
        task.task.receive(payload)
    task.task.input_ended()
    with pytest.raises(DataLossError, match="stopped before its end was announced"):
        task.task.poll()


def test_an_awaited_input_that_never_ends_is_noticed() -> None:
    task = TaskHarness(plan(), stage=1)
    for payload in ending(WORDS, Chunk(["a"])):
        task.task.receive(payload)
    with pytest.raises(DataLossError, match="stopped before its end was announced"):
        task.task.input_ended()


def test_a_task_that_is_cancelled_forgets_what_it_holds() -> None:
    task = TaskHarness(plan(), stage=1)
    task.task.receive(row(Chunk(["a"]), 0, WORDS))
    assert task.task.close() == []
    assert collected(task) == []


def test_in_streaming_nothing_waits() -> None:
    task = TaskHarness(plan("STREAMING"), stage=1)
    task.task.receive(row(Chunk(["a"]), 0, WORDS))
    assert collected(task) == ["a=None"]


# Whole jobs ----------------------------------------------------------------------------------------------


class ExplainKeyed(KeyedBroadcastProcessFunction[Any, Any, Any, Any]):
    """The same on a keyed stream."""

    process_element = Explain.process_element  # type: ignore[assignment]
    process_broadcast_element = Explain.process_broadcast_element


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("seed", range(25))
def test_every_record_of_a_batch_job_meets_all_that_is_broadcast(keyed: bool, seed: int) -> None:
    env = simulated_environment(seed, parallelism=2, configuration=Configuration())
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    words = [f"w{i}" for i in range(200)]
    stream = env.from_collection(words).map(lambda w: w).rebalance()
    rules = env.from_collection(words).map(lambda w: w).map(lambda w: w).broadcast(RULES)
    if keyed:
        explained = stream.key_by(lambda w: w).connect(rules).process(ExplainKeyed())
    else:
        explained = stream.connect(rules).process(Explain())
    with explained.execute_and_collect() as results:
        assert sorted(results) == sorted(f"{w}={w.upper()}" for w in words)
