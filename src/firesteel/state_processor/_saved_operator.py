"""One operator of a checkpoint or savepoint: finding it by what users call it, reading the state of its subtasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from firesteel.checkpoint.blocks import read_segment
from firesteel.checkpoint.manifest import OperatorState
from firesteel.checkpoint.storage import Storage, open_storage
from firesteel.checkpoint.stored_checkpoint import StoredCheckpoint
from firesteel.common.errors import IncompatibleStateError, StateError
from firesteel.plan.state_handles import OperatorHandle, Segment, StateMeta
from firesteel.state_processor._descriptions import OperatorInfo, StateInfo, shown_name
from firesteel.state_processor._folded_state import FoldedState, StateId

__all__ = ["SavedOperator", "find_operator", "find_state", "shown_operator"]


class SavedOperator:
    """The state of one operator in a checkpoint or savepoint."""

    def __init__(self, state: OperatorState, point: StoredCheckpoint) -> None:
        self.state = state
        self._root = point.root
        self._storage: Storage | None = None

    @property
    def metas(self) -> tuple[StateMeta, ...]:
        """What is known of its states, each once, by name."""
        by_id = {StateId.of(meta): meta for handle in self.state.subtasks for meta in handle.states}
        return tuple(
            by_id[state] for state in sorted(by_id, key=lambda state: (state.name, state.namespaced))
        )

    def info(self) -> OperatorInfo:
        """What users are told of it."""
        state = self.state
        infos = tuple(StateInfo.of(meta) for meta in self.metas)
        return OperatorInfo(state.id, state.uid, state.name, state.parallelism, state.max_parallelism, infos)

    def fold(self, handle: OperatorHandle, only: str | None = None) -> FoldedState:
        """All state of a subtask, or that of one name, with deltas applied."""
        folded = FoldedState(only)
        try:
            for segment in handle.keyed:
                folded.apply(self.blocks(segment))
            if handle.lists is not None:
                folded.apply_lists(self.blocks(handle.lists))
        except IncompatibleStateError as error:
            error.add_note(
                f"in the state of {shown_operator(self.state)}; a program that reads state needs the classes of its "
                "values: import those of the job's main program into the main module of this one"
            )
            raise
        return folded

    def stores(self) -> list[str]:
        """Names of what the operator keeps beside its states; nothing describes them, so one has to look."""
        return sorted({name for handle in self.state.subtasks for name in self.fold(handle).stores})

    def blocks(self, segment: Segment) -> Iterator[bytes]:
        """The blocks of a segment, checked."""
        if segment.file and self._storage is None:
            self._storage = open_storage(self._root)
        return read_segment(self._storage, segment)


def find_operator(operators: Iterable[OperatorState], wanted: str) -> OperatorState:
    """The operator with that uid or id, or the only one of that name."""
    known = list(operators)
    for operator in known:
        if wanted in (operator.uid, operator.id):
            return operator
    named = [operator for operator in known if operator.name == wanted]
    if len(named) == 1:
        return named[0]
    listed = "\n".join(f"  {shown_operator(operator)}" for operator in known) or "  none"
    problem = f"{len(named)} operators are called" if named else "there is no operator"
    raise StateError(f"{problem} {wanted!r}; give a uid or an id; those with state are:\n{listed}")


def find_state(
    operator: OperatorState, metas: Iterable[StateMeta], saved: SavedOperator | None, wanted: str
) -> str:
    """The name that a state is stored under; an operator's own may be given as it is shown."""
    names = [meta.name for meta in metas]
    candidates = (wanted, f"\0{wanted}")
    stored_name = next((name for name in candidates if name in names), None)
    if stored_name is None and saved is not None:
        names += saved.stores()
        stored_name = next((name for name in candidates if name in names), None)
    if stored_name is not None:
        return stored_name
    listed = ", ".join(repr(shown_name(name)) for name in dict.fromkeys(names)) or "none"
    raise StateError(f"operator {shown_operator(operator)} has no state {wanted!r}; it has {listed}")


def shown_operator(operator: OperatorState) -> str:
    """An operator in a message."""
    known_by = f"id {operator.id}" if operator.uid is None else f"uid {operator.uid!r}"
    return f"{operator.name!r} ({known_by})" if operator.name else known_by
