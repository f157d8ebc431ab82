"""Streams of JetStream as a source: the sequence of the last message that was read is the position in the checkpoint.

A stream keeps its messages, so reading is exactly once as long as nobody removes what was not read. If somebody did while
the job was down, it says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

from firesteel.common._override import override
from firesteel.common.errors import InvalidArgumentError, JobExecutionError
from firesteel.common.serialization import DeserializationSchema
from firesteel.connectors.async_source import AsyncSource
from firesteel.connectors.backoff import Backoff
from firesteel.connectors.hand_over import Fetched
from firesteel.connectors.message_source import MessageDecoder
from firesteel.connectors.nats.connection import (
    ANSWER_SECONDS,
    NOTHING_CAME,
    check_url,
    connect,
    consumer_config,
    place_of,
    told,
)
from firesteel.contracts.source import Boundedness
from firesteel.formats.decoding import Decoded

#: Messages in one answer.
COUNT = 500
#: How long an answer may be waited for, when there is nothing to read.
WAIT_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class NatsMessage:
    """A message as it came; ``timestamp`` is when the stream got it, in milliseconds."""

    stream: str
    sequence: int
    subject: str
    data: bytes
    timestamp: int
    headers: dict[str, str] = field(default_factory=dict)


class NatsSource(AsyncSource[Any]):
    """Messages of a stream, all or those of a ``subject`` (``orders.*``), with the time that the stream has as event time.

    ``start``: "earliest", "latest" (what comes after the job has started) or the sequence of the first message to read.
    ``bounded``: read what is there at the start, and end. A record is a `NatsMessage`, or what ``deserialize`` makes of it:
    a function, or a schema, which sees the data; None drops the message. One subtask reads. ``allow_removed``: continue with what
    there is if messages behind the position of a checkpoint were removed; otherwise the job fails and says so.
    """

    decodes = True
    gives_away = True  # what a function of the user gives is made a value where it is called

    def __init__(
        self,
        url: str,
        stream: str,
        *,
        subject: str = ">",
        start: str | int = "earliest",
        bounded: bool = False,
        deserialize: Callable[[NatsMessage], Any] | DeserializationSchema | None = None,
        allow_removed: bool = False,
        backoff: Backoff | None = None,
    ) -> None:
        if start not in {"earliest", "latest"} and not (isinstance(start, int) and start > 0):
            raise InvalidArgumentError(
                f"a start is 'earliest', 'latest' or a sequence from 1 on, got {start!r}"
            )
        self.url = check_url(url)
        self.stream = stream
        self.subject = subject
        self.start = start
        self.bounded = bounded
        self.deserialize = deserialize
        self.allow_removed = allow_removed
        self.backoff = backoff or Backoff()

    @property
    @override
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED if self.bounded else Boundedness.CONTINUOUS_UNBOUNDED

    @property
    @override
    def max_subtasks(self) -> int:
        return 1

    @override
    def describe(self) -> str:
        return f"reading the stream {self.stream} of {place_of(self.url)}"

    @override
    def decode_batch(self, messages: list[NatsMessage]) -> Decoded:
        if self.deserialize is None:
            return Decoded(messages)
        return MessageDecoder(self.deserialize, lambda each: each.data, _where).decode(messages)

    @override
    def splits(self) -> Mapping[Hashable, Any]:
        """The stream; its position is the last sequence that was read, and the last one to read, if there is one."""
        if self.start != "latest" and not self.bounded:
            return {self.stream: (0 if self.start == "earliest" else int(self.start) - 1, None)}
        last = asyncio.run(self._last_sequence())
        first = {"earliest": 0, "latest": last}[self.start] if isinstance(self.start, str) else self.start - 1
        return {self.stream: (first, last if self.bounded else None)}

    async def _last_sequence(self) -> int:
        connection = await connect(self.url)
        try:
            async with told(self.url, f"stream {self.stream!r}"):
                info = await connection.jetstream(timeout=ANSWER_SECONDS).stream_info(self.stream)
                return int(info.state.last_seq)
        finally:
            await connection.close()

    @override
    async def read(self, positions: Mapping[Hashable, Any]) -> AsyncIterator[Fetched]:
        for last, end in positions.values():
            connection = await connect(self.url)
            try:
                position, pulled = last, await self._subscribe(connection, last)
                while end is None or position < end:
                    came = await self._fetch(connection, pulled)
                    messages = [each for each in map(_message, came) if end is None or each.sequence <= end]
                    position = messages[-1].sequence if messages else position
                    if messages:
                        yield self._batch(messages, end)
                    if end is not None and not (came and came[-1].metadata.num_pending):
                        break  # the last ones are of other subjects, or were removed
            finally:
                await connection.close()
        yield Fetched([], self.stream, ended=True)

    def _batch(self, messages: list[NatsMessage], end: int | None) -> Fetched:
        positions = [(each.sequence, end) for each in messages]
        return Fetched(messages, self.stream, positions, [each.timestamp for each in messages])

    async def _subscribe(self, connection: Any, last: int) -> Any:
        jetstream = connection.jetstream(timeout=ANSWER_SECONDS)
        async with told(self.url, f"stream {self.stream!r}"):
            info = await jetstream.stream_info(self.stream)
            self._check_kept(info.state, last)
            return await jetstream.pull_subscribe(
                self.subject, stream=self.stream, config=consumer_config(last + 1)
            )

    async def _fetch(self, connection: Any, pulled: Any) -> list[Any]:
        async with told(self.url, f"stream {self.stream!r}"):
            try:
                came: list[Any] = await pulled.fetch(COUNT, timeout=WAIT_SECONDS)
            except NOTHING_CAME:
                came = []
        if not came and connection.is_closed:
            raise ConnectionError(f"the connection to {place_of(self.url)} is lost")
        return came

    def _check_kept(self, state: Any, last: int) -> None:
        """Messages behind the position must still be there."""
        if last > state.last_seq:
            raise JobExecutionError(
                f"the stream {self.stream!r} at {place_of(self.url)} has been read up to message {last}, and now ends with "
                f"{state.last_seq}: it was deleted and created again; start the job without its checkpoint"
            )
        if last > 0 and state.first_seq > last + 1 and not self.allow_removed and last + 1 != self.start:
            raise JobExecutionError(
                f"the stream {self.stream!r} at {place_of(self.url)} has been read up to message {last}, and now begins with "
                f"{state.first_seq}: messages were removed without having been read; keep them for longer, or continue with what "
                "there is: NatsSource(..., allow_removed=True)"
            )


def _message(came: Any) -> NatsMessage:
    about = came.metadata
    time = int(about.timestamp.timestamp() * 1000)
    return NatsMessage(
        about.stream, about.sequence.stream, came.subject, came.data, time, dict(came.headers or {})
    )


def _where(message: NatsMessage) -> dict[str, Any]:
    return {"stream": message.stream, "sequence": message.sequence, "subject": message.subject}
