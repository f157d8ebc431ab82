"""From Kafka's messages to records: schemas that see the value only, or all that Kafka has; and who is to blame."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

from firesteel.common._override import override
from firesteel.common._values import private_all
from firesteel.common.errors import DeserializationError, FiresteelError, WrongArgumentError, short_repr
from firesteel.common.serialization import DeserializationSchema
from firesteel.common.typeinfo import TypeInformation, Types
from firesteel.formats import decoding
from firesteel.formats.decoding import Decoded, decode

__all__ = [
    "KafkaRecord",
    "KafkaRecordDeserializationSchema",
    "decode_messages",
    "end_of_stream",
    "timestamps_of",
]


class KafkaRecord(NamedTuple):
    """A record as Kafka has it. ``timestamp`` is in milliseconds; key and value are None where there are none."""

    topic: str
    partition: int
    offset: int
    timestamp: int | None
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


class KafkaRecordDeserializationSchema(ABC):
    """Makes records from what Kafka has: write `deserialize`, and give the object to ``set_deserializer``."""

    @abstractmethod
    def deserialize(self, record: KafkaRecord) -> Any:
        """Return the record for the stream; None drops it."""

    def deserialize_records(self, records: list[KafkaRecord]) -> list[Any]:
        """Return what `deserialize` gives for each, as a value; a faster way may replace it."""
        return private_all(self.deserialize(record) for record in records)

    def get_produced_type(self) -> TypeInformation:
        """Return the declared type of the records."""
        return Types.PICKLED_BYTE_ARRAY()

    @staticmethod
    def value_only(deserialization_schema: DeserializationSchema) -> KafkaRecordDeserializationSchema:
        """A schema that looks at the value only."""
        if not isinstance(deserialization_schema, DeserializationSchema):
            raise WrongArgumentError(
                "a value-only deserializer is a DeserializationSchema, for example SimpleStringSchema(), got "
                f"{short_repr(deserialization_schema)} ({type(deserialization_schema).__name__})"
            )
        return ValueOnly(deserialization_schema)


class ValueOnly(KafkaRecordDeserializationSchema):
    """What a schema makes of values."""

    def __init__(self, schema: DeserializationSchema) -> None:
        self.schema = schema

    @override
    def deserialize(self, record: KafkaRecord) -> Any:
        return self.schema.deserialize(record.value)  # type: ignore[arg-type]

    @override
    def deserialize_records(self, records: list[KafkaRecord]) -> list[Any]:
        if self.schema.gives_away:
            return [self.deserialize(record) for record in records]
        if not self.schema.gives_many:
            return super().deserialize_records(records)
        found = (self.deserialize(record) for record in records)
        return [None if several is None else private_all(several) for several in found]

    @override
    def get_produced_type(self) -> TypeInformation:
        return self.schema.get_produced_type()


def end_of_stream(schema: KafkaRecordDeserializationSchema) -> Callable[[Any], bool] | None:
    """The schema's word on whether the stream ends with a record; None if it never does."""
    return decoding.end_of_stream(schema.schema) if isinstance(schema, ValueOnly) else None


def decode_messages(schema: KafkaRecordDeserializationSchema, messages: list[Any]) -> Decoded:
    """The records of messages; those that cannot be deserialized are apart, with topic, partition, offset and bytes."""

    def where(index: int) -> dict[str, Any]:
        message = messages[index]
        return {"topic": message.topic(), "partition": message.partition(), "offset": message.offset()}

    if type(schema) is ValueOnly:
        values = [message.value() for message in messages]
        if None not in values:
            return decode(schema.schema, values, where)
    records: list[Any] = [_record(message) for message in messages]
    return decode(_WholeRecords(schema), records, where)


def timestamps_of(messages: list[Any]) -> list[int | None]:
    """Kafka's timestamps; None where a message has none."""
    times: list[int | None] = [message.timestamp()[1] for message in messages]
    return times if min(times) >= 0 else [time if time >= 0 else None for time in times]  # type: ignore[type-var, operator]


def _record(message: Any) -> KafkaRecord:
    time = message.timestamp()[1]
    return KafkaRecord(
        message.topic(),
        message.partition(),
        message.offset(),
        time if time >= 0 else None,
        message.key(),
        message.value(),
        message.headers() or [],
    )


class _WholeRecords(DeserializationSchema):
    """A schema that sees all that Kafka has, for `decode`: its messages are `KafkaRecord`."""

    def __init__(self, schema: KafkaRecordDeserializationSchema) -> None:
        self._schema = schema
        self._inner = schema.schema if isinstance(schema, ValueOnly) else None
        self.gives_many = self._inner is not None and self._inner.gives_many
        ours = (KafkaRecordDeserializationSchema.deserialize_records, ValueOnly.deserialize_records)
        self.gives_away = type(schema).deserialize_records in ours

    @override
    def deserialize(self, message: Any) -> Any:
        return self._schema.deserialize(message)

    @override
    def deserialize_batch(self, messages: list[Any]) -> list[Any]:
        try:
            return self._schema.deserialize_records(messages)
        except FiresteelError:
            raise
        except Exception as error:
            # Which of them it was is found out one by one.
            value = messages[0].value
            reason = f"{type(self._inner or self._schema).__name__} raised {type(error).__name__}: {error}"
            raise DeserializationError(value or b"", reason if value is not None else _NO_VALUE) from error

    @override
    def take_ignored(self) -> int:
        return 0 if self._inner is None else self._inner.take_ignored()


_NO_VALUE = (
    "the record has no value (a tombstone): a KafkaRecordDeserializationSchema with set_deserializer() can return None to "
    "drop it, or what stands for it"
)
