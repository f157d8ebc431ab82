"""Changes of the state of an operator's subtask: what a writer of savepoints notes down and applies in the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from firesteel.common._override import override
from firesteel.common.time import to_millis
from firesteel.plan.state_handles import StateMeta, StateMode
from firesteel.state.state_registry import StateKind
from firesteel.state.tracked_state import TableId
from firesteel.state_processor._descriptions import StateEntry
from firesteel.state_processor._folded_state import FoldedState
from firesteel.state_processor._stored_values import RAW, Kinds, bare, newest_time, stored

__all__ = ["REMOVE", "Change", "putting", "putting_broadcast", "updating"]

#: Changes the state of a subtask; gets its number, too.
Change = Callable[[FoldedState, int], None]
Update = Callable[[StateEntry], Any]


class _Remove:
    """Stands for no value."""

    @override
    def __repr__(self) -> str:
        return "REMOVE"


#: What a function given to `SavepointWriter.update` returns when an entry is to go.
REMOVE = _Remove()


def updating(name: str, kinds: Kinds, update: Update) -> Change:
    """Every entry of a state becomes what a function makes of it."""

    def change(folded: FoldedState, subtask: int) -> None:
        for table_id, table in folded.tables.items():
            if table_id.name == name:
                _update_table(table, table_id.namespaced, kinds.get(table_id, RAW), subtask, update)
        if name in folded.stores:
            folded.stores[name] = [_updated_block(*block, subtask, update) for block in folded.stores[name]]
        if name in folded.lists:
            mode, items = folded.lists[name]
            folded.lists[name] = mode, _updated_items(mode, items, subtask, update)

    return change


def putting(meta: StateMeta, shares: Mapping[int, Mapping[Any, Any]]) -> Change:
    """A keyed state holds these values; ``shares`` are those of each subtask."""
    kind, now = StateKind.parse(meta.kind), to_millis(time.time())
    table_id = TableId(meta.name, False)
    values = {
        subtask: {key: stored(kind, value, now) for key, value in share.items()}
        for subtask, share in shares.items()
    }

    def change(folded: FoldedState, subtask: int) -> None:
        folded.table(table_id).update(values.get(subtask, {}))

    return change


def putting_broadcast(name: str, entries: Mapping[Any, Any]) -> Change:
    """A broadcast state holds these entries, besides what it has."""

    def change(folded: FoldedState, subtask: int) -> None:
        _, items = folded.lists.get(name, (StateMode.BROADCAST, []))
        folded.lists[name] = StateMode.BROADCAST, list({**dict(items), **entries}.items())

    return change


def _update_table(
    table: dict[Any, Any], namespaced: bool, kind: StateKind, subtask: int, update: Update
) -> None:
    for table_key, value in list(table.items()):
        key, namespace = table_key if namespaced else (table_key, None)
        new = update(StateEntry(key, bare(kind, value), namespace, subtask))
        if new is REMOVE:
            del table[table_key]
        else:
            table[table_key] = stored(kind, new, newest_time(kind, value) if kind.has_ttl else 0)


def _updated_block(
    keys: list[Any], values: list[Any], extra: Any, subtask: int, update: Update
) -> tuple[list[Any], list[Any], Any]:
    new = [update(StateEntry(key, value, extra, subtask)) for key, value in zip(keys, values, strict=True)]
    kept = [(key, value) for key, value in zip(keys, new, strict=True) if value is not REMOVE]
    return [key for key, _ in kept], [value for _, value in kept], extra


def _updated_items(mode: StateMode, items: list[Any], subtask: int, update: Update) -> list[Any]:
    if mode is not StateMode.BROADCAST:
        new = [update(StateEntry(None, item, None, subtask)) for item in items]
        return [item for item in new if item is not REMOVE]
    pairs = [(key, update(StateEntry(key, value, None, subtask))) for key, value in items]
    return [pair for pair in pairs if pair[1] is not REMOVE]
