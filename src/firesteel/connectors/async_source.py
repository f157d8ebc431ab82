"""A source on an asyncio client: an asynchronous generator on an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
from abc import abstractmethod
from collections.abc import AsyncIterator, Hashable, Mapping

from firesteel.common._override import override
from firesteel.common.errors import JobExecutionError
from firesteel.connectors.hand_over import Fetched
from firesteel.connectors.handed_reader import HandedReader, HandedSource, Reading
from firesteel.contracts.source import SourceReader, SourceReaderContext, T


class AsyncSource(HandedSource[T]):
    """A source on an asyncio client: `read` is an asynchronous generator; every subtask has an event loop in a thread."""

    @abstractmethod
    def read(self, positions: Mapping[Hashable, object]) -> AsyncIterator[Fetched]:
        """Connect, and yield batches of these splits, each from its position on; the end means that all is read.

        It is cancelled when the job ends. With errors of the connection (``retry_on``) it is called again. The event loop
        goes on while a batch waits for the job, so that heartbeats of the client are answered.
        """

    @override
    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        """The reader with the event loop."""
        return _AsyncReader(self, context)


class _AsyncReader(HandedReader):
    def __init__(self, source: AsyncSource[object], context: SourceReaderContext) -> None:
        super().__init__(source, context)
        self._source = source
        self._loop: asyncio.AbstractEventLoop | None = None
        self._main: asyncio.Task[None] | None = None

    @override
    def _run(self, reading: Reading) -> None:
        try:
            asyncio.run(self._supervise(reading))
        except asyncio.CancelledError as error:
            if not reading.hand_over.closed:  # it was not us
                reading.hand_over.fail(self._cancelled(error))
        except BaseException as error:  # noqa: BLE001 - whatever it is, the task has to know
            reading.hand_over.fail(error)

    def _cancelled(self, error: asyncio.CancelledError) -> JobExecutionError:
        told = JobExecutionError(
            f"{self._source.describe()}: the client has cancelled the task that reads: {error}"
        )
        told.__cause__ = error
        return told

    async def _supervise(self, reading: Reading) -> None:
        self._main, self._loop = asyncio.current_task(), asyncio.get_running_loop()
        while not reading.hand_over.closed:
            try:
                await self._read(reading)
                reading.hand_over.end()
                return
            except Exception as error:  # noqa: BLE001 - `failed` tells which are to be tried again
                pause = reading.failed(error, self._source)
                if pause is None:
                    return
                await asyncio.sleep(pause)

    async def _read(self, reading: Reading) -> None:
        async with contextlib.AsyncExitStack() as stack:
            batches = self._source.read(dict(reading.positions))
            if hasattr(batches, "aclose"):
                stack.push_async_callback(batches.aclose)
            async for fetched in batches:
                size, values = len(fetched.values), self._as_values(fetched)
                if not reading.hand_over.offer(values, size):
                    await asyncio.to_thread(reading.hand_over.put, values, size)
                reading.put_done(fetched)

    @override
    def _interrupt(self) -> None:
        loop, main = self._loop, self._main
        if loop is not None and main is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended by itself
                loop.call_soon_threadsafe(main.cancel)
