"""The blocks that keyed and operator state is written in: small tuples, pickled.

====================================================  ==========================================================
``("put", table, namespaced, keys, values)``          entries of a table; a key is ``(key, namespace)`` if namespaced
``("remove", table, namespaced, keys)``               entries that are gone (in deltas only)
``("timers", queue, namespaced, times, entries)``     timers; an entry is a key or ``(key, namespace)``
``("timers_removed", queue, namespaced, ...)``        timers that are gone (in deltas only)
``("entries", store, keys, values, extra)``           what an operator keeps in a store of its own, such as panes
``("list", name, mode, items)``                       a list state; of a broadcast state the pairs of key and value
====================================================  ==========================================================

Blocks are applied in the order in which they were written; a later one wins. Stores are whole in every segment, also
in deltas: only those of the newest segment count, and a delta says with an empty block that a store may have become
empty.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import compress
from typing import Any

from firesteel.checkpoint.state_pickle import dumps, loads

__all__ = ["Accepts", "Block", "chosen", "read_block", "write_block"]

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


def chosen(block: Block, accepts: Accepts | None) -> Block:
    """The block without what belongs to other subtasks."""
    if accepts is None:
        return block
    match block:
        case ("put" | "timers" | "timers_removed" as kind, name, namespaced, first, second):
            keys = second if kind.startswith("timers") else first
            mine = [accepts(key[0] if namespaced else key) for key in keys]
            return kind, name, namespaced, list(compress(first, mine)), list(compress(second, mine))
        case ("remove", name, namespaced, keys):
            return "remove", name, namespaced, [key for key in keys if accepts(key[0] if namespaced else key)]
        case ("entries", name, keys, values, extra):
            mine = [accepts(key) for key in keys]
            return "entries", name, list(compress(keys, mine)), list(compress(values, mine)), extra
    return block
