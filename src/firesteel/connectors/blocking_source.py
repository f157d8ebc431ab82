"""A source on a client that blocks: a generator in a thread of its own."""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from collections.abc import Hashable, Iterator, Mapping

from firesteel.common._override import override
from firesteel.connectors.hand_over import Fetched
from firesteel.connectors.handed_reader import HandedReader, HandedSource, Reading
from firesteel.contracts.source import SourceReader, SourceReaderContext, T


class BlockingSource(HandedSource[T]):
    """A source whose client blocks: `read` is a generator, which a thread of every subtask runs."""

    @abstractmethod
    def read(self, positions: Mapping[Hashable, object]) -> Iterator[Fetched | None]:
        """Connect, and yield batches of these splits, each from its position on; the end means that all is read.

        Yield None when nothing has come for a while (a second, say): that is when the thread can be ended, by closing the
        generator. With errors of the connection (``retry_on``) it is called again.
        """

    @override
    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        """The reader with the thread."""
        return _BlockingReader(self, context)


class _BlockingReader(HandedReader):
    def __init__(self, source: BlockingSource[object], context: SourceReaderContext) -> None:
        super().__init__(source, context)
        self._source = source

    @override
    def _run(self, reading: Reading) -> None:
        while True:
            try:
                if self._read(reading):
                    reading.hand_over.end()
                return
            except BaseException as error:  # noqa: BLE001 - whatever it is, the task has to know
                pause = reading.failed(error, self._source)
                if pause is None or reading.hand_over.pause(pause):
                    return

    def _read(self, reading: Reading) -> bool:
        """Whether all was read; False when the reader was closed."""
        batches = iter(self._source.read(dict(reading.positions)))
        with contextlib.ExitStack() as stack:
            if isinstance(batches, Iterator) and hasattr(batches, "close"):
                stack.callback(batches.close)
            for fetched in batches:
                if fetched is None:
                    if reading.hand_over.closed:
                        return False
                elif reading.hand_over.put(self._as_values(fetched), len(fetched.values)):
                    reading.put_done(fetched)
                else:
                    return False
        return True
