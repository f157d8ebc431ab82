"""PyFlink's schema that makes rows of CSV, with its builder: one message is one line."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from firesteel.common._override import override
from firesteel.common.errors import DeserializationError, InvalidArgumentError, short_repr
from firesteel.common.serialization import DeserializationSchema
from firesteel.common.typeinfo import RowTypeInfo, TypeInformation
from firesteel.common.types import Row
from firesteel.formats.csv_text import CsvDialect
from firesteel.formats.csv_values import parser
from firesteel.formats.json_row_schemas import row_type_argument
from firesteel.formats.schema_base import Ignored, LazyCodec

__all__ = ["CsvRowDeserializationSchema", "array_delimiter"]


@dataclass(frozen=True)
class _Reading:
    dialect: CsvDialect = field(default_factory=CsvDialect)
    allow_comments: bool = False
    array_delimiter: str = ";"
    null_literal: str | None = None
    ignore_parse_errors: bool = False


class CsvRowDeserializationSchema(LazyCodec, DeserializationSchema):
    """Rows from lines of CSV, with Flink's conversions; see `Builder`."""

    gives_away = True

    def __init__(self, row_type: RowTypeInfo, settings: _Reading) -> None:
        self._row_type = row_type
        self._settings = settings
        self._compiled = self._compile()

    class Builder:
        """Says what the fields are, and which characters mean something."""

        def __init__(self, type_info: TypeInformation) -> None:
            self._type_info = row_type_argument("CsvRowDeserializationSchema.Builder()", type_info)
            self._settings = _Reading()

        def _with(self, **settings: Any) -> CsvRowDeserializationSchema.Builder:
            self._settings = replace(self._settings, **settings)
            return self

        def _with_dialect(self, **characters: Any) -> CsvRowDeserializationSchema.Builder:
            return self._with(dialect=replace(self._settings.dialect, **characters))

        def set_field_delimiter(self, delimiter: str) -> CsvRowDeserializationSchema.Builder:
            """The character between fields: a comma, unless this is called."""
            return self._with_dialect(delimiter=delimiter)

        def set_allow_comments(self, allow_comments: bool) -> CsvRowDeserializationSchema.Builder:
            """Lines that begin with ``#`` are comments; a message of nothing else is an error."""
            return self._with(allow_comments=allow_comments)

        def set_array_element_delimiter(self, delimiter: str) -> CsvRowDeserializationSchema.Builder:
            """What is between elements of arrays and fields of nested rows: a semicolon, unless this is called."""
            return self._with(array_delimiter=array_delimiter(delimiter))

        def set_quote_character(self, c: str) -> CsvRowDeserializationSchema.Builder:
            """The character around fields that have others of these in them: a double quote, unless this is called."""
            return self._with_dialect(quote=c)

        def set_escape_character(self, c: str) -> CsvRowDeserializationSchema.Builder:
            """The character before one that shall mean nothing; none, unless this is called."""
            return self._with_dialect(escape=c)

        def set_null_literal(self, null_literal: str) -> CsvRowDeserializationSchema.Builder:
            """The text that stands for None; none does, unless this is called."""
            return self._with(null_literal=null_literal)

        def set_ignore_parse_errors(self, ignore_parse_errors: bool) -> CsvRowDeserializationSchema.Builder:
            """A field that does not fit is None, and a line that cannot be read gives no row; both are counted."""
            return self._with(ignore_parse_errors=ignore_parse_errors)

        def build(self) -> CsvRowDeserializationSchema:
            """Make the schema of what was set, with defaults for the rest."""
            return CsvRowDeserializationSchema(self._type_info, self._settings)

    @override
    def _compile(self) -> _RowReader:
        return _RowReader(self._row_type, self._settings)

    @override
    def deserialize(self, message: bytes) -> Any:
        """Return the row; None when its errors are passed over."""
        return self._codec.decode(message)

    @override
    def take_ignored(self) -> int:
        ignored: Ignored | None = self._codec.ignored
        return 0 if ignored is None else ignored.take()

    @override
    def get_produced_type(self) -> TypeInformation:
        return self._row_type


class _RowReader:
    def __init__(self, row_type: RowTypeInfo, settings: _Reading) -> None:
        self._names = tuple(row_type.get_field_names())
        null = settings.null_literal
        kinds = row_type.get_field_types()
        self._fields = [
            (name, kind, parser(kind, settings.array_delimiter, null))
            for name, kind in zip(self._names, kinds, strict=True)
        ]
        self._settings = settings
        self.ignored = Ignored() if settings.ignore_parse_errors else None

    def decode(self, message: bytes) -> Row | None:
        if message is None:
            return None
        try:
            return self._row(message)
        except DeserializationError as error:
            if self.ignored is None:
                raise
            self.ignored.add(error)
            return None

    def _row(self, message: bytes) -> Row:
        texts = self._texts(message)
        count = len(self._fields)
        if len(texts) > count or (len(texts) < count and self.ignored is None):
            raise _error(message, f"expected {count} fields, got {len(texts)}")
        if len(texts) < count:
            self._pass_over(_error(message, f"expected {count} fields, got {len(texts)}"))
            texts += [None] * (count - len(texts))
        null = self._settings.null_literal
        values: list[Any] = []
        for text, (name, kind, parse) in zip(texts, self._fields, strict=True):
            if text is None or text == null:
                values.append(None)
                continue
            try:
                values.append(parse(text))
            except ValueError as problem:
                more = f": {problem}" if str(problem) and len(str(problem)) < 60 else ""
                error = _error(message, f"expected {kind}, got {short_repr(text)}{more}", name)
                if self.ignored is None:
                    raise error from None
                self._pass_over(error)
                values.append(None)
        return Row._make(values, self._names)

    def _pass_over(self, error: DeserializationError) -> None:
        assert self.ignored is not None
        self.ignored.add(error)

    def _texts(self, message: bytes) -> list[Any]:
        try:
            line = message if isinstance(message, str) else message.decode()
        except UnicodeDecodeError as error:
            raise DeserializationError(
                message, "the text is not UTF-8", format="CSV", position=error.start
            ) from None
        if self._settings.allow_comments:
            while line.startswith("#"):
                line = line.partition("\n")[2]
        if not line:
            raise _error(message, "the message is empty")
        try:
            return self._settings.dialect.split(line)
        except ValueError as error:
            raise _error(message, str(error)) from None


def _error(message: Any, reason: str, path: str = "") -> DeserializationError:
    data = message.encode() if isinstance(message, str) else message
    return DeserializationError(data, reason, format="CSV of its row type", path=path)


def array_delimiter(text: str) -> str:
    """The argument of a builder, which must be a text."""
    if not isinstance(text, str) or not text:
        raise InvalidArgumentError(f"the delimiter of array elements must be a text, got {text!r}")
    return text
