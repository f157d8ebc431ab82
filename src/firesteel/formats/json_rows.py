"""JSON objects as rows of a declared type, with the conversions that Flink's JSON format makes.

Two ways lead to a row. The fast one lets msgspec read a message straight into a struct made from the type; it knows
only messages that need no conversion. All others take the lenient way (`json_lenient`), which converts what Flink
converts and explains what does not fit. Where both succeed they give the same.
"""

from __future__ import annotations

from typing import Any

from firesteel.common.errors import DeserializationError
from firesteel.common.typeinfo import RowTypeInfo
from firesteel.common.types import Row
from firesteel.formats.json_fast_rows import FastRows
from firesteel.formats.json_lenient import LenientRows
from firesteel.formats.json_row_writer import RowWriter
from firesteel.formats.schema_base import Ignored

__all__ = ["JsonRowCodec"]


class JsonRowCodec:
    """Both ways, and the way back."""

    def __init__(
        self, row_type: RowTypeInfo, fail_on_missing_field: bool = False, ignored: Ignored | None = None
    ) -> None:
        self._lenient = LenientRows(row_type, fail_on_missing_field, ignored)
        self._fast = FastRows.of(row_type, fail_on_missing_field)
        self._writer = RowWriter(row_type)
        self._ignored = ignored

    def decode(self, message: bytes) -> Row | None:
        """The row of a message; None for a message that says null, and for errors that are passed over."""
        if message is None:
            return None
        rows = None if self._fast is None else self._fast.decode_all([message])
        if rows is not None:
            return rows[0]
        try:
            return self._lenient.decode(message)
        except DeserializationError as error:
            if self._ignored is None:
                raise
            self._ignored.add(error)
            return None

    def decode_all(self, messages: list[bytes]) -> list[Row] | None:
        """The rows of all, the fast way; None when one of them has to be looked at by itself."""
        return None if self._fast is None else self._fast.decode_all(messages)

    def encode_all(self, elements: list[Any]) -> list[bytes]:
        """The bytes of rows, or of whatever can stand for one."""
        return self._writer.encode_all(elements)
