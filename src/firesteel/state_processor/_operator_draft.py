"""One operator of a savepoint that is being made: where its state comes from, and what is to be changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from firesteel.checkpoint.manifest import OperatorState
from firesteel.plan.key_groups import key_group_of, subtask_of_group
from firesteel.plan.keys import KeyForm
from firesteel.plan.state_handles import OperatorHandle, StateMeta
from firesteel.state_processor._folded_state import FoldedState, StateId
from firesteel.state_processor._saved_operator import SavedOperator, find_state
from firesteel.state_processor._state_changes import Change

__all__ = ["OperatorDraft"]


class OperatorDraft:
    """``state`` is its identity; ``saved`` what it has in the savepoint that one starts from, if it is there."""

    def __init__(self, state: OperatorState, saved: SavedOperator | None = None) -> None:
        self.state = state
        self.saved = saved
        #: To be applied to every subtask, in this order.
        self.changes: list[Change] = []
        self._metas: dict[StateId, StateMeta] = {}
        for meta in () if saved is None else saved.metas:
            self.declare(meta)

    @property
    def metas(self) -> tuple[StateMeta, ...]:
        """Its states, as changed so far."""
        return tuple(self._metas.values())

    def identify(self, uid: str, operator_id: str) -> None:
        """Let it be the operator of another uid."""
        self.state = replace(self.state, uid=uid, id=operator_id)

    # States -------------------------------------------------------------------------------------------

    def declare(self, meta: StateMeta) -> None:
        """There is such a state."""
        self._metas[StateId.of(meta)] = meta

    def forget(self, name: str) -> None:
        """There is no such state any more."""
        self._metas = {state: meta for state, meta in self._metas.items() if state.name != name}

    def rename(self, name: str, new_name: str) -> None:
        """The state has another name."""
        metas = [replace(meta, name=new_name) if meta.name == name else meta for meta in self.metas]
        self._metas = {StateId.of(meta): meta for meta in metas}

    def name_of(self, state: str) -> str:
        """The name that a state is stored under."""
        return find_state(self.state, self.metas, self.saved, state)

    def meta_of(self, state: str) -> StateMeta | None:
        """What is known of a state, None when it is one that the operator keeps beside its states."""
        name = self.name_of(state)
        return next((meta for meta in self.metas if meta.name == name), None)

    def has_state(self, name: str) -> bool:
        """Whether there is a state of that name."""
        return any(meta.name == name for meta in self.metas)

    def dealt_out(self, entries: Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> dict[int, dict[Any, Any]]:
        """Pairs of key and value by the subtask that the key belongs to."""
        groups, parallelism = self.state.max_parallelism, self.state.parallelism
        shares: dict[int, dict[Any, Any]] = {}
        form = KeyForm(None)
        for key, value in entries.items() if isinstance(entries, Mapping) else entries:
            formed = form(key)
            subtask = subtask_of_group(key_group_of(formed, groups), groups, parallelism)
            shares.setdefault(subtask, {})[formed] = value
        return shares

    # Subtasks -----------------------------------------------------------------------------------------

    def handle(self, subtask: int) -> OperatorHandle | None:
        """What a subtask has in the savepoint that one starts from."""
        return next((handle for handle in self.state.subtasks if handle.subtask == subtask), None)

    def changed(self, subtask: int) -> FoldedState:
        """The state of a subtask with all changes."""
        handle = self.handle(subtask)
        folded = FoldedState() if handle is None or self.saved is None else self.saved.fold(handle)
        for change in self.changes:
            change(folded, subtask)
        return folded
