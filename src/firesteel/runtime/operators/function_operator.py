"""What operators around one user function share: opening and closing it, and its states in checkpoints."""

from __future__ import annotations

from firesteel.common._override import override
from firesteel.plan.state_handles import CheckpointOrder
from firesteel.runtime.operator import FunctionState, Operator, OperatorContext
from firesteel.runtime.user_function import UserFunction


class FunctionOperator(Operator):
    """Owns a user function for the life of the subtask."""

    def __init__(self, function: UserFunction) -> None:
        self.function = function
        self._function_state = FunctionState(function.instance)

    @override
    def open(self, context: OperatorContext) -> None:
        """Remember the output; give the user's function its states, then open it."""
        self.output = context.output
        self._function_state.initialize(context)
        self.function.open(context.runtime)

    @override
    def snapshot(self, order: CheckpointOrder) -> None:
        """Let the function bring its states up to date."""
        self._function_state.snapshot(order)

    @override
    def notify_complete(self, checkpoint_id: int) -> None:
        """Tell the function, when it listens."""
        self._function_state.notify_complete(checkpoint_id)

    @override
    def notify_aborted(self, checkpoint_id: int) -> None:
        """Tell the function, when it listens."""
        self._function_state.notify_aborted(checkpoint_id)

    @override
    def close(self) -> None:
        self.function.close()
