"""Functions that take part in checkpoints: what they keep, what they get back, what they are told.

`CheckpointedFunction` is the general way: named list states of the subtask, and keyed state when the stream has
keys. `ListCheckpointed` is the short way for one list. `CheckpointListener` hears how checkpoints end.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from firesteel.contracts.runtime_context import KeyedStateStore
from firesteel.contracts.state import OperatorStateStore

__all__ = [
    "CheckpointListener",
    "CheckpointedFunction",
    "FunctionInitializationContext",
    "FunctionSnapshotContext",
    "ListCheckpointed",
    "Wrapping",
]


class FunctionSnapshotContext(ABC):
    """The checkpoint that is being taken."""

    @abstractmethod
    def get_checkpoint_id(self) -> int:
        """Its number; greater than that of every earlier one."""

    @abstractmethod
    def get_checkpoint_timestamp(self) -> int:
        """When the job master began it, in milliseconds."""


class FunctionInitializationContext(ABC):
    """Where a function finds its states when it starts."""

    @abstractmethod
    def is_restored(self) -> bool:
        """Whether the job continues from a checkpoint or savepoint."""

    @abstractmethod
    def get_restored_checkpoint_id(self) -> int | None:
        """The checkpoint that it continues from, None at a first start."""

    @abstractmethod
    def get_operator_state_store(self) -> OperatorStateStore:
        """States of the subtask."""

    @abstractmethod
    def get_keyed_state_store(self) -> KeyedStateStore:
        """States of the keys; only on a keyed stream."""


class CheckpointedFunction(ABC):
    """A function with state of its own: mix it into any function, source or sink."""

    @abstractmethod
    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Ask for the states, before ``open``; after a failure or from a savepoint they hold what they held."""

    @abstractmethod
    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Bring the states up to date: what they hold now belongs to the checkpoint."""


class ListCheckpointed(ABC):
    """A function whose state is one list; when the parallelism changes its elements are redistributed."""

    @abstractmethod
    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> list[Any]:
        """The state as a list; how it is cut into elements decides how finely it can be dealt out."""

    @abstractmethod
    def restore_state(self, state: list[Any]) -> None:
        """Take the state back, before ``open``; also called at a first start, with an empty list."""


class CheckpointListener(ABC):
    """Hears how checkpoints end. A notification may get lost: the next one covers everything before it."""

    @abstractmethod
    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """The checkpoint, and with it every earlier one, will never be undone."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """The checkpoint was aborted.

        Undo nothing that belongs to it: its records are not read again, and a later checkpoint takes them over. A storage
        that answers too late may even make it complete, so that a job resumes from it.
        """


class Wrapping(ABC):
    """A function of the library around one of the user's, which takes part in checkpoints as if it stood alone."""

    @property
    @abstractmethod
    def wrapped(self) -> Any:
        """The user's function; the same object every time."""
