"""Asks the REST interfaces of drivers, over connections that are kept."""

from __future__ import annotations

import contextlib
import http.client
import json
import select
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

from firesteel.rest.endpoints import SentRequest

__all__ = ["DriverAnswer", "DriverClient", "DriverGoneError", "target_of"]

#: Longer than any answer of a driver takes: dataflows with thousands of subtasks on a busy machine.
_SECONDS = 30.0
_KEPT_CONNECTIONS = 16
#: How long somebody waits for an earlier answer before the same is asked beside it: some answers take seconds.
_SHARED_SECONDS = 0.1
#: Headers of a request that matter to who answers it; those about the connection are each connection's own.
_PASSED_ON = ("accept", "authorization", "content-type", "if-none-match")


class DriverGoneError(Exception):
    """Nobody answers where a driver was."""


@dataclass(frozen=True, slots=True)
class DriverAnswer:
    """What a driver has answered, as it is."""

    status: int
    content: bytes
    media_type: str = "application/json"

    def json(self) -> Any:
        """The content, read as JSON; ValueError when it is none."""
        return json.loads(self.content)


class _SharedAnswers:
    """Answers for many who ask the same at once, as everybody does who looks at a job's page.

    A driver is asked one such thing at a time. Whoever comes meanwhile waits, and all of them share the next answer. It was asked for
    after the last of them had come, so nobody gets one that is older than the question.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked: dict[object, Future[DriverAnswer]] = {}
        self._next: dict[object, Future[DriverAnswer]] = {}

    def get(self, question: object, ask: Callable[[], DriverAnswer]) -> DriverAnswer:
        """What ``ask`` answers, called by one of those who wait; raises what it raises, for all of them."""
        mine: Future[DriverAnswer] = Future()
        with self._lock:
            if (shared := self._next.get(question)) is None:
                earlier = self._asked.get(question)
                (self._asked if earlier is None else self._next)[question] = mine
        if shared is not None:
            return shared.result()
        if earlier is not None:
            wait([earlier], _SHARED_SECONDS)
            with self._lock:  # who comes from now on wants a later answer
                self._asked[question] = self._next.pop(question)
        try:
            mine.set_result(ask())
        except BaseException as error:  # noqa: BLE001 - others wait for it, whatever it is
            mine.set_exception(error)
        finally:
            with self._lock:
                if self._asked.get(question) is mine:
                    del self._asked[question]
        return mine.result()


@dataclass(slots=True)
class DriverClient:
    """May be used from any thread."""

    _idle: dict[str, list[http.client.HTTPConnection]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _shared: _SharedAnswers = field(default_factory=_SharedAnswers)

    def ask(
        self,
        url: str,
        method: str,
        path: str,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
    ) -> DriverAnswer:
        """Ask the driver at ``url``; raises `DriverGoneError` when it does not answer."""
        passed_on = {name: value for name, value in (headers or {}).items() if name in _PASSED_ON}
        if method != "GET" or body:
            return self._ask_now(url, method, path, body, passed_on)
        question = (url, path, *sorted(passed_on.items()))  # with the token: it decides what is answered
        return self._shared.get(question, lambda: self._ask_now(url, method, path, body, passed_on))

    def _ask_now(
        self, url: str, method: str, path: str, body: bytes, passed_on: Mapping[str, str]
    ) -> DriverAnswer:
        # A connection that was kept may be closed at any moment. What is only read is asked for again then; what changes
        # something must not be asked for twice, so it gets a connection of its own.
        connection = self._take(url) if method in ("GET", "HEAD") else None
        was_kept = connection is not None
        if connection is None:
            connection = _open(url)
        try:
            return self._exchange(url, connection, method, path, body, passed_on)
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            if not was_kept:
                raise DriverGoneError(f"the driver at {url} does not answer: {error}") from error
        connection = _open(url)
        try:
            return self._exchange(url, connection, method, path, body, passed_on)
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise DriverGoneError(f"the driver at {url} does not answer: {error}") from error

    def close(self) -> None:
        """Close the connections that are kept for later requests."""
        with self._lock:
            idle, self._idle = self._idle, {}
        for connections in idle.values():
            for connection in connections:
                connection.close()

    def _exchange(
        self,
        url: str,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        body: bytes,
        headers: Mapping[str, str],
    ) -> DriverAnswer:
        connection.request(method, path, body or None, dict(headers))
        response = connection.getresponse()
        answer = DriverAnswer(
            response.status, response.read(), response.headers.get("Content-Type", "application/json")
        )
        if response.will_close:
            connection.close()
        else:
            self._keep(url, connection)
        return answer

    def _take(self, url: str) -> http.client.HTTPConnection | None:
        with self._lock:
            idle = self._idle.get(url)
            return idle.pop() if idle else None

    def _keep(self, url: str, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            self._close_ended()
            idle = self._idle.setdefault(url, [])
            if len(idle) < _KEPT_CONNECTIONS:
                idle.append(connection)
                return
        with contextlib.suppress(OSError):
            connection.close()

    def _close_ended(self) -> None:
        """Close what is left of drivers that have ended: nobody asks them again, and there may be thousands."""
        for url, connections in list(self._idle.items()):
            living = [each for each in connections if not _has_ended(each)]
            if living:
                self._idle[url] = living
            else:
                del self._idle[url]


def _has_ended(connection: http.client.HTTPConnection) -> bool:
    """Whether a connection over which nothing was asked has something to read: its end. If so, it is closed."""
    look = select.poll()
    look.register(connection.sock, select.POLLIN)
    if not look.poll(0):
        return False
    connection.close()
    return True


def target_of(sent: SentRequest) -> str:
    """What a request asks for, as it is written in another one: whatever came, as ASCII.

    >>> target_of(SentRequest(path="/jobs/ä b", query="get=ö,x%20y"))
    '/jobs/%C3%A4%20b?get=%C3%B6,x%20y'
    """
    query = quote(sent.query, safe="%=&,+;:@/?!$'()*~")
    return quote(sent.path) + (f"?{query}" if query else "")


def _open(url: str) -> http.client.HTTPConnection:
    parts = urlsplit(url)
    return http.client.HTTPConnection(parts.hostname or "localhost", parts.port, timeout=_SECONDS)
