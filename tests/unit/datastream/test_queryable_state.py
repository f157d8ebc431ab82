"""What programs say about queryable state, and what is refused."""

from __future__ import annotations

import pickle

import pytest

from firesteel.common import Types
from firesteel.common.errors import InvalidArgumentError, ProgramError, WrongArgumentError
from firesteel.datastream import StreamExecutionEnvironment
from firesteel.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from firesteel.queryable_state import QueryableStateClient


def test_a_descriptor_has_one_queryable_name() -> None:
    descriptor = ValueStateDescriptor("count", Types.LONG())
    assert not descriptor.is_queryable()
    assert descriptor.get_queryable_state_name() is None
    descriptor.set_queryable("counts")
    assert descriptor.is_queryable()
    assert pickle.loads(pickle.dumps(descriptor)).get_queryable_state_name() == "counts"
    with pytest.raises(
        ProgramError, match=r"ValueStateDescriptor\('count'\) is queryable as 'counts' already"
    ):
        descriptor.set_queryable("sums")
    for bad in ("", None, 3):
        with pytest.raises(WrongArgumentError, match="needs the name under which others ask"):
            ValueStateDescriptor("count", Types.LONG()).set_queryable(bad)  # type: ignore[arg-type]


def test_a_stream_ends_in_value_or_reducing_state_only() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    keyed = env.from_collection([1, 2]).key_by(lambda value: value, key_type=Types.LONG())
    sink = keyed.as_queryable_state("newest")
    assert repr(sink) == "DataStreamSink('Queryable state: newest')"
    assert sink.get_queryable_state_name() == "newest"
    assert sink.get_key_type() == Types.LONG()
    reducing = ReducingStateDescriptor("sum", lambda a, b: a + b, Types.LONG())
    assert keyed.as_queryable_state("sums", reducing).uid("sums").get_state_descriptor().get_name() == "sum"
    for bad in (
        ListStateDescriptor("l", Types.LONG()),
        MapStateDescriptor("m", Types.LONG(), Types.LONG()),
        "newest",
    ):
        with pytest.raises(WrongArgumentError, match="a ValueStateDescriptor or a ReducingStateDescriptor"):
            keyed.as_queryable_state("all", bad)  # type: ignore[arg-type]
    with pytest.raises(WrongArgumentError, match="needs the name"):
        keyed.as_queryable_state("")
    named = ValueStateDescriptor("v", Types.LONG())
    named.set_queryable("values")
    assert keyed.as_queryable_state("values", named).get_state_descriptor() is named
    with pytest.raises(ProgramError, match="is queryable as 'values' already, and not as 'others'"):
        keyed.as_queryable_state("others", named)


def test_a_client_refuses_what_cannot_be() -> None:
    for host, port in (("", 8081), ("localhost", 0), ("localhost", "8081")):
        with pytest.raises(InvalidArgumentError):
            QueryableStateClient(host, port)  # type: ignore[arg-type]
    with QueryableStateClient() as client:
        descriptor = ValueStateDescriptor("x", Types.LONG())
        with pytest.raises(WrongArgumentError, match="needs the type of the key"):
            client.get_kv_state("a" * 32, "x", "ada", str, descriptor)  # type: ignore[arg-type]
        with pytest.raises(WrongArgumentError, match="needs a descriptor"):
            client.get_kv_state("a" * 32, "x", "ada", Types.STRING(), "x")  # type: ignore[arg-type]
        with pytest.raises(ProgramError, match="key: expected Long, got 'ada'"):
            client.get_kv_state("a" * 32, "x", "ada", Types.LONG(), descriptor)
