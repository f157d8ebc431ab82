"""Who asks a driver the same at once shares answers, and none of them is older than its question."""

from __future__ import annotations

import itertools
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from firesteel.service import driver_client
from firesteel.service.driver_client import DriverAnswer, DriverClient, DriverGoneError, _SharedAnswers

_PATIENCE = 60.0


class Gate:
    """A question that counts how often it is asked, and answers with that number once it may."""

    def __init__(self) -> None:
        self.begun = 0
        self.entered = threading.Event()
        self.may_answer = threading.Event()

    def ask(self) -> DriverAnswer:
        self.begun += 1
        number = self.begun
        self.entered.set()
        assert self.may_answer.wait(_PATIENCE)
        return DriverAnswer(200, str(number).encode())


def await_waiting(shared: _SharedAnswers, number: int) -> None:
    """Wait until so many wait for the next answer beside the one who will ask for it."""
    deadline = threading.Event()
    for _ in range(int(_PATIENCE / 0.001)):
        asked_next: Future[DriverAnswer] | None = shared._next.get("page")
        if asked_next is not None and len(asked_next._condition._waiters) == number:  # type: ignore[attr-defined]
            return
        deadline.wait(0.001)
    raise AssertionError(f"not {number} are waiting")


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_client, "_SHARED_SECONDS", _PATIENCE)


@pytest.mark.usefixtures("patient")
def test_those_who_come_while_it_is_asked_share_the_next_answer() -> None:
    shared, gate = _SharedAnswers(), Gate()
    with ThreadPoolExecutor(4) as threads:
        first = threads.submit(shared.get, "page", gate.ask)
        assert gate.entered.wait(_PATIENCE)
        others = [threads.submit(shared.get, "page", gate.ask) for _ in range(3)]
        await_waiting(shared, 2)
        gate.may_answer.set()
        assert first.result().content == b"1"
        assert [each.result().content for each in others] == [b"2", b"2", b"2"]
    assert not shared._asked
    assert not shared._next


@pytest.mark.usefixtures("patient")
def test_those_who_share_a_question_share_its_failure() -> None:
    shared, gate = _SharedAnswers(), Gate()

    def fail() -> DriverAnswer:
        gate.ask()
        raise DriverGoneError("gone")

    with ThreadPoolExecutor(3) as threads:
        first = threads.submit(shared.get, "page", gate.ask)
        assert gate.entered.wait(_PATIENCE)
        others = [threads.submit(shared.get, "page", fail) for _ in range(2)]
        await_waiting(shared, 1)
        gate.may_answer.set()
        assert first.result().status == 200
        for each in others:
            with pytest.raises(DriverGoneError):
                each.result()
    assert shared.get("page", gate.ask).content == b"3"


def test_an_answer_that_takes_long_is_not_waited_for() -> None:
    shared, slow, quick = _SharedAnswers(), Gate(), Gate()
    quick.may_answer.set()
    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(shared.get, "page", slow.ask)
        assert slow.entered.wait(_PATIENCE)
        assert shared.get("page", quick.ask).content == b"1"
        assert not first.done()
        slow.may_answer.set()
        assert first.result().content == b"1"
    assert not shared._asked
    assert not shared._next


def test_no_answer_is_older_than_its_question() -> None:
    shared, asked = _SharedAnswers(), itertools.count(1)
    newest = [0]

    def ask() -> DriverAnswer:
        number = newest[0] = next(asked)
        return DriverAnswer(200, str(number).encode())

    def ask_often() -> int:
        for _ in range(500):
            before = newest[0]
            assert int(shared.get("page", ask).content) > before
        return 500

    with ThreadPoolExecutor(8) as threads:
        assert sum(each.result() for each in [threads.submit(ask_often) for _ in range(8)]) == 4000


def answering(listener: socket.socket, are_there: threading.Barrier) -> Callable[[], None]:
    """A driver that answers one request with the token of who asks, when others have asked, too."""

    def answer() -> None:
        connection, _ = listener.accept()
        with connection:
            request = connection.recv(1 << 16).decode()
            token = next(line for line in request.split("\r\n") if line.lower().startswith("authorization"))
            are_there.wait(_PATIENCE)
            body = token.split()[-1].encode()
            head = f"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
            connection.sendall(head.encode() + body)

    return answer


@pytest.mark.usefixtures("patient")
def test_who_has_another_token_gets_an_answer_of_their_own() -> None:
    client, are_there = DriverClient(), threading.Barrier(2)
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(4) as threads:
        for _ in range(2):
            threads.submit(answering(listener, are_there))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        asked = [
            threads.submit(client.ask, url, "GET", "/jobs", headers={"authorization": f"Bearer {token}"})
            for token in ("one", "two")
        ]
        assert [each.result().content for each in asked] == [b"one", b"two"]
    client.close()
