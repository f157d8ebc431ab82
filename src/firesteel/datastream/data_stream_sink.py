"""The end of a stream: a sink, to be named and configured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firesteel.datastream.operator_settings import SinkSettings

if TYPE_CHECKING:
    from firesteel.datastream.stream_execution_environment import StreamExecutionEnvironment

__all__ = ["DataStreamSink"]


class DataStreamSink(SinkSettings):
    """A sink that has been added to a stream."""

    def __init__(self, environment: StreamExecutionEnvironment, node: int) -> None:
        self._env = environment
        self._node_id = node

    def _settable_node(self, setter: str) -> int:
        return self._node_id

    def __repr__(self) -> str:
        return f"DataStreamSink({self._env._graph[self._node_id].name!r})"
