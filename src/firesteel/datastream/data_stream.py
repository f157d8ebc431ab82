"""Streams of all kinds; at PyFlink's path."""

from firesteel.datastream.closeable_iterator import CloseableIterator
from firesteel.datastream.connected_streams import BroadcastConnectedStream, BroadcastStream, ConnectedStreams
from firesteel.datastream.data_stream_sink import DataStreamSink
from firesteel.datastream.keyed_stream import KeyedStream
from firesteel.datastream.split_stream import OutputSelector, SplitStream
from firesteel.datastream.stream import DataStream
from firesteel.datastream.windowed_stream import AllWindowedStream, WindowedStream

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
