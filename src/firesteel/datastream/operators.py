"""Operators of one's own, for ``transform(name, operator)``; as Flink has them in Java, and not in PyFlink."""

from firesteel.contracts.checkpointing import FunctionInitializationContext, FunctionSnapshotContext
from firesteel.contracts.stream_operators import (
    InputSelectable,
    InputSelection,
    OneInputStreamOperator,
    Output,
    StreamOperator,
    StreamOperatorContext,
    TwoInputStreamOperator,
)
from firesteel.contracts.timers import TimerService

__all__ = [
    "FunctionInitializationContext",
    "FunctionSnapshotContext",
    "InputSelectable",
    "InputSelection",
    "OneInputStreamOperator",
    "Output",
    "StreamOperator",
    "StreamOperatorContext",
    "TimerService",
    "TwoInputStreamOperator",
]
