"""Elements <-> bytes: hop 5 of a record's journey.

A payload is a fixed header and a body. The header names the channel (edge, sending subtask, receiving
subtask) and counts the payloads on it, so that a lost, repeated or reordered one is noticed; a relay
reads only the header and passes the bytes on. Everything a later version adds is a new kind, so a
pipeline never changes its wire.

    byte 0      kind
    bytes 1-2   edge
    bytes 3-4   sending subtask
    bytes 5-6   receiving subtask
    bytes 7-14  sequence number on this channel, from 0
    bytes 15-   body; of a data chunk: pickle of (values, timestamps)
"""

from __future__ import annotations

import io
import pickle
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

import cloudpickle

from firesteel.common.types import Row, RowKind
from firesteel.runtime.elements import (
    END_OF_INPUT,
    Barrier,
    Chunk,
    Element,
    LatencyMarker,
    StreamStatus,
    WatermarkSignal,
)

HEADER = struct.Struct("<BHHHQ")
HEADER_SIZE = HEADER.size
_LONG = struct.Struct("<q")
_MARKER = struct.Struct("<qI")

DATA, ROWS, WATERMARK, STATUS, BARRIER, LATENCY, END = range(7)

# Types that pickle without naming a class. Without a memo (see `_pickle_flat`) they are written and
# read faster; an object that names its class would repeat that name in every record.
_PLAIN = frozenset({int, float, str, bytes, bool, type(None), complex})


class Header(NamedTuple):
    """Where a payload comes from and goes to."""

    kind: int
    edge: int
    sender: int
    target: int
    sequence: int


def read_header(payload: bytes | memoryview) -> Header:
    """The header of a payload."""
    return Header._make(HEADER.unpack_from(payload))


def encode(element: Element, edge: int, sender: int, target: int, sequence: int) -> bytes:
    """One element as a payload."""
    kind, body = _encode_body(element)
    return HEADER.pack(kind, edge, sender, target, sequence) + body


def encode_chunk_body(
    values: list[Any], timestamps: list[int | None] | None, *, flat: bool = False
) -> tuple[int, bytes]:
    """Kind and body of a data chunk; split from `encode` because a broadcast sends one body many times.

    ``flat``: no record has parts that can change, so none can have the same one twice.
    """
    first = values[0]
    if type(first) is Row:
        packed = _pack_rows(values)
        if packed is not None:
            return ROWS, _pickle((packed, timestamps), flat and _is_plain(first._values))
    return DATA, _pickle((values, timestamps), flat and _is_plain(first))


def decode(kind: int, payload: bytes | memoryview) -> Element:
    """The element in a payload of this kind."""
    body = memoryview(payload)[HEADER_SIZE:]
    if kind == DATA:
        return Chunk(*pickle.loads(body))
    return _DECODERS[kind](body)


def _encode_body(element: Element) -> tuple[int, bytes]:
    match element:
        case Chunk(values, timestamps):
            return encode_chunk_body(values, timestamps)
        case WatermarkSignal(timestamp):
            return WATERMARK, _LONG.pack(timestamp)
        case StreamStatus(active):
            return STATUS, b"\x01" if active else b"\x00"
        case Barrier(order):
            return BARRIER, pickle.dumps(order, protocol=5)
        case LatencyMarker(marked_at_ms, source_id, source_subtask):
            return LATENCY, _MARKER.pack(marked_at_ms, source_subtask) + source_id.encode()
        case _:
            return END, b""


def _pickle(content: Any, without_memo: bool) -> bytes:
    return _pickle_flat(content) if without_memo else pickle_values(content)


def pickle_values(content: Any) -> bytes:
    """Records as bytes, whatever their class.

    Instances of classes that cannot be imported - those of the user's main program, which tasks know by value
    only - need cloudpickle, which is slower and brings the class along once in a pickle.
    """
    try:
        return pickle.dumps(content, protocol=5)
    except (pickle.PicklingError, AttributeError, TypeError):
        return bytes(cloudpickle.dumps(content, protocol=5))


def _pickle_flat(content: Any) -> bytes:
    buffer = io.BytesIO()
    pickler = pickle.Pickler(buffer, protocol=5)
    pickler.fast = True
    pickler.dump(content)
    return buffer.getvalue()


def _is_plain(value: Any) -> bool:
    """Whether this record, as an example for its chunk, names no classes."""
    return all(map(_is_plain, value)) if type(value) is tuple else type(value) in _PLAIN


def _pack_rows(rows: list[Any]) -> tuple[Any, Any, list[Any]] | None:
    """Rows of one shape as (names, kinds, tuples); None when their shapes differ."""
    if set(map(type, rows)) != {Row}:
        return None
    names = rows[0]._fields
    if any(row._fields is not names and row._fields != names for row in rows):
        return None
    kinds = [row._row_kind for row in rows]
    plain = None if kinds.count(RowKind.INSERT) == len(kinds) else kinds
    return names, plain, [row._values for row in rows]


def _unpack_marker(body: memoryview) -> LatencyMarker:
    marked_at_ms, source_subtask = _MARKER.unpack_from(body)
    return LatencyMarker(marked_at_ms, bytes(body[_MARKER.size :]).decode(), source_subtask)


def _unpack_rows(body: memoryview) -> Chunk:
    (names, kinds, tuples), timestamps = pickle.loads(body)
    if kinds is None:
        return Chunk(Row._make_all(tuples, names), timestamps)
    rows = [Row._make(values, names, kind) for values, kind in zip(tuples, kinds, strict=True)]
    return Chunk(rows, timestamps)


_DECODERS: dict[int, Callable[[memoryview], Element]] = {
    ROWS: _unpack_rows,
    WATERMARK: lambda body: WatermarkSignal(*_LONG.unpack(body)),
    STATUS: lambda body: StreamStatus(body[0] == 1),
    BARRIER: lambda body: Barrier(pickle.loads(body)),
    LATENCY: _unpack_marker,
    END: lambda body: END_OF_INPUT,
}
