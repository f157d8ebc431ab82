"""Asks the REST interfaces of drivers, over connections that are kept."""

from __future__ import annotations

import contextlib
import http.client
import json
import select
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

from firesteel.rest.endpoints import SentRequest

__all__ = ["DriverAnswer", "DriverClient", "DriverGoneError", "target_of"]

#: Longer than any answer of a driver takes: dataflows with thousands of subtasks on a busy machine.
_SECONDS = 30.0
_KEPT_CONNECTIONS = 16
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
        """The answer, read."""
        return json.loads(self.content)


@dataclass(slots=True)
class DriverClient:
    """May be used from any thread."""

    _idle: dict[str, list[http.client.HTTPConnection]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

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
        """Close everything."""
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
