"""Which key - and, for windows, which namespace - keyed state belongs to at the moment.

Operators turn to a key before they call user code, and every state reads ``current_key`` at every access. Where
there is no key, `NoKey` stands for it: it cannot be hashed, so whatever state is touched fails with
a sentence, and the states themselves need not check.
"""

from __future__ import annotations

from typing import Any, NoReturn, Protocol

from firesteel.common._override import override
from firesteel.common.errors import UnsupportedOperationError

__all__ = ["BEFORE_FIRST_KEY", "KeyContext", "NamespaceScope", "NoKey", "PairTracker"]


class KeyContext(Protocol):
    """Knows what the state at hand is stored under."""

    current_key: Any


class PairTracker(KeyContext, Protocol):
    """Wants to know before something under a key and a namespace changes, while it ``tracks``."""

    tracks: bool

    def touch_pairs(self, pairs: Any) -> None:
        """What is under these pairs of key and namespace may change; ``pairs`` is a collection."""


class NoKey:
    """Stands for the current key while there is none."""

    __slots__ = ("_reason",)

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def refuse(self) -> NoReturn:
        """Say why there is no key."""
        raise UnsupportedOperationError(self._reason)

    @override
    def __hash__(self) -> int:
        self.refuse()

    @override
    def __repr__(self) -> str:
        return "no key"


BEFORE_FIRST_KEY = NoKey(
    "there is no key before the first record: open() may only ask for states; read and write them in the "
    "methods that are called with records or timers"
)


class NamespaceScope:
    """The key together with a namespace, such as a window, for the states that are kept per both.

    ``current_key`` here is the pair that namespaced states are stored under. It is made by `set_namespace`
    from the key of that moment, so set the key first, and set the namespace again after every change of key.
    """

    __slots__ = ("_keys", "current_key")

    def __init__(self, keys: PairTracker) -> None:
        self._keys = keys
        self.current_key: Any = (keys.current_key, None)

    def turn_to(self, namespace: Any) -> tuple[Any, Any]:
        """Turn to the given namespace of the current key, announce the pair of both, and return it."""
        keys = self._keys
        self.current_key = pair = (keys.current_key, namespace)
        if keys.tracks:
            keys.touch_pairs((pair,))
        return pair

    def set_namespace(self, namespace: Any) -> None:
        """Turn to the given namespace of the current key, which the caller has announced."""
        self.current_key = (self._keys.current_key, namespace)
