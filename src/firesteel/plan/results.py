"""How results travel from a collecting sink to the driver, so that each is seen once whatever fails in between.

The results of one subtask are numbered; a number is an *offset*. The sink says with which offset it begins, sends
blobs of results behind each other, and says up to which offset a completed checkpoint covers them. The driver answers
with the offset up to which it has everything. What it has not confirmed yet the sink keeps in its checkpoints:
after a restart it sends that again, and the driver drops what it has already (`jobmaster.collect_buffer`).

`ResultSender` is the sink's end without the wire, which is `control.collect_protocol`.
"""

from __future__ import annotations

import struct
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

#: Blobs, and bytes of them, that may be on their way: what a checkpoint has to hold at most.
WINDOW_BLOBS = 32
WINDOW_BYTES = 8 << 20

_RESULTS = b"R"
_COVERED = b"C"
_NUMBER = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class Results:
    """A pickled list of ``count`` results."""

    count: int
    blob: bytes


@dataclass(frozen=True, slots=True)
class Covered:
    """A completed checkpoint holds all results before this offset: they will not be made again."""

    offset: int


def encode_results(results: Results) -> bytes:
    """The frame for some results."""
    return _RESULTS + _NUMBER.pack(results.count) + results.blob


def encode_covered(offset: int) -> bytes:
    """The frame that says what a checkpoint covers."""
    return _COVERED + _NUMBER.pack(offset)


def decode_frame(frame: bytes) -> Results | Covered:
    """What a frame from a sink says."""
    kind, (number,) = frame[:1], _NUMBER.unpack_from(frame, 1)
    if kind == _RESULTS:
        return Results(number, frame[1 + _NUMBER.size :])
    if kind == _COVERED:
        return Covered(number)
    raise ValueError(
        f"expected results or an offset from a collecting sink, got a frame of the kind {kind!r}"
    )


def encode_received(offset: int) -> bytes:
    """The driver's answer: it has all results before this offset."""
    return _NUMBER.pack(offset)


def decode_received(frame: bytes) -> int:
    """The offset of an answer."""
    (offset,) = _NUMBER.unpack(frame)
    return int(offset)


class ResultOutput(Protocol):
    """The way to the driver as a sink sees it."""

    def send(self, results: Results) -> None:
        """Send results; may wait while the driver does not read them."""
        ...

    def covered(self, offset: int) -> None:
        """A completed checkpoint holds all results before this offset."""
        ...

    def unconfirmed(self) -> tuple[int, list[Results]]:
        """What the driver has not confirmed, and the offset at which that begins."""
        ...

    def close(self) -> None:
        """Everything has been sent; returns when the driver has it."""
        ...


class ResultSender:
    """Numbers results and keeps those that the driver has not confirmed. May be used from two threads."""

    def __init__(self, start: int, send_frame: Callable[[bytes], None]) -> None:
        self._send_frame = send_frame
        self._lock = threading.Lock()
        self._confirmed = start
        self._end = start
        self._waiting: deque[Results] = deque()
        self._bytes = 0

    @property
    def has_room(self) -> bool:
        """Whether more may be sent before the driver has confirmed something."""
        return len(self._waiting) < WINDOW_BLOBS and self._bytes < WINDOW_BYTES

    def send(self, results: Results) -> None:
        """Send results and keep them."""
        with self._lock:
            self._waiting.append(results)
            self._bytes += len(results.blob)
            self._end += results.count
        self._send_frame(encode_results(results))

    def covered(self, offset: int) -> None:
        """Say what a completed checkpoint covers."""
        self._send_frame(encode_covered(offset))

    def received(self, offset: int) -> None:
        """The driver has everything before ``offset``."""
        with self._lock:
            while self._waiting and self._confirmed + self._waiting[0].count <= offset:
                results = self._waiting.popleft()
                self._bytes -= len(results.blob)
                self._confirmed += results.count

    def unconfirmed(self) -> tuple[int, list[Results]]:
        """What the driver has not confirmed, and the offset at which that begins."""
        with self._lock:
            return self._confirmed, list(self._waiting)
