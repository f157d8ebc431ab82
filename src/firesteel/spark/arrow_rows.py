"""Rows of (target, payload) <-> the messages of an Arrow stream, as Spark and its Python workers exchange them.

All messages of a task have one schema: a struct of an int and of bytes. So little of the format is needed that reading and
writing it here costs a tenth of what pyarrow's objects do, most of which would be made for a single row. A message is

    4 bytes     0xFFFFFFFF
    4 bytes     size of the metadata, with its padding; 0 ends the stream
    ...         metadata, a flatbuffer `Message`: which kind, how long the body is, where in it each buffer lies
    ...         body

pyarrow makes the schema, and one batch as a pattern: `BatchWriter` only fills in other numbers.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator
from itertools import accumulate, pairwise

import pyarrow as pa

from firesteel.common.errors import DataLossError

__all__ = ["END_OF_STREAM", "PREFIX", "BatchWriter", "body_length", "payloads_in"]

Row = tuple[int, bytes]

PREFIX = struct.Struct("<II")
_CONTINUES = 0xFFFFFFFF
END_OF_STREAM = PREFIX.pack(_CONTINUES, 0)

_U8, _U16, _U32, _I32, _I64 = (struct.Struct(f"<{code}") for code in "BHIiq")
_BUFFER = struct.Struct("<qq")  # offset in the body, length

# Fields of the flatbuffer tables, by number.
_HEADER_TYPE, _HEADER, _BODY_LENGTH = 1, 2, 3
_ROWS, _NODES, _BUFFERS, _COMPRESSION = 0, 1, 2, 3
_RECORD_BATCH = 3  # a header type; the others say what is known: the schema

# Buffers of a struct of an int and of bytes: is it null, for each of the three, and the content of the two.
_COLUMN_BUFFERS = 6
_OFFSETS, _CONTENT = 4, 5


# Reading ----------------------------------------------------------------------------------------------


def body_length(metadata: bytes | bytearray | memoryview) -> int:
    """How many bytes follow behind the metadata of a message."""
    position = _field(metadata, _root(metadata), _BODY_LENGTH)
    return int(_I64.unpack_from(metadata, position)[0]) if position else 0


def payloads_in(metadata: bytes | bytearray | memoryview, body: memoryview) -> Iterator[bytes]:
    """The payloads of the rows of a message; none for a schema, and for rows that have no payload."""
    message = _root(metadata)
    kind = _field(metadata, message, _HEADER_TYPE)
    if not kind or _U8.unpack_from(metadata, kind)[0] != _RECORD_BATCH:
        return
    batch = _target(metadata, _field(metadata, message, _HEADER))
    position = _field(metadata, batch, _ROWS)
    rows = _I64.unpack_from(metadata, position)[0] if position else 0
    buffers = _target(metadata, _field(metadata, batch, _BUFFERS))
    count = _U32.unpack_from(metadata, buffers)[0]
    if not rows or count < _COLUMN_BUFFERS:  # the rows that start the first stage carry nothing
        return
    begin, length = _BUFFER.unpack_from(metadata, buffers + 4 + _OFFSETS * _BUFFER.size)
    content, _ = _BUFFER.unpack_from(metadata, buffers + 4 + _CONTENT * _BUFFER.size)
    if count != _COLUMN_BUFFERS or length < 4 * (rows + 1) or _field(metadata, batch, _COMPRESSION):
        raise DataLossError(
            f"Spark sent a batch of {rows} row(s) in another form than tasks know ({count} buffers, {length} bytes of offsets); "
            "remove settings of spark.sql.execution.arrow that change it, such as compression or large types"
        )
    ends = struct.unpack_from(f"<{rows + 1}i", body, begin)
    for start, end in pairwise(ends):
        yield bytes(body[content + start : content + end])


def _root(flatbuffer: bytes | bytearray | memoryview) -> int:
    return int(_U32.unpack_from(flatbuffer, 0)[0])


def _field(flatbuffer: bytes | bytearray | memoryview, table: int, number: int) -> int:
    """Where a field of a table is; 0 when it has its default value, which is not written."""
    fields = table - _I32.unpack_from(flatbuffer, table)[0]
    at = 4 + 2 * number
    if at >= _U16.unpack_from(flatbuffer, fields)[0]:
        return 0
    offset = _U16.unpack_from(flatbuffer, fields + at)[0]
    return table + offset if offset else 0


def _target(flatbuffer: bytes | bytearray | memoryview, position: int) -> int:
    """Where a table or a vector is that a field refers to."""
    return position + int(_U32.unpack_from(flatbuffer, position)[0])


# Writing ----------------------------------------------------------------------------------------------


class BatchWriter:
    """Writes batches of rows; `schema` goes before the first one."""

    def __init__(self) -> None:
        # From buffers, because pa.array() of Python objects imports pandas: a second of processor time per worker.
        target, offsets, content = map(pa.py_buffer, (array("i", [0]), array("i", [0, 1]), b"x"))
        columns = [
            pa.Array.from_buffers(pa.int32(), 1, [None, target]),
            pa.Array.from_buffers(pa.binary(), 1, [None, offsets, content]),
        ]
        rows = pa.StructArray.from_arrays(columns, names=["target", "payload"])
        batch = pa.RecordBatch.from_arrays([rows], ["_0"])
        self.schema: bytes = batch.schema.serialize().to_pybytes()
        pattern: bytes = batch.serialize().to_pybytes()
        size = PREFIX.unpack_from(pattern)[1]
        self._head = bytearray(pattern[: PREFIX.size + size])
        metadata = memoryview(self._head)[PREFIX.size :]
        message = _root(metadata)
        header = _target(metadata, _field(metadata, message, _HEADER))
        self._body_length = PREFIX.size + _field(metadata, message, _BODY_LENGTH)
        self._rows = PREFIX.size + _field(metadata, header, _ROWS)
        self._nodes = PREFIX.size + _target(metadata, _field(metadata, header, _NODES)) + 4
        self._buffers = PREFIX.size + _target(metadata, _field(metadata, header, _BUFFERS)) + 4

    def batch(self, rows: list[Row]) -> bytes:
        """A message with these rows, whose payloads have less than 2 GB together."""
        count = len(rows)
        payloads = [payload for _, payload in rows]
        targets = array("i", [target for target, _ in rows])
        ends = array("i", accumulate(map(len, payloads), initial=0))
        offsets_at = _padded(4 * count)
        content_at = offsets_at + _padded(4 * (count + 1))
        length = content_at + _padded(ends[-1])
        head = self._head
        _I64.pack_into(head, self._body_length, length)
        _I64.pack_into(head, self._rows, count)
        struct.pack_into("<6q", head, self._nodes, count, 0, count, 0, count, 0)
        buffers = (0, 0, 0, 0, 0, 4 * count, 0, 0, offsets_at, 4 * (count + 1), content_at, ends[-1])
        struct.pack_into("<12q", head, self._buffers, *buffers)
        pieces = [
            bytes(head),
            targets.tobytes(),
            bytes(offsets_at - 4 * count),
            ends.tobytes(),
            bytes(content_at - offsets_at - 4 * (count + 1)),
            *payloads,
            bytes(length - content_at - ends[-1]),
        ]
        return b"".join(pieces)


def _padded(size: int) -> int:
    """To a multiple of eight, as Arrow wants it."""
    return (size + 7) & ~7
