"""Schemas that turn records into bytes and bytes into records, and the writers of file sinks."""

from __future__ import annotations

import abc
import codecs
from collections.abc import Callable
from typing import Any, BinaryIO

from firesteel.common._java_format import java_formatter
from firesteel.common._override import override
from firesteel.common._promises import promise_only_for
from firesteel.common.errors import (
    DeserializationError,
    FiresteelError,
    InvalidArgumentError,
    TypeMismatchError,
)
from firesteel.common.typeinfo import TypeInformation, Types

__all__ = [
    "BulkWriter",
    "BulkWriterFactory",
    "ByteArraySchema",
    "DeserializationSchema",
    "Encoder",
    "RowDataBulkWriterFactory",
    "RowFieldExtractorSchema",
    "SerializationSchema",
    "SimpleStringEncoder",
    "SimpleStringSchema",
]


def _keep_in_step(schema: type, one: str, many: str, plain: Any) -> None:
    """A class that says anew what becomes of one, and not of many, has the faster way for many of its base no more."""
    if one not in vars(schema) or many in vars(schema):
        return
    owner = next(each for each in schema.__mro__ if many in vars(each))
    if hasattr(owner, one):  # else it is a mixin, made to be used with others
        setattr(schema, many, plain)


class SerializationSchema(abc.ABC):
    """Turns a record into bytes, for sinks such as Kafka."""

    @override
    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        _keep_in_step(cls, "serialize", "serialize_batch", SerializationSchema.serialize_batch)

    @abc.abstractmethod
    def serialize(self, value: Any) -> bytes | None:
        """Return the bytes of a record; None means no bytes at all, such as a Kafka record without key."""

    def serialize_batch(self, elements: list[Any]) -> list[bytes]:
        """Return the bytes of each of many records; what sinks call. A schema overrides it to be faster."""
        messages: list[Any] = []
        for index, element in enumerate(elements):
            try:
                messages.append(self.serialize(element))
            except TypeMismatchError as error:
                raise error.at(None, index) from None
        return messages


class DeserializationSchema(abc.ABC):
    """Turns bytes into a record, for sources such as Kafka.

    ``gives_many = True``: `deserialize` returns a list of records for each message, such as the old and the new row of an
    update; sources hand on its elements.

    Records are what they were when `deserialize` returned them: those that can change are copied. ``gives_away = True`` is a
    promise that makes this unnecessary: no record is kept, changed or given twice, or none can change.
    """

    gives_many: bool = False
    gives_away: bool = False

    @override
    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        _keep_in_step(cls, "deserialize", "deserialize_batch", DeserializationSchema.deserialize_batch)
        promise_only_for(cls, "deserialize", "deserialize_batch")

    @abc.abstractmethod
    def deserialize(self, message: bytes) -> Any:
        """Return the record of a message; None drops the message."""

    def deserialize_batch(self, messages: list[bytes]) -> list[Any]:
        """Return the record of each of many messages, None where there is none; what sources call.

        The first message that does not fit raises `DeserializationError` with its ``index``; whoever wants the others
        nevertheless deserializes them one by one. A schema overrides this to be faster.
        """
        if self.gives_away:
            return [self._deserialize_one(index, message) for index, message in enumerate(messages)]
        from firesteel.common._values import private_all  # takes a while, and few programs have such schemas

        records = (self._deserialize_one(index, message) for index, message in enumerate(messages))
        if self.gives_many:  # each of them by itself: one object may be several records
            return [None if several is None else private_all(several) for several in records]
        return private_all(records)

    def _deserialize_one(self, index: int, message: bytes) -> Any:
        try:
            return self.deserialize(message)
        except DeserializationError as error:
            raise error.at(index) from error.__cause__
        except FiresteelError:
            raise
        except Exception as error:
            if isinstance(error, MemoryError):
                raise
            reason = f"{type(self).__name__} raised {type(error).__name__}: {error}"
            raise DeserializationError(message, reason, index=index) from error

    def take_ignored(self) -> int:
        """Return how many errors were passed over since the last call, because the program wants that."""
        return 0

    def is_end_of_stream(self, next_element: Any) -> bool:
        """Tell whether the stream ends with this record."""
        return False

    def get_produced_type(self) -> TypeInformation:
        """Return the declared type of the records."""
        return Types.PICKLED_BYTE_ARRAY()


class SimpleStringSchema(SerializationSchema, DeserializationSchema):
    r"""Texts, encoded.

    >>> schema = SimpleStringSchema()
    >>> schema.serialize("é"), schema.deserialize(b"abc")
    (b'\xc3\xa9', 'abc')
    """

    gives_away = True

    def __init__(self, charset: str = "UTF-8") -> None:
        self._charset = codecs.lookup(charset).name

    @override
    def serialize(self, value: Any) -> bytes:
        if not isinstance(value, str):
            raise TypeMismatchError("String", value, hint="SimpleStringSchema writes texts; map to str first")
        return value.encode(self._charset)

    @override
    def deserialize(self, message: bytes) -> str:
        """Decode a text; bytes that are not valid become U+FFFD, as in Java."""
        return message.decode(self._charset, "replace")

    @override
    def serialize_batch(self, elements: list[Any]) -> list[bytes]:
        if [*map(type, elements)].count(str) == len(elements):
            return [text.encode(self._charset) for text in elements]
        return super().serialize_batch(elements)

    @override
    def deserialize_batch(self, messages: list[bytes]) -> list[Any]:
        try:
            return [message.decode(self._charset, "replace") for message in messages]
        except AttributeError:  # something is not bytes
            return super().deserialize_batch(messages)

    @override
    def get_produced_type(self) -> TypeInformation:
        return Types.STRING()


class ByteArraySchema(SerializationSchema, DeserializationSchema):
    """Bytes, as they are."""

    gives_away = True

    @override
    def serialize(self, value: Any) -> bytes:
        if not isinstance(value, bytes | bytearray | memoryview):
            raise TypeMismatchError("bytes", value, hint="ByteArraySchema writes bytes as they are")
        return bytes(value)

    @override
    def deserialize(self, message: bytes) -> bytes:
        return message

    @override
    def deserialize_batch(self, messages: list[bytes]) -> list[Any]:
        return messages

    @override
    def get_produced_type(self) -> TypeInformation:
        """Return an array of BYTE."""
        return Types.PRIMITIVE_ARRAY(Types.BYTE())


class RowFieldExtractorSchema(SerializationSchema):
    """One field of a row, which must hold bytes: for example the key of a Kafka record.

    >>> from firesteel.common import Row
    >>> RowFieldExtractorSchema(0).serialize(Row(b"key", b"value"))
    b'key'
    """

    def __init__(self, field_index: int) -> None:
        if field_index < 0:
            raise InvalidArgumentError(f"Field index must be non-negative, got: {field_index}")
        self._field_index = field_index

    @override
    def serialize(self, value: Any) -> bytes | None:
        """Return the bytes of the field, or None when it is None."""
        field = value[self._field_index]
        if field is not None and not isinstance(field, bytes | bytearray):
            raise TypeMismatchError(
                "bytes", field, path=(f"field {self._field_index}",), hint="encode the field before this sink"
            )
        return None if field is None else bytes(field)


class Encoder(abc.ABC):
    """Writes records one after another into a file."""

    @abc.abstractmethod
    def encode(self, element: Any, stream: BinaryIO) -> None:
        """Write one record and what ends it; the file sink adds nothing."""

    def bind(self, type_info: TypeInformation | None) -> Encoder:
        """Return the encoder for a stream of the declared type; the file sink calls it once."""
        return self

    @staticmethod
    def simple_string_encoder(charset_name: str = "UTF-8") -> Encoder:
        """Return an encoder that writes what Java's toString prints, one record a line."""
        return SimpleStringEncoder(charset_name)


class SimpleStringEncoder(Encoder):
    """What `Encoder.simple_string_encoder` gives, under the name that Flink 1.12 had for it."""

    def __init__(self, charset_name: str = "UTF-8", to_text: Callable[[Any], str] = str) -> None:
        self._charset = codecs.lookup(charset_name).name
        self._to_text = to_text

    @override
    def bind(self, type_info: TypeInformation | None) -> Encoder:
        """Return the encoder for a stream of the declared type."""
        return SimpleStringEncoder(self._charset, java_formatter(type_info))

    @override
    def encode(self, element: Any, stream: BinaryIO) -> None:
        stream.write(f"{self._to_text(element)}\n".encode(self._charset))


class BulkWriter(abc.ABC):
    """Writes records of one file together, such as Parquet does.

    A writer that has `add_elements`, too, is given its records by that, many at a time. The order of calls is: records,
    `flush`, `finish`. A writer of a task that fails is dropped without them, and with it its file.
    """

    @abc.abstractmethod
    def add_element(self, element: Any) -> None:
        """Take one record, to be written now or together with later ones."""

    def add_elements(self, elements: list[Any]) -> None:
        """Take several records, in their order."""
        for element in elements:
            self.add_element(element)

    @abc.abstractmethod
    def flush(self) -> None:
        """Write what was taken so far, as far as the format allows."""

    @abc.abstractmethod
    def finish(self) -> None:
        """Write the rest and what ends the file; the file itself is closed by the sink."""


class BulkWriterFactory(abc.ABC):
    """Makes the bulk writer of each file."""

    #: Whether two files, one behind the other, are a file again.
    concatenates: bool = True

    @abc.abstractmethod
    def create(self, stream: BinaryIO) -> BulkWriter:
        """Return a writer into an open file."""


class RowDataBulkWriterFactory(BulkWriterFactory):
    """A factory whose writers take rows of a declared row type."""

    concatenates = False

    def __init__(self, row_type: Any) -> None:
        self._row_type = row_type

    def get_row_type(self) -> Any:
        """Return the declared row type."""
        return self._row_type
