"""Who answers queries of state: the task, and while it waits for its receivers the thread that brings them."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from firesteel.common.typeinfo import Types
from firesteel.contracts.state import ListStateDescriptor, ValueStateDescriptor
from firesteel.plan.messages import QueryState, StateAnswered
from firesteel.runtime.queryable_states import TaskQueryableStates
from firesteel.spark.query_desk import QueryDesk
from firesteel.state.hashmap_backend import HashMapBackend
from firesteel.state.keyed_backend import KeyedBackend


def states_of(backend: KeyedBackend) -> TaskQueryableStates:
    states = TaskQueryableStates()
    states.watch(backend, 1, 0, "a" * 32)
    descriptor = ValueStateDescriptor("count", Types.LONG())
    descriptor.set_queryable("counts")
    state = backend.get_state(descriptor)
    backend.turn_to("ada")
    state.update(3)
    return states


class ElsewhereBackend(HashMapBackend):
    """As a backend whose records only the thread of the task may read."""

    is_in_memory = False


def test_a_task_answers_when_it_has_time() -> None:
    sent: list[Any] = []
    desk, states = QueryDesk(sent.append), states_of(HashMapBackend())
    desk.put(QueryState(1, "counts", "ada"))
    desk.put(QueryState(2, "counts", "nobody"))
    desk.put(QueryState(3, "sums", "ada"))
    assert sent == [], "nobody else may read meanwhile"
    desk.answer(states)
    assert sent == [
        StateAnswered(1, b"3"),
        StateAnswered(2),
        StateAnswered(3, problem="the task that owns the key does not have the state"),
    ]
    assert not desk.waiting


@pytest.mark.parametrize(("backend", "is_answered"), [(HashMapBackend, True), (ElsewhereBackend, False)])
def test_while_a_task_waits_what_is_in_memory_is_read_by_others(
    backend: type[KeyedBackend], is_answered: bool
) -> None:
    sent: list[Any] = []
    desk, states = QueryDesk(sent.append), states_of(backend())
    desk.put(QueryState(1, "counts", "ada"))
    desk.begin_to_wait(states)
    other = threading.Thread(target=desk.put, args=(QueryState(2, "counts", "ada"),))
    other.start()
    other.join()
    assert sent == ([StateAnswered(1, b"3"), StateAnswered(2, b"3")] if is_answered else [])
    desk.end_to_wait()
    before = len(sent)
    desk.put(QueryState(3, "counts", "ada"))
    assert len(sent) == before, "the task is at work again"
    desk.answer(states)
    assert [answer.question for answer in sent] == [1, 2, 3]


def test_a_state_that_cannot_be_shown_harms_nobody() -> None:
    states, backend = TaskQueryableStates(), HashMapBackend()
    states.watch(backend, 1, 0, "a" * 32)
    descriptor = ListStateDescriptor("things", Types.PICKLED_BYTE_ARRAY())
    descriptor.set_queryable("things")
    state = backend.get_list_state(descriptor)
    backend.turn_to("ada")
    state.add(object)
    answer = states.answer(QueryState(1, "things", "ada"))
    assert answer.value is None
    assert "expected a value that has a form in JSON" in answer.problem


def test_an_answer_has_a_largest_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firesteel.runtime.queryable_states.MOST_BYTES", 0)
    answer = states_of(HashMapBackend()).answer(QueryState(1, "counts", "ada"))
    assert answer.problem == "it holds 1 bytes of JSON, and at most 0 are sent"


def test_states_tell_of_themselves_once() -> None:
    states = states_of(HashMapBackend())
    (registered,) = states.take_new()
    assert (registered.name, registered.state, registered.kind, registered.type) == (
        "counts",
        "count",
        "value",
        "Long",
    )
    assert states.take_new() == []
