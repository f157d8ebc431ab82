"""Writes savepoints: changed ones from what a job has saved, or new ones that a job can start its life from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from firesteel.checkpoint.manifest import OperatorState
from firesteel.checkpoint.stored_checkpoint import StoredCheckpoint, load
from firesteel.common.errors import StateError, WrongArgumentError
from firesteel.contracts.state import ListStateDescriptor, MapStateDescriptor, StateDescriptor
from firesteel.graph.operator_ids import id_of_uid
from firesteel.plan.key_groups import UPPER_BOUND, default_max_parallelism
from firesteel.plan.state_handles import StateMeta, StateMode
from firesteel.state.state_registry import StateKind, meta_of
from firesteel.state_processor._descriptions import StateEntry
from firesteel.state_processor._folded_state import FoldedState
from firesteel.state_processor._operator_draft import OperatorDraft
from firesteel.state_processor._saved_operator import SavedOperator, find_operator, shown_operator
from firesteel.state_processor._savepoint_files import write_savepoint
from firesteel.state_processor._state_changes import REMOVE, Change, putting, putting_broadcast, updating
from firesteel.state_processor._stored_values import kinds_of

__all__ = ["REMOVE", "SavepointWriter"]


class SavepointWriter:
    """Collects what a savepoint shall contain; `write` writes it.

    Operators are named by their uid, as in `SavepointReader`. All methods but `write` return the writer, and
    nothing is changed in the savepoint that one starts from. A change of an operator's state needs the state of one
    subtask in memory; what is not changed is copied as it is.
    """

    def __init__(self, point: StoredCheckpoint | None, max_parallelism: int) -> None:
        self._point = point
        self._max_parallelism = max_parallelism
        self._drafts: dict[str, OperatorDraft] = {}
        if point is not None:
            for state in point.manifest.operators:
                self._drafts[state.id] = OperatorDraft(state, SavedOperator(state, point))

    @classmethod
    def from_existing_savepoint(cls, path: str) -> SavepointWriter:
        """Begin with everything that is in a savepoint or checkpoint."""
        return cls(load(path), default_max_parallelism(1))

    @classmethod
    def new_savepoint(cls, max_parallelism: int = default_max_parallelism(1)) -> SavepointWriter:
        """Begin with nothing. ``max_parallelism`` is that of new operators; the job cannot have another one."""
        if not 0 < max_parallelism <= UPPER_BOUND:
            raise WrongArgumentError(
                f"max_parallelism must be between 1 and {UPPER_BOUND}, got {max_parallelism}"
            )
        return cls(None, max_parallelism)

    # Operators ----------------------------------------------------------------------------------------

    def remove_operator(self, operator: str) -> SavepointWriter:
        """Leave an operator's state out."""
        del self._drafts[self._draft(operator).state.id]
        return self

    def change_operator_identifier(self, operator: str, new_uid: str) -> SavepointWriter:
        """Let the state belong to the operator of another uid."""
        draft = self._draft(operator)
        if id_of_uid(new_uid) in self._drafts:
            raise StateError(f"there is an operator with uid {new_uid!r} already; remove_operator() it first")
        del self._drafts[draft.state.id]
        draft.identify(new_uid, id_of_uid(new_uid))
        self._drafts[draft.state.id] = draft
        return self

    # Changing what there is ---------------------------------------------------------------------------

    def update(self, operator: str, state: str, change: Callable[[StateEntry], Any]) -> SavepointWriter:
        """Replace every value of a state by what ``change`` makes of its entry; `REMOVE` removes the entry.

        Entries and values are those that `SavepointReader.read` gives.
        """
        draft = self._draft(operator)
        return self._changed(draft, updating(draft.name_of(state), kinds_of(draft.metas), change))

    def put(
        self, operator: str, state: str, entries: Mapping[Any, Any] | Iterable[tuple[Any, Any]]
    ) -> SavepointWriter:
        """Set what a keyed state holds for some keys, or entries of a broadcast state; others stay as they are."""
        draft = self._draft(operator)
        meta = draft.meta_of(state)
        if meta is not None and meta.mode is StateMode.BROADCAST:
            return self._changed(draft, putting_broadcast(meta.name, dict(entries)))
        if meta is None or meta.mode is not StateMode.KEYED or StateKind.parse(meta.kind).namespaced:
            raise StateError(
                f"state {state!r} of operator {shown_operator(draft.state)} has no keys, or keys and windows; "
                "change it with update(), or replace it with with_list_state()"
            )
        return self._changed(draft, putting(meta, draft.dealt_out(entries)))

    def remove_keys(self, operator: str, keys: Iterable[Any]) -> SavepointWriter:
        """Forget all that an operator has for some keys: in all its keyed states, and timers."""
        unwanted = list(keys)

        def apply(folded: FoldedState, subtask: int) -> None:
            for key in unwanted:
                folded.remove_key(key)

        return self._changed(self._draft(operator), apply)

    def remove_state(self, operator: str, state: str) -> SavepointWriter:
        """Leave a state out of the savepoint, for all keys and in all subtasks."""
        draft = self._draft(operator)
        name = draft.name_of(state)
        draft.forget(name)
        return self._changed(draft, lambda folded, _: folded.remove(name))

    def rename_state(self, operator: str, state: str, new_name: str) -> SavepointWriter:
        """Give a state another name."""
        draft = self._draft(operator)
        name = draft.name_of(state)
        if draft.has_state(new_name):
            raise StateError(f"operator {shown_operator(draft.state)} has a state {new_name!r} already")
        draft.rename(name, new_name)
        return self._changed(draft, lambda folded, _: folded.rename(name, new_name))

    # Adding -------------------------------------------------------------------------------------------

    def with_operator(
        self, uid: str, *, max_parallelism: int | None = None, parallelism: int = 1, name: str = ""
    ) -> SavepointWriter:
        """Add an operator; only needed when it is to have another ``max_parallelism`` than the rest.

        ``parallelism`` is the number of files that its state is spread over; the job may have any.
        """
        operator_id = id_of_uid(uid)
        if operator_id in self._drafts:
            raise StateError(f"there is an operator with uid {uid!r} already")
        groups = max_parallelism or self._max_parallelism
        if not 0 < parallelism <= groups:
            raise WrongArgumentError(
                f"parallelism must be between 1 and max_parallelism, which is {groups}; got {parallelism}"
            )
        state = OperatorState(operator_id, name or uid, parallelism, groups, uid)
        self._drafts[operator_id] = OperatorDraft(state)
        return self

    def with_keyed_state(
        self,
        operator: str,
        descriptor: StateDescriptor,
        entries: Mapping[Any, Any] | Iterable[tuple[Any, Any]],
    ) -> SavepointWriter:
        """Fill a keyed state; ``descriptor`` is the one that the job will ask with.

        ``entries`` are pairs of key and value (or a dict): for a list state the value is a list, for a map state a
        dict, for an aggregating state an accumulator. An operator that is not there yet is added. Values of
        keys that the state has already are replaced.
        """
        draft = self._draft_or_new(operator)
        meta = meta_of(descriptor, StateMode.KEYED, str(StateKind.of(descriptor)))
        return self._added(draft, meta, putting(meta, draft.dealt_out(entries)))

    def with_list_state(
        self, operator: str, descriptor: ListStateDescriptor, items: Iterable[Any], *, union: bool = False
    ) -> SavepointWriter:
        """Fill a list state of the subtasks, or with ``union`` a union list state; replaces what was there."""
        draft = self._draft_or_new(operator)
        meta = meta_of(descriptor, StateMode.UNION if union else StateMode.SPLIT, "list")
        all_items, count = list(items), draft.state.parallelism

        def apply(folded: FoldedState, subtask: int) -> None:
            share = slice(subtask * len(all_items) // count, (subtask + 1) * len(all_items) // count)
            folded.lists[meta.name] = (meta.mode, all_items[share])

        return self._added(draft, meta, apply)

    def with_broadcast_state(
        self, operator: str, descriptor: MapStateDescriptor, entries: Mapping[Any, Any]
    ) -> SavepointWriter:
        """Fill a broadcast state; replaces what was there."""
        draft = self._draft_or_new(operator)
        meta = meta_of(descriptor, StateMode.BROADCAST, "map")
        items = list(entries.items())

        def apply(folded: FoldedState, subtask: int) -> None:
            folded.lists[meta.name] = (meta.mode, list(items))

        return self._added(draft, meta, apply)

    # Writing ------------------------------------------------------------------------------------------

    def write(self, path: str) -> str:
        """Write the savepoint into a new directory ``path``; returns it, as a job is given it with ``-s``."""
        return write_savepoint(path, self._point, list(self._drafts.values()))

    # Helpers ------------------------------------------------------------------------------------------

    def _draft(self, operator: str) -> OperatorDraft:
        return self._drafts[find_operator([draft.state for draft in self._drafts.values()], operator).id]

    def _draft_or_new(self, operator: str) -> OperatorDraft:
        try:
            return self._draft(operator)
        except StateError:
            self.with_operator(operator)
            return self._drafts[id_of_uid(operator)]

    def _changed(self, draft: OperatorDraft, change: Change) -> SavepointWriter:
        draft.changes.append(change)
        return self

    def _added(self, draft: OperatorDraft, meta: StateMeta, change: Change) -> SavepointWriter:
        draft.declare(meta)
        return self._changed(draft, change)
