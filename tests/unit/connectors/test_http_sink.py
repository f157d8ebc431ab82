"""Batches to an HTTP server that answers as the test wants."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from firesteel.common.errors import InvalidArgumentError, JobExecutionError
from firesteel.datastream.connectors import DeliveryGuarantee
from firesteel.datastream.connectors.base import Backoff
from firesteel.datastream.connectors.http import HttpSink
from firesteel.testing import CheckpointHarness, check_sink

QUICK = Backoff(first=0.0, most=0.0, tries=2)


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        server: Any = self.server
        body = self.rfile.read(int(self.headers["Content-Length"]))
        server.requests.append((dict(self.headers), body))
        status, headers, text = server.answers.pop(0) if server.answers else (200, {}, "")
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(text))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Any]:
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.requests, server.answers = [], []
    server.url = f"http://127.0.0.1:{server.server_port}/in"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def bodies(server: Any) -> list[Any]:
    return [json.loads(body) for _, body in server.requests]


def test_the_sink_passes_the_check(server: Any) -> None:
    def make() -> HttpSink:
        server.requests.clear()
        return HttpSink(server.url, batch_size=3)

    check_sink(
        make,
        lambda: [number for body in bodies(server) for number in body],
        guarantee=DeliveryGuarantee.AT_LEAST_ONCE,
        seeds=range(5),
    )


def write(sink: HttpSink, records: list[Any]) -> None:
    harness = CheckpointHarness(sink)
    try:
        harness[0].process(records)
        harness.checkpoint(1)
    finally:
        harness.close()


def test_bodies_and_headers_are_the_users(server: Any) -> None:
    lines = lambda records: "\n".join(records).encode()  # noqa: E731
    write(
        HttpSink(server.url, body_of=lines, content_type="text/plain", headers={"Authorization": "Bearer x"}),
        ["a", "b"],
    )
    headers, body = server.requests[0]
    assert body == b"a\nb"
    assert (headers["Content-Type"], headers["Authorization"]) == ("text/plain", "Bearer x")


def test_what_may_work_later_is_sent_again_with_the_same_key(server: Any) -> None:
    server.answers += [(503, {}, "busy"), (429, {"Retry-After": "0"}, "slow down")]
    write(HttpSink(server.url, backoff=QUICK), [1, 2])
    assert bodies(server) == [[1, 2]] * 3
    assert len({headers["Idempotency-Key"] for headers, _ in server.requests}) == 1


def test_every_batch_has_a_key_of_its_own(server: Any) -> None:
    write(HttpSink(server.url, batch_size=1), [1, 2])
    assert len({headers["Idempotency-Key"] for headers, _ in server.requests}) == 2


def test_a_server_that_stays_busy_fails_the_job(server: Any) -> None:
    server.answers += [(500, {}, "out of order")] * 3
    with pytest.raises(
        JobExecutionError,
        match=r"POST to http://127.*/in \(2 records\) failed in 3 tries: .*answers 500 .*'out of order'",
    ):
        write(HttpSink(server.url, backoff=QUICK), [1, 2])


def test_a_refusal_is_told_with_status_and_text_and_not_tried_again(server: Any) -> None:
    server.answers += [(422, {}, "field 'a' is missing")]
    with pytest.raises(JobExecutionError, match=r"answers 422 .*field 'a' is missing.*2 records was refused"):
        write(HttpSink(server.url, backoff=QUICK), [1, 2])
    assert len(server.requests) == 1


def test_a_success_that_refuses_records_fails_the_job(server: Any) -> None:
    server.answers += [(200, {}, "1 of 2 refused")]
    with pytest.raises(JobExecutionError, match="/in has refused records: 1 of 2 refused"):
        write(HttpSink(server.url, refused=lambda body: body.decode() or None), [1, 2])


def test_a_server_that_is_not_there_fails_the_job_with_its_address_and_no_secret() -> None:
    with pytest.raises(
        JobExecutionError, match=r"POST to http://127.0.0.1:1/in .*3 tries: .*refused"
    ) as caught:
        write(HttpSink("http://me:hidden@127.0.0.1:1/in?token=hidden", backoff=QUICK), [1])
    assert "hidden" not in str(caught.value)


def test_another_kind_of_url_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="http:// or https://, got 'ftp://a'"):
        HttpSink("ftp://a")
