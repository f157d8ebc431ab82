"""From the messages of a client to records: in the task, a batch at a time, with those that do not fit apart from the others.

The bases on clients (`BlockingSource`, `AsyncSource`, `AcknowledgingSource`) have it in common. A message is handed over as it
came; the poll that gives its record, or puts it aside, moves the position over it or remembers to acknowledge it. So
a message that cannot be read is as exactly-once as any record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from firesteel.common._override import override
from firesteel.common.errors import DeserializationError, FiresteelError, describe_function
from firesteel.common.serialization import DeserializationSchema
from firesteel.contracts.source import Source, T
from firesteel.formats.decoding import Decoded, decode

__all__ = ["MessageDecoder", "MessageSource", "times_of"]


class MessageSource(Source[T]):
    """A source whose client gives messages, which are the records unless `decode_batch` says otherwise."""

    def decode_batch(self, messages: list[Any]) -> Decoded:
        """Make records of messages, when they are polled; a class that does has ``decodes = True``, and calls `decode`."""
        return Decoded(messages)


def times_of(decoded: Decoded, times: list[int | None] | None) -> list[int | None] | None:
    """The timestamps of records, from those of the messages that they come from; None when no message has one.

    >>> times_of(Decoded(["b", "c"], [1, 2]), [10, 20, 30])
    [20, 30]
    """
    if times is None or all(time is None for time in times):
        return None
    return times if decoded.origins is None else [times[number] for number in decoded.origins]


@dataclass(frozen=True, slots=True)
class MessageDecoder:
    """How messages become records: a schema sees the bytes of a message, a function of the user all of it.

    ``where`` tells what is known of a message, for errors and dead letters.
    """

    deserialize: DeserializationSchema | Callable[[Any], Any]
    bytes_of: Callable[[Any], bytes]
    where: Callable[[Any], Mapping[str, Any]]

    def decode(self, messages: list[Any]) -> Decoded:
        """The records of messages, and those that do not fit."""

        def where(index: int) -> Mapping[str, Any]:
            return self.where(messages[index])

        if isinstance(self.deserialize, DeserializationSchema):
            return decode(self.deserialize, [self.bytes_of(message) for message in messages], where)
        return decode(_FunctionSchema(self.deserialize, self.bytes_of), messages, where)


class _FunctionSchema(DeserializationSchema):
    """A function of the user as a schema, for `decode`: its messages are whatever the client gives."""

    def __init__(self, function: Callable[[Any], Any], bytes_of: Callable[[Any], bytes]) -> None:
        self.gives_away = getattr(function, "__module__", "").startswith("firesteel.")
        self._function = function
        self._bytes_of = bytes_of

    @override
    def deserialize(self, message: Any) -> Any:
        try:
            return self._function(message)
        except (FiresteelError, MemoryError):
            raise
        except Exception as error:
            reason = f"{describe_function(self._function)} raised {type(error).__name__}: {error}"
            raise DeserializationError(self._bytes_of(message), reason) from error
