"""Rows of a stream on their way into messages: by the names of their fields, or in order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from firesteel.common.typeinfo import RowTypeInfo
from firesteel.common.types import Row

__all__ = ["row_converter"]


def row_converter(row_type: RowTypeInfo) -> Callable[[list[Any]], list[Any]]:
    """What makes rows of a type out of records, many at a time.

    A stream that is declared as ``Types.ROW([...])`` has rows with the names f0, f1 and so on. Nobody has chosen them, so
    the values of such rows are taken in order, as Flink takes those of all rows.

    >>> from firesteel.common import Types
    >>> convert = row_converter(Types.ROW_NAMED(["id", "name"], [Types.INT(), Types.STRING()]))
    >>> [row.as_dict() for row in convert([Row(f0=1, f1="one"), Row(name="two", id=2)])]
    [{'id': 1, 'name': 'one'}, {'id': 2, 'name': 'two'}]
    """
    convert = row_type.batch_converter()
    assert convert is not None, "rows are always converted"
    default = tuple(f"f{index}" for index in range(len(row_type.get_field_types())))
    if tuple(row_type.get_field_names()) == default:
        return convert

    def convert_in_order(records: list[Any]) -> list[Any]:
        return convert(
            [tuple(each) if type(each) is Row and each._fields == default else each for each in records]
        )

    return convert_in_order
