"""State files: blocks of bytes, framed so that a missing or changed byte is always noticed.

::

    file    = header segment*
    header  = magic (6 bytes)  version (2)  crc32 of both (4)
    segment = block*                              described by a `Segment`: file, offset, number of blocks, crc32
    block   = length (8)  flags (1)  crc32 of length, flags and payload (4)  payload

Numbers are little endian. Flag 1: the payload is compressed with zlib. What a payload means is not decided here.
A segment is checked to its last byte before its first block is handed out, so a reader never acts on half of one.
A segment that travels inside a message or a manifest has no file and no header.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Protocol
from zlib import compress as zlib_compress
from zlib import crc32
from zlib import decompress as zlib_decompress

from firesteel.common.errors import CorruptStateError, StateError
from firesteel.plan.state_handles import Segment

__all__ = ["HEADER_LENGTH", "Readable", "SegmentWriter", "StateFileWriter", "file_header", "read_segment"]

VERSION = 1
_MAGIC = b"FSTATE"
_HEADER = struct.Struct("<6sHI")
HEADER_LENGTH = _HEADER.size
_FRAME = struct.Struct("<QB")
_CRC = struct.Struct("<I")
_FRAME_LENGTH = _FRAME.size + _CRC.size
_COMPRESSED = 1
_COMPRESSION_LEVEL = 1  # the fastest one: snapshots are written while the job runs
# Larger segments are read buffer by buffer, twice: once to check them, once to hand them out.
_BUFFER_SIZE = 32 * 1024 * 1024


class Readable(Protocol):
    """What state is read from; every storage is one."""

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        """``length`` bytes of a file from ``offset`` on, None for all; fewer when it ends before."""


def file_header() -> bytes:
    """The first bytes of every state file."""
    return _HEADER.pack(_MAGIC, VERSION, crc32(_MAGIC + VERSION.to_bytes(2, "little")))


class SegmentWriter:
    """Frames the blocks of one segment: whoever has the file writes what `add` gives. Without a file they stay in the segment."""

    def __init__(self, file: str = "", offset: int = 0, compress: bool = False) -> None:
        self._file = file
        self._offset = offset
        self._compress = compress
        self._inline: list[bytes] = []
        self._checksum = 0
        #: Bytes and blocks so far.
        self.length = 0
        self.blocks = 0

    @property
    def end(self) -> int:
        """Where the file ends with the blocks so far."""
        return self._offset + self.length

    def add(self, payload: bytes) -> bytes:
        """Append a block; its bytes."""
        flags = 0
        if self._compress and len(smaller := zlib_compress(payload, _COMPRESSION_LEVEL)) < len(payload):
            payload, flags = smaller, _COMPRESSED
        head = _FRAME.pack(len(payload), flags)
        block = b"".join((head, _CRC.pack(crc32(payload, crc32(head))), payload))
        self._checksum = crc32(block, self._checksum)
        self.length += len(block)
        self.blocks += 1
        if not self._file:
            self._inline.append(block)
        return block

    def finish(self) -> Segment:
        """The description of what was added; inline without a file."""
        return Segment(
            self._file, self._offset, self.length, self.blocks, self._checksum, inline=b"".join(self._inline)
        )


class StateFileWriter:
    """The segments of one state file, one after the other. The file begins with `file_header`."""

    def __init__(self, file: str, compress: bool = False) -> None:
        self._file = file
        self._compress = compress
        self._current: SegmentWriter | None = None

    @property
    def length(self) -> int:
        """Length of the file so far."""
        return HEADER_LENGTH if self._current is None else self._current.end

    def segment(self) -> SegmentWriter:
        """Begin the next segment; the one before must be complete."""
        self._current = SegmentWriter(self._file, self.length, self._compress)
        return self._current


def read_segment(source: Readable | bytes | None, segment: Segment) -> Iterator[bytes]:
    """The payloads of a segment's blocks, after the whole segment has been checked.

    ``source`` is the storage of the root that the segment's file is relative to, or the bytes of the whole file.
    An inline segment needs none.
    """
    read = _reader(source, segment)
    if segment.file:
        _check_header(read(0, HEADER_LENGTH), segment.file)
    if segment.length <= _BUFFER_SIZE:
        data = _read_buffer(read, segment, 0, segment.length)
        _check(iter([data]), segment)
        return _payloads(_Cursor(segment, iter([data])))
    _check(_buffers(read, segment), segment)
    return _payloads(_Cursor(segment, _buffers(read, segment)))


def _reader(source: Readable | bytes | None, segment: Segment) -> Callable[[int, int], bytes]:
    if not segment.file:
        inline = segment.inline
        return lambda offset, length: inline[offset : offset + length]
    if isinstance(source, bytes | bytearray | memoryview):
        content = bytes(source)
        return lambda offset, length: content[offset : offset + length]
    if source is None:
        raise StateError(f"the state in {segment.file} cannot be read without the storage that it lies in")
    storage = source
    return lambda offset, length: storage.read(segment.file, offset, length)


def _check_header(header: bytes, file: str) -> None:
    if len(header) < HEADER_LENGTH:
        raise CorruptStateError("the file ends inside its header", file=file, position=len(header))
    magic, version, checksum = _HEADER.unpack(header)
    if magic != _MAGIC or checksum != crc32(header[: HEADER_LENGTH - _CRC.size]):
        raise CorruptStateError("this is not the header of a state file", file=file, position=0)
    if version > VERSION:
        raise StateError(
            f"{file} was written by a newer version of Firesteel: its format is {version}, this version reads up "
            f"to {VERSION}; use the newer version"
        )


def _buffers(read: Callable[[int, int], bytes], segment: Segment) -> Iterator[bytes]:
    for start in range(0, segment.length, _BUFFER_SIZE):
        yield _read_buffer(read, segment, start, min(_BUFFER_SIZE, segment.length - start))


def _read_buffer(read: Callable[[int, int], bytes], segment: Segment, start: int, length: int) -> bytes:
    data = read(segment.offset + start, length)
    if len(data) != length:
        position = segment.offset + start + len(data)
        raise CorruptStateError(
            f"the file ends here; {segment.length} bytes were expected from byte {segment.offset} on",
            file=segment.file,
            position=position,
        )
    return data


def _check(buffers: Iterator[bytes], segment: Segment) -> None:
    """Every block, their number, and the sum over everything."""
    cursor = _Cursor(segment, buffers)
    blocks = sum(1 for _ in cursor.frames())
    if blocks != segment.blocks:
        raise cursor.damaged(f"{blocks} blocks instead of {segment.blocks}")
    if cursor.checksum != segment.checksum:
        raise CorruptStateError(
            "the checksum of the segment does not match", file=segment.file, position=segment.offset
        )


def _payloads(cursor: _Cursor) -> Iterator[bytes]:
    for flags, payload in cursor.frames():
        yield zlib_decompress(payload) if flags & _COMPRESSED else payload


class _Cursor:
    """Walks over the blocks of a segment that comes buffer by buffer."""

    def __init__(self, segment: Segment, buffers: Iterator[bytes]) -> None:
        self._segment = segment
        self._buffers = buffers
        self._data = b""
        self._at = 0
        #: Where the next block begins, in the file; sum over all bytes read so far.
        self._position = segment.offset
        self.checksum = 0

    def frames(self) -> Iterator[tuple[int, bytes]]:
        """Flags and stored payload of each block, checked."""
        end = self._segment.offset + self._segment.length
        while self._position < end:
            head = self._read(_FRAME_LENGTH, end)
            length, flags = _FRAME.unpack_from(head)
            if flags & ~_COMPRESSED or length > end - self._position - _FRAME_LENGTH:
                raise self.damaged("this is not the beginning of a block")
            payload = self._read(length, end)
            (expected,) = _CRC.unpack_from(head, _FRAME.size)
            if crc32(payload, crc32(head[: _FRAME.size])) != expected:
                raise self.damaged("the checksum of the block does not match")
            self.checksum = crc32(payload, crc32(head, self.checksum))
            self._position += _FRAME_LENGTH + length
            yield flags, payload

    def damaged(self, reason: str) -> CorruptStateError:
        """The error for the block at the current position."""
        return CorruptStateError(reason, file=self._segment.file, position=self._position)

    def _read(self, count: int, end: int) -> bytes:
        while len(self._data) - self._at < count:
            buffer = next(self._buffers, b"")
            if not buffer:
                raise self.damaged(f"the block goes beyond the end of the segment at byte {end}")
            self._data = self._data[self._at :] + buffer
            self._at = 0
        data = self._data[self._at : self._at + count]
        self._at += count
        return data
