"""Queries of state in the job master: who is asked, and what those hear who have asked."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from firesteel.common.errors import (
    InvalidKeyError,
    QueryableStateError,
    TypeMismatchError,
    UnknownKeyOrNamespaceError,
    UnknownKvStateLocationError,
    UnknownLocationError,
)
from firesteel.common.typeinfo import TypeInformation, Types
from firesteel.jobmaster.instructions import AnswerQuery, SendToTasks
from firesteel.jobmaster.queryable_states import QueryableStates
from firesteel.plan.job_plan import JobPlan, OperatorPlan, StagePlan, VertexPlan
from firesteel.plan.key_groups import KeyAssignment
from firesteel.plan.keys import KeyForm, KeyRule
from firesteel.plan.messages import QueryableStateRegistered, QueryState, StateAnswered, TaskId
from firesteel.plan.operator_specs import ProcessSpec, RuntimeMode
from firesteel.plan.shipped import Shipped

PARALLELISM, GROUPS, FIRST_TASK = 4, 128, 2


def first(record: Any) -> Any:
    return record[0]


def plan(
    key_type: TypeInformation | None = None, mode: RuntimeMode = RuntimeMode.STREAMING, enable: str = "true"
) -> JobPlan:
    selector = Shipped.of(KeyRule(first, key_type), "key_by()")
    spec = ProcessSpec(Shipped.of(first, "process()"))
    operators = (
        OperatorPlan("a" * 32, "Count", spec, key_selectors=(selector,)),
        OperatorPlan("b" * 32, "Sum", spec, key_selectors=(selector,), parent=0),
    )
    source = VertexPlan(0, "Source", 0, 0, 1, GROUPS, ())
    counts = VertexPlan(1, "Counts", 1, FIRST_TASK, PARALLELISM, GROUPS, operators)
    stages = (StagePlan(0, 1, (0,)), StagePlan(1, 6, (1,)))
    return JobPlan("job", mode, stages, (source, counts), (), {"queryable-state.enable": enable})


def registered(
    name: str = "counts", subtask: int = 0, operator: str = "a", state: str = "count"
) -> QueryableStateRegistered:
    return QueryableStateRegistered(name, 1, subtask, operator * 32, state, "value", "Long")


def states(key_type: TypeInformation | None = None, subtasks: int = PARALLELISM) -> QueryableStates:
    machine = QueryableStates(plan(key_type))
    for subtask in range(subtasks):
        assert machine.registered(registered(subtask=subtask)) is None
    return machine


def error_of(answer: object) -> BaseException:
    assert isinstance(answer, AnswerQuery)
    assert answer.error is not None
    return answer.error


KEYS: list[tuple[TypeInformation | None, Any]] = [
    (None, "ada"),
    (None, 3),
    (None, ("ada", 3)),
    (Types.STRING(), "ada"),
    (Types.DOUBLE(), 3.0),
    (Types.TUPLE([Types.STRING(), Types.LONG()]), ("ada", 3)),
    (Types.LIST(Types.LONG()), [1, 2]),
]


@pytest.mark.parametrize(("key_type", "key"), KEYS, ids=str)
def test_the_task_is_asked_to_which_records_of_the_key_go(key_type: TypeInformation | None, key: Any) -> None:
    form = KeyForm(key_type)
    subtask = KeyAssignment(GROUPS, PARALLELISM, form).assign(key)
    sent = states(key_type).ask(1, "counts", json.loads(json.dumps(key)))
    assert sent == SendToTasks((TaskId(1, FIRST_TASK + subtask),), QueryState(1, "counts", form(key)))


def test_an_answer_goes_to_the_one_who_has_asked() -> None:
    machine = states()
    machine.ask(1, "counts", "ada")
    machine.ask(2, "counts", "alan")
    assert machine.answered(StateAnswered(2, b"7")) == AnswerQuery(2, b"7")
    nothing = error_of(machine.answered(StateAnswered(1)))
    assert isinstance(nothing, UnknownKeyOrNamespaceError)
    assert str(nothing) == "state 'counts' holds nothing for the key 'ada'"
    assert machine.answered(StateAnswered(1, b"7")) is None, "nobody waits for it any more"


def test_a_problem_of_the_task_is_told() -> None:
    machine = states()
    machine.ask(1, "counts", "ada")
    error = error_of(machine.answered(StateAnswered(1, problem="ValueError: no")))
    assert type(error) is QueryableStateError
    assert str(error) == "state 'counts' of key 'ada': ValueError: no"


def test_a_state_that_is_not_there_is_told_with_those_that_are() -> None:
    error = error_of(states().ask(1, "sums", "ada"))
    assert isinstance(error, UnknownKvStateLocationError)
    assert str(error) == "no state of job 'job' is queryable as 'sums'; these are: 'counts'"
    assert "none is so far" in str(error_of(QueryableStates(plan()).ask(1, "sums", "ada")))


def test_jobs_without_the_option_and_in_batch_are_never_asked() -> None:
    assert "queryable-state.enable" in str(
        error_of(QueryableStates(plan(enable="false")).ask(1, "counts", 1))
    )
    assert "BATCH" in str(error_of(QueryableStates(plan(mode=RuntimeMode.BATCH)).ask(1, "counts", 1)))


@pytest.mark.parametrize(
    ("key_type", "key", "error"),
    [
        (Types.STRING(), 3, TypeMismatchError),
        (Types.INT(), 2**40, TypeMismatchError),
        (None, float("nan"), InvalidKeyError),
        (None, json.loads("[" * 40 + "]" * 40), InvalidKeyError),
    ],
)
def test_what_is_no_key_is_refused(key_type: TypeInformation | None, key: Any, error: type) -> None:
    assert isinstance(error_of(states(key_type).ask(1, "counts", key)), error)


def test_a_subtask_that_has_not_said_that_it_has_the_state_is_not_asked() -> None:
    machine = states(subtasks=0)
    machine.registered(registered(subtask=0))
    answers = [machine.ask(number, "counts", number) for number in range(20)]
    late = [error_of(each) for each in answers if isinstance(each, AnswerQuery)]
    assert len(late) < 20
    assert {type(each) for each in late} == {UnknownLocationError}


def test_with_the_attempt_all_is_over() -> None:
    machine = states()
    machine.ask(1, "counts", "ada")
    assert [state.name for state in machine.shown] == ["counts"]
    (answer,) = machine.end_attempt()
    assert answer.request == 1
    assert isinstance(answer.error, UnknownLocationError)
    assert machine.shown == ()
    assert machine.end_attempt() == []
    assert isinstance(error_of(machine.ask(2, "counts", "ada")), UnknownKvStateLocationError)


def test_with_a_task_its_part_is_over() -> None:
    machine = states()
    sent = machine.ask(1, "counts", "ada")
    assert isinstance(sent, SendToTasks)
    (task,) = sent.tasks
    assert machine.task_ended(TaskId(0, task.index)) == [], "another stage"
    (answer,) = machine.task_ended(task)
    assert isinstance(error_of(answer), UnknownLocationError)
    assert isinstance(error_of(machine.ask(2, "counts", "ada")), UnknownLocationError)


def test_two_states_of_one_name_are_a_mistake_of_the_program() -> None:
    machine = states()
    problem = machine.registered(registered(operator="b", state="sum"))
    assert str(problem) == (
        "two states of job 'job' are queryable as 'counts': 'count' of 'Count' and 'sum' of 'Sum'; give each a name of its "
        "own in set_queryable()"
    )


def test_with_another_plan_keys_may_have_another_subtask() -> None:
    machine = states()
    machine.end_attempt()
    narrow = plan()
    narrow = replace(narrow, vertices=(narrow.vertices[0], replace(narrow.vertices[1], parallelism=1)))
    machine.change_plan(narrow)
    machine.registered(registered())
    for number in range(20):
        sent = machine.ask(number, "counts", number)
        assert isinstance(sent, SendToTasks)
        assert sent.tasks == (TaskId(1, FIRST_TASK),)


def test_those_who_ask_too_fast_are_told_so() -> None:
    machine = states()
    for number in range(1024):
        assert isinstance(machine.ask(number, "counts", number), SendToTasks)
    assert isinstance(error_of(machine.ask(1024, "counts", 1)), UnknownLocationError)
    machine.answered(StateAnswered(5, b"1"))
    assert isinstance(machine.ask(1025, "counts", 1), SendToTasks)
