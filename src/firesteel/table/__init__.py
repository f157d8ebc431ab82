"""The place of the Table API. Only its types are there yet, which file formats take as schemas."""

from typing import TYPE_CHECKING

from firesteel.common._missing_modules import missing_name
from firesteel.common.types import Row, RowKind
from firesteel.table.types import DataTypes

__all__ = ["DataTypes", "Row", "RowKind"]

if not TYPE_CHECKING:  # type checkers must still see which names do not exist
    __getattr__ = missing_name(__name__, __name__)
