"""Whatever bytes come: the REST interface answers with a 4xx and a sentence, or hangs up, and goes on to serve others."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firesteel import launch
from firesteel.common import WatermarkStrategy
from firesteel.rest.patient_protocol import PatientProtocol
from firesteel.rest.service import RestService
from firesteel.rest.settings import RestSettings
from firesteel.testing import ScriptedSource, WaitForever, simulated_environment

PATIENCE = 60.0

_word = st.binary(min_size=0, max_size=40)
_token = st.text(st.characters(codec="latin-1", exclude_characters="\r\n"), max_size=40).map(
    lambda text: text.encode("latin-1")
)
_line = st.builds(
    lambda method, path, version: b" ".join((method, path, version)),
    st.sampled_from(
        [b"GET", b"POST", b"PATCH", b"DELETE", b"PUT", b"OPTIONS", b"TRACE", b"CONNECT", b"", b"get"]
    )
    | _token,
    st.sampled_from(
        [
            b"/jobs",
            b"/jobs/JOB",
            b"/jobs/JOB/stop",
            b"/v1/jobs/JOB/savepoints",
            b"*",
            b"//",
            b"/%",
            b"/%zz%00",
        ]
    )
    | _token,
    st.sampled_from([b"HTTP/1.1", b"HTTP/1.0", b"HTTP/2", b"HTTP/1.1 x", b""]),
)
_header = st.builds(
    lambda name, value: name + b": " + value,
    st.sampled_from(
        [b"Host", b"Content-Length", b"Transfer-Encoding", b"Connection", b"Origin", b"Expect", b"Upgrade"]
    )
    | _token,
    st.sampled_from(
        [
            b"localhost",
            b"evil.example",
            b"0",
            b"5",
            b"-1",
            b"99999999999999999999",
            b"chunked",
            b"close",
            b"100-continue",
        ]
    )
    | _token,
)
_body = (
    st.sampled_from([b"", b"{}", b"{]", b'{"drain": 1}', b"5\r\nabcde\r\n0\r\n\r\n", b"zz\r\n", b"[" * 5000])
    | _word
)
_request = st.builds(
    lambda line, headers, body: b"\r\n".join([line, *headers, b"", body]),
    _line,
    st.lists(_header, max_size=5),
    _body,
)
_bytes = st.lists(_request | st.binary(max_size=200), min_size=1, max_size=3).map(b"".join)


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[RestService, Any]]:
    service = RestService(RestSettings(most_body_bytes=10_000))
    patch = pytest.MonkeyPatch()
    patch.setattr(
        PatientProtocol, "request_seconds", 0.1
    )  # who does not go on is told so, and the test goes on
    env = simulated_environment()
    env.from_source(ScriptedSource([WaitForever()]), WatermarkStrategy.no_watermarks(), "Waiting").print()
    with launch.observe_jobs(service):
        client: Any = env.execute_async("a job")
        yield service, client
        client.cancel().result()
    service.close()
    patch.undo()


@settings(max_examples=80)
@given(sent=_bytes)
def test_no_bytes_harm_a_job_or_the_service(served: tuple[RestService, Any], sent: bytes) -> None:
    service, client = served
    # Nobody who guesses hits the id of the job: what changes something is refused for what it is, not for luck.
    for status, body in _answers(service, sent.replace(b"JOB", b"0" * 32)):
        assert status in (200, 204, 304) or 400 <= status < 500 or status == 501, (status, body)
        if status >= 400:
            assert json.loads(body)["errors"][0]
    assert not client.is_over()
    assert _answers(service, b"GET /config HTTP/1.1\r\nHost: localhost\r\n\r\n")[0][0] == 200


def _answers(service: RestService, sent: bytes) -> list[tuple[int, bytes]]:
    """Status and body of everything that comes back until the service hangs up."""
    with socket.create_connection(("127.0.0.1", service.port), timeout=PATIENCE) as sock:
        with contextlib.suppress(ConnectionError):
            sock.sendall(sent)
        received = b""
        with contextlib.suppress(ConnectionError):
            while part := sock.recv(1 << 16):
                received += part
    found = []
    while received:
        head, _, rest = received.partition(b"\r\n\r\n")
        status = int(head.split(b" ", 2)[1])
        lengths = [
            line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")
        ]
        length = int(lengths[0]) if lengths else 0
        if status != 100:
            found.append((status, rest[:length]))
        received = rest[length:]
    return found
