"""Messages of a websocket as a source: what comes while nobody is connected is lost, so at most once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable, Mapping
from typing import Any
from urllib.parse import urlsplit

from firesteel.common._override import override
from firesteel.common.errors import InvalidArgumentError, JobExecutionError, short_repr
from firesteel.common.serialization import DeserializationSchema
from firesteel.connectors.async_source import AsyncSource
from firesteel.connectors.backoff import Backoff
from firesteel.connectors.extras import missing_client
from firesteel.connectors.hand_over import Fetched
from firesteel.connectors.message_source import MessageDecoder
from firesteel.connectors.shown_url import shown_url
from firesteel.formats.decoding import Decoded

try:
    from websockets import exceptions
    from websockets.asyncio.client import ClientConnection, connect
except ImportError as error:  # pragma: no cover - the tests have it
    raise missing_client("websockets", "websockets", "websocket") from error

#: Messages in one batch.
BATCH = 1000


class WebSocketSource(AsyncSource[Any]):
    """Messages of a server (text or bytes, or what ``deserialize`` makes of them), after ``say`` has been sent to it.

    ``deserialize`` is a function, or a schema, which sees the bytes of a message; None drops the message.
    A lost connection is made again, as often as ``backoff`` says, and ``say`` is sent again; what the server sent meanwhile
    is lost. ``reconnect=False``: when the server closes the connection in good order, the input has ended.
    """

    decodes = True
    gives_away = True  # what a function of the user gives is made a value where it is called

    def __init__(
        self,
        url: str,
        *,
        say: tuple[str | bytes, ...] = (),
        headers: Mapping[str, str] | None = None,
        deserialize: Callable[[str | bytes], Any] | DeserializationSchema | None = None,
        reconnect: bool = True,
        max_message_bytes: int = 16 << 20,
        backoff: Backoff | None = None,
    ) -> None:
        if urlsplit(url).scheme not in {"ws", "wss"}:
            raise InvalidArgumentError(
                f"a WebSocketSource needs a URL with ws:// or wss://, got {shown_url(url)!r}"
            )
        if isinstance(say, str | bytes):
            say = (say,)
        self.url = url
        self.say = say
        self.headers = dict(headers or {})
        self.deserialize = deserialize
        self.reconnect = reconnect
        self.max_message_bytes = max_message_bytes
        self.backoff = backoff or Backoff()

    @property
    def place(self) -> str:
        """Where it reads, without what may be secret."""
        return shown_url(self.url)

    @override
    def describe(self) -> str:
        return f"reading {self.place}"

    @override
    def decode_batch(self, messages: list[str | bytes]) -> Decoded:
        if self.deserialize is None:
            return Decoded(messages)
        return MessageDecoder(self.deserialize, _bytes, lambda _: {"url": self.place}).decode(messages)

    @override
    async def read(self, positions: Mapping[Hashable, Any]) -> AsyncIterator[Fetched]:
        server = await self._connect()
        try:
            for message in self.say:
                await server.send(message)
            while True:
                yield Fetched(await _batch(server))
        except exceptions.ConnectionClosed as error:
            if not isinstance(error, exceptions.ConnectionClosedOK) or self.reconnect:
                raise ConnectionError(f"{self.place} has closed the connection: {error}") from error
        finally:
            await server.close()

    async def _connect(self) -> ClientConnection:
        try:
            return await connect(
                self.url, additional_headers=self.headers, max_size=self.max_message_bytes, proxy=None
            )
        except exceptions.InvalidStatus as error:
            status = error.response.status_code
            text = short_repr(bytes(error.response.body or b""))
            if status >= 500 or status == 429:
                raise ConnectionError(f"{self.place} answers {status}: {text}") from error
            raise JobExecutionError(
                f"{self.place} answers {status}: {text}; check the address, and what it wants in the headers"
            ) from error
        except exceptions.InvalidHandshake as error:
            raise JobExecutionError(f"{self.place} does not speak the websocket protocol: {error}") from error
        except OSError as error:
            raise ConnectionError(f"{self.place}: {error}") from error


def _bytes(message: str | bytes) -> bytes:
    return message.encode() if isinstance(message, str) else message


async def _batch(server: ClientConnection) -> list[str | bytes]:
    """The next message, and those that are already there behind it."""
    messages = [await server.recv()]
    try:
        async with asyncio.timeout(0):
            while len(messages) < BATCH:
                messages.append(await server.recv())
    except (TimeoutError, exceptions.ConnectionClosed):  # the end comes again with the next batch
        pass
    return messages
