"""Whether a program can resume from a checkpoint or savepoint: finds each operator's state, or says what does not fit.

State belongs to an operator id; a ``uid`` fixes the id whatever else changes. The rules:

- An operator that is new, or had no state, starts empty.
- State whose operator is gone stops the start, unless the user allows to drop it (``-n``).
- Keyed state is cut into as many key groups as the operator had as maximum parallelism. That number can never change;
  an operator for which the program names none adopts the old one.
- The parallelism may change, up to the maximum parallelism.
- What an operator keeps by itself - keys, the records in windows and joins, reduced values - must have the type that
  it had. A type is known when the program declares it; one that it leaves open now, or did then, is not compared.

The states that functions ask for are compared in the tasks, when they do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from firesteel.checkpoint.manifest import OperatorState
from firesteel.checkpoint.storage import shown
from firesteel.checkpoint.stored_checkpoint import StoredCheckpoint
from firesteel.common.errors import IncompatibleStateError
from firesteel.plan.state_handles import OperatorRestore, TaskRestore

__all__ = ["Match", "ProgramOperator", "match", "shown_operator"]

_REMEDY = (
    "to drop this state, start with -n (--allowNonRestoredState); to keep it, give the operator that the state "
    "belongs to its old uid"
)


@dataclass(frozen=True, slots=True)
class ProgramOperator:
    """An operator of the program that is to start.

    ``max_parallelism_is_given`` is False when the program leaves the maximum parallelism open.
    """

    id: str
    name: str
    parallelism: int
    max_parallelism: int
    uid: str | None = None
    stateful: bool = True
    max_parallelism_is_given: bool = True
    state_types: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Match:
    """How to start.

    ``max_parallelism`` holds, by operator id, numbers that operators adopt from their state instead of the
    default, and ``state_types`` what is known of the types of their state, from now and from before. ``dropped`` are
    the operators whose state is left behind, because the user allows it.
    """

    restore: TaskRestore
    enumerators: Mapping[str, bytes] = field(default_factory=dict)
    max_parallelism: Mapping[str, int] = field(default_factory=dict)
    state_types: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    dropped: tuple[OperatorState, ...] = ()


def match(
    stored: StoredCheckpoint, program: Iterable[ProgramOperator], allow_non_restored: bool = False
) -> Match:
    """Find the state of each operator of a program, or raise `IncompatibleStateError`."""
    operators = {operator.id: operator for operator in program}
    restorable = [state for state in stored.manifest.operators if _can_restore(operators.get(state.id))]
    lost = tuple(state for state in stored.manifest.operators if state.has_state and state not in restorable)
    if lost and not allow_non_restored:
        raise IncompatibleStateError(_unmatched(stored, lost, operators.values()))
    adopted = {
        state.id: state.max_parallelism
        for state in restorable
        if _adopts_max_parallelism(operators[state.id], state)
    }
    known_types = {
        state.id: _known_types(operators[state.id], state) for state in restorable if state.has_state
    }
    restored = {
        state.id: OperatorRestore(state.parallelism, state.max_parallelism, state.subtasks)
        for state in restorable
    }
    return Match(
        TaskRestore(stored.manifest.checkpoint_id, stored.root, restored),
        {state.id: state.enumerator for state in restorable if state.enumerator is not None},
        adopted,
        known_types,
        lost,
    )


def _can_restore(operator: ProgramOperator | None) -> bool:
    return operator is not None and operator.stateful


def _adopts_max_parallelism(operator: ProgramOperator, state: OperatorState) -> bool:
    """Whether the operator adopts the old number; refuses what cannot go together."""
    if not state.has_keyed_state:
        return False
    if operator.parallelism > state.max_parallelism:
        raise IncompatibleStateError(
            f"{shown_operator(operator)} is to run with parallelism {operator.parallelism}, but its state was written with "
            f"max parallelism {state.max_parallelism}, which can never change; set its parallelism to at most "
            f"{state.max_parallelism}"
        )
    if operator.max_parallelism == state.max_parallelism:
        return False
    if operator.max_parallelism_is_given:
        raise IncompatibleStateError(
            f"{shown_operator(operator)} has max parallelism {operator.max_parallelism}, but its state was written with "
            f"max parallelism {state.max_parallelism}, which can never change; call "
            f"set_max_parallelism({state.max_parallelism})"
        )
    return True


def _known_types(operator: ProgramOperator, state: OperatorState) -> dict[str, str]:
    """The types of what an operator keeps by itself; refuses another one than it was saved with."""
    for what, saved in state.types.items():
        declared = operator.state_types.get(what, saved)
        if declared != saved and (what != "keys" or state.has_keyed_state):
            raise IncompatibleStateError(
                f"{shown_operator(operator)} cannot take its state: expected {what} of type {declared}, found {what} of type "
                f"{saved}; go back to the old type, write a savepoint with converted state "
                "(firesteel.state_processor), or give the operator another uid and drop the old state with -n "
                "(--allowNonRestoredState)"
            )
    return {**state.types, **operator.state_types}


def _unmatched(
    stored: StoredCheckpoint, lost: tuple[OperatorState, ...], program: Iterable[ProgramOperator]
) -> str:
    lines = [
        f"{shown(stored.location) or 'the checkpoint'} has state that no operator of the program can take:",
        *(f"  {shown_operator(state)}: {_described_states(state)}" for state in lost),
        _REMEDY,
    ]
    if any(state.uid is None for state in lost):
        lines.append(
            "an operator without a uid is recognised by its position in the program: a change before it makes it another "
            "one; set_uid_hash() with the id above gives it back its state, and uid() on every operator with state keeps "
            "this from happening"
        )
    saved = {state.id for state in stored.manifest.operators}
    new = [shown_operator(operator) for operator in program if operator.stateful and operator.id not in saved]
    if new:
        lines.append(f"operators that would start without state: {', '.join(new)}")
    return "\n".join(lines)


def shown_operator(operator: ProgramOperator | OperatorState) -> str:
    """Its name and what it is known by."""
    known_by = f"uid {operator.uid!r}" if operator.uid is not None else f"no uid, id {operator.id}"
    return f"operator {operator.name!r} ({known_by})"


def _described_states(state: OperatorState) -> str:
    names = [f"{meta.name!r} ({meta.kind})" for meta in state.states if not meta.name.startswith("\0")]
    if state.enumerator is not None or any(meta.name == "\0splits" for meta in state.states):
        names.append("positions of its source")
    return ", ".join(names) or "state of the operator itself"
