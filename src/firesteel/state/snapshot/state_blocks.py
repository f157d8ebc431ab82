"""The blocks that keyed and operator state is written in: small tuples, pickled.

====================================================  ==========================================================
``("put", table, namespaced, keys, values)``          entries of a table; a key is ``(key, namespace)`` if namespaced
``("remove", table, namespaced, keys)``               entries that are gone (in deltas only)
``("extend", table, namespaced, keys, pieces)``       more of the maps (dicts) and lists of these keys
``("remove_entries", table, namespaced, keys, gone)`` for each key a list of what is gone from its map (in deltas only)
``("truncate", table, namespaced, keys, lengths)``    what the lists of these keys keep (in deltas only)
``("timers", queue, namespaced, times, entries)``     timers; an entry is a key or ``(key, namespace)``
``("timers_removed", queue, namespaced, ...)``        timers that are gone (in deltas only)
``("entries", store, keys, values, extra)``           what an operator keeps in a store of its own, such as panes
``("list", name, mode, items)``                       a list state; of a broadcast state the pairs of key and value
====================================================  ==========================================================

A large map or list is written in pieces: a "put" with the first one and an "extend" for each of the others; of one that
has changed a little, a delta has only that.

Blocks are applied in the order in which they were written; a later one wins. Stores are whole in every segment, also
in deltas: only those of the newest segment count, and a delta says with an empty block that a store may have become
empty.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import compress
from typing import Any

from firesteel.checkpoint.state_pickle import dumps, loads

__all__ = [
    "Accepts",
    "Block",
    "accepted",
    "apply_pieces",
    "extend_with",
    "read_block",
    "remove_from",
    "truncate_to",
    "write_block",
]

Block = tuple[Any, ...]

#: Whether a key belongs to the subtask that is being restored.
Accepts = Callable[[Any], bool]


def write_block(block: Block) -> bytes:
    """The bytes of a block."""
    return dumps(block)


def read_block(payload: bytes) -> Block:
    """A block from its bytes."""
    block: Block = loads(payload)
    return block


def accepted(block: Block, accepts: Accepts | None) -> Block:
    """The block without what belongs to other subtasks."""
    if accepts is None:
        return block
    match block:
        case (
            "put" | "extend" | "remove_entries" | "truncate" | "timers" | "timers_removed" as kind,
            name,
            namespaced,
            first,
            second,
        ):
            keys = second if kind.startswith("timers") else first
            mine = [accepts(key[0] if namespaced else key) for key in keys]
            return kind, name, namespaced, list(compress(first, mine)), list(compress(second, mine))
        case ("remove", name, namespaced, keys):
            return "remove", name, namespaced, [key for key in keys if accepts(key[0] if namespaced else key)]
        case ("entries", name, keys, values, extra):
            mine = [accepts(key) for key in keys]
            return "entries", name, list(compress(keys, mine)), list(compress(values, mine)), extra
    return block


def apply_pieces(table: dict[Any, Any], kind: str, keys: list[Any], pieces: list[Any]) -> None:
    """Change maps and lists in a table as a block ``extend``, ``remove_entries`` or ``truncate`` says."""
    changes: dict[str, Callable[[Any, Any], Any]] = {
        "extend": extend_with,
        "remove_entries": remove_from,
        "truncate": truncate_to,
    }
    change = changes[kind]
    for key, piece in zip(keys, pieces, strict=True):
        left = change(table.get(key), piece)
        if left is None:
            table.pop(key, None)
        else:
            table[key] = left


def extend_with(collection: Any, piece: Any) -> Any:
    """A map or list, None for none, with a piece more; the same object, changed."""
    if collection is None:
        return piece
    if isinstance(piece, dict):
        collection.update(piece)
    else:
        collection.extend(piece)
    return collection


def remove_from(entries: Any, gone: list[Any]) -> Any:
    """A map without some entries, None when nothing is left."""
    for key in gone if entries is not None else ():
        entries.pop(key, None)
    return entries if entries else None


def truncate_to(elements: Any, length: int) -> Any:
    """The first elements of a list, None when there are none."""
    if isinstance(elements, list):
        del elements[length:]
    elif elements is not None:
        elements.cut(length)
    return elements if elements else None
