"""JSON lines: a value of JSON on every line, read and written many at a time."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec

from firesteel.common._override import override
from firesteel.common.types import Row
from firesteel.formats.record_classes import classes_in, clean, is_record_class, to_dict

__all__ = ["JsonError", "LineDecoder", "TupleDecoder", "encode_lines", "whole_number"]


class JsonError(ValueError):
    """A line that cannot be read: its number in the block, from 0, its bytes, and where the block has it."""

    def __init__(self, reason: str, line: int, position: int, text: bytes) -> None:
        super().__init__(reason)
        self.line = line
        self.position = position
        self.text = text


class LineDecoder:
    """Values of a type, one on every line; lines without anything on them are left out."""

    def __init__(self, kind: Any = Any) -> None:
        self._kind = kind
        self._decoder = msgspec.json.Decoder(kind)
        clean(classes_in(kind))

    def decode(self, block: bytes) -> list[Any]:
        """The values of some lines; `JsonError` for the first line that is none.

        The fast way takes values that go on in the next line, or come after each other in one, so it counts: as many values
        as lines, or every line is looked at.
        """
        try:
            values: list[Any] = self._decoder.decode_lines(block)
        except msgspec.DecodeError:  # ValidationError is one
            return self._line_by_line(block)
        if len(values) == block.count(b"\n") + (not block.endswith(b"\n")):
            return values
        return self._line_by_line(block)

    def _line_by_line(self, block: bytes) -> list[Any]:
        values, position = [], 0
        for number, line in enumerate(block.split(b"\n")):
            if line.strip():
                try:
                    values.append(self._decoder.decode(line))
                except (msgspec.DecodeError, UnicodeDecodeError) as error:
                    raise JsonError(_reason(error), number, position, line) from None
            position += len(line) + 1
        return values

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return LineDecoder, (self._kind,)


class TupleDecoder:
    """Objects of some fields, as tuples of these; a field that is missing is None, others are left out."""

    def __init__(self, names: Sequence[str], hints: Sequence[Any]) -> None:
        fields = [f"f{index}" for index in range(len(names))]
        struct = msgspec.defstruct(
            "Object",
            [(field, hint, None) for field, hint in zip(fields, hints, strict=True)],
            rename=dict(zip(fields, names, strict=True)),
            gc=False,
        )
        self._decoder = LineDecoder(struct)
        self._fields = operator.attrgetter(*fields)
        self._is_single = len(fields) == 1

    def decode(self, block: bytes) -> list[tuple[Any, ...]]:
        """The tuples of some lines; errors are those of `LineDecoder`."""
        values = map(self._fields, self._decoder.decode(block))
        return [(value,) for value in values] if self._is_single else list(values)


def whole_number(bits: int) -> Any:
    """The type of whole numbers of a number of bits, for `TupleDecoder`."""
    half = 1 << (bits - 1)
    return Annotated[int, msgspec.Meta(ge=-half, le=half - 1)] | None


def _reason(error: Exception) -> str:
    text = str(error).replace("`", "'")
    return text[:1].lower() + text[1:] if not text.startswith("JSON") else text


_ENCODER = msgspec.json.Encoder(enc_hook=lambda value: _plain(value))


def encode_lines(values: Sequence[Any]) -> bytes:
    """Values as lines of JSON; rows become objects by the names of their fields, or arrays without names.

    ValueError for numbers that JSON does not have; msgspec writes null for them.
    """
    encoded = _ENCODER.encode_lines(values)
    if b"null" in encoded:
        for value, line in zip(values, encoded.split(b"\n"), strict=False):
            if b"null" in line and _has_no_number(value):
                raise ValueError("JSON has no NaN and no infinity")
    return encoded


def _has_no_number(value: Any) -> bool:
    """Whether there is a NaN or an infinity in a value."""
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, Row):
        return any(map(_has_no_number, value._values))
    if isinstance(value, dict):
        return any(map(_has_no_number, value.values()))
    if isinstance(value, list | tuple | set | frozenset):
        return any(map(_has_no_number, value))
    if is_record_class(type(value)):
        return _has_no_number(to_dict(value))
    return False


def _plain(value: Any) -> Any:
    if isinstance(value, Row):
        return (
            value._values if value._fields is None else dict(zip(value._fields, value._values, strict=True))
        )
    if hasattr(value, "item") and callable(value.item):  # a scalar of numpy
        return value.item()
    raise TypeError(f"JSON has nothing for {value!r} ({type(value).__name__})")
