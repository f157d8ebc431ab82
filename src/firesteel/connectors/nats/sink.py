"""Streams of JetStream as a sink: messages in batches, at least once; with ids the server leaves out what comes again."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from firesteel.common._override import override
from firesteel.common.errors import WrongArgumentError, short_repr
from firesteel.connectors.backoff import Backoff
from firesteel.connectors.batching_sink import BatchClient, BatchingSink
from firesteel.connectors.nats.connection import ANSWER_SECONDS, check_url, connect, place_of, told
from firesteel.contracts.sink import SinkContext

T = TypeVar("T")


class NatsSink(BatchingSink[Any]):
    """Publishes records to a stream: ``message_of`` gives subject and data (text or bytes) of each.

    ``id_of`` gives an id of each record, always the same for the same one. The server leaves out a message whose id it has seen within
    the stream's ``duplicate_window`` (two minutes, unless it was made with another one): if a job comes back within that time,
    every record is there once.
    """

    def __init__(
        self,
        url: str,
        message_of: Callable[[Any], tuple[str, str | bytes]],
        *,
        id_of: Callable[[Any], Any] | None = None,
        batch_size: int = 500,
        linger: float = 0.1,
        backoff: Backoff | None = None,
    ) -> None:
        self.url = check_url(url)
        self.message_of = message_of
        self.id_of = id_of
        self.batch_size = batch_size
        self.linger = linger
        self.backoff = backoff or Backoff()

    @override
    def describe(self) -> str:
        return f"writing to {place_of(self.url)}"

    @override
    def connect(self, context: SinkContext) -> BatchClient[Any]:
        return _Publisher(self)


class _Publisher(BatchClient[Any]):
    """The client is asyncio's: a thread runs its event loop, so that the server's pings are answered between batches."""

    def __init__(self, sink: NatsSink) -> None:
        self._sink = sink
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="firesteel-nats", daemon=True)
        self._thread.start()
        self._connection: Any = None
        try:
            self._connection = self._wait(connect(sink.url))
        except BaseException:
            self.close()
            raise

    def _wait(self, action: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(action, self._loop).result()

    @override
    def write_batch(self, batch: list[Any]) -> None:
        self._wait(self._publish([self._message(record) for record in batch]))

    def _message(self, record: Any) -> tuple[str, bytes, dict[str, str] | None]:
        id_of = self._sink.id_of
        headers = None if id_of is None else {"Nats-Msg-Id": str(id_of(record))}
        match self._sink.message_of(record):
            case str(subject), (str() | bytes()) as data:
                return subject, data.encode() if isinstance(data, str) else data, headers
            case other:
                raise WrongArgumentError(
                    f"message_of has to give a subject and data of text or bytes, got {short_repr(other)} for the record "
                    f"{short_repr(record)}"
                )

    async def _publish(self, messages: list[tuple[str, bytes, dict[str, str] | None]]) -> None:
        """All at once, in their order; returns when the server has them."""
        jetstream = self._connection.jetstream(timeout=ANSWER_SECONDS)
        async with told(self._sink.url, "a stream for the subjects of these messages"):
            await asyncio.gather(
                *(jetstream.publish(subject, data, headers=headers) for subject, data, headers in messages)
            )

    @override
    def close(self) -> None:
        if self._connection is not None:
            self._wait(self._connection.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(ANSWER_SECONDS)
        if not self._thread.is_alive():
            self._loop.close()
