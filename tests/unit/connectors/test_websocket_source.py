"""Messages of a websocket server that behaves as the test wants."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from websockets.http11 import Response
from websockets.sync.server import Server, ServerConnection, serve

from firesteel.common import WatermarkStrategy
from firesteel.common.errors import DeserializationError, InvalidArgumentError, JobExecutionError
from firesteel.contracts.dead_letter import DeadLetter
from firesteel.datastream import OutputTag
from firesteel.datastream.connectors.base import Backoff
from firesteel.datastream.connectors.websocket import WebSocketSource
from firesteel.datastream.formats.json import JsonSchema
from firesteel.testing import CheckpointHarness, simulated_environment

QUICK = Backoff(first=0.0, most=0.0, tries=2)
Serve = Callable[..., str]


@pytest.fixture
def served() -> Iterator[Serve]:
    """Starts a server with a handler, and gives its URL."""
    running: list[tuple[Server, threading.Thread]] = []

    def start(handler: Callable[[ServerConnection], None], **options: Any) -> str:
        server = serve(handler, "127.0.0.1", 0, **options)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        running.append((server, thread))
        return f"ws://127.0.0.1:{server.socket.getsockname()[1]}/feed"

    yield start
    for server, thread in running:
        server.shutdown()
        thread.join()


def read(source: WebSocketSource, count: int) -> list[Any]:
    """So many records, or all until the end."""
    harness = CheckpointHarness(source)
    try:
        while len(harness[0].output.values) < count and not harness[0].source.ended:
            harness.woken.clear()
            if not harness[0].poll(7) and not harness[0].source.ended:
                assert harness.woken.wait(60), "nobody woke the task"
        return harness[0].output.values
    finally:
        harness.close()


def test_messages_come_in_order_after_what_is_said(served: Serve) -> None:
    def feed(connection: ServerConnection) -> None:
        wanted = connection.recv()
        for number in range(3000):
            connection.send(f"{wanted} {number}")

    source = WebSocketSource(served(feed), say=("prices",), reconnect=False)
    assert read(source, 10_000) == [f"prices {number}" for number in range(3000)]


def test_bytes_and_what_is_made_of_them(served: Serve) -> None:
    url = served(lambda connection: connection.send(b"41"))
    assert read(WebSocketSource(url, reconnect=False), 2) == [b"41"]
    assert read(WebSocketSource(url, reconnect=False, deserialize=lambda m: int(m) + 1), 2) == [42]


def test_a_lost_connection_is_made_again(served: Serve) -> None:
    connections: list[int] = []

    def feed(connection: ServerConnection) -> None:
        connections.append(1)
        connection.send(f"message {len(connections)}")
        connection.close(1011, "out of order")

    values = read(WebSocketSource(served(feed), backoff=QUICK), 4)
    assert values == ["message 1", "message 2", "message 3", "message 4"]


def test_a_server_that_only_closes_fails_the_job(served: Serve) -> None:
    url = served(lambda connection: connection.close(1011, "out of order"))
    with pytest.raises(JobExecutionError, match=r"reading ws://.*/feed failed in 3 tries: .*out of order"):
        read(WebSocketSource(url, backoff=QUICK), 1)


def test_a_server_that_is_not_there_fails_the_job_with_its_address_and_no_secret() -> None:
    with pytest.raises(
        JobExecutionError, match=r"reading ws://127.0.0.1:1/feed failed in 3 tries: "
    ) as caught:
        read(WebSocketSource("ws://127.0.0.1:1/feed?token=hidden", backoff=QUICK), 1)
    assert "hidden" not in str(caught.value)


def test_a_refusal_is_told_at_once_and_a_busy_server_is_asked_again(served: Serve) -> None:
    asked: list[str] = []

    def answer(connection: ServerConnection, request: Any) -> Response:
        asked.append(request.headers.get("Authorization", ""))
        return connection.respond(401 if asked[-1] else 503, "no entry")

    url = served(lambda connection: None, process_request=answer)
    with pytest.raises(
        JobExecutionError, match=r"answers 401: .*no entry.*check the address, and what it wants"
    ):
        read(WebSocketSource(url, headers={"Authorization": "x"}, backoff=QUICK), 1)
    assert asked == ["x"]
    with pytest.raises(JobExecutionError, match=r"failed in 3 tries: .*answers 503"):
        read(WebSocketSource(url, backoff=QUICK), 1)


def three(connection: ServerConnection) -> None:
    for message in ("1", "many", b"3"):
        connection.send(message)


def test_a_message_that_cannot_be_deserialized_is_shown(served: Serve) -> None:
    sentence = r"class int raised ValueError.*the message is b'many', of url 'ws://.*/feed'"
    with pytest.raises(DeserializationError, match=sentence):
        read(WebSocketSource(served(three), deserialize=int), 3)


@pytest.mark.parametrize("deserialize", [int, JsonSchema(int)])
def test_messages_that_do_not_fit_go_to_a_side_output(served: Serve, deserialize: Any) -> None:
    url, bad = served(three), OutputTag("bad")
    env = simulated_environment(parallelism=1)
    source = WebSocketSource(f"{url}?token=hidden", deserialize=deserialize, reconnect=False)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "feed").on_error(dead_letter=bad)
    with numbers.union(numbers.get_side_output(bad)).execute_and_collect() as results:
        found = list(results)
    assert [number for number in found if isinstance(number, int)] == [1, 3]
    (letter,) = [letter for letter in found if isinstance(letter, DeadLetter)]
    assert (letter.value, letter.where) == (b"many", {"url": url})


def test_what_a_function_makes_of_messages_may_be_one_object(served: Serve) -> None:
    shared: list[int] = []
    env = simulated_environment(parallelism=1)
    source = WebSocketSource(served(three), deserialize=lambda _: shared, reconnect=False)
    lists = env.from_source(source, WatermarkStrategy.no_watermarks(), "feed")
    changed = lists.map(lambda each: each.append(1) or each)
    with changed.execute_and_collect() as results:
        assert list(results) == [[1], [1], [1]]


def test_another_kind_of_url_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="ws:// or wss://, got 'http://a/feed'") as caught:
        WebSocketSource("http://me:hidden@a/feed?token=hidden")
    assert "hidden" not in str(caught.value)
