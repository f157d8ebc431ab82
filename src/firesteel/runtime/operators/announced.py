"""A batch announces its keys: tells the state which keys come next, before anything under them is read or changed.

Only while the state asks for it (``state.tracks``), and nobody but this module looks: see `firesteel.state.keyed_backend`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from firesteel.plan.keys import KeyOf, keys_of
from firesteel.runtime.operator import Operator
from firesteel.state.keyed_backend import KeyedBackend


def announce_batch(
    operator: Operator, values: list[Any], key_of: KeyOf, state: KeyedBackend
) -> list[Any] | None:
    """A batch comes next. Returns its keys if they had to be announced, None if nothing had to be done."""
    return _announced_keys(operator, values, key_of, state) if state.tracks else None


def wants_keys_first(operator: Operator, state: KeyedBackend) -> bool:
    """Whether all keys of a batch are read before the operator begins with its first record."""
    return operator.reads_keys_first or state.tracks


def batch_keys(operator: Operator, values: list[Any], key_of: KeyOf, state: KeyedBackend) -> Iterable[Any]:
    """A batch comes next: its keys, which have been announced if the state asks for it."""
    return _announced_keys(operator, values, key_of, state) if state.tracks else keys_of(key_of, values)


def _announced_keys(operator: Operator, values: list[Any], key_of: KeyOf, state: KeyedBackend) -> list[Any]:
    """The keys of a batch, in its order, after they were announced; leaves a new cursor over the batch."""
    operator.cursor = cursor = iter(values)
    computed = keys_of(key_of, values)
    keys = computed if isinstance(computed, list) else [key_of(value) for value in cursor]
    operator.cursor = cursor = iter(values)
    try:
        state.touch(keys)
    except TypeError:
        for _, key in zip(cursor, keys, strict=True):  # so that the cursor tells whose key cannot be hashed
            hash(key)
        raise
    operator.cursor = iter(values)
    return keys


class KeyedBatches:
    """Announces the keys of batches for operators whose function finds the key of each record itself."""

    __slots__ = ("_key_of", "_state")

    def __init__(self, key_of: KeyOf, state: KeyedBackend) -> None:
        self._key_of = key_of
        self._state = state

    def announce(self, operator: Operator, values: list[Any]) -> None:
        """A batch comes next; nothing is done while the state does not ask for its keys."""
        announce_batch(operator, values, self._key_of, self._state)
