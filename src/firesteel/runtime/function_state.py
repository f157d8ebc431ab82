"""A user function's part in checkpoints: gets its states before ``open``, brings them up to date, hears how it ended."""

from __future__ import annotations

from typing import Any

from firesteel.common._override import override
from firesteel.common.errors import ProgramError, UnsupportedOperationError, describe_function
from firesteel.common.typeinfo import Types
from firesteel.contracts.checkpointing import (
    CheckpointedFunction,
    CheckpointListener,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    ListCheckpointed,
    Wrapping,
)
from firesteel.contracts.runtime_context import KeyedStateStore
from firesteel.contracts.state import ListState, ListStateDescriptor, OperatorStateStore
from firesteel.plan.state_handles import CheckpointOrder
from firesteel.runtime.operator import OperatorContext

#: The list of a `ListCheckpointed` function.
FUNCTION_LIST = "\0function"


def internal_list(name: str) -> ListStateDescriptor:
    """The descriptor of a list that an operator keeps for itself."""
    return ListStateDescriptor(name, Types.PICKLED_BYTE_ARRAY())


class _SnapshotContext(FunctionSnapshotContext):
    def __init__(self, order: CheckpointOrder) -> None:
        self._order = order

    @override
    def get_checkpoint_id(self) -> int:
        return self._order.id

    @override
    def get_checkpoint_timestamp(self) -> int:
        return self._order.timestamp


class _InitializationContext(FunctionInitializationContext):
    def __init__(self, context: OperatorContext) -> None:
        self._context = context

    @override
    def is_restored(self) -> bool:
        return self._context.restored_checkpoint_id is not None

    @override
    def get_restored_checkpoint_id(self) -> int | None:
        return self._context.restored_checkpoint_id

    @override
    def get_operator_state_store(self) -> OperatorStateStore:
        return self._context.operator_state

    @override
    def get_keyed_state_store(self) -> KeyedStateStore:
        if self._context.keyed_state is None:
            raise UnsupportedOperationError(
                f"{self._context.runtime.get_task_name()!r} asks for keyed state in initialize_state(), but its input "
                "has no keys: call key_by() first, or use get_operator_state_store()"
            )
        return self._context.keyed_state


class FunctionState:
    """Calls what a user's object has of `CheckpointedFunction`, `ListCheckpointed` and `CheckpointListener`.

    ``list_name`` tells the lists of several functions of one operator apart.
    """

    def __init__(self, instance: Any, list_name: str = FUNCTION_LIST) -> None:
        while isinstance(instance, Wrapping):
            instance = instance.wrapped
        self._list_name = list_name
        self._function = instance if isinstance(instance, CheckpointedFunction) else None
        self._list_function = instance if isinstance(instance, ListCheckpointed) else None
        self._listener = instance if isinstance(instance, CheckpointListener) else None
        self._list: ListState[Any]
        if self._function is not None and self._list_function is not None:
            raise ProgramError(
                f"{describe_function(instance)} is a CheckpointedFunction and ListCheckpointed, whose snapshot_state() "
                "mean different things; choose one"
            )

    @property
    def takes_part(self) -> bool:
        """Whether the function has state of its own."""
        return self._function is not None or self._list_function is not None

    @property
    def listens(self) -> bool:
        """Whether the function wants to hear how checkpoints end."""
        return self._listener is not None

    def initialize(self, context: OperatorContext) -> None:
        """Let the function ask for its states; what was restored is in them. Before ``open``."""
        if self._function is not None:
            self._function.initialize_state(_InitializationContext(context))
        if self._list_function is not None:
            self._list = context.operator_state.get_list_state(internal_list(self._list_name))
            self._list_function.restore_state(list(self._list.get()))

    def snapshot(self, order: CheckpointOrder) -> None:
        """Let the function bring its states up to date."""
        if self._function is not None:
            self._function.snapshot_state(_SnapshotContext(order))
        if self._list_function is not None:
            self._list.update(list(self._list_function.snapshot_state(order.id, order.timestamp) or ()))

    def notify_complete(self, checkpoint_id: int) -> None:
        """The checkpoint is durable."""
        if self._listener is not None:
            self._listener.notify_checkpoint_complete(checkpoint_id)

    def notify_aborted(self, checkpoint_id: int) -> None:
        """The checkpoint was given up."""
        if self._listener is not None:
            self._listener.notify_checkpoint_aborted(checkpoint_id)
