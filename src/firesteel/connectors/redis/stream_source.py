"""Streams of Redis as a source: the id of the last entry that was read is the position in the checkpoint.

No consumer group is needed: a stream keeps its entries, so reading is exactly once as long as nobody trims what was not
read. If somebody did while the job was down, it says so.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from firesteel.common._override import override
from firesteel.common.errors import (
    DeserializationError,
    InvalidArgumentError,
    JobExecutionError,
    WrongArgumentError,
    short_repr,
)
from firesteel.connectors.backoff import Backoff
from firesteel.connectors.blocking_source import BlockingSource
from firesteel.connectors.hand_over import Fetched
from firesteel.connectors.message_source import MessageDecoder
from firesteel.connectors.redis.connection import LOST, check_url, connect, place_of, text, told
from firesteel.contracts.source import Boundedness
from firesteel.formats.decoding import Decoded

if TYPE_CHECKING:
    import redis

#: Entries of one stream in one answer.
COUNT = 1000
#: How long an answer may be waited for, when there is nothing to read.
BLOCK_MILLISECONDS = 500
BEGINNING = "0-0"

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RedisEntry:
    """An entry of a stream, as Redis has it."""

    stream: str
    id: str
    fields: dict[bytes, bytes]

    def as_text(self) -> dict[str, str]:
        """The fields, decoded from UTF-8; raises `DeserializationError` for others."""
        try:
            return {name.decode(): value.decode() for name, value in self.fields.items()}
        except UnicodeDecodeError as error:
            reason = f"{error}; RedisStreamSource takes a function for such entries: deserialize=..."
            raise DeserializationError(self.as_bytes(), reason, format="UTF-8 text") from error

    def as_bytes(self) -> bytes:
        """The fields as bytes, by which a message is known that cannot be read: ``ast.literal_eval`` makes a dict of them."""
        return repr(self.fields).encode()


class RedisStreamSource(BlockingSource[Any]):
    """Entries of one or several streams, each with the time of its id as event time.

    ``start``: "earliest", "latest" (what comes after the job has started) or the id of an entry, behind which reading
    begins. ``bounded``: read what is there at the start, and end. A record is a dict of text, or what ``deserialize`` makes
    of a `RedisEntry`; None drops the entry. Every stream is read by one subtask. ``allow_trimmed``: continue with what there is if entries behind the
    position of a checkpoint may have been removed; otherwise the job fails and says so.
    """

    decodes = True
    gives_away = True  # what a function of the user gives is made a value where it is called
    retry_on = LOST

    def __init__(
        self,
        url: str,
        *streams: str,
        start: str = "earliest",
        bounded: bool = False,
        deserialize: Callable[[RedisEntry], Any] | None = None,
        allow_trimmed: bool = False,
        backoff: Backoff | None = None,
    ) -> None:
        if not streams:
            raise InvalidArgumentError("a RedisStreamSource reads at least one stream; none was given")
        if start not in {"earliest", "latest"}:
            _numbers(start)
        self.url = check_url(url)
        self.streams = streams
        self.start = start
        self.bounded = bounded
        if deserialize is not None and not callable(deserialize):
            raise WrongArgumentError(
                f"deserialize of a RedisStreamSource is a function that takes a RedisEntry, got {short_repr(deserialize)}; for "
                "a schema: lambda entry: schema.deserialize(entry.fields[b'...'])"
            )
        self.deserialize = RedisEntry.as_text if deserialize is None else deserialize
        self.allow_trimmed = allow_trimmed
        self.backoff = backoff or Backoff()

    @property
    @override
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED if self.bounded else Boundedness.CONTINUOUS_UNBOUNDED

    @override
    def describe(self) -> str:
        return f"reading the streams {', '.join(self.streams)} of {place_of(self.url)}"

    @override
    def decode_batch(self, messages: list[RedisEntry]) -> Decoded:
        return MessageDecoder(self.deserialize, RedisEntry.as_bytes, _where).decode(messages)

    @override
    def splits(self) -> Mapping[Hashable, Any]:
        """A split is a stream; its position is the last id that was read, and the last one to read, if there is one."""
        if self.start != "latest" and not self.bounded:
            first = BEGINNING if self.start == "earliest" else self.start
            return dict.fromkeys(self.streams, (first, None))
        with contextlib.closing(connect(self.url)) as client:
            last = {stream: self._last_id(client, stream) for stream in self.streams}
        begin = {"earliest": BEGINNING}.get(self.start, self.start)
        return {
            stream: (end if self.start == "latest" else begin, end if self.bounded else None)
            for stream, end in last.items()
        }

    def _last_id(self, client: redis.Redis, stream: str) -> str:
        info = self._info(client, stream)
        return BEGINNING if info is None else text(info["last-generated-id"])

    def _info(self, client: redis.Redis, stream: str) -> dict[str, Any] | None:
        """What Redis knows about a stream; None when there is none."""
        with told(self.url, f"looking at the stream {stream!r}"):
            if not client.exists(stream):
                if self.bounded:
                    raise JobExecutionError(f"there is no stream {stream!r} at {place_of(self.url)}")
                return None
            info: dict[str, Any] = client.xinfo_stream(stream)
            return info

    @override
    def read(self, positions: Mapping[Hashable, Any]) -> Iterator[Fetched | None]:
        with contextlib.closing(connect(self.url)) as client:
            for stream, (position, _) in positions.items():
                self._check_kept(client, str(stream), position)
            left = dict(positions)
            while left:
                reply = self._next(client, {str(stream): first for stream, (first, _) in left.items()})
                for name, entries in reply:
                    fetched = self._batch(text(name), entries, left[text(name)][1])
                    left[text(name)] = fetched.positions[-1] if fetched.positions else left[text(name)]
                    yield fetched
                if not reply:
                    yield None
                yield from self._ended(left, not reply)

    def _next(self, client: redis.Redis, ids: dict[str, str]) -> list[Any]:
        with told(self.url, self.describe()):
            block = None if self.bounded else BLOCK_MILLISECONDS
            xread: Any = client.xread
            reply = xread(ids, count=COUNT, block=block)
            return list(reply or [])

    def _batch(self, stream: str, entries: list[Any], end: str | None) -> Fetched:
        ids = [text(number) for number, _ in entries]
        if end is not None:
            ids = [number for number in ids if _numbers(number) <= _numbers(end)]
        messages = [
            RedisEntry(stream, number, fields) for number, (_, fields) in zip(ids, entries, strict=False)
        ]
        times: list[int | None] = [_numbers(number)[0] for number in ids]
        return Fetched(messages, stream, [(number, end) for number in ids], times)

    def _ended(self, left: dict[Hashable, Any], nothing_came: bool) -> Iterator[Fetched]:
        """Take out the streams that are read to their ends; what was deleted meanwhile never comes."""
        for stream, (position, end) in list(left.items()):
            if end is not None and (nothing_came or _numbers(position) >= _numbers(end)):
                del left[stream]
                yield Fetched([], stream, ended=True)

    def _check_kept(self, client: redis.Redis, stream: str, position: str) -> None:
        """Entries behind the position must still be there."""
        info = self._info(client, stream)
        if info is None:
            _LOG.warning("there is no stream %r at %s yet: waiting for it", stream, place_of(self.url))
        if position == BEGINNING or self.allow_trimmed or position == self.start:
            return
        last = BEGINNING if info is None else text(info["last-generated-id"])
        if last != position and not client.xrange(stream, position, position):
            raise JobExecutionError(
                f"the stream {stream!r} at {place_of(self.url)} has been read up to entry {position}, which is not there any "
                "more: entries behind it may have been trimmed or deleted without having been read; keep entries for longer, "
                "or continue with what there is: RedisStreamSource(..., allow_trimmed=True)"
            )


def _where(entry: RedisEntry) -> dict[str, str]:
    return {"stream": entry.stream, "id": entry.id}


def _numbers(entry_id: str) -> tuple[int, int]:
    """An id in the order of ids.

    >>> _numbers("1700000000000-3")
    (1700000000000, 3)
    """
    first, _, second = entry_id.partition("-")
    try:
        return int(first), int(second or 0)
    except ValueError as error:
        raise InvalidArgumentError(
            f"a start is 'earliest', 'latest' or an id such as '1700000000000-0', got {entry_id!r}"
        ) from error
