"""PyFlink's schema that makes lines of CSV from rows, with its builder."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from firesteel.common._override import override
from firesteel.common.errors import InvalidArgumentError, TypeMismatchError
from firesteel.common.typeinfo import BasicType, BasicTypeInfo, RowTypeInfo, TypeInformation
from firesteel.common.types import Row
from firesteel.formats.csv_rows import array_delimiter
from firesteel.formats.csv_text import CsvDialect
from firesteel.formats.csv_values import writer
from firesteel.formats.json_row_schemas import row_type_argument
from firesteel.formats.row_values import row_converter
from firesteel.formats.schema_base import EncodesBatches

__all__ = ["CsvRowSerializationSchema"]


@dataclass(frozen=True)
class _Writing:
    dialect: CsvDialect = field(default_factory=CsvDialect)
    line_delimiter: str = "\n"
    array_delimiter: str = ";"
    null_literal: str = ""


class CsvRowSerializationSchema(EncodesBatches):
    """Lines of CSV from rows, or from tuples, dicts and objects that can stand for one; see `Builder`."""

    def __init__(self, row_type: RowTypeInfo, settings: _Writing) -> None:
        self._row_type = row_type
        self._settings = settings
        self._compiled = self._compile()

    class Builder:
        """Says what the fields are, and which characters mean something."""

        def __init__(self, type_info: TypeInformation) -> None:
            self._type_info = row_type_argument("CsvRowSerializationSchema.Builder()", type_info)
            self._settings = _Writing()

        def _with(self, **settings: Any) -> CsvRowSerializationSchema.Builder:
            self._settings = replace(self._settings, **settings)
            return self

        def _with_dialect(self, **characters: Any) -> CsvRowSerializationSchema.Builder:
            return self._with(dialect=replace(self._settings.dialect, **characters))

        def set_field_delimiter(self, c: str) -> CsvRowSerializationSchema.Builder:
            """The character between fields: a comma, unless this is called."""
            return self._with_dialect(delimiter=c)

        def set_line_delimiter(self, delimiter: str) -> CsvRowSerializationSchema.Builder:
            r"""What ends a line: ``\n``, unless this is called; empty for nothing."""
            if delimiter not in ("\n", "\r", "\r\n", ""):
                raise InvalidArgumentError(
                    f"lines of CSV end with \\n, \\r, \\r\\n or nothing, not with {delimiter!r}"
                )
            return self._with(line_delimiter=delimiter)

        def set_array_element_delimiter(self, delimiter: str) -> CsvRowSerializationSchema.Builder:
            """What is between elements of arrays and fields of nested rows: a semicolon, unless this is called."""
            return self._with(array_delimiter=array_delimiter(delimiter))

        def disable_quote_character(self) -> CsvRowSerializationSchema.Builder:
            """No quotes at all, also where a field has a delimiter in it."""
            return self._with_dialect(quote=None)

        def set_quote_character(self, c: str) -> CsvRowSerializationSchema.Builder:
            """The character around fields that have others of these in them: a double quote, unless this is called."""
            return self._with_dialect(quote=c)

        def set_escape_character(self, c: str) -> CsvRowSerializationSchema.Builder:
            """The character before one that shall mean nothing; none, unless this is called."""
            return self._with_dialect(escape=c)

        def set_null_literal(self, s: str) -> CsvRowSerializationSchema.Builder:
            """The text that stands for None: an empty one, unless this is called."""
            return self._with(null_literal=s)

        def build(self) -> CsvRowSerializationSchema:
            """Make the schema of what was set, with defaults for the rest."""
            return CsvRowSerializationSchema(self._type_info, self._settings)

    @override
    def _compile(self) -> _RowWriter:
        return _RowWriter(self._row_type, self._settings)


_NUMBERS = frozenset(BasicType) - {BasicType.STRING, BasicType.CHAR, BasicType.INSTANT}


class _RowWriter:
    def __init__(self, row_type: RowTypeInfo, settings: _Writing) -> None:
        self._convert = row_converter(row_type)
        self._settings = settings
        self._ones = [
            (writer(kind, settings.array_delimiter, settings.null_literal), _is_number(kind))
            for kind in row_type.get_field_types()
        ]

    def encode_all(self, elements: list[Any]) -> list[bytes]:
        for index, element in enumerate(elements):
            if element is None:
                raise TypeMismatchError("a row", element, index=index)
        rows = elements if self._convert is None else self._convert(elements)
        delimiter, end = self._settings.dialect.delimiter, self._settings.line_delimiter
        return [f"{delimiter.join(self._texts(row))}{end}".encode() for row in rows]

    def _texts(self, row: Row) -> list[str]:
        null, quoted = self._settings.null_literal, self._settings.dialect.quoted
        return [
            null if value is None else write(value) if is_number else quoted(write(value))
            for value, (write, is_number) in zip(row, self._ones, strict=True)
        ]


def _is_number(kind: Any) -> bool:
    return isinstance(kind, BasicTypeInfo) and kind.basic_type in _NUMBERS
