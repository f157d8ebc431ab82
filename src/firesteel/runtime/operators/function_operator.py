"""What operators around one user function share: opening and closing it."""

from __future__ import annotations

from firesteel.runtime.operator import Operator, OperatorContext
from firesteel.runtime.user_function import UserFunction


class FunctionOperator(Operator):
    """Owns a user function for the life of the subtask."""

    def __init__(self, function: UserFunction) -> None:
        self.function = function

    def open(self, context: OperatorContext) -> None:
        """Remember the output and open the user's function."""
        self.output = context.output
        self.function.open(context.runtime)

    def close(self) -> None:
        """Close the user's function."""
        self.function.close()
