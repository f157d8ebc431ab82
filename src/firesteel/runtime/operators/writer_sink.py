"""Sinks with writer and committer: hop 10 of a record's journey, and the last hop, when it is seen."""

from __future__ import annotations

from typing import Any

from firesteel.common.typeinfo import TypeInformation
from firesteel.contracts.sink import Committer, Sink, SinkContext, SinkWriter
from firesteel.contracts.state import ListState
from firesteel.plan.state_handles import CheckpointOrder
from firesteel.runtime.commit_queue import EVERYTHING, CommitQueue
from firesteel.runtime.function_state import internal_list
from firesteel.runtime.operator import Operator, OperatorContext, Timestamps
from firesteel.runtime.operators.sink import RecordContext, hand_over
from firesteel.runtime.user_function import UserFunction

#: What writers need to go on.
WRITERS = "\0writers"
#: What was written and is not seen yet.
COMMITTABLES = "\0committables"


class WriterSinkOperator(Operator):
    """One subtask of a `Sink`: writes records, and commits what completed checkpoints hold.

    1. At a barrier the writer is flushed and hands over its committables; they wait in the queue and are part of
       this checkpoint, and of those after it, until they are committed.
    2. When a checkpoint is complete, everything in the queue up to it is committed.
    3. When a job continues from a checkpoint, that checkpoint is complete: what waited in it is committed first.
    4. Without checkpoints everything is committed at the end of the input.
    """

    def __init__(self, function: UserFunction, input_type: TypeInformation | None = None) -> None:
        self._sink: Sink = function.instance
        self._input_type = input_type
        self._writer: SinkWriter | None = None
        self._committer: Committer | None = None
        self._ended = False

    def open(self, context: OperatorContext) -> None:
        """Commit what waited in the checkpoint, then create the writer."""
        self.output = context.output
        self._now = context.services.now
        self._checkpointing = context.checkpointing
        self._context = RecordContext(self, context.services)
        place = self._place(context)
        states = context.operator_state
        self._committables: ListState[Any] = states.get_list_state(internal_list(COMMITTABLES))
        self._writers: ListState[Any] = states.get_list_state(internal_list(WRITERS))
        self._committer = self._sink.create_committer(place)
        self._queue = CommitQueue(self._committer, self._committables.get())
        self._queue.commit(context.restored_checkpoint_id or 0, self._now())
        restored = list(self._writers.get())
        self._writer = (
            self._sink.restore_writer(place, restored) if restored else self._sink.create_writer(place)
        )
        self._write = self._writer.write

    def _place(self, context: OperatorContext) -> SinkContext:
        runtime, services = context.runtime, context.services
        return SinkContext(
            services.job_id,
            runtime.get_index_of_this_subtask(),
            runtime.get_number_of_parallel_subtasks(),
            services.attempt,
            services.now,
            context.operator_state,
            context.restored_checkpoint_id,
            self._input_type,
            context.checkpointing,
        )

    def process(self, values: list[Any], timestamps: Timestamps) -> None:
        """Write every record."""
        self.cursor = cursor = iter(values)
        hand_over(self._write, cursor, timestamps, self._context)

    def finish(self) -> None:
        """Flush; commit, unless a last checkpoint will."""
        assert self._writer is not None
        self._ended = True
        self._writer.flush(end_of_input=True)
        if not self._checkpointing:
            self._queue.add(EVERYTHING, self._writer.prepare_commit())
            self._queue.commit(EVERYTHING, self._now())
            self._queue.insist(self._now())

    # Checkpoints --------------------------------------------------------------------------------------

    def snapshot(self, order: CheckpointOrder) -> None:
        """Step 1."""
        assert self._writer is not None
        self._writer.flush(end_of_input=self._ended)
        self._queue.add(order.id, self._writer.prepare_commit())
        self._writers.update(list(self._writer.snapshot_state(order.id)))
        self._committables.update(self._queue.pending)

    def notify_complete(self, checkpoint_id: int) -> None:
        """Step 2. After the end of the input there is no later: it has to work now, or when the job is restarted."""
        assert self._writer is not None
        self._queue.commit(checkpoint_id, self._now())
        if self._ended:
            self._queue.insist(self._now())
        self._writer.notify_checkpoint_complete(checkpoint_id)

    # Time ---------------------------------------------------------------------------------------------

    def next_deadline(self) -> float:
        """When the writer or a retry wants to be called."""
        if self._writer is None:
            return self._queue.retry_at
        return min(self._writer.next_deadline(), self._queue.retry_at)

    def on_time(self, now: float) -> None:
        """What is due."""
        assert self._writer is not None
        self._queue.retry(now)
        if self._writer.next_deadline() <= now:
            self._writer.on_time(now)

    def close(self) -> None:
        """Close writer and committer."""
        try:
            if self._writer is not None:
                self._writer.close()
        finally:
            if self._committer is not None:
                self._committer.close()
