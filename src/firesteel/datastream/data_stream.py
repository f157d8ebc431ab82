"""Streams of all kinds; at PyFlink's path."""

from firesteel.datastream._closeable_iterator import CloseableIterator
from firesteel.datastream._connected_streams import (
    BroadcastConnectedStream,
    BroadcastStream,
    ConnectedStreams,
)
from firesteel.datastream._data_stream_sink import DataStreamSink
from firesteel.datastream._keyed_stream import KeyedStream
from firesteel.datastream._split_stream import OutputSelector, SplitStream
from firesteel.datastream._stream import DataStream
from firesteel.datastream._windowed_stream import AllWindowedStream, WindowedStream

__all__ = [
    "AllWindowedStream",
    "BroadcastConnectedStream",
    "BroadcastStream",
    "CloseableIterator",
    "ConnectedStreams",
    "DataStream",
    "DataStreamSink",
    "KeyedStream",
    "OutputSelector",
    "SplitStream",
    "WindowedStream",
]
