"""Sinks: hop 10 of a record's journey, into functions, standard output, and writers with committers.

What a writer has written and not yet made seen waits in a `CommitQueue`, by checkpoint.
"""

from __future__ import annotations

import inspect
import logging
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from firesteel.common._java_format import print_to_string
from firesteel.common._method_checks import check_methods
from firesteel.common._override import override
from firesteel.common.errors import ProgramError, short_repr
from firesteel.common.typeinfo import TypeInformation
from firesteel.contracts.sink import (
    CommitOutcome,
    CommitRequest,
    Committer,
    Sink,
    SinkContext,
    SinkFunction,
    SinkWriter,
    record_of,
)
from firesteel.contracts.state import ListState
from firesteel.metrics import MetricGroup
from firesteel.plan.keys import KeyOf
from firesteel.plan.state_handles import CheckpointOrder
from firesteel.runtime.operator import Operator, OperatorContext, Timestamps, internal_list
from firesteel.runtime.operators.announced import KeyedBatches
from firesteel.runtime.operators.function_operator import FunctionOperator
from firesteel.runtime.services import TaskServices
from firesteel.runtime.user_function import UserFunction
from firesteel.state.keyed_backend import KeyedBackend

_LOG = logging.getLogger(__name__)


class RecordContext(SinkFunction.Context):
    """The ``context`` argument of sinks; one object per operator, updated per record."""

    def __init__(self, operator: Operator, services: TaskServices) -> None:
        self._operator = operator
        self._services = services
        self.now_at: int | None = None

    @override
    def timestamp(self) -> int | None:
        """Event time of the record."""
        return self.now_at

    @override
    def current_processing_time(self) -> int:
        return int(self._services.now() * 1000)

    @override
    def current_watermark(self) -> int:
        """Event time up to which the input is complete."""
        return self._operator.current_watermark


def hand_over(
    write: Callable[[Any, SinkFunction.Context], Any],
    values: Iterator[Any],
    timestamps: Timestamps,
    context: RecordContext,
) -> None:
    """Call ``write`` for every record, with a context that knows its timestamp."""
    if timestamps is None:
        context.now_at = None
        for value in values:
            write(value, context)
    else:
        for value, context.now_at in zip(values, timestamps, strict=False):
            write(value, context)


class SinkOperator(FunctionOperator):
    """Calls ``invoke`` for every record; ``invoke(value)`` without a context is accepted too.

    On a keyed stream a function that can have got hold of state sees that of the record's key.
    """

    def __init__(
        self, function: UserFunction, key_of: KeyOf | None = None, state: KeyedBackend | None = None
    ) -> None:
        super().__init__(function)
        self._invoke = function.method("invoke")
        self._wants_context = _accepts_context(self._invoke)
        self._batches: KeyedBatches | None = None
        if key_of is not None and state is not None and function.is_rich:
            self._invoke = _in_key_context(self._invoke, key_of, state)
            self._batches = KeyedBatches(key_of, state)

    @override
    def open(self, context: OperatorContext) -> None:
        """Make the context object, then open the user's function."""
        self._pace = context.pace
        self._context = RecordContext(self, context.services)
        super().open(context)

    @override
    def process(self, values: list[Any], timestamps: Timestamps) -> None:
        invoke = self._invoke
        if self._batches is not None:
            self._batches.announce(self, values)
        self.cursor = cursor = self._pace.begin(values)
        if self._wants_context:
            hand_over(invoke, cursor, timestamps, self._context)
        else:
            for value in cursor:
                invoke(value)
        self.left = self._pace.end()


class DiscardOperator(FunctionOperator):
    """A `DiscardingSink` without the call per record that does nothing."""

    @override
    def process(self, values: list[Any], timestamps: Timestamps) -> None:
        """Forget the batch."""

    @override
    def leaves_alone(self) -> bool:
        return True


class PrintOperator(Operator):
    """Lines as Flink prints them: ``2> value`` with the number of the subtask when there are several."""

    def __init__(self, identifier: str, to_stderr: bool, input_type: TypeInformation | None) -> None:
        self._identifier = identifier
        self._to_stderr = to_stderr
        self._input_type = input_type

    @override
    def open(self, context: OperatorContext) -> None:
        self.output = context.output
        self._services = context.services
        number = context.runtime.get_index_of_this_subtask() + 1
        several = context.runtime.get_number_of_parallel_subtasks() > 1
        labels = [self._identifier] if self._identifier else []
        labels += [str(number)] if several else []
        self._prefix = ":".join(labels) + "> " if labels else ""

    @override
    def process(self, values: list[Any], timestamps: Timestamps) -> None:
        """Print the batch as one text."""
        self.cursor = cursor = iter(values)
        prefix, kind = self._prefix, self._input_type
        text = "".join([f"{prefix}{print_to_string(value, kind)}\n" for value in cursor])
        self._services.write_text(text, self._to_stderr)

    @override
    def leaves_alone(self) -> bool:
        return True


def _in_key_context(invoke: Callable[..., Any], key_of: KeyOf, state: KeyedBackend) -> Callable[..., Any]:
    def call(value: Any, *context: Any) -> Any:
        state.current_key = key_of(
            value
        )  # announced with its batch; a call would be one more for every record
        return invoke(value, *context)

    return call


def _accepts_context(invoke: Any) -> bool:
    try:
        inspect.signature(invoke).bind(None, None)
    except TypeError:
        return False
    except ValueError:  # a builtin that does not tell its signature, such as list.append
        return False
    return True


# Sinks with writers -----------------------------------------------------------------------------------


#: What writers need to resume.
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

    @override
    def open(self, context: OperatorContext) -> None:
        """Commit what waited in the checkpoint, then create the writer."""
        self.output = context.output
        self._now = context.services.now
        self._checkpointing = context.checkpointing
        self._pace = context.pace
        self._context = RecordContext(self, context.services)
        sink_context = self._sink_context(context)
        states = context.operator_state
        self._committables: ListState[Any] = states.get_list_state(internal_list(COMMITTABLES))
        self._writers: ListState[Any] = states.get_list_state(internal_list(WRITERS))
        self._committer = self._sink.create_committer(sink_context)
        check_methods(self._committer, "create_committer()")
        self._queue = CommitQueue(self._committer, self._committables.get())
        if self._committer is not None:
            self._queue.register_metrics(context.system_metrics)
        self._queue.commit(context.restored_checkpoint_id or 0, self._now())
        restored = list(self._writers.get())
        self._writer = (
            self._sink.restore_writer(sink_context, restored)
            if restored
            else self._sink.create_writer(sink_context)
        )
        check_methods(self._writer, "create_writer()")
        self._write = self._writer.write
        self._takes_batches = type(self._writer).write_batch is not SinkWriter.write_batch

    def _sink_context(self, context: OperatorContext) -> SinkContext:
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

    @override
    def process(self, values: list[Any], timestamps: Timestamps) -> None:
        if self._takes_batches:
            self._process_batch(values, timestamps)
            return
        self.cursor = cursor = self._pace.begin(values)
        hand_over(self._write, cursor, timestamps, self._context)
        self.left = self._pace.end()

    def _process_batch(self, values: list[Any], timestamps: Timestamps) -> None:
        """All at once: a batch is as large as the pace of the task allows."""
        assert self._writer is not None
        self.cursor = self._context.now_at = None
        try:
            self._writer.write_batch(values, timestamps, self._context)
        except Exception as error:
            index = record_of(error)
            if index is not None:
                self.culprit = values[index]
            raise

    @override
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

    @override
    def snapshot(self, order: CheckpointOrder) -> None:
        """Step 1: flush the writer, and queue its committables."""
        assert self._writer is not None
        self._writer.flush(end_of_input=self._ended)
        self._queue.add(order.id, self._writer.prepare_commit())
        self._writers.update(list(self._writer.snapshot_state(order.id)))
        self._committables.update(self._queue.pending)

    @override
    def notify_complete(self, checkpoint_id: int) -> None:
        """Step 2: commit. After the end of the input there is no later: it has to work now, or when the job is restarted."""
        assert self._writer is not None
        self._queue.commit(checkpoint_id, self._now())
        if self._ended:
            self._queue.insist(self._now())
        self._writer.notify_checkpoint_complete(checkpoint_id)

    # Time ---------------------------------------------------------------------------------------------

    @override
    def next_deadline(self) -> float:
        """When the writer or a retry wants to be called."""
        if self._writer is None:
            return self._queue.retry_at
        return min(self._writer.next_deadline(), self._queue.retry_at)

    @override
    def on_time(self, now: float) -> None:
        """Try again to commit what failed, and call the writer if its deadline has come."""
        assert self._writer is not None
        self._queue.retry(now)
        if self._writer.next_deadline() <= now:
            self._writer.on_time(now)

    @override
    def close(self) -> None:
        try:
            if self._writer is not None:
                self._writer.close()
        finally:
            if self._committer is not None:
                self._committer.close()


# What waits for its checkpoint ------------------------------------------------------------------------


RETRY_SECONDS = 1.0
MAX_RETRIES = 10
#: Stands for the last checkpoint of all, where there are none.
EVERYTHING = 2**63 - 1

_ENDS = (CommitOutcome.COMMITTED, CommitOutcome.ALREADY_COMMITTED, CommitOutcome.FAILED)


@dataclass(frozen=True, slots=True)
class Pending:
    """A committable and the checkpoint it belongs to."""

    checkpoint_id: int
    committable: Any
    retries: int = 0


class CommitQueue:
    """Committables that wait for their checkpoint, oldest first, and the rules of committing them.

    Notifications may get lost, so a completed checkpoint commits its own committables and those of all earlier ones.
    What the committer wants to try again stays in the queue, and with it in the checkpoints that come meanwhile.
    """

    def __init__(self, committer: Committer | None, restored: Iterable[Pending] = ()) -> None:
        self._committer = committer
        self._pending = sorted(restored, key=lambda entry: entry.checkpoint_id)
        #: What became of committables so far; a committable may be tried again several times.
        self.outcomes = dict.fromkeys(CommitOutcome, 0)
        self._complete = -1  # the newest checkpoint known to be complete
        self.retry_at = math.inf

    @property
    def pending(self) -> list[Pending]:
        """What has to be part of every checkpoint until it is committed."""
        return list(self._pending)

    def register_metrics(self, group: MetricGroup) -> None:
        """Tell under Flink's names how many committables wait, and what became of the others."""
        group.gauge("pendingCommittables", lambda: len(self._pending))
        group.gauge("totalCommittables", lambda: len(self._pending) + sum(map(self._ended, _ENDS)))
        group.gauge("successfulCommittables", lambda: self._ended(CommitOutcome.COMMITTED))
        group.gauge("alreadyCommittedCommittables", lambda: self._ended(CommitOutcome.ALREADY_COMMITTED))
        group.gauge("failedCommittables", lambda: self._ended(CommitOutcome.FAILED))
        group.gauge("retriedCommittables", lambda: self._ended(CommitOutcome.RETRY))

    def _ended(self, outcome: CommitOutcome) -> int:
        return self.outcomes[outcome]

    def add(self, checkpoint_id: int, committables: Sequence[Any]) -> None:
        """Committables wait for a checkpoint from now on; refused when there is no committer for them."""
        if committables and self._committer is None:
            raise ProgramError(
                "prepare_commit() handed over something to commit, but the sink has no committer: "
                "create_committer() must return one"
            )
        self._pending += [Pending(checkpoint_id, committable) for committable in committables]

    def commit(self, checkpoint_id: int, now: float) -> None:
        """Commit what belongs to the checkpoint or to an earlier one."""
        self._complete = max(self._complete, checkpoint_id)
        self._try(now)

    def retry(self, now: float) -> None:
        """Try again what is due."""
        if self.retry_at <= now:
            self._try(now)

    def insist(self, now: float) -> None:
        """Try until everything that may be committed is, or tries run out; for the end of a job."""
        while self.retry_at < math.inf:
            self._try(now)

    def _try(self, now: float) -> None:
        self.retry_at = math.inf
        due = [entry for entry in self._pending if entry.checkpoint_id <= self._complete]
        if not due:
            return
        assert self._committer is not None
        requests = [CommitRequest(entry.committable, entry.retries, _known(entry)) for entry in due]
        self._committer.commit(requests)
        for request in requests:
            self.outcomes[request.outcome] += 1
        again = [
            left
            for entry, request in zip(due, requests, strict=True)
            if (left := _left_over(entry, request)) is not None
        ]
        self._pending = again + [e for e in self._pending if e.checkpoint_id > self._complete]
        if again:
            self.retry_at = now + RETRY_SECONDS


def _known(entry: Pending) -> int | None:
    return None if entry.checkpoint_id == EVERYTHING else entry.checkpoint_id


def _left_over(entry: Pending, request: CommitRequest) -> Pending | None:
    """What is to be tried again."""
    if request.outcome is CommitOutcome.FAILED:
        _LOG.warning(
            "%s of checkpoint %d was given up, it will never be seen: %s",
            short_repr(entry.committable),
            entry.checkpoint_id,
            request.error,
        )
    if request.outcome is not CommitOutcome.RETRY:
        return None
    if entry.retries >= MAX_RETRIES:
        raise RuntimeError(
            f"{short_repr(entry.committable)} of checkpoint {entry.checkpoint_id} could not be committed in "
            f"{entry.retries + 1} tries"
        )
    return replace(entry, committable=request.get_committable(), retries=entry.retries + 1)
