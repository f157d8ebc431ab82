"""Asks running jobs for their state: `QueryableStateClient`, and the states that it gives, which can only be read.

Flink's ``org.apache.flink.queryablestate.client``, for Python. See docs/queryable_state.md.
"""

from firesteel.queryable_state._client import QueryableStateClient
from firesteel.queryable_state._read_only_states import (
    ImmutableAggregatingState,
    ImmutableListState,
    ImmutableMapState,
    ImmutableReducingState,
    ImmutableValueState,
)

__all__ = [
    "ImmutableAggregatingState",
    "ImmutableListState",
    "ImmutableMapState",
    "ImmutableReducingState",
    "ImmutableValueState",
    "QueryableStateClient",
]
