"""Reads splits of files one after the other; its position in them can be put into a checkpoint at any time."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from firesteel.common._override import override
from firesteel.connectors.files.formats import Block, FileFormat
from firesteel.connectors.files.splits import FileSplit
from firesteel.contracts.source import Polled, SourceReader, SourceReaderContext


class _OpenSplit:
    """A split that is being read."""

    def __init__(self, split: FileSplit, stream_format: FileFormat) -> None:
        self._split = split
        self._blocks = stream_format.blocks(split)
        self._drop = split.skip
        self._block: Block | None = None
        self._size = 0  # of the block; who gets its list may do with it what he likes
        self._position = 0

    def read(self, limit: int) -> list[Any] | None:
        """The next records of a block, at most ``limit``; None at the end."""
        try:
            if self._position >= self._size and not self._next_block():
                return None
        except Exception as error:  # of the file, or of a format that somebody else has written
            error.add_note(f"while the file {self._split.path} was read")
            raise
        assert self._block is not None
        start, self._position = self._position, min(self._position + limit, self._size)
        values = self._block.values
        return values if self._position - start == self._size else values[start : self._position]

    def _next_block(self) -> bool:
        """Advance to the next block with something in it, leaving out what was read before the checkpoint."""
        for block in self._blocks:
            self._drop -= block.passed
            if self._drop < len(block.values):
                self._block, self._size = block, len(block.values)
                self._position, self._drop = self._drop, 0
                return True
            self._drop -= len(block.values)
        return False

    def position(self) -> FileSplit:
        """The split as far as it has not been read."""
        if self._block is None:
            return self._split
        return replace(self._split, offset=self._block.offset, skip=self._block.skip + self._position)

    def close(self) -> None:
        self._blocks.close()


class FileReader(SourceReader):
    """Asks for the next split when it begins with its last one, so that it seldom waits."""

    def __init__(self, stream_format: FileFormat, context: SourceReaderContext) -> None:
        self._format = stream_format
        # Where `blocks` is ours, it has made values of the records.
        self.gives_away = stream_format.gives_away or type(stream_format).blocks is FileFormat.blocks
        self._request = context.request_split
        self._waiting: deque[FileSplit] = deque()
        self._open: _OpenSplit | None = None
        self._asked = False
        self._no_more = False
        self._stopped = False

    @override
    def add_splits(self, splits: Sequence[FileSplit]) -> None:
        self._waiting.extend(splits)
        self._asked = False

    @override
    def notify_no_more_splits(self) -> None:
        """These were the last ones."""
        self._no_more = True

    @override
    def poll(self, limit: int) -> Polled:
        """The next records of the split at hand."""
        if self._stopped:
            return Polled([], ended=True)
        values = self._next_values(limit)
        if values is not None:
            return Polled(values)
        ended = self._no_more and not self._waiting
        return Polled([], ended=ended, retry_at=0.0 if self._waiting else math.inf)

    def _next_values(self, limit: int) -> list[Any] | None:
        if self._open is None and self._waiting:
            self._open = _OpenSplit(self._waiting.popleft(), self._format)
        if not self._waiting and not self._asked and not self._no_more:
            self._asked = True
            self._request()
        if self._open is None:
            return None
        values = self._open.read(limit)
        if values is None:
            self._open.close()
            self._open = None
        return values

    @override
    def snapshot_state(self, checkpoint_id: int) -> list[FileSplit]:
        """What has not been read."""
        return ([] if self._open is None else [self._open.position()]) + list(self._waiting)

    @override
    def stop(self) -> None:
        self._stopped = True

    @override
    def close(self) -> None:
        """Close the file at hand."""
        if self._open is not None:
            self._open.close()
