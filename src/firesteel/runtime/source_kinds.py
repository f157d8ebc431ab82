"""The two kinds of sources behind one face: readers of splits, and functions that run in a thread of their own.

Both are polled as a `SourceReader`. They differ in where they begin and in what they put into checkpoints:
a reader its splits, a function whatever state it has.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Any

import cloudpickle

from firesteel.common._method_checks import check_methods
from firesteel.contracts.source import Polled, Source, SourceFunction, SourceReader, SourceReaderContext
from firesteel.contracts.state import ListState
from firesteel.plan.messages import ReaderEvent, ReaderRegistered, SourceMessage, SplitRequested
from firesteel.plan.state_handles import CheckpointOrder
from firesteel.runtime.operator import FunctionState, OperatorContext, internal_list
from firesteel.runtime.source_thread import SourceFunctionReader
from firesteel.runtime.user_function import UserFunction

#: The splits of all readers; dealt out anew when the parallelism changes.
SPLITS = "\0splits"
#: Not empty once a source has taken part in a checkpoint: then no splits mean that all have been read.
BEGUN = "\0begun"

_log = logging.getLogger(__name__)


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

    def create_reader(self, place: SourceReaderContext, context: OperatorContext) -> SourceReader:
        """The live reader."""
        self._subtask = place.subtask
        self._reader = self._source.create_reader(place)
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
            _log.warning(
                "%s cannot go back to where it was at a checkpoint: after a failure it goes on with what comes then",
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

    def create_reader(self, place: SourceReaderContext, context: OperatorContext) -> SourceReader:
        """The live reader; the function is opened first."""
        self._state.initialize(context)
        self._function.open(context.runtime)
        self._reader = SourceFunctionReader(self._source, place)
        return self._reader

    def open_reader(self, context: OperatorContext) -> None:
        """Let the function run."""
        self._reader.open()

    def request_split(self) -> None:
        """There is nobody to ask."""

    def send_event(self, event: Any) -> None:
        """There is nobody to tell."""

    def take_messages(self) -> list[SourceMessage]:
        """None."""
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
