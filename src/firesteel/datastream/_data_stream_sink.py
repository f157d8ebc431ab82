"""The end of a stream: a sink, to be named and configured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from firesteel.common._override import override
from firesteel.common.errors import UnsupportedOperationError
from firesteel.datastream._operator_settings import SinkSettings
from firesteel.datastream._other_names import OF_SINKS

if TYPE_CHECKING:
    from firesteel.datastream.stream_execution_environment import StreamExecutionEnvironment

__all__ = ["DataStreamSink"]


class DataStreamSink(SinkSettings):
    """A sink that has been added to a stream."""

    _elsewhere = OF_SINKS

    def __init__(self, environment: StreamExecutionEnvironment, node: int) -> None:
        self._env = environment
        self._node_id = node

    @override
    def _settable_node(self, setter: str) -> int:
        return self._node_id

    def on_error(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Not on a sink: what it could not write would be lost without a trace."""
        raise UnsupportedOperationError(
            "on_error() is not supported on a sink: nobody can tell what a sink has written of a record for which it raised; "
            "make sure in a map() or filter() before it that it can write its records, and call on_error() there"
        )

    @override
    def __repr__(self) -> str:
        return f"DataStreamSink({self._env._graph[self._node_id].name!r})"
