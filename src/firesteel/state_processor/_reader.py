"""Reads checkpoints and savepoints: which operators and states there are, their keys and values, their timers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from firesteel.checkpoint.stored_checkpoint import load
from firesteel.plan.key_groups import key_group_of, subtask_of_group
from firesteel.plan.keys import KeyForm
from firesteel.plan.state_handles import OperatorHandle, StateMode
from firesteel.plan.value_key import shown
from firesteel.spark.frames.value_columns import table_of
from firesteel.state.tracked_state import TableId
from firesteel.state_processor._descriptions import (
    OperatorInfo,
    StateEntry,
    StateInfo,
    TimerEntry,
    shown_name,
)
from firesteel.state_processor._folded_state import FoldedState
from firesteel.state_processor._saved_operator import SavedOperator, find_operator, find_state
from firesteel.state_processor._stored_values import RAW, Kinds, bare, kinds_of

__all__ = ["SavepointReader"]

_ANY = object()


class SavepointReader:
    """A checkpoint or savepoint, opened for reading.

    ``path`` is the directory of a savepoint, the ``chk-`` directory of a checkpoint, or the file ``_metadata`` in one
    of them; a path or a URI. Only the manifest is read at once.

    Operators are named by their uid; by their id, or by their name if no other has it, when they have none.
    The state of one subtask is in memory at a time.
    """

    def __init__(self, path: str) -> None:
        self._point = load(path)
        self.manifest = self._point.manifest

    # What there is ------------------------------------------------------------------------------------

    @property
    def path(self) -> str:
        """The directory in which the manifest lies, also when the file ``_metadata`` was given."""
        return self._point.location

    @property
    def job_id(self) -> str:
        """The job that it was taken of."""
        return self.manifest.job_id

    @property
    def job_name(self) -> str:
        """The name of that job."""
        return self.manifest.job_name

    @property
    def checkpoint_id(self) -> int:
        """Its number among the checkpoints of the job."""
        return self.manifest.checkpoint_id

    @property
    def timestamp(self) -> int:
        """When it was begun, in milliseconds."""
        return self.manifest.timestamp

    @property
    def operators(self) -> list[OperatorInfo]:
        """The operators that have state."""
        return [self._saved(state.id).info() for state in self.manifest.operators if state.has_state]

    def operator(self, operator: str) -> OperatorInfo:
        """The operator with that uid or id, or the only one of that name."""
        return self._saved(operator).info()

    def states(self, operator: str) -> tuple[StateInfo, ...]:
        """The states of an operator."""
        return self._saved(operator).info().states

    # Entries ------------------------------------------------------------------------------------------

    def read(self, operator: str, state: str, *, key: Any = _ANY) -> Iterator[StateEntry]:
        """The entries of a state; with ``key`` those of one key.

        Keyed state: one entry per key, or per key and window; of a list state the whole list is the value, of a map
        state a dict, of a reducing state what was reduced, of an aggregating state the accumulator. Values that
        expire come without their times. List and union list states: one entry per element. Broadcast
        state: one entry per entry of the map.
        """
        saved = self._saved(operator)
        name = _name_of(saved, state)
        kinds = kinds_of(saved.metas)
        for handle in _subtasks(saved, None if key is _ANY else (key,)):
            for entry in _entries(saved.fold(handle, only=name), kinds, handle.subtask):
                if key is _ANY or entry.key == key:
                    yield entry
            if _is_broadcast(saved, name):
                return  # it is the same in every subtask

    def get(self, operator: str, state: str, key: Any, default: Any = None) -> Any:
        """What a state holds for a key."""
        return next((entry.value for entry in self.read(operator, state, key=key)), default)

    def keys(self, operator: str, state: str | None = None) -> Iterator[Any]:
        """The keys that have something in a state, or in any of the operator's; each once."""
        saved = self._saved(operator)
        name = None if state is None else _name_of(saved, state)
        for handle in _subtasks(saved):
            yield from _keys(saved.fold(handle, only=name))

    def timers(self, operator: str, *, key: Any = _ANY) -> Iterator[TimerEntry]:
        """The timers of an operator, by queue; with ``key`` those of one key."""
        saved = self._saved(operator)
        for handle in _subtasks(saved, None if key is _ANY else (key,)):
            for queue, timers in saved.fold(handle).timers.items():
                for time, entry in timers:
                    timer = _timer(queue, time, entry, handle.subtask)
                    if key is _ANY or timer.key == key:
                        yield timer

    def to_dataframe(self, spark: Any, operator: str, state: str) -> Any:
        """The entries of a state as a Spark DataFrame with the columns ``key``, ``value`` and ``namespace``.

        The types of the columns follow the values: numbers, text, lists, dicts, named tuples, dataclasses and rows
        become what Spark has for them. What Spark cannot express, and columns whose values do not go together, become
        text. All entries go through this process.
        """
        rows = [(entry.key, entry.value, entry.namespace) for entry in self.read(operator, state)]
        data, schema = table_of(rows, ("key", "value", "namespace"))
        return spark.createDataFrame(data, schema)

    # Finding ------------------------------------------------------------------------------------------

    def _saved(self, operator: str) -> SavedOperator:
        with_state = [state for state in self.manifest.operators if state.has_state]
        return SavedOperator(find_operator(with_state, operator), self._point)


def _subtasks(saved: SavedOperator, keys: tuple[Any, ...] | None = None) -> Iterator[OperatorHandle]:
    """The subtasks that may have something for these keys."""
    state = saved.state
    keyed = {meta.mode for meta in saved.metas} <= {StateMode.KEYED}
    wanted, form = None, KeyForm(None)
    if keys is not None and keyed:
        groups = [key_group_of(form(key), state.max_parallelism) for key in keys]
        wanted = {subtask_of_group(group, state.max_parallelism, state.parallelism) for group in groups}
    for handle in sorted(state.subtasks, key=lambda handle: handle.subtask):
        if wanted is None or handle.subtask in wanted:
            yield handle


def _name_of(saved: SavedOperator, state: str) -> str:
    return find_state(saved.state, saved.metas, saved, state)


def _is_broadcast(saved: SavedOperator, name: str) -> bool:
    return any(meta.name == name and meta.mode is StateMode.BROADCAST for meta in saved.metas)


def _entries(folded: FoldedState, kinds: Kinds, subtask: int) -> Iterator[StateEntry]:
    for table_id, table in folded.tables.items():
        kind = kinds.get(table_id, RAW)
        for key, value in table.items():
            plain, namespace = key if table_id.namespaced else (key, None)
            yield StateEntry(shown(plain), bare(kind, value), namespace, subtask)
    for blocks in folded.stores.values():
        for keys, values, extra in blocks:
            for key, value in zip(keys, values, strict=True):
                yield StateEntry(shown(key), value, extra, subtask)
    for mode, items in folded.lists.values():
        for item in items:
            key, value = item if mode is StateMode.BROADCAST else (None, item)
            yield StateEntry(key, value, None, subtask)


def _keys(folded: FoldedState) -> Iterator[Any]:
    unique_keys: dict[Any, None] = {}
    for table_id, table in folded.tables.items():
        unique_keys.update(dict.fromkeys((key[0] for key in table) if table_id.namespaced else table))
    for blocks in folded.stores.values():
        for keys, _, _ in blocks:
            unique_keys.update(dict.fromkeys(keys))
    return map(shown, unique_keys)


def _timer(queue: TableId, time: int, entry: Any, subtask: int) -> TimerEntry:
    key, namespace = (entry[0], entry[1]) if queue.namespaced else (entry, None)
    return TimerEntry(shown(key), time, shown_name(queue.name), namespace, subtask)
