"""What operators around one user function share: opening and closing it, and its states in checkpoints."""

from __future__ import annotations

from firesteel.common._override import override
from firesteel.runtime.operator import FunctionState, Operator, OperatorContext
from firesteel.runtime.user_function import UserFunction


class FunctionOperator(Operator):
    """Owns a user function for the life of the subtask."""

    def __init__(self, function: UserFunction) -> None:
        self.function = function
        self.function_states = (FunctionState(function.instance),)

    @override
    def open(self, context: OperatorContext) -> None:
        """Remember the output; give the user's function its states, then open it."""
        self.output = context.output
        self.initialize_functions(context)
        self.function.open(context.runtime)

    @override
    def close(self) -> None:
        self.function.close()
