"""The protocol of write-ahead sinks: records are kept in the checkpoint and sent when it is complete."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from firesteel.common.errors import ProgramError
from firesteel.common.time import to_millis
from firesteel.contracts.state import ListState
from firesteel.contracts.write_ahead import CheckpointCommitter, GenericWriteAheadSink
from firesteel.plan.state_handles import CheckpointOrder
from firesteel.runtime.function_state import internal_list
from firesteel.runtime.operator import OperatorContext, Timestamps
from firesteel.runtime.operators.function_operator import FunctionOperator
from firesteel.runtime.user_function import UserFunction

LOG = "\0log"


@dataclass(frozen=True, slots=True)
class LogSegment:
    """The records of one subtask between two barriers."""

    checkpoint_id: int
    subtask: int
    timestamp: int
    values: tuple[Any, ...]


class WriteAheadOperator(FunctionOperator):
    """Calls a `GenericWriteAheadSink`.

    1. Records are kept; at a barrier those since the last one become a segment, which is part of the checkpoints
       until it is sent.
    2. When a checkpoint is complete, its segment and earlier ones are sent, oldest first; the committer notes it.
       A segment that cannot be sent is tried again with the next checkpoint.
    3. When a job continues from a checkpoint, the segments in it are sent unless the committer knows them.
    4. Without checkpoints everything is sent at the end of the input.
    """

    def __init__(self, function: UserFunction, operator_id: str) -> None:
        super().__init__(function)
        self._sink: GenericWriteAheadSink = function.instance
        self._id = operator_id
        self._values: list[Any] = []
        self._segments: list[LogSegment] = []
        self._ended = False
        self._committer_opened = False

    def open(self, context: OperatorContext) -> None:
        """Open the committer and the function, then step 3."""
        self._subtask = context.runtime.get_index_of_this_subtask()
        self._now = context.services.now
        self._checkpointing = context.checkpointing
        self._committer = _committer_of(self._sink)
        self._committer.set_job_id(self._sink.job_id or context.services.job_id)
        self._committer.set_operator_id(self._id)
        self._committer.create_resource()
        self._committer.open()
        self._committer_opened = True
        super().open(context)
        self._state: ListState[Any] = context.operator_state.get_list_state(internal_list(LOG))
        if context.restored_checkpoint_id is None:
            self._committer.commit_checkpoint(self._subtask, 0)  # notes of another run do not count
        else:
            restored = [segment for segment in self._state.get() if not self._is_noted(segment)]
            self._segments = sorted(restored, key=lambda segment: segment.checkpoint_id)
            self._send_up_to(context.restored_checkpoint_id)

    def _is_noted(self, segment: LogSegment) -> bool:
        return bool(self._committer.is_checkpoint_committed(segment.subtask, segment.checkpoint_id))

    def process(self, values: list[Any], timestamps: Timestamps) -> None:
        """Keep the records."""
        self._values += values

    def finish(self) -> None:
        """Step 4, unless a last checkpoint will come."""
        self._ended = True
        if not self._checkpointing and self._values:
            self._send(LogSegment(0, self._subtask, to_millis(self._now()), tuple(self._values)))
            self._values = []

    def snapshot(self, order: CheckpointOrder) -> None:
        """Step 1."""
        super().snapshot(order)
        if self._values:
            self._segments.append(LogSegment(order.id, self._subtask, order.timestamp, tuple(self._values)))
            self._values = []
        self._state.update(list(self._segments))

    def notify_complete(self, checkpoint_id: int) -> None:
        """Step 2."""
        self._send_up_to(checkpoint_id)
        super().notify_complete(checkpoint_id)

    def _send_up_to(self, checkpoint_id: int) -> None:
        while self._segments and self._segments[0].checkpoint_id <= checkpoint_id:
            segment = self._segments[0]
            if not self._send(segment):
                return
            self._committer.commit_checkpoint(segment.subtask, segment.checkpoint_id)
            del self._segments[0]

    def _send(self, segment: LogSegment) -> bool:
        sent = self._sink.send_values(segment.values, segment.checkpoint_id, segment.timestamp)
        if not sent and self._ended:
            raise RuntimeError(
                f"the last {len(segment.values)} records could not be sent: send_values() returned {sent!r}"
            )
        return bool(sent)

    def close(self) -> None:
        """Close the function and the committer."""
        try:
            super().close()
        finally:
            if self._committer_opened:
                self._committer.close()


def _committer_of(sink: GenericWriteAheadSink) -> CheckpointCommitter:
    committer: CheckpointCommitter | None = getattr(sink, "committer", None)
    if committer is None:
        raise ProgramError(
            f"{type(sink).__name__} has no committer; its __init__ must call super().__init__(committer)"
        )
    return committer
