"""The protocol of write-ahead sinks: records are kept in the checkpoint and sent when it is complete."""

from __future__ import annotations

import copy
import uuid
from dataclasses import dataclass
from typing import Any

from firesteel.common._override import override
from firesteel.common.errors import ProgramError
from firesteel.common.time import to_millis
from firesteel.contracts.state import ListState
from firesteel.contracts.write_ahead import CheckpointCommitter, GenericWriteAheadSink
from firesteel.plan.state_handles import CheckpointOrder
from firesteel.runtime.operator import OperatorContext, Timestamps, internal_list
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
    notes: str  # the job id under which the committer notes that it was sent


class WriteAheadOperator(FunctionOperator):
    """Calls a `GenericWriteAheadSink`.

    1. Records are kept; at a barrier those since the last one become a segment, which is part of the checkpoints
       until it is sent.
    2. When a checkpoint is complete, its segment and earlier ones are sent, oldest first; the committer notes it.
       A segment that cannot be sent is tried again with the next checkpoint.
    3. When a job continues from a checkpoint, the segments in it are sent unless the committer knows them. Every start of
       a subtask makes notes of its own, and a segment knows the notes of the start that made it: a number of a checkpoint
       means different records in jobs that resume from the same savepoint, or begin again.
    4. Without checkpoints everything is sent at the end of the input.
    """

    def __init__(self, function: UserFunction, operator_id: str) -> None:
        super().__init__(function)
        self._sink: GenericWriteAheadSink = function.instance
        self._values: list[Any] = []
        self._segments: list[LogSegment] = []
        self._ended = False
        self._committers = _Committers(operator_id)

    @override
    def open(self, context: OperatorContext) -> None:
        """Open the committer and the function, then step 3."""
        self._subtask = context.runtime.get_index_of_this_subtask()
        self._now = context.services.now
        self._checkpointing = context.checkpointing
        context.system_metrics.gauge("pendingCommittables", lambda: len(self._segments))
        committer = _committer_of(self._sink)
        job_id = self._sink.job_id or context.services.job_id
        self._notes = f"{job_id}-{uuid.uuid4().hex[:16]}"
        self._committers.start(committer, job_id)
        self._committers.of(self._notes).commit_checkpoint(self._subtask, 0)
        super().open(context)
        self._state: ListState[Any] = context.operator_state.get_list_state(internal_list(LOG))
        if context.restored_checkpoint_id is not None:
            restored = [segment for segment in self._state.get() if not self._is_committed(segment)]
            self._segments = sorted(restored, key=lambda segment: segment.checkpoint_id)
            self._send_up_to(context.restored_checkpoint_id)
            self._committers.close_all_but({self._notes, *map(self._committers.name, self._segments)})

    def _is_committed(self, segment: LogSegment) -> bool:
        committer = self._committers.of(self._committers.name(segment))
        return bool(committer.is_checkpoint_committed(segment.subtask, segment.checkpoint_id))

    @override
    def process(self, values: list[Any], timestamps: Timestamps) -> None:
        self._values += values

    @override
    def finish(self) -> None:
        """Step 4: send everything, unless a last checkpoint will come."""
        self._ended = True
        if self._checkpointing:
            return
        while self._segments:  # of a savepoint that has failed, or is not complete yet
            self._send(self._segments.pop(0))
        if self._values:
            self._send(LogSegment(0, self._subtask, to_millis(self._now()), tuple(self._values), self._notes))
            self._values = []

    @override
    def snapshot(self, order: CheckpointOrder) -> None:
        """Step 1: the records since the last barrier become a segment."""
        super().snapshot(order)
        if self._values:
            values = tuple(self._values)
            self._segments.append(LogSegment(order.id, self._subtask, order.timestamp, values, self._notes))
            self._values = []
        self._state.update(list(self._segments))

    @override
    def notify_complete(self, checkpoint_id: int) -> None:
        """Step 2: send the segments up to the checkpoint."""
        self._send_up_to(checkpoint_id)
        super().notify_complete(checkpoint_id)

    def _send_up_to(self, checkpoint_id: int) -> None:
        while self._segments and self._segments[0].checkpoint_id <= checkpoint_id:
            segment = self._segments[0]
            # An attempt that was replaced may hear of the checkpoint after the one that replaced it has sent this.
            if not self._is_committed(segment):
                if not self._send(segment):
                    return
                committer = self._committers.of(self._committers.name(segment))
                committer.commit_checkpoint(segment.subtask, segment.checkpoint_id)
            del self._segments[0]

    def _send(self, segment: LogSegment) -> bool:
        sent = self._sink.send_values(segment.values, segment.checkpoint_id, segment.timestamp)
        if not sent and self._ended:
            raise RuntimeError(
                f"the last {len(segment.values)} records could not be sent: send_values() returned {sent!r}"
            )
        return bool(sent)

    @override
    def close(self) -> None:
        """Close the function and the committer."""
        try:
            super().close()
        finally:
            self._committers.close_all_but(set())


class _Committers:
    """The committer of the sink, once for every start whose notes are needed."""

    def __init__(self, operator_id: str) -> None:
        self._operator_id = operator_id
        self._opened: dict[str, CheckpointCommitter] = {}

    def start(self, committer: CheckpointCommitter, job_id: str) -> None:
        """Get the sink's own object, which nobody has opened yet."""
        self._unopened = copy.deepcopy(committer)
        self._own: CheckpointCommitter | None = committer
        self._job_id = job_id

    def name(self, segment: LogSegment) -> str:
        """Where notes about a segment are; before segments knew it, all of a job were together."""
        notes: str = getattr(segment, "notes", self._job_id)
        return notes

    def of(self, notes: str) -> CheckpointCommitter:
        """The committer with these notes, open. The first that is asked for is the sink's own object."""
        if notes not in self._opened:
            committer, self._own = self._own or copy.deepcopy(self._unopened), None
            committer.set_job_id(notes)
            committer.set_operator_id(self._operator_id)
            committer.create_resource()
            committer.open()
            self._opened[notes] = committer
        return self._opened[notes]

    def close_all_but(self, needed: set[str]) -> None:
        """Close those whose notes nobody will ask for again."""
        for notes in [notes for notes in self._opened if notes not in needed]:
            self._opened.pop(notes).close()


def _committer_of(sink: GenericWriteAheadSink) -> CheckpointCommitter:
    committer: CheckpointCommitter | None = getattr(sink, "committer", None)
    if committer is None:
        raise ProgramError(
            f"{type(sink).__name__} has no committer; its __init__ must call super().__init__(committer)"
        )
    return committer
