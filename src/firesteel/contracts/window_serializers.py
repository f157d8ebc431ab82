"""How windows are written as bytes; assigners name one of these, as in PyFlink."""

from __future__ import annotations

import struct
from io import BytesIO

from firesteel.common._override import override
from firesteel.common.serializer import TypeSerializer
from firesteel.contracts.windows import CountWindow, GlobalWindow, TimeWindow

__all__ = ["CountWindowSerializer", "GlobalWindowSerializer", "TimeWindowSerializer"]

_TIME = struct.Struct(">qq")
_COUNT = struct.Struct(">q")
_GLOBAL = b"\0"


class TimeWindowSerializer(TypeSerializer[TimeWindow]):
    """Start and end as two 8-byte integers."""

    @override
    def serialize(self, element: TimeWindow, stream: BytesIO) -> None:
        stream.write(_TIME.pack(element.start, element.end))

    @override
    def deserialize(self, stream: BytesIO) -> TimeWindow:
        return TimeWindow(*_TIME.unpack(stream.read(_TIME.size)))


class CountWindowSerializer(TypeSerializer[CountWindow]):
    """The number of the window as an 8-byte integer."""

    @override
    def serialize(self, element: CountWindow, stream: BytesIO) -> None:
        stream.write(_COUNT.pack(element.id))

    @override
    def deserialize(self, stream: BytesIO) -> CountWindow:
        return CountWindow(*_COUNT.unpack(stream.read(_COUNT.size)))


class GlobalWindowSerializer(TypeSerializer[GlobalWindow]):
    """One byte: there is only one such window."""

    @override
    def serialize(self, element: GlobalWindow, stream: BytesIO) -> None:
        stream.write(_GLOBAL)

    @override
    def deserialize(self, stream: BytesIO) -> GlobalWindow:
        stream.read(len(_GLOBAL))
        return GlobalWindow.get()
