"""What the sink for OpenSearch does with answers that a healthy server seldom gives."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from firesteel.common.errors import InvalidArgumentError, JobExecutionError, UserCodeError
from firesteel.datastream.connectors.base import Backoff
from firesteel.datastream.connectors.opensearch import OpenSearchSink
from firesteel.testing import CheckpointHarness

QUICK = Backoff(first=0.0, most=0.0, tries=2)


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.answer(self.server.greeting, {"version": {"number": "2.19.1"}})  # type: ignore[attr-defined]

    def do_POST(self) -> None:
        server: Any = self.server
        lines = self.rfile.read(int(self.headers["Content-Length"])).splitlines()
        server.requests.append([json.loads(line) for line in lines])
        statuses = server.answers.pop(0)
        if isinstance(statuses, int):
            self.answer(statuses, {"error": "as the test wants"})
            return
        ids = [line["index"]["_id"] for line in server.requests[-1][::2]]
        items = [result(name, status) for name, status in zip(ids, statuses, strict=True)]
        self.answer(200, {"errors": any(status >= 400 for status in statuses), "items": items})

    def answer(self, status: int, body: Any) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        pass


def result(name: str, status: int) -> dict[str, Any]:
    error = {"error": {"type": "too_much", "reason": "the queue is full"}} if status >= 400 else {}
    return {"index": {"_index": "numbers", "_id": name, "status": status, **error}}


@pytest.fixture
def server() -> Iterator[Any]:
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.requests, server.answers, server.greeting = [], [], 200
    server.url = f"http://me:secret@127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def write(server: Any, records: list[Any], **options: Any) -> list[list[str]]:
    """Write records (an id and a number); gives what each request had of them."""
    sink = OpenSearchSink(
        server.url,
        "numbers",
        id_of=lambda r: r[0],
        document_of=lambda r: {"n": r[1]},
        backoff=QUICK,
        **options,
    )
    harness = CheckpointHarness(sink)
    try:
        harness[0].process(records)
        harness.checkpoint(1)
    finally:
        harness.close()
    return [
        [
            f"{action['index']['_id']}{document['n']}"
            for action, document in zip(body[::2], body[1::2], strict=True)
        ]
        for body in server.requests
    ]


def test_documents_that_the_server_was_too_busy_for_are_sent_again(server: Any) -> None:
    server.answers = [[201, 429, 201, 503], [201, 201]]
    records = [("a", 1), ("b", 2), ("c", 3), ("d", 4)]
    assert write(server, records) == [["a1", "b2", "c3", "d4"], ["b2", "d4"]]


def test_a_document_that_is_sent_again_does_not_overtake_a_later_one(server: Any) -> None:
    server.answers = [[429, 201, 201], [201, 201]]
    assert write(server, [("a", 1), ("b", 2), ("a", 3)]) == [["a1", "b2", "a3"], ["a1", "a3"]]


def test_tries_are_counted_anew_when_some_documents_were_taken(server: Any) -> None:
    server.answers = [[429] * left + [201] for left in (5, 4, 3, 2, 1, 0)]
    assert len(write(server, [(name, 1) for name in "abcdef"])) == 6


def test_a_server_that_stays_busy_fails_the_job(server: Any) -> None:
    server.answers = [429, [503], [429]]
    with pytest.raises(
        JobExecutionError, match=r"\(1 records\) failed in 3 tries: .*was too busy for 1 of 1 documents"
    ) as caught:
        write(server, [("a", 1)])
    assert "secret" not in str(caught.value)


def test_what_is_refused_for_good_is_told_with_the_record(server: Any) -> None:
    server.answers = [[400, 429]]
    with pytest.raises(
        JobExecutionError,
        match=r"refuses 1 documents.*'a' of the index 'numbers': 400 too_much: .*\('a', 1\)",
    ):
        write(server, [("a", 1), ("b", 2)])
    server.answers = [[400] * 7]
    with pytest.raises(JobExecutionError, match=r"refuses 7 documents.*and 2 more"):
        write(server, [(name, 1) for name in "abcdefg"])


def test_a_wrong_password_is_told_at_once(server: Any) -> None:
    server.greeting = 401
    with pytest.raises(JobExecutionError, match=r"answers 401: .*check user and password") as caught:
        write(server, [])
    assert "secret" not in str(caught.value)


def test_a_server_that_is_not_there_fails_the_job_with_its_address() -> None:
    sink = OpenSearchSink("http://me:secret@127.0.0.1:1", "numbers", backoff=QUICK)
    with pytest.raises(
        JobExecutionError, match=r"writing to http://127.0.0.1:1 .*failed in 3 tries: .*refused"
    ) as caught:
        CheckpointHarness(sink)
    assert "secret" not in str(caught.value)


def test_what_cannot_be_a_host_or_a_document_is_refused(server: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="http:// or https://, got 'localhost"):
        OpenSearchSink("localhost:9200", "a")
    with pytest.raises(InvalidArgumentError, match="at least one host"):
        OpenSearchSink([], "a")
    harness = CheckpointHarness(OpenSearchSink(server.url, "a"))
    harness[0].process([7])
    with pytest.raises(UserCodeError, match=r"a mapping of names to values, got 7 .*document_of"):
        harness.checkpoint(1)
    harness.close()
