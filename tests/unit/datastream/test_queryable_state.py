"""What programs say about queryable state, and what is refused."""

from __future__ import annotations

import pickle
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

from firesteel.common import Types
from firesteel.common.errors import (
    InvalidArgumentError,
    ProgramError,
    UnknownLocationError,
    WrongArgumentError,
)
from firesteel.datastream import StreamExecutionEnvironment
from firesteel.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from firesteel.queryable_state import QueryableStateClient

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])


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


class _Recording(BaseHTTPRequestHandler):
    """Answers every look-up with 3, and notes who has asked."""

    protocol_version = "HTTP/1.1"
    seen: ClassVar[list[tuple[str, str | None]]] = []

    def do_GET(self) -> None:
        self.seen.append((self.path, self.headers["Authorization"]))
        content = b'{"name": "x", "value": 3}'
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def port() -> Iterator[int]:
    _Recording.seen.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Recording)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


def test_a_client_shows_its_token_and_nobody_sees_it_without_tls_if_it_is_wanted(port: int) -> None:
    descriptor = ValueStateDescriptor("x", Types.LONG())
    with QueryableStateClient("127.0.0.1", port, token="secret") as client:
        states = [client.get_kv_state("a" * 32, "x", ("ö", 1), PAIR, descriptor).result() for _ in range(2)]
    assert [state.value() for state in states] == [3, 3]
    path = f"/v1/jobs/{'a' * 32}/queryable-states/lookup?name=x&key=%5B%22%5Cu00f6%22%2C+1%5D"
    assert _Recording.seen == [(path, "Bearer secret")] * 2
    _Recording.seen.clear()
    with QueryableStateClient("127.0.0.1", port, timeout=5, tls=ssl.create_default_context()) as client:
        future = client.get_kv_state("a" * 32, "x", ("a", 1), PAIR, descriptor)
        with pytest.raises(UnknownLocationError, match=r"https://127\.0\.0\.1:\d+ does not answer: SSLError"):
            future.result()
    assert _Recording.seen == []


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
