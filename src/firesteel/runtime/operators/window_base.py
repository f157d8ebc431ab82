"""What all window operators share: opening and closing the users' functions, and their part in checkpoints."""

from __future__ import annotations

from firesteel.plan.state_handles import CheckpointOrder
from firesteel.runtime.function_state import FUNCTION_LIST, FunctionState
from firesteel.runtime.operator import Operator, OperatorContext
from firesteel.runtime.operators.window_parts import WindowParts

#: The list of a `ListCheckpointed` reduce or aggregate function, beside which there may be a window function.
AGGREGATOR_LIST = "\0aggregator"


class WindowingOperator(Operator):
    """Owns the functions of a window operation for the life of the subtask."""

    def __init__(self, parts: WindowParts) -> None:
        self._parts = parts
        self._function_states = [
            FunctionState(function.instance, list_name)
            for function, list_name in ((parts.aggregator, AGGREGATOR_LIST), (parts.function, FUNCTION_LIST))
            if function is not None
        ]

    def _open_functions(self, context: OperatorContext) -> None:
        """Give the functions their states, then open them; before anything of a restored window is merged."""
        for state in self._function_states:
            state.initialize(context)
        self._parts.open(context.runtime)

    def snapshot(self, order: CheckpointOrder) -> None:
        """Let the functions bring their states up to date."""
        for state in self._function_states:
            state.snapshot(order)

    def notify_complete(self, checkpoint_id: int) -> None:
        """Tell the functions that listen."""
        for state in self._function_states:
            state.notify_complete(checkpoint_id)

    def notify_aborted(self, checkpoint_id: int) -> None:
        """Tell the functions that listen."""
        for state in self._function_states:
            state.notify_aborted(checkpoint_id)

    def close(self) -> None:
        """Close the users' functions."""
        self._parts.close()
