"""The reader of a hybrid source: hosts that of the source at hand, and waits for the next one when it has ended."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

from firesteel.common._override import override
from firesteel.connectors.hybrid.messages import (
    Finished,
    HybridSplit,
    InnerEvent,
    NoMoreSplits,
    SplitWanted,
    Switched,
)
from firesteel.contracts.source import Polled, Source, SourceReader, SourceReaderContext
from firesteel.metrics import MetricGroup


class HybridReader(SourceReader):
    """Reads the source that its enumerator says.

    The splits of each source have a time of their own, which ends with the source: what a source has read does not hold
    back the time of the next one.
    """

    def __init__(self, sources: Sequence[Source[Any]], context: SourceReaderContext) -> None:
        self._sources = sources
        self._context = context
        self._source = -1
        self._inner: SourceReader | None = None
        self._early: list[
            HybridSplit
        ] = []  # of a checkpoint: their source is read again as soon as the enumerator says so
        self._timed: set[Hashable] = set()  # what has a time of its own
        self._over: tuple[Hashable, ...] = ()  # of these the time ends with the next poll
        self._has_finished = False
        self._stopped = False

    @override
    def add_splits(self, splits: Sequence[HybridSplit]) -> None:
        now = [each.split for each in splits if each.source == self._source]
        self._early += [each for each in splits if each.source != self._source]
        if now:
            assert self._inner is not None
            self._inner.add_splits(now)

    @override
    def handle_source_event(self, event: Any) -> None:
        match event:
            case Switched(source):
                self._switch(source)
            case NoMoreSplits(source) if source == self._source and self._inner is not None:
                self._inner.notify_no_more_splits()
            case InnerEvent(source, inner) if source == self._source and self._inner is not None:
                self._inner.handle_source_event(inner)

    def _switch(self, source: int) -> None:
        if self._inner is not None:
            self._inner.close()
        self._over, self._timed = (*self._over, *self._timed), set()
        self._source, self._has_finished = source, False

        def request_split() -> None:
            self._context.send_event(SplitWanted(source))

        def send_event(event: Any) -> None:
            self._context.send_event(InnerEvent(source, event))

        def metric_group() -> MetricGroup:  # two of the sources may have metrics of the same names
            return self._context.metric_group().add_group("source", str(source))

        context = replace(
            self._context, request_split=request_split, send_event=send_event, metric_group=metric_group
        )
        self._inner = self._sources[source].create_reader(context)
        self._inner.open()
        early, self._early = self._early, []
        if early:
            self.add_splits(early)
        if self._stopped:
            self._stop_inner()

    @override
    def poll(self, limit: int) -> Polled:
        if self._inner is None or self._has_finished:
            return self._timed_apart(Polled([], ended=self._stopped, retry_at=math.inf))
        polled = self._inner.poll(limit)
        is_last = self._stopped or self._source == len(self._sources) - 1
        if polled.ended and not is_last:
            self._has_finished = True
            self._context.send_event(Finished(self._source))
            polled = replace(polled, ended=False, retry_at=math.inf)
        return self._timed_apart(polled)

    def _timed_apart(self, polled: Polled) -> Polled:
        """With names of splits that say of which source they are."""
        says = polled.values or polled.watermark is not None or polled.idle
        split = (self._source, polled.split)
        added = tuple((self._source, each) for each in polled.splits_added)
        ended = tuple((self._source, each) for each in polled.splits_ended)
        over, self._over = self._over, ()
        self._timed |= {*added, *([split] if says else [])}
        self._timed -= set(ended)
        return replace(polled, split=split, splits_added=added, splits_ended=(*ended, *over))

    @override
    def snapshot_state(self, checkpoint_id: int) -> list[HybridSplit]:
        inner = [] if self._inner is None else self._inner.snapshot_state(checkpoint_id)
        return self._early + [HybridSplit(self._source, split) for split in inner]

    @override
    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        if self._inner is not None:
            self._inner.notify_checkpoint_complete(checkpoint_id)

    @override
    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        if self._inner is not None:
            self._inner.notify_checkpoint_aborted(checkpoint_id)

    @override
    def pending_records(self) -> int | None:
        """Those of the source at hand; what the next ones have is not known."""
        return None if self._inner is None else self._inner.pending_records()

    @override
    def stop(self) -> None:
        self._stopped = True
        self._stop_inner()

    def _stop_inner(self) -> None:
        if self._inner is None:
            return
        self._inner.stop()
        if type(self._inner).stop is SourceReader.stop:  # it would never end
            self._has_finished = True

    @override
    def close(self) -> None:
        if self._inner is not None:
            self._inner.close()
