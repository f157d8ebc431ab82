"""What a CSV file has: columns with types, and the characters that divide them; made as PyFlink does, by a builder."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Self

from firesteel.common._data_types import DataType, DataTypes, NumericType, RowField, RowType
from firesteel.common._override import override
from firesteel.common.errors import InvalidArgumentError, ProgramError
from firesteel.connectors.files.csv_columns import row_type_of
from firesteel.formats.record_classes import RecordClass, is_record_class, record_class

#: Between the elements of an array, unless a column says otherwise.
ARRAY_SEPARATOR = ";"


@dataclass(frozen=True)
class CsvFileDialect:
    """The characters of a CSV file and what its first lines are. Without ``null`` nothing means None."""

    separator: str = ","
    quote: str | None = '"'
    escape: str | None = None
    line_separator: str = "\n"
    null: str | None = None
    comments: bool = False
    use_header: bool = False
    strict_headers: bool = False
    skip_first: bool = False
    ignore_extra: bool = False


@dataclass(frozen=True)
class CsvSchema:
    """The columns of a CSV file; ``record`` is the class of records, if they are to be no rows.

    Without columns, and with a header, a file says itself which columns it has, all of them texts.
    """

    row_type: RowType = field(default_factory=RowType)
    dialect: CsvFileDialect = field(default_factory=CsvFileDialect)
    separators: tuple[str, ...] = ()
    record: RecordClass | None = None

    @staticmethod
    def builder() -> CsvSchemaBuilder:
        """Return a builder."""
        return CsvSchemaBuilder()

    @staticmethod
    def of(schema: Any) -> CsvSchema:
        """The schema itself, or one with the columns of another kind of schema and the usual characters."""
        return (
            schema if isinstance(schema, CsvSchema) else CsvSchema.builder().add_columns_from(schema).build()
        )

    def size(self) -> int:
        """How many columns there are."""
        return len(self.row_type)

    def __len__(self) -> int:
        return self.size()

    @override
    def __repr__(self) -> str:
        columns = ", ".join(f"{each.name}: {each.data_type.type_name()}" for each in self.row_type)
        return f"CsvSchema({columns})"


class CsvSchemaBuilder:
    """Collects the columns of a `CsvSchema`, in their order, and how its files are written."""

    def __init__(self) -> None:
        self._fields: list[RowField] = []
        self._separators: list[str | None] = []  # None: the one for all
        self._array_separator = ARRAY_SEPARATOR
        self._dialect = CsvFileDialect()
        self._record: RecordClass | None = None

    def build(self) -> CsvSchema:
        """Return the schema; names that come twice, and none at all without a header, are refused."""
        names = [each.name for each in self._fields]
        for name in names:
            if names.count(name) > 1:
                raise ProgramError(
                    f"the columns of a CSV file must have different names, but {name!r} comes twice"
                )
        if not names and not self._dialect.use_header:
            raise ProgramError(
                "a CSV schema needs columns: add_string_column() and its like, add_columns_from(a class or row type), or "
                "set_use_header() alone for texts with the names that the file has"
            )
        _check_dialect(self._dialect)
        separators = tuple(self._array_separator if each is None else each for each in self._separators)
        is_class = self._record is not None and list(self._record.names) == names
        return CsvSchema(RowType(self._fields), self._dialect, separators, self._record if is_class else None)

    # Columns ------------------------------------------------------------------------------------------

    def add_array_column(
        self, name: str, separator: str = ARRAY_SEPARATOR, element_type: DataType | None = None
    ) -> Self:
        """Add a list, of texts unless another type is given, whose elements are divided by ``separator``."""
        return self._add(name, DataTypes.ARRAY(element_type or DataTypes.STRING()), separator)

    def add_boolean_column(self, name: str) -> Self:
        """Add a column of ``true`` and ``false``."""
        return self._add(name, DataTypes.BOOLEAN())

    def add_number_column(self, name: str, number_type: NumericType | None = None) -> Self:
        """Add a column of numbers: whole ones of 64 bits unless another type is given."""
        if number_type is not None and not isinstance(number_type, NumericType):
            raise InvalidArgumentError(
                f"the type of number column {name!r} must be a number, got {number_type!r}"
            )
        return self._add(name, number_type or DataTypes.BIGINT())

    def add_string_column(self, name: str) -> Self:
        """Add a column of texts."""
        return self._add(name, DataTypes.STRING())

    def add_columns_from(self, schema: Any) -> Self:
        """Add the columns of another schema, or, not in PyFlink, of a class, a row type or a ``pyarrow.Schema``.

        When all columns are those of one class, records are its instances; dicts, if it is a ``TypedDict``.
        """
        if isinstance(schema, CsvSchema):
            self._fields += schema.row_type.fields
            self._separators += schema.separators
            return self
        if is_record_class(schema):
            self._record = record_class(schema)
        for each in row_type_of(schema):
            self._add(each.name, each.data_type)
        return self

    def clear_columns(self) -> Self:
        """Remove all columns."""
        self._fields, self._separators, self._record = [], [], None
        return self

    def _add(self, name: str, data_type: DataType, separator: str | None = None) -> Self:
        self._fields.append(DataTypes.FIELD(name, data_type))
        self._separators.append(separator)
        return self

    def size(self) -> int:
        """How many columns there are so far."""
        return len(self._fields)

    def __len__(self) -> int:
        return self.size()

    # Characters ---------------------------------------------------------------------------------------

    def _set(self, **settings: Any) -> Self:
        self._dialect = replace(self._dialect, **settings)
        return self

    def set_allow_comments(self, allow: bool = True) -> Self:
        """Leave out lines whose first character, apart from spaces, is ``#``."""
        return self._set(comments=allow)

    def set_any_property_name(self, name: str) -> Self:
        """Leave out values behind the last column, which are an error otherwise; what the name is does not matter."""
        return self._set(ignore_extra=True)

    def disable_array_element_separator(self) -> Self:
        """Arrays have one element."""
        return self.set_array_element_separator("")

    def remove_array_element_separator(self, index: int) -> Self:
        """The arrays of one column have one element."""
        self._separators[index] = ""
        return self

    def set_array_element_separator(self, separator: str) -> Self:
        """Set what divides elements of arrays, for columns that have no separator of their own."""
        self._array_separator = separator
        return self

    def set_column_separator(self, char: str) -> Self:
        """Set what divides columns: a comma by default."""
        return self._set(separator=_single("column separator", char))

    def disable_escape_char(self) -> Self:
        """No character takes the meaning of the next one away."""
        return self._set(escape=None)

    def set_escape_char(self, char: str) -> Self:
        """Set the character that takes the meaning of the next one away; there is none by default."""
        return self._set(escape=_single("escape char", char))

    def set_line_separator(self, separator: str) -> Self:
        r"""Set what ends lines that are written; read are ``\n``, ``\r\n`` and ``\r``."""
        return self._set(line_separator=separator)

    def set_null_value(self, null_value: str) -> Self:
        """Set the text that means None; there is none by default, and an empty text is written for None."""
        return self._set(null=null_value)

    def disable_quote_char(self) -> Self:
        """No values are in quotation marks; so there are no line ends in them, and large files can be cut."""
        return self._set(quote=None)

    def set_quote_char(self, char: str) -> Self:
        r"""Set what stands around values that have separators or line ends in them: ``"`` by default."""
        return self._set(quote=_single("quote char", char))

    def set_skip_first_data_row(self, skip: bool = True) -> Self:
        """Leave out the first row, or the one behind the header."""
        return self._set(skip_first=skip)

    def set_strict_headers(self, strict: bool = True) -> Self:
        """The header must have exactly the columns of the schema, in their order."""
        return self._set(strict_headers=strict)

    def set_use_header(self, use: bool = True) -> Self:
        """The first line has the names of the columns, by which they are found; it is written, too."""
        return self._set(use_header=use)


def _single(what: str, char: str) -> str:
    if not isinstance(char, str) or len(char) != 1 or char in "\r\n":
        raise InvalidArgumentError(f"the {what} must be a single character and no line end, got {char!r}")
    return char


def _check_dialect(dialect: CsvFileDialect) -> None:
    used = [char for char in (dialect.separator, dialect.quote, dialect.escape) if char is not None]
    if len(set(used)) < len(used):
        raise ProgramError(
            f"separator, quote and escape character must differ, got {', '.join(map(repr, used))}"
        )
