"""Who is asked when somebody wants to know the state of a key: the task that owns the key, and nobody else.

Tasks say which of their states are queryable when they open. A key goes the way of records: the declared type of the keys makes a
value of what came as JSON, `KeyForm` the key that state knows, its key group leads to the subtask, and that to a task. With the
attempt all of it is over, also for those who wait for an answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from firesteel.common import options
from firesteel.common.configuration import Configuration
from firesteel.common.errors import (
    InvalidKeyError,
    ProgramError,
    QueryableStateError,
    UnknownKeyOrNamespaceError,
    UnknownKvStateLocationError,
    UnknownLocationError,
    short_repr,
)
from firesteel.common.typeinfo import TypeInformation
from firesteel.formats.json_values import reader
from firesteel.jobmaster.instructions import AnswerQuery, SendToTasks
from firesteel.plan.job_plan import JobPlan, OperatorPlan
from firesteel.plan.key_groups import key_group_of, subtask_of_group
from firesteel.plan.keys import KeyForm, KeyRule
from firesteel.plan.messages import QueryableStateRegistered, QueryState, StateAnswered, TaskId
from firesteel.plan.operator_specs import RuntimeMode

__all__ = ["QueryableState", "QueryableStates"]

#: How many queries may wait for their tasks: those who ask faster than tasks answer are told so.
_MOST = 1024
_DEEPEST = 32


@dataclass(frozen=True, slots=True)
class QueryableState:
    """A state of the job that others may ask for; types as text, empty when none is declared."""

    name: str
    kind: str
    type: str
    key_type: str
    vertex: int
    operator_id: str
    operator: str


class _Location:
    """Where a state is: which subtask has a key."""

    def __init__(self, plan: JobPlan, registered: QueryableStateRegistered) -> None:
        self.registered = registered
        self._vertex = vertex = plan.vertices[registered.vertex]
        self.operator = next(each for each in vertex.operators if each.id == registered.operator_id)
        self.key_type = _key_type(self.operator)
        self._read = _tupled if self.key_type is None else reader(self.key_type)
        self._form = KeyForm(self.key_type)
        self.present: set[int] = set()

    @property
    def shown(self) -> QueryableState:
        registered = self.registered
        key_type = "" if self.key_type is None else str(self.key_type)
        return QueryableState(
            registered.name,
            registered.kind,
            registered.type,
            key_type,
            registered.vertex,
            registered.operator_id,
            self.operator.name,
        )

    def same_state(self, other: QueryableStateRegistered) -> bool:
        mine = self.registered
        return (mine.vertex, mine.operator_id, mine.state) == (other.vertex, other.operator_id, other.state)

    def find(self, key: Any) -> tuple[TaskId, int, Any]:
        """The task and subtask of a key that came as JSON, and the key as state knows it."""
        formed = self._form(self._read(key))
        vertex = self._vertex
        group = key_group_of(formed, vertex.max_parallelism)
        subtask = subtask_of_group(group, vertex.max_parallelism, vertex.parallelism)
        return TaskId(vertex.stage, vertex.first_task + subtask), subtask, formed

    def task_ended(self, task: TaskId) -> None:
        if task.stage == self._vertex.stage:
            self.present.discard(task.index - self._vertex.first_task)


class QueryableStates:
    """The states and queries of one job; a pure machine."""

    def __init__(self, plan: JobPlan) -> None:
        self._plan = plan
        self._enabled = Configuration.from_dict(dict(plan.options)).get(options.QUERYABLE_STATE)
        self._states: dict[str, _Location] = {}
        self._open: dict[int, tuple[str, Any, TaskId]] = {}
        #: Those that are known now, by name; may be read from any thread.
        self.shown: tuple[QueryableState, ...] = ()

    def change_plan(self, plan: JobPlan) -> None:
        """The next attempt runs as this plan, with another parallelism say; between two attempts."""
        self._plan = plan

    def registered(self, state: QueryableStateRegistered) -> ProgramError | None:
        """A subtask has a state under a name; what is wrong with that, if anything is."""
        location = self._states.get(state.name)
        if location is None:
            location = self._states[state.name] = _Location(self._plan, state)
            self.shown = tuple(self._states[name].shown for name in sorted(self._states))
        elif not location.same_state(state):
            first, second = location.registered, state
            return ProgramError(
                f"two states of job '{self._plan.name}' are queryable as {state.name!r}: {self._describe(first)} and "
                f"{self._describe(second)}; give each a name of its own in set_queryable()"
            )
        location.present.add(state.subtask)
        return None

    def _describe(self, state: QueryableStateRegistered) -> str:
        operators = self._plan.vertices[state.vertex].operators
        name = next(each.name for each in operators if each.id == state.operator_id)
        return f"{state.state!r} of '{name}'"

    def ask(self, request: int, name: str, key: Any) -> SendToTasks | AnswerQuery:
        """Somebody wants to know what a state holds for a key, which came as JSON."""
        try:
            if _is_deep(key):
                raise InvalidKeyError(
                    f"{short_repr(key)} is no key: its parts are nested more than {_DEEPEST} times"
                )
            task, formed = self._find(name, key)
        except Exception as error:  # noqa: BLE001 - a key comes from outside: whatever is wrong with it must not harm the job
            return AnswerQuery(request, None, error)
        self._open[request] = (name, key, task)
        return SendToTasks((task,), QueryState(request, name, formed))

    def _find(self, name: str, key: Any) -> tuple[TaskId, Any]:
        location = self._states.get(name)
        if location is None:
            raise self._unknown(name)
        task, subtask, formed = location.find(key)
        if subtask not in location.present:
            raise UnknownLocationError(
                f"subtask {subtask + 1} of '{location.operator.name}', which owns the key {short_repr(key)}, does not have "
                f"the state {name!r} yet, or has ended: ask again later"
            )
        if len(self._open) >= _MOST:
            raise UnknownLocationError(
                f"{_MOST} queries of job '{self._plan.name}' wait for its tasks, which is as many as may: ask again later"
            )
        return task, formed

    def _unknown(self, name: str) -> QueryableStateError:
        job = f"job '{self._plan.name}'"
        if not self._enabled:
            return QueryableStateError(
                f"nobody can ask for states of {job}: start it with '{options.QUERYABLE_STATE.key}' set to true"
            )
        if self._plan.mode is RuntimeMode.BATCH:
            return QueryableStateError(
                f"{job} runs in BATCH, where a state is there only while its key is processed"
            )
        known = ", ".join(repr(each.name) for each in self.shown)
        there = (
            f"these are: {known}"
            if known
            else "none is so far; its functions make states queryable when they ask for them"
        )
        return UnknownKvStateLocationError(f"no state of {job} is queryable as {name!r}; {there}")

    def answered(self, answer: StateAnswered) -> AnswerQuery | None:
        """A task has answered; None when nobody waits any more."""
        asked = self._open.pop(answer.question, None)
        if asked is None:
            return None
        name, key, _ = asked
        if answer.problem:
            error = QueryableStateError(f"state {name!r} of key {short_repr(key)}: {answer.problem}")
            return AnswerQuery(answer.question, None, error)
        if answer.value is None:
            nothing = UnknownKeyOrNamespaceError(
                f"state {name!r} holds nothing for the key {short_repr(key)}"
            )
            return AnswerQuery(answer.question, None, nothing)
        return AnswerQuery(answer.question, answer.value)

    def task_ended(self, task: TaskId) -> list[AnswerQuery]:
        """A task has processed all its input and ended, and its states with it."""
        for location in self._states.values():
            location.task_ended(task)
        waiting = [request for request, (_, _, asked) in self._open.items() if asked == task]
        return [self._late(request, "its task has ended") for request in waiting if self._open.pop(request)]

    def end_attempt(self) -> list[AnswerQuery]:
        """The tasks are told to end: who waits for one hears that it will not answer."""
        waiting, self._open = self._open, {}
        self._states, self.shown = {}, ()
        return [self._late(request, "it ended or began to restart") for request in waiting]

    def _late(self, request: int, what: str) -> AnswerQuery:
        error = f"no answer of job '{self._plan.name}': {what} before it had answered; ask again later"
        return AnswerQuery(request, None, UnknownLocationError(error))

    @property
    def is_enabled(self) -> bool:
        """Whether the job lets others ask for its states."""
        return self._enabled


def _key_type(operator: OperatorPlan) -> TypeInformation | None:
    """The declared type of an operator's keys."""
    selectors = [each for each in operator.key_selectors if each is not None]
    return KeyRule.of(selectors[0].load()).type if selectors else None


def _is_deep(key: Any) -> bool:
    """Whether a key is nested so deeply that to hash or to pickle it could end in a RecursionError."""
    level = [key]
    for _ in range(_DEEPEST):
        nested = [
            each.values() if isinstance(each, dict) else each
            for each in level
            if isinstance(each, dict | list)
        ]
        level = [part for parts in nested for part in parts]
        if not level:
            return False
    return True


def _tupled(key: Any) -> Any:
    """A key without a declared type: arrays stand for tuples, for lists are seldom keys."""
    return tuple(map(_tupled, key)) if isinstance(key, list) else key
