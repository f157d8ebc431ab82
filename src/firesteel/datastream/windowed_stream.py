"""Streams divided by windows, with and without keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from firesteel.datastream.not_yet import not_yet

if TYPE_CHECKING:
    from firesteel.contracts.windows import WindowAssigner
    from firesteel.datastream.keyed_stream import KeyedStream
    from firesteel.datastream.stream import DataStream

__all__ = ["AllWindowedStream", "WindowedStream"]


class WindowedStream:
    """A stream divided by keys and windows."""

    def __init__(self, keyed_stream: KeyedStream, window_assigner: WindowAssigner[Any, Any] | None) -> None:
        raise not_yet("window()", "windows are")


class AllWindowedStream:
    """A stream divided by windows alone; its operators have one subtask."""

    def __init__(self, data_stream: DataStream, window_assigner: WindowAssigner[Any, Any]) -> None:
        raise not_yet("window_all()", "windows are")
