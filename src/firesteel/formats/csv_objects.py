"""Lines of CSV as objects of a class: dataclass, TypedDict, named tuple or msgspec struct, or as lists of texts."""

from __future__ import annotations

import dataclasses
import types
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec

from firesteel.common._override import override
from firesteel.common.errors import DeserializationError, InvalidArgumentError, TypeMismatchError
from firesteel.common.serialization import DeserializationSchema, SerializationSchema
from firesteel.formats.class_decoders import text_converter
from firesteel.formats.csv_text import CsvDialect
from firesteel.formats.json_errors import json_error
from firesteel.formats.json_objects import to_plain
from firesteel.formats.schema_base import LazyCodec

__all__ = ["CsvRecordSchema"]


class CsvRecordSchema(LazyCodec, SerializationSchema, DeserializationSchema):
    """One message is one line of CSV, both ways.

    Without a class records are lists of texts. With one the fields of a line are its fields, in their order, read by their
    annotations. A field that may be None is None where the text is ``null_literal``.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Reading:
    ...     sensor: str
    ...     celsius: float | None
    >>> schema = CsvRecordSchema(Reading)
    >>> schema.deserialize(b"north,21.5"), schema.deserialize(b"north,")
    (Reading(sensor='north', celsius=21.5), Reading(sensor='north', celsius=None))
    >>> schema.serialize(Reading("a,b", None))
    b'"a,b",'
    """

    gives_away = True

    def __init__(
        self, type: Any = None, *, delimiter: str = ",", quote: str | None = '"', null_literal: str = ""
    ) -> None:
        self._type = type
        self._dialect = CsvDialect(delimiter, quote)
        self._null = null_literal
        self._compiled = self._compile()

    @override
    def _compile(self) -> tuple[list[tuple[str, bool]] | None, Any]:
        """The names of the fields, and whether each may be None; and what makes objects."""
        if self._type is None:
            return None, None
        try:
            hints = get_type_hints(self._type)
        except (TypeError, NameError) as error:
            raise InvalidArgumentError(f"CsvRecordSchema cannot read {self._type!r}: {error}") from error
        names = _field_names(self._type)
        if not names:
            raise InvalidArgumentError(
                f"CsvRecordSchema needs a class with annotated fields, got {self._type!r}"
            )
        fields = [(name, _may_be_none(hints.get(name, Any))) for name in names]
        return fields, text_converter(self._type)

    @override
    def deserialize(self, message: bytes) -> Any:
        if message is None:
            return None
        try:
            line = message if isinstance(message, str) else message.decode()
            texts = self._dialect.split(line)
        except UnicodeDecodeError as error:
            raise self._error(message, "the text is not UTF-8", position=error.start) from None
        except ValueError as error:
            raise self._error(message, str(error)) from None
        fields = self._codec[0]
        if fields is None:
            return texts
        if len(texts) != len(fields):
            raise self._error(message, f"expected {len(fields)} fields, got {len(texts)}")
        values = [
            (name, None if nullable and text == self._null else text)
            for text, (name, nullable) in zip(texts, fields, strict=True)
        ]
        return self._converted(message, values)

    def _converted(self, message: bytes, values: list[tuple[str, Any]]) -> Any:
        as_tuple = issubclass(self._type, tuple)
        convert = self._codec[1]
        plain = [value for _, value in values] if as_tuple else dict(values)
        try:
            return convert(plain)
        except msgspec.ValidationError as error:
            failure = json_error(message, error, f"CSV of {self._type.__name__}")
            if as_tuple and failure.path.startswith("["):
                failure = self._error(message, failure.reason, path=values[int(failure.path[1:-1])][0])
            raise failure from None

    def _error(self, message: Any, reason: str, **more: Any) -> DeserializationError:
        data = message.encode() if isinstance(message, str) else message
        of = "" if self._type is None else f" of {self._type.__name__}"
        return DeserializationError(data, reason, format=f"CSV{of}", **more)

    @override
    def serialize(self, value: Any) -> bytes:
        values = value if self._type is None else self._values(value)
        texts = [self._null if part is None else self._text(part) for part in values]
        return self._dialect.delimiter.join(texts).encode()

    def _values(self, value: Any) -> list[Any]:
        if isinstance(value, dict):
            return [value.get(name) for name, _ in self._codec[0]]
        try:
            return [getattr(value, name) for name, _ in self._codec[0]]
        except AttributeError:
            raise TypeMismatchError(self._type.__name__, value) from None

    def _text(self, part: Any) -> str:
        plain = msgspec.to_builtins(part, enc_hook=to_plain)
        if isinstance(plain, bool):
            return "true" if plain else "false"
        if isinstance(plain, int | float):
            return str(plain)
        if not isinstance(plain, str):
            raise TypeMismatchError("a value that fits one field of CSV", part)
        return self._dialect.quoted(plain)


def _field_names(kind: Any) -> list[str]:
    if dataclasses.is_dataclass(kind):
        return [field.name for field in dataclasses.fields(kind)]
    if hasattr(kind, "_fields"):
        return list(kind._fields)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return list(kind.__struct_fields__)
    return list(getattr(kind, "__annotations__", ()))


def _may_be_none(hint: Any) -> bool:
    return get_origin(hint) in (Union, types.UnionType) and types.NoneType in get_args(hint)
