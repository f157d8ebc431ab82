"""Where keyed state lives while a job runs, and how to bring a store of one's own.

A backend of one's own is a *store*: it takes records, bytes under bytes, of the keys that are not in memory at the moment.
Everything else is as with the backends that Firesteel has: a cache of live objects in front of it, checkpoints,
timers, time to live, changes of state between versions, another parallelism.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from firesteel.common.configuration import Configuration
from firesteel.common.errors import ProgramError, WrongArgumentError, describe_function, short_repr
from firesteel.common.options import STATE_BACKEND

__all__ = [
    "OpenStore",
    "StateBackend",
    "StateStore",
    "StateStoreContext",
    "has_store",
    "qualified_name",
    "store_opener",
]


class StateStore(ABC):
    """Records of the keys of one operator's subtask; what a backend of one's own implements.

    A store is private to one attempt of one subtask, empty when it is opened, and nothing in it has to survive: after
    a failure state comes from a checkpoint. All calls come from the thread that opened it, one at a time.

    *Record keys* are bytes, not more than 32 of them; records are bytes of any length. An error that a method raises fails the
    task, or the checkpoint that reads the store at that moment.
    """

    @abstractmethod
    def get_all(self, record_keys: Sequence[bytes]) -> Sequence[bytes | None]:
        """The record under each of these keys, in their order; None where there is none."""

    @abstractmethod
    def put_all(self, records: Sequence[tuple[bytes, bytes]], gone: Sequence[bytes]) -> None:
        """Store records, given as record key and record, over what is there; remove those under the keys ``gone``.

        No record key is named twice.
        """

    @abstractmethod
    def scan(self, after: bytes, count: int) -> Sequence[tuple[bytes, bytes]]:
        """The next ``count`` record keys behind ``after`` with their records, ordered as Python orders bytes.

        Fewer only when there are no more. ``after`` may be shorter than a record key, and need not have a record.
        """

    def close(self) -> None:
        """Nobody needs the store any more; release what it holds."""


@dataclass(frozen=True, slots=True)
class StateStoreContext:
    """What a store may want to know when it is opened."""

    #: Name of the operator whose state it holds.
    operator: str
    #: Index of the subtask, from 0.
    subtask: int
    #: All options of the job. Keys of one's own begin with ``state.``, such as ``state.backend.redis.url``.
    configuration: Configuration
    #: A name that no other store has or will have: a prefix for keys in a database that several stores share.
    unique_name: str
    _make_directory: Callable[[], str] = field(repr=False)

    def directory(self) -> str:
        """An empty directory for this store on a disk of the worker, below ``state.backend.disk.dirs``.

        It is made when it is asked for, and removed after the store was closed; a process that is killed leaves it.
        """
        return self._make_directory()


OpenStore = Callable[[StateStoreContext], StateStore]


class StateBackend(ABC):  # noqa: B024 - what there is to override depends on the kind
    """Base of the backends. One that overrides `open` is a backend of one's own."""

    def open(self, context: StateStoreContext) -> StateStore:
        """The store of one operator's subtask, in the task's process; not in PyFlink."""
        raise ProgramError(f"{type(self).__name__} has no store of its own: it does not override open()")

    def to_configuration(self) -> Configuration:
        """The options that choose it; not in PyFlink."""
        if not has_store(type(self)):
            raise ProgramError(
                f"{type(self).__name__} is not a backend that Firesteel has; override open() to give it a store"
            )
        return Configuration().set(STATE_BACKEND, qualified_name(self))


def has_store(backend: type[StateBackend]) -> bool:
    """Whether backends of this class bring a store of their own."""
    return backend.open is not StateBackend.open


def store_opener(thing: Any, used_by: str) -> OpenStore:
    """What opens the stores of a backend of one's own, or the error that says why it is none.

    ``thing`` is a `StateBackend` that overrides ``open``, or its class; or a function that makes a `StateStore` from a
    `StateStoreContext`, or the class of the store.
    """
    if isinstance(thing, type) and issubclass(thing, StateBackend) and has_store(thing):
        thing = _instance(thing, used_by)
    if isinstance(thing, StateBackend) and has_store(type(thing)):
        return thing.open
    if isinstance(thing, type):
        if issubclass(thing, StateStore) and not inspect.isabstract(thing):
            return thing
    elif callable(thing) and not isinstance(thing, StateStore):
        opener: OpenStore = thing
        return opener
    raise WrongArgumentError(
        f"{used_by} needs a StateBackend that overrides open(), or a function or StateStore class that makes a "
        f"store from a StateStoreContext, got {_shown(thing)}; backends written in Java cannot keep Python state"
    )


def _instance(backend: type[StateBackend], used_by: str) -> StateBackend:
    try:
        return backend()
    except TypeError as error:
        raise WrongArgumentError(
            f"{used_by} cannot make a {backend.__name__} without arguments: {error}; "
            "give it an object instead of the class, or give all arguments a default"
        ) from error


def _shown(thing: Any) -> str:
    if isinstance(thing, type):
        missing = sorted(getattr(thing, "__abstractmethods__", ()))
        lacks = f", which lacks {', '.join(missing)}" if missing else ""
        return describe_function(thing) + lacks
    return f"{short_repr(thing)} ({type(thing).__name__})"


def qualified_name(thing: Any) -> str:
    """``module:name`` of a backend, for people to read."""
    named = thing if isinstance(thing, type) or hasattr(thing, "__qualname__") else type(thing)
    return f"{named.__module__}:{named.__qualname__}"
