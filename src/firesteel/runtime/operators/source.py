"""Sources: hop 2 of a record's journey. Polls a reader, stamps what it gives and sends it into the chain.

There are two kinds behind one face: readers of splits, and functions that run in a thread of their own. Both are polled as
a `SourceReader`. They differ in where they begin and in what they put into checkpoints: a reader its splits, a function
whatever state it has.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import cloudpickle

from firesteel.common._method_checks import check_methods
from firesteel.common._override import override
from firesteel.common._values import private_batch
from firesteel.common.errors import ProgramError
from firesteel.common.time import MAX_WATERMARK, MIN_TIMESTAMP, to_millis
from firesteel.common.watermark_strategy import WatermarkStrategy
from firesteel.contracts.source import Polled, Source, SourceFunction, SourceReader, SourceReaderContext
from firesteel.contracts.state import ListState
from firesteel.metrics import MetricGroup
from firesteel.plan.messages import ReaderEvent, ReaderRegistered, SourceMessage, SplitRequested
from firesteel.plan.state_handles import CheckpointOrder
from firesteel.runtime.event_time import EventTime
from firesteel.runtime.harmless import notice
from firesteel.runtime.operator import FunctionState, Operator, OperatorContext, internal_list
from firesteel.runtime.operators.bad_messages import BadMessages
from firesteel.runtime.source_alignment import SourceAlignment
from firesteel.runtime.source_thread import SourceFunctionReader
from firesteel.runtime.user_function import UserFunction

#: The splits of all readers; redistributed when the parallelism changes.
SPLITS = "\0splits"
#: Not empty once a source has taken part in a checkpoint: then no splits mean that all have been read.
BEGUN = "\0begun"

_LOG = logging.getLogger(__name__)


class SourceOperator(Operator):
    """Head of a chain without input; the task polls it when it has time.

    ``retry_at`` tells the task when polling again makes sense; ``ended`` that it never will. A wake-up
    from another thread only raises a flag, which `poll` lowers before it looks: none can be lost.
    ``batch`` is what is being sent, for whoever has to name the record that failed.
    """

    def __init__(
        self,
        function: UserFunction,
        strategy: WatermarkStrategy | None = None,
        operator_id: str = "",
        bad_messages: BadMessages | None = None,
    ) -> None:
        self._function = function
        self._bad_messages = bad_messages
        self._strategy = WatermarkStrategy.no_watermarks() if strategy is None else strategy
        self._id = operator_id
        settings = self._strategy.alignment
        self.watermark_alignment = None if settings is None else SourceAlignment(settings)
        self.ended = False
        self.batch: list[Any] = []
        self._retry_at = 0.0
        self._woken = False
        self._suspended = False
        self._closed = False
        self._last_pending: int | None = None  # of a reader that has ended
        self._reader_abandoned = False
        self._source = self._create_source()
        self._reader: SourceReader | None = None

    def _create_source(self) -> FunctionSource | ReaderSource:
        source: Source | SourceFunction = self._function.instance
        if isinstance(source, SourceFunction):
            return FunctionSource(source, self._function)
        return ReaderSource(source, self._id)

    @override
    def open(self, context: OperatorContext) -> None:
        """Create and open the subtask's reader, with the splits or the state that it resumes from."""
        self.output = context.output
        self._now = context.services.now
        self._pace = context.pace
        self.time = EventTime(self, self._strategy, context)
        if self._bad_messages is not None:
            self._bad_messages.open(context, self.output)
        runtime = context.runtime
        reader_context = SourceReaderContext(
            runtime.get_index_of_this_subtask(),
            runtime.get_number_of_parallel_subtasks(),
            context.services.now,
            self._wake_with(context.services.wake),
            self._source.request_split,
            self._source.send_event,
            context.checkpointing,
            runtime.get_metrics_group,
        )
        self._reader = self._source.create_reader(reader_context, context)
        self._protects = context.protects and not self._reader.gives_away
        self._source.open_reader(context)
        self._emitted_at = self._now()
        self._register_metrics(context.system_metrics)
        if type(self._reader).pending_records is not SourceReader.pending_records:
            # Beside what the reader itself tells: programs look for it in `JobClient.metrics()`.
            runtime.get_metrics_group().gauge("pendingRecords", self._pending_records)

    def _register_metrics(self, group: MetricGroup) -> None:
        group.gauge("sourceIdleTime", lambda: to_millis(self._now() - self._emitted_at))
        group.gauge("watermarkLag", self._watermark_lag)
        group.gauge("currentEmitEventTimeLag", self._event_time_lag)

    def _pending_records(self) -> int | None:
        assert self._reader is not None
        return self._last_pending if self._closed else self._reader.pending_records()

    def _watermark_lag(self) -> int | None:
        watermark = self.current_watermark
        known = MIN_TIMESTAMP < watermark < MAX_WATERMARK
        return to_millis(self._now()) - watermark if known else None

    def _event_time_lag(self) -> int | None:
        stamp = self.time.last_stamp
        return None if stamp is None else to_millis(self._emitted_at) - stamp

    def _wake_with(self, wake: Callable[[], None]) -> Callable[[], None]:
        def wake_source() -> None:
            self._woken = True
            wake()

        return wake_source

    # Polling ------------------------------------------------------------------------------------------

    @property
    def retry_at(self) -> float:
        """When polling makes sense; while it waits for others of its group, only their news can tell."""
        return math.inf if self._held else self._retry_at

    @property
    def _held(self) -> bool:
        return self._suspended or (self.watermark_alignment is not None and self.watermark_alignment.held)

    def ready(self, now: float) -> bool:
        """Whether polling makes sense at the time ``now``."""
        return not self.ended and not self._held and (self._woken or self._retry_at <= now)

    def poll(self, limit: int) -> bool:
        """Send one batch into the chain; False when there was nothing to send."""
        assert self._reader is not None
        self._woken = False
        polled = Polled([], ended=True) if self._reader_abandoned else self._reader.poll(limit)
        self._retry_at = polled.retry_at
        self._send(polled)
        now = self._now()
        if polled.values:
            self._emitted_at = now
        self.time.check_idle(now)
        if polled.ended:
            self._last_pending = self._reader.pending_records()
            self._end()
        self._report()
        return bool(polled.values or polled.bad) or polled.ended

    def _send(self, polled: Polled) -> None:
        for split in polled.splits_added:
            self.time.add_split(split)
        if polled.bad or polled.ignored:
            self._put_aside(polled)
        if polled.values:
            # A reader may keep what it hands over, and hand it over again.
            if self._protects:
                values = private_batch(polled.values)
            else:
                values = polled.values
                notice(values)
            self.batch, timestamps = values, polled.timestamps
            left = self.time.receive(values, timestamps, polled.split)
            while left:
                self.batch = values = values[-left:]
                timestamps = None if timestamps is None else timestamps[-left:]
                self._pace.breathe()
                left = self.time.receive(values, timestamps, polled.split)
            self.batch, self.cursor = [], None
        if polled.watermark is not None:
            self.time.advance(polled.watermark, polled.split)
        if polled.idle:
            self.time.mark_idle(polled.split)
        for split in polled.splits_ended:
            self.time.end_split(split)

    def _put_aside(self, polled: Polled) -> None:
        if self._bad_messages is None:
            raise ProgramError(
                f"{type(self._function.instance).__name__} hands over messages that it could not deserialize and does "
                "not say so in advance; set decodes = True in the class of the source"
            )
        if polled.ignored:
            self._bad_messages.ignore(polled.ignored)
        if polled.bad:
            self._bad_messages.add(polled.bad)

    def stop(self) -> None:
        """End as if the input had ended."""
        if self._reader is not None and not self.ended:
            self._retry_at = 0.0
            if self.watermark_alignment is not None:
                self.watermark_alignment.release()
            self._reader.stop()
            # One that does not know how to end would give records for ever, or wait for ever.
            self._reader_abandoned = type(self._reader).stop is SourceReader.stop

    @override
    def close(self) -> None:
        """Close the reader and, when the source is one, the user's function."""
        self._closed = True
        try:
            if self._reader is not None:
                self._reader.close()
        finally:
            self._function.close()

    def _end(self) -> None:
        self.ended = True
        self._retry_at = math.inf
        self.time.finish()

    # Splits -------------------------------------------------------------------------------------------

    def take_messages(self) -> list[SourceMessage]:
        """What the reader has to tell its enumerator."""
        return self._source.take_messages()

    def assign(self, splits: list[Any], no_more: bool) -> None:
        """New splits from the enumerator; ``no_more``: the last ones."""
        assert self._reader is not None
        if splits:
            self._reader.add_splits(splits)
        if no_more:
            self._reader.notify_no_more_splits()
        self._woken = True

    def handle_event(self, event: Any) -> None:
        """News from the enumerator."""
        assert self._reader is not None
        self._reader.handle_source_event(event)
        self._woken = True

    # Checkpoints --------------------------------------------------------------------------------------

    @override
    def prepare_barrier(self, order: CheckpointOrder) -> None:
        """Send on what a source function has collected: its state tells that this has been done."""
        for polled in self._source.prepare():
            self._send(polled)

    @override
    def snapshot(self, order: CheckpointOrder) -> None:
        """Put the positions of the reader into the states."""
        self._source.snapshot(order)

    @override
    def notify_complete(self, checkpoint_id: int) -> None:
        self._source.notify_complete(checkpoint_id)

    @override
    def notify_aborted(self, checkpoint_id: int) -> None:
        self._source.notify_aborted(checkpoint_id)

    def suspend(self) -> None:
        """Send nothing more, neither records nor watermarks, until `resume`."""
        self._suspended = True

    def resume(self) -> None:
        """Send again, after `suspend`."""
        if self._suspended:
            self._suspended = False
            self._woken = True
            self.time.restart_idleness(self._now())

    # Time ---------------------------------------------------------------------------------------------

    @override
    def next_deadline(self) -> float:
        """When a watermark, idleness or a report to the group is due."""
        if self._suspended:
            return math.inf
        deadline = self.time.next_deadline()
        return (
            deadline
            if self.watermark_alignment is None
            else min(deadline, self.watermark_alignment.next_deadline())
        )

    @override
    def on_time(self, now: float) -> None:
        """Emit the watermark that is due. Idleness is judged by the poll that follows, not by the clock alone."""
        self.time.on_time(now)
        if self.time.idle_due(now):
            if self._held:  # it may have records that it must not read
                self.time.restart_idleness(now)
            else:
                self._woken = True
        self._report()

    def _report(self) -> None:
        if self.watermark_alignment is not None:
            self.watermark_alignment.observe(self.time.next_watermark(), self._now())


# The two kinds of sources -----------------------------------------------------------------------------


class ReaderSource:
    """A `Source`: its reader begins with the splits of a checkpoint, or with its own, or is given them later."""

    def __init__(self, source: Source, operator_id: str) -> None:
        self._source = source
        self._id = operator_id
        self._messages: list[SourceMessage] = []
        self._subtask = 0
        self._reader: SourceReader
        self._splits: ListState[Any] | None = None
        self._begun: ListState[Any]

    def create_reader(self, reader_context: SourceReaderContext, context: OperatorContext) -> SourceReader:
        """The live reader."""
        self._subtask = reader_context.subtask
        self._reader = self._source.create_reader(reader_context)
        check_methods(self._reader, "create_reader()")
        return self._reader

    def open_reader(self, context: OperatorContext) -> None:
        """Open the reader and give it the splits it begins with."""
        self._reader.open()
        if self._source.has_enumerator:
            self._add(self._own_states(context))
            self._messages.append(ReaderRegistered(self._id, self._subtask))
            return
        runtime = context.runtime
        initial = self._source.splits_of(self._subtask, runtime.get_number_of_parallel_subtasks())
        if initial is None:
            self._warn(context)
            return
        restored = self._own_states(context)
        self._add(restored if list(self._begun.get()) else initial)
        self._reader.notify_no_more_splits()

    def _add(self, splits: Sequence[Any]) -> None:
        if splits:
            self._reader.add_splits(list(splits))

    def _own_states(self, context: OperatorContext) -> list[Any]:
        states = context.operator_state
        self._splits = states.get_list_state(internal_list(SPLITS))
        self._begun = states.get_union_list_state(internal_list(BEGUN))
        return list(self._splits.get())

    def _warn(self, context: OperatorContext) -> None:
        if context.checkpointing and self._subtask == 0:
            _LOG.warning(
                "%s cannot go back to where it was at a checkpoint: after a failure it continues with what comes then",
                context.runtime.get_task_name(),
            )

    # Messages -----------------------------------------------------------------------------------------

    def request_split(self) -> None:
        """The reader has nothing left to read."""
        if self._source.has_enumerator:
            self._messages.append(SplitRequested(self._id, self._subtask))

    def send_event(self, event: Any) -> None:
        """The reader has something to say."""
        if self._source.has_enumerator:
            self._messages.append(ReaderEvent(self._id, self._subtask, cloudpickle.dumps(event)))

    def take_messages(self) -> list[SourceMessage]:
        """What the enumerator has to know."""
        taken, self._messages = self._messages, []
        return taken

    # Checkpoints --------------------------------------------------------------------------------------

    def prepare(self) -> Iterator[Polled]:
        """Nothing: what has not been polled has not been read."""
        return iter(())

    def snapshot(self, order: CheckpointOrder) -> None:
        """The splits as they are now."""
        if self._splits is not None:
            self._splits.update(list(self._reader.snapshot_state(order.id)))
            self._begun.update([True] if self._subtask == 0 else [])

    def notify_complete(self, checkpoint_id: int) -> None:
        """Tell the reader."""
        self._reader.notify_checkpoint_complete(checkpoint_id)

    def notify_aborted(self, checkpoint_id: int) -> None:
        """Tell the reader."""
        self._reader.notify_checkpoint_aborted(checkpoint_id)


class FunctionSource:
    """A `SourceFunction`: gets its state before it is opened, and gives it while it is held."""

    def __init__(self, source: SourceFunction, function: UserFunction) -> None:
        self._source = source
        self._function = function
        self._state = FunctionState(source)
        self._reader: SourceFunctionReader

    def create_reader(self, reader_context: SourceReaderContext, context: OperatorContext) -> SourceReader:
        """The live reader; the function is opened first."""
        self._state.initialize(context)
        self._function.open(context.runtime)
        self._reader = SourceFunctionReader(self._source, reader_context)
        return self._reader

    def open_reader(self, context: OperatorContext) -> None:
        """Let the function run."""
        self._reader.open()

    def request_split(self) -> None:
        """There is nobody to ask."""

    def send_event(self, event: Any) -> None:
        """There is nobody to tell."""

    def take_messages(self) -> list[SourceMessage]:
        """None: a source function has no enumerator."""
        return []

    def prepare(self) -> Iterator[Polled]:
        """Hold the function, until `snapshot`; what it has collected is to be sent before the barrier."""
        if self._state.takes_part:
            self._reader.hold()
            yield from self._reader.drain()

    def snapshot(self, order: CheckpointOrder) -> None:
        """The function's state, which agrees with what was sent."""
        try:
            self._state.snapshot(order)
        finally:
            self._reader.release()

    def notify_complete(self, checkpoint_id: int) -> None:
        """Tell the function, while it is held."""
        if self._state.listens:
            self._held(lambda: self._state.notify_complete(checkpoint_id))

    def notify_aborted(self, checkpoint_id: int) -> None:
        """Tell the function, while it is held."""
        if self._state.listens:
            self._held(lambda: self._state.notify_aborted(checkpoint_id))

    def _held(self, action: Any) -> None:
        self._reader.hold()
        try:
            action()
        finally:
            self._reader.release()
