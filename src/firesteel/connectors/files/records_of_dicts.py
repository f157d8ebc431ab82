"""Records of a schema from dicts, as Avro has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from firesteel.common._data_types import RowType
from firesteel.common.errors import FileContentError, ProgramError, TypeMismatchError
from firesteel.common.typeinfo import RowTypeInfo, TypeInformation
from firesteel.connectors.files.data_type_columns import type_info_of
from firesteel.connectors.files.json_rows import rows_reader
from firesteel.formats.record_classes import Misfit, column_converter, is_record_class, record_class

#: Makes records of dicts; the text is the path of the file, for errors.
Make = Callable[[list[Any], str], list[Any]]


class DictRecords(NamedTuple):
    """How records are made, and their declared type."""

    make: Make
    type_info: TypeInformation | None


def records_of_dicts(schema: Any) -> DictRecords:
    """Dicts as they are for None, rows of a row type, or instances of a class."""
    if schema is None:
        return DictRecords(lambda dicts, path: dicts, None)
    if isinstance(schema, RowType):
        schema = type_info_of(schema)
    if isinstance(schema, RowTypeInfo):
        return DictRecords(_rows(schema), schema)
    if is_record_class(schema):
        return DictRecords(_instances(schema), None)
    raise ProgramError(
        "the schema of records must be Types.ROW_NAMED(names, types), DataTypes.ROW(fields), a dataclass, NamedTuple or "
        f"TypedDict, or None for dicts, got {schema!r} ({type(schema).__name__})"
    )


def _rows(declared: RowTypeInfo) -> Make:
    read = rows_reader(declared)

    def make(dicts: list[Any], path: str) -> list[Any]:
        try:
            return read(dicts)
        except TypeMismatchError as error:
            raise FileContentError(str(error), file=path, text=dicts[error.index or 0]) from None

    return make


def _instances(cls: type) -> Make:
    record = record_class(cls)
    converters = [column_converter(hint) for hint in record.hints]

    def make(dicts: list[Any], path: str) -> list[Any]:
        if not dicts:
            return []
        names = [name for name in record.names if name in dicts[0] or name not in record.optional]
        columns = []
        for name in names:
            convert = converters[record.names.index(name)]
            try:
                columns.append(convert([each[name] for each in dicts]))
            except KeyError:
                reason = f"there is no field {name!r}; the records have {', '.join(dicts[0])}"
                raise FileContentError(reason, file=path) from None
            except Misfit as error:
                reason = f"field {name!r}: {error}"
                raise FileContentError(reason, file=path, text=dicts[error.index]) from None
        return record.records(names, columns)

    return make
