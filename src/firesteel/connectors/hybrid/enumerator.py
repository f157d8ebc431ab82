"""The enumerator of a hybrid source: hosts that of the source at hand, and switches when all readers have read it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from firesteel.checkpoint import own_metadata, state_pickle
from firesteel.common._override import override
from firesteel.common.errors import UnsupportedOperationError
from firesteel.connectors.hybrid.messages import (
    Finished,
    HybridSplit,
    HybridState,
    InnerEvent,
    NoMoreSplits,
    SplitWanted,
    Switched,
)
from firesteel.contracts.source import Source, SplitEnumerator, SplitEnumeratorContext


class HybridEnumerator(SplitEnumerator):
    """Has every reader read the same source."""

    def __init__(
        self,
        sources: Sequence[Source[Any]],
        context: SplitEnumeratorContext,
        state: HybridState | None = None,
    ) -> None:
        self._sources = sources
        self._context = context
        self._finished: set[int] = set()
        self.source = 0 if state is None else state.source
        self._inner_context = InnerContext(self, context, self.source)
        self._inner = self._create(None if state is None else state.enumerator)

    def _create(self, state: bytes | None = None) -> SplitEnumerator:
        source = self._sources[self.source]
        if not source.has_enumerator:
            parallelism = self._context.current_parallelism()
            waiting = _known_splits(source, parallelism) if state is None else own_or_user(source, state)
            return KnownSplits(waiting, self._inner_context)
        if state is None:
            return source.create_enumerator(self._inner_context)
        return source.restore_enumerator(self._inner_context, own_or_user(source, state))

    @override
    def start(self) -> None:
        self._inner.start()

    @override
    def add_reader(self, subtask: int) -> None:
        """It may have splits of the source at hand, from a checkpoint."""
        self._finished.discard(subtask)
        self._have_read(subtask)

    def _have_read(self, subtask: int) -> None:
        self._context.send_event_to_source_reader(subtask, Switched(self.source))
        self._inner_context.readers.add(subtask)
        self._inner.add_reader(subtask)

    @override
    def handle_split_request(self, subtask: int) -> None:
        """Readers say of which source they want splits: `SplitWanted`."""

    @override
    def handle_source_event(self, subtask: int, event: Any) -> None:
        if event.source != self.source:
            return  # of a source that is over
        match event:
            case SplitWanted():
                self._inner.handle_split_request(subtask)
            case InnerEvent(_, inner):
                self._inner.handle_source_event(subtask, inner)
            case Finished():
                self._finished.add(subtask)
                if len(self._finished) == self._context.current_parallelism():
                    self._switch()

    def _switch(self) -> None:
        self._inner.close()
        self.source += 1
        self._finished = set()
        self._inner_context = InnerContext(self, self._context, self.source)
        self._inner = self._create()
        self._inner.start()
        for subtask in self._context.registered_readers():
            self._have_read(subtask)

    @override
    def add_splits_back(self, splits: Sequence[HybridSplit], subtask: int) -> None:
        """A task of a batch job is repeated, with all splits that it ever had."""
        if any(each.source != self.source for each in splits):
            raise UnsupportedOperationError(
                "a task of a batch job was lost after its hybrid source had gone on to the next source, and its splits of "
                "the source before cannot be read again; run the job in STREAMING mode with checkpoints"
            )
        self._inner.add_splits_back([each.split for each in splits], subtask)

    @override
    def snapshot_state(self, checkpoint_id: int) -> HybridState:
        return HybridState(self.source, state_pickle.dumps(self._inner.snapshot_state(checkpoint_id)))

    @override
    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self._inner.notify_checkpoint_complete(checkpoint_id)

    @override
    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        self._inner.notify_checkpoint_aborted(checkpoint_id)

    @override
    def close(self) -> None:
        self._inner.close()


class InnerContext(SplitEnumeratorContext):
    """What the enumerator of one source may ask and do; nothing any more when its source is over."""

    def __init__(self, hybrid: HybridEnumerator, outer: SplitEnumeratorContext, source: int) -> None:
        self._hybrid = hybrid
        self._outer = outer
        self._source = source
        #: The subtasks that have been told to read this source.
        self.readers: set[int] = set()

    @override
    def current_parallelism(self) -> int:
        return self._outer.current_parallelism()

    @override
    def registered_readers(self) -> list[int]:
        return sorted(self.readers)

    @override
    def now(self) -> float:
        return self._outer.now()

    @override
    def assign_splits(self, assignment: Mapping[int, Sequence[Any]]) -> None:
        self._outer.assign_splits(
            {
                subtask: [HybridSplit(self._source, split) for split in splits]
                for subtask, splits in assignment.items()
            }
        )

    @override
    def signal_no_more_splits(self, subtask: int) -> None:
        self._outer.send_event_to_source_reader(subtask, NoMoreSplits(self._source))

    @override
    def send_event_to_source_reader(self, subtask: int, event: Any) -> None:
        self._outer.send_event_to_source_reader(subtask, InnerEvent(self._source, event))

    @override
    def call_async(
        self,
        callable: Callable[[], Any],
        handler: Callable[[Any, Exception | None], None],
        initial_delay: float = 0.0,
        interval: float | None = None,
    ) -> None:
        def call() -> Any:
            return callable() if self._is_current() else None

        def handle(result: Any, error: Exception | None) -> None:
            if self._is_current():
                handler(result, error)

        self._outer.call_async(call, handle, initial_delay, interval)

    def _is_current(self) -> bool:
        return self._hybrid.source == self._source


class KnownSplits(SplitEnumerator):
    """For a source that knows all its splits in advance: every reader gets its own when it begins with the source."""

    def __init__(self, waiting: Mapping[int, Sequence[Any]], context: InnerContext) -> None:
        parallelism = context.current_parallelism()
        self._context = context
        self._waiting: dict[int, list[Any]] = {}
        for subtask, splits in waiting.items():  # of a checkpoint with another parallelism, perhaps
            self._waiting.setdefault(subtask % parallelism, []).extend(splits)

    @override
    def add_reader(self, subtask: int) -> None:
        splits = self._waiting.pop(subtask, [])
        if splits:
            self._context.assign_splits({subtask: splits})
        self._context.signal_no_more_splits(subtask)

    @override
    def handle_split_request(self, subtask: int) -> None:
        """Nobody asks: all have all."""

    @override
    def add_splits_back(self, splits: Sequence[Any], subtask: int) -> None:
        self._waiting.setdefault(subtask, []).extend(splits)

    @override
    def snapshot_state(self, checkpoint_id: int) -> dict[int, list[Any]]:
        return {subtask: list(splits) for subtask, splits in self._waiting.items()}


def _known_splits(source: Source[Any], parallelism: int) -> dict[int, Sequence[Any]]:
    by_subtask = {subtask: source.splits_of(subtask, parallelism) for subtask in range(parallelism)}
    return {subtask: list(splits) for subtask, splits in by_subtask.items() if splits}


def own_or_user(source: Source[Any], state: bytes) -> Any:
    """The state of an enumerator; sources of a program may have saved anything, ours have not."""
    is_ours = type(source).__module__.startswith("firesteel.connectors.")
    return own_metadata.loads(state) if is_ours else state_pickle.loads(state)
