"""Any records round trip through the wire format."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from firesteel.runtime.elements import Chunk
from firesteel.runtime.wire_format import decode, encode, read_header
from firesteel_support.strategies import rows, values


@given(
    records=st.one_of(st.lists(values(), min_size=1, max_size=8), st.lists(rows(), min_size=1, max_size=8)),
    timed=st.booleans(),
)
def test_chunks_round_trip(records: list[Any], timed: bool) -> None:
    chunk = Chunk(records, [*range(len(records))] if timed else None)
    payload = encode(chunk, 3, 2, 1, 9)
    received = decode(read_header(payload).kind, memoryview(payload))
    assert received == chunk
    assert isinstance(received, Chunk)
    assert list(map(type, received.values)) == list(map(type, records))
