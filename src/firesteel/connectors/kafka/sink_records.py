"""From records of a stream to records of Kafka: topic, partition, key, value, headers and timestamp of each."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

from firesteel.common.errors import InvalidArgumentError, TypeMismatchError, short_repr
from firesteel.common.serialization import SerializationSchema
from firesteel.connectors.kafka.sink_client import ANY_PARTITION, OutgoingRecord
from firesteel.connectors.kafka.sink_partitioners import FlinkKafkaPartitioner
from firesteel.contracts.sink import at_record

__all__ = ["RecordForm", "Serializer"]

Headers = Mapping[str, Any] | Sequence[tuple[str, Any]]


@dataclass(frozen=True)
class RecordForm:
    """How records are made; a picklable description.

    ``topic`` is a name or a function of the record. ``timestamp`` is a function of the record too; without one it is
    the event time of the record, if ``event_time`` is true, else the time of writing. Without a ``partitioner`` Kafka's
    client chooses.
    """

    topic: str | Callable[[Any], str]
    value: SerializationSchema
    key: SerializationSchema | None = None
    partitioner: FlinkKafkaPartitioner | None = None
    headers: Callable[[Any], Headers | None] | None = None
    timestamp: Callable[[Any], int | None] | None = None
    event_time: bool = True


class Serializer:
    """Makes records for one subtask. ``partitions_of`` tells how many partitions a topic has."""

    def __init__(
        self, form: RecordForm, subtask: int, parallelism: int, partitions_of: Callable[[str], int]
    ) -> None:
        self._form = form
        self._partitions_of = partitions_of
        self._known: set[str] = set()
        self._values_of = _batches_by(form.value)
        self._keys_of = None if form.key is None else _batches_by(form.key)
        # A copy: subtasks may share a process, and partitioners have a position.
        self._partitioner = copy.deepcopy(form.partitioner)
        if self._partitioner is not None:
            self._partitioner.open(subtask, parallelism)

    def records(self, elements: list[Any], timestamps: Sequence[int | None] | None) -> list[OutgoingRecord]:
        """One record for each element; errors say which element they are about."""
        form = self._form
        values = self._values_of(elements)
        keys = [None] * len(elements) if self._keys_of is None else self._keys_of(elements)
        topics = self._topics(elements)
        times = self._times(elements, timestamps)
        headers: Iterable[Any] = repeat(()) if form.headers is None else _each(self._headers_of, elements)
        partitions: Iterable[int] = repeat(ANY_PARTITION)
        if self._partitioner is not None:
            rows = list(zip(elements, keys, values, topics, strict=True))
            partitions = _each(self._partition_of, rows)
        return list(map(OutgoingRecord, topics, partitions, keys, values, times, headers))

    def _topics(self, elements: list[Any]) -> list[str]:
        topic = self._form.topic
        return [topic] * len(elements) if isinstance(topic, str) else _each(self._topic_of, elements)

    def _topic_of(self, element: Any) -> str:
        topic = self._form.topic(element)  # type: ignore[operator]
        if not isinstance(topic, str) or not topic:
            raise TypeMismatchError("the name of a topic", topic, hint="the topic selector must return a str")
        if topic not in self._known:  # one that does not exist shows here, with the record that wants it
            self._partitions_of(topic)
            self._known.add(topic)
        return topic

    def _times(self, elements: list[Any], timestamps: Sequence[int | None] | None) -> Iterable[int]:
        """Kafka takes no times before 1970; for those, and where there is none, it is the time of writing."""
        if self._form.timestamp is not None:
            return _each(self._time_of, elements)
        if timestamps is None or not self._form.event_time:
            return repeat(0)
        return [time if time is not None and time > 0 else 0 for time in timestamps]

    def _time_of(self, element: Any) -> int:
        assert self._form.timestamp is not None
        time = self._form.timestamp(element)
        if time is None:
            return 0
        if isinstance(time, bool) or not isinstance(time, int) or time < 0:
            raise TypeMismatchError("milliseconds since 1970", time, hint="the function of set_timestamp()")
        return time

    def _headers_of(self, element: Any) -> tuple[tuple[str, bytes | None], ...]:
        assert self._form.headers is not None
        headers = self._form.headers(element)
        pairs = headers.items() if isinstance(headers, Mapping) else headers or ()
        return tuple([_header(name, value) for name, value in pairs])

    def _partition_of(self, row: tuple[Any, bytes | None, bytes | None, str]) -> int:
        assert self._partitioner is not None
        topic = row[3]
        count = self._partitions_of(topic)
        chosen = self._partitioner.partition(*row, list(range(count)))
        if isinstance(chosen, bool) or not isinstance(chosen, int) or not 0 <= chosen < count:
            raise InvalidArgumentError(
                f"{type(self._partitioner).__name__} chose partition {short_repr(chosen)} of topic {topic!r}, which has "
                f"the partitions 0 to {count - 1}"
            )
        return chosen


def _header(name: Any, value: Any) -> tuple[str, bytes | None]:
    if isinstance(name, str) and (value is None or isinstance(value, bytes)):
        return name, value
    if isinstance(name, str) and isinstance(value, str):
        return name, value.encode()
    raise TypeMismatchError(
        "a name (str) and bytes, str or None", (name, value), hint="headers of a Kafka record are such pairs"
    )


def _each(function: Callable[[Any], Any], elements: list[Any]) -> list[Any]:
    """Call it for each element; an error says for which it was."""
    cursor = iter(elements)
    try:
        return [function(element) for element in cursor]
    except Exception as error:
        # Added to the error, which is raised as it is.
        left = cursor.__length_hint__()  # type: ignore[attr-defined]
        at_record(error, len(elements) - left - 1)
        raise


def _batches_by(schema: SerializationSchema) -> Callable[[list[Any]], list[bytes | None]]:
    """Serializes a list: by ``serialize_batch`` if the schema has it, which fails as a whole, else one by one."""
    serialize = schema.serialize
    batch: Callable[[list[Any]], list[bytes | None]] | None = getattr(schema, "serialize_batch", None)

    def one(element: Any) -> bytes | None:
        data = serialize(element)
        if data is None or isinstance(data, bytes):
            return data
        if isinstance(data, bytearray | memoryview):
            return bytes(data)
        raise TypeMismatchError("bytes", data, hint=f"{type(schema).__name__}.serialize() must return bytes")

    def one_by_one(elements: list[Any]) -> list[bytes | None]:
        return _each(one, elements)

    if batch is None:
        return one_by_one

    def together(elements: list[Any]) -> list[bytes | None]:
        try:
            return batch(elements)
        except Exception:
            one_by_one(elements)  # raises for the record that is the reason
            raise

    return together
